//! How much a YAML text becomes once its aliases are followed.
//!
//! A list of aliases to a list of aliases to … grows a few lines to gigabytes; the parser's own limit
//! counts aliases and not what is behind them. So the text is walked once, holding nothing, before
//! anything is built of it.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The most that a file may become, in bytes of text, each value counted with [`VALUE`] bytes more.
const BUDGET: usize = 8 << 20;
/// What a value costs beside its text; keeps empty ones from being free.
const VALUE: usize = 16;
/// How many brackets may be open at once. The parser itself refuses what is nested more than 128
/// times, but only after it has scanned the text in a time that grows with the square of the depth
/// (minutes for 100 KiB). Far more than 128, since brackets in quoted text are counted too.
const DEEPEST: usize = 1000;

/// Whether `text` is one YAML document, without tags, that stays within bounds.
///
/// # Errors
/// Syntax, or too much.
pub(super) fn check(text: &str) -> Result<(), serde_yaml::Error> {
    if deepest(text) > DEEPEST {
        return Err(Error::custom("is nested too deeply"));
    }
    let mut left = BUDGET;
    Walk(&mut left).deserialize(serde_yaml::Deserializer::from_str(text))
}

fn deepest(text: &str) -> usize {
    let (mut open, mut deepest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'[' | b'{' => open += 1,
            b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(open);
    }
    deepest
}

struct Walk<'a>(&'a mut usize);

impl Walk<'_> {
    fn spend<E: Error>(&mut self, text: usize) -> Result<(), E> {
        match self.0.checked_sub(text + VALUE) {
            Some(left) => {
                *self.0 = left;
                Ok(())
            }
            None => Err(E::custom("its aliases make it too large")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain YAML without tags")
    }

    fn visit_unit<E: Error>(mut self) -> Result<(), E> {
        self.spend(0)
    }

    /// The empty document.
    fn visit_none<E: Error>(mut self) -> Result<(), E> {
        self.spend(0)
    }

    fn visit_bool<E: Error>(mut self, _: bool) -> Result<(), E> {
        self.spend(0)
    }

    fn visit_i64<E: Error>(mut self, _: i64) -> Result<(), E> {
        self.spend(0)
    }

    fn visit_u64<E: Error>(mut self, _: u64) -> Result<(), E> {
        self.spend(0)
    }

    fn visit_f64<E: Error>(mut self, _: f64) -> Result<(), E> {
        self.spend(0)
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.spend(text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        self.spend(0)?;
        while list.next_element_seed(Walk(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.spend(0)?;
        while map.next_key_seed(Walk(&mut *self.0))?.is_some() {
            map.next_value_seed(Walk(&mut *self.0))?;
        }
        Ok(())
    }
}
