//! What a large fleet asks of Google, counted at the stand-in.

use super::gcp_faults::{
    operator::Came,
    schedule::{Desk, OURS, Schedule},
};
use actors::provider::contract::Provider as _;
use anyhow::{Context as _, ensure};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;

const FLEET: u64 = 1_000;
/// Instances of one list.
const LISTED: usize = 1_200;
/// Longer than the longest drift interval, and shorter than two of the shortest.
const DRIFT: Duration = Duration::from_secs(140);
/// A page without what nobody asked for.
const PAGE: usize = 512 << 10;

/// Three requests make a proxy, and one a poll keeps it.
pub async fn a_fleet_of_a_thousand_asks_little_of_google() -> anyhow::Result<()> {
    let mut desk = Desk::new().await?;
    let mut fleet = Schedule::begin(&mut desk, 0, false);
    fleet.calm = true;
    for number in 0..FLEET {
        let uid = format!("{number:08x}-0000-4000-8000-000000000000");
        let spec = fleet.spec();
        fleet.objects.create(&format!("p{number:04}"), &uid, spec);
    }
    let mut looks = 0;
    while fleet.is_well().is_err() {
        let due = all_step(&mut fleet).await?.context("nothing is due")?;
        let pause = due.saturating_duration_since(fleet.now);
        fleet.pass(pause.max(Duration::from_millis(100)));
        looks += 1;
        ensure!(
            looks < 400,
            "it does not become well: {:?}",
            fleet.is_well()
        );
    }
    let counts = asked(&fleet);
    ensure!(
        counts.iter().sum::<u64>() <= 3 * FLEET,
        "{:?}",
        fleet.desk.gce.counts()
    );
    ensure!(counts[0] == FLEET, "inserts: {:?}", fleet.desk.gce.counts());

    fleet.desk.gce.clear_requests();
    fleet.pass(DRIFT);
    all_step(&mut fleet).await?;
    let counts = asked(&fleet);
    ensure!(counts == [0, FLEET, 0], "{:?}", fleet.desk.gce.counts());
    Ok(())
}

/// Each of them does what it has to do now; when the next one has something to do.
async fn all_step(fleet: &mut Schedule<'_>) -> anyhow::Result<Option<Instant>> {
    let mut due: Option<Instant> = None;
    for name in fleet.objects.names() {
        loop {
            match fleet.step(&name).await? {
                Came::Of => {}
                Came::Until(until) => {
                    due = Some(due.map_or(until, |due| due.min(until)));
                    break;
                }
                Came::Rest => break,
            }
        }
    }
    Ok(due)
}

/// Inserts, gets, and whatever else was asked of Compute Engine.
fn asked(fleet: &Schedule<'_>) -> [u64; 3] {
    let counts = fleet.desk.gce.counts();
    let of = |method: &str| counts.get(method).copied().unwrap_or(0);
    let (insert, get) = (of("compute.instances.insert"), of("compute.instances.get"));
    let all = counts
        .iter()
        .filter(|(method, _)| method.starts_with("compute."));
    let all: u64 = all.map(|(_, count)| count).sum();
    [insert, get, all - insert - get]
}

/// A list takes a page of 500 at a time, and of each VM only what it needs: not the user-data.
pub async fn a_long_list_takes_few_small_pages() -> anyhow::Result<()> {
    let desk = Desk::new().await?;
    let (managed, installation) = ("proxy-operator-managed", "proxy-operator-installation");
    let labels = [
        (managed, "true"),
        (installation, OURS),
        ("proxy-operator-uid", "u"),
    ];
    {
        let now = desk.gce.now();
        let mut world = desk.gce.world();
        world.stock(LISTED, "proxy", &labels, now);
        world.stock(
            LISTED,
            "other",
            &[(managed, "true"), (installation, "theirs")],
            now,
        );
        for vm in world.instances.values_mut().take(100) {
            let item = json!({ "key": "user-data", "value": "x".repeat(100 << 10) });
            vm.given_mut()["metadata"]["items"] = json!([item]);
        }
    }
    let listed = desk.provider.list().await?;
    ensure!(listed.len() == LISTED, "{} are listed", listed.len());
    let pages: Vec<_> = desk.gce.requests();
    let pages = pages
        .iter()
        .filter(|one| one.method == "compute.instances.aggregatedList");
    let pages: Vec<_> = pages.collect();
    ensure!((3..=4).contains(&pages.len()), "{} pages", pages.len());
    let client = reqwest::Client::builder().no_proxy().build()?;
    for page in pages {
        // The same once more, to see how much of it there is at a time.
        let url = format!("{}{}?{}", desk.gce.endpoint(), page.path, page.query);
        let again = client.get(url).bearer_auth(desk.gce.token()).send().await?;
        let body = again.error_for_status()?.text().await?;
        ensure!(body.len() < PAGE, "a page of {} bytes", body.len());
        ensure!(!body.contains("user-data"), "a list shows user-data");
        let names = body.matches("\"name\"").count();
        ensure!(names <= 500, "{names} VMs in a page");
    }
    Ok(())
}
