//! What a request's body says. Nothing is guessed: unknown and duplicate fields, `null` and wrong
//! types are refused, and the refusal names the field.

use super::{
    openapi::{HostName, ResultWord, Selector, TtlSeconds},
    refusal::Refusal,
    target,
};
use actors::leases::terms::ReportResult;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

/// The lifetime of a lease for which none was asked, where the maximum allows it.
pub const DEFAULT_TTL: Duration = Duration::from_mins(5);

/// Asks for a lease. Every field may be left out; so may the body.
#[derive(Deserialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "AcquireRequest")]
pub struct Acquire {
    /// Attributes that the proxy must have, all of them and exactly.
    #[serde(deserialize_with = "selector")]
    #[schemars(with = "Selector")]
    pub selector: BTreeMap<String, String>,
    /// Lifetime of the lease, in seconds; 300 unless given.
    #[serde(deserialize_with = "ttl")]
    #[schemars(with = "TtlSeconds")]
    pub ttl_seconds: Option<Ttl>,
    /// The site that the client means to crawl: a host name, with or without a port.
    #[serde(deserialize_with = "host")]
    #[schemars(with = "HostName")]
    pub target: Option<Arc<str>>,
}

/// Prolongs a lease. The field may be left out; so may the body.
#[derive(Deserialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "RenewRequest")]
pub struct Renew {
    /// Lifetime of the lease from now on, in seconds; 300 unless given.
    #[serde(deserialize_with = "ttl")]
    #[schemars(with = "TtlSeconds")]
    pub ttl_seconds: Option<Ttl>,
}

/// Says what the client found.
#[derive(Deserialize, JsonSchema, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
#[schemars(rename = "ReportRequest")]
pub struct Report {
    /// What the client found.
    #[serde(deserialize_with = "result")]
    #[schemars(with = "ResultWord", required)]
    result: String,
    /// Where: a host name; the lease's own target unless given.
    #[serde(deserialize_with = "host")]
    #[schemars(with = "HostName")]
    pub target: Option<Arc<str>>,
}

impl Report {
    /// The word as one of the three.
    ///
    /// # Errors
    /// [`Refusal::InvalidResult`].
    pub fn result(&self) -> Result<ReportResult, Refusal> {
        self.result.parse().map_err(|_| {
            Refusal::InvalidResult("result: must be `ok`, `rate_limited` or `banned`".to_owned())
        })
    }
}

/// Reads a body; an empty one is one without fields.
///
/// # Errors
/// [`Refusal::InvalidBody`] naming the field, or [`Refusal::InvalidTtl`].
pub fn parse<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, Refusal> {
    match body.trim_ascii_start().first() {
        None => return Ok(T::default()),
        Some(b'{') => {}
        // serde takes an array for a struct, field by field.
        Some(_) => {
            return Err(Refusal::InvalidBody(
                "the body must be a JSON object".into(),
            ));
        }
    }
    serde_json::from_slice(body).map_err(|error| refusal(&error))
}

fn refusal(error: &serde_json::Error) -> Refusal {
    let mut message = error.to_string();
    if error.is_data() {
        if let Some(end) = message.rfind(" at line ") {
            message.truncate(end);
        }
    } else {
        message.insert_str(0, "the body is not JSON: ");
    }
    if message.contains("ttlSeconds: number out of range") {
        return Refusal::InvalidTtl(Ttl::RULE.to_owned());
    }
    Refusal::InvalidBody(message)
}

/// A `ttlSeconds` as sent, whatever it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// A whole number that is not negative.
    Seconds(u64),
    /// Anything else.
    Nonsense,
}

impl Ttl {
    const RULE: &str = "ttlSeconds: must be a whole number of seconds, from 1 to the maximum";

    /// The lifetime that `sent` asks for, at most `max`.
    ///
    /// # Errors
    /// [`Refusal::InvalidTtl`].
    pub fn resolve(sent: Option<Self>, max: Duration) -> Result<Duration, Refusal> {
        match sent {
            None => Ok(DEFAULT_TTL.min(max)),
            Some(Self::Seconds(seconds)) if (1..=max.as_secs()).contains(&seconds) => {
                Ok(Duration::from_secs(seconds))
            }
            Some(Self::Seconds(seconds)) => Err(Refusal::InvalidTtl(format!(
                "ttlSeconds: {seconds} is not from 1 to {}",
                max.as_secs()
            ))),
            Some(Self::Nonsense) => Err(Refusal::InvalidTtl(Self::RULE.to_owned())),
        }
    }
}

fn ttl<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Ttl>, D::Error> {
    // Only JSON that is no JSON fails here, and a number that fits no float.
    value
        .deserialize_any(AnyTtl)
        .map(Some)
        .map_err(|error| D::Error::custom(format_args!("ttlSeconds: {error}")))
}

struct AnyTtl;

