//! Values of flags: each parser says in its error what would be right.

use crate::config::names;
use std::{net::SocketAddr, str::FromStr, time::Duration};
use tracing_subscriber::EnvFilter;

/// Times longer than this are typing errors, and far below what a clock can add up.
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// A length of time above zero, `15m`, `1h 30m`, `90s`.
///
/// # Errors
/// What is wrong with `text`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err("must be above zero".into());
    }
    let duration = humantime::parse_duration(text)
        .map_err(|_| "not a length of time such as 90s, 15m or 1h30m".to_owned())?;
    match duration {
        Duration::ZERO => Err("must be above zero".into()),
        long if long > LONGEST => Err("must be at most 365d".into()),
        duration => Ok(duration),
    }
}

/// A length of time, zero included.
///
/// # Errors
/// What is wrong with `text`.
pub fn duration_or_zero(text: &str) -> Result<Duration, String> {
    if humantime::parse_duration(text.trim()) == Ok(Duration::ZERO) || text.trim() == "0" {
        return Ok(Duration::ZERO);
    }
    duration(text).map_err(|why| why.replace("must be above zero", "must not be below zero"))
}

/// From one time to the next of what is done again and again: at least a second, or zero for never.
///
/// # Errors
/// What is wrong with `text`.
pub fn interval(text: &str) -> Result<Duration, String> {
    interval_of(text, Duration::from_secs(1))
}

/// As [`interval`], for what disturbs others: at least ten seconds.
///
/// # Errors
/// What is wrong with `text`.
pub fn slow_interval(text: &str) -> Result<Duration, String> {
    interval_of(text, Duration::from_secs(10))
}

fn interval_of(text: &str, least: Duration) -> Result<Duration, String> {
    match duration_or_zero(text)? {
        short if short < least && !short.is_zero() => Err(format!(
            "must be at least {}s, or 0 for off",
            least.as_secs()
        )),
        interval => Ok(interval),
    }
}

/// A length of time of at least a second, for what clients are told in whole seconds.
///
/// # Errors
/// What is wrong with `text`.
pub fn seconds(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        short if short < Duration::from_secs(1) => Err("must be at least 1s".into()),
        duration => Ok(duration),
    }
}

/// Where others reach this process: `10.0.0.7:8090`, `[2001:db8::7]:8090`, `replica-0.operator:8090`.
///
/// # Errors
/// What is wrong with `text`.
pub fn host_and_port(text: &str) -> Result<String, String> {
    let wrong = || "write a host and a port, as in `10.0.0.7:8090`".to_owned();
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse::<u16>().ok().filter(|port| digits && *port > 0);
    port.ok_or_else(wrong)?;
    if let Ok(address) = text.parse::<SocketAddr>() {
        let nowhere = address.ip().is_unspecified();
        return if nowhere {
            Err(wrong())
        } else {
            Ok(text.to_owned())
        };
    }
    let labels = host.strip_suffix('.').unwrap_or(host).split('.');
    let is_name = host.len() <= 253 && labels.clone().all(names::is_dns_label);
    // What looks like an IPv4 address and is none is no name either.
    let is_number = labels
        .clone()
        .all(|label| label.bytes().all(|byte| byte.is_ascii_digit()));
    if is_name && !is_number {
        return Ok(text.to_owned());
    }
    Err(wrong())
}

/// Which lines are logged, as `tracing` writes it: `info`, `info,actors::leases=debug`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFilter(String);

/// kube logs every failed request as an error, without a word of which one. Whoever made it says
/// more, and decides how bad it is. ractor keeps a span for every actor, which says nothing and costs
/// memory. OpenTelemetry's libraries shout when a collector is away; our exporter says it once, at
/// level debug. Written out by the user, these very targets can be had back.
const NOISE: &str = "kube_client::client::builder=off,opentelemetry=off,ractor=off";

