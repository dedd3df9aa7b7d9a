//! Values to write, as YAML or JSON that every reader takes for the same.

use std::fmt::Write;

use crate::source::tree::{Node, Value};

/// A value to write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Written {
    /// Text.
    Text(String),
    /// A number.
    Number(i64),
    /// What is the same in YAML and JSON without quotes and is no whole number: a fraction, a truth value, null.
    Bare(String),
    /// A list.
    List(Vec<Written>),
    /// A mapping, in this order.
    Map(Vec<(String, Written)>),
}

/// What YAML takes for something else than text, in lower case.
const WORDS: [&str; 11] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"];

/// The objects as YAML documents.
pub fn yaml(objects: &[Written]) -> String {
    let texts: Vec<String> = objects
        .iter()
        .map(|object| {
            let mut out = String::new();
            object.yaml(0, &mut out);
            out
        })
        .collect();
    texts.join("---\n")
}

/// The objects as one JSON list.
pub fn json(objects: &[Written]) -> String {
    let list = Written::Map(vec![
        ("apiVersion".to_owned(), Written::text("v1")),
        ("kind".to_owned(), Written::text("List")),
        ("items".to_owned(), Written::List(objects.to_vec())),
    ]);
    let mut out = String::new();
    list.json(0, &mut out);
    out + "\n"
}

// === impl Written ===

impl Written {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Written::Text(text.into())
    }

    /// A mapping of those fields that are there.
    pub fn map<'k>(fields: impl IntoIterator<Item = (&'k str, Option<Written>)>) -> Self {
        let there = |(key, value): (&str, Option<Written>)| Some((key.to_owned(), value?));
        Written::Map(fields.into_iter().filter_map(there).collect())
    }

    /// The value of a key of a mapping.
    pub fn get(&self, key: &str) -> Option<&Written> {
        match self {
            Written::Map(entries) => entries.iter().find(|(known, _)| known == key).map(|(_, value)| value),
            _ => None,
        }
    }

    fn yaml(&self, depth: usize, out: &mut String) {
        let indent = "  ".repeat(depth);
        match self {
            Written::Map(entries) => {
                for (key, value) in entries {
                    let _ = write!(out, "{indent}{}:", scalar(key));
                    value.yaml_below(depth, out);
                }
            }
            Written::List(items) => {
                for item in items {
                    // A list stands as deep as its key; its items are written one step deeper, behind the dash.
                    let mut text = String::new();
                    match item {
                        Written::Map(entries) if !entries.is_empty() => item.yaml(depth + 1, &mut text),
                        item => {
                            item.yaml_below(depth, &mut text);
                            text.insert_str(0, &indent);
                        }
                    }
                    let rest = text.trim_start_matches(' ');
                    let _ = write!(out, "{indent}- {rest}");
                }
            }
            scalar => scalar.yaml_below(depth, out),
        }
    }

    /// The value behind a key.
    fn yaml_below(&self, depth: usize, out: &mut String) {
        match self {
            Written::Text(text) => {
                let _ = writeln!(out, " {}", scalar(text));
            }
            Written::Number(number) => {
                let _ = writeln!(out, " {number}");
            }
            Written::Bare(text) => {
                let _ = writeln!(out, " {text}");
            }
            Written::List(items) if items.is_empty() => out.push_str(" []\n"),
            Written::Map(entries) if entries.is_empty() => out.push_str(" {}\n"),
            Written::List(_) => {
                out.push('\n');
                self.yaml(depth, out);
            }
            Written::Map(_) => {
                out.push('\n');
                self.yaml(depth + 1, out);
            }
        }
    }

    fn json(&self, depth: usize, out: &mut String) {
        let (indent, end) = ("  ".repeat(depth + 1), "  ".repeat(depth));
        let comma = |index: usize| if index == 0 { "" } else { "," };
        match self {
            Written::Text(text) => out.push_str(&quoted(text)),
            Written::Number(number) => {
                let _ = write!(out, "{number}");
            }
            Written::Bare(text) => out.push_str(text),
            Written::List(items) if items.is_empty() => out.push_str("[]"),
            Written::Map(entries) if entries.is_empty() => out.push_str("{}"),
            Written::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    let _ = write!(out, "{}\n{indent}", comma(index));
                    item.json(depth + 1, out);
                }
                let _ = write!(out, "\n{end}]");
            }
            Written::Map(entries) => {
                out.push('{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    let _ = write!(out, "{}\n{indent}{}: ", comma(index), quoted(key));
                    value.json(depth + 1, out);
                }
                let _ = write!(out, "\n{end}}}");
            }
        }
    }

    /// The same with every list sorted, for comparing what means the same.
    #[must_use]
    pub fn sorted(self) -> Self {
        match self {
            Written::List(items) => {
                let mut items: Vec<Written> = items.into_iter().map(Written::sorted).collect();
                items.sort();
                items.dedup();
                Written::List(items)
            }
            Written::Map(entries) => {
                let mut entries: Vec<(String, Written)> =
                    entries.into_iter().map(|(key, value)| (key, value.sorted())).collect();
                entries.sort();
                Written::Map(entries)
            }
            scalar => scalar,
        }
    }
}

