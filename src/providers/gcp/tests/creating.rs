//! Creations: repeated, resumed, adopted, followed.

use super::{path, post};
use crate::providers::gcp::testing::{
    Google, INSTANCES, absent, error, id, operation, request, vm,
};
use actors::provider::contract::{CreateRequest, ErrorClass, InstanceState, Operation, Provider};
use serde_json::{Value, json};

/// An operation that came to nothing.
fn failed(name: &str, code: &str, status: u16) -> Value {
    json!({
        "name": name, "status": "DONE", "httpErrorStatusCode": status,
        "error": {"errors": [{"code": code, "message": "Google's words"}]},
    })
}

#[tokio::test]
async fn a_creation_that_is_repeated_has_the_same_request_id_and_the_next_one_another() {
    let google = Google::answering(|_| (200, operation("operation-1", "PENDING"))).await;
    let provider = google.provider();
    let after = CreateRequest {
        after: Some("operation-1".to_owned()),
        ..request()
    };
    let changed = CreateRequest {
        spec_hash: "other".to_owned(),
        ..request()
    };
    for request in [&request(), &request(), &after, &changed] {
        let created = Provider::create(&*provider, request).await.expect("made");
        assert_eq!(created.operation.as_deref(), Some("operation-1"));
    }
    let asked = google.asked();
    let ids: Vec<_> = asked.iter().map(|a| a.parameter("requestId")).collect();
    assert_eq!(ids.len(), 4);
    assert_eq!(ids[0], ids[1]);
    assert!(ids[2] != ids[0] && ids[3] != ids[0] && ids[2] != ids[3]);
}

#[tokio::test]
async fn an_old_answer_whose_vm_is_there_is_that_vm() {
    let google = Google::answering(|asked| match asked.method.as_str() {
        "POST" => (200, operation("operation-1", "DONE")),
        _ => (200, vm("RUNNING")),
    })
    .await;
    let created = Provider::create(&*google.provider(), &request()).await;
    let created = created.expect("adopted");
    assert_eq!(created.operation.as_deref(), Some("operation-1"));
    assert_eq!(google.lines(), [post(), path("GET")]);
}

#[tokio::test]
async fn an_old_answer_whose_vm_is_gone_is_another_creation() {
    let mut names = vec!["operation-2", "operation-1"];
    let google = Google::answering(move |asked| match asked.method.as_str() {
        "POST" => {
            let name = names.pop().expect("no third one");
            let status = if name == "operation-1" {
                "DONE"
            } else {
                "RUNNING"
            };
            (200, operation(name, status))
        }
        _ => absent(),
    })
    .await;
    let created = Provider::create(&*google.provider(), &request()).await;
    let created = created.expect("made");
    assert_eq!(created.operation.as_deref(), Some("operation-2"));
    let asked = google.asked();
    let ids: Vec<_> = asked
        .iter()
        .filter_map(|a| a.parameter("requestId"))
        .collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{asked:?}");
}

#[tokio::test]
async fn a_creation_that_failed_before_it_was_recorded_is_told_by_who_follows_it() {
    let google = Google::answering(|asked| {
        match (asked.method.as_str(), asked.path.ends_with("operation-1")) {
            ("POST", _) | (_, true) => (
                200,
                failed("operation-1", "ZONE_RESOURCE_POOL_EXHAUSTED", 503),
            ),
            _ => absent(),
        }
    })
    .await;
    let provider = google.provider();
    let created = Provider::create(&*provider, &request())
        .await
        .expect("accepted");
    let operation = created.operation.expect("named");
    assert_eq!(google.lines(), [post()], "never twice");
    let error = provider.follow(&created.id, &operation).await;
    let error = error.expect_err("it failed");
    assert_eq!(error.class, ErrorClass::QuotaExceeded, "{error}");
    assert_eq!(error.operation, Operation::Create);
    assert_eq!(
        error.message,
        "ZONE_RESOURCE_POOL_EXHAUSTED: Google's words"
    );
}

