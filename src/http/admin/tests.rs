use super::*;
use crate::http::{Limits, auth, serve};
use actors::{
    monkey::MonkeyActor,
    root::RootActor,
    server::{self, Serve, ServerActor},
    system::{ChildSpec, Running, System, meter::Meters},
};
use futures::future::BoxFuture;
use prometheus::Registry;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Serves nothing, for ever.
struct Nobody;

impl Serve for Nobody {
    fn serve(self: Arc<Self>) -> BoxFuture<'static, String> {
        Box::pin(std::future::pending())
    }

    fn drain(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

struct Stand {
    base: String,
    http: reqwest::Client,
    _running: Running,
}

/// A real server over a real tree: a root, a monkey, and two others.
async fn stand(chaos: bool, token: Option<&str>) -> Stand {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let system = System::new(Meters::new(&Registry::new()).expect("meters"));
    let (directory, monkey) = (system.directory(), Addr::default());
    let mut services: Vec<_> = ["api", "ops/metrics"]
        .map(|path| {
            ChildSpec::new(path, Addr::default(), || {
                ServerActor::<server::Ops>::new(Arc::new(Nobody))
            })
        })
        .into();
    services.push(ChildSpec::new("ops/monkey", monkey.clone(), {
        let directory = Arc::clone(&directory);
        move || MonkeyActor::new(Arc::clone(&directory), &[])
    }));
    let running = system.run(&Addr::default(), RootActor::new(services)).await;
    while directory.who().len() < 4 {
        tokio::task::yield_now().await;
    }
    let auth = Auth::of(&auth::ADMIN, token.map(str::to_owned), None, Duration::MAX).await;
    let admin = Admin::new(directory, auth.expect("a rule"), chaos.then_some(monkey));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let base = format!("http://{}", listener.local_addr().expect("an address"));
    let forever = std::future::pending();
    tokio::spawn(serve(listener, admin.service(), Limits::default(), forever));
    Stand {
        base,
        http: reqwest::Client::new(),
        _running: running.expect("runs"),
    }
}

impl Stand {
    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.expect("an answer");
        let status = answer.status().as_u16();
        let body = answer.json().await.expect("every answer is JSON");
        (status, body)
    }

    async fn actor(&self, path: &str) -> Value {
        let (_, list) = self.ask(Method::GET, "/admin/actors", None).await;
        let actors = list["actors"].as_array().expect("actors");
        let actor = actors.iter().find(|actor| actor["path"] == path);
        actor.expect("is there").clone()
    }
}

#[tokio::test]
async fn the_list_is_a_tree_in_order() {
    let stand = stand(false, None).await;
    let (status, list) = stand.ask(Method::GET, "/admin/actors", None).await;
    assert_eq!((status, &list["count"]), (200, &json!(4)));
    let actors = list["actors"].as_array().expect("actors");
    let places: Vec<_> = actors
        .iter()
        .map(|actor| (actor["path"].clone(), actor["parent"].clone()))
        .collect();
    let expected = [
        ("root", None),
        ("api", Some("root")),
        ("ops/metrics", Some("root")),
        ("ops/monkey", Some("root")),
    ];
    assert_eq!(
        places,
        expected.map(|(path, parent)| (json!(path), json!(parent)))
    );
    let api = &actors[1];
    assert_eq!(api["kind"], "ops");
    assert_eq!(api["restarts"], 0);
    for null in ["handling", "lastError", "lastEnd"] {
        assert_eq!(api[null], Value::Null, "{null}");
    }
    let since = api["since"].as_str().expect("a time");
    humantime::parse_rfc3339(since).expect("RFC 3339");
}

#[tokio::test]
async fn a_killed_actor_shows_its_epoch_restarts_and_reason() {
    let stand = stand(true, None).await;
    let before = stand.actor("api").await;
    for (verb, reason, restarts) in [("kill", "killed", 1), ("panic", "panic", 2)] {
        let path = format!("/admin/actors/api/{verb}");
        let (status, ended) = stand.ask(Method::POST, &path, None).await;
        assert_eq!((status, &ended["path"]), (202, &json!("api")));
        let after = loop {
            let after = stand.actor("api").await;
            if after["restarts"] == restarts {
                break after;
            }
            tokio::task::yield_now().await;
        };
        assert!(after["epoch"].as_u64() > ended["epoch"].as_u64(), "{after}");
        assert_eq!(after["lastEnd"]["reason"], reason);
    }
    assert_eq!(stand.actor("api").await["lastError"], "asked to panic");
    assert_eq!(before["restarts"], 0);

    let path = "/admin/actors/proxy/nobody/kill";
    let (status, refusal) = stand.ask(Method::POST, path, None).await;
    assert_eq!((status, &refusal["error"]), (404, &json!("unknown_actor")));
}