impl<'de> Visitor<'de> for AnyTtl {
    type Value = Ttl;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number")
    }
    fn visit_u64<E>(self, seconds: u64) -> Result<Ttl, E> {
        Ok(Ttl::Seconds(seconds))
    }
    fn visit_i64<E>(self, _: i64) -> Result<Ttl, E> {
        Ok(Ttl::Nonsense)
    }
    /// JSON knows one kind of number, so `300.0` is as whole as `300`.
    fn visit_f64<E>(self, seconds: f64) -> Result<Ttl, E> {
        Ok(match format!("{seconds:.0}").parse() {
            Ok(whole) if seconds.fract() == 0.0 => Ttl::Seconds(whole),
            _ => Ttl::Nonsense,
        })
    }
    fn visit_bool<E>(self, _: bool) -> Result<Ttl, E> {
        Ok(Ttl::Nonsense)
    }
    fn visit_str<E>(self, _: &str) -> Result<Ttl, E> {
        Ok(Ttl::Nonsense)
    }
    fn visit_unit<E>(self) -> Result<Ttl, E> {
        Ok(Ttl::Nonsense)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Ttl, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Ttl::Nonsense)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Ttl, A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Ttl::Nonsense)
    }
}

fn named<'de, D, T>(name: &str, value: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(value).map_err(|error| D::Error::custom(format_args!("{name}: {error}")))
}

fn result<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    named("result", value)
}

fn host<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Arc<str>>, D::Error> {
    let text: String = named("target", value)?;
    target::normalise(&text).map(Some).map_err(D::Error::custom)
}

