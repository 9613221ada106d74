//! Deletions: looked at first, submitted once.

use super::path;
use crate::providers::gcp::testing::{Google, absent, error, id, operation, vm};
use actors::provider::contract::{ErrorClass, Provider};
use serde_json::{Value, json};

const OPERATION: &str = "GET /compute/v1/projects/p/zones/z-a/operations/operation-2";

/// A Google where the VM is like this, and its deletion like that.
async fn google(vm: Value, deletion: Value) -> Google {
    Google::answering(move |asked| match asked.method.as_str() {
        "DELETE" => (200, operation("operation-2", "PENDING")),
        _ if asked.path.contains("/operations/") => (200, deletion.clone()),
        _ => (200, vm.clone()),
    })
    .await
}

#[tokio::test]
async fn a_deletion_that_goes_on_is_not_submitted_again() {
    for status in ["RUNNING", "STOPPING"] {
        let google = google(vm(status), operation("operation-2", "RUNNING")).await;
        let provider = google.provider();
        Provider::delete(&*provider, &id()).await.expect("accepted");
        assert_eq!(google.lines(), [path("GET"), path("DELETE")]);
        Provider::delete(&*provider, &id()).await.expect("goes on");
        assert_eq!(google.lines(), [path("GET"), OPERATION.to_owned()]);
    }
}

#[tokio::test]
async fn after_a_restart_the_request_id_finds_the_deletion_that_goes_on() {
    let google = google(vm("STOPPING"), operation("operation-2", "RUNNING")).await;
    for _ in 0..2 {
        let restarted = google.provider();
        Provider::delete(&*restarted, &id())
            .await
            .expect("accepted");
    }
    let asked = google.asked();
    let ids: Vec<_> = asked
        .iter()
        .filter_map(|a| a.parameter("requestId"))
        .collect();
    assert!(ids.len() == 2 && ids[0] == ids[1], "{asked:?}");
}

#[tokio::test]
async fn a_deletion_that_failed_is_submitted_again_as_another() {
    let failure = json!({
        "name": "operation-2", "status": "DONE", "httpErrorStatusCode": 500,
        "error": {"errors": [{"code": "INTERNAL_ERROR", "message": "x"}]},
    });
    let google = google(vm("RUNNING"), failure).await;
    let provider = google.provider();
    for _ in 0..2 {
        Provider::delete(&*provider, &id()).await.expect("accepted");
    }
    let asked = google.asked();
    let ids: Vec<_> = asked
        .iter()
        .filter_map(|a| a.parameter("requestId"))
        .collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{asked:?}");
}

#[tokio::test]
async fn a_vm_without_our_marks_is_never_deleted() {
    for (mark, value) in [
        ("proxy-operator-installation", "elsewhere"),
        ("proxy-operator-managed", "false"),
    ] {
        let mut stranger = vm("RUNNING");
        stranger["labels"][mark] = value.into();
        let google = google(stranger, json!({})).await;
        let error = Provider::delete(&*google.provider(), &id()).await;
        let error = error.expect_err("not ours");
        assert_eq!(error.class, ErrorClass::AdoptionConflict, "{error}");
        assert!(error.heals, "marks can be mended");
        assert_eq!(google.lines(), [path("GET")]);
    }
}

#[tokio::test]
async fn one_that_goes_meanwhile_is_gone() {
    let google = Google::answering(|asked| match asked.method.as_str() {
        "DELETE" => absent(),
        _ => (200, vm("RUNNING")),
    })
    .await;
    Provider::delete(&*google.provider(), &id())
        .await
        .expect("gone");
}

#[tokio::test]
async fn a_refused_deletion_is_an_error() {
    for (answer, class) in [
        (
            error(
                403,
                "forbidden",
                "Required 'compute.instances.delete' permission",
            ),
            ErrorClass::Permanent,
        ),
        (
            error(400, "resourceNotReady", "is not ready"),
            ErrorClass::Transient,
        ),
        (
            error(500, "internalError", "Internal error."),
            ErrorClass::Transient,
        ),
    ] {
        let google = Google::answering(move |asked| match asked.method.as_str() {
            "DELETE" => answer.clone(),
            _ => (200, vm("RUNNING")),
        })
        .await;
        let error = Provider::delete(&*google.provider(), &id()).await;
        assert_eq!(error.expect_err("refused").class, class);
    }
}
