//! Texts and the trees read from them.
//!
//! YAML and JSON each have a reader of their own: nearly all JSON is also YAML, but the YAML reader is an order of
//! magnitude slower, and what `kubectl get -o json` writes for a cluster is large.

pub mod json;
pub mod limits;
pub mod syntax;
#[cfg(test)]
mod testing;
pub mod tree;
pub mod yaml;

pub use limits::Limits;
pub use syntax::{SyntaxError, SyntaxErrorKind};
pub use tree::{Entry, Node, Source, Span, Value};

/// The documents of a text, one by one, in the format that it is in.
///
/// A name that ends in `.json` says JSON. Otherwise a text is JSON if it looks so: its first document is an object or
/// an array that reads as JSON, and what follows (if anything) begins as another one. `{a: b}` is YAML, and so are
/// JSON objects with `---` in between.
pub fn documents<'s>(
    source: &'s Source,
    limits: &'s Limits,
) -> Box<dyn Iterator<Item = Result<Node<'s>, SyntaxError>> + 's> {
    let mut reader = json::documents(source, limits);
    if source.name().ends_with(".json") {
        return Box::new(reader);
    }
    let opens = |byte: Option<u8>| matches!(byte, Some(b'{' | b'['));
    if opens(reader.peek()) {
        // The first document decides, and is kept: a large one must not be read twice.
        match reader.next() {
            Some(Ok(first)) if reader.peek().is_none() || opens(reader.peek()) => {
                return Box::new(std::iter::once(Ok(first)).chain(reader));
            }
            Some(Err(error)) if error.kind == SyntaxErrorKind::Limit => {
                return Box::new(std::iter::once(Err(error)));
            }
            _ => {}
        }
    }
    Box::new(yaml::documents(source, limits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Vec<Result<String, SyntaxErrorKind>> {
        let source = Source::new(name, text);
        let limits = Limits::default();
        documents(&source, &limits)
            .map(|result| result.map(|node| testing::plain(&node)).map_err(|error| error.kind))
            .collect()
    }

    #[test]
    fn the_first_document_decides() {
        // Only the JSON reader takes two objects without a marker between them.
        assert_eq!(read("f", "{\"a\": 1}\n{\"a\": 2}").len(), 2);
        assert_eq!(read("-", " [1]\n[2]").len(), 2);
        assert_eq!(read("f.yaml", "{\"a\": 1}\n---\n{\"a\": 2}").len(), 2);
        assert_eq!(read("f", "{\"a\": 1} # said so\n").len(), 1);
        assert_eq!(read("f", "{a: b}"), [Ok("{a: 'b'}".to_owned())]);
        assert_eq!(read("f", "[1,\n2,]").len(), 1);
    }

    #[test]
    fn a_name_decides_before_the_text() {
        assert_eq!(read("f.json", "{a: b}"), [Err(SyntaxErrorKind::Syntax)]);
        assert_eq!(read("f.json", "a: b"), [Err(SyntaxErrorKind::Syntax)]);
        assert_eq!(read("f.json", "\"text\""), ["'text'"].map(|text| Ok(text.to_owned())));
    }

    #[test]
    fn too_much_json_is_not_tried_as_yaml() {
        assert_eq!(read("f", &"[".repeat(100_000)), [Err(SyntaxErrorKind::Limit)]);
        assert_eq!(read("f", &"{\"a\":".repeat(100_000)), [Err(SyntaxErrorKind::Limit)]);
    }

    #[test]
    fn nothing_is_no_document() {
        for text in ["", "\n", "\u{feff}", " \r\n", "# only\n# words"] {
            assert_eq!(read("f", text), []);
        }
        assert_eq!(read("f.json", " \n"), []);
    }
}
