//! Asking a running operator over HTTP: its admin server or its lease API.

use super::{Failure, token::TokenSource};
use crate::{http::auth::Guarded, telemetry::with_causes};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use std::{str::FromStr, time::Duration};
use url::Url;

/// To the first byte of a connection.
const CONNECT: Duration = Duration::from_secs(5);
/// To the end of an answer.
const DEADLINE: Duration = Duration::from_secs(30);

/// Where a server is, as a flag spells it: a URL, or an address as the server's own flag has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base(Url);

impl FromStr for Base {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "{text:?} is neither a URL nor an address; write `http://127.0.0.1:8082` or `:8082`"
            )
        };
        let url = match text.strip_prefix(':') {
            Some(port) => format!("http://127.0.0.1:{port}"),
            None if text.contains("://") => text.to_owned(),
            None => format!("http://{text}"),
        };
        let url = Url::parse(&url).map_err(|_| refused())?;
        let plain = matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.query().is_none()
            && url.fragment().is_none();
        if plain { Ok(Self(url)) } else { Err(refused()) }
    }
}

/// A server that is asked.
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
    token_variable: &'static str,
}

/// What the server says when it refuses.
#[derive(Deserialize)]
struct Refused {
    error: String,
    message: String,
}

/// An answer: its status and its body, null where there is none.
#[derive(Debug)]
pub struct Answer {
    /// The status, a success or not.
    pub status: StatusCode,
    /// The body.
    pub body: Value,
}

impl Client {
    /// For the server at `base`, with the token that the environment names for it.
    ///
    /// # Errors
    /// A token that cannot be used.
    pub fn new(base: &Base, guarded: &'static Guarded) -> Result<Self, Failure> {
        let source = TokenSource::from_env(guarded).map_err(Failure::setup)?;
        let token = source.map(TokenSource::read).transpose();
        let token = token.map_err(|e| Failure::Setup(format!("{}: {e}", guarded.file)))?;
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .timeout(DEADLINE)
            .no_proxy()
            .user_agent(concat!("proxy-operator/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|e| Failure::Setup(with_causes(&e)))?;
        Ok(Self {
            http,
            base: base.0.as_str().trim_end_matches('/').to_owned(),
            token,
            token_variable: guarded.value,
        })
    }

    /// Asks, with an idempotency key perhaps, and takes any answer.
    ///
    /// # Errors
    /// That there was none, or one that no operator gives.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Answer, Failure> {
        let url = format!("{}{path}", self.base);
        let broken = |e: reqwest::Error| {
            Failure::Setup(format!("no answer from {}: {}", self.base, with_causes(&e)))
        };
        let mut request = self.http.request(method, &url);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(broken)?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(broken)?;
        let body = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).map_err(|_| {
                Failure::Setup(format!(
                    "{url} answers {status}, and not as an operator does"
                ))
            })?
        };
        Ok(Answer { status, body })
    }

    /// Asks, and takes no refusal for an answer.
    ///
    /// # Errors
    /// As [`Client::ask`], and what the server refuses: [`Failure::No`] where the answer is no (404,
    /// 409), else [`Failure::Setup`].
    pub async fn call(
        &self,
        method: Method,
        path: impl Into<String>,
        body: Option<Value>,
    ) -> Result<Value, Failure> {
        self.taken(self.ask(method, &path.into(), None, body.as_ref()).await?)
    }

    /// The answer's body, if it is none of refusal.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn taken(&self, answer: Answer) -> Result<Value, Failure> {
        if answer.status.is_success() {
            return Ok(answer.body);
        }
        Err(self.refusal(answer))
    }

    fn refusal(&self, answer: Answer) -> Failure {
        let Answer { status, body } = answer;
        let why = match Refused::deserialize(&body) {
            Ok(Refused { error, message }) => format!("{error}: {message}"),
            Err(_) => format!("{} answers {status}", self.base),
        };
        match status {
            StatusCode::UNAUTHORIZED => {
                Failure::Setup(format!("{why} (set {})", self.token_variable))
            }
            StatusCode::NOT_FOUND | StatusCode::CONFLICT => Failure::No(why),
            _ => Failure::Setup(why),
        }
    }
}

/// One segment of a path, escaped.
#[must_use]
pub fn segment(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes())
        .collect::<String>()
        .replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_url_or_address() {
        for (text, url) in [
            (":8082", "http://127.0.0.1:8082/"),
            ("127.0.0.1:8082", "http://127.0.0.1:8082/"),
            ("[::1]:8082", "http://[::1]:8082/"),
            ("localhost:8082", "http://localhost:8082/"),
            ("operator", "http://operator/"),
            (
                "https://operator.example/base",
                "https://operator.example/base",
            ),
        ] {
            let base: Base = text.parse().expect(text);
            assert_eq!(base.0.as_str(), url, "{text}");
        }
        for bad in ["", ":", ":port", "ftp://a", "http://", "http://a/?x", "a b"] {
            assert!(bad.parse::<Base>().is_err() || bad == ":", "{bad:?}");
        }
    }

    #[test]
    fn a_segment_has_no_slashes() {
        assert_eq!(segment("proxy/a b+c/ü"), "proxy%2Fa%20b%2Bc%2F%C3%BC");
    }
}
