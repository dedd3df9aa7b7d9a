//! Objects as text: YAML and JSON as kubectl prints them.

use std::fmt::Write;

use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use serde_json::{Serializer, Value, json};

/// How a world is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A YAML document for each object, as in a repository of manifests.
    Yaml,
    /// One YAML document with all objects, as `kubectl get -o yaml` prints them.
    YamlList,
    /// One JSON document with all objects, as `kubectl get -o json` prints them.
    Json,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 3] = [Format::Yaml, Format::YamlList, Format::Json];

    /// A file name for such a text.
    pub fn file_name(self) -> &'static str {
        match self {
            Format::Yaml => "world.yaml",
            Format::YamlList => "world-list.yaml",
            Format::Json => "world.json",
        }
    }

    /// The text of these objects.
    pub fn write(self, objects: &[Value]) -> String {
        match self {
            Format::Yaml => {
                let mut out = String::new();
                for object in objects {
                    out.push_str("---\n");
                    block(object, 0, &mut out);
                }
                out
            }
            Format::YamlList => {
                let mut out = String::new();
                block(&list(objects), 0, &mut out);
                out
            }
            Format::Json => pretty(&list(objects)),
        }
    }
}

fn list(objects: &[Value]) -> Value {
    json!({"apiVersion": "v1", "items": objects, "kind": "List", "metadata": {"resourceVersion": ""}})
}

/// JSON indented by four, as kubectl has it.
fn pretty(value: &Value) -> String {
    let mut out = Vec::new();
    // Neither writing to a vector nor a tree of plain values can fail.
    let _ = value.serialize(&mut Serializer::with_formatter(&mut out, PrettyFormatter::with_indent(b"    ")));
    out.push(b'\n');
    String::from_utf8_lossy(&out).into_owned()
}

/// YAML in block style; lists are not indented below their key, as kubectl writes them.
fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(entries) if !entries.is_empty() => {
            for (index, (key, value)) in entries.iter().enumerate() {
                // The first key stands where the cursor is: at the start of a line, or behind a dash.
                let margin = if index == 0 && !out.ends_with('\n') { 0 } else { indent };
                let _ = write!(out, "{:margin$}{}:", "", scalar(key));
                match value {
                    Value::Object(inner) if !inner.is_empty() => {
                        out.push('\n');
                        block(value, indent + 2, out);
                    }
                    Value::Array(inner) if !inner.is_empty() => {
                        out.push('\n');
                        block(value, indent, out);
                    }
                    Value::String(text) if text.ends_with('\n') => {
                        out.push_str(" |\n");
                        for line in text.lines() {
                            let margin = indent + 2;
                            let _ = writeln!(out, "{:margin$}{line}", "");
                        }
                    }
                    _ => {
                        out.push(' ');
                        block(value, indent, out);
                    }
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                let _ = write!(out, "{:indent$}- ", "");
                block(item, indent + 2, out);
            }
        }
        Value::Object(_) => out.push_str("{}\n"),
        Value::Array(_) => out.push_str("[]\n"),
        Value::String(text) => {
            let _ = writeln!(out, "{}", scalar(text));
        }
        other => {
            let _ = writeln!(out, "{other}");
        }
    }
}

/// A text with quotes where YAML would read it as something else: a number, a time, a truth value, a mark.
fn scalar(text: &str) -> String {
    let of_digits =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'-' | b':' | b'T' | b'Z');
    let number = text.starts_with(|first: char| first.is_ascii_digit()) && text.bytes().all(of_digits);
    let address = text.matches('.').count() == 3;
    let word = ["", "true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let marked =
        text.starts_with(['*', '&', '!', '%', '@', '`', '{', '[', '-', '?', ':', '#', '|', '>', '"', '\'']);
    let quoted = (number && !address)
        || word.contains(&text.to_ascii_lowercase().as_str())
        || marked
        || text.contains(": ")
        || text.contains(" #");
    if quoted { Value::from(text).to_string() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_looks_as_kubectl_writes_it() {
        let object = json!({
            "kind": "Pod",
            "metadata": {"annotations": {"a": "{}\n"}, "labels": {"app": "web", "hash": "784"}, "name": "web"},
            "spec": {"containers": [{"args": [], "ports": [{"containerPort": 80}, {"containerPort": 81}]}], "x": {}},
            "status": {"podIP": "10.0.0.1", "startTime": "2025-01-02T03:04:05Z", "ready": true},
        });
        let want = "---
kind: Pod
metadata:
  annotations:
    a: |
      {}
  labels:
    app: web
    hash: \"784\"
  name: web
spec:
  containers:
  - args: []
    ports:
    - containerPort: 80
    - containerPort: 81
  x: {}
status:
  podIP: 10.0.0.1
  ready: true
  startTime: \"2025-01-02T03:04:05Z\"
";
        assert_eq!(Format::Yaml.write(&[object]), want);
    }
}