fn selector<'de, D: Deserializer<'de>>(value: D) -> Result<BTreeMap<String, String>, D::Error> {
    value.deserialize_map(Pairs)
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = BTreeMap<String, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object as `selector`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut pairs = BTreeMap::new();
        while let Some(key) = entries.next_key::<String>()? {
            if !crds::is_attribute_key(&key) {
                return Err(A::Error::custom(format_args!(
                    "selector: {key:?} is not an attribute key"
                )));
            }
            let value = entries
                .next_value::<String>()
                .map_err(|error| A::Error::custom(format_args!("selector.{key}: {error}")))?;
            if pairs.contains_key(&key) {
                return Err(A::Error::custom(format_args!(
                    "selector.{key}: given twice"
                )));
            }
            pairs.insert(key, value);
        }
        Ok(pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn acquire(text: &str) -> Result<(Acquire, Duration), Refusal> {
        let body: Acquire = parse(text.as_bytes())?;
        let ttl = Ttl::resolve(body.ttl_seconds, HOUR)?;
        Ok((body, ttl))
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        for text in ["", " \n", "{}", "\t{ } "] {
            let (body, ttl) = acquire(text).expect(text);
            assert!(
                body.selector.is_empty() && body.target.is_none(),
                "{text:?}"
            );
            assert_eq!(ttl, DEFAULT_TTL);
        }
        let resolved = Ttl::resolve(None, Duration::from_secs(9));
        assert_eq!(
            resolved,
            Ok(Duration::from_secs(9)),
            "never over the maximum"
        );
    }

    #[test]
    fn what_is_sent_is_taken() {
        let text =
            r#"{"target":"Example.com:443","ttlSeconds":3600,"selector":{"geo":"de","asn":""}}"#;
        let (body, ttl) = acquire(text).expect(text);
        assert_eq!(body.selector["geo"], "de");
        assert_eq!(body.selector["asn"], "");
        assert_eq!(body.target.as_deref(), Some("example.com"));
        assert_eq!(ttl, HOUR);
        for (sent, seconds) in [("1", 1), ("300.0", 300), ("3e2", 300), ("3600.0", 3600)] {
            let (_, ttl) = acquire(&format!(r#"{{"ttlSeconds":{sent}}}"#)).expect(sent);
            assert_eq!(ttl, Duration::from_secs(seconds));
        }
    }

    #[test]
    fn a_bad_lifetime_is_an_invalid_ttl() {
        for ttl in [
            "0",
            "-1",
            "-0",
            "1.5",
            "0.0",
            "-300.0",
            "0.9999999",
            "3601.0",
            "1e19",
            "1e300",
            "3601",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775809",
            "1e400",
            "-1e400",
            "null",
            "true",
            r#""300""#,
            "[300]",
            "[]",
            r#"{"a":[1]}"#,
            "{}",
        ] {
            for text in [
                format!(r#"{{"ttlSeconds":{ttl}}}"#),
                format!(r#"{{"ttlSeconds":{ttl},"selector":{{}}}}"#),
            ] {
                match acquire(&text) {
                    Err(Refusal::InvalidTtl(message)) => {
                        assert!(message.starts_with("ttlSeconds: "), "{text}: {message}");
                    }
                    other => panic!("{text}: {:?}", other.map(|(_, ttl)| ttl)),
                }
            }
        }
    }

    #[test]
    fn a_bad_body_is_refused_and_names_the_field() {
        let deep = format!(r#"{{"selector":{}"#, "[".repeat(100_000));
        for (text, named) in [
            (r#"{"extra":1}"#, "`extra`"),
            (r#"{"Selector":{}}"#, "`Selector`"),
            (r#"{"ttlseconds":1}"#, "`ttlseconds`"),
            (r#"{"target":"a","target":"a"}"#, "`target`"),
            (r#"{"ttlSeconds":1,"ttlSeconds":1}"#, "`ttlSeconds`"),
            (r#"{"selector":{},"selector":{}}"#, "`selector`"),
            (r#"{"selector":{"geo":"de","geo":"de"}}"#, "selector.geo: "),
            (
                r#"{"selector":{"g\u0065o":"de","geo":"fr"}}"#,
                "selector.geo: ",
            ),
            (r#"{"selector":null}"#, "`selector`"),
            (r#"{"selector":[]}"#, "`selector`"),
            (r#"{"selector":"geo=de"}"#, "`selector`"),
            (r#"{"selector":{"geo":1}}"#, "selector.geo: "),
            (r#"{"selector":{"geo":null}}"#, "selector.geo: "),
            (r#"{"selector":{"geo":["de"]}}"#, "selector.geo: "),
            (r#"{"selector":{"":"x"}}"#, "selector: "),
            (r#"{"selector":{"-a":"x"}}"#, "selector: "),
            (r#"{"selector":{"a b":"x"}}"#, "selector: "),
            (r#"{"target":null}"#, "target: "),
            (r#"{"target":5}"#, "target: "),
            (r#"{"target":1e400}"#, "target: "),
            (r#"{"target":""}"#, "target: "),
            (r#"{"target":"https://example.com/"}"#, "target: "),
            ("null", "object"),
            ("[]", "object"),
            (r#"[{"geo":"de"},300,"a"]"#, "object"),
            ("300", "object"),
            (r#""{}""#, "object"),
            ("{", "not JSON"),
            ("{}{}", "not JSON"),
            ("{} x", "not JSON"),
            ("{'target':'a'}", "not JSON"),
            (r#"{"target":"a",}"#, "not JSON"),
            (r#"{"ttlSeconds":01}"#, "ttlSeconds: "),
            (r#"{"ttlSeconds":}"#, "ttlSeconds: "),
            (r#"{"ttlSeconds":NaN}"#, "ttlSeconds: "),
            ("\u{feff}{}", "object"),
            (&deep, "`selector`"),
        ] {
            match acquire(text) {
                Err(Refusal::InvalidBody(message)) => {
                    assert!(message.contains(named), "{text:.60}: {message}");
                    let clean = !message.contains(" at line ") || message.contains("not JSON");
                    assert!(clean, "{text:.60}: {message}");
                }
                other => panic!("{text:.60}: {:?}", other.map(|(_, ttl)| ttl)),
            }
        }
        let latin: Result<Acquire, _> = parse(b"{\"target\":\"b\xfccher.de\"}");
        assert!(matches!(latin, Err(Refusal::InvalidBody(_))));
    }

    #[test]
    fn a_report_has_one_of_three_results() {
        for (text, result) in [
            (r#"{"result":"ok"}"#, ReportResult::Ok),
            (r#"{"result":"rate_limited"}"#, ReportResult::RateLimited),
            (
                r#"{"target":"A.example","result":"banned"}"#,
                ReportResult::Banned,
            ),
        ] {
            let body: Report = parse(text.as_bytes()).expect(text);
            assert_eq!(body.result(), Ok(result));
        }
        for text in [
            "",
            "{}",
            r#"{"result":""}"#,
            r#"{"result":"OK"}"#,
            r#"{"result":"Banned"}"#,
        ] {
            let body: Report = parse(text.as_bytes()).expect(text);
            assert!(
                matches!(body.result(), Err(Refusal::InvalidResult(_))),
                "{text}"
            );
        }
        for text in [
            r#"{"result":1}"#,
            r#"{"result":null}"#,
            r#"{"result":"ok","result":"ok"}"#,
        ] {
            match parse::<Report>(text.as_bytes()) {
                Err(Refusal::InvalidBody(message)) => {
                    assert!(message.contains("result"), "{message}")
                }
                _ => panic!("{text}"),
            }
        }
    }

    #[test]
    fn a_renewal_has_no_other_field() {
        assert!(parse::<Renew>(b"").is_ok() && parse::<Renew>(b"{\"ttlSeconds\":5}").is_ok());
        let refused = parse::<Renew>(b"{\"target\":\"a\"}");
        assert!(
            matches!(refused, Err(Refusal::InvalidBody(message)) if message.contains("`target`"))
        );
    }
}
