//! Documents in formats that quote by rules of their own. Each is made from values by the writer of that format, which keeps
//! data inside its strings; here characters that are not visible become that format's escapes, so that a document on a terminal
//! is as harmless as any other text.

use std::fmt::Write;

use palisade_dialects::written::{self, Written};
use serde::Serialize;

use super::{Text, is_unseen};

/// Serializes a value as JSON over several lines, with a final line break.
pub fn json(value: &impl Serialize) -> Text {
    // None of these types can fail to serialise: no maps with odd keys, no numbers that JSON lacks.
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    quoted(&text, Escape::Json)
}

/// Serializes a value as JSON in one line, without a line break.
pub fn json_line(value: &impl Serialize) -> Text {
    quoted(&serde_json::to_string(value).unwrap_or_default(), Escape::Json)
}

/// Serializes a value as JSON for a `<script>` element of an HTML page: it can end no element and begin no comment.
pub fn json_in_html(value: &impl Serialize) -> Text {
    quoted(&serde_json::to_string(value).unwrap_or_default(), Escape::Html)
}

/// Serializes objects as YAML documents.
pub fn yaml(objects: &[Written]) -> Text {
    quoted(&written::yaml(objects), Escape::Yaml)
}

/// Serializes objects as one JSON list.
pub fn json_list(objects: &[Written]) -> Text {
    quoted(&written::json(objects), Escape::Json)
}

/// Syntax of the escapes of a format.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    Json,
    /// JSON within HTML.
    Html,
    Yaml,
}

/// A document with what is unseen in its strings, and what CI runners would take for a command, as escapes of its format. Line
/// breaks are the writer's: each of these formats has none in a string.
fn quoted(document: &str, format: Escape) -> Text {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) || byte == b'\n';
    if format != Escape::Html && document.bytes().all(is_plain) && !document.contains("##") {
        return Text(document.to_owned());
    }
    let mut out = String::with_capacity(document.len());
    let mut last = '\n';
    for c in document.chars() {
        let hash = c == '#' && last == '#';
        let markup = format == Escape::Html && matches!(c, '<' | '>' | '&');
        last = c;
        if c == '\n' || !(hash || markup || is_unseen(c)) {
            out.push(c);
            continue;
        }
        // Writing to a string does not fail.
        let _ = match format {
            Escape::Json | Escape::Html => {
                c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))
            }
            Escape::Yaml => write!(out, "\\U{:08x}", u32::from(c)),
        };
    }
    Text(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_the_same_value_and_shows_what_is_in_it() {
        let value = "a\n\u{1b}\u{7f}\u{9b}\u{202e}\u{e0041}##[error]</script>";
        for text in [json(&value), json_line(&value), json_in_html(&value)] {
            assert!(!text.as_str().trim_end().contains(is_unseen), "{text}");
            assert!(!text.as_str().contains("##"), "{text}");
            assert_eq!(serde_json::from_str::<String>(text.as_str()).unwrap(), value);
        }
        assert!(!json_in_html(&value).as_str().contains('<'));
    }

    #[test]
    fn yaml_is_the_same_value_and_shows_what_is_in_it() {
        let value = "a\n\u{1b}\u{7f}\u{9b}\u{202e}\u{e0041}##[error]";
        let text = yaml(&[Written::Map(vec![(value.to_owned(), Written::text(value))])]);
        assert!(!text.as_str().trim_end().contains(is_unseen), "{text}");
        let source = palisade_dialects::source::tree::Source::new("f.yaml", text.as_str());
        let limits = palisade_dialects::source::Limits::default();
        let node = palisade_dialects::source::documents(&source, &limits).next().unwrap().unwrap();
        assert_eq!(Written::from(&node), Written::Map(vec![(value.to_owned(), Written::text(value))]));
    }
}
