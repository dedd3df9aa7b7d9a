//! Diagnostics as SARIF 2.1.0, which code scanning services read.

use crate::text::Text;
use palisade_model::diagnostic::{Code, Diagnostic, Location, Severity};
use serde_json::{Value, json};

/// Prints diagnostics as one run; every code that occurs is described.
pub fn sarif(found: &[Diagnostic]) -> Text {
    let mut codes: Vec<&'static Code> = found.iter().map(|diagnostic| diagnostic.code).collect();
    codes.sort_by_key(|code| code.id);
    codes.dedup_by_key(|code| code.id);
    let rules: Vec<Value> = codes.iter().map(|code| rule(code)).collect();
    let results: Vec<Value> = found.iter().map(|diagnostic| result(diagnostic, &codes)).collect();
    document(&rules, &results)
}

/// Prints a run of this tool.
pub fn document(rules: &[Value], results: &[Value]) -> Text {
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {"name": "palisade", "version": env!("CARGO_PKG_VERSION"), "rules": rules}},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    super::text::documents::json(&log)
}

fn rule(code: &Code) -> Value {
    json!({
        "id": code.id,
        "shortDescription": {"text": code.title},
        "fullDescription": {"text": code.explanation},
        "help": {"text": code.explanation, "markdown": code.explanation},
        "defaultConfiguration": {"level": level(code.severity)},
    })
}

fn result(diagnostic: &Diagnostic, codes: &[&'static Code]) -> Value {
    let subject = diagnostic.subject.as_ref().map(ToString::to_string).unwrap_or_default();
    let about = match (subject.is_empty(), diagnostic.field.is_empty()) {
        (false, false) => format!("{subject}, {}: ", diagnostic.field),
        (false, true) => format!("{subject}: "),
        (true, false) => format!("{}: ", diagnostic.field),
        (true, true) => String::new(),
    };
    let help = diagnostic.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
    let mut result = json!({
        "ruleId": diagnostic.code.id,
        "ruleIndex": codes.iter().position(|code| code.id == diagnostic.code.id),
        "level": level(diagnostic.severity()),
        "message": {"text": format!("{about}{}{help}", diagnostic.message)},
    });
    if let Some(at) = &diagnostic.location {
        result["locations"] = json!([location(at)]);
    }
    result
}

/// Converts a location to a SARIF location.
pub fn location(at: &Location) -> Value {
    json!({
        "physicalLocation": {
            "artifactLocation": {"uri": uri(&at.file)},
            "region": {"startLine": at.line, "startColumn": at.column, "endColumn": at.column + at.width},
        },
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// Converts a path to a URI reference: percent-encoded, slashes excepted.
fn uri(path: &str) -> String {
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                uri.push(char::from(byte));
            }
            other => uri.push_str(&format!("%{other:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri("a/b c<d>.yaml"), "a/b%20c%3Cd%3E.yaml");
    }
}
