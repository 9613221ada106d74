//! Lists: pages, filters, and zones that do not answer.

use super::{Answer, Fixture, why};
use crate::gce::{Options, life::Pace, world::Telling};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};

async fn stocked(count: usize) -> Fixture {
    let lab = Fixture::new().await;
    let now = lab.gce.now();
    lab.gce.world().stock(count, "px", &[("fleet", "one")], now);
    lab
}

async fn aggregated(lab: &Fixture, query: &str) -> Answer {
    lab.get(&format!("/aggregated/instances{query}")).await
}

/// Zone and name of all on a page.
fn names(page: &Value) -> Vec<String> {
    let scopes = page["items"].as_object().unwrap();
    scopes
        .iter()
        .flat_map(|(scope, scoped)| {
            let there = scoped["instances"].as_array().into_iter().flatten();
            there.map(move |one| format!("{scope}/{}", one["name"].as_str().unwrap()))
        })
        .collect()
}

#[tokio::test]
async fn twelve_hundred_instances_come_in_three_pages() {
    let lab = stocked(1200).await;
    let (mut seen, mut pages, mut token) = (BTreeSet::new(), 0, String::new());
    loop {
        let (status, page) = aggregated(&lab, &format!("?pageToken={token}")).await;
        assert_eq!(status, 200);
        let there = names(&page);
        assert!(there.len() <= 500);
        for name in there {
            assert!(seen.insert(name.clone()), "{name} came twice");
        }
        // Every scope is on every page, if only to say that it has nothing.
        assert_eq!(page["items"].as_object().unwrap().len(), 15);
        pages += 1;
        match page["nextPageToken"].as_str() {
            Some(next) => token = next.to_owned(),
            None => break,
        }
    }
    assert_eq!((pages, seen.len()), (3, 1200));
    assert_eq!(lab.gce.count("compute.instances.aggregatedList"), 3);
}

#[tokio::test]
async fn a_page_is_as_small_as_it_is_asked_for() {
    let lab = stocked(20).await;
    let (_, page) = aggregated(&lab, "?maxResults=1").await;
    assert_eq!(names(&page).len(), 1);
    assert!(page["nextPageToken"].is_string());
    let empty = &page["items"]["zones/us-east1-d"]["warning"];
    assert_eq!(empty["code"], "NO_RESULTS_ON_PAGE");
    assert_eq!(
        empty["data"][0],
        json!({ "key": "scope", "value": "zones/us-east1-d" })
    );
    for wrong in ["501", "-1", "x"] {
        let (status, refused) = aggregated(&lab, &format!("?maxResults={wrong}")).await;
        assert_eq!((status, why(&refused).1), (400, "invalid"), "{wrong}");
    }
    for wrong in ["?pageToken=guess".to_owned(), {
        let token = page["nextPageToken"].as_str().unwrap();
        format!("?filter=name%3Dx&pageToken={token}")
    }] {
        assert_eq!(aggregated(&lab, &wrong).await.0, 400, "{wrong}");
    }
}

#[tokio::test]
async fn a_list_of_a_zone_is_of_that_zone() {
    let lab = stocked(30).await;
    let (_, first) = lab.get("/zones/us-east1-b/instances?maxResults=1").await;
    assert_eq!(first["items"][0]["name"], "px-00012");
    let token = first["nextPageToken"].as_str().unwrap();
    let path = format!("/zones/us-east1-b/instances?maxResults=1&pageToken={token}");
    let (_, second) = lab.get(&path).await;
    assert_eq!(second["items"][0]["name"], "px-00027");
    assert!(second["nextPageToken"].is_null());
}

#[tokio::test]
async fn a_filter_is_understood_or_refused() {
    let lab = stocked(3).await;
    let now = lab.gce.now();
    lab.gce.world().place(
        "us-east1-d",
        "other",
        &json!({ "fleet": "two", "x": "" }),
        now,
    );
    lab.gce.world().turn("other", "TERMINATED", now);
    for (filter, count) in [
        ("labels.fleet=one", 3),
        ("labels.fleet=two", 1),
        ("labels.fleet = \"two\"", 1),
        ("labels.fleet!=one", 1),
        ("labels.fleet:tw", 1),
        ("labels.x:*", 1),
        ("labels.y:*", 0),
        ("name=other", 1),
        ("status=RUNNING", 3),
        ("(labels.fleet=one) (name=px-00001)", 1),
        ("(labels.fleet=one) AND (name=other)", 0),
    ] {
        let query = encoded(filter);
        let (status, page) = aggregated(&lab, &query).await;
        assert_eq!((status, names(&page).len()), (200, count), "{filter}");
    }
    for filter in [
        "labels.fleet",
        "labels.fleet eq one",
        "(labels.fleet=one) OR (name=other)",
        "(labels.fleet=one",
        "(labels.fleet=one) AND ",
        "zone=x",
        "name=p*",
        "labels.fleet=one name=other",
        "labels.fleet>one",
    ] {
        let (status, refused) = aggregated(&lab, &encoded(filter)).await;
        assert_eq!(status, 400, "{filter}");
        let (message, reason) = why(&refused);
        assert!(
            message.contains("Invalid list filter expression."),
            "{message}"
        );
        assert_eq!(reason, "invalid");
    }
}

