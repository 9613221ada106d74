//! One call of the contract under way: what its errors name.

use super::{classify::Refusal, id::VmId};
use actors::provider::contract::{ErrorClass, Operation, ProviderError};
use std::{fmt::Display, time::Duration};
use tokio::time::timeout;

pub(super) struct Call<'a> {
    pub provider: &'a str,
    pub operation: Operation,
    pub id: Option<String>,
}

impl Call<'_> {
    /// All of the call, within the deadline that it is to keep.
    pub async fn within<T>(
        &self,
        deadline: Duration,
        work: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        let late = |_| Err(self.refused(Refusal::timeout(deadline)));
        timeout(deadline, work).await.unwrap_or_else(late)
    }

    pub fn parse(&self, id: &str) -> Result<VmId, ProviderError> {
        id.parse::<VmId>()
            .map_err(|malformed| self.failed(ErrorClass::Permanent, malformed))
    }

    /// The error that a refusal is. That something is missing, the project say, is never the answer that the
    /// VM is: whoever knows that says so.
    pub fn refused(&self, refusal: Refusal) -> ProviderError {
        let class = match refusal.class() {
            ErrorClass::NotFound => ErrorClass::Permanent,
            class => class,
        };
        let heals = class == ErrorClass::Permanent && refusal.heals();
        ProviderError {
            heals,
            ..self.failed(class, refusal.message)
        }
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
