//! The firewall rule of a provider: it is made with the first VM, opens further ports as they come into use,
//! and goes with the last VM.
//!
//! Nothing is asked of Google while a port is known to be open, which is believed for [`BELIEF`]. Making a VM
//! holds the rule in place; taking the rule away waits for those VMs and looks for others. So a VM is made
//! either before that look, and seen, or after it, and makes the rule anew.

mod rule;

pub use rule::name_fits;

use super::{
    GcpProvider, call::Call, classify::Refusal, id::VmId, list::filter, request_id, state,
};
use actors::provider::contract::{ErrorClass, ProviderError};
use google_cloud_compute_v1::model::{Firewall, Instance, operation::Status};
use rule::{Step, Wanted};
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    sync::{OwnedRwLockReadGuard, RwLock},
    time::{Instant, sleep},
};

/// How long a port is believed to be open without a look: somebody may delete the rule by hand.
const BELIEF: Duration = Duration::from_mins(10);
/// Between two looks at a removal that goes on.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a removal may go on of which nothing was heard.
const REMOVAL: Duration = Duration::from_mins(1);
/// How long a VM may take to show up.
const ARRIVAL: Duration = Duration::from_mins(10);

/// What is known of the rule. Held for reading while a VM is made.
#[derive(Default)]
pub(super) struct Rule {
    known: Arc<RwLock<Known>>,
    /// How many VMs were told to go.
    gone: AtomicU64,
    /// VMs that Google agreed to make and nobody has seen yet: lists may not show them.
    unseen: Mutex<HashMap<VmId, Instant>>,
}

#[derive(Default)]
pub(super) struct Known {
    open: BTreeSet<u16>,
    since: Option<Instant>,
    removal: Option<Removal>,
    /// Up to which of [`Rule::gone`] it was looked whether that was the last VM.
    looked: u64,
}

/// The rule is on its way out.
struct Removal {
    begun: Instant,
    operation: Option<String>,
}

/// Keeps the rule in place.
pub(super) type Door = OwnedRwLockReadGuard<Known>;

impl Rule {
    /// Google agreed to make this VM.
    pub(super) fn expect(&self, id: &VmId) {
        let mut unseen = self.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        unseen.insert(id.clone(), Instant::now());
    }

    /// This VM has shown up, or never will.
    pub(super) fn seen(&self, id: &VmId) {
        let mut unseen = self.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        unseen.remove(id);
    }

    /// Whether a VM may show up any moment.
    fn expects(&self) -> bool {
        let mut unseen = self.unseen.lock().unwrap_or_else(PoisonError::into_inner);
        unseen.retain(|_, since| since.elapsed() < ARRIVAL);
        !unseen.is_empty()
    }
}

impl Known {
    fn knows(&self, port: u16) -> bool {
        let fresh = self.since.is_some_and(|since| since.elapsed() < BELIEF);
        fresh && self.open.contains(&port)
    }
}

impl GcpProvider {
    /// Opens `port`, if that is for us to do, for as long as what it returns is held at least.
    pub(super) async fn open_port(
        &self,
        call: &Call<'_>,
        port: u16,
    ) -> Result<Option<Door>, ProviderError> {
        if !self.config.manage_firewall {
            return Ok(None);
        }
        let door = Arc::clone(&self.rule.known).read_owned().await;
        if door.knows(port) {
            return Ok(Some(door));
        }
        drop(door);
        let mut known = Arc::clone(&self.rule.known).write_owned().await;
        if !known.knows(port) {
            self.removed(call, &mut known).await?;
            self.let_in(call, port).await?;
            if known.since.is_none_or(|since| since.elapsed() >= BELIEF) {
                known.open.clear();
                known.since = Some(Instant::now());
            }
            known.open.insert(port);
        }
        Ok(Some(known.downgrade()))
    }

    async fn let_in(&self, call: &Call<'_>, port: u16) -> Result<(), ProviderError> {
        let there = self.rule_there(call).await?;
        let wanted = self.wanted_rule();
        let name = wanted.name();
        let change = match wanted.step(there.as_ref(), port) {
            Step::Nothing => return Ok(()),
            Step::Refused(why) => return Err(call.failed(ErrorClass::Permanent, why)),
            Step::Insert(rule) => {
                let id = request_id::once();
                self.api.insert_firewall(rule, id).await
            }
            Step::Patch(rule) => {
                let id = request_id::once();
                self.api.patch_firewall(&name, rule, id).await
            }
        };
        change.map(drop).map_err(|refusal| {
            let error = call.refused(refusal);
            let message = format!("firewall rule {name:?}: {}", error.message);
            ProviderError { message, ..error }
        })
    }

