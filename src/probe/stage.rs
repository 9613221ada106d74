//! Where in a probe something happened, as failures show it.

use actors::prober::probe::{FailureKind, ProbeFailure};
use std::{fmt, net::SocketAddr};

/// A step of a probe and what it was done to; written out only when it failed.
#[derive(Clone, Copy)]
pub(super) enum Stage<'a> {
    /// Before anything is sent.
    Prepare { url: &'a str },
    /// The DNS of the proxy.
    Resolve { host: &'a str },
    /// TCP to the proxy.
    Dial { address: SocketAddr },
    /// The question for a tunnel, `target` being host and port.
    Connect { target: &'a str, proxy: &'a str },
    /// The handshake with the target.
    Tls { target: &'a str, proxy: &'a str },
    /// The request itself.
    Get { url: &'a str, proxy: &'a str },
}

impl Stage<'_> {
    /// A failure of this step; `what` came instead of what was hoped for.
    pub(super) fn failed(self, kind: FailureKind, what: impl fmt::Display) -> ProbeFailure {
        ProbeFailure {
            kind,
            message: format!("{self}: {what}"),
        }
    }
}

impl fmt::Display for Stage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prepare { url } => write!(f, "URL {}", without_secrets(url)),
            Self::Resolve { host } => write!(f, "resolving the proxy {host}"),
            Self::Dial { address } => write!(f, "dialling the proxy {address}"),
            Self::Connect { target, proxy } => write!(f, "CONNECT {target} at {proxy}"),
            Self::Tls { target, proxy } => write!(f, "TLS with {target} through {proxy}"),
            Self::Get { url, proxy } => write!(f, "GET {url} through {proxy}"),
        }
    }
}

/// A URL that may not parse, without what may be secret in it: userinfo, query and fragment.
fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        (None, Some((_, rest))) => rest.to_owned(),
        (_, None) => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_secret_in_a_url_is_left_out() {
        for (url, shown) in [
            ("ftp://host/path", "ftp://host/path"),
            ("ftp://user:secret@host/path", "ftp://host/path"),
            ("https://user:se@cret@:443/", "https://:443/"),
            ("user:secret@host", "host"),
            ("https://[bad/?token=secret", "https://[bad/"),
            ("https://[bad/#secret", "https://[bad/"),
        ] {
            assert_eq!(without_secrets(url), shown, "{url}");
        }
    }
}
