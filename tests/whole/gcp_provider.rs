//! The gcp provider against the stand-in for Compute Engine.
//!
//! | file | is |
//! |---|---|
//! | [`stand`] | a stand-in, and providers that use it |
//! | [`backend`] | the backend of the conformance suite |
//! | [`refusals`] | what each of Google's errors is for those who call a provider |
//! | [`requests`] | how many requests a call takes |
//!
//! Every scenario has a stand-in of its own.

mod backend;
mod refusals;
mod requests;
mod stand;

use crate::conformance::rows;
use anyhow::ensure;
use futures::future::BoxFuture;
use stand::Stand;

type Run = Box<dyn for<'a> Fn(&'a Stand) -> BoxFuture<'a, anyhow::Result<()>> + Send + Sync>;

/// One scenario; see [`scenarios`].
pub struct Scenario {
    /// What is shown.
    pub name: String,
    run: Run,
}

impl Scenario {
    /// Runs it with a project of its own.
    ///
    /// # Errors
    /// What was not as promised, by us or by the stand-in.
    pub async fn run(&self) -> anyhow::Result<()> {
        let stand = Stand::new().await?;
        let outcome = (self.run)(&stand).await;
        let wrongs = stand.gce.take_wrongs();
        outcome?;
        ensure!(wrongs.is_empty(), "the stand-in's own faults: {wrongs:#?}");
        Ok(())
    }
}

/// The rows of the conformance suite, and what is promised of this provider alone.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    let conformance = rows().into_iter().map(|row| Scenario {
        name: format!("conformance::{}", row.name),
        run: Box::new(move |stand| Box::pin(async move { (row.run)(stand).await })),
    });
    macro_rules! scenarios {
        ($($module:ident::$name:ident),* $(,)?) => {
            [$(Scenario {
                name: stringify!($name).to_owned(),
                run: Box::new(|stand| Box::pin($module::$name(stand))),
            }),*]
        };
    }
    let own = scenarios![
        refusals::every_refusal_has_its_class,
        refusals::what_is_no_answer_is_transient,
        refusals::an_answer_that_is_lost_is_found_again,
        refusals::a_name_that_is_taken_is_looked_at,
        requests::a_create_is_one_request_and_a_look_one_more,
        requests::a_thousand_instances_are_listed_in_few_requests,
    ];
    conformance.chain(own).collect()
}
