//! The `kvm` backend: a proxy is a VM on one of the user's own libvirt hosts, reached over SSH.
//!
//! Talks to: the connections of its hosts, which are actors, and they to `sshd` and, through it,
//! libvirt. Called by the provider actor.
//!
//! Guarantees:
//! - what a request can never have is refused before any host is asked;
//! - a host that hangs delays nobody who asks another one;
//! - the providerID says where the VM is: the config may have changed since.

pub mod config;
pub mod domain;
pub mod error;
pub mod id;
pub mod image_header;
pub mod known_hosts;
pub mod metadata;
pub mod seed;
pub mod ssh;
pub mod tunnel;
pub mod volume;
pub mod xml;

mod address;
mod check;
mod classify;
mod create;
mod delete;
mod get;
mod images;
mod libvirt;
mod link;
mod list;
mod order;
mod room;
mod tidy;
mod upload;

pub use tidy::Pace;

use crate::providers::kvm::{
    config::KvmConfig,
    error::HostError,
    id::HostedDomain,
    link::{Answer, HostLink, HostMsg, HostRequest, HostSettings},
};
use actors::{
    connection::ConnectionActor,
    leader::standing::Standing,
    provider::contract::{
        CreateRequest, Created, ErrorClass, Instance, Operation, Provider, ProviderError,
        TargetCheck,
    },
    system::{Addr, AskError, ChildSpec, Reply},
};
use futures::future::{BoxFuture, join_all};
use order::Orders;
use prometheus::IntCounterVec;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long calls may take: what they wait for a connection and what is done on the host.
const CREATE: Duration = Duration::from_mins(6);
const DELETE: Duration = Duration::from_mins(2);
const GET: Duration = Duration::from_secs(35);
const LIST: Duration = Duration::from_secs(50);
const CHECK: Duration = Duration::from_secs(12);
/// Past the bound of all requests on all hosts: each host bounds its own.
const CALLS: usize = 16_384;

/// What surrounds a provider of this kind.
pub struct Surroundings {
    /// The id of this installation of the operator.
    pub installation: String,
    /// Counts what is fetched, in bytes, by provider and host.
    pub downloaded: IntCounterVec,
    /// When images that no VM needs are removed.
    pub tidy: Pace,
    /// Whether this process may act: a host is asked nothing and changed in nothing while it may not.
    pub standing: Standing,
}

/// One configured provider of type `kvm`.
pub struct KvmProvider {
    name: String,
    orders: Orders,
    hosts: BTreeMap<String, Host>,
}

struct Host {
    addr: Addr<HostMsg>,
    link: Arc<HostLink>,
    address: String,
}

impl KvmProvider {
    /// A provider called `name`. Dials nobody yet.
    #[must_use]
    pub fn new(name: String, config: KvmConfig, around: &Surroundings) -> Self {
        warn(&name, &config);
        let host = |host: &config::Host| {
            let link = HostLink::new(HostSettings::new(&name, &config, host, around));
            let known = Host {
                addr: Addr::default(),
                link: Arc::new(link),
                address: host.address.to_string(),
            };
            (host.name.to_string(), known)
        };
        Self {
            hosts: config.hosts.iter().map(host).collect(),
            orders: Orders::new(config, &around.installation),
            name,
        }
    }

    async fn create(&self, request: &CreateRequest) -> Result<Created, ProviderError> {
        let order = self
            .orders
            .order(request)
            .map_err(|fault| self.failed(Operation::Create, None, HostError::permanent(fault)))?;
        let zone = order.host.name.to_string();
        let id = get::id(&zone, &request.name);
        // On the same host its name is taken, which the host finds by itself.
        if request.elsewhere
            && let Some(there) = self.elsewhere(&request.uid, &id).await?
        {
            return Ok(Created {
                id: there,
                operation: None,
                notes: vec![],
            });
        }
        let ask = |reply| HostRequest::Create(Arc::new(order), reply);
        self.ask(&zone, CREATE, ask)
            .await
            .map_err(|error| self.failed(Operation::Create, Some(&id), on_host(&zone, error)))?;
        Ok(Created {
            id,
            operation: None,
            notes: vec![],
        })
    }

    /// The VM of the proxy with this UID on any host, if it is not `id`. As long as one of the hosts does not
    /// answer, nobody knows; what is wrong there is no fault of this proxy's spec.
    async fn elsewhere(&self, uid: &str, id: &str) -> Result<Option<String>, ProviderError> {
        let all = self.list().await.map_err(|error| ProviderError {
            class: ErrorClass::Transient,
            operation: Operation::Create,
            id: Some(id.to_owned()),
            ..error
        })?;
        let found = all.into_iter().find(|vm| vm.uid == uid && vm.id != id);
        Ok(found.map(|vm| vm.id))
    }

    async fn get(&self, id: &str) -> Result<Instance, ProviderError> {
        let failed = |error| self.failed(Operation::Get, Some(id), error);
        let HostedDomain { host, name } = parse(id).map_err(failed)?;
        let host = host.as_str();
        self.ask(host, GET, |reply| HostRequest::Get(name, reply))
            .await
            .map_err(|error| failed(on_host(host, error)))
    }