#[tokio::test]
async fn a_taken_name_is_looked_up() {
    let stranger = |uid: &str, installation: &str| {
        let mut vm = vm("RUNNING");
        vm["labels"]["proxy-operator-uid"] = uid.into();
        vm["labels"]["proxy-operator-installation"] = installation.into();
        (200, vm)
    };
    let ours = request().uid;
    for (found, class) in [
        ((200, vm("RUNNING")), None),
        ((200, vm("TERMINATED")), None),
        ((200, vm("STOPPING")), Some(ErrorClass::Transient)),
        (absent(), Some(ErrorClass::Transient)),
        (
            stranger("other", "here"),
            Some(ErrorClass::AdoptionConflict),
        ),
        (stranger(&ours, "there"), Some(ErrorClass::AdoptionConflict)),
        (
            error(503, "backendError", "Backend Error"),
            Some(ErrorClass::Transient),
        ),
    ] {
        let answer = found.clone();
        let google = Google::answering(move |asked| match asked.method.as_str() {
            "POST" => error(409, "alreadyExists", "already exists"),
            _ => answer.clone(),
        })
        .await;
        let created = Provider::create(&*google.provider(), &request()).await;
        assert_eq!(created.as_ref().err().map(|e| e.class), class, "{found:?}");
        assert_eq!(google.lines(), [post(), path("GET")]);
        if class == Some(ErrorClass::AdoptionConflict) {
            let error = created.expect_err("a conflict");
            assert!(error.message.contains("belongs to uid"), "{error}");
        }
    }
}

#[tokio::test]
async fn refusals_of_an_insert_have_their_class_and_google_s_words() {
    for (answer, class) in [
        (
            error(400, "invalid", "Unknown zone."),
            ErrorClass::Permanent,
        ),
        (
            error(
                404,
                "notFound",
                "The resource 'projects/i/global/images/x' was not found",
            ),
            ErrorClass::Permanent,
        ),
        (
            error(403, "quotaExceeded", "Quota 'CPUS' exceeded."),
            ErrorClass::QuotaExceeded,
        ),
        (
            error(503, "backendError", "Backend Error"),
            ErrorClass::Transient,
        ),
        (
            (502, json!("<html>bad gateway</html>")),
            ErrorClass::Transient,
        ),
        ((200, json!("{\"name\": \"oper")), ErrorClass::Transient),
    ] {
        let told = answer.clone();
        let google = Google::answering(move |_| answer.clone()).await;
        let error = Provider::create(&*google.provider(), &request()).await;
        let error = error.expect_err("refused");
        assert_eq!(error.class, class, "{told:?}");
        assert_eq!(error.id, Some(id()));
        assert_eq!(google.lines(), [post()], "one request, never repeated");
        if let Some(words) = told.1["error"]["message"].as_str() {
            assert_eq!(error.message, words);
        }
    }
}

#[tokio::test]
async fn an_impossible_request_is_refused_before_google_is_asked() {
    let google = Google::answering(|_| (200, json!({}))).await;
    let impossible = CreateRequest {
        name: "Not A Name".to_owned(),
        ..request()
    };
    let error = Provider::create(&*google.provider(), &impossible).await;
    assert_eq!(error.expect_err("refused").class, ErrorClass::Permanent);
    assert_eq!(google.lines(), [""; 0]);
}

type Expected = Result<InstanceState, (ErrorClass, Operation)>;

#[tokio::test]
async fn only_where_the_vm_is_missing_is_the_operation_read() {
    let ask = "GET /compute/v1/projects/p/zones/z-a/operations/operation-1";
    let both = || vec![path("GET"), ask.to_owned()];
    let cases: [(Value, u16, Expected); 7] = [
        (
            operation("operation-1", "PENDING"),
            200,
            Ok(InstanceState::Provisioning),
        ),
        (
            operation("operation-1", "RUNNING"),
            200,
            Ok(InstanceState::Provisioning),
        ),
        (
            operation("operation-1", "DONE"),
            200,
            Err((ErrorClass::NotFound, Operation::Get)),
        ),
        (
            failed("operation-1", "QUOTA_EXCEEDED", 403),
            200,
            Err((ErrorClass::QuotaExceeded, Operation::Create)),
        ),
        (
            failed("operation-1", "RESOURCE_NOT_FOUND", 404),
            200,
            Err((ErrorClass::Permanent, Operation::Create)),
        ),
        (
            error(
                404,
                "notFound",
                "The resource 'projects/p/zones/z-a/operations/operation-1' was not found",
            )
            .1,
            404,
            Err((ErrorClass::NotFound, Operation::Get)),
        ),
        (
            error(503, "backendError", "Backend Error").1,
            503,
            Err((ErrorClass::Transient, Operation::Get)),
        ),
    ];
    for (answer, status, expected) in cases {
        let told = answer.clone();
        let google = Google::answering(move |asked| {
            if asked.path.contains("/operations/") {
                (status, answer.clone())
            } else {
                absent()
            }
        })
        .await;
        let seen = google.provider().follow(&id(), "operation-1").await;
        let seen = seen.map(|vm| vm.state).map_err(|e| (e.class, e.operation));
        assert_eq!(seen, expected, "{told}");
        assert_eq!(google.lines(), both());
    }
}

