//! What the admin server refuses, in the form of the lease API's errors.

use crate::http::{
    answers::json,
    refusal::{ErrorBody, RETRY_AFTER, Refusal},
};
use warp::{
    http::{HeaderValue, StatusCode, header},
    reply::Response,
};

/// Why a request gets no success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each is")]
pub enum AdminRefusal {
    #[error(transparent)]
    Common(#[from] Refusal),
    #[error(
        "there is nothing at this path; GET /admin/actors lists the actors, and all else needs --enable-chaos"
    )]
    NotFound,
    #[error("there is no actor at {0}; GET /admin/actors lists them")]
    UnknownActor(String),
    #[error(
        "without ADMIN_TOKEN only this machine is served, and no web page: ask with the host localhost and without Origin"
    )]
    Foreign,
    #[error("a run is under way; DELETE /admin/chaos ends it")]
    Running,
    #[error("there was no run yet; POST /admin/chaos starts one")]
    NoRun,
    #[error("the monkey is being started again; try again")]
    NoMonkey,
}

/// The codes that only the admin server answers with, and their statuses.
pub const CODES: [(&str, StatusCode); 5] = [
    ("chaos_running", StatusCode::CONFLICT),
    ("forbidden", StatusCode::FORBIDDEN),
    ("no_run", StatusCode::NOT_FOUND),
    ("unavailable", StatusCode::SERVICE_UNAVAILABLE),
    ("unknown_actor", StatusCode::NOT_FOUND),
];

impl AdminRefusal {
    /// The stable word and the status.
    #[must_use]
    pub fn code(&self) -> (&'static str, StatusCode) {
        let [running, forbidden, no_run, unavailable, unknown] = CODES;
        match self {
            Self::Common(common) => common.code(),
            Self::NotFound => Refusal::NotFound.code(),
            Self::Foreign => forbidden,
            Self::Running => running,
            Self::NoRun => no_run,
            Self::NoMonkey => unavailable,
            Self::UnknownActor(_) => unknown,
        }
    }

    /// The answer to send.
    #[must_use]
    pub fn response(&self) -> Response {
        if let Self::Common(common) = self {
            return common.response();
        }
        let (error, status) = self.code();
        let message = &self.to_string();
        let mut response = json(status, &ErrorBody { error, message });
        if status == StatusCode::SERVICE_UNAVAILABLE {
            let soon = HeaderValue::from_static(RETRY_AFTER);
            response.headers_mut().insert(header::RETRY_AFTER, soon);
        }
        response
    }
}
