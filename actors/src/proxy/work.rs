//! A proxy's operations: each one a task that ends in one message, and what is said to others.

use super::{
    Deps, HealthMsg, LeasesMsg, Note, Probed, ProxyActor, ProxyMsg,
    deps::WRITE_DEADLINE,
    memory::{Backend, Memory},
    next::UNCERTAIN,
    user_data,
};
use crate::{
    events::{EventsMsg, Regarding},
    key::ProxyKey,
    leases::terms::Candidate,
    prober::{Watch, probe::Fetch, verdict::Thresholds},
    provider::{
        PATIENCE, ProviderMsg,
        contract::{CreateRequest, ErrorClass, Operation, ProviderError, UserData, instance_name},
    },
    status::StatusMsg,
    store::{MetadataChange, UserDataError, Write, WriteError},
    system::{Addr, AskError, Down, Epoch, Reply},
};
use crds::{
    Mode, Phase, Proxy, ProxySpec, ProxyStatus,
    conditions::{self, ConditionType, Reason},
    names,
};
use futures::FutureExt;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

/// Before the first question to a provider, and before it is asked again when its actor went away.
const RETRIES: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(50),
    Duration::from_millis(500),
    Duration::from_secs(2),
];
/// Longer than any provider's own deadline for one call, which ends it first.
const PROVIDER_DEADLINE: Duration = Duration::from_mins(30);

impl ProxyActor {
    /// As an Event on the object, and in the log.
    pub(super) fn tell_user(&self, object: &Proxy, note: Note) {
        let (proxy, reason, message) = (&self.key, note.reason.as_str(), &note.message);
        let status = object.status.as_ref();
        let provider_id = status.and_then(|status| status.provider_id.as_deref());
        if note.warning {
            tracing::warn!(%proxy, provider_id, reason, "{message}");
        } else {
            tracing::info!(%proxy, provider_id, reason, "{message}");
        }
        let regarding = Regarding::Proxy {
            key: self.key.clone(),
            uid: object.metadata.uid.clone().unwrap_or_default(),
        };
        self.deps.events.hint(EventsMsg::Record(regarding, note));
    }

    /// Tells the ledger what may be leased, if that is news.
    pub(super) fn offer(&mut self, memory: &Memory, object: &Proxy) {
        let leaves = object.is_deleting() || memory.is_replacing(object) || memory.leaving;
        let candidate = (!leaves).then(|| candidate(&self.key, memory, object));
        let mut hasher = DefaultHasher::new();
        candidate.hash(&mut hasher);
        let hash = Some(hasher.finish());
        if self.offered == hash {
            return;
        }
        let news = match candidate {
            Some(candidate) => LeasesMsg::Offer(Arc::new(candidate)),
            None => LeasesMsg::Withdraw(self.key.clone()),
        };
        // If the ledger is down it asks when it is back.
        self.offered = hash.filter(|_| self.deps.leases.tell(news).is_ok());
    }

    /// Tells health what to probe, if that is news.
    pub(super) fn have_probed(&mut self, memory: &Memory, object: &Proxy, me: &Addr<ProxyMsg>) {
        let host = host(memory, object).filter(|_| memory.runs(object) && !object.is_deleting());
        let told = self.probed.watch();
        let wanted = host.map(|host| {
            let new = watch(&host, &object.spec, Epoch::next());
            // Verdicts on their way are still about this address.
            let same = told.filter(|told| told.same_proxy(&new));
            let epoch = same.map_or(new.epoch, |told| told.epoch);
            Watch { epoch, ..new }
        });
        let (news, probed) = match (&self.probed, wanted) {
            (Probed::Nothing, None) => return,
            (Probed::This(told), Some(new)) if told.same_proxy(&new) && told.same_check(&new) => {
                return;
            }
            (_, None) => (HealthMsg::Forget(self.key.clone()), Probed::Nothing),
            (_, Some(new)) => {
                let verdict = memory.verdict.as_deref().cloned();
                let watch = Box::new(Watch {
                    verdict,
                    ..new.clone()
                });
                let news = HealthMsg::Watch(self.key.clone(), watch, me.clone());
                (news, Probed::This(Box::new(new)))
            }
        };
        // If health is down it asks when it is back.
        self.probed = match self.deps.health.tell(news) {
            Ok(()) => probed,
            Err(Down) => Probed::Untold,
        };
    }

    pub(super) fn write_status(
        &mut self,
        object: &Proxy,
        status: Box<ProxyStatus>,
        me: &Addr<ProxyMsg>,
    ) {
        let uid = object.metadata.uid.clone().unwrap_or_default();
        self.write(Write::Status { uid, status }, me);
    }

