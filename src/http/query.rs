//! What a URL carries: percent-encoded segments, and the filter of the proxy list.

use super::refusal::Refusal;
use actors::leases::terms::ViewFilter;
use std::collections::btree_map::Entry;

/// How a parameter that filters by an attribute begins; the attribute's key follows.
pub const ATTRIBUTE: &str = "attr.";

/// The filter that the query of `GET /v1/proxies` spells.
///
/// # Errors
/// [`Refusal::InvalidQuery`], naming the parameter.
pub fn filter(query: &str) -> Result<ViewFilter, Refusal> {
    let mut filter = ViewFilter::default();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name)?;
        let value = decoded(value)?;
        if name == "healthy" {
            let healthy = match value.as_str() {
                "true" => true,
                "false" => false,
                _ => return refuse("healthy: must be `true` or `false`".to_owned()),
            };
            if filter.healthy.replace(healthy).is_some() {
                return refuse("healthy: given twice".to_owned());
            }
        } else if let Some(key) = name.strip_prefix(ATTRIBUTE) {
            if !crds::is_attribute_key(key) {
                return refuse(format!("{name}: not an attribute key"));
            }
            match filter.attributes.entry(key.to_owned()) {
                Entry::Occupied(_) => return refuse(format!("{name}: given twice")),
                Entry::Vacant(free) => free.insert(value),
            };
        } else {
            return refuse(format!(
                "{name}: unknown parameter; there are `healthy` and `attr.<key>`"
            ));
        }
    }
    Ok(filter)
}

/// Refuses a query where none has a meaning: a filter that is sent to the wrong place must not be
/// taken for "any proxy".
///
/// # Errors
/// [`Refusal::InvalidQuery`].
pub fn none(query: &str) -> Result<(), Refusal> {
    if query.is_empty() {
        return Ok(());
    }
    refuse("this call takes no query parameters".to_owned())
}

fn refuse<T>(message: String) -> Result<T, Refusal> {
    Err(Refusal::InvalidQuery(message))
}

fn decoded(text: &str) -> Result<String, Refusal> {
    percent_decode(&text.replace('+', " "))
        .ok_or_else(|| Refusal::InvalidQuery(format!("{text}: not percent-encoded UTF-8")))
}

/// `text` with each `%XX` replaced; `None` where one is malformed or the result is not UTF-8.
#[must_use]
pub fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        let (code, rest) = part.as_bytes().split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let value = digit(code[0])? * 16 + digit(code[1])?;
        bytes.push(u8::try_from(value).ok()?);
        bytes.extend_from_slice(rest);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(healthy: Option<bool>, attributes: &[(&str, &str)]) -> Result<ViewFilter, Refusal> {
        Ok(ViewFilter {
            healthy,
            attributes: attributes
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        })
    }

    #[test]
    fn a_query_spells_a_filter() {
        assert_eq!(filter(""), spelled(None, &[]));
        assert_eq!(filter("&&"), spelled(None, &[]));
        assert_eq!(filter("healthy=true"), spelled(Some(true), &[]));
        assert_eq!(filter("healthy=false&"), spelled(Some(false), &[]));
        assert_eq!(
            filter("attr.geo=de&attr.asn=64500&healthy=true"),
            spelled(Some(true), &[("geo", "de"), ("asn", "64500")])
        );
        assert_eq!(
            filter("attr.a%2Eb=x%20y%26+z%3d"),
            spelled(None, &[("a.b", "x y& z=")])
        );
        assert_eq!(filter("attr.geo"), spelled(None, &[("geo", "")]));
        assert_eq!(filter("attr.geo=a=b"), spelled(None, &[("geo", "a=b")]));
        assert_eq!(filter("attr.geo=%C3%BC"), spelled(None, &[("geo", "ü")]));
    }

    #[test]
    fn a_bad_query_is_refused_by_name() {
        for (query, named) in [
            ("healthy", "healthy"),
            ("healthy=", "healthy"),
            ("healthy=yes", "healthy"),
            ("healthy=TRUE", "healthy"),
            ("healthy=true&healthy=true", "healthy"),
            ("attr.geo=de&attr.geo=fr", "attr.geo"),
            ("attr.=x", "attr."),
            ("attr.-a=x", "attr.-a"),
            ("attr.a_=x", "attr.a_"),
            ("attr.a%20b=x", "attr.a b"),
            ("attr=x", "attr"),
            ("geo=de", "geo"),
            ("Healthy=true", "Healthy"),
            ("=x", ""),
            ("attr.geo=%", "%"),
            ("attr.geo=%4", "%4"),
            ("attr.geo=%zz", "%zz"),
            ("attr.geo=%+1", "%+1"),
            ("attr.geo=%ff", "%ff"),
            ("%ff=x", "%ff"),
        ] {
            match filter(query) {
                Err(Refusal::InvalidQuery(message)) => {
                    assert!(
                        message.starts_with(&format!("{named}: ")),
                        "{query}: {message}"
                    );
                }
                other => panic!("{query}: {other:?}"),
            }
        }
    }
}
