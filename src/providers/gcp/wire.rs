//! The wire log: what is asked of Google and what it answers, at level trace.
//!
//! Google's client offers no look at its bytes, so what is shown is the model that it writes and the one
//! that it read: the same fields under the same names, those included that the model does not know.
//! Neither headers nor what goes on with token servers is ever shown, and no user-data.

use super::classify::Refusal;
use serde::Serialize;
use serde_json::Value;
use tracing::Level;

/// Longer strings are elided, unless all is wanted.
const LONG: usize = 1 << 10;
/// Fields that hold secrets wherever they stand.
const SECRETS: [&str; 6] = [
    "access_token",
    "authorization",
    "client_secret",
    "id_token",
    "private_key",
    "refresh_token",
];

/// What the wire log shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire {
    /// Whether strings are shown whole, however long they are.
    pub full: bool,
}

impl Wire {
    /// Whether anybody reads it.
    #[must_use]
    pub fn is_on(self) -> bool {
        tracing::enabled!(Level::TRACE)
    }

    /// Shows a request.
    pub fn request(self, method: &str, path: &str, body: Option<&dyn Shown>) {
        if self.is_on() {
            let body = body.map_or(String::new(), |body| self.text(body));
            tracing::trace!(direction = "request", method, path, body, "Compute Engine");
        }
    }

    /// Shows an answer.
    pub fn answer(self, method: &str, path: &str, body: &dyn Shown) {
        if self.is_on() {
            let body = self.text(body);
            tracing::trace!(direction = "answer", method, path, body, "Compute Engine");
        }
    }

    /// Shows that there is none, or none that is of use.
    pub fn refusal(self, method: &str, path: &str, refusal: &Refusal) {
        if self.is_on() {
            let (fault, error) = (&refusal.fault, &refusal.message);
            tracing::trace!(
                direction = "answer",
                method,
                path,
                ?fault,
                error,
                "Compute Engine"
            );
        }
    }

    fn text(self, body: &dyn Shown) -> String {
        let Some(mut body) = body.json() else {
            return "(not to be shown)".to_owned();
        };
        redact(&mut body, self.full, false);
        body.to_string()
    }
}

/// What can be shown.
pub trait Shown: Sync {
    /// All of it.
    fn json(&self) -> Option<Value>;
}

impl<T: Serialize + Sync> Shown for T {
    fn json(&self) -> Option<Value> {
        serde_json::to_value(self).ok()
    }
}

/// Takes out of `value` what must not be shown, and what is too long. Values of metadata are never shown:
/// one is the user-data.
fn redact(value: &mut Value, full: bool, in_metadata: bool) {
    match value {
        Value::String(text) => {
            if text.contains("#cloud-config") {
                *text = hidden(text);
            } else if !full && text.len() > LONG {
                *text = format!("({} bytes, elided)", text.len());
            }
        }
        Value::Array(items) => {
            for item in items {
                redact(item, full, in_metadata);
            }
        }
        Value::Object(fields) => {
            let is_user_data = fields.get("key").and_then(Value::as_str) == Some("user-data");
            for (name, value) in fields {
                let secret = SECRETS.contains(&name.to_ascii_lowercase().as_str());
                let secret = secret || name == "value" && (in_metadata || is_user_data);
                if secret {
                    *value = Value::String(hidden(value.as_str().unwrap_or_default()));
                } else {
                    redact(value, full, in_metadata || name == "metadata");
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn hidden(text: &str) -> String {
    format!("({} bytes, never shown)", text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(body: &Value, full: bool) -> Value {
        let text = Wire { full }.text(body);
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn user_data_and_tokens_are_never_shown() {
        let body = json!({
            "name": "proxy-x",
            "metadata": {"items": [
                {"key": "user-data", "value": "s3ntinel"},
                {"key": "ssh-keys", "value": "s3ntinel"},
            ]},
            "elsewhere": [{"key": "user-data", "value": "s3ntinel"}, "#cloud-config\ns3ntinel"],
            "access_token": "s3ntinel",
            "labels": {"proxy-operator-uid": "u"},
        });
        for full in [false, true] {
            let shown = shown(&body, full);
            assert!(!shown.to_string().contains("s3ntinel"), "{shown}");
            assert_eq!(shown["name"], "proxy-x");
            assert_eq!(shown["labels"]["proxy-operator-uid"], "u");
            assert_eq!(
                shown["metadata"]["items"][0]["value"],
                "(8 bytes, never shown)"
            );
        }
    }

    #[test]
    fn long_strings_are_elided_unless_all_is_wanted() {
        let (short, long) = ("x".repeat(1024), "x".repeat(1025));
        let body = json!({"short": short, "long": [long]});
        assert_eq!(shown(&body, true), body);
        let elided = json!({"short": short, "long": ["(1025 bytes, elided)"]});
        assert_eq!(shown(&body, false), elided);
    }
}
