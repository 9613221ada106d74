//! What each of Google's errors is for those who call a provider.

use super::stand::{DELETE, GET, INSERT, LIST, PROJECT, Stand, ZONE, id_of};
use crate::{
    conformance::{eventually, expect_error, gone},
    lab::gce::{
        faults::{
            Act, On, api_disabled, condition_not_met, forbidden, insufficient_scopes,
            no_credentials, quota_exceeded, rate_limited, server_error, too_many, unauthenticated,
        },
        refusal::Refusal,
    },
};
use actors::provider::contract::{
    CreateRequest,
    ErrorClass::{self, AdoptionConflict, NotFound, Permanent, QuotaExceeded, Transient},
    InstanceState, Operation, Provider, ProviderError,
};
use anyhow::{Context as _, ensure};
use futures::future::join_all;
use std::time::{Duration, Instant};

/// The requests that can be refused, and the call that each belongs to.
const CALLS: [(Operation, &str); 5] = [
    (Operation::Create, INSERT),
    (Operation::Get, GET),
    (Operation::Delete, GET),
    (Operation::Delete, DELETE),
    (Operation::List, LIST),
];
/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(10);

/// A running instance, and a provider that may be asked for it.
struct Asked<'a> {
    stand: &'a Stand,
    provider: &'a dyn Provider,
    there: CreateRequest,
}

impl Asked<'_> {
    /// The error of a call of this kind.
    async fn error(&self, operation: Operation) -> anyhow::Result<ProviderError> {
        let id = id_of(&self.there.name);
        match operation {
            Operation::Create => {
                let order = self.stand.order();
                expect_error(self.provider.create(&order).await, operation)
            }
            Operation::Get => expect_error(self.provider.get(&id).await, operation),
            Operation::Delete => expect_error(self.provider.delete(&id).await, operation),
            _ => expect_error(self.provider.list().await, operation),
        }
    }
}

async fn asked<'a>(stand: &'a Stand, provider: &'a dyn Provider) -> anyhow::Result<Asked<'a>> {
    let there = stand.order();
    let id = provider.create(&there).await?.id;
    eventually("it runs", || async {
        Ok((provider.get(&id).await?.state == InstanceState::Running).then_some(()))
    })
    .await?;
    Ok(Asked {
        stand,
        provider,
        there,
    })
}

/// Refusals in Google's own shape: the class of each, and whether a permanent one is tried again because
/// somebody may mend it in Google's project.
fn table() -> Vec<(Refusal, ErrorClass, bool)> {
    let project = format!("projects/{PROJECT}");
    let bad = Refusal::invalid("resource.name", "x", "Must be a match of regex");
    vec![
        (unauthenticated(), Permanent, true),
        (no_credentials(), Permanent, true),
        (
            forbidden("compute.instances.create", &project),
            Permanent,
            true,
        ),
        (insufficient_scopes(), Permanent, true),
        (api_disabled(), Permanent, true),
        (quota_exceeded(), QuotaExceeded, false),
        (rate_limited(), QuotaExceeded, false),
        (too_many(30), QuotaExceeded, false),
        (bad, Permanent, false),
        (
            Refusal::bad_request("Invalid value at 'zone'"),
            Permanent,
            false,
        ),
        // Of something else than the instance: a project, a network, an image.
        (Refusal::not_found(&project), Permanent, false),
        (condition_not_met(), Transient, false),
        (server_error(500), Transient, false),
        (server_error(502), Transient, false),
        (server_error(503), Transient, false),
        (
            Refusal::unavailable("The zone is temporarily unavailable."),
            Transient,
            false,
        ),
    ]
}

/// Whichever request it is of which call: the class, and Google's own words.
pub async fn every_refusal_has_its_class(stand: &Stand) -> anyhow::Result<()> {
    let provider = stand.ours()?;
    let asked = asked(stand, &provider).await?;
    for (refusal, class, heals) in table() {
        for (operation, method) in CALLS {
            let act = Act::refuse(refusal.clone());
            stand.gce.order(On::method(method), 1, act);
            let told = format!(
                "{operation} by {method}: {} {}",
                refusal.code, refusal.reason
            );
            let error = asked.error(operation).await.context(told.clone())?;
            ensure!(error.class == class, "{told}: {error:?}");
            ensure!(error.heals == heals, "{told}: {error:?}");
            ensure!(error.operation == operation, "{told}: {error:?}");
            ensure!(error.provider == "gcp", "{told}: {error:?}");
            ensure!(
                error.message.contains(&refusal.message),
                "{told}: {error:?}"
            );
            let has_id = operation != Operation::List;
            ensure!(error.id.is_some() == has_id, "{told}: {error:?}");
        }
    }
    // That it is this very instance that is not there is the one answer that means so.
    let path = format!(
        "projects/{PROJECT}/zones/{ZONE}/instances/{}",
        asked.there.name
    );
    stand
        .gce
        .order(On::method(GET), 1, Act::refuse(Refusal::not_found(&path)));
    let error = asked.error(Operation::Get).await?;
    ensure!(error.class == NotFound, "{error:?}");
    // Nothing of all that has changed anything.
    let listed = provider.list().await?;
    ensure!(listed.len() == 1, "{listed:?}");
    gone(&provider, &id_of(&asked.there.name)).await
}

