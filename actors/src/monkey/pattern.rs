//! Whom a monkey may strike: a pattern in which `*` stands for any run of characters, slashes too.

use std::{fmt, str::FromStr, sync::Arc};

/// The longest pattern, in bytes; longer than any path that there is need to name.
const LONGEST: usize = 512;

/// A pattern that is matched against the whole path of an actor, and against its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Arc<str>);

/// The text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must have 1 to {LONGEST} bytes, as in `proxy/*` or `leases`")]
pub struct BadPattern;

impl FromStr for Pattern {
    type Err = BadPattern;

    fn from_str(text: &str) -> Result<Self, BadPattern> {
        if text.is_empty() || text.len() > LONGEST {
            return Err(BadPattern);
        }
        Ok(Self(text.into()))
    }
}

impl Default for Pattern {
    /// Everybody.
    fn default() -> Self {
        Self("*".into())
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Pattern {
    /// Whether it matches this path, or this kind.
    #[must_use]
    pub fn matches(&self, path: &str, kind: &str) -> bool {
        fits(&self.0, path) || fits(&self.0, kind)
    }
}

/// Whether all of `text` is as `pattern` says. What stands between two stars is looked for from the
/// left: an earlier place leaves more for those that follow.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else {
        return false;
    };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*') {
        let Some(at) = text.find(part) else {
            return false;
        };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*", "proxy/a/b", true),
            ("leases", "leases", true),
            ("leases", "leases2", false),
            ("leases", "", false),
            ("proxy/*", "proxy/a/b", true),
            ("proxy/*", "proxy", false),
            ("proxy/*", "a/proxy/b", false),
            ("*/b", "proxy/a/b", true),
            ("*/b", "proxy/a/bc", false),
            ("proxy/*/b", "proxy/a/b", true),
            ("proxy/*/b", "proxy/b", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("*ab*ab", "ab", false),
            ("*ab*ab", "abab", true),
            ("**", "anything", true),
            ("ü*", "über", true),
            ("*ö*", "größe", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn a_kind_is_matched_like_a_path() {
        let pattern: Pattern = "prober".parse().expect("a pattern");
        assert!(pattern.matches("prober/ns/a", "prober"));
        assert!(!pattern.matches("proxy/ns/prober", "proxy"));
    }

    #[test]
    fn a_pattern_says_something_and_not_too_much() {
        assert_eq!("".parse::<Pattern>(), Err(BadPattern));
        assert_eq!("x".repeat(513).parse::<Pattern>(), Err(BadPattern));
        assert!("x".repeat(512).parse::<Pattern>().is_ok());
    }
}