    pub(super) fn write_finalizers(&mut self, object: &Proxy, hold: bool, me: &Addr<ProxyMsg>) {
        let mut finalizers = object.metadata.finalizers.clone().unwrap_or_default();
        finalizers.retain(|name| name != names::FINALIZER);
        if hold {
            finalizers.push(names::FINALIZER.to_owned());
        }
        self.write_metadata(object, MetadataChange::Finalizers(finalizers), me);
    }

    pub(super) fn write_hash(&mut self, object: &Proxy, hash: &str, me: &Addr<ProxyMsg>) {
        self.write_metadata(object, MetadataChange::SpecHash(hash.to_owned()), me);
    }

    fn write_metadata(&mut self, object: &Proxy, change: MetadataChange, me: &Addr<ProxyMsg>) {
        let resource_version = object.metadata.resource_version.clone().unwrap_or_default();
        self.write(
            Write::Metadata {
                resource_version,
                change,
            },
            me,
        );
    }

    fn write(&mut self, write: Write, me: &Addr<ProxyMsg>) {
        let (writer, key, me) = (self.deps.status.clone(), self.key.clone(), me.clone());
        self.operation.start_within(|epoch| async move {
            let asked = writer.ask(WRITE_DEADLINE, |reply| StatusMsg::Write(key, write, reply));
            let written = asked
                .await
                .unwrap_or_else(|e| Err(WriteError::Failed(format!("status writer: {e}"))));
            me.hint(ProxyMsg::Written(epoch, written));
        });
    }

    pub(super) fn resolve(&mut self, object: &Proxy, me: &Addr<ProxyMsg>) {
        let (deps, me) = (Arc::clone(&self.deps), me.clone());
        let (namespace, spec) = (self.key.namespace().to_owned(), object.spec.clone());
        self.operation.start_within(|epoch| async move {
            let resolved = user_data_of(&deps, &namespace, &spec).await.map(|data| {
                let suspicion = data.as_ref().and_then(user_data::suspicion);
                (user_data::spec_hash(&spec, data.as_ref()).into(), suspicion)
            });
            me.hint(ProxyMsg::Resolved(epoch, resolved));
        });
    }

    pub(super) fn create(
        &mut self,
        memory: &Memory,
        object: &Proxy,
        hash: Box<str>,
        me: &Addr<ProxyMsg>,
    ) {
        let (deps, me, spec) = (Arc::clone(&self.deps), me.clone(), object.spec.clone());
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let mut request = CreateRequest {
            name: instance_name(&uid),
            uid,
            namespace: self.key.namespace().to_owned(),
            proxy_name: self.key.name().to_owned(),
            placement: spec.placement.clone().unwrap_or_default(),
            user_data: None,
            port: spec.port,
            installation: deps.installation.clone(),
            spec_hash: hash.to_string(),
            after: memory.operation(object).map(str::to_owned),
            elsewhere: object.spec_hash() == Some(UNCERTAIN),
        };
        self.operation.start_within(|epoch| async move {
            let user_data = user_data_of(&deps, &request.namespace, &spec).await.ok();
            // The annotation says what is built, so what is built must be what it says.
            let created = match user_data {
                Some(data) if user_data::spec_hash(&spec, data.as_ref()) == *hash => {
                    request.user_data = data;
                    let ask = |reply| ProviderMsg::Create(Box::new(request.clone()), reply);
                    Some(ask_provider(&deps, &spec, Operation::Create, ask).await)
                }
                _ => None,
            };
            me.hint(ProxyMsg::Created(epoch, created));
        });
    }

    pub(super) fn get(&mut self, memory: &Memory, object: &Proxy, id: String, me: &Addr<ProxyMsg>) {
        let (deps, me, spec) = (Arc::clone(&self.deps), me.clone(), object.spec.clone());
        let creation = memory.operation(object).map(str::to_owned);
        self.operation.start_within(|epoch| async move {
            let got = ask_provider(&deps, &spec, Operation::Get, |reply| {
                ProviderMsg::Get(id.clone(), creation.clone(), reply)
            })
            .await;
            me.hint(ProxyMsg::Got(epoch, got));
        });
    }

    pub(super) fn delete(&mut self, object: &Proxy, id: String, me: &Addr<ProxyMsg>) {
        let (deps, me, spec) = (Arc::clone(&self.deps), me.clone(), object.spec.clone());
        self.operation.start_within(|epoch| async move {
            let deleted = ask_provider(&deps, &spec, Operation::Delete, |reply| {
                ProviderMsg::Delete(id.clone(), reply)
            })
            .await;
            me.hint(ProxyMsg::Deleted(epoch, deleted));
        });
    }
}