/// Answers that are not Google's, or none: HTML, half a JSON, a reset connection, silence.
pub async fn what_is_no_answer_is_transient(stand: &Stand) -> anyhow::Result<()> {
    let provider = stand.ours()?;
    let asked = asked(stand, &provider).await?;
    let html = |status| Act::Raw(status, "text/html; charset=UTF-8", "<html>No</html>".into());
    let acts = [
        Act::html(),
        html(500),
        html(502),
        html(404),
        html(403),
        html(200),
        Act::Raw(200, "application/json", "{\"kind\": \"compute#ope".into()),
        Act::Raw(200, "application/json", String::new()),
        Act::Reset,
    ];
    for act in &acts {
        for (operation, method) in CALLS {
            stand.gce.order(On::method(method), 1, act.clone());
            let told = format!("{operation} by {method}: {act:?}");
            let error = asked.error(operation).await.context(told.clone())?;
            ensure!(error.class == Transient, "{told}: {error:?}");
            ensure!(!error.message.contains("<html>"), "{told}: {error:?}");
        }
    }
    // One that hangs is given up; the instance is asked for again at once.
    stand
        .gce
        .order(On::any(), 4, Act::Wait(Duration::from_mins(2)));
    let begun = Instant::now();
    let kinds = [
        Operation::Create,
        Operation::Get,
        Operation::Delete,
        Operation::List,
    ];
    for error in join_all(kinds.map(|operation| asked.error(operation))).await {
        let error = error?;
        ensure!(error.class == Transient, "{error:?}");
    }
    let took = begun.elapsed();
    ensure!((REQUEST..2 * REQUEST).contains(&took), "{took:?}");
    gone(&provider, &id_of(&asked.there.name)).await
}

/// What Google did although nobody was told: done once, and adopted.
pub async fn an_answer_that_is_lost_is_found_again(stand: &Stand) -> anyhow::Result<()> {
    let provider = stand.ours()?;
    for act in [
        Act::ResetAfter,
        Act::Truncate,
        Act::Cut,
        Act::RefuseAfter(Box::new(server_error(503))),
    ] {
        let order = stand.order();
        let id = id_of(&order.name);
        stand.gce.order(On::method(INSERT), 1, act.clone());
        let error = expect_error(provider.create(&order).await, &act)?;
        ensure!(error.class == Transient, "{act:?}: {error:?}");
        let created = provider.create(&order).await?;
        ensure!(
            created.id == id && created.operation.is_some(),
            "{act:?}: {created:?}"
        );
        ensure!(stand.ever_made(&order.name) == 1, "{act:?}: made twice");
        stand.gce.order(On::method(DELETE), 1, act.clone());
        let error = expect_error(provider.delete(&id).await, &act)?;
        ensure!(error.class == Transient, "{act:?}: {error:?}");
        gone(&provider, &id).await?;
    }
    Ok(())
}

/// 409: whose it is decides, and nobody else's is touched.
pub async fn a_name_that_is_taken_is_looked_at(stand: &Stand) -> anyhow::Result<()> {
    let provider = stand.ours()?;
    let (own, foreign, unmarked) = (stand.order(), stand.order(), stand.order());
    let now = stand.gce.now();
    for (order, labels) in [
        (&own, stand.marks(&own.uid)),
        (&foreign, stand.marks("another")),
        (&unmarked, serde_json::json!({})),
    ] {
        let mut world = stand.gce.world();
        world.place(ZONE, &order.name, &labels, now);
    }
    let created = provider.create(&own).await?;
    ensure!(created.id == id_of(&own.name), "{created:?}");
    ensure!(created.operation.is_none(), "{created:?}");
    for order in [&foreign, &unmarked] {
        let error = expect_error(provider.create(order).await, &order.name)?;
        ensure!(error.class == AdoptionConflict, "{error:?}");
    }
    let error = expect_error(
        provider.delete(&id_of(&unmarked.name)).await,
        "a stranger's",
    )?;
    ensure!(error.class == AdoptionConflict, "{error:?}");
    ensure!(stand.gce.count(DELETE) == 0, "{:?}", stand.gce.counts());
    ensure!(stand.gce.world().resources(stand.gce.now()).len() == 3);
    Ok(())
}
