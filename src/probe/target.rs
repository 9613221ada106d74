//! What a probe fetches, in the several spellings that the steps need.

use http::Uri;
use std::net::IpAddr;
use tokio_rustls::rustls::pki_types::{InvalidDnsNameError, ServerName};
use url::{Host, Position, Url};

/// A URL taken apart; built anew for every probe, which costs about a microsecond.
#[derive(Debug)]
pub(super) struct Target {
    /// Host and port, an IPv6 address in brackets: what CONNECT asks for.
    pub authority: String,
    /// The `Host` header: as above, but the scheme's own port is left out.
    pub host: String,
    /// What the certificate must be for; `None` for plain http.
    pub tls_name: Option<ServerName<'static>>,
    /// The request target: absolute for the proxy of a plain http URL, else path and query.
    pub uri: Uri,
    /// The URL for people: without userinfo, query and fragment, which may hold secrets.
    pub shown: String,
}

/// Why a URL cannot be probed; the API server refuses such URLs already.
#[derive(Debug, thiserror::Error)]
pub(super) enum TargetError {
    #[error("is not an absolute URL ({0})")]
    Parse(#[from] url::ParseError),
    #[error("is neither http nor https")]
    Scheme,
    #[error("has no host")]
    Host,
    #[error("names a host that no certificate can be for ({0})")]
    Name(#[from] InvalidDnsNameError),
    #[error("cannot be sent in a request ({0})")]
    Uri(#[from] http::uri::InvalidUri),
}

impl Target {
    /// Takes `url` apart.
    ///
    /// # Errors
    /// [`TargetError`]; its text does not repeat the URL.
    pub(super) fn parse(url: &str) -> Result<Self, TargetError> {
        let url = Url::parse(url)?;
        let secure = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(TargetError::Scheme),
        };
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(TargetError::Host);
        };
        let origin = &url[Position::BeforeScheme..Position::BeforeUsername];
        let place = &url[Position::BeforeHost..Position::AfterPort];
        let path = &url[Position::BeforePath..Position::AfterQuery];
        let (tls_name, uri) = if secure {
            (Some(server_name(&host)?), path.parse()?)
        } else {
            (None, format!("{origin}{place}{path}").parse()?)
        };
        Ok(Self {
            authority: format!("{host}:{port}"),
            host: place.to_owned(),
            tls_name,
            uri,
            shown: format!("{origin}{place}{}", url.path()),
        })
    }
}

fn server_name(host: &Host<&str>) -> Result<ServerName<'static>, InvalidDnsNameError> {
    Ok(match host {
        Host::Domain(name) => ServerName::try_from((*name).to_owned())?,
        Host::Ipv4(ip) => ServerName::from(IpAddr::V4(*ip)),
        Host::Ipv6(ip) => ServerName::from(IpAddr::V6(*ip)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_spelled_for_every_step() {
        for (url, authority, host, uri, shown) in [
            (
                "https://a.example/x?k=v#f",
                "a.example:443",
                "a.example",
                "/x?k=v",
                "https://a.example/x",
            ),
            (
                "https://a.example",
                "a.example:443",
                "a.example",
                "/",
                "https://a.example/",
            ),
            (
                "https://u:secret@a.example:8443/",
                "a.example:8443",
                "a.example:8443",
                "/",
                "https://a.example:8443/",
            ),
            (
                "https://[2001:DB8::1]/ip",
                "[2001:db8::1]:443",
                "[2001:db8::1]",
                "/ip",
                "https://[2001:db8::1]/ip",
            ),
            (
                "http://u:secret@a.example/x?k=v#f",
                "a.example:80",
                "a.example",
                "http://a.example/x?k=v",
                "http://a.example/x",
            ),
            (
                "http://10.0.0.1:8080",
                "10.0.0.1:8080",
                "10.0.0.1:8080",
                "http://10.0.0.1:8080/",
                "http://10.0.0.1:8080/",
            ),
            (
                "https://bücher.example/ä",
                "xn--bcher-kva.example:443",
                "xn--bcher-kva.example",
                "/%C3%A4",
                "https://xn--bcher-kva.example/%C3%A4",
            ),
        ] {
            let target = Target::parse(url).expect(url);
            assert_eq!(target.authority, authority, "{url}");
            assert_eq!(target.host, host, "{url}");
            assert_eq!(target.uri.to_string(), uri, "{url}");
            assert_eq!(target.shown, shown, "{url}");
            assert_eq!(target.tls_name.is_some(), url.starts_with("https"), "{url}");
        }
    }

    #[test]
    fn every_url_that_the_parser_takes_can_be_sent() {
        for path in [
            "a|b",
            "a[b]",
            "a\"b",
            "a{b}",
            "a`b",
            "a^b",
            "a\\b",
            "%zz",
            "a b",
            "~!$&'()*+,;=:@",
        ] {
            for url in [format!("https://h/{path}"), format!("http://h/?{path}")] {
                assert!(Target::parse(&url).is_ok(), "{url}");
            }
        }
    }

    #[test]
    fn what_cannot_be_probed_is_refused_without_repeating_it() {
        for (url, words) in [
            ("", "not an absolute URL"),
            ("/path", "not an absolute URL"),
            ("https://", "not an absolute URL"),
            ("https://[::1", "not an absolute URL"),
            ("ftp://secret@host/", "neither http nor https"),
            ("data:secret", "neither http nor https"),
            ("https://a..example/", "no certificate"),
        ] {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(error.contains(words), "{url}: {error}");
            assert!(!error.contains("secret"), "{url}: {error}");
        }
    }
}
