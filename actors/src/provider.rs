//! A provider: one actor between the proxies and one backend.
//!
//! Talks to: every proxy of this provider (asks create, get, delete) and the backend through
//! [`contract::Provider`].
//!
//! Guarantees: at most [`IN_FLIGHT`] calls are under way and [`QUEUE`] wait, what is beyond is refused
//! as transient at once; each call is bounded by its deadline whatever the backend does; calls that
//! nobody waits for any more are not begun.

pub mod contract;
#[cfg(test)]
pub(crate) mod tests;

use crate::{
    metrics::Metrics,
    system::{Actor, Broken, Context, Reply},
};
use contract::{
    CreateRequest, Created, ErrorClass, Instance, Operation, Provider, ProviderError, ProviderId,
};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task::JoinSet, time::Instant};

/// Calls under way at once.
const IN_FLIGHT: usize = 32;
/// Calls under way and waiting: a proxy has at most one, so a large fleet that starts anew fits.
const QUEUE: usize = 16_384;
/// How much longer than the call itself an asker waits in the queue.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// What a provider understands.
#[derive(strum::IntoStaticStr)]
pub enum ProviderMsg {
    /// Make or adopt an instance.
    Create(Box<CreateRequest>, Reply<Result<Created, ProviderError>>),
    /// Look at an instance.
    Get(ProviderId, Reply<Result<Instance, ProviderError>>),
    /// Delete an instance.
    Delete(ProviderId, Reply<Result<(), ProviderError>>),
}

/// The actor.
pub struct ProviderActor {
    provider: Arc<dyn Provider>,
    metrics: Metrics,
    slots: Arc<Semaphore>,
    calls: JoinSet<()>,
}

impl ProviderActor {
    /// An actor for `provider`.
    #[must_use]
    pub fn new(provider: Arc<dyn Provider>, metrics: Metrics) -> Self {
        Self {
            provider,
            metrics,
            slots: Arc::new(Semaphore::new(IN_FLIGHT)),
            calls: JoinSet::new(),
        }
    }

    fn call<T, F>(
        &mut self,
        operation: Operation,
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
        self.calls.spawn(async move {
            let Ok(_slot) = slots.acquire().await else {
                return;
            };
            if reply.is_closed() {
                return;
            }
            let begun = Instant::now();
            let answer = tokio::time::timeout(deadline, call)
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
            reply.send(answer).ok();
        });
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
        message,
        source: None,
    }
}

impl Actor for ProviderActor {
    type Msg = ProviderMsg;
    const KIND: &'static str = "provider";

    fn handle(&mut self, message: ProviderMsg, _: &mut Context<ProviderMsg>) -> Result<(), Broken> {
        while self.calls.try_join_next().is_some() {}
        match message {
            ProviderMsg::Create(request, reply) => {
                self.call(Operation::Create, reply, |provider| async move {
                    provider.create(&request).await
                });
            }
            ProviderMsg::Get(id, reply) => {
                self.call(Operation::Get, reply, |provider| async move {
                    provider.get(&id).await
                });
            }
            ProviderMsg::Delete(id, reply) => {
                self.call(Operation::Delete, reply, |provider| async move {
                    provider.delete(&id).await
                });
            }
        }
        Ok(())
    }
}
