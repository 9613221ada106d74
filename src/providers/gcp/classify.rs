//! What a failed request to Google means.

use super::{credentials::CredentialsFault, secrecy};
use crate::telemetry::with_causes;
use actors::provider::contract::ErrorClass;
use google_cloud_compute_v1::model::Operation;
use google_cloud_gax::error::{
    Error,
    rpc::{Status, StatusDetails},
};
use std::time::Duration;

/// A page of somebody else's HTML is no use in a condition.
const LONGEST: usize = 1024;

/// Why there is no answer that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Where it went wrong.
    pub fault: Fault,
    /// What a person should read: Google's own words where it is Google that refuses.
    pub message: String,
}

/// Where a request went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There are no credentials to make it with; `Permanent` ones do not parse.
    Credentials(ErrorClass),
    /// Nobody gives a token for the credentials.
    Token,
    /// No answer in time.
    Timeout,
    /// No connection: refused, reset, no route, a certificate that is not trusted.
    Unreachable,
    /// An answer that is not Google's, or is cut off.
    Unreadable,
    /// Google's answer: the HTTP status, and the reasons that it gives in its error body.
    Google(u16, Vec<String>),
    /// An answer with this HTTP status that is not in Google's shape: something between us and Google.
    Stranger(u16),
}

/// The reasons of a 403 that say there is no room, or too many requests, as opposed to no right.
const NO_ROOM: [&str; 7] = [
    "quotaExceeded",
    "rateLimitExceeded",
    "userRateLimitExceeded",
    "dailyLimitExceeded",
    "limitExceeded",
    "RATE_LIMIT_EXCEEDED",
    "QUOTA_EXCEEDED",
];

impl Refusal {
    /// That nothing came within this time.
    #[must_use]
    pub fn timeout(after: Duration) -> Self {
        let message = format!("no answer from Google within {} s", after.as_secs());
        Self {
            fault: Fault::Timeout,
            message,
        }
    }

    /// Of Google's client.
    #[must_use]
    pub fn of_client(error: &Error) -> Self {
        let fault = if error.is_authentication() {
            return Self::of_token(error);
        } else if error.is_timeout() {
            Fault::Timeout
        } else if let (Some(code), Some(status)) = (error.http_status_code(), error.status()) {
            return Self::of_answer(code, status);
        } else if let Some(code) = error.http_status_code() {
            return Self::of_stranger(code);
        } else if error.is_deserialization() {
            // Its causes may quote what was sent.
            return Self::unreadable();
        } else {
            Fault::Unreachable
        };
        Self::new(fault, with_causes(error))
    }

    /// Of an error that is Google's by its shape.
    #[must_use]
    pub fn of_answer(code: u16, status: &Status) -> Self {
        let reasons = status.details.iter().filter_map(|detail| match detail {
            StatusDetails::ErrorInfo(info) => Some(info.reason.clone()),
            _ => None,
        });
        let message = match status.message.as_str() {
            "" => format!("Google answers {code} without a word"),
            words => words.to_owned(),
        };
        Self::new(Fault::Google(code, reasons.collect()), message)
    }

    /// Of an answer that is not Google's.
    #[must_use]
    pub fn of_stranger(code: u16) -> Self {
        let message = format!("HTTP status {code}, and no error of Google's: who answers there?");
        Self::new(Fault::Stranger(code), message)
    }

    /// An answer that cannot be understood.
    #[must_use]
    pub fn unreadable() -> Self {
        let message = "the answer is no whole answer of Google's".to_owned();
        Self::new(Fault::Unreadable, message)
    }

    /// Of a transport of ours.
    #[must_use]
    pub fn of_transport(error: reqwest::Error) -> Self {
        let fault = if error.is_timeout() {
            Fault::Timeout
        } else {
            Fault::Unreachable
        };
        // The query would only be noise.
        Self::new(fault, with_causes(&error.without_url()))
    }

    /// That there is nothing to send requests with: no store of certificates, say.
    #[must_use]
    pub fn no_client(why: &str) -> Self {
        Self::new(
            Fault::Unreachable,
            format!("no HTTPS client can be made: {why}"),
        )
    }

    /// Of credentials that cannot be used.
    #[must_use]
    pub fn of_credentials(fault: &CredentialsFault) -> Self {
        Self::new(Fault::Credentials(fault.class()), fault.to_string())
    }

    /// Of a token that nobody gives. Its causes may quote answers of a token server, so that only what is
    /// known to be none is told.
    #[must_use]
    pub fn of_token(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::new(Fault::Token, secrecy::token_trouble(error))
    }

    fn new(fault: Fault, mut message: String) -> Self {
        message.truncate(message.floor_char_boundary(LONGEST));
        Self { fault, message }
    }

