//! Which VMs are being deleted, as far as this process knows: so that nothing is deleted twice, nor made
//! while its name is still taken.

use super::id::VmId;
use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
};
use tokio::time::Instant;

/// A deletion that Google accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Google's number of the VM, which tells it from others of its name.
    pub number: u64,
    /// What Google calls the deletion.
    pub operation: String,
    /// When it was accepted.
    pub since: Instant,
}

/// Those whose end nobody has seen yet. No more than VMs are being deleted.
#[derive(Default)]
pub struct Deletions(Mutex<HashMap<VmId, Deletion>>);

impl Deletions {
    /// The deletion of the VM that has this id.
    #[must_use]
    pub fn of(&self, id: &VmId) -> Option<Deletion> {
        self.with(|known| known.get(id).cloned())
    }

    /// Takes note of one.
    pub fn note(&self, id: VmId, deletion: Deletion) {
        self.with(|known| known.insert(id, deletion));
    }

    /// These are all the VMs that were there at that time, or since: the end of the others was not seen.
    pub fn keep(&self, there: &HashSet<String>, at: Instant) {
        self.with(|known| {
            known.retain(|id, deletion| deletion.since >= at || there.contains(&id.to_string()));
        });
    }

    /// The VM is gone.
    pub fn forget(&self, id: &VmId) {
        self.with(|known| known.remove(id));
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<VmId, Deletion>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn what_a_list_does_not_show_is_forgotten_unless_it_began_before() {
        let id = |name: &str| VmId {
            zone: "z".to_owned(),
            name: name.to_owned(),
        };
        let deletion = || Deletion {
            number: 1,
            operation: "operation-1".to_owned(),
            since: Instant::now(),
        };
        let deletions = Deletions::default();
        deletions.note(id("gone"), deletion());
        deletions.note(id("going"), deletion());
        tokio::time::advance(Duration::from_secs(1)).await;
        let listed = Instant::now();
        deletions.note(id("later"), deletion());
        deletions.keep(&HashSet::from([id("going").to_string()]), listed);
        assert_eq!(deletions.of(&id("gone")), None);
        for kept in ["going", "later"] {
            assert!(deletions.of(&id(kept)).is_some(), "{kept}");
        }
    }
}
