mod creating;
mod deleting;
mod listing;
mod quiet;
mod walls;

use super::testing::{Google, INSTANCES, absent, error, id, operation, request, vm};
use actors::provider::contract::{ErrorClass, InstanceState, Provider};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_vm_is_created_read_listed_checked_and_deleted() {
    let google = Google::answering(|asked| match (asked.method.as_str(), asked.path.as_str()) {
        ("POST", INSTANCES) => (200, operation("operation-1", "RUNNING")),
        ("DELETE", _) => (200, operation("operation-2", "PENDING")),
        ("GET", "/compute/v1/projects/p/aggregated/instances") => (
            200,
            json!({"items": {"zones/z-a": {"instances": [vm("RUNNING")]}}}),
        ),
        ("GET", "/compute/v1/projects/p") => (
            200,
            json!({"quotas": [{"metric": "CPUS_ALL_REGIONS", "usage": 1, "limit": 32}]}),
        ),
        _ => (200, vm("RUNNING")),
    })
    .await;
    let provider = google.provider();

    let created = Provider::create(&*provider, &request())
        .await
        .expect("created");
    assert_eq!(created.id, id());
    assert_eq!(created.operation.as_deref(), Some("operation-1"));
    let asked = google.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].line(), format!("POST {INSTANCES}"));
    assert_eq!(asked[0].token.as_deref(), Some("Bearer t0ken-r3fresh"));
    assert_eq!(asked[0].parameter("requestId").map(str::len), Some(36));
    assert_eq!(asked[0].body["name"], request().name);

    let vm = provider
        .follow(&id(), "operation-1")
        .await
        .expect("is there");
    assert_eq!(vm.state, InstanceState::Running);
    assert_eq!(
        google.lines(),
        [format!("GET /compute/v1/projects/p/{}", id())]
    );

    let listed = provider.list().await.expect("lists");
    assert_eq!(listed, [vm]);
    let asked = google.asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(asked[0].parameter("maxResults"), Some("500"));
    assert_eq!(asked[0].parameter("returnPartialSuccess"), Some("true"));

    let checks = provider.check(Duration::from_secs(10)).await;
    assert!(checks[0].ready, "{checks:?}");
    assert_eq!(checks[0].details["quota"], "CPUS_ALL_REGIONS: 1 of 32");
    google.asked();

    Provider::delete(&*provider, &id()).await.expect("deletes");
    let line = |method: &str| format!("{method} /compute/v1/projects/p/{}", id());
    assert_eq!(google.lines(), [line("GET"), line("DELETE")]);
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_its_deletion_is_done() {
    let google = Google::answering(|_| absent()).await;
    let provider = google.provider();
    let missing = Provider::get(&*provider, &id()).await.expect_err("absent");
    assert_eq!(missing.class, ErrorClass::NotFound, "{missing}");
    Provider::delete(&*provider, &id()).await.expect("is gone");
}

#[tokio::test]
async fn a_missing_project_is_no_missing_vm() {
    let google = Google::answering(|_| error(404, "notFound", "Failed to find project p")).await;
    let provider = google.provider();
    let missing = Provider::get(&*provider, &id()).await.expect_err("absent");
    assert_eq!(missing.class, ErrorClass::Permanent, "{missing}");
}

/// `GET` and the path of the VM.
fn path(method: &str) -> String {
    format!("{method} /compute/v1/projects/p/{}", id())
}

/// The line of a creation.
fn post() -> String {
    format!("POST {INSTANCES}")
}

#[tokio::test]
async fn a_malformed_id_is_refused_before_google_is_asked() {
    let google = Google::answering(|_| absent()).await;
    let provider = google.provider();
    for id in ["", "z-a/x", "zones/z-a/instances/", "zones/../instances/x"] {
        let get = Provider::get(&*provider, id).await.expect_err(id);
        let delete = Provider::delete(&*provider, id).await.expect_err(id);
        for error in [get, delete] {
            assert_eq!(error.class, ErrorClass::Permanent, "{error}");
            assert!(error.message.contains(&format!("{id:?}")), "{error}");
        }
    }
    assert_eq!(google.lines(), [""; 0]);
}

#[tokio::test]
async fn a_credentials_file_that_does_not_parse_is_permanent_and_heals() {
    let google = Google::answering(|_| (200, vm("RUNNING"))).await;
    let stand = google.provider();
    std::fs::write(stand.file.path(), "{").expect("writes");
    let error = Provider::get(&*stand, &id()).await.expect_err("refused");
    assert_eq!(
        (error.class, error.heals),
        (ErrorClass::Permanent, true),
        "{error}"
    );
    let create = Provider::create(&*stand, &request())
        .await
        .expect_err("refused");
    assert!(create.message.contains("is no JSON"), "{create}");
    assert_eq!(google.lines(), [""; 0]);
}

#[tokio::test]
async fn a_rotated_credentials_file_is_used_for_the_next_request() {
    let google = Google::answering(|_| (200, vm("RUNNING"))).await;
    let stand = google.provider();
    for refresh_token in ["r3fresh", "r3fresh", "r0tated"] {
        let file = google.user(refresh_token).to_string();
        std::fs::write(stand.file.path(), file).expect("writes");
        Provider::get(&*stand, &id()).await.expect("there");
        let told = google.asked().pop().and_then(|asked| asked.token);
        assert_eq!(told, Some(format!("Bearer t0ken-{refresh_token}")));
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_had_is_transient_and_its_server_is_not_quoted() {
    let google = Google::answering(|_| (200, vm("RUNNING"))).await;
    for (answer, words) in [
        (
            (
                400,
                json!({"error": "invalid_grant", "error_description": "s3cret"}),
            ),
            "invalid_grant",
        ),
        ((500, json!("s3cret")), "the token server answers 500"),
        ((200, json!("{\"s3cret\": ")), "is not understood"),
    ] {
        *google.no_token.lock().expect("no panic") = Some(answer);
        let stand = google.provider();
        for error in [
            Provider::get(&*stand, &id()).await.expect_err("no token"),
            stand.list().await.expect_err("no token"),
        ] {
            assert_eq!(error.class, ErrorClass::Transient, "{error}");
            assert!(error.message.contains(words), "{words}: {error}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
        let checks = stand.check(Duration::from_secs(9)).await;
        assert_eq!(checks[0].reason, "Unauthorized");
    }
    assert_eq!(google.lines(), [""; 0]);
}
