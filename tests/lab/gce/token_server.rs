//! Where tokens come from: Google's OAuth server and the metadata server of a machine.

use super::tokens::{CLOUD_PLATFORM, Tokens};
use http::{HeaderMap, Method};
use serde_json::{Value, json};
use std::collections::HashMap;

/// Below this the metadata server is.
pub const METADATA: &str = "/computeMetadata/v1/";

/// An answer of either.
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Content type.
    pub kind: &'static str,
    /// Body.
    pub body: String,
    /// Whether it is the metadata server that answers.
    pub flavored: bool,
}

impl Answer {
    fn json(status: u16, body: &Value) -> Self {
        Self {
            status,
            kind: "application/json; charset=utf-8",
            body: body.to_string(),
            flavored: false,
        }
    }

    fn refused(status: u16, error: &str, description: &str) -> Self {
        let body = json!({ "error": error, "error_description": description });
        Self::json(status, &body)
    }
}

/// `POST /token`; `here` is its own URL.
pub fn oauth(tokens: &mut Tokens, method: &Method, body: &[u8], here: &str) -> Answer {
    if method != Method::POST {
        return Answer::refused(405, "invalid_request", "Only POST is allowed.");
    }
    // Both are in use: the standard says form, Google's own clients also send JSON.
    let fields: HashMap<String, String> = serde_json::from_slice(body).unwrap_or_else(|_| {
        let pairs = url::form_urlencoded::parse(body);
        pairs.into_owned().collect()
    });
    let field = |name: &str| fields.get(name).map_or("", String::as_str);
    match field("grant_type") {
        "refresh_token" => {
            let given = ["refresh_token", "client_id", "client_secret"].map(field);
            let of_client = |known: &&[String; 3]| known[1..] == given[1..];
            if !tokens.refresh.iter().any(|known| of_client(&known)) {
                return Answer::refused(401, "invalid_client", "The OAuth client was not found.");
            }
            if !tokens.refresh.iter().any(|known| *known == given) {
                let why = "Token has been expired or revoked.";
                return Answer::refused(400, "invalid_grant", why);
            }
            issued(tokens, "a.user@example.com", &[CLOUD_PLATFORM.to_owned()])
        }
        "urn:ietf:params:oauth:grant-type:jwt-bearer" => {
            match tokens.accounts.assertion(field("assertion"), here) {
                Ok((email, scopes)) => issued(tokens, &email, &scopes),
                Err(error) => {
                    let why = format!("Invalid JWT: {error}");
                    Answer::refused(400, "invalid_grant", &why)
                }
            }
        }
        other => {
            let why = format!("Invalid grant_type: {other}");
            Answer::refused(400, "unsupported_grant_type", &why)
        }
    }
}

fn issued(tokens: &mut Tokens, user: &str, scopes: &[String]) -> Answer {
    let wanted: Vec<&str> = scopes.iter().map(String::as_str).collect();
    let token = tokens.issue(user, &wanted);
    let body = json!({
        "access_token": token,
        "expires_in": tokens.lifetime.as_secs(),
        "scope": wanted.join(" "),
        "token_type": "Bearer",
    });
    Answer::json(200, &body)
}

/// A GET of the metadata server; `path` is below [`METADATA`].
pub fn metadata(tokens: &mut Tokens, headers: &HeaderMap, path: &str, project: &str) -> Answer {
    let text = |status: u16, body: &str| Answer {
        status,
        kind: "application/text",
        body: body.to_owned(),
        flavored: true,
    };
    let flavor = headers.get("metadata-flavor");
    // A request that was forwarded is one of somebody else.
    if flavor.is_none_or(|flavor| flavor != "Google") || headers.contains_key("x-forwarded-for") {
        return text(403, "Your client does not have permission to get this URL.");
    }
    if path == "project/project-id" {
        return text(200, project);
    }
    if path == "universe/universe-domain" {
        return text(200, "googleapis.com");
    }
    let account = path.strip_prefix("instance/service-accounts/");
    let Some(email) = tokens.machine.clone() else {
        return text(404, "The requested URL was not found on this server.");
    };
    let Some((name, what)) = account.and_then(|account| account.split_once('/')) else {
        return text(404, "The requested URL was not found on this server.");
    };
    if name != "default" && name != email {
        return text(404, "The requested URL was not found on this server.");
    }
    match what {
        "email" => text(200, &email),
        "scopes" => text(200, CLOUD_PLATFORM),
        "token" => Answer {
            flavored: true,
            ..issued(tokens, &email, &[CLOUD_PLATFORM.to_owned()])
        },
        _ => text(404, "The requested URL was not found on this server."),
    }
}
