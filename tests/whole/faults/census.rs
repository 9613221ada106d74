//! What there should be in the end, and how many pods there ever were.

use crate::lab::{Scene, eventually, proxy::Applied};
use actors::proxy::user_data::spec_hash;
use anyhow::{Context as _, ensure};
use crds::{
    Mode, Phase, Proxy,
    names::{FINALIZER, SPEC_HASH},
};
use futures::StreamExt as _;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api, ResourceExt,
    api::ListParams,
    runtime::watcher::{self, Event},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::task::JoinHandle;

/// Where Squid's configuration is; see the kubernetes provider.
const CONFIGURATION: &str = "crawl.example.com/squid.conf";

/// Waits until the namespace holds nothing but live proxies, each as its spec wants it and Ready, and a
/// Managed one with exactly one pod. Gives back their names.
pub async fn all_is_well(scene: &Scene, patience: Duration) -> anyhow::Result<Vec<String>> {
    let last = Mutex::new(String::new());
    let well = eventually("all is well", patience, || async {
        let found = look(scene).await;
        Ok(match found {
            Ok(names) => Some(names),
            Err(error) => {
                *last.lock().unwrap_or_else(PoisonError::into_inner) = format!("{error:#}");
                None
            }
        })
    });
    let well = well.await;
    let last = last.into_inner().unwrap_or_else(PoisonError::into_inner);
    well.with_context(|| format!("what is wrong at last: {last}"))
}

async fn look(scene: &Scene) -> anyhow::Result<Vec<String>> {
    let mut pods: HashMap<String, Vec<Pod>> = HashMap::new();
    for pod in scene.pods().await? {
        pods.entry(owner(&pod)).or_default().push(pod);
    }
    let proxies = scene.api::<Proxy>().list(&ListParams::default()).await?;
    let mut names = Vec::new();
    for proxy in proxies {
        let name = proxy.name_any();
        ensure!(!proxy.is_deleting(), "{name} is being deleted");
        let uid = proxy.uid().context("a uid")?;
        let its = pods.remove(&uid).unwrap_or_default();
        as_it_should_be(scene, &proxy, &its).with_context(|| name.clone())?;
        names.push(name);
    }
    ensure!(pods.is_empty(), "pods of nobody: {:?}", pods.keys());
    Ok(names)
}

fn as_it_should_be(scene: &Scene, proxy: &Proxy, pods: &[Pod]) -> anyhow::Result<()> {
    let status = proxy.status.as_ref().context("no status")?;
    ensure!(
        status.phase == Some(Phase::Ready),
        "{:?}, {} pods",
        status.phase,
        pods.len()
    );
    let generation = proxy.metadata.generation;
    ensure!(status.observed_generation == generation, "a stale status");
    if proxy.spec.mode == Mode::External || proxy.spec.provider.as_deref() != Some("kubernetes") {
        ensure!(pods.is_empty(), "pods of a proxy that is none");
        return Ok(());
    }
    let [pod] = pods else {
        anyhow::bail!("{} pods", pods.len())
    };
    let pod_name = pod.name_any();
    ensure!(
        pod.metadata.deletion_timestamp.is_none(),
        "{pod_name} is on its way out"
    );
    let id = format!("{}/{pod_name}", scene.namespace());
    ensure!(status.provider_id.as_ref() == Some(&id), "{status:?}");
    let ip = pod
        .status
        .as_ref()
        .and_then(|status| status.pod_ip.as_ref());
    ensure!(status.ip.as_ref() == ip, "{status:?}");
    let port = format!("http_port {}\n", proxy.spec.port);
    let squid = pod.annotations().get(CONFIGURATION);
    ensure!(
        squid.is_some_and(|squid| squid.starts_with(&port)),
        "the pod has another port than {}",
        proxy.spec.port
    );
    let hash = proxy.annotations().get(SPEC_HASH);
    let wanted = spec_hash(&proxy.spec, None);
    ensure!(hash == Some(&wanted), "hash {hash:?}, not {wanted}");
    let held = proxy.finalizers().iter().filter(|held| *held == FINALIZER);
    ensure!(held.count() == 1, "{:?}", proxy.finalizers());
    Ok(())
}

/// Waits until neither Proxies nor pods are left.
pub async fn nothing_is_left(scene: &Scene, patience: Duration) -> anyhow::Result<()> {
    eventually("nothing is left", patience, || async {
        let proxies = scene.api::<Proxy>().list(&ListParams::default()).await?;
        let pods = scene.pods().await?;
        Ok((proxies.items.is_empty() && pods.is_empty()).then_some(()))
    })
    .await
}

/// Deletes every Proxy.
pub async fn delete_all(scene: &Scene) -> anyhow::Result<()> {
    for proxy in scene.api::<Proxy>().list(&ListParams::default()).await? {
        Applied::new(scene.clone(), proxy.name_any())
            .delete()
            .await?;
    }
    Ok(())
}

/// Whose pod it is, from when to when, and with which port.
fn described(pod: &Pod) -> String {
    let time = |time: &Option<Time>| time.as_ref().map(|time| time.0.to_string());
    let squid = pod.annotations().get(CONFIGURATION);
    format!(
        "pod of {} from {:?} until {:?}: {:?}",
        owner(pod),
        time(&pod.metadata.creation_timestamp),
        time(&pod.metadata.deletion_timestamp),
        squid.and_then(|squid| squid.lines().next()),
    )
}

/// Whose pod it is, by its owner's UID.
fn owner(pod: &Pod) -> String {
    let owner = pod.owner_references().first();
    owner.map_or_else(String::new, |owner| owner.uid.clone())
}

/// Sees every pod that there ever is in a namespace.
pub struct Census {
    seen: Arc<Mutex<Seen>>,
    watching: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    now: BTreeMap<String, BTreeSet<String>>,
    /// What is to be said of each, by its UID.
    ever: BTreeMap<String, String>,
    /// Owners that had more than one pod at once.
    doubled: BTreeSet<String>,
}

impl Census {
    /// Begins to watch.
    pub fn begin(scene: &Scene) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let pods: Api<Pod> = scene.api();
        let watching = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                let mut events = Box::pin(watcher::watcher(pods, watcher::Config::default()));
                while let Some(event) = events.next().await {
                    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                    match event {
                        Ok(Event::Apply(pod) | Event::InitApply(pod)) => seen.has(&pod),
                        Ok(Event::Delete(pod)) => seen.lost(&pod),
                        Ok(Event::Init) => seen.now.clear(),
                        Ok(Event::InitDone) | Err(_) => {}
                    }
                }
            }
        });
        Self { seen, watching }
    }

    /// All pods that there were, described; no owner may have had two at once.
    pub fn pods(&self) -> anyhow::Result<Vec<String>> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(seen.doubled.is_empty(), "two pods at once: {:?}", seen.ever);
        Ok(seen.ever.values().cloned().collect())
    }
}

impl Drop for Census {
    fn drop(&mut self) {
        self.watching.abort();
    }
}

impl Seen {
    fn has(&mut self, pod: &Pod) {
        let (owner, uid) = (owner(pod), pod.uid().unwrap_or_default());
        self.ever.insert(uid.clone(), described(pod));
        let now = self.now.entry(owner.clone()).or_default();
        now.insert(uid);
        if now.len() > 1 {
            self.doubled.insert(owner);
        }
    }

    fn lost(&mut self, pod: &Pod) {
        let uid = pod.uid().unwrap_or_default();
        if let Some(now) = self.now.get_mut(&owner(pod)) {
            now.remove(&uid);
        }
    }
}
