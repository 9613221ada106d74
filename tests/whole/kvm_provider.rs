//! The kvm provider on a real libvirtd behind a real sshd.
//!
//! Every scenario has an installation id of its own, and with it its own domains, volumes and base
//! images, so that they may share a host.

mod backend;
mod bases;
mod checks;
mod cuts;
mod images;
mod lists;
mod refusals;
mod relay;
mod stand;
mod sweeps;

use crate::{
    conformance::{Row, rows},
    lab::hosts::Hosts,
};
use futures::future::BoxFuture;
use stand::Stand;

type Run = Box<dyn for<'a> Fn(&'a Stand<'a>) -> BoxFuture<'a, anyhow::Result<()>> + Send + Sync>;

/// One scenario; see [`scenarios`].
pub struct Scenario {
    /// What is shown.
    pub name: String,
    /// Whether it breaks its host.
    breaks: bool,
    run: Run,
}

impl Scenario {
    /// Runs it as an installation of its own.
    ///
    /// # Errors
    /// What was not as promised.
    pub async fn run(&self, hosts: &Hosts) -> anyhow::Result<()> {
        let [host, other] = hosts.shared().await?;
        if self.breaks {
            let own = hosts.own().await?;
            let stand = Stand::new(&own, host).await?;
            // What is left goes with the host.
            return (self.run)(&stand).await;
        }
        let stand = Stand::new(host, other).await?;
        let outcome = (self.run)(&stand).await;
        let ended = stand.end();
        outcome.and(ended)
    }
}

/// The rows of the conformance suite, and what is promised of this provider alone.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    // Where a delete returns only when all is gone, there is nothing to report after it.
    let is_possible = |row: &Row| row.name != "an_instance_being_deleted_is_still_reported";
    let conformance = rows().into_iter().filter(is_possible).map(|row| Scenario {
        name: format!("conformance::{}", row.name),
        breaks: false,
        run: Box::new(move |stand| Box::pin(async move { (row.run)(stand).await })),
    });
    macro_rules! scenarios {
        ($breaks:literal: $($module:ident::$name:ident),* $(,)?) => {
            [$(Scenario {
                name: stringify!($name).to_owned(),
                breaks: $breaks,
                run: Box::new(|stand| Box::pin($module::$name(stand))),
            }),*]
        };
    }
    let own = scenarios![false:
        cuts::a_cold_create_survives_every_cut,
        cuts::an_upload_cut_in_its_bytes_is_begun_anew,
        cuts::a_cut_while_connecting_heals,
        cuts::a_spoilt_base_is_fetched_anew,
        cuts::a_get_that_is_cut_is_never_stopped,
        cuts::a_delete_under_way_is_still_reported,
        images::however_it_is_served_it_arrives,
        images::faulty_servers_are_told_apart,
        images::a_silent_server_is_given_up,
        images::what_is_no_image_is_refused,
        bases::twenty_creates_share_one_download,
        refusals::impossible_orders_reach_no_host,
        refusals::a_host_that_lacks_something_is_told,
        refusals::what_is_not_ours_is_not_touched,
        lists::leftovers_are_listed,
        lists::a_host_that_is_gone_from_the_config,
        lists::a_host_that_is_down_is_named,
        lists::a_host_without_its_pool_hides_nothing,
        lists::what_nobody_recorded_is_found_on_another_host,
        lists::rotated_files_count_without_a_restart,
        checks::a_check_waits_for_no_transfer,
    ];
    let breaking = scenarios![true:
        cuts::an_upload_outlives_its_daemons,
        lists::a_domain_that_goes_meanwhile_is_left_out,
        bases::a_full_pool_is_told_and_heals,
        // Whoever tidies a pool every moment takes what others there are just about to use.
        bases::a_changed_entry_leaves_the_old_base_alone,
        sweeps::a_create_amid_a_sweep,
        sweeps::a_sweep_amid_a_create,
        sweeps::an_overlay_comes_too_late,
        refusals::missing_firmware_is_told,
        checks::every_check_has_its_reason,
        checks::a_host_that_is_cut_off_delays_no_other,
    ];
    // Among the conformance rows, and those that break something, are those that take longest.
    conformance.chain(breaking).chain(own).collect()
}
