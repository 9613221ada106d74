//! A provider whose calls are made only while this process may act.

use super::contract::{
    CreateRequest, Created, ErrorClass, Instance, Operation, Provider, ProviderError, TargetCheck,
};
use crate::{
    leader::standing::{NotLeader, Standing},
    system::ChildSpec,
};
use futures::future::BoxFuture;
use std::{future::pending, sync::Arc, time::Duration};

/// Passes calls on to `provider` as long as `standing` lets it; a call under way is dropped when the
/// tenure ends. What is refused is transient.
pub struct Fenced {
    provider: Arc<dyn Provider>,
    standing: Standing,
}

impl Fenced {
    /// `provider` behind a gate.
    #[must_use]
    pub fn new(provider: Arc<dyn Provider>, standing: Standing) -> Self {
        Self { provider, standing }
    }

    async fn pass<T>(
        &self,
        operation: Operation,
        id: Option<&str>,
        call: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        match self.standing.guard(call).await {
            Ok(answer) => answer,
            Err(NotLeader) => Err(ProviderError {
                class: ErrorClass::Transient,
                operation,
                provider: self.name().to_owned(),
                id: id.map(str::to_owned),
                heals: true,
                message: NotLeader.to_string(),
                source: Some(Arc::new(NotLeader)),
            }),
        }
    }
}

impl Provider for Fenced {
    fn name(&self) -> &str {
        self.provider.name()
    }

    fn kind(&self) -> &'static str {
        self.provider.kind()
    }

    fn deadline(&self, operation: Operation) -> Duration {
        self.provider.deadline(operation)
    }

    fn calls_at_once(&self) -> usize {
        self.provider.calls_at_once()
    }

    fn is_confined(&self) -> bool {
        self.provider.is_confined()
    }

    fn children(&self) -> Vec<ChildSpec> {
        self.provider.children()
    }

    fn create<'a>(
        &'a self,
        request: &'a CreateRequest,
    ) -> BoxFuture<'a, Result<Created, ProviderError>> {
        Box::pin(self.pass(Operation::Create, None, self.provider.create(request)))
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        Box::pin(self.pass(Operation::Get, Some(id), self.provider.get(id)))
    }

    fn follow<'a>(
        &'a self,
        id: &'a str,
        operation: &'a str,
    ) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        let call = self.provider.follow(id, operation);
        Box::pin(self.pass(Operation::Get, Some(id), call))
    }

    fn delete<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>> {
        Box::pin(self.pass(Operation::Delete, Some(id), self.provider.delete(id)))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ProviderError>> {
        Box::pin(self.pass(Operation::List, None, self.provider.list()))
    }

    /// Nothing is said of the targets by a process that must not look at them; to say that there are none
    /// would be something. Whoever asks gives up by itself.
    fn check(&self, within: Duration) -> BoxFuture<'_, Vec<TargetCheck>> {
        Box::pin(async move {
            let checks = self.standing.guard(self.provider.check(within)).await;
            match checks {
                Ok(checks) => checks,
                Err(NotLeader) => pending().await,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{fakes::FakeProvider, leader::standing::Office};
    use tokio::time::{Instant, timeout};

    #[tokio::test(start_paused = true)]
    async fn calls_pass_while_the_tenure_lasts_and_are_transient_failures_after() {
        let (office, second) = (Office::default(), Duration::from_secs(1));
        let fenced = Fenced::new(Arc::new(FakeProvider::default()), office.standing());
        let refused = |error: ProviderError| (error.class, error.operation, error.id);
        let id = || Some("x".to_owned());

        let error = fenced.delete("x").await.map_err(refused);
        assert_eq!(error, Err((ErrorClass::Transient, Operation::Delete, id())));
        office.leads(1, Some(Instant::now() + second));
        fenced.delete("x").await.expect("passes");
        tokio::time::sleep(second).await;
        let error = fenced.get("x").await.map_err(refused);
        assert_eq!(error, Err((ErrorClass::Transient, Operation::Get, id())));
        assert!(timeout(60 * second, fenced.check(second)).await.is_err());
        office.leads(2, Some(Instant::now() + second));
        assert_eq!(fenced.check(second).await, []);
    }
}
