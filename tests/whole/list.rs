//! The list of all scenarios.

use super::{
    api, chaos, cli, collector, crds, deploy, faults, gcp_credentials, gcp_faults, gcp_life,
    gcp_provider, gcp_scale, gcp_stand_in, guards, health, kubernetes_provider, kvm_faults,
    kvm_life, kvm_provider, kvm_pure, kvm_ssh, leader, leases, lifecycle, monitor, ops, outside,
    probe, reload, shutdown, traces, user_data,
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
    ]);
    trials.extend(scenarios![stage.bare: gcp_faults::no_trouble_makes_two_vms_of_one_proxy]);
    trials.extend(scenarios![stage.scene:
        leader::stalled_and_cut_off,
        lifecycle::drift_is_noticed,
        faults::killed_after_every_write,
        faults::killed_amid_a_crowd,
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
        probe::a_frozen_and_a_dead_proxy_are_told_apart,
        gcp_stand_in::googles_python_client_takes_it_for_google,
        gcp_scale::a_fleet_of_a_thousand_asks_little_of_google,
        gcp_scale::a_long_list_takes_few_small_pages,
        gcp_credentials::a_service_account_makes_an_instance,
        gcp_credentials::a_user_makes_an_instance,
    ]);
    trials.extend(scenarios![stage.scene:
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
        guards::a_denial_is_outlived,
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
        deploy::a_second_replica_may_lead,
        deploy::a_missing_namespace_of_the_election_is_told,
        ops::metrics_tell_what_happened,
        ops::it_says_how_it_is,
        ops::logs_are_json_lines,
        ops::a_full_disk_for_logs_is_not_missed,
        traces::an_apply_is_one_tree_over_http,
        traces::an_apply_is_one_tree_over_grpc,
        traces::a_request_continues_its_callers_trace,
        traces::the_sampler_is_obeyed,
        traces::sweeps_and_checks_are_traces,
        traces::probes_are_traced_when_asked_for,
        traces::a_collector_that_is_away_is_not_missed,
    ]);
    trials.extend(of_providers(stage));
    trials.extend(of_google(stage));
    trials.extend(from_outside(stage));
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

/// What becomes of providers, of what they have, and what is told of them.
fn of_providers(stage: &Stage) -> Vec<Trial> {
    Vec::from(scenarios![stage.scene:
        reload::a_changed_file_is_taken_up,
        reload::a_mounted_file_is_swapped,
        reload::a_provider_changed_amid_a_create_makes_one_instance,
        collector::orphans_go_and_all_else_stays,
        collector::killed_amid_a_sweep,
        collector::without_the_proxies_nothing_is_collected,
        monitor::a_provider_goes_down_and_comes_back,
        monitor::a_hung_check_is_noticed_by_nobody_else,
        monitor::objects_come_and_go_with_the_config,
    ])
}

/// VMs of Compute Engine, for which the stand-in is enough.
fn of_google(stage: &Stage) -> Vec<Trial> {
    let mut trials = Vec::from(scenarios![stage.scene:
        gcp_life::a_vm_lives_and_goes,
        gcp_life::a_vm_lives_by_the_metadata_server,
        gcp_life::a_creation_that_fails_late_is_told,
        gcp_life::a_late_failure_survives_a_death,
        gcp_life::killed_before_the_answer,
        gcp_life::killed_before_the_record,
        gcp_life::killed_when_it_is_recorded,
        gcp_life::killed_before_a_failure_is_recorded,
        gcp_life::a_rotated_key_needs_no_restart,
        gcp_life::a_missing_file_is_told_once_and_waited_for,
        gcp_life::no_secret_is_logged_of_an_account,
        gcp_life::no_secret_is_logged_of_a_person,
        gcp_life::no_secret_is_logged_of_a_machine,
        gcp_life::what_is_not_ours_stays,
    ]);
    for scenario in gcp_provider::scenarios() {
        let name = format!("gcp_provider::{}", scenario.name);
        trials.push(stage.bare(&name, move || async move { scenario.run().await }));
    }
    trials
}