    /// Takes the rule away if no VM needs it any more. Those that are told to go meanwhile are looked at
    /// together, by one of those who told them.
    pub(super) async fn close_ports(&self, call: &Call<'_>) -> Result<(), ProviderError> {
        if !self.config.manage_firewall {
            return Ok(());
        }
        self.rule.gone.fetch_add(1, SeqCst);
        self.close_ports_owed(call).await
    }

    /// As [`Self::close_ports`], where that did not come to its end.
    pub(super) async fn close_ports_owed(&self, call: &Call<'_>) -> Result<(), ProviderError> {
        let mine = self.rule.gone.load(SeqCst);
        let mut known = self.rule.known.write().await;
        if known.looked >= mine {
            return Ok(());
        }
        let told = self.rule.gone.load(SeqCst);
        if !self.is_needed(call).await? {
            self.remove(call, &mut known).await?;
        }
        known.looked = told;
        Ok(())
    }

    /// Whether a VM of ours is there to stay, or may be.
    async fn is_needed(&self, call: &Call<'_>) -> Result<bool, ProviderError> {
        if self.rule.expects() {
            return Ok(true);
        }
        let filter = filter(&self.installation)
            .map_err(|fault| call.failed(ErrorClass::Permanent, fault))?;
        let mut token = String::new();
        loop {
            let page = self.page(&filter, super::list::PAGE, &token).await;
            let page = page.map_err(|refusal| call.refused(refusal))?;
            let mut zones = page.items.iter();
            let stays = zones.any(|(scope, zone)| {
                super::list::is_unreachable(zone)
                    || zone.instances.iter().any(|vm| self.stays(scope, vm))
            });
            if stays || !page.unreachables.is_empty() {
                return Ok(true);
            }
            match page.next_page_token {
                Some(next) if !next.is_empty() && next != token => token = next,
                _ => return Ok(false),
            }
        }
    }

    fn stays(&self, scope: &str, vm: &Instance) -> bool {
        let id = format!("{scope}/instances/{}", vm.name.as_deref().unwrap_or(""));
        let going = id.parse().is_ok_and(|id| self.deletions.of(&id).is_some());
        // A stopped one may be started, by us never.
        !going && !state::is_stopping(vm)
    }

    async fn remove(&self, call: &Call<'_>, known: &mut Known) -> Result<(), ProviderError> {
        let Some(rule) = self.rule_there(call).await? else {
            return Ok(());
        };
        let wanted = self.wanted_rule();
        if !wanted.is_ours(&rule) {
            return Ok(());
        }
        // Before it is asked for: whoever is cut off here does not know what became of it.
        (known.open, known.since) = (BTreeSet::new(), None);
        known.removal = Some(Removal {
            begun: Instant::now(),
            operation: None,
        });
        match self.api.delete_firewall(&wanted.name()).await {
            Ok(operation) => {
                if let Some(removal) = &mut known.removal {
                    removal.operation = operation.name;
                }
                Ok(())
            }
            Err(refusal) if refusal.class() == ErrorClass::NotFound => {
                known.removal = None;
                Ok(())
            }
            Err(refusal) => Err(call.refused(refusal)),
        }
    }

    /// Waits until a rule that is on its way out has gone: it would be found, and nobody let in by it.
    async fn removed(&self, call: &Call<'_>, known: &mut Known) -> Result<(), ProviderError> {
        while let Some(removal) = &known.removal {
            let over = match &removal.operation {
                None => self.rule_there(call).await?.is_none(),
                Some(name) => match self.api.global_operation(name).await {
                    Ok(operation) => operation.status == Some(Status::Done),
                    Err(refusal) if refusal.class() == ErrorClass::NotFound => true,
                    Err(refusal) => return Err(call.refused(refusal)),
                },
            };
            if over || removal.begun.elapsed() >= REMOVAL {
                known.removal = None;
            } else {
                sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    async fn rule_there(&self, call: &Call<'_>) -> Result<Option<Firewall>, ProviderError> {
        let absent = |refusal: &Refusal| {
            refusal.class() == ErrorClass::NotFound && !refusal.is_about_project()
        };
        match self.api.firewall(&self.wanted_rule().name()).await {
            Ok(rule) => Ok(Some(rule)),
            Err(refusal) if absent(&refusal) => Ok(None),
            Err(refusal) => Err(call.refused(refusal)),
        }
    }

    fn wanted_rule(&self) -> Wanted<'_> {
        Wanted {
            provider: &self.name,
            installation: &self.installation,
            config: &self.config,
        }
    }
}
