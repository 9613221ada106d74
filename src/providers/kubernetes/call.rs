//! One call of the contract under way: the bound on its requests, and what its errors name.

use super::{REQUEST, classify, id::PodId};
use actors::provider::contract::{ErrorClass, Operation, ProviderError};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use std::{fmt::Display, future::Future, sync::Arc, time::Duration};

/// How often a denial is heard before it is believed.
const DENIALS: u32 = 4;
/// Between two of them. All together outlast the second that a small cluster's API server takes.
const PAUSE: Duration = Duration::from_secs(1);

/// One call of the contract under way: what its errors have to name.
pub(super) struct Call<'a> {
    pub provider: &'a str,
    pub operation: Operation,
    pub id: Option<String>,
}

impl Call<'_> {
    /// Asks the API server for one answer, and waits for [`REQUEST`] at most. A denial counts only
    /// when it is repeated: a starting API server denies everybody everything for a moment, until it
    /// has read its rules, and a denial is `Permanent`.
    pub async fn answer<T, F>(
        &self,
        mut ask: impl FnMut() -> F,
    ) -> Result<kube::Result<T>, ProviderError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let asking = async {
            for _ in 1..DENIALS {
                match ask().await {
                    Err(error) if classify::denies(&error) => tokio::time::sleep(PAUSE).await,
                    answer => return answer,
                }
            }
            ask().await
        };
        tokio::time::timeout(REQUEST, asking)
            .await
            .map_err(|_| self.timed_out(REQUEST))
    }

    /// The pod, or `None` when there is certainly none.
    pub async fn find(&self, pods: &Api<Pod>, id: &PodId) -> Result<Option<Pod>, ProviderError> {
        match self.answer(|| pods.get(&id.name)).await? {
            Ok(pod) => Ok(Some(pod)),
            Err(error) if classify::classify(&error) == ErrorClass::NotFound => Ok(None),
            Err(error) => Err(self.refused(error)),
        }
    }

    pub fn parse(&self, id: &str) -> Result<PodId, ProviderError> {
        id.parse::<PodId>()
            .map_err(|malformed| self.failed(ErrorClass::Permanent, malformed))
    }

    pub fn refused(&self, error: kube::Error) -> ProviderError {
        let failed = self.failed(classify::classify(&error), classify::message(&error));
        ProviderError {
            // Nobody watches the rights; whoever mends them touches no Proxy.
            heals: classify::denies(&error),
            source: Some(Arc::new(error)),
            ..failed
        }
    }

    pub fn timed_out(&self, after: Duration) -> ProviderError {
        let seconds = after.as_secs();
        let message = format!("no answer from the API server within {seconds} s");
        self.failed(ErrorClass::Transient, message)
    }

    pub fn failed(&self, class: ErrorClass, message: impl Display) -> ProviderError {
        ProviderError {
            class,
            operation: self.operation,
            provider: self.provider.to_owned(),
            id: self.id.clone(),
            heals: false,
            message: message.to_string(),
            source: None,
        }
    }
}
