//! Addresses to listen on, as Kubernetes programs write them: `:8080`, `127.0.0.1:8080`, `[::1]:0`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

/// Where a server listens; without a host, on every address of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    host: Option<IpAddr>,
    port: u16,
}

impl Listen {
    /// The addresses to bind, the first that works: all addresses means the IPv6 wildcard, which
    /// takes IPv4 too, and the IPv4 one on a machine without IPv6. `TcpListener::bind` takes this
    /// as it is.
    #[must_use]
    pub fn candidates(self) -> Vec<SocketAddr> {
        let hosts = match self.host {
            Some(host) => vec![host],
            None => vec![Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()],
        };
        hosts
            .into_iter()
            .map(|host| SocketAddr::new(host, self.port))
            .collect()
    }

    /// Whether both cannot be listened on at once. Port 0 is any free port.
    #[must_use]
    pub fn collides(self, other: Self) -> bool {
        let wildcard = |listen: Self| listen.host.is_none_or(|host| host.is_unspecified());
        self.port == other.port
            && self.port != 0
            && (self.host == other.host || wildcard(self) || wildcard(other))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host {
            Some(host) => SocketAddr::new(host, self.port).fmt(f),
            None => write!(f, ":{}", self.port),
        }
    }
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.rsplit_once(':') {
            Some(("", port)) => port.parse().ok().map(|port| (None, port)),
            Some(("localhost", port)) => port
                .parse()
                .ok()
                .map(|port| (Some(Ipv4Addr::LOCALHOST.into()), port)),
            _ => text
                .parse::<SocketAddr>()
                .ok()
                .map(|address| (Some(address.ip()), address.port())),
        };
        let (host, port) =
            parsed.ok_or("not an address such as :8080, 127.0.0.1:8080 or [::1]:8080")?;
        Ok(Self { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(text: &str) -> Listen {
        text.parse().expect(text)
    }

    #[test]
    fn without_a_host_every_address_is_meant() {
        let all: Vec<_> = listen(":8090").candidates();
        assert_eq!(
            all,
            [
                "[::]:8090".parse().expect("v6"),
                "0.0.0.0:8090".parse().expect("v4")
            ]
        );
        for one in ["127.0.0.1:0", "[::1]:8080", "0.0.0.0:65535"] {
            assert_eq!(listen(one).candidates(), [one.parse().expect(one)]);
        }
        assert_eq!(listen("localhost:80").to_string(), "127.0.0.1:80");
    }

    #[test]
    fn it_prints_as_it_was_written() {
        for text in [":8090", "127.0.0.1:8090", "[::1]:8090"] {
            assert_eq!(listen(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "8090",
            ":",
            ":65536",
            ":-1",
            "::1:8090x",
            "proxy.example:80",
            "[::1]",
            "127.0.0.1",
            " :80",
        ] {
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn two_servers_on_one_port_collide_unless_the_hosts_differ() {
        assert!(listen(":80").collides(listen(":80")));
        assert!(listen(":80").collides(listen("127.0.0.1:80")));
        assert!(listen("0.0.0.0:80").collides(listen("10.0.0.1:80")));
        assert!(!listen("127.0.0.1:80").collides(listen("10.0.0.1:80")));
        assert!(!listen(":80").collides(listen(":81")));
        assert!(!listen(":0").collides(listen(":0")));
    }
}