async fn user_data_of(
    deps: &Deps,
    namespace: &str,
    spec: &ProxySpec,
) -> Result<Option<UserData>, UserDataError> {
    let Some(cloud_init) = &spec.cloud_init else {
        return Ok(None);
    };
    if let Some(secret) = &cloud_init.secret_ref {
        let read = AssertUnwindSafe(deps.store.user_data(namespace, secret)).catch_unwind();
        return match read.await {
            Ok(read) => read.map(Some),
            // Or the proxy would wait for an answer for ever.
            Err(_) => Err(UserDataError::Failed("reading the Secret panicked".into())),
        };
    }
    Ok(cloud_init
        .inline
        .as_ref()
        .map(|text| text.as_bytes().to_vec().into()))
}

async fn ask_provider<T: Send + 'static>(
    deps: &Deps,
    spec: &ProxySpec,
    operation: Operation,
    question: impl Fn(Reply<Result<T, ProviderError>>) -> ProviderMsg,
) -> Result<T, ProviderError> {
    let name = spec.provider.as_deref().unwrap_or_default();
    let addr = || deps.roster.borrow().get(name).map(|l| l.addr.clone());
    let mut asked = Err(AskError::Down);
    // A provider's actor that was killed is back in milliseconds, and every call may be made twice:
    // that is no news for the user.
    for pause in RETRIES {
        tokio::time::sleep(pause).await;
        if let Some(provider) = addr() {
            asked = provider.ask(PROVIDER_DEADLINE + PATIENCE, &question).await;
        }
        if !matches!(asked, Err(AskError::Down | AskError::Dropped)) {
            break;
        }
    }
    asked.unwrap_or_else(|error| {
        Err(ProviderError {
            class: ErrorClass::Transient,
            operation,
            provider: name.to_owned(),
            id: None,
            heals: false,
            message: format!("provider {name}: {error}"),
            source: Some(Arc::new(error)),
        })
    })
}

fn host(memory: &Memory, object: &Proxy) -> Option<String> {
    match (object.spec.mode, &memory.backend) {
        (Mode::External, _) => object.endpoint_host().map(str::to_owned),
        (Mode::Managed, Backend::Running(ip)) => Some(ip.to_string()),
        (Mode::Managed, _) => None,
    }
}

fn watch(host: &str, spec: &ProxySpec, epoch: Epoch) -> Watch {
    let check = &spec.health_check;
    Watch {
        fetch: Fetch {
            host: host.into(),
            port: spec.effective_port(),
            url: check.url.as_str().into(),
            expected_status: check.expected_status,
            timeout: Duration::from_secs(check.timeout_seconds.into()),
        },
        period: Duration::from_secs(check.period_seconds.into()),
        thresholds: Thresholds {
            failure: check.failure_threshold,
            success: check.success_threshold,
        },
        verdict: None,
        epoch,
    }
}

/// What may be leased by the word of the object alone; nothing while it is on its way out or replaced.
#[must_use]
pub fn candidate_of(object: &Proxy) -> Option<Candidate> {
    let key = ProxyKey::of(object)?;
    let replaces = conditions::get(object.conditions(), ConditionType::Provisioned)
        .is_some_and(|provisioned| provisioned.reason == Reason::Replacing.as_str());
    let stays = !object.is_deleting() && !replaces;
    stays.then(|| candidate(&key, &Memory::of(object), object))
}

fn candidate(key: &ProxyKey, memory: &Memory, object: &Proxy) -> Candidate {
    let runs = memory.runs(object);
    let verdict = memory.verdict.as_deref().filter(|_| runs);
    let healthy = verdict.is_some_and(|v| v.healthy);
    let phase = match verdict {
        Some(_) if healthy => Phase::Ready,
        Some(_) => Phase::Unhealthy,
        None => match object.status.as_ref().and_then(|s| s.phase) {
            // What the status says lags behind what is known.
            Some(Phase::Ready | Phase::Unhealthy) => Phase::Provisioning,
            other => other.unwrap_or(Phase::Pending),
        },
    };
    Candidate {
        key: key.clone(),
        uid: memory.uid.as_ref().into(),
        ip: host(memory, object).unwrap_or_default(),
        port: object.effective_port(),
        attributes: object.spec.attributes.clone(),
        phase,
        healthy,
        latency_millis: verdict.and_then(|v| v.latency_millis),
        max_leases: object.spec.max_leases,
    }
}
