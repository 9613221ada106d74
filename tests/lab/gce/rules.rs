//! What Google demands of labels, metadata and tags beyond their types.

use super::{refusal::Refusal, schema::matches};
use serde_json::Value;

/// Of a name: RFC 1035.
pub const NAME: &str = "[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?";
/// International letters are allowed, capital ones are not.
const LABEL_KEY: &str = r"[\p{Ll}\p{Lo}][\p{Ll}\p{Lo}\p{N}_-]{0,62}";
const LABEL_VALUE: &str = r"[\p{Ll}\p{Lo}\p{N}_-]{0,63}";
/// Labels of one resource.
const MOST_LABELS: usize = 64;
/// Bytes of a label's key or value; letters beyond ASCII take more than one.
const LONGEST_LABEL: usize = 128;
/// Bytes of one metadata value.
const LONGEST_VALUE: usize = 256 * 1024;
/// Bytes of all keys and values of an instance's metadata.
const MOST_METADATA: usize = 512 * 1024;
/// Network tags of one instance.
const MOST_TAGS: usize = 64;

/// Labels, as they are in a request.
pub fn labels(labels: &Value) -> Result<(), Refusal> {
    const FIELD: &str = "resource.labels";
    let Some(labels) = labels.as_object() else {
        return Ok(());
    };
    if labels.len() > MOST_LABELS {
        let why = format!("Too many labels. Maximum number of labels is {MOST_LABELS}.");
        return Err(Refusal::invalid(FIELD, "", &why));
    }
    for (key, value) in labels {
        let value = value.as_str().unwrap_or("");
        if !matches(LABEL_KEY, key) || key.len() > LONGEST_LABEL {
            let why = format!("Label key '{key}' violates format constraints. {LABEL_WORDS}");
            return Err(Refusal::invalid(FIELD, "", &why));
        }
        if !matches(LABEL_VALUE, value) || value.len() > LONGEST_LABEL {
            let why = format!("Label value '{value}' violates format constraints. {LABEL_WORDS}");
            return Err(Refusal::invalid(FIELD, "", &why));
        }
    }
    Ok(())
}

const LABEL_WORDS: &str = "The value can only contain lowercase letters, numeric characters, \
     underscores and dashes. The value can be at most 63 characters long. International characters \
     are allowed.";

/// Metadata, as it is in a request.
pub fn metadata(metadata: &Value) -> Result<(), Refusal> {
    let items = metadata["items"].as_array().map_or(&[][..], Vec::as_slice);
    let mut total = 0;
    let mut keys = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let key = item["key"].as_str().unwrap_or("");
        let value = item["value"].as_str().unwrap_or("");
        let field = format!("resource.metadata.items[{index}]");
        if key.len() > 128 {
            let why = "Metadata key must be at most 128 bytes long.";
            return Err(Refusal::invalid(&format!("{field}.key"), key, why));
        }
        if keys.contains(&key) {
            let why = format!("Metadata has duplicate key: {key}");
            return Err(Refusal::invalid("resource.metadata", "", &why));
        }
        if value.len() > LONGEST_VALUE {
            let size = value.len();
            let why =
                format!("The value is too large: {size} bytes; the maximum is {LONGEST_VALUE}.");
            // The value itself is as long as that.
            return Err(Refusal::invalid(&format!("{field}.value"), "", &why));
        }
        total += key.len() + value.len();
        keys.push(key);
    }
    if total > MOST_METADATA {
        let why =
            format!("Metadata is too large: {total} bytes; the maximum is {MOST_METADATA} bytes.");
        return Err(Refusal::invalid("resource.metadata", "", &why));
    }
    Ok(())
}

/// Network tags, as they are in a request.
pub fn tags(tags: &Value) -> Result<(), Refusal> {
    let items = tags["items"].as_array().map_or(&[][..], Vec::as_slice);
    if items.len() > MOST_TAGS {
        let why = format!("Too many tags. The maximum is {MOST_TAGS}.");
        return Err(Refusal::invalid("resource.tags", "", &why));
    }
    for (index, tag) in items.iter().enumerate() {
        let tag = tag.as_str().unwrap_or("");
        if !matches(NAME, tag) {
            let field = format!("resource.tags.items[{index}]");
            let why = format!("Must be a match of regex '{NAME}'");
            return Err(Refusal::invalid(&field, tag, &why));
        }
    }
    Ok(())
}

/// A `requestId`.
pub fn request_id(id: &str) -> Result<(), Refusal> {
    const UUID: &str = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";
    if matches(UUID, id) && !id.chars().all(|c| c == '0' || c == '-') {
        return Ok(());
    }
    let why = "Must be a valid UUID, and not the zero UUID.";
    Err(Refusal::invalid("requestId", id, why))
}
