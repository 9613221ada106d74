use super::*;
use ErrorClass::{NotFound, Permanent, QuotaExceeded, Transient};
use bytes::Bytes;
use serde_json::json;

/// Bodies as Compute Engine writes them, shortened to what differs: the HTTP status, the body, the class, and
/// whether that heals.
const ANSWERS: &[(u16, &str, ErrorClass, bool)] = &[
    (
        404,
        r#"{"error":{"code":404,"message":"The resource 'projects/p/zones/z/instances/proxy-x' was not found","errors":[{"message":"The resource 'projects/p/zones/z/instances/proxy-x' was not found","domain":"global","reason":"notFound"}]}}"#,
        NotFound,
        false,
    ),
    (
        403,
        r#"{"error":{"code":403,"message":"Quota 'CPUS' exceeded.  Limit: 24.0 in region europe-west1.","errors":[{"message":"Quota 'CPUS' exceeded.  Limit: 24.0 in region europe-west1.","domain":"usageLimits","reason":"quotaExceeded"}]}}"#,
        QuotaExceeded,
        false,
    ),
    (
        403,
        r#"{"error":{"code":403,"message":"Rate Limit Exceeded","errors":[{"message":"Rate Limit Exceeded","domain":"usageLimits","reason":"rateLimitExceeded"}]}}"#,
        QuotaExceeded,
        false,
    ),
    (
        403,
        r#"{"error":{"code":403,"message":"Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service 'compute.googleapis.com' for consumer 'project_number:1'.","errors":[{"message":"Quota exceeded","domain":"usageLimits","reason":"rateLimitExceeded"}],"status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","domain":"googleapis.com","metadata":{"service":"compute.googleapis.com"}}]}}"#,
        QuotaExceeded,
        false,
    ),
    (
        429,
        r#"{"error":{"code":429,"message":"Too many requests","errors":[{"message":"Too many requests","domain":"usageLimits","reason":"rateLimitExceeded"}]}}"#,
        QuotaExceeded,
        false,
    ),
    (
        403,
        r#"{"error":{"code":403,"message":"Required 'compute.instances.create' permission for 'projects/p/zones/z/instances/proxy-x'","errors":[{"message":"Required 'compute.instances.create' permission for 'projects/p/zones/z/instances/proxy-x'","domain":"global","reason":"forbidden"}]}}"#,
        Permanent,
        true,
    ),
    (
        403,
        r#"{"error":{"code":403,"message":"Compute Engine API has not been used in project 1 before or it is disabled.","errors":[{"message":"disabled","domain":"usageLimits","reason":"accessNotConfigured"}],"status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"SERVICE_DISABLED","domain":"googleapis.com","metadata":{"service":"compute.googleapis.com"}}]}}"#,
        Permanent,
        true,
    ),
    (
        401,
        r#"{"error":{"code":401,"message":"Request had invalid authentication credentials.","errors":[{"message":"Invalid Credentials","domain":"global","reason":"authError","location":"Authorization","locationType":"header"}],"status":"UNAUTHENTICATED"}}"#,
        Permanent,
        true,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"Invalid value for field 'resource.machineType': 'zones/z/machineTypes/e2-tiny'. Machine type with name 'e2-tiny' does not exist in zone 'z'.","errors":[{"message":"Invalid value","domain":"global","reason":"invalid"}]}}"#,
        Permanent,
        false,
    ),
    (
        400,
        r#"{"error":{"code":400,"message":"The resource 'projects/p/global/firewalls/f' is not ready","errors":[{"message":"The resource 'projects/p/global/firewalls/f' is not ready","domain":"global","reason":"resourceNotReady"}]}}"#,
        Transient,
        false,
    ),
    (
        409,
        r#"{"error":{"code":409,"message":"The resource 'projects/p/zones/z/instances/proxy-x' already exists","errors":[{"message":"The resource 'projects/p/zones/z/instances/proxy-x' already exists","domain":"global","reason":"alreadyExists"}]}}"#,
        Transient,
        false,
    ),
    (
        412,
        r#"{"error":{"code":412,"message":"Supplied fingerprint does not match current labels fingerprint.","errors":[{"message":"Supplied fingerprint","domain":"global","reason":"conditionNotMet","location":"If-Match","locationType":"header"}]}}"#,
        Transient,
        false,
    ),
    (
        500,
        r#"{"error":{"code":500,"message":"Internal error. Please try again or contact Google Support. (Code: '1')","errors":[{"message":"Internal error.","domain":"global","reason":"internalError"}]}}"#,
        Transient,
        false,
    ),
    (
        503,
        r#"{"error":{"code":503,"message":"Backend Error","errors":[{"message":"Backend Error","domain":"global","reason":"backendError"}]}}"#,
        Transient,
        false,
    ),
];

fn refusal(code: u16, body: &str) -> Refusal {
    let body = Bytes::copy_from_slice(body.as_bytes());
    match Status::try_from(&body) {
        Ok(status) => Refusal::of_answer(code, &status),
        Err(_) => Refusal::of_stranger(code),
    }
}

#[test]
fn google_s_answers_have_their_class() {
    for (code, body, class, heals) in ANSWERS {
        let refusal = refusal(*code, body);
        assert_eq!(refusal.class(), *class, "{body}");
        let heals_as_permanent = refusal.class() == Permanent && refusal.heals();
        assert_eq!(heals_as_permanent, *heals, "{body}");
        assert!(body.contains(&refusal.message), "{}", refusal.message);
        assert_eq!(refusal.status(), Some(*code));
    }
}

