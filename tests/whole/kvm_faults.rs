//! What goes wrong with VMs: the way to a host, the host's daemons, its pool, and the operator itself
//! break at every step of a VM's life. Afterwards each live Proxy has exactly one domain with its two
//! volumes, a deleted one has none, and meanwhile `Synced` said what was wrong.
//!
//! | file | is |
//! |---|---|
//! | [`table`] | every fault at every step |
//! | [`deaths`] | the operator is killed at every call that it makes |
//! | [`away`] | a host is away for long, the others go on |
//! | [`meddling`] | domains, volumes, keys are changed behind the operator's back |
//! | [`orphans`] | Proxies are gone and their VMs are not |
//! | [`stand`] | an operator, its hosts and Proxies, and what there should be in the end |
//! | [`step`], [`wire`] | the steps, and what stops calls at them |

mod away;
mod deaths;
mod meddling;
mod orphans;
mod stand;
mod step;
mod table;
mod wire;

pub use away::{a_frozen_libvirtd_is_noticed, a_host_that_is_away_delays_nobody};
pub use deaths::killed_at_every_call;
pub use meddling::{a_refused_key_is_tried_again, what_happens_behind_its_back_is_mended};
pub use orphans::what_no_proxy_accounts_for_is_collected;
pub use table::{a_cut_host, a_full_pool, a_killed_libvirtd, a_killed_operator, a_killed_sshd};