#[tokio::test]
async fn without_a_token_no_web_page_is_served() {
    for (token, header, value, expected) in [
        (None, "host", "localhost:8082", 200),
        (None, "host", "127.0.0.1", 200),
        (None, "host", "[::1]:8082", 200),
        (None, "host", "evil.example", 403),
        (None, "host", "10.0.0.1:8082", 403),
        (None, "origin", "http://evil.example", 403),
        (None, "origin", "http://localhost:8082", 403),
        (Some("secret"), "host", "operator.example", 200),
        (Some("secret"), "origin", "http://dashboard.example", 200),
    ] {
        let stand = stand(false, token).await;
        let mut request = stand.http.get(format!("{}/admin/actors", stand.base));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        let answer = request.header(header, value).send().await;
        let status = answer.expect("an answer").status();
        assert_eq!(status.as_u16(), expected, "{token:?} {header}: {value}");
    }
}

#[tokio::test]
async fn without_chaos_nothing_can_be_ended() {
    let stand = stand(false, None).await;
    for (method, path) in [
        (Method::POST, "/admin/actors/api/kill"),
        (Method::POST, "/admin/actors/api/panic"),
        (Method::POST, "/admin/actors/api/stop"),
        (Method::POST, "/admin/chaos"),
        (Method::GET, "/admin/chaos"),
        (Method::DELETE, "/admin/chaos"),
    ] {
        let (status, refusal) = stand.ask(method.clone(), path, None).await;
        let not_found = (404, &json!("not_found"));
        assert_eq!((status, &refusal["error"]), not_found, "{method} {path}");
    }
    assert_eq!(stand.actor("api").await["restarts"], 0);
}

#[tokio::test]
async fn a_monkey_is_let_loose_once_shown_and_ended() {
    let stand = stand(true, None).await;
    let (status, refusal) = stand.ask(Method::GET, "/admin/chaos", None).await;
    assert_eq!((status, &refusal["error"]), (404, &json!("no_run")));

    let wish = json!({"match": "api", "everyMillis": 1, "durationSeconds": 3600, "seed": 7});
    let (status, run) = stand.ask(Method::POST, "/admin/chaos", Some(wish)).await;
    assert_eq!(status, 202, "{run}");
    assert_eq!((&run["seed"], &run["running"]), (&json!(7), &json!(true)));
    let (status, refusal) = stand.ask(Method::POST, "/admin/chaos", None).await;
    assert_eq!((status, &refusal["error"]), (409, &json!("chaos_running")));
    while stand.actor("api").await["restarts"].as_u64() < Some(3) {
        tokio::task::yield_now().await;
    }

    let (status, ended) = stand.ask(Method::DELETE, "/admin/chaos", None).await;
    assert_eq!((status, &ended["running"]), (200, &json!(false)));
    assert!(ended["killsByKind"]["ops"].as_u64() >= Some(3), "{ended}");
    let (_, shown) = stand.ask(Method::GET, "/admin/chaos", None).await;
    assert_eq!(shown, ended);

    let bad = json!({"everyMillis": 0});
    let (status, refusal) = stand.ask(Method::POST, "/admin/chaos", Some(bad)).await;
    assert_eq!((status, &refusal["error"]), (400, &json!("invalid_body")));
}

#[tokio::test]
async fn with_a_token_everything_asks_for_it() {
    let stand = stand(true, Some("s3cret")).await;
    for (method, path) in [
        (Method::GET, "/admin/actors"),
        (Method::POST, "/admin/actors/api/kill"),
        (Method::GET, "/nowhere"),
    ] {
        let (status, refusal) = stand.ask(method, path, None).await;
        assert_eq!(
            (status, &refusal["error"]),
            (401, &json!("unauthorized")),
            "{path}"
        );
    }
    let url = format!("{}/admin/actors", stand.base);
    for (token, status) in [("s3cret", 200), ("s3cre", 401), ("s3crets", 401)] {
        let answer = stand.http.get(&url).bearer_auth(token).send().await;
        assert_eq!(answer.expect("an answer").status(), status, "{token}");
    }
}