/// As Google's client hands them over.
#[test]
fn the_client_s_errors_are_the_same() {
    for (code, body, class, _) in ANSWERS {
        let bytes = Bytes::copy_from_slice(body.as_bytes());
        let status = Status::try_from(&bytes).expect("in Google's shape");
        let error = Error::service_with_http_metadata(status, Some(*code), None);
        assert_eq!(Refusal::of_client(&error).class(), *class, "{body}");
    }
}

#[test]
fn a_proxy_between_that_answers_in_html_is_not_believed() {
    for code in [400, 401, 403, 404, 407, 429, 502, 503] {
        let html = "<html><title>s3ntinel</title></html>";
        let refused = refusal(code, html);
        assert_eq!(refused.class(), Transient, "{code}");
        assert!(!refused.message.contains("s3ntinel"), "{}", refused.message);
        let error = Error::http(code, http::HeaderMap::new(), Bytes::from(html));
        assert_eq!(Refusal::of_client(&error), refused);
    }
}

#[test]
fn what_never_came_is_transient() {
    let token = google_cloud_auth::errors::CredentialsError::from_msg(false, "secret");
    for (error, fault) in [
        (Error::timeout("t"), Fault::Timeout),
        (Error::io("reset"), Fault::Unreachable),
        (Error::connect("refused"), Fault::Unreachable),
        (Error::deser("quoted secret"), Fault::Unreadable),
        (Error::authentication(token), Fault::Token),
    ] {
        let refusal = Refusal::of_client(&error);
        assert_eq!(refusal.fault, fault);
        assert_eq!(refusal.class(), Transient, "{fault:?}");
        assert!(!refusal.message.contains("secret"), "{}", refusal.message);
    }
}

#[test]
fn only_the_vm_itself_is_missing_for_certain() {
    let missing = |message: &str| {
        let body =
            json!({"error": {"code": 404, "message": message, "errors": [{"reason": "notFound"}]}});
        refusal(404, &body.to_string()).says_absent("proxy-x")
    };
    assert!(missing(
        "The resource 'projects/p/zones/z/instances/proxy-x' was not found"
    ));
    assert!(missing("Not Found"));
    for other in [
        "The resource 'projects/p' was not found",
        "The resource 'projects/p/zones/z' was not found",
        "The resource 'projects/p/zones/z/instances/proxy-xx' was not found",
        "Failed to find project p",
    ] {
        assert!(!missing(other), "{other}");
    }
    assert!(!refusal(404, "<html>").says_absent("proxy-x"));
}

#[test]
fn checks_speak_the_shared_reasons() {
    for (fault, reason) in [
        (Fault::Timeout, "Timeout"),
        (Fault::Unreachable, "Unreachable"),
        (Fault::Token, "Unauthorized"),
        (Fault::Credentials(Transient), "Unauthorized"),
        (Fault::Google(401, vec![]), "Unauthorized"),
        (Fault::Google(403, vec!["forbidden".into()]), "Forbidden"),
        (Fault::Google(403, vec!["quotaExceeded".into()]), "APIError"),
        (Fault::Google(404, vec![]), "APIError"),
        (Fault::Google(500, vec![]), "APIError"),
        (Fault::Stranger(403), "APIError"),
        (Fault::Unreadable, "APIError"),
    ] {
        let refusal = Refusal::new(fault.clone(), String::new());
        assert_eq!(refusal.check_reason(), reason, "{fault:?}");
    }
}

#[test]
fn operations_fail_with_a_class_and_google_s_words() {
    let operation = |status: i32, code: &str| -> Operation {
        let errors = json!([{"code": code, "message": "words of Google"}]);
        let parts =
            json!({"status": "DONE", "httpErrorStatusCode": status, "error": {"errors": errors}});
        serde_json::from_value(parts).expect("an operation")
    };
    for (status, code, class) in [
        (403, "QUOTA_EXCEEDED", QuotaExceeded),
        (503, "ZONE_RESOURCE_POOL_EXHAUSTED", QuotaExceeded),
        (
            503,
            "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS",
            QuotaExceeded,
        ),
        (429, "SOMETHING", QuotaExceeded),
        (404, "RESOURCE_NOT_FOUND", Permanent),
        (400, "INVALID_USAGE", Permanent),
        (403, "PERMISSIONS_ERROR", Permanent),
        (409, "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE", Transient),
        (500, "INTERNAL_ERROR", Transient),
        (0, "UNHEARD_OF", Transient),
    ] {
        let failed = failure(&operation(status, code));
        let words = format!("{code}: words of Google");
        assert_eq!(failed, Some((class, words)), "{code}");
    }
    let bare: Operation = serde_json::from_value(
        json!({"httpErrorStatusCode": 400, "httpErrorMessage": "BAD REQUEST"}),
    )
    .expect("an operation");
    let words = "HTTP status 400 BAD REQUEST".to_owned();
    assert_eq!(failure(&bare), Some((Permanent, words)));
    assert_eq!(failure(&Operation::new()), None);
}

#[test]
fn a_message_is_short() {
    let long = refusal(
        400,
        &json!({"error": {"message": "ä".repeat(4000)}}).to_string(),
    );
    assert_eq!(long.message.len(), 1024);
}
