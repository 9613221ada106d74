//! The flags of `run` and what becomes of them, once they are checked together.

mod check;

pub use check::OptionsError;

use super::{
    token::TokenSource,
    values::{self, LogFilter},
};
use crate::{config::names, http::BindAddress, telemetry::LogFormat};
use actors::{collector, leases::terms::Terms, monitor};
use clap::{ArgAction, Args, builder::BoolishValueParser};
use std::{path::PathBuf, time::Duration};

/// Everything that `run` was told, checked.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The providers file.
    pub providers_config: PathBuf,
    /// The only namespace to watch; `None` is all of them.
    pub proxy_namespace: Option<String>,
    /// Where the lease API listens.
    pub discovery_addr: BindAddress,
    /// Where `/metrics` is served.
    pub metrics_bind_address: BindAddress,
    /// Where `/healthz` and `/readyz` are served.
    pub health_probe_bind_address: BindAddress,
    /// The election; `None` where this is the only replica.
    pub leader_election: Option<LeaderElection>,
    /// The lease API's bearer token; `None` serves everybody.
    pub discovery_token: Option<TokenSource>,
    /// The admin server; `None` is none.
    pub admin: Option<AdminOptions>,
    /// The durations of leases and cooldowns.
    pub terms: Terms,
    /// How many probes may be in flight.
    pub health_workers: usize,
    /// Whether each probe is a trace.
    pub trace_health_probes: bool,
    /// PEM certificates that probes trust beside the system's.
    pub probe_ca_file: Option<PathBuf>,
    /// When orphans are collected; `None` is never.
    pub collection: Option<collector::Pace>,
    /// When providers are checked; `None` is never.
    pub checks: Option<monitor::Pace>,
    /// Whether the wire log of gcp providers shows long strings whole.
    pub gcp_wire_log_full_payloads: bool,
    /// The mark that tells this installation's instances from others'; `None` derives it from the
    /// cluster.
    pub installation_id: Option<String>,
}

/// What the admin server was told.
#[derive(Clone, Debug)]
pub struct AdminOptions {
    /// Where it listens.
    pub addr: BindAddress,
    /// Its bearer token; without one it is at a loopback address.
    pub token: Option<TokenSource>,
    /// Whether actors may be ended through it.
    pub chaos: bool,
}

/// What the election was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Where the Lease is; `None` is the pod's own namespace.
    pub namespace: Option<String>,
    /// Where other replicas reach this one's lease API, as `host:port`; `None` is the pod's address and the
    /// API's port.
    pub advertise: Option<String>,
}

