//! What a request's body says. Nothing is guessed: unknown and duplicate fields, `null` and wrong
//! types are refused, and the refusal names the field.

pub mod ttl;

use super::{
    openapi::words::{HostName, ResultWord, Selector, TtlSeconds},
    refusal::Refusal,
    target,
};
use actors::leases::terms::ReportResult;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _, MapAccess, Visitor},
};
use std::{collections::BTreeMap, fmt, sync::Arc};
use ttl::Ttl;

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
    #[serde(deserialize_with = "ttl::ttl")]
    #[schemars(with = "TtlSeconds")]
    pub ttl_seconds: Option<Ttl>,
    /// The site to be crawled: a host name, with or without a port.
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
    #[serde(deserialize_with = "ttl::ttl")]
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
    if body.is_empty() {
        return Ok(T::default());
    }
    // serde takes an array for a struct, field by field.
    let mut text = body.iter().skip_while(|byte| b" \t\r\n".contains(byte));
    if text.next().is_some_and(|first| *first != b'{') {
        return Err(Refusal::InvalidBody(
            "the body must be a JSON object".into(),
        ));
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
    if message.contains(ttl::OUT_OF_RANGE) {
        return Refusal::InvalidTtl(Ttl::RULE.to_owned());
    }
    Refusal::InvalidBody(message)
}

pub(super) fn named<'de, D, T>(name: &str, value: D) -> Result<T, D::Error>
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
#[path = "body_test.rs"]
mod tests;
