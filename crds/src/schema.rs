//! What every schema of ours goes through so that the API server takes it as it is meant.

use schemars::{Schema, transform::transform_subschemas};
use serde_json::{Map, Value};

/// Rewrites what schemars says about Rust's types into what Kubernetes expects of an API.
///
/// - `Option` means "may be left out" and not "may be null": a null is refused by its type, so that
///   no rule has to tell the two apart.
/// - A description is one line: where a Rust comment is broken is no matter of `kubectl explain`.
/// - Unsigned formats are none of those that Kubernetes knows; it checks int32 and int64.
pub(crate) fn kubernetes(schema: &mut Schema) {
    transform_subschemas(&mut kubernetes, schema);
    let Some(object) = schema.as_object_mut() else {
        return;
    };
    unwrap_option(object);
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    let format = match object.get("format").and_then(Value::as_str) {
        Some("uint8" | "uint16" | "uint32") => "int32",
        Some("uint64") => "int64",
        _ => return,
    };
    object.insert("format".into(), format.into());
}

fn unwrap_option(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    let Some(Value::Array(choices)) = object.get("anyOf") else {
        return;
    };
    let mut real = choices
        .iter()
        .filter(|choice| choice.get("type").is_none_or(|name| name != "null"));
    if let (Some(Value::Object(only)), None) = (real.next().cloned(), real.next()) {
        object.remove("anyOf");
        // The field's own description stays: it says more than the type's.
        for (key, value) in only {
            object.entry(key).or_insert(value);
        }
    }
}
