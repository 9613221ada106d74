//! Starts the lab when it is first needed, ends it, and makes trials of scenarios.

use super::{
    Scene,
    cluster::Cluster,
    eventually,
    hosts::Hosts,
    hypervisor::is_kept,
    judge::{self, Judge},
    proxy::PATIENCE,
};
use crate::whole::crds;
use anyhow::{Context as _, anyhow};
use kube::Client;
use libtest_mimic::{Failed, Trial};
use std::{
    env,
    path::PathBuf,
    process::exit,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tempfile::TempDir;
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
    sync::OnceCell,
};

/// All that is shared by scenarios.
pub struct Lab {
    /// The cluster.
    pub cluster: Cluster,
    /// A client of it, with all rights.
    pub client: Client,
    /// What probes fetch, at the address of this machine that pods reach.
    pub judge: Judge,
    /// The judge's CA.
    pub judge_ca: PathBuf,
    /// Hypervisors, started when they are asked for.
    pub hosts: Arc<Hosts>,
    _files: TempDir,
}

impl Lab {
    /// The URL of `path` at the judge, on a port that proxies may CONNECT to.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.cluster.host())
    }
}

/// The runtime and the lab, if it was started. Dropping it takes the lab down.
pub struct Stage(Arc<Inner>);

struct Inner {
    runtime: Runtime,
    lab: OnceCell<Result<Arc<Lab>, String>>,
    hosts: Arc<Hosts>,
    begun: AtomicBool,
    failures: Mutex<Vec<Failure>>,
    folder: PathBuf,
    index: u8,
}

/// The name of a scenario that failed, and what it said.
pub type Failure = (String, String);

impl Stage {
    /// One without a lab yet.
    ///
    /// # Errors
    /// A `LAB_INDEX` that is none, or a runtime that does not start.
    pub fn new() -> anyhow::Result<Self> {
        rustls::crypto::ring::default_provider()
            .install_default()
            .map_err(|_| anyhow!("there is a TLS provider already"))?;
        let index = env::var("LAB_INDEX").unwrap_or_else(|_| "1".into());
        // The same for every run, so that one can find what an earlier one left behind. Short,
        // because sockets in it have long names.
        let folder = env::temp_dir().join(format!("whole-lab-{index}"));
        let index = index.parse().context("LAB_INDEX")?;
        let inner = Arc::new(Inner {
            runtime: tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()?,
            lab: OnceCell::new(),
            begun: AtomicBool::new(false),
            failures: Mutex::default(),
            hosts: Arc::new(Hosts::new(folder.clone(), index)),
            folder,
            index,
        });
        inner.runtime.spawn(interrupted(Arc::clone(&inner)));
        Ok(Self(inner))
    }

    /// The scenarios that have failed.
    pub fn failures(&self) -> Vec<Failure> {
        std::mem::take(&mut *self.0.failures())
    }

    /// Whether a lab can be had here.
    pub fn is_possible() -> bool {
        Cluster::is_possible()
    }

    /// A trial that needs no lab.
    pub fn bare<F>(&self, name: &str, run: impl FnOnce() -> F + Send + 'static) -> Trial
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let (inner, called) = (Arc::clone(&self.0), name.to_owned());
        Trial::test(name, move || {
            inner.outcome(&called, async move { run().await.map_err(told) })
        })
    }

    /// A trial in the lab.
    pub fn trial<F>(&self, name: &str, run: impl FnOnce(Arc<Lab>) -> F + Send + 'static) -> Trial
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let (inner, called) = (Arc::clone(&self.0), name.to_owned());
        Trial::test(name, move || {
            let lab = inner.runtime.block_on(inner.lab())?;
            inner.outcome(&called, async move { run(lab).await.map_err(told) })
        })
        .with_ignored_flag(!Self::is_possible())
    }

