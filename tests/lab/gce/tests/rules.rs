//! What is refused, and in which words.

use super::{Fixture, ZONE, body, why};
use crate::gce::{
    document::{Documents, UNDATED},
    schema::{Check, Problem},
};
use reqwest::Method;
use serde_json::{Value, json};

/// An instance that is changed at a JSON pointer's place.
fn with(at: &str, value: Value) -> Value {
    let mut changed = body("a");
    let (parent, last) = at.rsplit_once('/').unwrap();
    match changed.pointer_mut(parent).unwrap() {
        Value::Object(fields) => {
            fields.insert(last.to_owned(), value);
        }
        Value::Array(items) => items[last.parse::<usize>().unwrap()] = value,
        other => panic!("{other}"),
    }
    changed
}

#[tokio::test]
async fn what_the_description_does_not_have_is_refused() {
    let lab = Fixture::new().await;
    for (at, value, words) in [
        ("/colour", json!(1), "Unknown name \"colour\" at 'resource'"),
        (
            "/disks/0/size",
            json!("10"),
            "Unknown name \"size\" at 'resource.disks[0]'",
        ),
        (
            "/disks/0/initializeParams/diskSizeGb",
            json!(10),
            "Invalid value at 'resource.disks[0].initializeParams.diskSizeGb' (TYPE_INT64), 10",
        ),
        (
            "/disks/0/initializeParams/diskSizeGb",
            json!("ten"),
            "Invalid value at 'resource.disks[0].initializeParams.diskSizeGb' (TYPE_INT64), \"ten\"",
        ),
        ("/disks/0/boot", json!("yes"), "(TYPE_BOOL), \"yes\""),
        (
            "/disks",
            json!({}),
            "Invalid value at 'resource.disks' (TYPE_LIST)",
        ),
        (
            "/labels",
            json!(["x"]),
            "Invalid value at 'resource.labels' (TYPE_MESSAGE)",
        ),
        (
            "/labels/fleet",
            json!(7),
            "Invalid value at 'resource.labels.fleet' (TYPE_STRING), 7",
        ),
        ("/labelFingerprint", json!("%"), "(TYPE_BYTES)"),
        (
            "/networkInterfaces/0/accessConfigs/0/type",
            json!("NAT"),
            "Must be one of [DIRECT_IPV6, ONE_TO_ONE_NAT]",
        ),
        ("/name", json!("Capital"), "Must be a match of regex '[a-z]"),
        ("/name", json!("a".repeat(64)), "Must be a match of regex"),
        (
            "/name",
            Value::Null,
            "Required field 'resource.name' not specified",
        ),
        (
            "/metadata/items/0",
            json!({ "key": "k" }),
            "'resource.metadata.items[0].value' not spec",
        ),
        (
            "/metadata/items/0",
            json!({ "key": "a b", "value": "" }),
            "Must be a match of regex",
        ),
    ] {
        let (status, refused) = lab.insert(&with(at, value)).await;
        let (message, _) = why(&refused);
        assert_eq!(status, 400, "{at}: {message}");
        assert!(message.contains(words), "{at}: {message}");
    }
    let (status, refused) = lab.insert(&json!([])).await;
    assert_eq!((status, why(&refused).1), (400, "invalid"));
    assert_eq!(refused["error"]["status"], "INVALID_ARGUMENT");
    assert!(lab.gce.world().instances.is_empty());
}

