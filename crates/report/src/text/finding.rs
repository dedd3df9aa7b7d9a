//! Diagnostics for people, with the line they are about and a caret.

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use palisade_model::diagnostic::{Diagnostic, Severity};

use super::{Text, escape};
use crate::diagnostics::SourcesByName;
use crate::style::Look;

/// A line longer than this is cut around the place that matters.
const LONGEST_LINE: usize = 400;

/// One diagnostic, with the source line where there is one.
pub fn render(diagnostic: &Diagnostic, texts: &SourcesByName<'_>, look: Look) -> Text {
    let level = match diagnostic.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let subject = diagnostic.subject.as_ref().map(ToString::to_string).filter(|subject| !subject.is_empty());
    let about = match (subject, diagnostic.field.is_empty()) {
        (Some(subject), false) => Some(escape(&format!("{subject}, {}", diagnostic.field))),
        (Some(subject), true) => Some(escape(&subject)),
        (None, false) => Some(escape(&diagnostic.field)),
        (None, true) => None,
    };
    // The renderer breaks lines and colours them; nothing that it is given does.
    let (message, label) = (escape(&diagnostic.message), diagnostic.label.as_deref().map(escape));
    let help = diagnostic.help.as_deref().map(escape);
    let file = diagnostic.location.as_ref().map(|at| escape(&at.file)).unwrap_or_default();
    let title = level.primary_title(message.as_str()).id(diagnostic.code.id);
    let quoted = diagnostic.location.as_ref().and_then(|at| {
        let source = texts.get(&*at.file)?;
        let (line, start) = source.excerpt(at.line as usize - 1, at.column as usize - 1, LONGEST_LINE);
        Some((at, excerpt(line, start, at.width as usize)))
    });
    let mut group = Group::with_title(title);
    if let Some((at, (line, mark))) = &quoted {
        let mark = AnnotationKind::Primary.span(mark.clone());
        let mark = match &label {
            Some(label) => mark.label(label.as_str()),
            None => mark,
        };
        let snippet =
            Snippet::source(line.as_str()).line_start(at.line as usize).path(file.as_str()).annotation(mark);
        group = group.element(snippet);
    } else if let Some(at) = &diagnostic.location {
        let origin = annotate_snippets::Origin::path(file.as_str());
        group = group.element(origin.line(at.line as usize).char_column(at.column as usize));
    }
    if let Some(about) = &about {
        group = group.element(Level::NOTE.with_name("in").message(about.as_str()));
    }
    if let Some(help) = &help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    let renderer = if look.color { Renderer::styled() } else { Renderer::plain() };
    let text = renderer.decor_style(DecorStyle::Unicode).term_width(look.width).render(&[group]);
    Text(text + "\n")
}

/// Escapes a line of a file, and returns the byte range of the `width` characters from the `start`th on in it.
fn excerpt(line: &str, start: usize, width: usize) -> (String, std::ops::Range<usize>) {
    let byte = |index: usize| line.char_indices().nth(index).map_or(line.len(), |(byte, _)| byte);
    let (from, end) = (byte(start), byte(start.saturating_add(width)));
    // Indentation stays what it looks like.
    let shown = |part: &str| escape(&part.replace('\t', "    "));
    let (before, marked) = (shown(&line[..from]), shown(&line[from..end]));
    let mark = before.len()..before.len() + marked.len();
    (before + &marked + &shown(&line[end..]), mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_below_what_it_is_about() {
        assert_eq!(excerpt("a: b", 3, 1), ("a: b".to_owned(), 3..4));
        assert_eq!(excerpt("\ta\u{1b}: b\u{202e}c", 5, 2), ("    a\\x1b: b\\u{202e}c".to_owned(), 11..20));
        assert_eq!(excerpt("ab", 7, 3), ("ab".to_owned(), 2..2));
    }
}
