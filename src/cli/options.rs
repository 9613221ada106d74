//! The flags of `run` and what becomes of them.

use super::{
    token::{TokenError, TokenSource},
    values::{self, LogFilter},
};
use crate::{config::names, http::BindAddress, telemetry::LogFormat};
use actors::leases::terms::Terms;
use clap::Args;
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
    /// The lease API's bearer token; `None` serves everybody.
    pub discovery_token: Option<TokenSource>,
    /// The durations of leases and cooldowns.
    pub terms: Terms,
    /// How many probes may be in flight.
    pub health_workers: usize,
    /// PEM certificates that probes trust beside the system's.
    pub probe_ca_file: Option<PathBuf>,
    /// The mark that tells this installation's instances from others'; `None` derives it from the
    /// cluster.
    pub installation_id: Option<String>,
}

/// The flags, as clap reads them from the arguments and the environment.
#[derive(Args, Clone, Debug)]
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

    /// The longest lease that a client may ask for
    #[arg(long, env = "PROXY_OPERATOR_MAX_LEASE_TTL", value_name = "DURATION", default_value = "1h", value_parser = values::seconds, allow_hyphen_values = true, help_heading = "Leases")]
    max_lease_ttl: Duration,

    /// How long a proxy rests after a report of `rate_limited`
    #[arg(long, env = "PROXY_OPERATOR_LEASE_COOLDOWN", value_name = "DURATION", default_value = "15m", value_parser = values::duration, allow_hyphen_values = true, help_heading = "Leases")]
    lease_cooldown: Duration,

    /// How long a proxy rests after a report of `banned`
    #[arg(long, env = "PROXY_OPERATOR_BAN_COOLDOWN", value_name = "DURATION", default_value = "15m", value_parser = values::duration, allow_hyphen_values = true, help_heading = "Leases")]
    ban_cooldown: Duration,

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

    /// PEM certificates that probes trust beside the system's
    #[arg(
        long,
        env = "PROXY_OPERATOR_PROBE_CA_FILE",
        value_name = "FILE",
        help_heading = "Health probes"
    )]
    probe_ca_file: Option<PathBuf>,

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

/// What only shows when all flags are looked at together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// Two servers want one port.
    #[error("{first} and {second} want the same address {address}")]
    SameAddress {
        /// One flag.
        first: &'static str,
        /// The other flag.
        second: &'static str,
        /// What the other flag says.
        address: BindAddress,
    },
    /// The environment names no usable token.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl RunOptions {
    /// The token and the file that may hold it, at most one of them, as [`crate::http::Auth::new`]
    /// takes them.
    #[must_use]
    pub fn token_or_file(&self) -> (Option<String>, Option<PathBuf>) {
        match self.discovery_token.clone() {
            None => (None, None),
            Some(TokenSource::Value(token)) => (Some(token), None),
            Some(TokenSource::File(file)) => (None, Some(file)),
        }
    }
}

impl TryFrom<RunArgs> for RunOptions {
    type Error = OptionsError;

    fn try_from(args: RunArgs) -> Result<Self, OptionsError> {
        args.addresses_differ()?;
        Ok(Self {
            providers_config: args.providers_config,
            proxy_namespace: args.proxy_namespace,
            discovery_addr: args.discovery_addr,
            metrics_bind_address: args.metrics_bind_address,
            health_probe_bind_address: args.health_probe_bind_address,
            discovery_token: TokenSource::from_env()?,
            terms: Terms {
                max_ttl: args.max_lease_ttl,
                lease_cooldown: args.lease_cooldown,
                ban_cooldown: args.ban_cooldown,
            },
            health_workers: usize::from(args.health_workers),
            probe_ca_file: args.probe_ca_file,
            installation_id: args.installation_id,
        })
    }
}

impl RunArgs {
    fn addresses_differ(&self) -> Result<(), OptionsError> {
        let servers = [
            ("--discovery-addr", self.discovery_addr),
            ("--metrics-bind-address", self.metrics_bind_address),
            (
                "--health-probe-bind-address",
                self.health_probe_bind_address,
            ),
        ];
        for (at, (first, one)) in servers.iter().enumerate() {
            for (second, address) in &servers[at + 1..] {
                if collide(*one, *address) {
                    return Err(OptionsError::SameAddress {
                        first,
                        second,
                        address: *address,
                    });
                }
            }
        }
        Ok(())
    }
}

/// Whether both cannot be listened on at once. Port 0 is any free port.
fn collide(one: BindAddress, other: BindAddress) -> bool {
    let parts = |address| match address {
        BindAddress::Everywhere(port) => (port, None),
        BindAddress::At(at) => (at.port(), Some(at.ip()).filter(|ip| !ip.is_unspecified())),
    };
    let ((port, host), (other_port, other_host)) = (parts(one), parts(other));
    port == other_port
        && port != 0
        && (host.is_none() || other_host.is_none() || host == other_host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_servers_on_one_port_collide_unless_the_hosts_differ() {
        for (one, other, expected) in [
            (":80", ":80", true),
            (":80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "10.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "10.0.0.1:80", false),
            (":80", ":81", false),
            (":0", ":0", false),
        ] {
            let address = |text: &str| text.parse().expect(text);
            assert_eq!(
                collide(address(one), address(other)),
                expected,
                "{one} {other}"
            );
        }
    }
}
