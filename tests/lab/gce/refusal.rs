//! Errors, in the words and the shape that Google gives them.
//!
//! There are two makers of errors. Compute Engine itself writes `error.code`, `message` and
//! `errors[]`; what Google's front end refuses before that (credentials, quotas of requests, JSON that
//! it cannot read) has `status` and typed `details` beside.

use super::schema::{Problem, Violation};
use serde_json::{Value, json};

/// An answer that is an error.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// For a human.
    pub message: String,
    /// As in `errors[0].reason`: `notFound`.
    pub reason: &'static str,
    /// As in `errors[0].domain`.
    pub domain: &'static str,
    /// gRPC's name of the status, where the front end is the maker.
    pub status: Option<&'static str>,
    /// Typed details.
    pub details: Vec<Value>,
    /// Seconds after which to ask again.
    pub retry_after: Option<u32>,
}

impl Refusal {
    /// One of Compute Engine's own.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            reason,
            domain: "global",
            status: None,
            details: Vec::new(),
            retry_after: None,
        }
    }

    /// One of the front end's, with an `ErrorInfo` of this reason.
    pub fn of_front_end(
        mut self,
        status: &'static str,
        info: &'static str,
        metadata: &Value,
    ) -> Self {
        self.status = Some(status);
        self.details.push(json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": info,
            "domain": "googleapis.com",
            "metadata": metadata,
        }));
        self
    }

    /// `path` is that of the resource: `projects/p/zones/z/instances/i`.
    pub fn not_found(path: &str) -> Self {
        let message = format!("The resource '{path}' was not found");
        Self::new(404, "notFound", message)
    }

    /// See [`Refusal::not_found`].
    pub fn already_exists(path: &str) -> Self {
        let message = format!("The resource '{path}' already exists");
        Self::new(409, "alreadyExists", message)
    }

    /// A field that has a value, which is not right because of `why`.
    pub fn invalid(field: &str, value: &str, why: &str) -> Self {
        let message = format!("Invalid value for field '{field}': '{value}'. {why}");
        Self::new(400, "invalid", message)
    }

    /// A field without a value.
    pub fn required(field: &str) -> Self {
        let message = format!("Required field '{field}' not specified");
        Self::new(400, "required", message)
    }

    /// JSON or a parameter that the front end cannot make the method's request of.
    pub fn bad_request(message: &str) -> Self {
        let mut refusal = Self::new(400, "invalid", message);
        refusal.status = Some("INVALID_ARGUMENT");
        refusal.details.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{ "description": message }],
        }));
        refusal
    }

    /// What the description does not allow.
    pub fn of_violation(violation: &Violation) -> Self {
        let at = &violation.at;
        match &violation.problem {
            Problem::Unknown(name) => Self::bad_request(&format!(
                "Invalid JSON payload received. Unknown name \"{name}\" at '{at}': Cannot find field."
            )),
            Problem::Type(name, value) => {
                Self::bad_request(&format!("Invalid value at '{at}' ({name}), {value}"))
            }
            Problem::Enum(allowed, value) => Self::invalid(
                at,
                value,
                &format!("Must be one of [{}]", allowed.join(", ")),
            ),
            Problem::Pattern(pattern, value) => {
                Self::invalid(at, value, &format!("Must be a match of regex '{pattern}'"))
            }
            Problem::Required => Self::required(at),
        }
    }

    /// A scope or a server that cannot be reached just now.
    pub fn unavailable(message: &str) -> Self {
        Self::new(503, "backendError", message)
    }

    /// Header fields of the answer.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if let Some(seconds) = self.retry_after {
            headers.push(("retry-after", seconds.to_string()));
        }
        if self.code == 401 {
            let realm = "Bearer realm=\"https://accounts.google.com/\"";
            let why = match self.reason {
                "authError" => ", error=\"invalid_token\"",
                _ => "",
            };
            headers.push(("www-authenticate", format!("{realm}{why}")));
        }
        headers
    }

    /// The body of the answer.
    pub fn body(&self) -> Value {
        let mut one = json!({
            "message": self.message, "domain": self.domain, "reason": self.reason,
        });
        if self.code == 401 {
            one["location"] = "Authorization".into();
            one["locationType"] = "header".into();
        }
        let mut error = json!({ "code": self.code, "message": self.message, "errors": [one] });
        if let Some(status) = self.status {
            error["status"] = status.into();
        }
        if !self.details.is_empty() {
            error["details"] = self.details.clone().into();
        }
        json!({ "error": error })
    }
}
