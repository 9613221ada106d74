//! Lines for people: time, level, module, message, and then `name=value` for each field.

use super::Line;
use serde_json::Value;
use std::fmt::Write;

const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// A line in black and white.
pub fn line(line: &Line<'_>) -> Vec<u8> {
    render(line, "", "", "")
}

/// A line for a terminal.
pub fn coloured(line: &Line<'_>) -> Vec<u8> {
    let colour = match line.level {
        "ERROR" => "\u{1b}[31m",
        "WARN" => "\u{1b}[33m",
        "INFO" => "\u{1b}[32m",
        "DEBUG" => "\u{1b}[34m",
        _ => "\u{1b}[35m",
    };
    render(line, colour, DIM, PLAIN)
}

/// The line that says how many others were lost.
pub fn dropped(count: u64) -> String {
    super::dropped(count, line)
}

fn render(line: &Line<'_>, colour: &str, dim: &str, plain: &str) -> Vec<u8> {
    let mut text = String::new();
    let (at, level, target) = (line.at, line.level, line.target);
    // Writing to a String cannot fail.
    write!(
        text,
        "{dim}{at:.6}{plain} {colour}{level:>5}{plain} {dim}{target}:{plain} "
    )
    .ok();
    put(&mut text, line.message);
    for (name, value) in line.fields {
        write!(text, " {dim}{name}={plain}").ok();
        match value {
            Value::String(value) if is_word(value) => text.push_str(value),
            value => write!(text, "{value}").unwrap_or_default(),
        }
    }
    text.push('\n');
    text.into_bytes()
}

/// Whether it can stand without quotes.
fn is_word(value: &str) -> bool {
    let quoted = |c: char| c.is_whitespace() || c.is_control() || c == '"';
    !value.is_empty() && !value.contains(quoted)
}

/// What others have said must not pass for a line of its own, nor command a terminal.
fn put(text: &mut String, message: &str) {
    for c in message.chars() {
        if c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn rendered(format: super::super::Format) -> String {
        let fields = json!({
            "latencyMillis": 12,
            "proxy": "ns/a",
            "why": "no \"route\"\n",
            "none": "",
        });
        let fields: Map<_, _> = fields.as_object().expect("an object").clone();
        let line = Line {
            at: "2026-11-30T19:20:00.5Z".parse().expect("a time"),
            level: "WARN",
            target: "actors::proxy",
            message: "two\nlines \u{1b}[31m",
            fields: &fields,
        };
        String::from_utf8(format(&line)).expect("text")
    }

    #[test]
    fn a_line_is_one_line_with_each_field_once() {
        assert_eq!(
            rendered(line),
            "2026-11-30T19:20:00.500000Z  WARN actors::proxy: two\\nlines \\u{1b}[31m latencyMillis=12 \
             none=\"\" proxy=ns/a why=\"no \\\"route\\\"\\n\"\n"
        );
    }

    #[test]
    fn colours_add_nothing_else() {
        let mut text = rendered(coloured);
        assert!(text.contains("\u{1b}[33m WARN"), "{text}");
        for colour in ["\u{1b}[33m", DIM, PLAIN] {
            text = text.replace(colour, "");
        }
        assert_eq!(text, rendered(line));
    }
}
