//! The `gcp` backend: a proxy is a VM of Compute Engine.
//!
//! Talks to: Google, through its own client, and only about VMs and one firewall rule. Called by the
//! provider actor.
//!
//! | file | is |
//! |---|---|
//! | here | the provider |
//! | [`config`], [`names`] | what the providers file may say |
//! | [`credentials`] | who we are for Google, read anew as it changes |
//! | `api`, `rest` | the requests |
//! | [`classify`] | what their failures mean |
//! | [`wire`], [`secrecy`] | what of them is shown, and what never is |
//! | `order`, `create`, `follow`, `delete`, `list`, `check` | the calls |
//! | [`id`], [`state`], [`request_id`] | keys, what a VM is in neutral words, what makes repeated requests one |
//! | [`deletions`] | which VMs are on their way out |
//! | [`firewall`] | the rule that opens the ports in use |
//!
//! Guarantees:
//! - every request is bounded and made once, whatever Google's client would do;
//! - of one creation there is one VM: its request id is computed from what it is the creation of, so that it
//!   is the same after a crash;
//! - no VM is touched that does not carry the marks of this installation.

pub mod classify;
pub mod config;
pub mod credentials;
pub mod deletions;
pub mod firewall;
pub mod id;
pub mod names;
pub mod request_id;
pub mod secrecy;
pub mod state;
pub mod wire;

mod api;
mod call;
mod check;
mod create;
mod delete;
mod follow;
mod list;
mod order;
mod rest;

use actors::provider::contract::{
    CreateRequest, Created, Instance, Operation, Provider, ProviderError, TargetCheck,
};
use api::{Api, REQUEST};
use call::Call;
use config::GcpConfig;
use credentials::Adc;
use deletions::Deletions;
use futures::future::BoxFuture;
use std::time::Duration;
use wire::Wire;

/// How long a list may take, all its pages together.
const LIST: Duration = Duration::from_mins(1);

/// What every provider of this type is made with, beside its block in the file.
pub struct Surroundings {
    /// The id of this installation of the operator.
    pub installation: String,
    /// Who we are for Google.
    pub credentials: Adc,
    /// What is shown of requests and answers.
    pub wire: Wire,
}

/// One configured provider of type `gcp`.
pub struct GcpProvider {
    name: String,
    config: GcpConfig,
    installation: String,
    api: Api,
    deletions: Deletions,
    rule: firewall::Rule,
}

impl GcpProvider {
    /// A provider called `name`. Sends nothing yet.
    #[must_use]
    pub fn new(name: String, config: GcpConfig, around: &Surroundings) -> Self {
        Self {
            name,
            api: Api::new(&config, around.credentials.clone(), around.wire),
            config,
            installation: around.installation.clone(),
            deletions: Deletions::default(),
            rule: firewall::Rule::default(),
        }
    }

    fn call(&self, operation: Operation, id: Option<&str>) -> Call<'_> {
        Call {
            provider: &self.name,
            operation,
            id: id.map(str::to_owned),
        }
    }

    /// A call within its deadline.
    fn bounded<'a, T: 'a>(
        &'a self,
        operation: Operation,
        work: impl Future<Output = Result<T, ProviderError>> + Send + 'a,
        id: Option<&'a str>,
    ) -> BoxFuture<'a, Result<T, ProviderError>> {
        Box::pin(async move {
            let call = self.call(operation, id);
            call.within(self.deadline(operation), work).await
        })
    }
}

impl Provider for GcpProvider {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "gcp"
    }

    fn deadline(&self, operation: Operation) -> Duration {
        match operation {
            Operation::Create | Operation::Delete => 4 * REQUEST,
            Operation::Get => 2 * REQUEST,
            Operation::Check => REQUEST,
            Operation::List => LIST,
        }
    }

    fn create<'a>(
        &'a self,
        request: &'a CreateRequest,
    ) -> BoxFuture<'a, Result<Created, ProviderError>> {
        let call = self.call(Operation::Create, None);
        self.bounded(Operation::Create, self.create_vm(call, request), None)
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        let call = self.call(Operation::Get, Some(id));
        self.bounded(Operation::Get, self.read_vm(call, id), Some(id))
    }

    fn follow<'a>(
        &'a self,
        id: &'a str,
        operation: &'a str,
    ) -> BoxFuture<'a, Result<Instance, ProviderError>> {
        let call = self.call(Operation::Get, Some(id));
        let work = self.follow_vm(call, id, operation);
        self.bounded(Operation::Get, work, Some(id))
    }

    fn delete<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), ProviderError>> {
        let call = self.call(Operation::Delete, Some(id));
        self.bounded(Operation::Delete, self.delete_vm(call, id), Some(id))
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Instance>, ProviderError>> {
        let call = self.call(Operation::List, None);
        self.bounded(Operation::List, self.list_vms(call), None)
    }

    fn check(&self, within: Duration) -> BoxFuture<'_, Vec<TargetCheck>> {
        // Its answer has to come before the asker gives up.
        let within = REQUEST.min(within * 9 / 10);
        Box::pin(async move { vec![self.check_project(within).await] })
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
