//! Whether a JSON value is what a schema of the description says.

use super::document::Document;
use data_encoding::{BASE64, BASE64URL};
use regex::Regex;
use serde_json::{Map, Value};
use std::{
    collections::HashMap,
    sync::{Mutex, OnceLock, PoisonError},
};

/// What is wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Where: `resource.disks[0].boot`.
    pub at: String,
    /// What.
    pub problem: Problem,
}

/// What may be wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// There is no field of this name.
    Unknown(String),
    /// It is not of this type (in the words of Google's parser), but this.
    Type(&'static str, String),
    /// It is none of these values.
    Enum(Vec<String>, String),
    /// It does not match this pattern.
    Pattern(String, String),
    /// It is missing.
    Required,
}

/// What a value is checked for.
pub struct Check<'a> {
    document: &'a Document,
    /// The method whose required fields are asked for: its ID.
    method: Option<&'a str>,
    found: Vec<Violation>,
}

impl<'a> Check<'a> {
    /// One of a request's body to a method.
    pub fn of_request(document: &'a Document, method: &'a str) -> Self {
        Self {
            document,
            method: Some(method),
            found: Vec::new(),
        }
    }

    /// One of an answer.
    pub fn of_answer(document: &'a Document) -> Self {
        Self {
            document,
            method: None,
            found: Vec::new(),
        }
    }

    /// All that is wrong with `value` as a `schema`, which is named.
    pub fn against(mut self, schema: &str, value: &Value, at: &str) -> Vec<Violation> {
        match self.document.schemas.get(schema) {
            Some(schema) => self.value(schema, value, at),
            None => self.wrong(at, Problem::Unknown(schema.to_owned())),
        }
        self.found
    }

    fn wrong(&mut self, at: &str, problem: Problem) {
        let at = at.to_owned();
        self.found.push(Violation { at, problem });
    }

    fn value(&mut self, schema: &Value, value: &Value, at: &str) {
        if let Some(name) = schema["$ref"].as_str() {
            return match self.document.schemas.get(name) {
                Some(schema) => self.value(schema, value, at),
                None => self.wrong(at, Problem::Unknown(name.to_owned())),
            };
        }
        // In a request, null is a field that is not there.
        if value.is_null() && self.method.is_some() {
            return;
        }
        match (schema["type"].as_str(), value) {
            (Some("object"), Value::Object(fields)) => self.object(schema, fields, at),
            (Some("array"), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(&schema["items"], item, &format!("{at}[{index}]"));
                }
            }
            (Some("any"), _) => {}
            _ => {
                let problem = scalar(schema, value).or_else(|| self.unlike_google(schema, value));
                if let Some(problem) = problem {
                    self.wrong(at, problem);
                }
            }
        }
    }

    fn object(&mut self, schema: &Value, fields: &Map<String, Value>, at: &str) {
        let known = schema["properties"].as_object();
        for (name, value) in fields {
            let inside = format!("{at}.{name}");
            if let Some(schema) = known.and_then(|known| known.get(name)) {
                self.value(schema, value, &inside);
            } else if schema["additionalProperties"].is_object() {
                self.value(&schema["additionalProperties"], value, &inside);
            } else {
                self.wrong(at, Problem::Unknown(name.clone()));
            }
        }
        for (name, schema) in known.into_iter().flatten() {
            let missing = fields.get(name).is_none_or(Value::is_null);
            if missing && self.is_required(schema) {
                self.wrong(&format!("{at}.{name}"), Problem::Required);
            }
        }
    }

    /// Google takes bytes in either alphabet of base64, and writes them in the URL-safe one.
    fn unlike_google(&self, schema: &Value, value: &Value) -> Option<Problem> {
        let bytes = value.as_str().filter(|_| schema["format"] == "byte")?;
        let safe = self.method.is_some() || !bytes.contains(['+', '/']);
        (!safe).then(|| Problem::Type("TYPE_BYTES", bytes.to_owned()))
    }

    fn is_required(&self, schema: &Value) -> bool {
        let required = schema["annotations"]["required"].as_array();
        required
            .into_iter()
            .flatten()
            .any(|id| id.as_str() == self.method && self.method.is_some())
    }
}

/// What is wrong with a string, a number or a boolean.
pub fn scalar(schema: &Value, value: &Value) -> Option<Problem> {
    let format = schema["format"].as_str().unwrap_or("");
    let name = match (schema["type"].as_str().unwrap_or(""), format) {
        ("string", "int64") => "TYPE_INT64",
        ("string", "uint64") => "TYPE_UINT64",
        ("string", "byte") => "TYPE_BYTES",
        ("string", _) => "TYPE_STRING",
        ("integer", "uint32") => "TYPE_UINT32",
        ("integer", _) => "TYPE_INT32",
        ("number", _) => "TYPE_DOUBLE",
        ("boolean", _) => "TYPE_BOOL",
        ("array", _) => "TYPE_LIST",
        _ => "TYPE_MESSAGE",
    };
    let fits = match (name, value) {
        ("TYPE_INT64", Value::String(text)) => text.parse::<i64>().is_ok(),
        ("TYPE_UINT64", Value::String(text)) => text.parse::<u64>().is_ok(),
        ("TYPE_BYTES", Value::String(text)) => {
            BASE64.decode(text.as_bytes()).is_ok() || BASE64URL.decode(text.as_bytes()).is_ok()
        }
        ("TYPE_STRING", Value::String(_))
        | ("TYPE_BOOL", Value::Bool(_))
        | ("TYPE_DOUBLE", Value::Number(_)) => true,
        ("TYPE_UINT32", Value::Number(n)) => n.as_u64().is_some_and(|n| u32::try_from(n).is_ok()),
        ("TYPE_INT32", Value::Number(n)) => n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        _ => false,
    };
    if !fits {
        return Some(Problem::Type(name, value.to_string()));
    }
    let text = value.as_str()?;
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.iter().any(|one| one == text)
    {
        let allowed = allowed.iter().filter_map(Value::as_str);
        return Some(Problem::Enum(
            allowed.map(ToOwned::to_owned).collect(),
            text.to_owned(),
        ));
    }
    let pattern = schema["pattern"].as_str()?;
    (!matches(pattern, text)).then(|| Problem::Pattern(pattern.to_owned(), text.to_owned()))
}

/// Whether all of `text` matches `pattern`; a pattern that cannot be read matches nothing.
pub fn matches(pattern: &str, text: &str) -> bool {
    static PATTERNS: OnceLock<Mutex<HashMap<String, Option<Regex>>>> = OnceLock::new();
    let patterns = PATTERNS.get_or_init(Mutex::default);
    let mut patterns = patterns.lock().unwrap_or_else(PoisonError::into_inner);
    let compiled = patterns
        .entry(pattern.to_owned())
        .or_insert_with(|| Regex::new(&format!("^(?:{pattern})$")).ok());
    compiled.as_ref().is_some_and(|regex| regex.is_match(text))
}
