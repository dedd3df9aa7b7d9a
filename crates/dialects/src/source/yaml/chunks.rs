//! Where one YAML document ends and the next begins, before anything is parsed.
//!
//! A line that begins with `---` and white space is a document marker whatever stands around it, even inside quotes
//! or a block. So a text can be cut there without understanding it, and a parser of its own for each piece never
//! carries an error, an anchor or a buffer over to the next. Only directives (`%YAML`) stand before their marker.

use memchr::memmem::Finder;

/// The pieces of a text, each from its marker (or its directives) up to the next.
#[derive(Debug)]
pub(super) struct Chunks<'s> {
    text: &'s str,
    marker: Finder<'static>,
    /// Where the next piece begins; the end of the text when there is none.
    start: usize,
    /// Where to look for the marker that ends it: behind its own.
    search: usize,
}

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    /// First byte.
    pub(super) start: usize,
    /// One past the last byte.
    pub(super) end: usize,
    /// Where its `---` stands, if it has one.
    pub(super) marker: Option<usize>,
}

/// What a line is, as far as directives go.
#[derive(PartialEq)]
enum Line {
    Blank,
    Directive,
    DocumentEnd,
    Content,
}

// === impl Chunks ===

impl<'s> Chunks<'s> {
    pub(super) fn new(text: &'s str) -> Self {
        let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        Chunks { text, marker: Finder::new("\n---"), start, search: start }
    }

    fn is_marker(&self, at: usize) -> bool {
        let rest = self.text.as_bytes().get(at..).unwrap_or_default();
        rest.starts_with(b"---") && matches!(rest.get(3), None | Some(b' ' | b'\t' | b'\n' | b'\r'))
    }

    /// The first marker at or behind an offset where a line may begin.
    fn find_marker(&self, from: usize) -> Option<usize> {
        let mut from = from;
        loop {
            let rest = self.text.as_bytes().get(from..)?;
            let found = from + self.marker.find(rest)? + 1;
            if self.is_marker(found) {
                return Some(found);
            }
            from = found;
        }
    }

    /// Where the directives of a marker begin; the marker itself if it has none.
    fn with_directives(&self, marker: usize) -> usize {
        let (mut at, mut first) = (marker, marker);
        while at > self.start {
            let head = self.text.as_bytes().get(self.start..at - 1).unwrap_or_default();
            let line = self.start + memchr::memrchr(b'\n', head).map_or(0, |end| end + 1);
            match Line::of(self.text.get(line..at).unwrap_or_default()) {
                Line::Blank => {}
                Line::Directive => first = line,
                Line::DocumentEnd => return first,
                // `%` here is text of the document above.
                Line::Content => return marker,
            }
            at = line;
        }
        first
    }
}

impl Iterator for Chunks<'_> {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        if self.start >= self.text.len() {
            return None;
        }
        let start = self.start;
        if self.search == start && self.is_marker(start) {
            self.search = start + 3;
        }
        let own = self.search.checked_sub(3).filter(|own| *own >= start && self.is_marker(*own));
        let Some(marker) = self.find_marker(self.search) else {
            self.start = self.text.len();
            return Some(Chunk { start, end: self.text.len(), marker: own });
        };
        // Lines above a piece's own marker are its own directives.
        let next = self.with_directives(marker);
        self.start = next;
        self.search = marker + 3;
        if next == start {
            return self.next();
        }
        Some(Chunk { start, end: next, marker: own })
    }
}

// === impl Line ===

impl Line {
    fn of(line: &str) -> Self {
        let text = line.trim_ascii();
        if text.is_empty() || text.starts_with('#') {
            Line::Blank
        } else if line.starts_with('%') {
            Line::Directive
        } else if line.starts_with("...")
            && matches!(line.as_bytes().get(3), None | Some(b' ' | b'\t' | b'\n' | b'\r'))
        {
            Line::DocumentEnd
        } else {
            Line::Content
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(text: &str) -> Vec<&str> {
        Chunks::new(text).map(|chunk| &text[chunk.start..chunk.end]).collect()
    }

    #[test]
    fn markers_cut() {
        assert_eq!(cut("a\n---\nb\n--- c\n---\td\n---"), ["a\n", "---\nb\n", "--- c\n", "---\td\n", "---"]);
        assert_eq!(cut("---\r\na\r\n---\r\nb"), ["---\r\na\r\n", "---\r\nb"]);
        assert_eq!(cut("---\n---\n---\n"), ["---\n", "---\n", "---\n"]);
        assert_eq!(cut("\u{feff}---\na"), ["---\na"]);
        assert_eq!(cut(""), [""; 0]);
    }

    #[test]
    fn other_dashes_do_not() {
        for text in ["a ---\n", "----\n", " ---\n", "a: 1\n---b\n", "--- a\n ---\n----\n"] {
            assert_eq!(cut(text), [text]);
        }
    }

    #[test]
    fn directives_go_with_the_marker_below() {
        assert_eq!(cut("%YAML 1.1\n---\na"), ["%YAML 1.1\n---\na"]);
        assert_eq!(cut("# c\n%YAML 1.1\n# c\n---\na"), ["# c\n", "%YAML 1.1\n# c\n---\na"]);
        assert_eq!(cut("a\n...\n%YAML 1.1\n---\nb"), ["a\n...\n", "%YAML 1.1\n---\nb"]);
        assert_eq!(cut("--- |\n%not\n---\nb"), ["--- |\n%not\n", "---\nb"]);
    }

    #[test]
    fn a_chunk_knows_its_marker() {
        let markers = |text| Chunks::new(text).map(|chunk| chunk.marker).collect::<Vec<_>>();
        assert_eq!(markers("a\n---\nb\n...\n%YAML 1.1\n---\nc"), [None, Some(2), Some(22)]);
        assert_eq!(markers("%YAML 1.1\n---\nc"), [Some(10)]);
    }
}
