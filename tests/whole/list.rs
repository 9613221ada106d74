//! The list of all scenarios.

use super::{
    api, cli, crds, faults, guards, health, kubernetes_provider, leases, lifecycle, ops, probe,
    user_data,
};
use crate::lab::{
    Scene, Stage, proxy,
    squid::{self, Squid},
};
use ::crds::Phase;
use anyhow::Error;
use libtest_mimic::Trial;

macro_rules! scenarios {
    ($stage:ident.$kind:ident: $($module:ident::$name:ident),* $(,)?) => {
        [$($stage.$kind(concat!(stringify!($module), "::", stringify!($name)), $module::$name)),*]
    };
}

/// Those that run side by side.
pub fn together(stage: &Stage) -> Vec<Trial> {
    let mut trials = Vec::new();
    // The longest come first, so that nobody waits for them at the end.
    trials.extend(scenarios![stage.trial:
        faults::killed_at_every_write,
        faults::a_hung_call_delays_one_object,
    ]);
    trials.extend(scenarios![stage.scene:
        lifecycle::drift_is_noticed,
        faults::killed_after_every_write,
        faults::killed_amid_a_crowd,
        faults::black_holes_delay_nobody,
    ]);
    for (name, run) in cli::SCENARIOS {
        trials.push(stage.bare(name, move || async move {
            tokio::task::spawn_blocking(run).await?
        }));
    }
    trials.extend(scenarios![stage.bare:
        probe::a_page_comes_through_the_proxy,
        probe::a_proxy_is_reached_by_address_and_by_name,
        probe::a_proxy_that_wants_credentials_is_told_apart,
        probe::a_refused_tunnel_is_told_with_its_status,
        probe::a_wrong_certificate_is_a_tls_failure,
        probe::the_status_of_the_target_is_compared,
        probe::a_body_is_read_but_not_all_of_it,
        probe::a_slow_target_is_measured_or_times_out,
        probe::a_frozen_and_a_dead_proxy_are_told_apart,
    ]);
    trials.extend(scenarios![stage.scene:
        lifecycle::a_managed_proxy_lives_and_goes,
        lifecycle::an_external_proxy_lives_and_goes,
        lifecycle::ten_at_once,
        lifecycle::the_finalizer_comes_before_the_pod,
        lifecycle::only_what_it_is_made_of_replaces_it,
        lifecycle::only_transitions_are_written,
        lifecycle::what_happened_meanwhile_is_mended,
        user_data::user_data_that_appears_later_is_waited_for,
        user_data::a_changed_secret_replaces,
        user_data::suspicious_user_data_is_told,
        user_data::no_secret_is_told,
        guards::a_full_quota_heals,
        guards::a_permanent_error_is_latched,
        guards::a_foreign_pod_is_left_alone,
        guards::an_unknown_provider_is_named,
        guards::cleanup_can_be_skipped,
        guards::a_foreign_finalizer_is_left_alone,
        guards::a_namespace_goes_with_its_proxies,
        health::a_verdict_follows_the_judge,
        health::the_first_probe_decides,
        health::failures_are_told_apart,
        health::an_endpoint_may_be_a_name_or_ipv6,
        health::a_silent_proxy_delays_no_other,
        health::a_restart_keeps_verdicts,
        leases::capacity_is_never_exceeded,
        leases::a_lease_ends_by_itself,
        leases::a_selector_is_obeyed,
        leases::a_token_is_asked_for_and_rotated,
        leases::a_deleted_proxy_is_in_no_answer,
        ops::metrics_tell_what_happened,
        ops::it_says_how_it_is,
        ops::logs_are_json_lines,
        ops::sigterm_ends_it_in_the_middle_of_work,
    ]);
    trials.extend(definitions(stage));
    for scenario in kubernetes_provider::scenarios() {
        let name = format!("kubernetes_provider::{}", scenario.name);
        trials.push(stage.trial(&name, |lab| async move {
            scenario.run(&lab.cluster.kubeconfig).await
        }));
    }
    trials.extend([None, Some("a-token")].map(|token| {
        let with = if token.is_some() { "with" } else { "without" };
        let name = format!("api::keeps_its_contract_{with}_a_token");
        stage.scene(&name, move |scene| fuzzed(scene, token))
    }));
    trials
}

async fn fuzzed(scene: Scene, token: Option<&'static str>) -> anyhow::Result<()> {
    let squid = Squid::start(squid::Options::default()).await?;
    let mut operator = scene.operator();
    if let Some(token) = token {
        operator = operator.env("DISCOVERY_TOKEN", token);
    }
    let operator = operator.start().await?;
    for name in ["a", "b"] {
        let proxy = scene.apply(proxy(name).through(&squid)).await?;
        proxy.becomes(Phase::Ready).await?;
    }
    let url = format!("http://{}", operator.api);
    tokio::task::spawn_blocking(move || api::keeps_its_contract(&url, token))
        .await?
        .map_err(Error::msg)
}

/// Those that need the cluster to themselves.
pub fn alone(stage: &Stage) -> Vec<Trial> {
    Vec::from(scenarios![stage.scene:
        guards::an_unreadable_object_stands_in_nobodys_way,
        faults::a_frozen_api_server,
        faults::a_restarted_api_server,
        faults::a_cut_network,
        faults::a_frozen_etcd,
        faults::a_frozen_kubelet,
    ])
}

fn definitions(stage: &Stage) -> Vec<Trial> {
    macro_rules! in_namespace {
        ($($name:ident),* $(,)?) => {
            [$(stage.scene(concat!("crds::", stringify!($name)), |scene| async move {
                let client = scene.lab().client.clone();
                crds::$name(client, scene.namespace()).await.map_err(Error::msg)
            })),*]
        };
    }
    let mut trials = Vec::from(in_namespace![
        accepts_and_refuses_on_create,
        accepts_and_refuses_on_update,
        fills_in_the_defaults,
        types_and_server_agree_on_defaults,
        keeps_a_proxys_status_apart,
    ]);
    trials.push(
        stage.trial("crds::bounds_a_providers_health", |lab| async move {
            let checked = crds::bounds_a_providers_health(lab.client.clone()).await;
            checked.map_err(Error::msg)
        }),
    );
    trials.push(stage.scene("crds::prints_the_columns", |scene| async move {
        let kubectl = scene.lab().cluster.kubectl();
        let client = scene.lab().client.clone();
        let printed = crds::prints_the_columns(client, &kubectl, scene.namespace()).await;
        printed.map_err(Error::msg)
    }));
    trials.push(
        stage.scene("crds::explains_every_field", |scene| async move {
            let kubectl = scene.lab().cluster.kubectl();
            let explained = crds::explains_every_field(&kubectl, scene.namespace()).await;
            explained.map_err(Error::msg)
        }),
    );
    trials
}