#[tokio::test]
async fn what_google_does_not_like_is_refused() {
    let lab = Fixture::new().await;
    let metadata = |size: usize| json!([{ "key": "user-data", "value": "x".repeat(size) }]);
    let mut half = metadata(200 * 1024);
    for key in ["one", "two"] {
        let more = json!({ "key": key, "value": "x".repeat(170 * 1024) });
        half.as_array_mut().unwrap().push(more);
    }
    let many: Value = (0..65).map(|n| (format!("k{n}"), json!("v"))).collect();
    let twice = json!([{ "key": "k", "value": "1" }, { "key": "k", "value": "2" }]);
    for (at, value, words) in [
        (
            "/labels",
            json!({ "Key": "v" }),
            "Label key 'Key' violates format constraints",
        ),
        ("/labels", json!({ "1k": "v" }), "Label key '1k'"),
        ("/labels", json!({ "": "v" }), "Label key ''"),
        (
            "/labels",
            json!({ "k": "V" }),
            "Label value 'V' violates format constraints",
        ),
        ("/labels", json!({ "k": "a.b" }), "Label value 'a.b'"),
        ("/labels", json!({ "k": "v".repeat(64) }), "at most 63"),
        ("/labels", many, "Too many labels"),
        (
            "/metadata/items",
            metadata(256 * 1024 + 1),
            "The value is too large: 262145 bytes",
        ),
        ("/metadata/items", half, "Metadata is too large"),
        ("/metadata/items", twice, "Metadata has duplicate key: k"),
        ("/tags/items", json!(["Tag"]), "Must be a match of regex"),
        ("/machineType", json!("e2-small"), "The URL is malformed."),
        (
            "/machineType",
            Value::Null,
            "Required field 'resource.machineType'",
        ),
        (
            "/machineType",
            json!(format!("zones/{ZONE}/machineTypes/huge")),
            "Machine type with name 'huge' does not exist in zone 'europe-west1-b'.",
        ),
        (
            "/machineType",
            json!("zones/us-east1-b/machineTypes/e2-small"),
            "does not exist in zone",
        ),
        ("/disks", json!([]), "No disks are specified"),
        ("/disks/0/boot", json!(false), "none of them is a boot disk"),
        (
            "/disks/0/initializeParams/sourceImage",
            json!("debian"),
            "the URL is malformed",
        ),
        (
            "/disks/0/initializeParams/diskSizeGb",
            json!("5"),
            "cannot be smaller than the image",
        ),
        (
            "/networkInterfaces",
            json!([]),
            "At least one network interface is required.",
        ),
    ] {
        let (status, refused) = lab.insert(&with(at, value)).await;
        let (message, _) = why(&refused);
        assert_eq!(status, 400, "{at}: {message}");
        assert!(message.contains(words), "{at}: {message}");
    }
    for (at, value) in [
        (
            "/labels",
            json!({ "k": "", "ключ": "значение", "a_b-1": "1_-" }),
        ),
        ("/labels", json!({ "k": "v".repeat(63) })),
        ("/metadata/items", metadata(256 * 1024)),
    ] {
        let (status, taken) = lab.insert(&with(at, value)).await;
        assert_eq!(status, 200, "{at}: {taken}");
        let now = lab.gce.now();
        lab.gce.world().vanish("a", now);
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let lab = Fixture::new().await;
    let image = "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64";
    lab.gce.world().missing_images.insert(image.into());
    let (status, refused) = lab.insert(&body("a")).await;
    let words = format!("The resource '{image}' was not found");
    assert_eq!((status, why(&refused)), (404, (words.as_str(), "notFound")));
    lab.gce.world().missing_images.clear();
    let other = with(
        "/networkInterfaces/0/network",
        json!("global/networks/other"),
    );
    assert_eq!(lab.insert(&other).await.0, 404);

    let (status, refused) = lab.get("/zones/mars-1a/instances/a").await;
    let words = "Invalid value for field 'zone': 'mars-1a'. Unknown zone.";
    assert_eq!((status, why(&refused)), (400, (words, "invalid")));
    for path in [
        "/zones/us-east1-b/instances/a",
        "/zones/us-east1-b/operations/operation-1",
        "/global/operations/operation-1",
        "/global/firewalls/f",
        "/regions/mars",
    ] {
        let (status, refused) = lab.get(path).await;
        assert_eq!((status, why(&refused).1), (404, "notFound"), "{path}");
    }
    assert_eq!(lab.delete("/zones/us-east1-b/instances/a").await.0, 404);
    let (_, insert) = lab.insert(&body("b")).await;
    let name = insert["name"].as_str().unwrap();
    assert_eq!(
        lab.get(&format!("/zones/us-east1-b/operations/{name}"))
            .await
            .0,
        404
    );
    assert_eq!(lab.get(&format!("/global/operations/{name}")).await.0, 404);
}

#[tokio::test]
async fn parameters_are_those_of_the_method() {
    let lab = Fixture::new().await;
    let id = "0e6f8f4e-9f56-4a3d-a3b5-8f6f3ea5c111";
    for (path, words) in [
        (
            "/aggregated/instances?colour=red".to_owned(),
            "Unknown name \"colour\"",
        ),
        (
            "/aggregated/instances?returnPartialSuccess=maybe".to_owned(),
            "(TYPE_BOOL), \"maybe\"",
        ),
        (
            "/aggregated/instances?filter=name%3Da&filter=name%3Db".to_owned(),
            "twice",
        ),
        (
            "/zones/us-east1-b/instances/UPPER".to_owned(),
            "Must be a match of regex",
        ),
        (
            format!("/zones/us-east1-b/instances/a?requestId={id}"),
            "Unknown name \"requestId\"",
        ),
    ] {
        let (status, refused) = lab.get(&path).await;
        let (message, _) = why(&refused);
        assert_eq!(status, 400, "{path}: {message}");
        assert!(message.contains(words), "{path}: {message}");
    }
    for wrong in [
        "x",
        "00000000-0000-0000-0000-000000000000",
        "0e6f8f4e9f564a3da3b58f6f3ea5c111",
    ] {
        let path = format!("/zones/{ZONE}/instances?requestId={wrong}");
        let (status, refused) = lab.post(&path, &body("a")).await;
        assert_eq!((status, why(&refused).1), (400, "invalid"), "{wrong}");
    }
    // What every method takes, and what is empty.
    let path = "/aggregated/instances?$alt=json&alt=json&prettyPrint=true&pageToken=&filter=";
    assert_eq!(lab.get(path).await.0, 200);
}

#[tokio::test]
async fn a_request_is_held_to_the_version_that_it_names() {
    let lab = Fixture::new().await;
    let path = "/aggregated/instances?returnPartialSuccess=true";
    assert_eq!(lab.get(path).await.0, 200);
    // The dated version does not have it any more.
    let dated = "$apiVersion=2026-09-01";
    let (status, refused) = lab.get(&format!("{path}&{dated}")).await;
    assert_eq!(status, 400);
    assert!(
        why(&refused)
            .0
            .contains("Unknown name \"returnPartialSuccess\""),
        "{refused}"
    );
    assert_eq!(
        lab.get(&format!("/aggregated/instances?{dated}")).await.0,
        200
    );
    let url = format!(
        "{}/compute/v1/projects/lab-project{path}",
        lab.gce.endpoint()
    );
    for (version, status) in [("v1", 200), ("2026-09-01", 400), ("1999-01-01", 400)] {
        let asked = lab.client.get(&url).bearer_auth(&lab.token);
        let asked = asked.header("x-goog-api-version", version);
        assert_eq!(asked.send().await.unwrap().status(), status, "{version}");
    }
}

#[tokio::test]
async fn what_is_none_of_the_apis_is_a_page() {
    let lab = Fixture::new().await;
    for (method, path, status) in [
        (Method::GET, "/nothing", 404),
        (Method::GET, "/zones/a/instances/b/c/d", 404),
        (Method::PUT, "/aggregated/instances", 405),
    ] {
        let answer = lab.send(method, path, None).await;
        assert_eq!(answer.status(), status, "{path}");
        assert!(answer.text().await.unwrap().starts_with("<!DOCTYPE html>"));
    }
    assert!(lab.gce.take_wrongs().is_empty());
    // Google has it, the stand-in does not: that is the stand-in's fault.
    let answer = lab.send(Method::GET, "/zones/us-east1-b/disks", None).await;
    assert_eq!(answer.status(), 501);
    assert_eq!(
        lab.gce.take_wrongs(),
        ["compute.disks.list is not imitated"]
    );
}

#[tokio::test]
#[should_panic(expected = "compute.disks.list is not imitated")]
async fn a_fault_of_the_stand_in_fails_its_test() {
    let lab = Fixture::new().await;
    lab.send(Method::GET, "/zones/us-east1-b/disks", None).await;
}

#[tokio::test]
async fn an_answer_that_is_not_as_described_does_not_leave() {
    let lab = Fixture::new().await;
    lab.insert(&body("a")).await;
    lab.pass(10.0);
    for instance in lab.gce.world().named("a") {
        let given = instance.given_mut();
        given.insert("colour".into(), "red".into());
    }
    let path = format!("/zones/{ZONE}/instances/a");
    assert_eq!(lab.send(Method::GET, &path, None).await.status(), 500);
    let wrongs = lab.gce.take_wrongs();
    assert!(wrongs[0].contains("Unknown(\"colour\")"), "{wrongs:?}");
}

#[test]
fn a_schema_takes_what_it_describes() {
    let documents = Documents::load().unwrap();
    let document = documents.of(UNDATED).unwrap();
    let problems = |value: Value| -> Vec<Problem> {
        let found = Check::of_answer(document).against("Operation", &value, "answer");
        found
            .into_iter()
            .map(|violation| violation.problem)
            .collect()
    };
    assert_eq!(
        problems(json!({ "id": "18446744073709551615", "progress": 3 })),
        []
    );
    let instance = |value: Value| Check::of_answer(document).against("Instance", &value, "answer");
    assert_eq!(instance(json!({ "fingerprint": "-_8=" })), []);
    assert_eq!(instance(json!({ "fingerprint": "+/8=" })).len(), 1);
    assert_eq!(instance(json!({ "fingerprint": "8" })).len(), 1);
    for value in [
        json!({ "id": 5 }),
        json!({ "id": "-5" }),
        json!({ "progress": "3" }),
        json!({ "progress": 3_000_000_000_u64 }),
        json!({ "status": "OVER" }),
        json!({ "error": [] }),
        json!({ "error": { "errors": [{ "reason": "x" }] } }),
        json!({ "name": null }),
    ] {
        assert_eq!(problems(value.clone()).len(), 1, "{value}");
    }
}
