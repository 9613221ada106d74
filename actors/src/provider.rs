//! A provider: one actor between the proxies and one backend.
//!
//! Talks to: every proxy of this provider (asks create, get, delete), the collector (list, delete), the
//! monitor (check) and the backend through [`contract::Provider`].
//!
//! Guarantees: no more calls are under way than the backend allows and [`QUEUE`] with those that wait,
//! what is beyond is refused as transient at once; each call is bounded by its deadline whatever the backend does; calls that
//! nobody waits for any more are not begun. A check waits for no call and counts as none. When the provider
//! leaves the config, or is there anew because its entry changed, what is under way is dropped; who waits
//! for it asks the new one, which goes on from what it finds at the backend.

pub mod contract;
pub mod fenced;
#[cfg(test)]
pub(crate) mod tests;

use crate::{
    metrics::Metrics,
    system::{Actor, Broken, Context, Reply},
    trace,
};
use contract::{
    CreateRequest, Created, ErrorClass, Instance, Operation, OperationId, Provider, ProviderError,
    ProviderId, TargetCheck,
};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};
use tracing::Instrument;

/// Calls under way and waiting: a proxy has at most one, so a large fleet that starts anew fits.
const QUEUE: usize = 16_384;
/// How much longer than the call itself an asker waits in the queue.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// What a provider understands.
#[derive(strum::IntoStaticStr)]
pub enum ProviderMsg {
    /// Make or adopt an instance.
    Create(Box<CreateRequest>, Reply<Result<Created, ProviderError>>),
    /// Look at an instance, and at the operation that creates it where there is one.
    Get(
        ProviderId,
        Option<OperationId>,
        Reply<Result<Instance, ProviderError>>,
    ),
    /// Delete an instance.
    Delete(ProviderId, Reply<Result<(), ProviderError>>),
    /// Name every instance of this installation.
    List(Reply<Result<Vec<Instance>, ProviderError>>),
    /// Say what each target is like, within this time.
    Check(Duration, Reply<Vec<TargetCheck>>),
}

/// The actor.
pub struct ProviderActor {
    provider: Arc<dyn Provider>,
    metrics: Metrics,
    slots: Arc<Semaphore>,
    calls: JoinSet<()>,
    checks: JoinSet<()>,
}

impl ProviderActor {
    /// An actor for `provider`.
    #[must_use]
    pub fn new(provider: Arc<dyn Provider>, metrics: Metrics) -> Self {
        Self {
            slots: Arc::new(Semaphore::new(provider.calls_at_once())),
            provider,
            metrics,
            calls: JoinSet::new(),
            checks: JoinSet::new(),
        }
    }

    fn call<T, F>(
        &mut self,
        operation: Operation,
        id: Option<&str>,
        reply: Reply<Result<T, ProviderError>>,
        run: impl FnOnce(Arc<dyn Provider>) -> F,
    ) where
        T: Send + 'static,
        F: Future<Output = Result<T, ProviderError>> + Send + 'static,
    {
        let failed = failure(self.provider.name(), operation);
        if self.calls.len() >= QUEUE {
            reply
                .send(Err(failed(format!("{QUEUE} calls are waiting already"))))
                .ok();
            return;
        }
        let (slots, metrics) = (Arc::clone(&self.slots), self.metrics.clone());
        let name = self.provider.name().to_owned();
        let deadline = self.provider.deadline(operation);
        let call = run(Arc::clone(&self.provider));
        let id = id.map(str::to_owned);
        let calling = async move {
            let Ok(_slot) = slots.acquire().await else {
                return;
            };
            if reply.is_closed() {
                return;
            }
            let begun = Instant::now();
            let span = trace::call(&name, operation, id.as_deref());
            let answer = tokio::time::timeout(deadline, call.instrument(span.clone()))
                .await
                .unwrap_or_else(|_| {
                    Err(failed(format!("no answer within {} s", deadline.as_secs())))
                });
            metrics.provider_request(
                &name,
                operation,
                answer.as_ref().err().map(|e| e.class),
                begun.elapsed(),
            );
            trace::call_ended(&span, answer.as_ref().err());
            reply.send(answer).ok();
        };
        self.calls.spawn(calling.in_current_span());
    }

    fn check(&mut self, within: Duration, reply: Reply<Vec<TargetCheck>>) {
        while self.checks.try_join_next().is_some() {}
        let provider = Arc::clone(&self.provider);
        let checking = async move {
            // The asker has the same deadline; this is for what it would leave behind.
            if let Ok(checked) = tokio::time::timeout(within, provider.check(within)).await {
                reply.send(checked).ok();
            }
        };
        self.checks.spawn(checking.in_current_span());
    }
}

fn failure(
    provider: &str,
    operation: Operation,
) -> impl FnOnce(String) -> ProviderError + Clone + use<> {
    let provider = provider.to_owned();
    move |message| ProviderError {
        class: ErrorClass::Transient,
        operation,
        provider,
        id: None,
        heals: false,
        message,
        source: None,
    }
}

impl Actor for ProviderActor {
    type Msg = ProviderMsg;
    const KIND: &'static str = "provider";

    fn started(&mut self, cx: &mut Context<ProviderMsg>) -> Result<(), Broken> {
        for child in self.provider.children() {
            cx.start(child);
        }
        Ok(())
    }

    fn handle(&mut self, message: ProviderMsg, _: &mut Context<ProviderMsg>) -> Result<(), Broken> {
        while self.calls.try_join_next().is_some() {}
        match message {
            ProviderMsg::Create(request, reply) => {
                self.call(Operation::Create, None, reply, |provider| async move {
                    let created = provider.create(&request).await;
                    created.inspect(|created| trace::created(&created.id))
                });
            }
            ProviderMsg::Get(id, creation, reply) => {
                let subject = id.clone();
                self.call(
                    Operation::Get,
                    Some(&subject),
                    reply,
                    |provider| async move {
                        match creation {
                            Some(creation) => provider.follow(&id, &creation).await,
                            None => provider.get(&id).await,
                        }
                    },
                );
            }
            ProviderMsg::Delete(id, reply) => {
                self.call(
                    Operation::Delete,
                    Some(&id.clone()),
                    reply,
                    |provider| async move { provider.delete(&id).await },
                );
            }
            ProviderMsg::List(reply) => {
                self.call(Operation::List, None, reply, |provider| async move {
                    provider.list().await
                });
            }
            ProviderMsg::Check(within, reply) => self.check(within, reply),
        }
        Ok(())
    }
}
