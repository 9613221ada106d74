//! Events on Proxies, by `events.k8s.io`: what `kubectl describe px` tells.

use super::cluster::chain;
use actors::{
    events::{EventSink, Regarding},
    proxy::memory::Note,
};
use crds::Proxy;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client, Resource,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use std::time::Duration;

/// One Event; the story it tells is not worth a longer wait.
const DEADLINE: Duration = Duration::from_secs(10);
/// The API server's limit for a note, in bytes.
const MAX_NOTE: usize = 1024;

/// Records Events; the same one again is counted up on the one that exists.
pub struct KubeEvents(Recorder);

impl KubeEvents {
    /// A recorder that speaks as `proxy-operator`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let reporter = Reporter {
            controller: "proxy-operator".into(),
            instance: std::env::var("HOSTNAME").ok(),
        };
        Self(Recorder::new(client, reporter))
    }
}

impl EventSink for KubeEvents {
    fn record(&self, regarding: Regarding, note: Note) -> BoxFuture<'static, ()> {
        let recorder = self.0.clone();
        Box::pin(async move {
            let object = ObjectReference {
                api_version: Some(Proxy::api_version(&()).into()),
                kind: Some(Proxy::kind(&()).into()),
                namespace: Some(regarding.key.namespace().to_owned()),
                name: Some(regarding.key.name().to_owned()),
                uid: Some(regarding.uid),
                ..ObjectReference::default()
            };
            let event = Event {
                type_: if note.warning {
                    EventType::Warning
                } else {
                    EventType::Normal
                },
                reason: note.reason.to_owned(),
                note: Some(cut(note.message)),
                action: "Reconcile".into(),
                secondary: None,
            };
            let error =
                match tokio::time::timeout(DEADLINE, recorder.publish(&event, &object)).await {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => chain(&error),
                    Err(_) => "no answer in time".to_owned(),
                };
            tracing::debug!(proxy = %regarding.key, reason = note.reason, error, "an Event was lost");
        })
    }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_NOTE));
    text
}
