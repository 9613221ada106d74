//! What the API refuses, and how it says so: `{"error": "<code>", "message": "<text>"}`.

use super::desk::Unavailable;
use actors::leases::terms::NoMatch;
use schemars::JsonSchema;
use serde::Serialize;
use warp::{
    http::{HeaderValue, StatusCode, header},
    reply::Response,
};

/// Seconds after which a 503 is worth another try: an election or a burst is over within about one.
pub(super) const RETRY_AFTER: &str = "1";

/// Why a request gets no success. The message is for the client; nothing internal goes in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each is")]
pub enum Refusal {
    #[error("send the API token as `Authorization: Bearer <token>`")]
    Unauthorized,
    #[error("{0}")]
    InvalidQuery(String),
    #[error("{0}")]
    InvalidBody(String),
    #[error("{0}")]
    InvalidTtl(String),
    #[error("{0}")]
    InvalidResult(String),
    #[error("{}", why_none(.0))]
    NoMatch(NoMatch),
    #[error("there is no such lease: it was never granted, was released or has expired")]
    UnknownLease,
    #[error("there is no such proxy")]
    UnknownProxy,
    #[error("there is nothing at this path; GET /openapi.json lists what there is")]
    NotFound,
    #[error("this path takes only {0}")]
    MethodNotAllowed(String),
    #[error("this replica is not the leader, and no leader is known; try again")]
    NotLeader,
    #[error(
        "the ledger is being started again, and may or may not have done it; try again, with the same Idempotency-Key"
    )]
    Restarting,
    #[error("too many requests are in flight; try again")]
    Overloaded,
    #[error("the request failed inside the operator; try again")]
    Internal,
}

fn why_none(why: &NoMatch) -> String {
    let NoMatch {
        considered,
        at_capacity,
        in_cooldown,
        unhealthy,
    } = why;
    if *considered == 0 {
        return "no proxy has all attributes of the selector".to_owned();
    }
    format!(
        "of {considered} proxies that match the selector none is free: {at_capacity} have no slot left, \
         {in_cooldown} cool down, {unhealthy} are not healthy"
    )
}

/// Every code there is, but for `no_match`, whose answer says more.
const CODES: [&str; 12] = [
    "internal",
    "invalid_body",
    "invalid_query",
    "invalid_result",
    "invalid_ttl",
    "method_not_allowed",
    "not_found",
    "not_leader",
    "overloaded",
    "unauthorized",
    "unknown_lease",
    "unknown_proxy",
];

/// The body of every answer that is no success.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorBody<'a> {
    /// A stable word for programs.
    #[schemars(extend("enum" = CODES))]
    pub error: &'a str,
    /// An explanation for people.
    pub message: &'a str,
}

/// Nothing fits now. The last three numbers say what stood in the way of each proxy considered.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "NoMatch")]
pub struct NoMatchBody<'a> {
    /// A stable word for programs.
    #[schemars(extend("const" = "no_match"))]
    pub error: &'a str,
    /// An explanation for people.
    pub message: &'a str,
    /// Proxies that match the selector.
    pub considered: usize,
    /// Of them, healthy ones without a free slot.
    pub at_capacity: usize,
    /// Of them, healthy ones with a free slot that cool down for the target.
    pub in_cooldown: usize,
    /// Of them, ones that are not healthy.
    pub unhealthy: usize,
}

impl Refusal {
    /// One of each.
    #[must_use]
    pub fn each() -> [Self; 13] {
        let nothing = NoMatch {
            considered: 0,
            at_capacity: 0,
            in_cooldown: 0,
            unhealthy: 0,
        };
        [
            Self::InvalidBody(String::new()),
            Self::InvalidQuery(String::new()),
            Self::InvalidResult(String::new()),
            Self::InvalidTtl(String::new()),
            Self::Unauthorized,
            Self::NotFound,
            Self::UnknownLease,
            Self::UnknownProxy,
            Self::MethodNotAllowed(String::new()),
            Self::NoMatch(nothing),
            Self::Internal,
            Self::NotLeader,
            Self::Overloaded,
        ]
    }

    /// The stable word and the status.
    #[must_use]
    pub fn code(&self) -> (&'static str, StatusCode) {
        match self {
            Self::Unauthorized => ("unauthorized", StatusCode::UNAUTHORIZED),
            Self::InvalidQuery(_) => ("invalid_query", StatusCode::BAD_REQUEST),
            Self::InvalidBody(_) => ("invalid_body", StatusCode::BAD_REQUEST),
            Self::InvalidTtl(_) => ("invalid_ttl", StatusCode::BAD_REQUEST),
            Self::InvalidResult(_) => ("invalid_result", StatusCode::BAD_REQUEST),
            Self::NoMatch(_) => ("no_match", StatusCode::CONFLICT),
            Self::UnknownLease => ("unknown_lease", StatusCode::NOT_FOUND),
            Self::UnknownProxy => ("unknown_proxy", StatusCode::NOT_FOUND),
            Self::NotFound => ("not_found", StatusCode::NOT_FOUND),
            Self::MethodNotAllowed(_) => ("method_not_allowed", StatusCode::METHOD_NOT_ALLOWED),
            Self::NotLeader | Self::Restarting => ("not_leader", StatusCode::SERVICE_UNAVAILABLE),
            Self::Overloaded => ("overloaded", StatusCode::SERVICE_UNAVAILABLE),
            Self::Internal => ("internal", StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// The answer to send.
    #[must_use]
    pub fn response(&self) -> Response {
        let (error, status) = self.code();
        let message = &self.to_string();
        let mut response = match self {
            Self::NoMatch(why) => super::answers::json(
                status,
                &NoMatchBody {
                    error,
                    message,
                    considered: why.considered,
                    at_capacity: why.at_capacity,
                    in_cooldown: why.in_cooldown,
                    unhealthy: why.unhealthy,
                },
            ),
            _ => super::answers::json(status, &ErrorBody { error, message }),
        };
        let extra = match self {
            Self::Unauthorized => Some((header::WWW_AUTHENTICATE, "Bearer".to_owned())),
            Self::MethodNotAllowed(allow) => Some((header::ALLOW, allow.clone())),
            Self::NotLeader | Self::Restarting | Self::Overloaded => {
                Some((header::RETRY_AFTER, RETRY_AFTER.to_owned()))
            }
            _ => None,
        };
        if let Some((name, value)) = extra
            && let Ok(value) = HeaderValue::from_str(&value)
        {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

impl From<Unavailable> for Refusal {
    fn from(why: Unavailable) -> Self {
        match why {
            Unavailable::NotLeader => Self::NotLeader,
            Unavailable::TooLate => Self::Overloaded,
            Unavailable::Dropped => Self::Restarting,
        }
    }
}
