//! Troubles that a test orders: for which requests, how often, and what.

use super::refusal::Refusal;
use serde_json::json;
use std::time::Duration;

/// Which requests a trouble is for.
#[derive(Clone, Debug, Default)]
pub struct On {
    method: Option<String>,
    part: Option<String>,
}

impl On {
    /// Every request.
    pub fn any() -> Self {
        Self::default()
    }

    /// Those of one method: `compute.instances.insert`, or `token` and `metadata` for those that ask
    /// for a token.
    pub fn method(id: &str) -> Self {
        Self {
            method: Some(id.to_owned()),
            part: None,
        }
    }

    /// Of those, the ones with this in their path, their query or their body.
    pub fn with(mut self, part: &str) -> Self {
        self.part = Some(part.to_owned());
        self
    }

    fn takes(&self, method: &str, text: &[&[u8]]) -> bool {
        let method = self.method.as_deref().is_none_or(|mine| mine == method);
        let has = |part: &str| {
            let part = part.as_bytes();
            text.iter()
                .any(|text| text.windows(part.len()).any(|w| w == part))
        };
        method && self.part.as_deref().is_none_or(has)
    }
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Act {
    /// It is refused like this, and nothing is done.
    Refuse(Box<Refusal>),
    /// It is answered with this status, content type and body, and nothing is done.
    Raw(u16, &'static str, String),
    /// It waits so long (real time) before anything is done.
    Wait(Duration),
    /// It is done, and the answer waits so long (real time).
    WaitAfter(Duration),
    /// The connection is reset and nothing is done.
    Reset,
    /// It is done, and the connection is reset.
    ResetAfter,
    /// It is done, and half of the answer's JSON is all that comes, in good order.
    Truncate,
    /// It is done, and the connection ends amid the answer.
    Cut,
    /// It is done, and the answer is this nevertheless.
    RefuseAfter(Box<Refusal>),
}

impl Act {
    /// Refused like this, and nothing is done.
    pub fn refuse(refusal: Refusal) -> Self {
        Self::Refuse(Box::new(refusal))
    }

    /// 503 of a load balancer, in HTML.
    pub fn html() -> Self {
        Self::Raw(503, "text/html; charset=UTF-8", HTML.into())
    }
}

const HTML: &str = "<html><head><title>503 Service Temporarily Unavailable</title></head>\
     <body><h1>Error: Server Error</h1><h2>The service you requested is not available yet.\
     <p>Please try again in 30 seconds.</h2></body></html>";

/// Those that were ordered and are not over.
#[derive(Default)]
pub struct Faults(Vec<Order>);

struct Order {
    on: On,
    left: u32,
    act: Act,
}

impl Faults {
    /// Orders `act` for the next `times` requests.
    pub fn order(&mut self, on: On, times: u32, act: Act) {
        self.0.push(Order {
            on,
            left: times,
            act,
        });
    }

    /// Takes back whatever was ordered.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What happens to a request; the earliest order wins.
    pub fn take(&mut self, method: &str, text: &[&[u8]]) -> Option<Act> {
        let index = self.0.iter().position(|one| one.on.takes(method, text))?;
        let order = &mut self.0[index];
        order.left = order.left.saturating_sub(1);
        let act = order.act.clone();
        if order.left == 0 {
            self.0.remove(index);
        }
        Some(act)
    }
}

fn service() -> serde_json::Value {
    json!({ "service": "compute.googleapis.com", "consumer": "projects/415104041262" })
}

/// 401: the token is none, not any more, or not yet.
pub fn unauthenticated() -> Refusal {
    Refusal::new(
        401,
        "authError",
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie \
         or other valid authentication credential. See \
         https://developers.google.com/identity/sign-in/web/devconsole-project.",
    )
    .of_front_end("UNAUTHENTICATED", "ACCESS_TOKEN_EXPIRED", &service())
}

/// 401: there is no token.
pub fn no_credentials() -> Refusal {
    Refusal::new(
        401,
        "required",
        "Request is missing required authentication credential. Expected OAuth 2 access token, login \
         cookie or other valid authentication credential. See \
         https://developers.google.com/identity/sign-in/web/devconsole-project.",
    )
    .of_front_end("UNAUTHENTICATED", "CREDENTIALS_MISSING", &service())
}

/// 403: the token is for something else.
pub fn insufficient_scopes() -> Refusal {
    let message = "Request had insufficient authentication scopes.";
    let info = "ACCESS_TOKEN_SCOPE_INSUFFICIENT";
    Refusal::new(403, "insufficientPermissions", message).of_front_end(
        "PERMISSION_DENIED",
        info,
        &service(),
    )
}

/// 403: a role is missing.
pub fn forbidden(permission: &str, resource: &str) -> Refusal {
    let message = format!("Required '{permission}' permission for '{resource}'");
    Refusal::new(403, "forbidden", message)
}

/// 403: the API was never switched on.
pub fn api_disabled() -> Refusal {
    let mut refusal = Refusal::new(
        403,
        "accessNotConfigured",
        "Compute Engine API has not been used in project 415104041262 before or it is disabled. Enable \
         it by visiting https://console.developers.google.com/apis/api/compute.googleapis.com/overview\
         ?project=415104041262 then retry.",
    )
    .of_front_end("PERMISSION_DENIED", "SERVICE_DISABLED", &service());
    refusal.domain = "usageLimits";
    refusal
}

/// 403: a quota of resources is used up, told at once.
pub fn quota_exceeded() -> Refusal {
    let message = "Quota 'CPUS' exceeded.  Limit: 24.0 in region us-central1.";
    let mut refusal = Refusal::new(403, "quotaExceeded", message);
    refusal.domain = "usageLimits";
    refusal
}

/// 403: a quota of requests is used up, in the older way.
pub fn rate_limited() -> Refusal {
    let message = "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service \
         'compute.googleapis.com' for consumer 'project_number:415104041262'.";
    let mut refusal = Refusal::new(403, "rateLimitExceeded", message).of_front_end(
        "PERMISSION_DENIED",
        "RATE_LIMIT_EXCEEDED",
        &service(),
    );
    refusal.domain = "usageLimits";
    refusal
}

/// 429: a quota of requests is used up; `after` seconds are a good time to wait.
pub fn too_many(after: u32) -> Refusal {
    let mut refusal = rate_limited();
    refusal.code = 429;
    refusal.status = Some("RESOURCE_EXHAUSTED");
    refusal.retry_after = Some(after);
    refusal
}

/// 412: somebody else was first.
pub fn condition_not_met() -> Refusal {
    let message = "Supplied fingerprint does not match current metadata fingerprint.";
    Refusal::new(412, "conditionNotMet", message)
}

/// 500, 502 or 503 in JSON.
pub fn server_error(code: u16) -> Refusal {
    let message = "Internal error. Please try again or contact Google Support. (Code: '-7432')";
    Refusal::new(code, "backendError", message)
}
