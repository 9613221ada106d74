//! A request that the description allows, taken apart.

use super::{
    document::{Document, Method},
    fields::Fields,
    refusal::Refusal,
    schema::{Check, Problem, Violation, scalar},
};
use serde_json::Value;
use std::collections::BTreeMap;

/// What is asked for.
pub struct Call {
    /// The method's ID: `compute.instances.insert`.
    pub method: String,
    path: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
    /// The body; null if there is none.
    pub body: Value,
    /// Which part of the answer is asked for.
    pub fields: Fields,
    /// Who asks.
    pub user: String,
}

/// The parameter that names the version of the API.
pub const VERSION: &str = "$apiVersion";

impl Call {
    /// Takes a request apart.
    ///
    /// # Errors
    /// A request that the description does not allow.
    pub fn read(
        document: &Document,
        method: &Method,
        path: BTreeMap<String, String>,
        query: &str,
        body: &[u8],
        user: &str,
    ) -> Result<Self, Refusal> {
        let mut decoded = BTreeMap::new();
        for (name, value) in path {
            let value = percent_decoded(&value);
            check_parameter(method, &name, &value)?;
            decoded.insert(name, value);
        }
        let query = read_query(document, method, query)?;
        let fields = match query.get("fields").map(String::as_str) {
            None | Some("") => Fields::default(),
            Some(text) => {
                let schema = method.response.as_deref().unwrap_or("");
                Fields::parse(document, schema, text)?
            }
        };
        for (name, parameter) in &method.parameters {
            let given = decoded.contains_key(name) || query.contains_key(name);
            if parameter["required"] == true && !given {
                return Err(Refusal::required(name));
            }
        }
        Ok(Self {
            method: method.id.clone(),
            path: decoded,
            query,
            body: read_body(document, method, body)?,
            fields,
            user: user.to_owned(),
        })
    }

    /// A path parameter.
    pub fn path(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }

    /// A query parameter; one that is empty is not there.
    pub fn query(&self, name: &str) -> Option<&str> {
        let value = self.query.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// Whether a boolean query parameter is true.
    pub fn flag(&self, name: &str) -> bool {
        self.query(name) == Some("true")
    }

    /// What a `requestId` belongs to.
    pub fn repeat_key(&self) -> String {
        format!("{} {}", self.method, self.path("zone"))
    }
}

fn read_query(
    document: &Document,
    method: &Method,
    query: &str,
) -> Result<BTreeMap<String, String>, Refusal> {
    let mut read = BTreeMap::new();
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        let own = method.parameters.get(name.as_ref());
        let Some(_) = own.filter(|parameter| parameter["location"] == "query") else {
            // The parameters of all methods may also be written with a dollar.
            let common = name.trim_start_matches('$');
            if document.common.contains_key(common) || name == VERSION {
                read.insert(common.to_owned(), value.into_owned());
                continue;
            }
            return Err(Refusal::bad_request(&format!(
                "Invalid JSON payload received. Unknown name \"{name}\": Cannot bind query \
                 parameter. Field '{name}' could not be found in request message."
            )));
        };
        check_parameter(method, &name, &value)?;
        if read.insert(name.to_string(), value.into_owned()).is_some() {
            let message = format!(
                "Invalid value at '{name}': Cannot bind non-repeating query parameter twice."
            );
            return Err(Refusal::bad_request(&message));
        }
    }
    Ok(read)
}

/// A parameter is text in any case; what it stands for must be of its type.
fn check_parameter(method: &Method, name: &str, value: &str) -> Result<(), Refusal> {
    let Some(parameter) = method.parameters.get(name) else {
        return Ok(());
    };
    let text = Value::from(value);
    let typed = match parameter["type"].as_str() {
        // An empty one is as good as none.
        Some("integer" | "boolean") if value.is_empty() => return Ok(()),
        Some("integer" | "boolean") => serde_json::from_str(value).unwrap_or(text),
        _ => text,
    };
    let Some(problem) = scalar(parameter, &typed) else {
        return Ok(());
    };
    let at = name.to_owned();
    if let Problem::Type(kind, _) = problem {
        let message = format!("Invalid value at '{at}' ({kind}), \"{value}\"");
        return Err(Refusal::bad_request(&message));
    }
    Err(Refusal::of_violation(&Violation { at, problem }))
}

fn read_body(document: &Document, method: &Method, body: &[u8]) -> Result<Value, Refusal> {
    let Some(schema) = &method.request else {
        if body.iter().all(u8::is_ascii_whitespace) || body == b"{}" {
            return Ok(Value::Null);
        }
        let message = "Invalid JSON payload received. This method takes no body.";
        return Err(Refusal::bad_request(message));
    };
    let value: Value = serde_json::from_slice(body).map_err(|error| {
        Refusal::bad_request(&format!("Invalid JSON payload received. {error}"))
    })?;
    let check = Check::of_request(document, &method.id);
    match check.against(schema, &value, "resource").first() {
        Some(violation) => Err(Refusal::of_violation(violation)),
        None => Ok(value),
    }
}

fn percent_decoded(text: &str) -> String {
    let pair = format!("x={}", text.replace('+', "%2B"));
    let decoded = url::form_urlencoded::parse(pair.as_bytes()).next();
    decoded.map_or_else(|| text.to_owned(), |(_, value)| value.into_owned())
}
