//! The firewall rule, as calls see it.

use super::path;
use crate::providers::gcp::testing::{Asked, Google, INSTANCES, error, id, operation, request, vm};
use actors::provider::contract::{CreateRequest, ErrorClass, Provider};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const MORE: &str = ", manageFirewall: true, firewallSourceRanges: [10.0.0.0/8]";
const RULES: &str = "/compute/v1/projects/p/global/firewalls";

/// A Google that keeps one rule, and one VM.
struct World {
    rule: Option<Value>,
    vm: bool,
    /// Whether nobody may take the rule away.
    locked: bool,
    /// How often its removal is looked at before it is done.
    looks: u8,
    /// Whether a zone cannot be reached.
    hidden: bool,
}

fn answer(world: &mut World, asked: &Asked) -> (u16, Value) {
    let done = || (200, operation("operation-9", "DONE"));
    match (asked.method.as_str(), asked.path.as_str()) {
        ("POST", RULES) => {
            world.rule = Some(asked.body.clone());
            done()
        }
        ("PATCH", _) => {
            let rule = world.rule.as_mut().expect("there");
            for (field, value) in asked.body.as_object().expect("an object") {
                rule[field] = value.clone();
            }
            done()
        }
        ("DELETE", path) if path.starts_with(RULES) && world.locked => error(
            403,
            "forbidden",
            "Required 'compute.firewalls.delete' permission",
        ),
        ("DELETE", path) if path.starts_with(RULES) => {
            world.rule = None;
            done()
        }
        ("GET", path) if path.starts_with(RULES) => match &world.rule {
            Some(rule) => (200, rule.clone()),
            None => error(
                404,
                "notFound",
                "The resource 'projects/p/global/firewalls/x' was not found",
            ),
        },
        ("GET", path) if path.ends_with("/operations/operation-9") && world.looks > 0 => {
            world.looks -= 1;
            (200, operation("operation-9", "RUNNING"))
        }
        ("GET", path) if path.ends_with("/operations/operation-9") => done(),
        ("GET", path) if path.contains("/operations/") => {
            (200, operation("operation-2", "RUNNING"))
        }
        ("GET", "/compute/v1/projects/p/aggregated/instances") if world.hidden => {
            (200, json!({"unreachables": ["zones/z-b"]}))
        }
        ("GET", "/compute/v1/projects/p/aggregated/instances") => {
            let instances = if world.vm {
                json!([vm("RUNNING")])
            } else {
                json!([])
            };
            (
                200,
                json!({"items": {"zones/z-a": {"instances": instances}}}),
            )
        }
        ("POST", INSTANCES) => {
            world.vm = true;
            (200, operation("operation-1", "RUNNING"))
        }
        ("DELETE", _) => (200, operation("operation-2", "RUNNING")),
        _ if world.vm => (200, vm("RUNNING")),
        (_, path) => error(
            404,
            "notFound",
            &format!("The resource '{path}' was not found"),
        ),
    }
}

async fn google() -> (Google, Arc<Mutex<World>>) {
    let world = Arc::new(Mutex::new(World {
        rule: None,
        vm: false,
        locked: false,
        looks: 0,
        hidden: false,
    }));
    let kept = Arc::clone(&world);
    let google =
        Google::answering(move |asked| answer(&mut world.lock().expect("no panic"), asked));
    (google.await, kept)
}

fn ports(world: &Mutex<World>) -> Option<Value> {
    let world = world.lock().expect("no panic");
    world
        .rule
        .as_ref()
        .map(|rule| rule["allowed"][0]["ports"].clone())
}

fn rule(method: &str) -> String {
    format!("{method} {RULES}/proxy-operator-gcp")
}

#[tokio::test]
async fn the_first_vm_opens_its_port_and_the_next_ask_nothing_more() {
    let (google, world) = google().await;
    let provider = google.provider_of(MORE);
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    let insert = format!("POST {INSTANCES}");
    assert_eq!(
        google.lines(),
        [rule("GET"), format!("POST {RULES}"), insert.clone()]
    );
    assert_eq!(ports(&world), Some(json!(["3128"])));
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    assert_eq!(google.lines(), std::slice::from_ref(&insert));
    let other = CreateRequest {
        port: 8080,
        ..request()
    };
    Provider::create(&*provider, &other).await.expect("made");
    assert_eq!(google.lines(), [rule("GET"), rule("PATCH"), insert.clone()]);
    assert_eq!(ports(&world), Some(json!(["3128", "8080"])));

    let restarted = google.provider_of(MORE);
    Provider::create(&*restarted, &other).await.expect("made");
    assert_eq!(google.lines(), [rule("GET"), insert]);
}

#[tokio::test]
async fn the_rule_goes_with_the_last_vm_and_comes_back_with_the_next() {
    let (google, world) = google().await;
    let provider = google.provider_of(MORE);
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    google.asked();
    Provider::delete(&*provider, &id()).await.expect("accepted");
    let list = "GET /compute/v1/projects/p/aggregated/instances".to_owned();
    assert_eq!(
        google.lines(),
        [
            path("GET"),
            path("DELETE"),
            list,
            rule("GET"),
            rule("DELETE")
        ]
    );
    assert_eq!(ports(&world), None);
    world.lock().expect("no panic").vm = false;
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    assert_eq!(ports(&world), Some(json!(["3128"])));
}

