//! Lists and checks.

use crate::providers::gcp::credentials::Source;
use crate::providers::gcp::testing::{Google, error, provider, vm};
use actors::provider::contract::{ErrorClass, Provider};
use serde_json::{Value, json};
use std::time::Duration;

fn named(name: &str, installation: &str) -> Value {
    let mut vm = vm("RUNNING");
    vm["name"] = name.into();
    vm["labels"]["proxy-operator-installation"] = installation.into();
    vm
}

#[tokio::test]
async fn a_list_has_all_pages_and_only_ours() {
    let google = Google::answering(|asked| {
        let page = match asked.parameter("pageToken") {
            None => json!({"nextPageToken": "t/2", "items": {
                "zones/z-a": {"instances": [named("a", "here"), named("b", "elsewhere")]},
                "zones/z-b": {"warning": {"code": "NO_RESULTS_ON_PAGE", "message": "none"}},
            }}),
            Some("t/2") => json!({"items": {
                "zones/z-c": {"instances": [named("c", "here"), named("Odd", "here"), {"name": "d"}]},
                "regions/r": {"instances": [named("e", "here")]},
            }}),
            Some(other) => panic!("asked for {other}"),
        };
        (200, page)
    })
    .await;
    let listed = google.provider().list().await.expect("lists");
    let mut ids: Vec<_> = listed.iter().map(|vm| vm.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["zones/z-a/instances/a", "zones/z-c/instances/c"]);
    let asked = google.asked();
    assert_eq!(asked.len(), 2);
    for asked in asked {
        assert_eq!(asked.path, "/compute/v1/projects/p/aggregated/instances");
        assert_eq!(
            asked.parameter("filter"),
            Some(
                "(labels.proxy-operator-managed = \"true\") AND (labels.proxy-operator-installation = \"here\")"
            )
        );
        let fields = asked.parameter("fields").expect("a part of each");
        assert!(
            !fields.contains("metadata") && !fields.contains(' '),
            "{fields}"
        );
    }
}

#[tokio::test]
async fn zones_that_google_cannot_reach_do_not_hide_the_others() {
    let google = Google::answering(|_| {
        let page = json!({
            "unreachables": ["zones/z-x"],
            "items": {
                "zones/z-a": {"instances": [named("a", "here")]},
                "zones/z-y": {"warning": {"code": "UNREACHABLE", "message": "down"}},
            },
        });
        (200, page)
    })
    .await;
    let listed = google.provider().list().await.expect("lists");
    assert_eq!(listed.len(), 1);
}

#[tokio::test]
async fn a_list_that_cannot_be_vouched_for_is_an_error() {
    for answer in [
        error(500, "internalError", "Internal error."),
        (200, json!("{\"items\": {\"zo")),
        (200, json!({"nextPageToken": "again"})),
        (502, json!("<html>")),
    ] {
        let google = Google::answering(move |_| answer.clone()).await;
        let error = google.provider().list().await.expect_err("no list");
        assert_eq!(error.class, ErrorClass::Transient, "{error}");
    }
}

#[tokio::test]
async fn a_check_lists_one_vm_and_tells_what_is_wrong() {
    let google = Google::answering(|asked| {
        if asked.path.ends_with("/instances") {
            return (200, json!({}));
        }
        error(
            403,
            "forbidden",
            "Required 'compute.projects.get' permission",
        )
    })
    .await;
    let checks = google.provider().check(Duration::from_secs(9)).await;
    let [check] = &checks[..] else {
        panic!("{checks:?}")
    };
    assert_eq!(
        (&*check.name, check.ready, check.reason),
        ("p", true, "Reachable")
    );
    assert_eq!(check.address, google.endpoint);
    assert!(check.details.is_empty());
    let asked = google.asked();
    let lists: Vec<_> = asked
        .iter()
        .filter(|a| a.path.ends_with("/instances"))
        .collect();
    assert_eq!(lists.len(), 1);
    assert_eq!(lists[0].parameter("maxResults"), Some("1"));

    for (code, reason, expected) in [
        (401, "authError", "Unauthorized"),
        (403, "forbidden", "Forbidden"),
        (500, "internalError", "APIError"),
    ] {
        let google = Google::answering(move |_| error(code, reason, "words")).await;
        let checks = google.provider().check(Duration::from_secs(9)).await;
        assert_eq!((checks[0].ready, checks[0].reason), (false, expected));
        assert_eq!(checks[0].message, "words");
    }
}

#[tokio::test]
async fn without_google_or_credentials_a_check_says_so() {
    let nobody = provider(
        "http://127.0.0.1:1",
        Source::File("/nowhere/key.json".into()),
        "",
    );
    let checks = nobody.check(Duration::from_secs(9)).await;
    assert_eq!(checks[0].reason, "Unauthorized");
    assert!(
        checks[0].message.contains("/nowhere/key.json"),
        "{checks:?}"
    );
    let error = Provider::get(&nobody, &crate::providers::gcp::testing::id()).await;
    assert_eq!(error.expect_err("none").class, ErrorClass::Transient);

    let google = Google::answering(|_| (200, json!({}))).await;
    let stand = google.provider();
    let more = "";
    let gone = provider(
        "http://127.0.0.1:1",
        Source::File(stand.file.path().into()),
        more,
    );
    let checks = gone.check(Duration::from_secs(9)).await;
    assert_eq!(checks[0].reason, "Unreachable", "{checks:?}");
    let error = Provider::get(&gone, &crate::providers::gcp::testing::id()).await;
    let error = error.expect_err("none");
    assert_eq!(error.class, ErrorClass::Transient, "{error}");
}
