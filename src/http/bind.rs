//! Addresses to listen on, as flags spell them: `:8090`, `127.0.0.1:8090`, `[::1]:8090`,
//! `localhost:8090`.

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::FromStr,
};
use tokio::net::TcpListener;

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindAddress {
    /// Every interface, IPv6 and IPv4.
    Everywhere(u16),
    /// One address.
    At(SocketAddr),
}

/// `text` is no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address to listen on; write `:8090` or `127.0.0.1:8090`")]
pub struct BadAddress {
    text: String,
}

/// Listening failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct BindError {
    address: BindAddress,
    source: io::Error,
}

/// Reads an address as a flag spells it.
///
/// # Errors
/// [`BadAddress`].
pub fn parse_bind_address(text: &str) -> Result<BindAddress, BadAddress> {
    let port = |digits: &str| {
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| digits.parse().ok()).flatten()
    };
    let address = match text.rsplit_once(':') {
        Some(("", digits)) => port(digits).map(BindAddress::Everywhere),
        Some(("localhost", digits)) => port(digits)
            .map(|port| BindAddress::At(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port))),
        _ => text.parse().ok().map(BindAddress::At),
    };
    address.ok_or_else(|| BadAddress {
        text: text.to_owned(),
    })
}

impl FromStr for BindAddress {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        parse_bind_address(text)
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everywhere(port) => write!(f, ":{port}"),
            Self::At(address) => address.fmt(f),
        }
    }
}

impl BindAddress {
    /// Whether only this machine reaches it.
    #[must_use]
    pub fn is_loopback(self) -> bool {
        match self {
            Self::Everywhere(_) => false,
            Self::At(address) => address.ip().to_canonical().is_loopback(),
        }
    }

    /// Starts to listen.
    ///
    /// # Errors
    /// [`BindError`], which names the address.
    pub async fn listen(self) -> Result<TcpListener, BindError> {
        let bound = match self {
            Self::At(address) => TcpListener::bind(address).await,
            Self::Everywhere(port) => {
                match TcpListener::bind((IpAddr::from(Ipv6Addr::UNSPECIFIED), port)).await {
                    // A port in use is in use for IPv4 too; anything else may be a host without IPv6.
                    Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                        TcpListener::bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), port)).await
                    }
                    bound => bound,
                }
            }
        };
        bound.map_err(|source| BindError {
            address: self,
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_spell_addresses() {
        let at = |text: &str| Ok(BindAddress::At(text.parse().expect("an address")));
        assert_eq!(
            parse_bind_address(":8090"),
            Ok(BindAddress::Everywhere(8090))
        );
        assert_eq!(parse_bind_address(":0"), Ok(BindAddress::Everywhere(0)));
        assert_eq!(parse_bind_address("10.0.0.1:80"), at("10.0.0.1:80"));
        assert_eq!(parse_bind_address("0.0.0.0:80"), at("0.0.0.0:80"));
        assert_eq!(parse_bind_address("[::1]:80"), at("[::1]:80"));
        assert_eq!(parse_bind_address("localhost:80"), at("127.0.0.1:80"));
        for bad in [
            "", ":", "8090", ":x", ":+1", ":65536", "::1:80", "host:80", "1.2.3.4", "[::1]", " :80",
        ] {
            assert!(parse_bind_address(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn loopback_is_told_from_what_others_reach() {
        for (text, expected) in [
            ("127.0.0.1:1", true),
            ("127.1.2.3:1", true),
            ("localhost:1", true),
            ("[::1]:1", true),
            ("[::ffff:127.0.0.1]:1", true),
            (":1", false),
            ("0.0.0.0:1", false),
            ("[::]:1", false),
            ("10.0.0.1:1", false),
            ("[::ffff:10.0.0.1]:1", false),
        ] {
            let address: BindAddress = text.parse().expect(text);
            assert_eq!(address.is_loopback(), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn everywhere_is_reached_over_ipv4() {
        let listener = BindAddress::Everywhere(0).listen().await.expect("binds");
        let port = listener.local_addr().expect("an address").port();
        let (dialled, accepted) = tokio::join!(
            tokio::net::TcpStream::connect(("127.0.0.1", port)),
            listener.accept()
        );
        dialled.expect("connects");
        accepted.expect("accepts");
    }

    #[tokio::test]
    async fn a_port_in_use_is_named() {
        let listener = BindAddress::Everywhere(0).listen().await.expect("binds");
        let port = listener.local_addr().expect("an address").port();
        let refused = BindAddress::Everywhere(port)
            .listen()
            .await
            .expect_err("in use");
        let message = refused.to_string();
        assert!(
            message.starts_with(&format!("cannot listen on :{port}: ")),
            "{message}"
        );
    }
}
