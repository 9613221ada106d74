//! What the stand-in does, seen with a client that is not ours either: raw HTTP.

#[path = "tests/faults.rs"]
mod faults;
#[path = "tests/firewalls.rs"]
mod firewalls;
#[path = "tests/life.rs"]
mod life;
#[path = "tests/line.rs"]
mod line;
#[path = "tests/lists.rs"]
mod lists;
#[path = "tests/rules.rs"]
mod rules;
#[path = "tests/tokens.rs"]
mod tokens;

use crate::gce::{Gce, Options};
use reqwest::{Client, Method, Response};
use serde_json::{Value, json};
use std::time::Duration;

/// A zone that there is.
const ZONE: &str = "europe-west1-b";

/// A stand-in whose clock stands still, and a client with a token.
struct Fixture {
    gce: Gce,
    client: Client,
    token: String,
}

/// Status and JSON of an answer.
type Answer = (u16, Value);

impl Fixture {
    async fn new() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let options = Options {
            speed: 0.0,
            ..options
        };
        let gce = Gce::start(options).await.unwrap();
        Self {
            token: gce.token(),
            gce,
            client: Client::builder()
                .no_proxy()
                .timeout(Duration::from_secs(20))
                .build()
                .unwrap(),
        }
    }

    /// `path` is below the project.
    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Response {
        self.try_send(method, path, body).await.unwrap()
    }

    async fn try_send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> reqwest::Result<Response> {
        let url = format!(
            "{}/compute/v1/projects/lab-project{path}",
            self.gce.endpoint()
        );
        let mut request = self.client.request(method, url).bearer_auth(&self.token);
        if let Some(body) = body {
            request = request.json(body);
        }
        request.send().await
    }

    async fn get(&self, path: &str) -> Answer {
        read(self.send(Method::GET, path, None).await).await
    }

    async fn delete(&self, path: &str) -> Answer {
        read(self.send(Method::DELETE, path, None).await).await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        read(self.send(Method::POST, path, Some(body)).await).await
    }

    async fn insert(&self, body: &Value) -> Answer {
        self.post(&format!("/zones/{ZONE}/instances"), body).await
    }

    async fn instance(&self, name: &str) -> Answer {
        self.get(&format!("/zones/{ZONE}/instances/{name}")).await
    }

    /// The operation that an answer is, as it is now.
    async fn operation(&self, operation: &Value) -> Value {
        let name = operation["name"].as_str().unwrap();
        let (status, now) = self.get(&format!("/zones/{ZONE}/operations/{name}")).await;
        assert_eq!(status, 200, "{now}");
        now
    }

    fn pass(&self, seconds: f64) {
        self.gce.advance(Duration::from_secs_f64(seconds));
    }
}

async fn read(response: Response) -> Answer {
    let status = response.status().as_u16();
    let text = response.text().await.unwrap();
    let value = serde_json::from_str(&text);
    (
        status,
        value.unwrap_or_else(|error| panic!("{error}: {text}")),
    )
}

/// An instance as Google's samples ask for one.
fn body(name: &str) -> Value {
    json!({
        "name": name,
        "machineType": format!("zones/{ZONE}/machineTypes/e2-small"),
        "labels": { "fleet": "one" },
        "tags": { "items": ["egress-proxy"] },
        "metadata": { "items": [{ "key": "user-data", "value": "#cloud-config\n" }] },
        "disks": [{
            "boot": true,
            "autoDelete": true,
            "initializeParams": {
                "sourceImage": "projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64",
                "diskSizeGb": "10",
            },
        }],
        "networkInterfaces": [{
            "network": "global/networks/default",
            "accessConfigs": [{ "type": "ONE_TO_ONE_NAT", "name": "External NAT" }],
        }],
    })
}

/// The message and the reason of an error.
fn why(answer: &Value) -> (&str, &str) {
    let error = &answer["error"];
    assert_eq!(error["message"], error["errors"][0]["message"], "{answer}");
    let text = |value: &'_ Value| -> Option<String> { value.as_str().map(ToOwned::to_owned) };
    assert!(text(&error["errors"][0]["domain"]).is_some(), "{answer}");
    (
        error["message"].as_str().unwrap(),
        error["errors"][0]["reason"].as_str().unwrap(),
    )
}
