//! What one set of providers has that another has not. Pure.

use crate::providers::ProviderSet;

/// The names of the providers that differ.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub added: Vec<String>,
    pub changed: Vec<String>,
    pub removed: Vec<String>,
}

impl Changes {
    pub fn between(old: &ProviderSet, new: &ProviderSet) -> Self {
        let mut changes = Self::default();
        for (name, entry) in new {
            match old.get(name) {
                None => changes.added.push(name.clone()),
                Some(before) if before.fingerprint != entry.fingerprint => {
                    changes.changed.push(name.clone());
                }
                Some(_) => {}
            }
        }
        let gone = old.keys().filter(|name| !new.contains_key(*name));
        changes.removed.extend(gone.cloned());
        changes
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::tests::set_of;

    #[test]
    fn what_differs_is_named() {
        let old = set_of(&[("changed", 1), ("gone", 1), ("kept", 1)]);
        let new = set_of(&[("changed", 2), ("kept", 1), ("new", 1)]);
        let expected = Changes {
            added: vec!["new".into()],
            changed: vec!["changed".into()],
            removed: vec!["gone".into()],
        };
        assert_eq!(Changes::between(&old, &new), expected);
        assert!(Changes::between(&old, &old).is_empty());
    }
}
