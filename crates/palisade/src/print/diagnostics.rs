//! Diagnostics for people, with the line they are about and a caret.

use std::collections::BTreeMap;
use std::sync::Arc;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use palisade_dialects::source::tree::Source;
use palisade_model::diagnostic::{Diagnostic, Severity};

use super::style::Look;

/// A line longer than this is cut around the place that matters.
const LONGEST_LINE: usize = 400;

/// The texts by name.
pub type Texts<'s> = BTreeMap<&'s str, &'s Source>;

/// The texts of an input, to quote from.
pub fn texts(sources: &[Arc<Source>]) -> Texts<'_> {
    sources.iter().map(|source| (&**source.name(), &**source)).collect()
}

/// One diagnostic, with the source line where there is one.
pub fn render(diagnostic: &Diagnostic, texts: &Texts<'_>, look: Look) -> String {
    let level = match diagnostic.severity() {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let subject = diagnostic.subject.as_ref().map(ToString::to_string).filter(|subject| !subject.is_empty());
    let about = match (subject, diagnostic.field.is_empty()) {
        (Some(subject), false) => Some(format!("{subject}, {}", diagnostic.field)),
        (Some(subject), true) => Some(subject),
        (None, false) => Some(diagnostic.field.clone()),
        (None, true) => None,
    };
    let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.code.id);
    let quoted = diagnostic.location.as_ref().and_then(|at| {
        let source = texts.get(&*at.file)?;
        Some((at, source.excerpt(at.line as usize - 1, at.column as usize - 1, LONGEST_LINE)))
    });
    let mut group = Group::with_title(title);
    if let Some((at, (line, start))) = &quoted {
        let end = line.char_indices().nth(start + at.width as usize).map_or(line.len(), |(byte, _)| byte);
        let from = line.char_indices().nth(*start).map_or(line.len(), |(byte, _)| byte);
        let mark = AnnotationKind::Primary.span(from..end.max(from));
        let mark = match &diagnostic.label {
            Some(label) => mark.label(label.as_str()),
            None => mark,
        };
        let snippet = Snippet::source(*line).line_start(at.line as usize).path(&*at.file).annotation(mark);
        group = group.element(snippet);
    } else if let Some(at) = &diagnostic.location {
        group = group.element(
            annotate_snippets::Origin::path(&*at.file).line(at.line as usize).char_column(at.column as usize),
        );
    }
    if let Some(about) = &about {
        group = group.element(Level::NOTE.with_name("in").message(about.as_str()));
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    let renderer = if look.color { Renderer::styled() } else { Renderer::plain() };
    let text = renderer.decor_style(DecorStyle::Unicode).term_width(look.width).render(&[group]);
    text + "\n"
}

/// `2 errors, 1 warning`.
pub fn counts(found: &[Diagnostic]) -> String {
    let count = |severity| found.iter().filter(|diagnostic| diagnostic.severity() == severity).count();
    let words = [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Note, "note")]
        .into_iter()
        .map(|(severity, word)| (count(severity), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| plural(count, word))
        .collect::<Vec<_>>();
    if words.is_empty() { "no problems".to_owned() } else { words.join(", ") }
}

/// `1 object`, `2 objects`.
pub fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