#[tokio::test]
async fn what_google_never_called_so_is_no_operation() {
    let google = Google::answering(|_| absent()).await;
    let provider = google.provider();
    for odd in ["", "../x", "a/b", "a?b"] {
        let error = provider.follow(&id(), odd).await.expect_err(odd);
        assert_eq!(error.class, ErrorClass::NotFound, "{error}");
        assert_eq!(google.lines(), [path("GET")]);
    }
}

#[tokio::test]
async fn nothing_is_made_while_the_one_before_is_being_deleted() {
    let mut looks = 0;
    let google = Google::answering(move |asked| match asked.method.as_str() {
        "DELETE" => (200, operation("operation-2", "RUNNING")),
        "POST" => (200, operation("operation-3", "RUNNING")),
        _ if asked.path.contains("/operations/") => {
            looks += 1;
            (200, operation("operation-2", "RUNNING"))
        }
        _ if looks < 2 => (200, vm("RUNNING")),
        _ => absent(),
    })
    .await;
    let provider = google.provider();
    Provider::delete(&*provider, &id()).await.expect("accepted");
    google.asked();
    let early = Provider::create(&*provider, &request()).await;
    assert_eq!(early.expect_err("too early").class, ErrorClass::Transient);
    let lines = google.lines();
    assert!(
        lines.iter().all(|line| line.starts_with("GET ")),
        "{lines:?}"
    );
    Provider::delete(&*provider, &id()).await.expect("goes on");
    google.asked();
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    assert_eq!(google.lines(), [path("GET"), format!("POST {INSTANCES}")]);
    Provider::create(&*provider, &request())
        .await
        .expect("made");
    assert_eq!(google.lines(), [post()], "that is over");
}

#[tokio::test]
async fn what_an_earlier_attempt_may_have_left_in_another_zone_is_looked_for_and_adopted() {
    let left = |zones: Value| {
        Google::answering(move |asked| match asked.method.as_str() {
            "POST" => (200, operation("operation-1", "PENDING")),
            _ => (200, zones.clone()),
        })
    };
    let uncertain = CreateRequest {
        elsewhere: true,
        ..request()
    };
    let google = left(json!({"items": {"zones/z-b": {"instances": [vm("STAGING")]}}})).await;
    let adopted = Provider::create(&*google.provider(), &uncertain).await;
    let adopted = adopted.expect("adopted");
    assert_eq!(adopted.id, id().replace("z-a", "z-b"));
    assert_eq!(adopted.operation, None);
    let asked = google.asked();
    assert_eq!(asked.len(), 1, "nothing is made");
    let filter = asked[0].parameter("filter").unwrap_or_default();
    assert!(filter.contains(&request().uid), "{filter}");

    let google = left(json!({"items": {}})).await;
    let made = Provider::create(&*google.provider(), &uncertain).await;
    assert_eq!(made.expect("made").id, id());

    let google = left(json!({"items": {}, "unreachables": ["zones/z-b"]})).await;
    let refused = Provider::create(&*google.provider(), &uncertain).await;
    let refused = refused.expect_err("nobody knows");
    assert_eq!(refused.class, ErrorClass::Transient);
    assert!(refused.message.contains("zones/z-b"), "{refused}");
}

#[tokio::test]
async fn a_deletion_that_failed_does_not_keep_a_creation_waiting() {
    let google = Google::answering(|asked| match asked.method.as_str() {
        "DELETE" => (200, operation("operation-2", "PENDING")),
        "POST" => error(409, "alreadyExists", "The resource already exists"),
        _ if asked.path.contains("/operations/") => {
            (200, failed("operation-2", "RESOURCE_IN_USE", 400))
        }
        _ => (200, vm("RUNNING")),
    })
    .await;
    let provider = google.provider();
    Provider::delete(&*provider, &id()).await.expect("accepted");
    let adopted = Provider::create(&*provider, &request()).await;
    assert_eq!(adopted.expect("adopted").id, id());
}