/// Those about VMs, which also run side by side, but fewer: guests are emulated.
pub fn vms(stage: &Stage) -> Vec<Trial> {
    // A guest boots for a minute: it comes first.
    let mut trials = Vec::from(scenarios![stage.scene:
        kvm_life::vms_live_and_go,
        kvm_faults::a_cut_host,
        kvm_faults::a_killed_sshd,
        kvm_faults::a_killed_libvirtd,
        kvm_faults::a_killed_operator,
        kvm_faults::a_full_pool,
        kvm_faults::killed_at_every_call,
        kvm_faults::a_host_that_is_away_delays_nobody,
        kvm_faults::a_frozen_libvirtd_is_noticed,
        kvm_faults::what_happens_behind_its_back_is_mended,
        kvm_faults::a_refused_key_is_tried_again,
        kvm_faults::what_no_proxy_accounts_for_is_collected,
    ]);
    trials.extend(scenarios![stage.bare: kvm_ssh::known_hosts_are_judged_as_openssh_does]);
    for scenario in kvm_provider::scenarios() {
        let name = format!("kvm_provider::{}", scenario.name);
        trials.push(stage.on_hosts(&name, |hosts| async move { scenario.run(&hosts).await }));
    }
    trials.extend(scenarios![stage.bare:
        kvm_ssh::every_kind_of_key_authenticates,
        kvm_ssh::a_useless_key_is_named,
        kvm_ssh::changed_files_count_at_the_next_dial,
        kvm_ssh::a_refused_key_is_named,
        kvm_ssh::bytes_come_through_unchanged,
        kvm_ssh::a_missing_socket_is_told,
        kvm_ssh::forbidden_forwarding_is_told,
        kvm_ssh::a_denied_socket_is_told,
        kvm_pure::xml_keeps_to_libvirts_schema,
        kvm_pure::libvirt_takes_and_keeps_a_domain,
        kvm_pure::a_seed_reads_back_byte_for_byte,
        kvm_pure::vendor_data_is_a_multipart,
        kvm_pure::disk_images_are_judged_by_their_headers,
    ]);
    trials
}

fn from_outside(stage: &Stage) -> [Trial; 4] {
    scenarios![stage.scene:
        outside::actors_are_seen_and_killed,
        outside::the_admin_server_asks_for_its_token,
        outside::leases_from_the_terminal,
        outside::egress_ips_are_told,
    ]
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

/// Those that need the cluster to themselves, and those that hold the operator to a clock: beside others, it
/// would be the machine that they measure.
pub fn alone(stage: &Stage) -> Vec<Trial> {
    let mut trials = Vec::from(scenarios![stage.scene:
        lifecycle::a_managed_proxy_lives_and_goes,
        ops::sigterm_ends_it_in_the_middle_of_work,
        shutdown::under_load_it_ends_in_order,
        shutdown::told_twice_it_ends_at_once,
        faults::black_holes_delay_nobody,
        leader::stopped_frozen_and_killed,
        guards::an_unreadable_object_stands_in_nobodys_way,
        faults::a_frozen_api_server,
        faults::a_restarted_api_server,
        faults::a_cut_network,
        faults::a_frozen_etcd,
        faults::a_frozen_kubelet,
        leader::all_cut_off,
        chaos::a_monkey_changes_nothing,
    ]);
    trials.extend(scenarios![stage.trial: faults::a_hung_call_delays_one_object]);
    trials.extend(scenarios![stage.bare:
        kvm_ssh::a_host_that_does_not_answer_is_told_apart,
        kvm_ssh::the_end_of_a_session_is_noticed,
        kvm_ssh::a_frozen_host_is_given_up,
        kvm_ssh::a_cut_tunnel_lets_go,
        probe::a_slow_target_is_measured_or_times_out,
    ]);
    trials
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