    /// A trial on hypervisors that needs no cluster.
    pub fn on_hosts<F>(
        &self,
        name: &str,
        run: impl FnOnce(Arc<Hosts>) -> F + Send + 'static,
    ) -> Trial
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let (inner, called) = (Arc::clone(&self.0), name.to_owned());
        let hosts = Arc::clone(&inner.hosts);
        Trial::test(name, move || {
            inner.outcome(&called, async move { run(hosts).await.map_err(told) })
        })
        .with_ignored_flag(!Self::is_possible())
    }

    /// A trial in a namespace of its own.
    pub fn scene<F>(&self, name: &str, run: impl FnOnce(Scene) -> F + Send + 'static) -> Trial
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let (inner, called) = (Arc::clone(&self.0), name.to_owned());
        let slug = name.rsplit("::").next().unwrap_or(name).to_owned();
        Trial::test(name, move || {
            let lab = inner.runtime.block_on(inner.lab())?;
            inner.outcome(&called, async move {
                let scene = Scene::new(lab, &slug).await.map_err(told)?;
                // A task of its own, so that a scenario that panics is cleaned up after, too.
                let outcome = tokio::spawn(run(scene.clone())).await;
                let outcome = outcome.map_err(told).and_then(|ended| ended.map_err(told));
                scene.end(outcome).await
            })
        })
        .with_ignored_flag(!Self::is_possible())
    }
}

impl Inner {
    fn outcome(
        &self,
        name: &str,
        scenario: impl Future<Output = Result<(), String>> + Send + 'static,
    ) -> Result<(), Failed> {
        // On the runtime's threads, which outlive the scenario: operators die with the thread that
        // started them.
        let outcome = self.runtime.block_on(self.runtime.spawn(scenario));
        outcome.map_err(told).flatten().map_err(|message| {
            // At once, and not only when all others have ended, too.
            eprintln!("whole: {name}: {message}");
            let failure = (name.to_owned(), message.clone());
            self.failures().push(failure);
            Failed::from(message)
        })
    }

    fn failures(&self) -> MutexGuard<'_, Vec<Failure>> {
        // Every write is complete in itself.
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn lab(&self) -> Result<Arc<Lab>, String> {
        let lab = self.lab.get_or_init(|| async {
            self.begun.store(true, Ordering::SeqCst);
            self.start().await.map(Arc::new).map_err(told)
        });
        lab.await.clone()
    }

    async fn start(&self) -> anyhow::Result<Lab> {
        let (folder, index) = (self.folder.clone(), self.index);
        let cluster = tokio::task::spawn_blocking(move || Cluster::start(&folder, index)).await??;
        let judge = Judge::start(&judge::Options {
            address: cluster.host().into(),
            https_port: 443,
            http_port: 80,
            ..judge::Options::default()
        })?;
        let client = cluster.client().await?;
        crds::install(&client).await.map_err(anyhow::Error::msg)?;
        // Discovery and the description of the resources follow a moment later.
        eventually("kubectl knows the resources", PATIENCE, || async {
            let kubectl = cluster.kubectl();
            let known = kubectl.run("default", &["explain", "px"]).await.is_ok()
                && kubectl.run("default", &["explain", "ph"]).await.is_ok();
            Ok(known.then_some(()))
        })
        .await?;
        let files = tempfile::tempdir()?;
        let judge_ca = files.path().join("judge.pem");
        std::fs::write(&judge_ca, &judge.ca_pem)?;
        Ok(Lab {
            cluster,
            client,
            judge,
            judge_ca,
            hosts: Arc::clone(&self.hosts),
            _files: files,
        })
    }

    fn end(&self) {
        self.hosts.end();
        if !self.begun.swap(false, Ordering::SeqCst) {
            return;
        }
        if is_kept() {
            let (folder, index) = (self.folder.display(), self.index);
            eprintln!(
                "whole: the lab stays up:\n  export KUBECONFIG={folder}/k8s{index}/admin.kubeconfig\n  \
                 tests/lab/cluster.sh down {folder} {index}    ends it"
            );
        } else if let Err(error) = Cluster::down(&self.folder, self.index) {
            eprintln!("whole: {error:#}");
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.0.end();
    }
}

async fn interrupted(inner: Arc<Inner>) {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    eprintln!("whole: interrupted");
    let ended = tokio::task::spawn_blocking(move || inner.end());
    ended.await.ok();
    exit(130);
}

fn told(error: impl Into<anyhow::Error>) -> String {
    format!("{:#}", error.into())
}
