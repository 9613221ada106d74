//! The operations: parameters, bodies and every answer.

use super::{ATTRIBUTE_KEY, Schemas};
use crate::http::{
    answers::{Granted, Lease, ProxyList, ProxyView},
    body::{Acquire, Renew, Report},
    lease_id,
    query::ATTRIBUTE,
    refusal::NoMatchBody,
    routes::Endpoint,
};
use serde_json::{Value, json};

/// What the document says of one endpoint.
pub(super) fn operation(endpoint: Endpoint, schemas: &mut Schemas) -> Value {
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
        Endpoint::Acquire => acquire(schemas),
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

fn acquire(schemas: &mut Schemas) -> Value {
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

fn path(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
}

fn lease_parameter() -> Value {
    let mut parameter = path("id");
    parameter["schema"]["pattern"] = lease_id::PATTERN.into();
    parameter
}
