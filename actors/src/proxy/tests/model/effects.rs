//! What an operation does to the world, and the answer to it.

use super::{Accepted, Operation_, Vm, World, hash};
use crate::{
    provider::contract::{Created, ErrorClass, InstanceState, Operation},
    proxy::{
        decide::Decision,
        memory::Event,
        next::Next,
        tests::machine::{error, got, not_found},
    },
};
use crds::{Proxy, names};

impl World {
    pub(super) fn takes_effect(&mut self, operation: &Operation_) -> Event {
        let next = match &operation.decision {
            Decision::WriteStatus(status) => {
                self.writes += 1;
                let status = status.clone();
                // Server-side apply without a version: it overwrites.
                self.change(|object| object.status = Some(*status));
                return Event::ApiAnswered;
            }
            Decision::Do(next) => next,
            Decision::SpareApi(_) => unreachable!("is no operation"),
        };
        let version = |object: &Proxy| object.metadata.resource_version.clone();
        let current = self
            .object
            .as_ref()
            .is_some_and(|o| version(o) == version(&operation.on));
        match next {
            Next::AddFinalizer | Next::ReleaseFinalizer | Next::WriteHash(_) if !current => {
                Event::ApiFailed
            }
            Next::AddFinalizer => {
                self.writes += 1;
                assert!(!operation.on.is_deleting());
                self.change(|o| o.metadata.finalizers = Some(vec![names::FINALIZER.into()]));
                Event::ApiAnswered
            }
            Next::ReleaseFinalizer => {
                let recorded = operation
                    .on
                    .status
                    .as_ref()
                    .and_then(|s| s.provider_id.as_ref());
                // What a cut-off create left is for the collection of orphans.
                assert!(self.vm.is_none() || recorded.is_none(), "leaks");
                self.change(|o| o.metadata.finalizers = None);
                Event::ApiAnswered
            }
            Next::WriteHash(hash) => {
                self.writes += 1;
                self.change(|o| {
                    let all = o.metadata.annotations.get_or_insert_default();
                    all.insert(names::SPEC_HASH.into(), hash.to_string());
                });
                Event::ApiAnswered
            }
            // It may have read the Secret at any time while it was under way.
            Next::Resolve => Event::Resolved(Ok(hash(&operation.on, operation.secret).into())),
            Next::Create(wanted) => {
                if hash(&operation.on, self.secret) != **wanted {
                    return Event::Outdated;
                }
                let held = self.object.as_ref().is_some_and(Proxy::has_finalizer);
                assert!(held, "created for an object that nobody holds");
                Event::Created(Ok(Created {
                    id: "x".into(),
                    operation: self.accepts(wanted, operation.after.as_deref()),
                    notes: vec![],
                }))
            }
            Next::Get(_) => {
                self.gets += 1;
                match &self.vm {
                    None if self.failed_late(operation.after.as_deref()) => {
                        Event::Got(Err(error(ErrorClass::QuotaExceeded, Operation::Create)))
                    }
                    None => not_found(),
                    Some(vm) => got(
                        vm.state,
                        (vm.state == InstanceState::Running).then_some("10.0.0.1"),
                    ),
                }
            }
            Next::Delete(_) => {
                if let Some(vm) = &mut self.vm {
                    vm.goes = true;
                }
                Event::Deleted(Ok(()))
            }
            Next::Abandon(_) | Next::Sleep(_) | Next::Rest => unreachable!("{next:?}"),
        }
    }

    /// A repeated request gets the first one's answer, whatever came of it; an instance that is there is
    /// adopted, and then nobody knows which operation made it.
    fn accepts(&mut self, wanted: &str, after: Option<&str>) -> Option<String> {
        let request = (wanted.to_owned(), after.map(str::to_owned));
        let known = self.accepted.iter().position(|a| a.request == request);
        if known.is_none() && self.vm.is_some() {
            return None;
        }
        let number = known.unwrap_or_else(|| {
            self.accepted.push(Accepted {
                request,
                failed: false,
            });
            self.vm = Some(Vm {
                built: wanted.to_owned(),
                state: InstanceState::Provisioning,
                goes: false,
            });
            self.accepted.len() - 1
        });
        Some(number.to_string())
    }

    fn failed_late(&self, operation: Option<&str>) -> bool {
        let number = operation.and_then(|name| name.parse::<usize>().ok());
        number.is_some_and(|number| self.accepted[number].failed)
    }
}
