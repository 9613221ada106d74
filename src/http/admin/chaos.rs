//! What a monkey is asked to do, as JSON.

use crate::http::{
    body::{self, named},
    refusal::Refusal,
};
use actors::monkey::{Plan, pattern::Pattern};
use serde::{Deserialize, Deserializer, de::Error as _};
use std::{ops::RangeInclusive, time::Duration};

/// From one strike to the next, in milliseconds.
pub const EVERY: RangeInclusive<u64> = 1..=60_000;
/// How long a run lasts, in seconds.
pub const LASTS: RangeInclusive<u64> = 1..=86_400;

/// Every field may be left out; so may the body.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Wish {
    #[serde(deserialize_with = "pattern")]
    r#match: Pattern,
    #[serde(deserialize_with = "every")]
    every_millis: Option<u64>,
    #[serde(deserialize_with = "lasts")]
    duration_seconds: Option<u64>,
    #[serde(deserialize_with = "seed")]
    seed: Option<u64>,
}

/// What a body asks for: everybody, every 100 ms, for 10 s, with a seed that is drawn.
///
/// # Errors
/// [`Refusal::InvalidBody`], naming the field.
pub fn plan(body: &[u8]) -> Result<Plan, Refusal> {
    let wish: Wish = body::parse(body)?;
    Ok(Plan {
        pattern: wish.r#match,
        every: Duration::from_millis(wish.every_millis.unwrap_or(100)),
        lasts: Duration::from_secs(wish.duration_seconds.unwrap_or(10)),
        // Short enough to be copied by hand, and for programs that read numbers as floats.
        seed: wish.seed.unwrap_or_else(|| rand::random::<u32>().into()),
    })
}

fn pattern<'de, D: Deserializer<'de>>(value: D) -> Result<Pattern, D::Error> {
    let text: String = named("match", value)?;
    text.parse()
        .map_err(|error| D::Error::custom(format_args!("match: {error}")))
}

fn every<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    within("everyMillis", &EVERY, value)
}

fn lasts<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    within("durationSeconds", &LASTS, value)
}

fn seed<'de, D: Deserializer<'de>>(value: D) -> Result<Option<u64>, D::Error> {
    within("seed", &(0..=u64::MAX), value)
}

fn within<'de, D: Deserializer<'de>>(
    name: &str,
    bounds: &RangeInclusive<u64>,
    value: D,
) -> Result<Option<u64>, D::Error> {
    let number: u64 = named(name, value)?;
    if bounds.contains(&number) {
        return Ok(Some(number));
    }
    let (least, most) = (bounds.start(), bounds.end());
    Err(D::Error::custom(format_args!(
        "{name}: must be from {least} to {most}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_a_default() {
        let plan = plan(b"").expect("a plan");
        assert_eq!(plan.pattern, Pattern::default());
        assert_eq!(plan.every, Duration::from_millis(100));
        assert_eq!(plan.lasts, Duration::from_secs(10));
        assert!(u32::try_from(plan.seed).is_ok());
    }

    #[test]
    fn what_is_given_is_taken() {
        let body = br#"{"match": "proxy/*", "everyMillis": 20, "durationSeconds": 60, "seed": 18446744073709551615}"#;
        let plan = plan(body).expect("a plan");
        assert_eq!(plan.pattern.to_string(), "proxy/*");
        assert_eq!(plan.every, Duration::from_millis(20));
        assert_eq!(plan.lasts, Duration::from_mins(1));
        assert_eq!(plan.seed, u64::MAX);
    }

    #[test]
    fn a_refusal_names_the_field() {
        for (body, field) in [
            (r#"{"match": ""}"#, "match: must have 1"),
            (r#"{"match": 1}"#, "match: "),
            (r#"{"match": null}"#, "match: "),
            (
                r#"{"everyMillis": 0}"#,
                "everyMillis: must be from 1 to 60000",
            ),
            (r#"{"everyMillis": 60001}"#, "everyMillis: must be"),
            (r#"{"everyMillis": -1}"#, "everyMillis: "),
            (r#"{"everyMillis": 1.5}"#, "everyMillis: "),
            (r#"{"everyMillis": "20"}"#, "everyMillis: "),
            (r#"{"durationSeconds": 0}"#, "durationSeconds: must be"),
            (r#"{"durationSeconds": 86401}"#, "durationSeconds: must be"),
            (r#"{"durationSeconds": null}"#, "durationSeconds: "),
            (r#"{"seed": -1}"#, "seed: "),
            (r#"{"seed": 18446744073709551616}"#, "seed: "),
            (r#"{"every": 20}"#, "`every`"),
            (r#"{"seed": 1, "seed": 2}"#, "`seed`"),
            ("[]", "JSON object"),
            ("{", "not JSON"),
        ] {
            match plan(body.as_bytes()) {
                Err(Refusal::InvalidBody(why)) => assert!(why.contains(field), "{body}: {why}"),
                other => panic!("{body}: {other:?}"),
            }
        }
    }
}
