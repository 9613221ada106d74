//! What a failed call to the API server means.

use crate::telemetry::with_causes;
use actors::provider::contract::ErrorClass;
use kube::core::{Status, response::reason};

/// The class of `error`. What it does not know is `Transient`: a retry costs little, whereas a
/// wrong `Permanent` stops a proxy for good and a wrong `NotFound` makes a second one.
#[must_use]
pub fn classify(error: &kube::Error) -> ErrorClass {
    match error {
        kube::Error::Api(status) if speaks_kubernetes(status) => rejection(status),
        _ => ErrorClass::Transient,
    }
}

fn rejection(status: &Status) -> ErrorClass {
    let about = status.details.as_ref();
    match status.code {
        // Of the pod itself: its namespace may be missing, or the API.
        404 if about.is_some_and(|details| details.kind == "pods") => ErrorClass::NotFound,
        403 if status.message.contains("exceeded quota") => ErrorClass::QuotaExceeded,
        // A namespace gets its service account a moment after it is made.
        403 if status.message.contains("error looking up service account") => ErrorClass::Transient,
        400 | 401 | 403 | 422 => ErrorClass::Permanent,
        _ => ErrorClass::Transient,
    }
}

/// Something between us and the API server may answer as well; kube wraps its text in a `Status`
/// with a reason that no API server gives.
fn speaks_kubernetes(status: &Status) -> bool {
    status.reason.is_empty() || reason::is_known(&status.reason)
}

/// Whether the API server says that an object of this name exists.
#[must_use]
pub fn already_exists(error: &kube::Error) -> bool {
    is_api(error, 409, reason::ALREADY_EXISTS)
}

/// Whether the API server says that the object changed meanwhile, or is another one by now.
#[must_use]
pub fn conflicts(error: &kube::Error) -> bool {
    is_api(error, 409, reason::CONFLICT)
}

fn is_api(error: &kube::Error, code: u16, reason: &str) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code && status.reason == reason)
}

/// Whether the API server says that we may not, or that it does not know us, as opposed to a rule
/// about pods that refuses this one.
#[must_use]
pub fn denies(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return false;
    };
    let unknown = status.code == 401 && status.reason == reason::UNAUTHORIZED;
    let forbidden = status.code == 403 && status.reason == reason::FORBIDDEN;
    unknown || forbidden && status.message.contains("\" cannot ")
}

/// The reason of a failed check.
#[must_use]
pub fn check_reason(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 401 => "Unauthorized",
        kube::Error::Api(status) if status.code == 403 => "Forbidden",
        // No answer at all: refused, reset, no route, a certificate that is not trusted.
        kube::Error::Service(_) | kube::Error::HyperError(_) => "Unreachable",
        _ => "APIError",
    }
}

