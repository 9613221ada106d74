//! Schemas of single values, for fields whose Rust type does not say what is allowed.

use super::ATTRIBUTE_KEY;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// The schema of an attribute selector.
pub struct Selector;
/// The schema of a lifetime; its bounds are filled in by [`document`](super::document).
pub struct TtlSeconds;
/// The schema of a target.
pub struct HostName;
/// The schema of a report's result.
pub struct ResultWord;

impl JsonSchema for Selector {
    fn schema_name() -> Cow<'static, str> {
        "Selector".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "propertyNames": { "pattern": format!("^{ATTRIBUTE_KEY}$") },
            "additionalProperties": { "type": "string" },
        })
    }
}

impl JsonSchema for TtlSeconds {
    fn schema_name() -> Cow<'static, str> {
        "TtlSeconds".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 1 })
    }
}

impl JsonSchema for HostName {
    fn schema_name() -> Cow<'static, str> {
        "HostName".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // Wider than `idn-hostname`: a port, a trailing dot, and letters that IDNA maps to others.
        json_schema!({
            "type": "string",
            "format": "host",
            "description": "A host name, maybe international, maybe with a trailing dot or a `:port`",
            "examples": ["www.example.com", "bücher.example:443"],
        })
    }
}

impl JsonSchema for ResultWord {
    fn schema_name() -> Cow<'static, str> {
        "Result".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": ["ok", "rate_limited", "banned"] })
    }
}
