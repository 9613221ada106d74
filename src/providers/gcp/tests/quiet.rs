//! What the log says at its loudest, and what it must not.

use crate::providers::gcp::testing::{Google, error, id, operation, request, vm};
use actors::provider::contract::{CreateRequest, Provider, UserData};
use serde_json::json;
use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};
use tracing::level_filters::LevelFilter;

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<u8>>>);

impl io::Write for Heard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn neither_tokens_nor_user_data_are_logged_at_any_level() {
    let heard = Heard::default();
    let writer = heard.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let secret = "#cloud-config\nchpasswd: {list: ['root:s3ntinel-b7e1']}\n";
    let refusals = Mutex::new(vec![
        error(400, "invalid", &format!("Invalid value: '{secret}'")),
        error(
            400,
            "invalid",
            "Invalid value for field 'x': 'root:s3ntinel-b7e1'",
        ),
    ]);
    let google = Google::answering(move |asked| {
        let mut shown = vm("RUNNING");
        shown["metadata"] = json!({"items": [{"key": "user-data", "value": secret}]});
        match asked.method.as_str() {
            "POST" => refusals
                .lock()
                .expect("no panic")
                .pop()
                .unwrap_or((200, operation("operation-1", "RUNNING"))),
            "DELETE" => (200, operation("operation-2", "RUNNING")),
            _ if asked.path.ends_with("/aggregated/instances") => {
                (200, json!({"items": {"zones/z-a": {"instances": [shown]}}}))
            }
            _ if asked.path.ends_with("/p") => (200, json!({})),
            _ => (200, shown),
        }
    })
    .await;
    let provider = google.provider();
    let with = CreateRequest {
        user_data: Some(UserData::from(secret.as_bytes().to_vec())),
        ..request()
    };
    // Whoever logs first while another test begins to listen may be taken for one whom nobody hears.
    Provider::get(&*provider, &id()).await.expect("there");
    tracing::callsite::rebuild_interest_cache();
    for _ in 0..2 {
        let error = Provider::create(&*provider, &with)
            .await
            .expect_err("refused");
        let told = format!("{error}{error:?}");
        assert!(!told.contains("s3ntinel"), "{told}");
        assert!(error.message.contains("withheld"), "{error}");
    }
    Provider::create(&*provider, &with).await.expect("made");
    Provider::get(&*provider, &id()).await.expect("there");
    provider.list().await.expect("lists");
    provider.check(Duration::from_secs(9)).await;
    Provider::delete(&*provider, &id()).await.expect("deletes");

    let log = heard.0.lock().expect("no panic").clone();
    let log = String::from_utf8(log).expect("text");
    for told in [
        "rpc.method=\"instances.insert\"",
        "server.address=\"127.0.0.1\"",
        "http.response.status_code=400",
        "error.type=\"google\"",
        "direction=\"request\"",
        "never shown",
        "hyper",
    ] {
        assert!(
            log.contains(told),
            "{told} is not in the log: nothing was heard"
        );
    }
    for secret in ["s3ntinel-b7e1", "t0ken", "s3cret", "r3fresh"] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret}");
    }
}
