//! Partial answers: what `fields` selects, as `items/*/instances(name,labels),nextPageToken`.

use super::{document::Document, refusal::Refusal};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, btree_map::Entry};

/// A selection that was understood. Nothing below a name means all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(BTreeMap<String, Fields>);

impl Fields {
    /// Reads a selection out of an answer that is a `schema`, which is named.
    ///
    /// # Errors
    /// A selection that cannot be read, or of a field that there is not.
    pub fn parse(document: &Document, schema: &str, text: &str) -> Result<Self, Refusal> {
        let mut rest = text;
        let read = Self::list(&mut rest).filter(|_| rest.is_empty());
        let read = read.ok_or_else(|| invalid(text))?;
        let schema = document.schemas.get(schema).unwrap_or(&Value::Null);
        read.check(document, schema)?;
        Ok(read)
    }

    /// Names with commas between.
    fn list(rest: &mut &str) -> Option<Self> {
        let mut all = Self::default();
        loop {
            let (name, below) = Self::path(rest)?;
            all.add(name, below);
            match rest.strip_prefix(',') {
                Some(after) => *rest = after,
                None => return Some(all),
            }
        }
    }

    /// All of a field and a part of it are all of it.
    fn add(&mut self, name: String, below: Self) {
        match self.0.entry(name) {
            Entry::Vacant(place) => {
                place.insert(below);
            }
            Entry::Occupied(mut place) if place.get().0.is_empty() || below.0.is_empty() => {
                place.insert(Self::default());
            }
            Entry::Occupied(mut place) => {
                for (name, below) in below.0 {
                    place.get_mut().add(name, below);
                }
            }
        }
    }

    /// A name, and what of it: after a slash or in parentheses.
    fn path(rest: &mut &str) -> Option<(String, Self)> {
        let end = rest.find(['/', '(', ')', ',']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let name = name.trim();
        if name.is_empty() {
            return None;
        }
        *rest = after;
        let below = if let Some(after) = rest.strip_prefix('/') {
            *rest = after;
            let (name, below) = Self::path(rest)?;
            Self([(name, below)].into())
        } else if let Some(after) = rest.strip_prefix('(') {
            *rest = after;
            let inside = Self::list(rest)?;
            *rest = rest.strip_prefix(')')?;
            inside
        } else {
            Self::default()
        };
        Some((name.to_owned(), below))
    }

    fn check(&self, document: &Document, schema: &Value) -> Result<(), Refusal> {
        if let Some(name) = schema["$ref"].as_str() {
            let schema = document.schemas.get(name).unwrap_or(&Value::Null);
            return self.check(document, schema);
        }
        if schema["type"] == "array" {
            return self.check(document, &schema["items"]);
        }
        for (name, below) in &self.0 {
            let properties = schema["properties"].as_object();
            if name == "*" && properties.is_some() {
                for property in properties.into_iter().flat_map(Map::values) {
                    below.check(document, property)?;
                }
                continue;
            }
            let property = properties.and_then(|properties| properties.get(name));
            let more = Some(&schema["additionalProperties"]).filter(|more| more.is_object());
            let inside = property.or(more).ok_or_else(|| invalid(name))?;
            below.check(document, inside)?;
        }
        Ok(())
    }

    /// The selected part of a value.
    pub fn of(&self, value: &Value) -> Value {
        match value {
            _ if self.0.is_empty() => value.clone(),
            Value::Array(items) => items.iter().map(|item| self.of(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .filter_map(|(name, value)| {
                    let below = self.0.get(name).or_else(|| self.0.get("*"))?;
                    Some((name.clone(), below.of(value)))
                })
                .collect(),
            scalar => scalar.clone(),
        }
    }
}

fn invalid(what: &str) -> Refusal {
    let message = format!("Invalid field selection {what}");
    Refusal::new(400, "invalidParameter", message)
}
