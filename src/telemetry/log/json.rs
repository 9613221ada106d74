//! Lines for machines: `{"ts":…,"level":…,"target":…,"msg":…,` and then the fields.

use super::Line;
use serde::ser::{Serialize, SerializeMap, Serializer};

/// A line as one JSON object.
pub fn line(line: &Line<'_>) -> Vec<u8> {
    // Strings, numbers and string keys always serialize.
    let mut bytes = serde_json::to_vec(line).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// The line that says how many others were lost.
pub fn dropped(count: u64) -> String {
    super::dropped(count, line)
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("ts", &format_args!("{:.6}", self.at))?;
        line.serialize_entry("level", self.level)?;
        line.serialize_entry("target", self.target)?;
        line.serialize_entry("msg", self.message)?;
        for (name, value) in self.fields {
            line.serialize_entry(name, value)?;
        }
        line.end()
    }
}
