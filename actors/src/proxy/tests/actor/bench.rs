//! A proxy between inboxes, and what a test says to it through them.

use crate::{
    events::EventsMsg,
    fakes::{SECOND, Stage, Store, key, metrics, until},
    health::HealthMsg,
    leases::LeasesMsg,
    prober::Watch,
    provider::{
        ProviderMsg,
        contract::{Created, ErrorClass, Instance, InstanceState, Operation, ProviderError},
    },
    providers::Listed,
    proxy::{Deps, ProxyActor, ProxyMsg, tests::machine},
    status::StatusActor,
    system::{Addr, ChildSpec, Epoch, addr::probe::inbox},
};
use crds::{Phase, Proxy};
use std::{collections::BTreeMap, sync::Arc};
use tokio::{
    sync::{mpsc::UnboundedReceiver, watch},
    time::timeout,
};

pub(super) struct Bench {
    pub(super) stage: Stage,
    pub(super) store: Store,
    pub(super) addr: Addr<ProxyMsg>,
    pub(super) health: UnboundedReceiver<HealthMsg>,
    pub(super) leases: UnboundedReceiver<LeasesMsg>,
    pub(super) provider: UnboundedReceiver<ProviderMsg>,
    _events: UnboundedReceiver<EventsMsg>,
    _roster: watch::Sender<BTreeMap<String, Listed>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Word {
    Nothing,
    Offers(bool),
    Withdraws,
}

pub(super) async fn bench(object: &Proxy) -> Bench {
    let store = Store::default();
    store.0.apply(object.clone());
    let (health, health_inbox) = inbox().await;
    let (leases, leases_inbox) = inbox().await;
    let (events, events_inbox) = inbox().await;
    let (provider, provider_inbox) = inbox().await;
    let listed = Listed {
        addr: provider,
        fingerprint: 1,
        confined: false,
    };
    let roster = watch::Sender::new(BTreeMap::from([("lab".to_owned(), listed)]));
    let status = Addr::default();
    let deps = Arc::new(Deps {
        store: Arc::new(store.clone()),
        status: status.clone(),
        events,
        health,
        leases,
        roster: roster.subscribe(),
        metrics: metrics(),
        installation: "i".into(),
    });
    let addr = Addr::default();
    let port = Arc::new(store.clone());
    let stage = Stage::of(vec![
        ChildSpec::new(
            "status",
            status,
            move || StatusActor::new(port.clone() as _),
        ),
        ChildSpec::new("proxy", addr.clone(), move || {
            ProxyActor::new(key(), Arc::clone(&deps))
        }),
    ])
    .await;
    Bench {
        stage,
        store,
        addr,
        health: health_inbox,
        leases: leases_inbox,
        provider: provider_inbox,
        _events: events_inbox,
        _roster: roster,
    }
}

pub(super) async fn next<M>(inbox: &mut UnboundedReceiver<M>) -> M {
    let message = timeout(600 * SECOND, inbox.recv()).await;
    message.expect("says something").expect("lives")
}

/// Whether nothing comes within a minute.
pub(super) async fn silent<M>(inbox: &mut UnboundedReceiver<M>) -> bool {
    timeout(60 * SECOND, inbox.recv()).await.is_err()
}

pub(super) fn instance() -> Instance {
    Instance {
        id: "x".into(),
        ip: Some([10, 0, 0, 1].into()),
        state: InstanceState::Running,
        uid: String::new(),
        installation: String::new(),
        created_at: 0,
        trouble: None,
    }
}

pub(super) fn error(class: ErrorClass, operation: Operation) -> ProviderError {
    machine::error(class, operation)
}

impl Bench {
    pub(super) fn phase(&self) -> Option<Phase> {
        self.store.0.object(&key())?.status.as_ref()?.phase
    }

    /// The user or the watch: it hears that its object changed.
    pub(super) fn changed(&self) {
        self.addr.hint(ProxyMsg::Changed);
    }

    /// The next watch that health is told of.
    pub(super) async fn watched(&mut self) -> Box<Watch> {
        loop {
            if let HealthMsg::Watch(_, watch, _) = next(&mut self.health).await {
                return watch;
            }
        }
    }

    pub(super) async fn creates(&mut self) {
        let ProviderMsg::Create(_, reply) = next(&mut self.provider).await else {
            panic!("something else than create");
        };
        let id = "x".into();
        reply
            .send(Ok(Created {
                id,
                operation: None,
                notes: vec![],
            }))
            .ok();
    }

    pub(super) async fn gets(&mut self, answer: Result<Instance, ProviderError>) {
        let ProviderMsg::Get(id, _, reply) = next(&mut self.provider).await else {
            panic!("something else than get");
        };
        assert_eq!(id, "x");
        reply.send(answer).ok();
    }

    pub(super) async fn deletes(&mut self) {
        let ProviderMsg::Delete(id, reply) = next(&mut self.provider).await else {
            panic!("something else than delete");
        };
        assert_eq!(id, "x");
        reply.send(Ok(())).ok();
    }

    /// Brings it to Ready.
    pub(super) async fn ready(&mut self) -> Epoch {
        self.creates().await;
        self.gets(Ok(instance())).await;
        let watch = self.watched().await;
        self.judge(watch.epoch, true);
        until("Ready", || self.phase() == Some(Phase::Ready)).await;
        watch.epoch
    }

    pub(super) fn judge(&self, epoch: Epoch, is_healthy: bool) {
        let verdict = if is_healthy {
            machine::healthy(7)
        } else {
            machine::unhealthy("refused")
        };
        self.addr
            .tell(ProxyMsg::Judged(epoch, verdict))
            .expect("is up");
    }

    /// What the ledger was told last.
    pub(super) fn offer(&mut self) -> Word {
        let mut last = Word::Nothing;
        while let Ok(message) = self.leases.try_recv() {
            match message {
                LeasesMsg::Offer(candidate) => last = Word::Offers(candidate.healthy),
                LeasesMsg::Withdraw(_) => last = Word::Withdraws,
                _ => {}
            }
        }
        last
    }
}
