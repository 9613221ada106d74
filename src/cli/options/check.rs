//! Flags looked at together: what each may be alone, another can forbid.

use super::{AdminOptions, LeaderElection, RunArgs, RunOptions};
use crate::{
    cli::token::{TokenError, TokenSource},
    http::{BindAddress, auth},
};
use actors::{collector, leases::terms::Terms, monitor};
use std::time::Duration;

/// How long a check of the providers may take, unless told otherwise.
const CHECK_TIMEOUT: Duration = Duration::from_secs(15);

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
    /// A round of checks would run into the next.
    #[error(
        "--provider-check-timeout ({timeout:?}) is longer than --provider-check-interval ({interval:?})"
    )]
    LongCheck {
        /// How long a check may take.
        timeout: Duration,
        /// From one to the next.
        interval: Duration,
    },
    /// The environment names no usable token.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Whoever reaches the address could see the actors.
    #[error(
        "--admin-addr {0} can be reached from other machines: set ADMIN_TOKEN or ADMIN_TOKEN_FILE, or listen on 127.0.0.1"
    )]
    OpenAdmin(BindAddress),
    /// Nobody could ask for chaos.
    #[error("--enable-chaos needs --admin-addr")]
    ChaosWithoutAdmin,
}

impl TryFrom<RunArgs> for RunOptions {
    type Error = OptionsError;

    fn try_from(args: RunArgs) -> Result<Self, OptionsError> {
        args.addresses_differ()?;
        let admin = args.admin()?;
        Ok(Self {
            collection: args.collection(),
            checks: args.checks()?,
            providers_config: args.providers_config,
            proxy_namespace: args.proxy_namespace,
            discovery_addr: args.discovery_addr,
            metrics_bind_address: args.metrics_bind_address,
            health_probe_bind_address: args.health_probe_bind_address,
            leader_election: args.leader_elect.then_some(LeaderElection {
                namespace: args.leader_election_namespace,
                advertise: args.advertise_addr,
            }),
            discovery_token: TokenSource::from_env(&auth::LEASE_API)?,
            admin,
            terms: Terms {
                max_ttl: args.max_lease_ttl,
                lease_cooldown: args.lease_cooldown,
                ban_cooldown: args.ban_cooldown,
            },
            health_workers: usize::from(args.health_workers),
            trace_health_probes: args.trace_health_probes,
            probe_ca_file: args.probe_ca_file,
            gcp_wire_log_full_payloads: args.gcp_wire_log_full_payloads,
            installation_id: args.installation_id,
        })
    }
}

impl RunArgs {
    fn admin(&self) -> Result<Option<AdminOptions>, OptionsError> {
        let Some(addr) = self.admin_addr else {
            return if self.enable_chaos {
                Err(OptionsError::ChaosWithoutAdmin)
            } else {
                Ok(None)
            };
        };
        let token = TokenSource::from_env(&auth::ADMIN)?;
        if token.is_none() && !addr.is_loopback() {
            return Err(OptionsError::OpenAdmin(addr));
        }
        Ok(Some(AdminOptions {
            addr,
            token,
            chaos: self.enable_chaos,
        }))
    }

    fn collection(&self) -> Option<collector::Pace> {
        let pace = collector::Pace {
            interval: self.gc_interval,
            min_age: self.gc_min_age,
        };
        (!pace.interval.is_zero()).then_some(pace)
    }

    fn checks(&self) -> Result<Option<monitor::Pace>, OptionsError> {
        let interval = self.provider_check_interval;
        if interval.is_zero() {
            return Ok(None);
        }
        let timeout = self
            .provider_check_timeout
            .unwrap_or_else(|| CHECK_TIMEOUT.min(interval));
        if timeout > interval {
            return Err(OptionsError::LongCheck { timeout, interval });
        }
        Ok(Some(monitor::Pace { interval, timeout }))
    }

    fn addresses_differ(&self) -> Result<(), OptionsError> {
        let mut servers = vec![
            ("--discovery-addr", self.discovery_addr),
            ("--metrics-bind-address", self.metrics_bind_address),
            (
                "--health-probe-bind-address",
                self.health_probe_bind_address,
            ),
        ];
        servers.extend(self.admin_addr.map(|addr| ("--admin-addr", addr)));
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