/// What a person should read: the API server's own words, or the error with all its causes.
#[must_use]
pub fn message(error: &kube::Error) -> String {
    // A page of somebody else's HTML is no use in a condition.
    const LONGEST: usize = 1024;
    let mut text = match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        // kube's own words for a status repeat all of it.
        kube::Error::Api(_) => error.to_string(),
        _ => with_causes(error),
    };
    text.truncate(text.floor_char_boundary(LONGEST));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ErrorClass::{NotFound, Permanent, QuotaExceeded, Transient};

    /// Answers of a real API server 1.36, shortened to what differs.
    const ANSWERS: &[(ErrorClass, &str)] = &[
        (
            NotFound,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"none\" not found","reason":"NotFound","details":{"name":"none","kind":"pods"},"code":404}"#,
        ),
        (
            Transient,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"namespaces \"nope\" not found","reason":"NotFound","details":{"name":"nope","kind":"namespaces"},"code":404}"#,
        ),
        (
            QuotaExceeded,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"a\" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=1, limited: pods=1","reason":"Forbidden","details":{"name":"a","kind":"pods"},"code":403}"#,
        ),
        (
            Permanent,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"a\" is forbidden: failed quota: mem: must specify limits.memory for: c","reason":"Forbidden","details":{"name":"a","kind":"pods"},"code":403}"#,
        ),
        (
            Transient,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"a\" is forbidden: error looking up service account q/default: serviceaccount \"default\" not found","reason":"Forbidden","details":{"name":"a","kind":"pods"},"code":403}"#,
        ),
        (
            Permanent,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"b\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false)","reason":"Forbidden","details":{"name":"b","kind":"pods"},"code":403}"#,
        ),
        (
            Permanent,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods is forbidden: User \"bob\" cannot create resource \"pods\" in API group \"\" in the namespace \"q\"","reason":"Forbidden","details":{"kind":"pods"},"code":403}"#,
        ),
        (
            Permanent,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"c\" is forbidden: unable to create new content in namespace q because it is being terminated","reason":"Forbidden","details":{"name":"c","kind":"pods","causes":[{"reason":"NamespaceTerminating","message":"namespace q is being terminated","field":"metadata.namespace"}]},"code":403}"#,
        ),
        (
            Permanent,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#,
        ),
        (
            Permanent,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: unexpected end of JSON input ({)","reason":"BadRequest","code":400}"#,
        ),
        (
            Permanent,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Pod \"B_\" is invalid: metadata.name: Invalid value: \"B_\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters","reason":"Invalid","details":{"name":"B_","kind":"Pod","causes":[{"reason":"FieldValueInvalid","message":"Invalid value","field":"metadata.name"}]},"code":422}"#,
        ),
        (
            Transient,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"pods \"a\" already exists","reason":"AlreadyExists","details":{"name":"a","kind":"pods"},"code":409}"#,
        ),
        (
            Transient,
            r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Operation cannot be fulfilled on Pod \"a\": the UID in the precondition (0000) does not match the UID in record (9832fc92-f8c2-434e-b7c9-69515a895f75). The object might have been deleted and then recreated","reason":"Conflict","details":{"name":"a","kind":"Pod"},"code":409}"#,
        ),
    ];

    fn api(json: &str) -> kube::Error {
        let status: Status = serde_json::from_str(json).expect("a Status");
        kube::Error::Api(status.boxed())
    }

    fn bare(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(Status::failure("?", reason).with_code(code).boxed())
    }

    #[test]
    fn captured_answers_have_their_class() {
        for (class, answer) in ANSWERS {
            let error = api(answer);
            assert_eq!(classify(&error), *class, "{answer}");
            let denial = answer.contains("Unauthorized") || answer.contains("bob");
            assert_eq!(denies(&error), denial, "{answer}");
            let words = message(&error);
            assert!(answer.replace("\\\"", "\"").contains(&words), "{words}");
        }
    }

    #[test]
    fn what_may_pass_is_transient() {
        for (code, reason) in [
            (408, reason::TIMEOUT),
            (410, reason::EXPIRED),
            (429, reason::TOO_MANY_REQUESTS),
            (500, reason::INTERNAL_ERROR),
            (503, reason::SERVICE_UNAVAILABLE),
            (504, reason::SERVER_TIMEOUT),
            (418, ""),
        ] {
            assert_eq!(classify(&bare(code, reason)), Transient, "{code}");
        }
        let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
        let reset = kube::Error::Service(Box::new(reset));
        assert_eq!(classify(&reset), Transient);
    }

    /// kube gives such an answer the code that it came with.
    #[test]
    fn a_proxy_between_that_answers_in_html_is_not_believed() {
        for code in [400, 401, 403, 404, 422] {
            let stranger = bare(code, "Failed to parse error data");
            assert_eq!(classify(&stranger), Transient, "{code}");
        }
    }

    #[test]
    fn the_two_conflicts_are_told_apart() {
        let (exists, changed) = (
            bare(409, reason::ALREADY_EXISTS),
            bare(409, reason::CONFLICT),
        );
        assert!(already_exists(&exists) && !conflicts(&exists));
        assert!(conflicts(&changed) && !already_exists(&changed));
    }

    #[test]
    fn checks_speak_the_shared_reasons() {
        for (code, reason) in [(401, "Unauthorized"), (403, "Forbidden"), (500, "APIError")] {
            assert_eq!(check_reason(&bare(code, "")), reason);
        }
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(
            check_reason(&kube::Error::Service(Box::new(refused))),
            "Unreachable"
        );
    }

    #[test]
    fn a_message_is_short_and_tells_the_cause() {
        let page = kube::Error::Api(Status::failure(&"ä".repeat(4000), "?").boxed());
        assert_eq!(message(&page).len(), 1024);
        let refused = std::io::Error::other("connection refused by 10.76.1.1");
        let text = message(&kube::Error::Service(Box::new(refused)));
        assert_eq!(text.matches("10.76.1.1").count(), 1, "{text}");
    }
}