fn encoded(filter: &str) -> String {
    let query = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("filter", filter)
        .finish();
    format!("?{query}")
}

#[tokio::test]
async fn a_part_of_an_answer_is_what_was_selected() {
    let lab = stocked(1).await;
    let fields = "?fields=nextPageToken,items/*/warning/code,items/*/instances(name,labels)";
    let (status, page) = aggregated(&lab, fields).await;
    assert_eq!(status, 200, "{page}");
    assert_eq!(
        page["items"]["zones/asia-east1-a"],
        json!({ "instances": [{ "name": "px-00000", "labels": { "fleet": "one" } }] })
    );
    let empty = json!({ "warning": { "code": "NO_RESULTS_ON_PAGE" } });
    assert_eq!(page["items"]["zones/asia-east1-b"], empty);
    assert!(page["kind"].is_null());
    let instance = "/zones/asia-east1-a/instances/px-00000";
    for (fields, value) in [
        ("name", json!({ "name": "px-00000" })),
        ("labels/fleet,id", {
            let (_, whole) = lab.get(instance).await;
            json!({ "labels": { "fleet": "one" }, "id": whole["id"] })
        }),
        (
            "disks(boot,index)",
            json!({ "disks": [{ "boot": true, "index": 0 }] }),
        ),
        (
            "labels/other,labels",
            json!({ "labels": { "fleet": "one" } }),
        ),
        (
            "disks/boot,disks/index",
            json!({ "disks": [{ "boot": true, "index": 0 }] }),
        ),
    ] {
        let (_, part) = lab.get(&format!("{instance}?fields={fields}")).await;
        assert_eq!(part, value, "{fields}");
    }
    for wrong in [
        "colour",
        "name,",
        "disks(boot",
        "disks/",
        "name)",
        "name/first",
        ",",
    ] {
        let (status, refused) = lab.get(&format!("{instance}?fields={wrong}")).await;
        assert_eq!(
            (status, why(&refused).1),
            (400, "invalidParameter"),
            "{wrong}"
        );
    }
}

#[tokio::test]
async fn an_unreachable_zone_fails_the_list_unless_part_of_it_is_enough() {
    let lab = stocked(30).await;
    let zone = "us-central1-a";
    lab.gce.world().unreachable.insert(zone.into());
    let (status, refused) = aggregated(&lab, "").await;
    assert_eq!((status, why(&refused).1), (503, "backendError"));
    let (status, part) = aggregated(&lab, "?returnPartialSuccess=true").await;
    assert_eq!((status, names(&part).len()), (200, 28));
    let scope = format!("zones/{zone}");
    assert_eq!(part["items"][&scope]["warning"]["code"], "UNREACHABLE");
    let link = format!("https://www.googleapis.com/compute/v1/projects/lab-project/{scope}");
    assert_eq!(part["unreachables"], json!([link]));

    lab.gce.world().telling = Telling::List;
    let (_, part) = aggregated(&lab, "?returnPartialSuccess=true").await;
    assert_eq!(
        part["items"][&scope]["warning"]["code"],
        "NO_RESULTS_ON_PAGE"
    );
    lab.gce.world().telling = Telling::Warning;
    let (_, part) = aggregated(&lab, "?returnPartialSuccess=true").await;
    assert!(part["unreachables"].is_null());

    for path in ["/instances", "/instances/px-00009", "/operations/x"] {
        let (status, _) = lab.get(&format!("/{scope}{path}")).await;
        assert_eq!(status, 503, "{path}");
    }
    lab.gce.world().unreachable.clear();
    assert_eq!(names(&aggregated(&lab, "").await.1).len(), 30);
}

#[tokio::test]
async fn a_list_may_be_behind() {
    let lab = Fixture::with(Options {
        pace: Pace {
            listed: Duration::from_secs(4),
            ..Pace::default()
        },
        ..Options::default()
    })
    .await;
    lab.insert(&super::body("new")).await;
    for (seconds, listed) in [(1.0, 0), (4.0, 1)] {
        lab.pass(seconds);
        assert_eq!(lab.instance("new").await.0, 200);
        assert_eq!(names(&aggregated(&lab, "").await.1).len(), listed);
    }
}
