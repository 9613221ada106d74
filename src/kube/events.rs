//! Events on Proxies, providers and the operator's own pod, by `events.k8s.io`: what
//! `kubectl describe` tells.

use crate::telemetry::with_causes;
use actors::{
    events::{EventSink, Regarding},
    proxy::memory::Note,
};
use crds::{ProviderHealth, Proxy};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
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
pub struct KubeEvents {
    recorder: Recorder,
    /// The pod that this process runs in.
    pod: Option<ObjectReference>,
}

impl KubeEvents {
    /// A recorder that speaks as `proxy-operator`. Events about the operator itself are about the pod that
    /// `POD_NAME`, `POD_NAMESPACE` and `POD_UID` name, and lost where they name none.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let reporter = Reporter {
            controller: "proxy-operator".into(),
            instance: std::env::var("HOSTNAME").ok(),
        };
        Self {
            recorder: Recorder::new(client, reporter),
            pod: own_pod(|name| std::env::var(name).ok()),
        }
    }

    fn reference(&self, regarding: &Regarding) -> Option<ObjectReference> {
        match regarding {
            Regarding::Proxy { key, uid } => Some(ObjectReference {
                namespace: Some(key.namespace().to_owned()),
                ..reference::<Proxy>(key.name(), uid)
            }),
            Regarding::ProviderHealth { name, uid } => Some(reference::<ProviderHealth>(name, uid)),
            Regarding::Operator => self.pod.clone(),
        }
    }
}

fn reference<K: Resource<DynamicType = ()>>(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into()),
        kind: Some(K::kind(&()).into()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
        ..ObjectReference::default()
    }
}

/// The pod that the environment names.
fn own_pod(variable: impl Fn(&str) -> Option<String>) -> Option<ObjectReference> {
    let variable = |name| variable(name).filter(|value| !value.is_empty());
    let namespace = variable("POD_NAMESPACE")?;
    let uid = variable("POD_UID").unwrap_or_default();
    Some(ObjectReference {
        namespace: Some(namespace),
        ..reference::<Pod>(&variable("POD_NAME")?, &uid)
    })
}

impl EventSink for KubeEvents {
    fn record(&self, regarding: Regarding, note: Note) -> BoxFuture<'static, ()> {
        let (recorder, reference) = (self.recorder.clone(), self.reference(&regarding));
        Box::pin(async move {
            // Whoever tells it has logged it, too.
            let Some(object) = reference else { return };
            let event = Event {
                type_: if note.warning {
                    EventType::Warning
                } else {
                    EventType::Normal
                },
                reason: note.reason.as_str().to_owned(),
                note: Some(cut(note.message)),
                action: "Reconcile".into(),
                secondary: None,
            };
            let error =
                match tokio::time::timeout(DEADLINE, recorder.publish(&event, &object)).await {
                    Ok(Ok(())) => return,
                    Ok(Err(error)) => with_causes(&error),
                    Err(_) => "no answer in time".to_owned(),
                };
            tracing::debug!(%regarding, reason = note.reason.as_str(), error, "an Event was lost");
        })
    }
}

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_NOTE));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operators_own_pod_is_the_one_that_the_environment_names() {
        let all = [
            ("POD_NAME", "proxy-operator-0"),
            ("POD_NAMESPACE", "egress-proxies"),
            ("POD_UID", "1f"),
        ];
        let of = |names: &[&str]| {
            own_pod(|name| {
                let known = all.iter().find(|(known, _)| *known == name)?;
                names.contains(&name).then(|| known.1.to_owned())
            })
        };
        let pod = of(&["POD_NAME", "POD_NAMESPACE", "POD_UID"]).expect("a pod");
        assert_eq!(pod.kind.as_deref(), Some("Pod"));
        assert_eq!(pod.api_version.as_deref(), Some("v1"));
        assert_eq!(pod.name.as_deref(), Some("proxy-operator-0"));
        assert_eq!(pod.namespace.as_deref(), Some("egress-proxies"));
        assert_eq!(pod.uid.as_deref(), Some("1f"));
        let nameless = of(&["POD_NAME", "POD_NAMESPACE"]).expect("a pod");
        assert_eq!(nameless.uid, None);
        assert_eq!(of(&["POD_NAME"]), None);
        assert_eq!(of(&["POD_NAMESPACE", "POD_UID"]), None);
        assert_eq!(own_pod(|_| Some(String::new())), None);
    }
}
