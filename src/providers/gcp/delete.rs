//! Deleting a VM: looked at first, submitted once, never waited upon.

use super::{GcpProvider, call::Call, classify, deletions::Deletion, id::VmId, request_id, state};
use actors::provider::contract::{ErrorClass, ProviderError};
use google_cloud_compute_v1::model::{Instance, operation::Status};
use tokio::time::Instant;

/// How an earlier deletion of the same VM goes.
pub(super) enum Earlier {
    /// It goes on.
    UnderWay,
    /// There is none, or the one with this name came to nothing.
    None(Option<String>),
}

impl GcpProvider {
    pub(super) async fn delete_vm(&self, call: Call<'_>, id: &str) -> Result<(), ProviderError> {
        let id = call.parse(id)?;
        let Some(vm) = self.find(&call, &id).await? else {
            self.deletions.forget(&id);
            return self.close_ports(&call).await;
        };
        if !state::is_of(&vm, &self.installation) {
            return Err(self.not_ours(&call, &id, &vm));
        }
        let number = vm.id.unwrap_or_default();
        let Earlier::None(failed) = self.earlier(&call, &id, number).await? else {
            return self.close_ports_owed(&call).await;
        };
        // Without memory of it, as after a restart, the request id finds a deletion that is under way.
        let request_id = request_id::of_deletion(number, failed.as_deref());
        match self.api.delete(&id, request_id).await {
            Ok(operation) => {
                let operation = operation.name.unwrap_or_default();
                let deletion = Deletion {
                    number,
                    operation,
                    since: Instant::now(),
                };
                self.deletions.note(id, deletion);
            }
            Err(refusal) if refusal.says_absent(&id.name) => self.deletions.forget(&id),
            Err(refusal) => return Err(call.refused(refusal)),
        }
        self.close_ports(&call).await
    }

    pub(super) async fn earlier(
        &self,
        call: &Call<'_>,
        id: &VmId,
        number: u64,
    ) -> Result<Earlier, ProviderError> {
        let deletion = match self.deletions.of(id) {
            Some(deletion) if deletion.number == number => deletion,
            _ => return Ok(Earlier::None(None)),
        };
        match self.api.operation(&id.zone, &deletion.operation).await {
            Ok(operation) if operation.status != Some(Status::Done) => Ok(Earlier::UnderWay),
            // The VM was there a moment ago, and has just gone.
            Ok(operation) if classify::failure(&operation).is_none() => Ok(Earlier::UnderWay),
            Ok(_) => Ok(Earlier::None(Some(deletion.operation))),
            Err(refusal) if refusal.class() == ErrorClass::NotFound => {
                Ok(Earlier::None(Some(deletion.operation)))
            }
            Err(refusal) => Err(call.refused(refusal)),
        }
    }

    /// Marks may be mended by hand, which nobody hears of.
    fn not_ours(&self, call: &Call<'_>, id: &VmId, vm: &Instance) -> ProviderError {
        let there = state::instance(id, vm, false);
        let message = format!(
            "VM {id} does not carry the marks of installation {:?} (uid {:?}, installation {:?}), so it is not deleted",
            self.installation, there.uid, there.installation
        );
        ProviderError {
            heals: true,
            ..call.failed(ErrorClass::AdoptionConflict, message)
        }
    }
}
