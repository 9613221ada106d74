use super::*;
use actors::leader::standing::Office;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use std::{
    future::{Future, poll_fn},
    pin::pin,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::Instant,
};

const MS: Duration = Duration::from_millis(1);

/// An API server that answers everything with an empty object, and tells what it was asked.
async fn server() -> (Gateway, mpsc::UnboundedReceiver<String>) {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (came, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, came.clone()));
        }
    });
    let config = Config::new(url.parse().expect("a URL"));
    let gateway = Gateway::by(config, "proxy-operator/0 (me)").expect("a header");
    (gateway, requests)
}

/// One request a connection, told once it is there with its body.
async fn answer(mut stream: TcpStream, came: mpsc::UnboundedSender<String>) {
    let mut text = String::new();
    let is_whole = |text: &str| {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(Some(0), |length| length.parse().ok())?;
        (body.len() >= length).then_some(())
    };
    while is_whole(&text).is_none() {
        let mut some = [0; 4096];
        match stream.read(&mut some).await {
            Ok(read) if read > 0 => text.push_str(&String::from_utf8_lossy(&some[..read])),
            _ => return,
        }
    }
    came.send(text).ok();
    let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
        Connection: close\r\n\r\n{}";
    stream.write_all(answer.as_bytes()).await.ok();
}

async fn change(client: &Client) -> kube::Result<ConfigMap> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "ns");
    let patch = Patch::Merge(json!({"data": {"a": "b"}}));
    api.patch("x", &PatchParams::default(), &patch).await
}

#[track_caller]
fn is_refused<T>(answer: kube::Result<T>) {
    let error = answer.err().expect("is refused");
    let told = crate::telemetry::with_causes(&error);
    assert!(told.contains("not the leader"), "{told}");
}

#[tokio::test]
async fn a_leader_s_requests_pass_and_say_who_sends_them() {
    let (gateway, mut requests) = server().await;
    let office = Office::default();
    let client = gateway.gated(office.standing()).expect("a client");
    office.leads(1, Some(Instant::now() + Duration::from_mins(1)));
    change(&client).await.expect("passes");
    let request = requests.recv().await.expect("a request");
    assert!(
        request.starts_with("PATCH /api/v1/namespaces/ns/configmaps/x"),
        "{request}"
    );
    assert!(
        request.contains("user-agent: proxy-operator/0 (me)"),
        "{request}"
    );
    assert!(request.ends_with(r#"{"data":{"a":"b"}}"#), "{request}");
    // Without a length the API server would take a chunked body, which costs it more.
    assert!(request.contains("content-length: 18"), "{request}");
}

#[tokio::test]
async fn a_follower_sends_nothing_but_what_the_election_asks() {
    let (gateway, mut requests) = server().await;
    let office = Office::default();
    let gated = gateway.gated(office.standing()).expect("a client");
    let api: Api<ConfigMap> = Api::namespaced(gated.clone(), "ns");
    for _ in 0..3 {
        is_refused(change(&gated).await);
        is_refused(api.get("x").await);
        is_refused(api.delete("x", &DeleteParams::default()).await);
        office.follows(Some("other:1"));
    }
    office.leads(1, Some(Instant::now()));
    is_refused(change(&gated).await);
    assert!(requests.try_recv().is_err());
    change(&gateway.open().expect("a client"))
        .await
        .expect("passes");
    assert!(requests.recv().await.is_some());
}

/// The process is frozen at any point of sending a request, for longer than its tenure lasts. This runtime
/// has one thread, so while that sleeps nothing goes on.
#[tokio::test(flavor = "current_thread")]
async fn nothing_is_sent_after_a_freeze() {
    let mut sent = 0;
    for polls in 1..12 {
        let (gateway, mut requests) = server().await;
        let office = Office::default();
        let client = gateway.gated(office.standing()).expect("a client");
        office.leads(1, Some(Instant::now() + 100 * MS));
        let mut call = pin!(change(&client));
        let mut left = polls;
        // So far it came before it was frozen.
        let early = poll_fn(|cx| {
            let polled = call.as_mut().poll(cx);
            left -= 1;
            match polled {
                std::task::Poll::Ready(answer) => std::task::Poll::Ready(Some(answer)),
                std::task::Poll::Pending if left == 0 => std::task::Poll::Ready(None),
                std::task::Poll::Pending => std::task::Poll::Pending,
            }
        });
        if early.await.is_some() {
            sent += 1;
            continue;
        }
        let before = requests.try_recv().is_ok();
        std::thread::sleep(150 * MS);
        is_refused(call.await);
        // What was lost may take its time.
        tokio::time::sleep(20 * MS).await;
        assert!(
            before || requests.try_recv().is_err(),
            "sent after {polls} polls"
        );
    }
    assert!(sent > 0, "all were frozen before they were sent");
}
