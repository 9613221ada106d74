//! The site that a client means to crawl, in the one spelling by which cooldowns are kept.
//!
//! A target is a host name: lower case, without a trailing dot or a port, international names as
//! A-labels. An IPv4 address counts as a host name; an IPv6 address, a URL and a name with an
//! underscore do not.

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use std::{net::Ipv4Addr, sync::Arc};

/// `text` is no host name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("target: not a host name (as in `www.example.com`, with or without a `:port`)")]
pub struct NotAHost;

/// The normal spelling of `text`; normalising it again changes nothing.
///
/// # Errors
/// [`NotAHost`].
pub fn normalise(text: &str) -> Result<Arc<str>, NotAHost> {
    // Hyphens in third and fourth place are refused by the strict rules but live in real names
    // (`r3---sn-4g5e6nez.googlevideo.com`).
    let host = Uts46::new()
        .to_ascii(
            without_port(text)?.as_bytes(),
            AsciiDenyList::STD3,
            Hyphens::CheckFirstLast,
            DnsLength::VerifyAllowRootDot,
        )
        .map_err(|_| NotAHost)?;
    let host = host.strip_suffix('.').unwrap_or(&host);
    let last = host.rsplit('.').next().unwrap_or_default();
    // No top-level domain is a number, so such a name is an IPv4 address or a slip.
    if last.bytes().all(|byte| byte.is_ascii_digit()) && host.parse::<Ipv4Addr>().is_err() {
        return Err(NotAHost);
    }
    Ok(host.into())
}

fn without_port(text: &str) -> Result<&str, NotAHost> {
    let Some((host, port)) = text.split_once(':') else {
        return Ok(text);
    };
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    if digits && port.parse::<u16>().is_ok() {
        Ok(host)
    } else {
        Err(NotAHost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings_of_one_host_are_one_target() {
        let cases = [
            ("example.com", "example.com"),
            ("EXAMPLE.com", "example.com"),
            ("example.com.", "example.com"),
            ("example.com:443", "example.com"),
            ("Example.Com.:0", "example.com"),
            ("example.com:65535", "example.com"),
            ("localhost", "localhost"),
            ("a", "a"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example:80", "xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("例え。テスト", "xn--r8jz45g.xn--zckzah"),
            ("例え。テスト。", "xn--r8jz45g.xn--zckzah"),
            ("faß.de", "xn--fa-hia.de"),
            (
                "r3---sn-4g5e6nez.googlevideo.com",
                "r3---sn-4g5e6nez.googlevideo.com",
            ),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7:8080", "192.0.2.7"),
            ("4chan.org", "4chan.org"),
        ];
        for (text, host) in cases {
            assert_eq!(normalise(text).as_deref(), Ok(host), "{text}");
        }
    }

    #[test]
    fn what_is_no_host_name_is_refused() {
        let long_label = format!("{}.com", "a".repeat(64));
        let long_name = format!("{}com", "a.".repeat(126));
        for text in [
            "",
            ".",
            ":80",
            "example.com..",
            ".example.com",
            "a..b",
            "example.com:",
            "example.com:65536",
            "example.com:http",
            "example.com:+80",
            "example.com:443.",
            "example.com:80:80",
            "https://example.com",
            "example.com/path",
            "user@example.com",
            "exa mple.com",
            " example.com",
            "example.com\n",
            "foo_bar.com",
            "-a.com",
            "a-.com",
            "*.example.com",
            "xn--a.com",
            "xn--\u{fc}.com",
            "1.2.3",
            "1.2.3.256",
            "256",
            "01.2.3.4",
            "::1",
            "[::1]",
            "[2001:db8::1]:443",
            "2001:db8::1",
            "%65xample.com",
            "\u{200d}.com",
            "a\0b",
            &long_label,
            &long_name,
        ] {
            assert_eq!(normalise(text), Err(NotAHost), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(text in "\\PC{1,20}|[a-zA-Z0-9üßé。.:-]{1,20}") {
            if let Ok(once) = normalise(&text) {
                prop_assert_eq!(normalise(&once), Ok(once.clone()));
                prop_assert!(once.len() <= 253);
                prop_assert!(!once.contains(|c: char| c.is_ascii_uppercase() || !c.is_ascii()));
            }
        }
    }
}
