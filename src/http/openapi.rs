//! The OpenAPI 3.1 document: paths from the table of routes, schemas from the types.

use super::{
    answers::{Granted, Lease, ProxyList, ProxyView},
    body::{Acquire, DEFAULT_TTL, Renew, Report},
    lease_id,
    query::ATTRIBUTE,
    refusal::{ErrorBody, NoMatchBody},
    routes::{Endpoint, TABLE},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde_json::{Map, Value, json};
use std::{borrow::Cow, time::Duration};

/// The grammar of attribute keys, as [`crds::is_attribute_key`] checks it.
const ATTRIBUTE_KEY: &str = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?";

/// The document for an API whose leases last at most `max_ttl` and which asks for a token if
/// `secured`.
#[must_use]
pub fn document(max_ttl: Duration, secured: bool) -> Value {
    let mut schemas = Schemas::new();
    let mut paths = Map::new();
    for row in &TABLE {
        let mut operation = operation(row.endpoint, &mut schemas);
        let open = row.endpoint == Endpoint::Healthz;
        if secured && !open {
            operation["security"] = json!([{ "token": [] }]);
            operation["responses"]["401"] = schemas.refusal(
                "`unauthorized`: no token, or another one",
                &json!({ "WWW-Authenticate": header("Always `Bearer`") }),
            );
        }
        let path = paths
            .entry(row.template)
            .or_insert_with(|| Value::Object(Map::new()));
        path[row.method.as_str().to_ascii_lowercase()] = operation;
    }
    let mut components = json!({ "schemas": schemas.finish(max_ttl) });
    if secured {
        components["securitySchemes"] = json!({ "token": { "type": "http", "scheme": "bearer" } });
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Egress proxy leases",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Finds egress proxies and leases them to crawlers. Every error is JSON with a stable `error` word and a `message` for people.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": components,
    })
}

fn operation(endpoint: Endpoint, schemas: &mut Schemas) -> Value {
    match endpoint {
        Endpoint::Healthz => json!({
            "operationId": "healthz",
            "summary": "Says that the server serves",
            "responses": { "200": {
                "description": "Always, without a token too",
                "content": { "text/plain": { "schema": { "type": "string", "const": "ok" } } },
            } },
        }),
        Endpoint::OpenApi => json!({
            "operationId": "describe",
            "summary": "This document",
            "responses": {
                "200": {
                    "description": "The document",
                    "content": { "application/json": { "schema": { "type": "object" } } },
                },
                "400": schemas.refusal("`invalid_query`", &json!({})),
            },
        }),
        Endpoint::ListProxies => json!({
            "operationId": "listProxies",
            "summary": "Lists proxies, sorted by id",
            "description": "Proxies that are going away or being replaced are left out.",
            "parameters": [
                {
                    "name": "healthy", "in": "query", "schema": { "type": "boolean" },
                    "description": "Only the healthy, or only the others",
                },
                {
                    "name": "attributes", "in": "query", "style": "form", "explode": true,
                    "description": "`attr.<key>=<value>`, any number of times with different keys: only proxies that have all of these attributes",
                    "schema": {
                        "type": "object",
                        "propertyNames": { "pattern": format!("^{}{ATTRIBUTE_KEY}$", ATTRIBUTE.replace('.', r"\.")) },
                        "additionalProperties": { "type": "string" },
                    },
                },
            ],
            "responses": schemas.responses::<ProxyList>("200", "The proxies that match, maybe none", &[
                ("400", "`invalid_query`: an unknown, repeated or malformed parameter"),
            ]),
        }),
        Endpoint::GetProxy => json!({
            "operationId": "getProxy",
            "summary": "Shows one proxy",
            "parameters": [path("namespace"), path("name")],
            "responses": schemas.responses::<ProxyView>("200", "The proxy", &[
                ("400", "`invalid_query`"),
                ("404", "`unknown_proxy`: none has this id, or it is going away"),
            ]),
        }),
        Endpoint::Acquire => {
            let mut responses = schemas.responses::<Granted>(
                "201",
                "The lease, and the proxy to use",
                &[(
                    "400",
                    "`invalid_body` (also an `Idempotency-Key` used before with another body), `invalid_ttl`, `invalid_query`",
                )],
            );
            responses["409"] = json!({
                "description": "`no_match`: no proxy fits now",
                "content": { "application/json": { "schema": schemas.answer::<NoMatchBody>() } },
            });
            json!({
                "operationId": "acquire",
                "summary": "Leases a proxy",
                "description": "The proxy that fits and has the fewest active leases; of those the quickest.",
                "parameters": [{
                    "name": "Idempotency-Key", "in": "header",
                    "description": "Sent again with the same body while the lease lives, it gets the same lease again",
                    "schema": { "type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$" },
                }],
                "requestBody": schemas.body::<Acquire>(false),
                "responses": responses,
            })
        }
        Endpoint::GetLease => json!({
            "operationId": "getLease",
            "summary": "Shows a live lease",
            "parameters": [lease_parameter()],
            "responses": schemas.responses::<Lease>("200", "The lease", &[
                ("400", "`invalid_query`"),
                ("404", "`unknown_lease`"),
            ]),
        }),
        Endpoint::Renew => json!({
            "operationId": "renew",
            "summary": "Prolongs a live lease",
            "parameters": [lease_parameter()],
            "requestBody": schemas.body::<Renew>(false),
            "responses": schemas.responses::<Lease>("200", "The lease with its new end", &[
                ("400", "`invalid_body`, `invalid_ttl`, `invalid_query`"),
                ("404", "`unknown_lease`: also an expired or released one"),
            ]),
        }),
        Endpoint::Release => json!({
            "operationId": "release",
            "summary": "Ends a lease",
            "parameters": [path("id")],
            "responses": schemas.empty("The lease is ended, or there was none", &[]),
        }),
        Endpoint::Report => json!({
            "operationId": "report",
            "summary": "Says what the client found",
            "description": "`rate_limited` and `banned` let the proxy cool down for the target; without a target, for everybody. A lease can be reported on for one cooldown after its end.",
            "parameters": [lease_parameter()],
            "requestBody": schemas.body::<Report>(true),
            "responses": schemas.empty("Noted", &[
                ("400", "`invalid_body`, `invalid_result`, `invalid_query`"),
                ("404", "`unknown_lease`: also one that ended too long ago"),
            ]),
        }),
    }
}

