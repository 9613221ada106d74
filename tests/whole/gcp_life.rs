//! Proxies that are VMs of Compute Engine, from `apply` to nothing: the operator as users run it, and the
//! stand-in for Google with real Squids behind the addresses of its instances.
//!
//! | file | is |
//! |---|---|
//! | [`google`] | a stand-in, and an operator that uses it |
//! | [`lives`] | whole lives |
//! | [`late`] | creations that fail after they were accepted |
//! | [`crashes`] | the operator dies around a creation |
//! | [`keys`] | credentials that change, or are not there |
//! | [`secrets`] | what no log tells |
//! | [`orphans`] | what no Proxy accounts for |

mod crashes;
mod google;
mod keys;
mod late;
mod lives;
mod orphans;
mod secrets;

pub use crashes::{
    killed_before_a_failure_is_recorded, killed_before_the_answer, killed_before_the_record,
    killed_when_it_is_recorded,
};
pub use keys::{a_missing_file_is_told_once_and_waited_for, a_rotated_key_needs_no_restart};
pub use late::{a_creation_that_fails_late_is_told, a_late_failure_survives_a_death};
pub use lives::{a_vm_lives_and_goes, a_vm_lives_by_the_metadata_server};
pub use orphans::what_is_not_ours_stays;
pub use secrets::{
    no_secret_is_logged_of_a_machine, no_secret_is_logged_of_a_person,
    no_secret_is_logged_of_an_account,
};
