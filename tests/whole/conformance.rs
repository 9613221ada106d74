//! What every provider promises, tested once: the rows run against any [`Provider`], and what only
//! a backend itself can do (an instance nobody marked, a cut connection) is its [`Backend`].

mod calls;
mod life;
mod log;
mod reports;

use actors::provider::contract::{
    CreateRequest, ErrorClass, InstanceState, Provider, ProviderError, ProviderId,
};
use anyhow::{Context, bail};
use futures::future::BoxFuture;
use std::{sync::Arc, time::Duration};

/// How long a backend may take to do what it said it would.
const PATIENCE: Duration = Duration::from_mins(1);

/// What a test needs of a backend beside its provider. Everything is done behind the provider's back.
pub trait Backend: Send + Sync {
    /// A provider of the installation with this id.
    fn provider(&self, installation: &str) -> Arc<dyn Provider>;

    /// A provider of [`Backend::installation`] that reaches the backend over a wire of its own.
    fn wired(&self) -> BoxFuture<'_, anyhow::Result<Wired>>;

    /// The installation whose instances this test run makes; nobody else's.
    fn installation(&self) -> &str;

    /// A request that can be satisfied, for an owner that no other request has.
    fn request(&self) -> BoxFuture<'_, anyhow::Result<CreateRequest>>;

    /// Ids that no instance can have.
    fn malformed_ids(&self) -> Vec<String>;

    /// An id that an instance could have, but none has.
    fn absent_id(&self) -> ProviderId;

    /// Makes an instance without any mark.
    fn unmarked(&self) -> BoxFuture<'_, anyhow::Result<ProviderId>>;

    /// Makes an instance with the marks of [`Backend::installation`] that the backend reports like this.
    fn posed(&self, pose: Pose) -> BoxFuture<'_, anyhow::Result<ProviderId>>;

    /// Keeps the instance from going, however often it is deleted, until it is let go.
    fn hold<'a>(&'a self, id: &'a str) -> BoxFuture<'a, anyhow::Result<()>>;

    /// Ends [`Backend::hold`].
    fn let_go<'a>(&'a self, id: &'a str) -> BoxFuture<'a, anyhow::Result<()>>;

    /// Deletes the instance and waits until it has gone.
    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, anyhow::Result<()>>;

    /// The backend's own keys of all that was made under this name; they change when an instance is replaced.
    fn made<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<Vec<String>>>;

    /// All that somebody who may look, but not into the guest, sees of the instance and around it.
    fn visible<'a>(&'a self, name: &'a str) -> BoxFuture<'a, anyhow::Result<String>>;

    /// Whether instances really start here.
    fn boots(&self) -> bool;
}

/// A provider and the connection that it uses.
pub type Wired = (Arc<dyn Provider>, Box<dyn Faults>);

/// The connection to a backend, whose every step a test can break.
pub trait Faults: Send + Sync {
    /// From now on this goes wrong; steps are counted from 1 again.
    fn break_at(&self, fault: Fault);

    /// Steps since the last [`Faults::break_at`].
    fn steps(&self) -> usize;
}

/// What goes wrong with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It is cut when the step begins; the backend learns nothing of it.
    CutBefore(usize),
    /// It is cut when the step is done; the backend did it, but nobody is told.
    CutAfter(usize),
    /// Everything is taken and nothing answered.
    Silence,
    /// The step is held up on its way until something else goes wrong, or nothing; it goes on even
    /// when its caller has given up.
    Late(usize),
}

/// How an instance is, in the backend's own terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pose {
    /// It runs, with an address.
    Running,
    /// It runs, but has no address yet.
    RunningWithoutAddress,
    /// In a state that no version of the backend has had so far.
    Unheard,
}

/// One row of the suite.
pub struct Row {
    /// What is promised.
    pub name: &'static str,
    /// Proves it.
    pub run: for<'a> fn(&'a dyn Backend) -> BoxFuture<'a, anyhow::Result<()>>,
}

/// All rows, to be run one by one or together.
#[must_use]
pub fn rows() -> Vec<Row> {
    macro_rules! rows {
        ($($module:ident::$row:ident),* $(,)?) => {
            vec![$(Row {
                name: stringify!($row),
                run: |backend| Box::pin($module::$row(backend)),
            }),*]
        };
    }
    rows![
        life::create_again_adopts,
        life::creates_at_once_make_one_instance,
        life::creates_that_cross_make_one_instance,
        life::create_resumes_after_every_cut,
        life::delete_resumes_after_every_cut,
        life::another_owners_instance_is_never_taken_over,
        life::a_deleted_instance_is_not_found,
        life::an_instance_removed_by_hand_is_made_anew,
        life::deleting_twice_is_fine,
        life::an_instance_being_deleted_is_still_reported,
        reports::malformed_ids_are_permanent,
        reports::an_unheard_state_is_stopped,
        reports::running_needs_an_address,
        reports::a_new_instance_is_never_stopped,
        reports::marks_and_age_are_read_back,
        reports::list_shows_ours_and_only_ours,
        calls::a_cancelled_call_returns_at_once_and_harms_nobody,
        calls::no_call_outlives_its_deadline,
        calls::user_data_never_leaks,
        calls::every_call_is_traced_down_to_its_backend,
    ]
}

async fn ours(backend: &dyn Backend) -> anyhow::Result<(Arc<dyn Provider>, CreateRequest)> {
    let provider = backend.provider(backend.installation());
    Ok((provider, backend.request().await?))
}

/// The error of a call that has to fail.
///
/// # Errors
/// When it did not.
pub fn expect_error<T: std::fmt::Debug>(
    result: Result<T, ProviderError>,
    what: impl std::fmt::Debug,
) -> anyhow::Result<ProviderError> {
    match result {
        Ok(value) => bail!("{what:?}: no error but {value:?}"),
        Err(error) => Ok(error),
    }
}

/// Deletes the instance and waits until it is gone; meanwhile it must never run again.
///
/// # Errors
/// When a call fails or the instance stays.
pub async fn gone(provider: &dyn Provider, id: &str) -> anyhow::Result<()> {
    provider.delete(id).await?;
    eventually("the instance is gone", || async {
        match provider.get(id).await {
            Ok(instance) if instance.state == InstanceState::Running => {
                bail!("running while it is deleted: {instance:?}")
            }
            Ok(_) => Ok(None),
            Err(error) if error.class == ErrorClass::NotFound => Ok(Some(())),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// Asks again and again until there is an answer.
///
/// # Errors
/// The question's own, or that there was no answer in [`PATIENCE`].
pub async fn eventually<T, F>(what: &str, ask: impl Fn() -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let asking = async {
        let mut again = tokio::time::interval(Duration::from_millis(50));
        loop {
            again.tick().await;
            if let Some(answer) = ask().await? {
                return Ok(answer);
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking)
        .await
        .with_context(|| format!("not in {PATIENCE:?}: {what}"))?
}