fn path(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
}

fn lease_parameter() -> Value {
    let mut parameter = path("id");
    parameter["schema"]["pattern"] = lease_id::PATTERN.into();
    parameter
}

fn header(description: &str) -> Value {
    json!({ "description": description, "schema": { "type": "string" } })
}

/// Collects the types' schemas, as sent by clients and as sent to them.
struct Schemas {
    requests: SchemaGenerator,
    answers: SchemaGenerator,
}

impl Schemas {
    fn new() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        });
        Self {
            requests: settings.clone().for_deserialize().into_generator(),
            answers: settings.for_serialize().into_generator(),
        }
    }

    fn answer<T: JsonSchema>(&mut self) -> Schema {
        self.answers.subschema_for::<T>()
    }

    fn body<T: JsonSchema>(&mut self, required: bool) -> Value {
        let schema = self.requests.subschema_for::<T>();
        json!({ "required": required, "content": { "application/json": { "schema": schema } } })
    }

    fn refusal(&mut self, description: &str, headers: &Value) -> Value {
        json!({
            "description": description,
            "headers": headers,
            "content": { "application/json": { "schema": self.answer::<ErrorBody>() } },
        })
    }

    /// The refusals named, and those that every call to the ledger may get.
    fn refusals(&mut self, refusals: &[(&str, &str)]) -> Value {
        let mut responses = json!({
            "500": self.refusal("`internal`: the call may or may not have taken effect", &json!({})),
            "503": self.refusal(
                "`not_leader`: another replica serves, or soon will; `overloaded`: too many requests are in flight",
                &json!({ "Retry-After": header("Seconds to wait") }),
            ),
        });
        for (status, description) in refusals {
            responses[*status] = self.refusal(description, &json!({}));
        }
        responses
    }

    fn responses<T: JsonSchema>(
        &mut self,
        status: &str,
        description: &str,
        refusals: &[(&str, &str)],
    ) -> Value {
        let mut responses = self.refusals(refusals);
        responses[status] = json!({
            "description": description,
            "content": { "application/json": { "schema": self.answer::<T>() } },
        });
        responses
    }

    fn empty(&mut self, description: &str, refusals: &[(&str, &str)]) -> Value {
        let mut responses = self.refusals(refusals);
        responses["204"] = json!({ "description": description });
        responses
    }

    fn finish(mut self, max_ttl: Duration) -> Map<String, Value> {
        let mut schemas = self.requests.take_definitions(true);
        schemas.extend(self.answers.take_definitions(true));
        // The one bound that a flag sets.
        if let Some(ttl) = schemas.get_mut("TtlSeconds") {
            ttl["maximum"] = max_ttl.as_secs().into();
            ttl["default"] = DEFAULT_TTL.min(max_ttl).as_secs().into();
        }
        // Left out it reads as a word that is none of the three, so serde takes it for optional.
        if let Some(report) = schemas.get_mut("ReportRequest") {
            report["required"] = json!(["result"]);
        }
        schemas
    }
}

/// The schema of an attribute selector.
pub struct Selector;
/// The schema of a lifetime; its bounds are filled in by [`document`].
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
        json_schema!({ "type": "string", "format": "idn-hostname" })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| match value {
                Value::String(to) if key == "$ref" => found.push(to),
                _ => references(value, found),
            }),
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_row_is_described_and_every_reference_leads_somewhere() {
        let document = document(Duration::from_hours(1), true);
        for row in &TABLE {
            let method = row.method.as_str().to_ascii_lowercase();
            let operation = &document["paths"][row.template][method];
            assert!(operation["operationId"].is_string(), "{}", row.template);
            let variables = row.template.matches('{').count();
            let described = operation["parameters"].as_array().map_or(0, |all| {
                all.iter().filter(|one| one["in"] == "path").count()
            });
            assert_eq!(variables, described, "{}", row.template);
        }
        let mut found = vec![];
        references(&document, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("a local reference");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn the_document_says_what_the_flags_say() {
        let open = document(Duration::from_mins(1), false);
        assert!(open["components"]["securitySchemes"].is_null());
        let ttl = &open["components"]["schemas"]["TtlSeconds"];
        assert_eq!((&ttl["maximum"], &ttl["default"]), (&json!(60), &json!(60)));

        let secured = document(Duration::from_hours(1), true);
        assert!(secured["paths"]["/v1/leases"]["post"]["responses"]["401"].is_object());
        assert!(secured["paths"]["/healthz"]["get"]["security"].is_null());
    }
}
