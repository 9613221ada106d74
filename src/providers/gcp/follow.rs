//! Reading a VM whose creation is on record: only when it is not there does the operation say why.

use super::{GcpProvider, call::Call, classify, id::VmId, state};
use actors::provider::contract::{ErrorClass, Instance, InstanceState, Operation, ProviderError};
use google_cloud_compute_v1::model::{self, operation::Status};

impl GcpProvider {
    pub(super) async fn read_vm(
        &self,
        call: Call<'_>,
        id: &str,
    ) -> Result<Instance, ProviderError> {
        let id = call.parse(id)?;
        match self.find(&call, &id).await? {
            Some(vm) => Ok(self.seen(&id, &vm)),
            None => Err(self.gone(&call, &id)),
        }
    }

    pub(super) async fn follow_vm(
        &self,
        call: Call<'_>,
        id: &str,
        operation: &str,
    ) -> Result<Instance, ProviderError> {
        let id = call.parse(id)?;
        if let Some(vm) = self.find(&call, &id).await? {
            return Ok(self.seen(&id, &vm));
        }
        // It becomes part of a URL. What Google never called so, it does not know either.
        if !is_operation(operation) {
            return Err(self.gone(&call, &id));
        }
        let operation = match self.api.operation(&id.zone, operation).await {
            Ok(operation) => operation,
            // Google forgets operations after some days.
            Err(refusal) if refusal.class() == ErrorClass::NotFound => {
                return Err(self.gone(&call, &id));
            }
            Err(refusal) => return Err(call.refused(refusal)),
        };
        if operation.status != Some(Status::Done) {
            return Ok(on_its_way(&id, &self.installation));
        }
        match classify::failure(&operation) {
            Some((class, words)) => {
                self.rule.seen(&id);
                Err(ProviderError {
                    operation: Operation::Create,
                    ..call.failed(class, words)
                })
            }
            None => Err(self.gone(&call, &id)),
        }
    }

    /// Google goes on showing RUNNING until it has taken up a deletion: one that we asked for is known here.
    fn seen(&self, id: &VmId, vm: &model::Instance) -> Instance {
        let mut instance = state::instance(id, vm, self.config.internal_ip);
        let deletion = self.deletions.of(id);
        let is_of_this = deletion.is_some_and(|deletion| Some(deletion.number) == vm.id);
        if is_of_this && instance.state == InstanceState::Running {
            instance.state = InstanceState::Stopped;
        }
        instance
    }

    fn gone(&self, call: &Call<'_>, id: &VmId) -> ProviderError {
        self.deletions.forget(id);
        self.rule.seen(id);
        call.failed(ErrorClass::NotFound, format!("there is no VM {id}"))
    }
}

/// The VM of a creation that has only just been accepted.
fn on_its_way(id: &VmId, installation: &str) -> Instance {
    Instance {
        id: id.to_string(),
        ip: None,
        state: InstanceState::Provisioning,
        uid: String::new(),
        installation: installation.to_owned(),
        created_at: 0,
        trouble: None,
    }
}

fn is_operation(name: &str) -> bool {
    let good = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_');
    (1..=128).contains(&name.len()) && name.bytes().all(good)
}
