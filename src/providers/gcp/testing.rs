//! A tiny Google for unit tests: a socket, a script, and what was asked.

use super::{
    GcpProvider, Surroundings,
    config::GcpConfig,
    credentials::{Adc, Source},
    wire::Wire,
};
use actors::provider::contract::{CreateRequest, instance_name};
use bytes::Bytes;
use crds::Placement;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    io::Write,
    sync::{Arc, Mutex, Once},
};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

pub const UID: &str = "2b1f0a52-6d0c-4f5e-9f6b-0c7f2a9d1e11";
pub const INSTANCES: &str = "/compute/v1/projects/p/zones/z-a/instances";

/// One request that came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub query: Vec<(String, String)>,
    pub token: Option<String>,
    pub body: Value,
}

impl Asked {
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut query = self.query.iter();
        query.find(|(key, _)| key == name).map(|(_, v)| v.as_str())
    }

    /// `GET /path`
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

/// A status and a body; `Value::String` is sent as it is, all else as JSON.
pub type Answer = (u16, Value);
type Script = dyn FnMut(&Asked) -> Answer + Send;

pub struct Google {
    pub endpoint: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    /// What its token server answers instead of a token.
    pub no_token: Arc<Mutex<Option<Answer>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Google {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Google {
    pub async fn answering(script: impl FnMut(&Asked) -> Answer + Send + 'static) -> Self {
        install_ring();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Mutex<Box<Script>>> = Arc::new(Mutex::new(Box::new(script)));
        let log = Arc::clone(&asked);
        let no_token = Arc::default();
        let tokens = Arc::clone(&no_token);
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                let tokens = Arc::clone(&tokens);
                let serve = service_fn(move |request| {
                    let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                    answer(request, script, log, Arc::clone(&tokens))
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), serve));
            }
        });
        Self {
            endpoint,
            asked,
            no_token,
            task,
        }
    }

    /// What was asked since the last time.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().expect("no panic"))
    }

    /// As [`Self::asked`], as lines.
    pub fn lines(&self) -> Vec<String> {
        self.asked().iter().map(Asked::line).collect()
    }

    pub fn provider(&self) -> Stand {
        self.provider_of("")
    }

    /// A credentials file whose token server is this Google.
    pub fn user(&self, refresh_token: &str) -> Value {
        json!({
            "type": "authorized_user", "client_id": "c", "client_secret": "s3cret",
            "refresh_token": refresh_token, "token_uri": format!("{}/token", self.endpoint),
        })
    }

    /// With more of a config, `, internalIP: true`.
    pub fn provider_of(&self, more: &str) -> Stand {
        let user = self.user("r3fresh");
        let mut file = NamedTempFile::new().expect("a file");
        write!(file, "{user}").expect("writes");
        let provider = provider(&self.endpoint, Source::File(file.path().into()), more);
        Stand { provider, file }
    }
}

/// A provider, and its credentials file.
pub struct Stand {
    pub provider: GcpProvider,
    pub file: NamedTempFile,
}

impl std::ops::Deref for Stand {
    type Target = GcpProvider;

    fn deref(&self) -> &GcpProvider {
        &self.provider
    }
}

pub fn provider(endpoint: &str, source: Source, more: &str) -> GcpProvider {
    install_ring();
    let yaml = format!("{{project: p, endpoint: '{endpoint}'{more}}}");
    let config: GcpConfig = serde_yaml::from_str(&yaml).expect("a config");
    let around = Surroundings {
        installation: "here".to_owned(),
        credentials: Adc::new(source),
        wire: Wire::default(),
    };
    GcpProvider::new("gcp".to_owned(), config, &around)
}

pub fn install_ring() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
    });
}

async fn answer(
    request: Request<Incoming>,
    script: Arc<Mutex<Box<Script>>>,
    log: Arc<Mutex<Vec<Asked>>>,
    no_token: Arc<Mutex<Option<Answer>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    let query = head.uri.query().unwrap_or_default();
    let query = url::form_urlencoded::parse(query.as_bytes()).into_owned();
    let token = head.headers.get("authorization");
    let asked = Asked {
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: query.collect(),
        token: token.map(|token| token.to_str().expect("text").to_owned()),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let is_token = asked.path == "/token";
    if !is_token {
        log.lock().expect("no panic").push(asked.clone());
    }
    let (status, body) = if is_token {
        // Told apart by what it was given for.
        let of = asked.body["refresh_token"].as_str().unwrap_or_default();
        let token = format!("t0ken-{of}");
        let token = json!({"access_token": token, "expires_in": 3600, "token_type": "Bearer"});
        no_token
            .lock()
            .expect("no panic")
            .clone()
            .unwrap_or((200, token))
    } else {
        script.lock().expect("no panic")(&asked)
    };
    let body = match body {
        Value::String(text) => text,
        json => json.to_string(),
    };
    let response = Response::builder().status(status);
    Ok(response.body(body.into()).expect("a response"))
}

/// A request that nothing is wrong with.
pub fn request() -> CreateRequest {
    CreateRequest {
        name: instance_name(UID),
        uid: UID.to_owned(),
        namespace: "crawl".to_owned(),
        proxy_name: "a".to_owned(),
        placement: Placement {
            region: None,
            zone: Some("z-a".to_owned()),
            machine_type: Some("e2-small".to_owned()),
            image: Some("projects/i/global/images/family/ubuntu".to_owned()),
        },
        user_data: None,
        port: 3128,
        installation: "here".to_owned(),
        spec_hash: "hash".to_owned(),
        after: None,
        elsewhere: false,
    }
}

pub fn id() -> String {
    format!("zones/z-a/instances/{}", instance_name(UID))
}

/// The VM of [`request`], as Google shows it.
pub fn vm(status: &str) -> Value {
    json!({
        "id": "4711", "name": instance_name(UID), "status": status,
        "creationTimestamp": "2026-11-30T11:02:01.123-08:00",
        "labels": {
            "proxy-operator-managed": "true", "proxy-operator-uid": UID,
            "proxy-operator-installation": "here",
        },
        "networkInterfaces": [{"networkIP": "10.0.0.2", "accessConfigs": [{"natIP": "203.0.113.7"}]}],
    })
}

pub fn operation(name: &str, status: &str) -> Value {
    json!({"kind": "compute#operation", "id": "1", "name": name, "status": status})
}

/// An error as Google writes it.
pub fn error(code: u16, reason: &str, message: &str) -> Answer {
    let errors = json!([{"message": message, "domain": "global", "reason": reason}]);
    let error = json!({"code": code, "message": message, "errors": errors});
    (code, json!({"error": error}))
}

pub fn absent() -> Answer {
    let path = format!("projects/p/{}", id());
    error(
        404,
        "notFound",
        &format!("The resource '{path}' was not found"),
    )
}
