//! Creating a VM: one request, which is never waited upon.
//!
//! Google answers with an operation. Repeated with the same request id, it answers with the same one, and
//! nothing is made twice. So an operation that is done already is an old answer, and what became of the VM
//! since is looked up: it may be there, have failed, or be gone again, which makes this another creation,
//! with another request id.

use super::{
    GcpProvider,
    call::Call,
    classify,
    delete::Earlier,
    id::VmId,
    order::{self, Order},
    request_id, state,
};
use actors::provider::contract::{CreateRequest, Created, ErrorClass, ProviderError};
use google_cloud_compute_v1::model::{Instance, Operation, operation::Status};

/// How many VMs of one creation may have come and gone within the hour for which Google remembers requests.
const OLD_ANSWERS: usize = 16;

impl GcpProvider {
    pub(super) async fn create_vm(
        &self,
        mut call: Call<'_>,
        request: &CreateRequest,
    ) -> Result<Created, ProviderError> {
        let Order { id, vm } = order::order(request, &self.config)
            .map_err(|fault| call.failed(ErrorClass::Permanent, fault))?;
        call.id = Some(id.to_string());
        self.not_going(&call, &id).await?;
        // In the same zone its name is taken, which Google says by itself.
        if request.elsewhere
            && let Some(there) = self.elsewhere(&call, &request.uid).await?
            && there.id != id.to_string()
        {
            return Ok(Created {
                id: there.id,
                operation: None,
                notes: Vec::new(),
            });
        }
        let _door = self.open_port(&call, request.port).await?;
        let mut after = request.after.clone();
        for _ in 0..OLD_ANSWERS {
            let request_id =
                request_id::of_creation(&request.uid, &request.spec_hash, after.as_deref());
            let user_data = request.user_data.as_ref();
            let insert = self.api.insert(&id.zone, vm.clone(), request_id, user_data);
            let operation = match Box::pin(insert).await {
                Ok(operation) => operation,
                Err(refusal) if refusal.says_taken() => {
                    return match self.find(&call, &id).await? {
                        Some(vm) => adopt(&call, &id, &vm, request, None),
                        None => Err(call.failed(ErrorClass::Transient, "the VM has just gone")),
                    };
                }
                Err(refusal) => return Err(call.refused(refusal)),
            };
            // How it failed is told to who follows it.
            if !is_done(&operation) || classify::failure(&operation).is_some() {
                if self.config.manage_firewall {
                    self.rule.expect(&id);
                }
                return Ok(created(&id, operation.name));
            }
            match self.find(&call, &id).await? {
                Some(vm) => return adopt(&call, &id, &vm, request, operation.name),
                None => after = operation.name,
            }
        }
        let message = format!("{OLD_ANSWERS} VMs of this creation have gone already");
        Err(call.failed(ErrorClass::Transient, message))
    }

    /// The VM, or `None` when there is certainly none.
    pub(super) async fn find(
        &self,
        call: &Call<'_>,
        id: &VmId,
    ) -> Result<Option<Instance>, ProviderError> {
        match self.api.get(id).await {
            Ok(vm) => {
                self.rule.seen(id);
                Ok(Some(vm))
            }
            Err(refusal) if refusal.says_absent(&id.name) => Ok(None),
            Err(refusal) => Err(call.refused(refusal)),
        }
    }

    /// Google would answer to a creation whose VM is being deleted that it has made it.
    async fn not_going(&self, call: &Call<'_>, id: &VmId) -> Result<(), ProviderError> {
        if self.deletions.of(id).is_none() {
            return Ok(());
        }
        let Some(vm) = self.find(call, id).await? else {
            self.deletions.forget(id);
            return Ok(());
        };
        match self.earlier(call, id, vm.id.unwrap_or_default()).await? {
            Earlier::UnderWay => Err(still_going(call)),
            // It failed, or was another VM's: this one stays.
            Earlier::None(_) => Ok(()),
        }
    }
}

fn still_going(call: &Call<'_>) -> ProviderError {
    let id = call.id.as_deref().unwrap_or_default();
    let message = format!("VM {id} of this proxy is still being deleted");
    call.failed(ErrorClass::Transient, message)
}

fn is_done(operation: &Operation) -> bool {
    operation.status == Some(Status::Done)
}

/// Takes over the VM that has the name already, if it is this proxy's.
fn adopt(
    call: &Call<'_>,
    id: &VmId,
    vm: &Instance,
    request: &CreateRequest,
    operation: Option<String>,
) -> Result<Created, ProviderError> {
    let there = state::instance(id, vm, false);
    if (&there.uid, &there.installation) != (&request.uid, &request.installation) {
        return Err(call.failed(
            ErrorClass::AdoptionConflict,
            format!(
                "VM {id} exists and belongs to uid {:?} of installation {:?}",
                there.uid, there.installation
            ),
        ));
    }
    if state::is_stopping(vm) {
        return Err(still_going(call));
    }
    Ok(created(id, operation))
}

fn created(id: &VmId, operation: Option<String>) -> Created {
    Created {
        id: id.to_string(),
        operation,
        notes: Vec::new(),
    }
}