#[tokio::test]
async fn many_that_go_at_once_are_looked_for_together() {
    let (google, world) = google().await;
    let provider = google.provider_of(MORE);
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    Provider::get(&*provider, &id()).await.expect("there");
    google.asked();
    let ids: Vec<String> = (0..20)
        .map(|n| format!("zones/z-a/instances/vm-{n}"))
        .collect();
    let deleted = ids.iter().map(|id| Provider::delete(&*provider, id));
    for end in futures::future::join_all(deleted).await {
        end.expect("accepted");
    }
    let lines = google.lines();
    let lists = lines
        .iter()
        .filter(|line| line.contains("aggregated"))
        .count();
    assert!((1..=10).contains(&lists), "{lists} of {lines:?}");
    assert_eq!(ports(&world), Some(json!(["3128"])), "one is left");
}

#[tokio::test]
async fn what_could_not_be_taken_away_is_owed() {
    let (google, world) = google().await;
    let provider = google.provider_of(MORE);
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    world.lock().expect("no panic").locked = true;
    for _ in 0..2 {
        let error = Provider::delete(&*provider, &id())
            .await
            .expect_err("forbidden");
        assert_eq!(error.class, ErrorClass::Permanent, "{error}");
        assert!(error.heals, "a right may be given");
    }
    world.lock().expect("no panic").locked = false;
    Provider::delete(&*provider, &id()).await.expect("goes on");
    assert_eq!(ports(&world), None);
    google.asked();
    Provider::delete(&*provider, &id()).await.expect("goes on");
    assert_eq!(google.lines().len(), 2, "nothing is owed any more");
}

#[tokio::test]
async fn a_vm_waits_until_the_rule_before_it_is_gone() {
    let (google, world) = google().await;
    let provider = google.provider_of(MORE);
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    Provider::delete(&*provider, &id()).await.expect("accepted");
    {
        let mut world = world.lock().expect("no panic");
        (world.vm, world.looks) = (false, 2);
    }
    google.asked();
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    let lines = google.lines();
    let look = "GET /compute/v1/projects/p/global/operations/operation-9";
    assert_eq!(
        lines.iter().filter(|line| *line == look).count(),
        3,
        "{lines:?}"
    );
    assert_eq!(ports(&world), Some(json!(["3128"])));
}

#[tokio::test]
async fn the_rule_stays_for_a_vm_that_has_not_shown_up_yet() {
    let (google, world) = google().await;
    let provider = google.provider_of(MORE);
    Provider::create(&*provider, &request())
        .await
        .expect("accepted");
    world.lock().expect("no panic").vm = false;
    let another = "zones/z-a/instances/another";
    Provider::delete(&*provider, another).await.expect("gone");
    assert_eq!(ports(&world), Some(json!(["3128"])), "it may come");
    let absent = Provider::get(&*provider, &id()).await.expect_err("absent");
    assert_eq!(absent.class, ErrorClass::NotFound);
    Provider::delete(&*provider, another).await.expect("gone");
    assert_eq!(ports(&world), None, "it never came");
}

#[tokio::test]
async fn the_rule_stays_while_a_zone_cannot_be_reached() {
    let (google, world) = google().await;
    let provider = google.provider_of(MORE);
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    world.lock().expect("no panic").hidden = true;
    Provider::delete(&*provider, &id()).await.expect("accepted");
    assert_eq!(ports(&world), Some(json!(["3128"])));
}

#[tokio::test]
async fn the_rule_stays_while_another_vm_does() {
    let (google, world) = google().await;
    let provider = google.provider_of(MORE);
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    let another = "zones/z-a/instances/another";
    Provider::delete(&*provider, another)
        .await
        .expect("accepted");
    assert_eq!(ports(&world), Some(json!(["3128"])));
}

#[tokio::test]
async fn somebody_elses_rule_keeps_vms_from_being_made() {
    let (google, world) = google().await;
    world.lock().expect("no panic").rule = Some(json!({"description": "by hand"}));
    let provider = google.provider_of(MORE);
    let error = Provider::create(&*provider, &request())
        .await
        .expect_err("refused");
    assert_eq!(error.class, ErrorClass::Permanent, "{error}");
    assert!(error.message.contains("proxy-operator-gcp"), "{error}");
    assert_eq!(google.lines(), [rule("GET")]);
    Provider::delete(&*provider, &id()).await.expect("gone");
    assert!(
        world.lock().expect("no panic").rule.is_some(),
        "never touched"
    );
}

#[tokio::test]
async fn without_manage_firewall_no_rule_is_looked_at() {
    let (google, _) = google().await;
    let provider = google.provider();
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    Provider::delete(&*provider, &id()).await.expect("accepted");
    let lines = google.lines();
    assert!(
        !lines.iter().any(|line| line.contains("firewalls")),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 3);
}