/// The flags, as clap reads them from the arguments and the environment.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct RunArgs {
    /// The providers file (YAML)
    #[arg(
        long,
        env = "PROXY_OPERATOR_PROVIDERS_CONFIG",
        value_name = "FILE",
        help_heading = "Fleet"
    )]
    providers_config: PathBuf,

    /// Watch this namespace only; rights on Proxies and Secrets are then needed in no other
    /// [default: all namespaces]
    #[arg(long, env = "PROXY_OPERATOR_PROXY_NAMESPACE", value_name = "NAMESPACE", value_parser = names::dns_label, help_heading = "Fleet")]
    proxy_namespace: Option<String>,

    /// Mark of this installation's instances, for clusters that share a backend
    /// [default: derived from the UID of the namespace kube-system]
    #[arg(long, env = "PROXY_OPERATOR_INSTALLATION_ID", value_name = "ID", value_parser = names::label_value, help_heading = "Fleet")]
    installation_id: Option<String>,

    /// Where the lease API listens
    #[arg(
        long,
        env = "PROXY_OPERATOR_DISCOVERY_ADDR",
        value_name = "ADDRESS",
        default_value = ":8090",
        help_heading = "Addresses"
    )]
    discovery_addr: BindAddress,

    /// Where /metrics is served
    #[arg(
        long,
        env = "PROXY_OPERATOR_METRICS_BIND_ADDRESS",
        value_name = "ADDRESS",
        default_value = ":8080",
        help_heading = "Addresses"
    )]
    metrics_bind_address: BindAddress,

    /// Where /healthz and /readyz are served
    #[arg(
        long,
        env = "PROXY_OPERATOR_HEALTH_PROBE_BIND_ADDRESS",
        value_name = "ADDRESS",
        default_value = ":8081",
        help_heading = "Addresses"
    )]
    health_probe_bind_address: BindAddress,

    /// Where the actors are shown to `proxy-operator actors`; unless it is a loopback address,
    /// `ADMIN_TOKEN` must be set, which is then asked for [default: nowhere]
    #[arg(
        long,
        env = "PROXY_OPERATOR_ADMIN_ADDR",
        value_name = "ADDRESS",
        help_heading = "Addresses"
    )]
    admin_addr: Option<BindAddress>,

    /// Let whoever reaches --admin-addr kill actors, to see that it does not matter
    #[arg(
        long,
        env = "PROXY_OPERATOR_ENABLE_CHAOS",
        value_parser = clap::builder::BoolishValueParser::new(),
        help_heading = "Addresses"
    )]
    enable_chaos: bool,

    /// The longest lease that a client may ask for
    #[arg(long, env = "PROXY_OPERATOR_MAX_LEASE_TTL", value_name = "DURATION", default_value = "1h", value_parser = values::seconds, allow_hyphen_values = true, help_heading = "Leases")]
    max_lease_ttl: Duration,

    /// How long a proxy rests after a report of `rate_limited`
    #[arg(long, env = "PROXY_OPERATOR_LEASE_COOLDOWN", value_name = "DURATION", default_value = "15m", value_parser = values::duration, allow_hyphen_values = true, help_heading = "Leases")]
    lease_cooldown: Duration,

    /// How long a proxy rests after a report of `banned`
    #[arg(long, env = "PROXY_OPERATOR_BAN_COOLDOWN", value_name = "DURATION", default_value = "15m", value_parser = values::duration, allow_hyphen_values = true, help_heading = "Leases")]
    ban_cooldown: Duration,

    /// Run beside other replicas: one is elected and acts, the others pass API requests on to it
    #[arg(
        long,
        env = "PROXY_OPERATOR_LEADER_ELECT",
        value_parser = BoolishValueParser::new(),
        action = ArgAction::SetTrue,
        help_heading = "Leader election"
    )]
    leader_elect: bool,

    /// Namespace of the election's Lease
    /// [default: the pod's own]
    #[arg(long, env = "PROXY_OPERATOR_LEADER_ELECTION_NAMESPACE", value_name = "NAMESPACE", value_parser = names::dns_label, help_heading = "Leader election")]
    leader_election_namespace: Option<String>,

    /// Where other replicas reach this one's lease API
    /// [default: the pod's address and the port of --discovery-addr]
    #[arg(long, env = "PROXY_OPERATOR_ADVERTISE_ADDR", value_name = "HOST:PORT", value_parser = values::host_and_port, help_heading = "Leader election")]
    advertise_addr: Option<String>,

    /// How many probes may be in flight at once
    #[arg(
        long,
        env = "PROXY_OPERATOR_HEALTH_WORKERS",
        value_name = "COUNT",
        default_value = "256",
        value_parser = clap::value_parser!(u16).range(1..),
        allow_hyphen_values = true,
        help_heading = "Health probes"
    )]
    health_workers: u16,

    /// Make each probe a trace of its own, where traces are exported (see OTEL_… in the docs)
    #[arg(
        long,
        env = "PROXY_OPERATOR_TRACE_HEALTH_PROBES",
        value_parser = BoolishValueParser::new(),
        action = ArgAction::SetTrue,
        help_heading = "Health probes"
    )]
    trace_health_probes: bool,

    /// PEM certificates that probes trust beside the system's
    #[arg(
        long,
        env = "PROXY_OPERATOR_PROBE_CA_FILE",
        value_name = "FILE",
        help_heading = "Health probes"
    )]
    probe_ca_file: Option<PathBuf>,

    /// From one search for instances without a Proxy to the next; 0 is never
    #[arg(long, env = "PROXY_OPERATOR_GC_INTERVAL", value_name = "DURATION", default_value = "10m", value_parser = values::interval, allow_hyphen_values = true, help_heading = "Providers")]
    gc_interval: Duration,

    /// Instances without a Proxy that are younger than this are left alone
    #[arg(long, env = "PROXY_OPERATOR_GC_MIN_AGE", value_name = "DURATION", default_value = "10m", value_parser = values::duration_or_zero, allow_hyphen_values = true, help_heading = "Providers")]
    gc_min_age: Duration,

    /// From one check of the providers to the next, at least 10s; 0 is never
    #[arg(long, env = "PROXY_OPERATOR_PROVIDER_CHECK_INTERVAL", value_name = "DURATION", default_value = "1m", value_parser = values::slow_interval, allow_hyphen_values = true, help_heading = "Providers")]
    provider_check_interval: Duration,

    /// How long a check of a provider may take [default: 15s, or the interval if that is shorter]
    #[arg(long, env = "PROXY_OPERATOR_PROVIDER_CHECK_TIMEOUT", value_name = "DURATION", value_parser = values::duration, allow_hyphen_values = true, help_heading = "Providers")]
    provider_check_timeout: Option<Duration>,

    /// Show long strings whole where requests to Google are logged, which is at level trace; user-data and
    /// tokens are never shown
    #[arg(
        long,
        env = "PROXY_OPERATOR_GCP_WIRE_LOG_FULL_PAYLOADS",
        value_parser = BoolishValueParser::new(),
        action = ArgAction::SetTrue,
        help_heading = "Logs"
    )]
    gcp_wire_log_full_payloads: bool,

    /// How lines look on stderr: json for machines, text for people
    #[arg(
        long,
        env = "PROXY_OPERATOR_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "json",
        hide_possible_values = true,
        help_heading = "Logs"
    )]
    pub(super) log_format: LogFormat,

    /// What is logged: a level, or several with modules, as in `info,actors::leases=debug`
    #[arg(
        long,
        env = "PROXY_OPERATOR_LOG_LEVEL",
        value_name = "FILTER",
        default_value = "info",
        help_heading = "Logs"
    )]
    pub(super) log_level: LogFilter,
}