impl LogFilter {
    /// A filter for the subscriber.
    ///
    /// # Errors
    /// Never for a filter that [`LogFilter::from_str`] has let through.
    pub fn build(&self) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
        EnvFilter::builder().parse(format!("{NOISE},{}", self.0))
    }
}

impl FromStr for LogFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
        const HELP: &str =
            "a level (off, error, warn, info, debug, trace) or module=level, separated by commas";
        // The subscriber takes a lone word for a module whose everything is wanted, so that a
        // misspelt level would silence all others.
        let misread = text.split(',').map(str::trim).find(|part| {
            let word = !part.contains(['=', '[', ']', '{', '}', '"']);
            word && !LEVELS.contains(&part.to_ascii_lowercase().as_str())
        });
        if let Some(part) = misread {
            return Err(format!("'{part}' is not {HELP}"));
        }
        let filter = Self(text.to_owned());
        filter.build().map_err(|e| format!("{e}; write {HELP}"))?;
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_above_zero_and_below_what_breaks_a_clock() {
        assert_eq!(duration("15m"), Ok(Duration::from_mins(15)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_mins(90)));
        assert_eq!(duration(" 90s "), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("365d"), Ok(LONGEST));
        for (text, why) in [
            ("0", "above zero"),
            ("0s", "above zero"),
            ("-5m", "above zero"),
            ("", "length of time"),
            ("900", "length of time"),
            ("ten minutes", "length of time"),
            ("1h -5m", "length of time"),
            ("366d", "at most 365d"),
            ("99999999999999999999y", "length of time"),
            ("500000000y", "at most 365d"),
        ] {
            let refusal = duration(text).expect_err(text);
            assert!(refusal.contains(why), "{text}: {refusal}");
        }
        assert!(seconds("999ms").is_err());
        assert_eq!(seconds("1s"), Ok(Duration::from_secs(1)));
    }

    #[test]
    fn an_interval_may_be_off() {
        for off in ["0", "0s", " 0 ", "0m"] {
            assert_eq!(interval(off), Ok(Duration::ZERO), "{off}");
            assert_eq!(slow_interval(off), Ok(Duration::ZERO), "{off}");
            assert_eq!(duration_or_zero(off), Ok(Duration::ZERO), "{off}");
        }
        assert_eq!(interval("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(slow_interval("10s"), Ok(Duration::from_secs(10)));
        let refusal = |refused: Result<Duration, String>| refused.expect_err("refused");
        assert_eq!(
            refusal(interval("999ms")),
            "must be at least 1s, or 0 for off"
        );
        assert_eq!(
            refusal(slow_interval("9s")),
            "must be at least 10s, or 0 for off"
        );
        assert_eq!(refusal(interval("-1s")), "must not be below zero");
        assert!(refusal(duration_or_zero("soon")).contains("length of time"));
    }

    #[test]
    fn others_reach_a_host_at_a_port() {
        for good in [
            "10.0.0.7:8090",
            "[2001:db8::7]:1",
            "replica-0.operator.svc:65535",
            "host.:80",
            "7up:80",
        ] {
            assert_eq!(host_and_port(good), Ok(good.to_owned()));
        }
        for bad in [
            "",
            "host",
            "10.0.0.7",
            ":8090",
            "0.0.0.0:8090",
            "[::]:8090",
            "10.0.0.7:0",
            "10.0.0.7:65536",
            "10.0.0.7:+80",
            "10.0.0.777:80",
            "10.0.0:80",
            "2001:db8::7:80",
            "http://host:80",
            "host:80/path",
            "a_b:80",
        ] {
            assert!(host_and_port(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_filter_names_levels_and_modules() {
        for good in [
            "info",
            "WARN",
            "off",
            "info,actors::leases=debug",
            "actors=trace, warn",
            "[span{id=1}]=debug",
        ] {
            assert!(good.parse::<LogFilter>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "loud",
            "info,",
            "infos,actors=debug",
            "actors=loud",
            "actors==debug",
            "[span",
        ] {
            assert!(bad.parse::<LogFilter>().is_err(), "{bad}");
        }
    }
}