    async fn delete(&self, id: &str) -> Result<(), ProviderError> {
        let failed = |error| self.failed(Operation::Delete, Some(id), error);
        let HostedDomain { host, name } = parse(id).map_err(failed)?;
        let host = host.as_str();
        if !self.hosts.contains_key(host) {
            let provider = &self.name;
            tracing::warn!(
                provider,
                providerID = id,
                "its host is not in the config: nothing is deleted"
            );
            return Ok(());
        }
        self.ask(host, DELETE, |reply| HostRequest::Delete(name, reply))
            .await
            .map_err(|error| failed(on_host(host, error)))
    }

    async fn list(&self) -> Result<Vec<Instance>, ProviderError> {
        let lists = self.hosts.keys().map(|host| async move {
            let listed = self.ask(host, LIST, HostRequest::List).await;
            listed.map_err(|error| self.failed(Operation::List, None, on_host(host, error)))
        });
        let lists: Result<Vec<_>, _> = join_all(lists).await.into_iter().collect();
        Ok(lists?.into_iter().flatten().collect())
    }

    async fn check(&self, within: Duration) -> Vec<TargetCheck> {
        // Its answer has to come before the asker gives up.
        let within = CHECK.min(within * 9 / 10);
        let checks = self.hosts.iter().map(|(name, host)| async move {
            let begun = std::time::Instant::now();
            let report = match self.ask(name, within, HostRequest::Check).await {
                Ok(report) => report,
                Err(error) => check::Report {
                    ready: false,
                    reason: check::reason(&error),
                    message: error.message,
                    details: BTreeMap::new(),
                },
            };
            TargetCheck {
                name: name.clone(),
                address: host.address.clone(),
                ready: report.ready,
                reason: report.reason,
                message: report.message,
                latency: begun.elapsed(),
                details: report.details,
            }
        });
        join_all(checks).await
    }

    /// Asks the connection of `host`.
    async fn ask<T: Send + 'static>(
        &self,
        host: &str,
        deadline: Duration,
        request: impl FnOnce(Reply<Answer<T>>) -> HostRequest,
    ) -> Answer<T> {
        let Some(Host { addr, .. }) = self.hosts.get(host) else {
            let known: Vec<_> = self.hosts.keys().map(String::as_str).collect();
            let known = known.join(", ");
            return Err(HostError::permanent(format!(
                "not in the config; known: {known}"
            )));
        };
        let asked = addr.ask(deadline, |reply| HostMsg::Request(request(reply)));
        asked.await.unwrap_or_else(|error| {
            Err(match error {
                AskError::Down => HostError::transient("its connection is being restarted"),
                AskError::Dropped => {
                    HostError::transient("the connection was lost during the call")
                }
                AskError::Late(limit) => {
                    let limit = limit.as_secs();
                    HostError::transient(format!("no answer within {limit} s")).because("Timeout")
                }
            })
        })
    }

    fn failed(&self, operation: Operation, id: Option<&str>, error: HostError) -> ProviderError {
        ProviderError {
            heals: error.is_of_credentials(),
            class: error.class,
            operation,
            provider: self.name.clone(),
            id: id.map(str::to_owned),
            message: error.message,
            source: error.source.map(|source| source as _),
        }
    }
}

/// What the user should know before anything happens.
fn warn(provider: &str, config: &KvmConfig) {
    if config.insecure_ignore_host_key {
        tracing::warn!(
            provider,
            "insecureIgnoreHostKey: whoever answers for a host is believed"
        );
    }
    let files = [Some(&config.ssh_key_file), config.known_hosts_file.as_ref()];
    for file in files.into_iter().flatten() {
        if let Err(error) = std::fs::metadata(file) {
            let file = file.display();
            tracing::warn!(provider, %file, %error, "not there yet; it is looked for at every dial");
        }
    }
}

fn parse(id: &str) -> Answer<HostedDomain> {
    id.parse().map_err(HostError::permanent)
}

fn on_host(host: &str, error: HostError) -> HostError {
    HostError {
        message: format!("host {host}: {}", error.message),
        ..error
    }
}

impl Provider for KvmProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "kvm"
    }

    fn deadline(&self, operation: Operation) -> Duration {
        match operation {
            Operation::Create => CREATE,
            Operation::Get => GET,
            Operation::Delete => DELETE,
            Operation::List => LIST,
            Operation::Check => CHECK,
        }
    }

    fn calls_at_once(&self) -> usize {
        CALLS
    }

    fn children(&self) -> Vec<ChildSpec> {
        let child = |(name, host): (&String, &Host)| {
            let link = Arc::clone(&host.link);
            let path = format!("host/{}/{name}", self.name);
            ChildSpec::new(path, host.addr.clone(), move || {
                ConnectionActor::new(Arc::clone(&link))
            })
        };
        self.hosts.iter().map(child).collect()
    }

    fn create<'a>(
        &'a self,
        request: &'a CreateRequest,
    ) -> BoxFuture<'a, Result<Created, ProviderError>> {
        Box::pin(self.create(request))
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        Box::pin(self.get(id))
    }

    fn delete<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.delete(id))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ProviderError>> {
        Box::pin(self.list())
    }

    fn check(&self, within: Duration) -> BoxFuture<'_, Vec<TargetCheck>> {
        Box::pin(self.check(within))
    }
}
