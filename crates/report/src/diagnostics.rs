//! Helpers of all printers of diagnostics: sources to quote from, and counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use palisade_dialects::source::tree::Source;
use palisade_model::diagnostic::{Diagnostic, Severity};

pub use super::text::finding::render;

/// Sources by name, to quote from.
pub type SourcesByName<'s> = BTreeMap<&'s str, &'s Source>;

/// Indexes the sources of an input by name.
pub fn sources_by_name(sources: &[Arc<Source>]) -> SourcesByName<'_> {
    sources.iter().map(|source| (&**source.name(), &**source)).collect()
}

/// Describes the number of diagnostics by severity: `2 errors, 1 warning`.
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

/// Returns a count with its noun: `1 object`, `2 objects`.
pub fn plural(count: usize, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
