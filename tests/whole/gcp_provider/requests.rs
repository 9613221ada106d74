//! How many requests a call takes.

use super::stand::{GET, INSERT, LIST, Stand};
use crate::conformance::eventually;
use actors::provider::contract::{InstanceState, Provider as _};
use anyhow::{Context as _, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// Instances of ours, more than two pages of them.
const MANY: usize = 1200;
/// What may be asked for them.
const FEW: u64 = 4;

/// An insert, and a look at the instance as often as somebody looks; the operation is not asked for.
pub async fn a_create_is_one_request_and_a_look_one_more(stand: &Stand) -> anyhow::Result<()> {
    let provider = stand.ours()?;
    let order = stand.order();
    let created = provider.create(&order).await?;
    let counted = |count: &BTreeMap<String, u64>| {
        let of_api = count.iter().filter(|(method, _)| method.contains('.'));
        of_api.map(|(_, count)| count).sum::<u64>()
    };
    let counts = stand.gce.counts();
    ensure!(
        counts.get(INSERT) == Some(&1) && counted(&counts) == 1,
        "{counts:?}"
    );
    let operation = created.operation.context("an operation")?;
    eventually("it runs", || async {
        let instance = provider.follow(&created.id, &operation).await?;
        Ok((instance.state == InstanceState::Running).then_some(()))
    })
    .await?;
    stand.gce.clear_requests();
    for _ in 0..5 {
        provider.follow(&created.id, &operation).await?;
        provider.get(&created.id).await?;
    }
    let counts = stand.gce.counts();
    ensure!(
        counts.get(GET) == Some(&10) && counted(&counts) == 10,
        "{counts:?}"
    );
    Ok(())
}

/// Pages, of which no answer holds a word of user-data.
pub async fn a_thousand_instances_are_listed_in_few_requests(stand: &Stand) -> anyhow::Result<()> {
    let provider = stand.ours()?;
    let now = stand.gce.now();
    let marks = stand.marks("nobody");
    let marks: Vec<(&str, &str)> = marks
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .collect();
    let managed = [("proxy-operator-managed", "true")];
    for (count, prefix, labels) in [
        (MANY, "ours", &*marks),
        (MANY / 2, "other", &managed),
        (MANY / 2, "stray", &[]),
    ] {
        stand.gce.world().stock(count, prefix, labels, now);
    }
    let listed = provider.list().await?;
    let ids: BTreeSet<_> = listed.iter().map(|instance| &instance.id).collect();
    ensure!(
        ids.len() == MANY && listed.len() == MANY,
        "{}",
        listed.len()
    );
    let strangers = ids.iter().filter(|id| !id.contains("/instances/ours-"));
    ensure!(strangers.count() == 0, "{ids:?}");
    let counts = stand.gce.counts();
    ensure!(counts.get(LIST).is_some_and(|n| *n <= FEW), "{counts:?}");
    for asked in stand.gce.requests() {
        let whole = asked.method == LIST && !asked.query.contains("fields=");
        ensure!(!whole, "all of each instance was asked for: {asked:?}");
    }
    Ok(())
}