    /// The class. What it does not know is `Transient`: a retry costs little, whereas a wrong `Permanent`
    /// stops a proxy for good and a wrong `NotFound` makes a second VM.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match &self.fault {
            Fault::Credentials(class) => *class,
            Fault::Google(404, _) => ErrorClass::NotFound,
            Fault::Google(429, _) => ErrorClass::QuotaExceeded,
            Fault::Google(403, reasons) if names(reasons, &NO_ROOM) => ErrorClass::QuotaExceeded,
            // Something else is being done with the resource.
            Fault::Google(400, reasons) if names(reasons, &["resourceNotReady"]) => {
                ErrorClass::Transient
            }
            Fault::Google(400 | 401 | 403, _) => ErrorClass::Permanent,
            _ => ErrorClass::Transient,
        }
    }

    /// Whether a permanent one may be mended by what nobody watches here: a credentials file, rights in
    /// Google's project.
    #[must_use]
    pub fn heals(&self) -> bool {
        matches!(
            self.fault,
            Fault::Credentials(_) | Fault::Google(401 | 403, _)
        )
    }

    /// Whether Google says that there is no instance of this name, and not that something else is missing:
    /// the project, say.
    #[must_use]
    pub fn says_absent(&self, name: &str) -> bool {
        let about = self.message.split('\'').nth(1);
        let another = about.is_some_and(|path| {
            path.contains('/') && !path.ends_with(&format!("/instances/{name}"))
        });
        self.class() == ErrorClass::NotFound && !another && !self.is_about_project()
    }

    /// Whether it is the project that Google does not find.
    #[must_use]
    pub fn is_about_project(&self) -> bool {
        self.message.starts_with("Failed to find project")
    }

    /// Whether Google says that there is such a thing already.
    #[must_use]
    pub fn says_taken(&self) -> bool {
        matches!(self.fault, Fault::Google(409, _))
    }

    /// Whether the credentials that were used should be made anew.
    #[must_use]
    pub fn doubts_credentials(&self) -> bool {
        matches!(self.fault, Fault::Token | Fault::Google(401, _))
    }

    /// The HTTP status, where there was an answer.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self.fault {
            Fault::Google(code, _) | Fault::Stranger(code) => Some(code),
            _ => None,
        }
    }

    /// The fault in one word, for traces.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.fault {
            Fault::Credentials(_) => "credentials",
            Fault::Token => "token",
            Fault::Timeout => "timeout",
            Fault::Unreachable => "unreachable",
            Fault::Unreadable => "unreadable",
            Fault::Google(..) => "google",
            Fault::Stranger(_) => "stranger",
        }
    }

    /// The reason of a failed check.
    #[must_use]
    pub fn check_reason(&self) -> &'static str {
        match self.fault {
            Fault::Timeout => "Timeout",
            Fault::Unreachable => "Unreachable",
            Fault::Credentials(_) | Fault::Token | Fault::Google(401, _) => "Unauthorized",
            Fault::Google(403, _) if self.class() == ErrorClass::Permanent => "Forbidden",
            _ => "APIError",
        }
    }
}

fn names(reasons: &[String], of: &[&str]) -> bool {
    reasons.iter().any(|reason| of.contains(&reason.as_str()))
}

/// How an operation failed, if it did: the class, and Google's code and words.
#[must_use]
pub fn failure(operation: &Operation) -> Option<(ErrorClass, String)> {
    let errors = operation.error.as_ref().map(|error| &error.errors[..]);
    let errors = errors.unwrap_or_default();
    let status = operation.http_error_status_code.unwrap_or_default();
    if errors.is_empty() && status < 400 {
        return None;
    }
    let codes: Vec<_> = errors.iter().filter_map(|e| e.code.as_deref()).collect();
    let no_room = |code: &&str| {
        code.starts_with("QUOTA_EXCEEDED")
            || code.starts_with("ZONE_RESOURCE_POOL_EXHAUSTED")
            || *code == "RATE_LIMIT_EXCEEDED"
    };
    let class = if codes.iter().any(no_room) || status == 429 {
        ErrorClass::QuotaExceeded
    } else if matches!(status, 400 | 401 | 403 | 404) {
        // A missing image or network, say: no creation of the same will ever do.
        ErrorClass::Permanent
    } else {
        ErrorClass::Transient
    };
    let words = errors.iter().map(|error| {
        let code = error.code.as_deref().unwrap_or("UNKNOWN");
        let message = error.message.as_deref().unwrap_or("no words");
        format!("{code}: {message}")
    });
    let mut words: Vec<String> = words.collect();
    if words.is_empty() {
        let told = operation.http_error_message.as_deref().unwrap_or("");
        words.push(format!("HTTP status {status} {told}").trim().to_owned());
    }
    let mut words = secrecy::guarded(&words.join("; "));
    words.truncate(words.floor_char_boundary(LONGEST));
    Some((class, words))
}

#[cfg(test)]
mod tests;
