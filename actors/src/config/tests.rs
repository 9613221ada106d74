//! A file that changes, under a clock that the test moves.

use super::*;
use crate::{
    fakes::{SECOND, Stage, until},
    providers::tests::set_of,
    system::addr::probe::inbox,
};
use prometheus::{Registry, TextEncoder};
use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering::SeqCst},
};
use tokio::sync::mpsc::UnboundedReceiver;

/// A file: what it says is a list of names and fingerprints, or a complaint.
struct File {
    says: Mutex<Result<Vec<(&'static str, u64)>, &'static str>>,
    panics: AtomicBool,
}

impl File {
    fn saying(entries: &[(&'static str, u64)]) -> Self {
        Self {
            says: Mutex::new(Ok(entries.to_vec())),
            panics: AtomicBool::default(),
        }
    }
}

impl Source for File {
    fn read(
        &self,
        seen: Option<Content>,
        running: Arc<ProviderSet>,
    ) -> BoxFuture<'static, Option<Reading>> {
        assert!(!self.panics.swap(false, SeqCst), "as told");
        let says = self.says.lock().unwrap().clone();
        let content = Content(says.as_ref().map_or_else(
            |complaint| complaint.len() as u64,
            |entries| 1000 + entries.iter().map(|entry| entry.1).sum::<u64>(),
        ));
        let set = says.map_err(str::to_owned).map(|entries| {
            let mut set = Arc::unwrap_or_clone(set_of(&entries));
            for (name, entry) in &mut set {
                if let Some(kept) = running
                    .get(name)
                    .filter(|k| k.fingerprint == entry.fingerprint)
                {
                    entry.provider = Arc::clone(&kept.provider);
                }
            }
            set
        });
        Box::pin(async move { (seen != Some(content)).then_some(Reading { content, set }) })
    }
}

struct World {
    file: Arc<File>,
    set: watch::Receiver<Arc<ProviderSet>>,
    configured: UnboundedReceiver<ProvidersMsg>,
    events: UnboundedReceiver<EventsMsg>,
    registry: Registry,
    metrics: Metrics,
    stage: Stage,
}

impl World {
    async fn starting_with(entries: &[(&'static str, u64)]) -> Self {
        let ((providers, configured), (events, told)) = (inbox().await, inbox().await);
        let (registry, file) = (Registry::new(), Arc::new(File::saying(entries)));
        let set = Arc::new(watch::Sender::new(set_of(entries)));
        let metrics = Metrics::new(&registry).expect("a new registry");
        let deps = Arc::new(ConfigDeps {
            source: Arc::clone(&file) as _,
            set: Arc::clone(&set),
            providers,
            events,
            metrics: metrics.clone(),
        });
        let make = move || ConfigActor::new(Arc::clone(&deps));
        Self {
            file,
            set: set.subscribe(),
            configured,
            events: told,
            registry,
            metrics,
            stage: Stage::one("config", &Addr::default(), make).await,
        }
    }

    fn says(&self, says: Result<&[(&'static str, u64)], &'static str>) {
        *self.file.says.lock().unwrap() = says.map(<[_]>::to_vec);
    }

    async fn a_while(&self) {
        tokio::time::sleep(10 * SECOND).await;
    }

    fn names(&self) -> Vec<String> {
        self.set.borrow().keys().cloned().collect()
    }

    fn failures(&self) -> u64 {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather());
        let text = text.expect("text");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("proxy_operator_config_reload_failures_total "));
        line.expect("the metric").parse().expect("a number")
    }

    fn told(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(EventsMsg::Record(regarding, note)) = self.events.try_recv() {
            assert_eq!(regarding, Regarding::Operator);
            assert!(note.warning);
            all.push(format!("{} {}", note.reason, note.message));
        }
        all
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_stays_the_same_is_published_once() {
    let mut w = World::starting_with(&[("a", 1)]).await;
    w.a_while().await;
    assert!(w.configured.try_recv().is_err());
    assert!(!w.set.has_changed().expect("is held"));
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_is_published_and_what_did_not_change_is_kept() {
    let mut w = World::starting_with(&[("changed", 1), ("kept", 1)]).await;
    let before = Arc::clone(&w.set.borrow());
    w.says(Ok(&[("changed", 5), ("kept", 1), ("new", 1)]));
    let Some(ProvidersMsg::Configure(set)) = w.configured.recv().await else {
        panic!("not told");
    };
    assert!(Arc::ptr_eq(&set, &w.set.borrow()));
    assert_eq!(w.names(), ["changed", "kept", "new"]);
    assert!(Arc::ptr_eq(&set["kept"].provider, &before["kept"].provider));
    assert!(!Arc::ptr_eq(
        &set["changed"].provider,
        &before["changed"].provider
    ));
    w.a_while().await;
    assert!(w.configured.try_recv().is_err(), "published twice");
    assert_eq!(w.failures(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_bad_file_changes_nothing_is_told_once_and_heals() {
    let mut w = World::starting_with(&[("a", 1)]).await;
    w.says(Err("bad"));
    w.a_while().await;
    w.says(Err("worse"));
    w.a_while().await;
    assert_eq!(w.names(), ["a"]);
    assert_eq!(w.failures(), 2);
    assert_eq!(
        w.told(),
        ["InvalidProvidersConfig bad", "InvalidProvidersConfig worse"]
    );
    w.says(Ok(&[("a", 1)]));
    w.a_while().await;
    assert!(w.configured.try_recv().is_err(), "nothing changed");
    w.says(Ok(&[("a", 2)]));
    w.a_while().await;
    assert!(w.configured.try_recv().is_ok());
    assert_eq!(w.failures(), 2);
}

#[tokio::test(start_paused = true)]
async fn neither_a_kill_nor_a_panic_keeps_it_from_looking() {
    let w = World::starting_with(&[("a", 1)]).await;
    w.file.panics.store(true, SeqCst);
    until("panicked", || !w.file.panics.load(SeqCst)).await;
    w.stage.kill("config");
    w.says(Ok(&[("b", 1)]));
    until("published", || w.names() == ["b"]).await;
}

/// Its providers' parent is down, as on a follower.
#[tokio::test(start_paused = true)]
async fn the_series_of_a_removed_provider_go() {
    let w = World::starting_with(&[("gone", 1), ("kept", 1)]).await;
    let has = |name: &str| {
        let text = TextEncoder::new().encode_to_string(&w.registry.gather());
        text.expect("text")
            .contains(&format!("provider=\"{name}\""))
    };
    for name in ["gone", "kept"] {
        w.metrics.swept(name, 1, false);
    }
    assert!(has("gone"));
    w.says(Ok(&[("kept", 1)]));
    until("forgotten", || !has("gone")).await;
    assert!(has("kept"));
}