impl From<&Node<'_>> for Written {
    /// What is written there, without its places. A key that is written twice counts once, with its last value.
    fn from(node: &Node<'_>) -> Self {
        match &node.value {
            Value::Null => Written::Bare("null".to_owned()),
            Value::Bool(truth) => Written::Bare(truth.to_string()),
            Value::Integer(number) => Written::Number(*number),
            Value::Float(number) => Written::Bare(number.to_string()),
            Value::String(text) => Written::text(text.as_ref()),
            Value::List(items) => Written::List(items.iter().map(Written::from).collect()),
            Value::Map(entries) => {
                let mut fields: Vec<(String, Written)> = Vec::with_capacity(entries.len());
                for entry in entries {
                    let value = Written::from(&entry.value);
                    match fields.iter_mut().find(|(key, _)| *key == entry.key) {
                        Some(field) => field.1 = value,
                        None => fields.push((entry.key.to_string(), value)),
                    }
                }
                Written::Map(fields)
            }
        }
    }
}

/// Text as a YAML scalar: bare where no reader could take it for anything else.
fn scalar(text: &str) -> String {
    let first = text.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    let word = WORDS.contains(&text.to_ascii_lowercase().as_str());
    let dots = text.split('/').next().is_some_and(|head| head.parse::<std::net::Ipv4Addr>().is_ok());
    if plain && !word && (first || dots) { text.to_owned() } else { quoted(text) }
}

/// Text in double quotes, the same in YAML and JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() || "\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}".contains(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_never_taken_for_something_else() {
        for (text, want) in [
            ("web", "web"),
            ("kubernetes.io/metadata.name", "kubernetes.io/metadata.name"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("true", "\"true\""),
            ("No", "\"No\""),
            ("1e3", "\"1e3\""),
            ("10.0", "\"10.0\""),
            ("", "\"\""),
            ("2001:db8::/32", "\"2001:db8::/32\""),
            ("a\u{85}\"\\", "\"a\\u0085\\\"\\\\\""),
        ] {
            assert_eq!(scalar(text), want);
        }
    }

    #[test]
    fn lists_and_mappings_nest() {
        let text = |text: &str| Written::text(text);
        let map = |key: &str, value| Written::Map(vec![(key.to_owned(), value)]);
        let value = map(
            "a",
            Written::List(vec![
                map("b", Written::List(vec![text("x"), Written::Number(1), Written::Bare("1.5".to_owned())])),
                Written::Map(Vec::new()),
                map("c", map("d", text("y"))),
            ]),
        );
        let mut out = String::new();
        value.yaml(0, &mut out);
        assert_eq!(out, "a:\n- b:\n  - x\n  - 1\n  - 1.5\n- {}\n- c:\n    d: \"y\"\n");
    }
}
