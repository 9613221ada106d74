//! The lifetime that a request asks for. Whatever was sent as `ttlSeconds` is taken in, so that its
//! refusal has a code of its own.

use crate::http::refusal::Refusal;
use serde::{
    Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use std::{fmt, time::Duration};

/// The lifetime of a lease for which none was asked, where the maximum allows it.
pub const DEFAULT_TTL: Duration = Duration::from_mins(5);

/// How the message of an error that is about a `ttlSeconds` too large for any number reads.
pub(super) const OUT_OF_RANGE: &str = "ttlSeconds: number out of range";

/// A `ttlSeconds` as sent, whatever it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// A whole number that is not negative.
    Seconds(u64),
    /// Anything else.
    Nonsense,
}

impl Ttl {
    pub(super) const RULE: &str =
        "ttlSeconds: must be a whole number of seconds, from 1 to the maximum";

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

pub(super) fn ttl<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Ttl>, D::Error> {
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
