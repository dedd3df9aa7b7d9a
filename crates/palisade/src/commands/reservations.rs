//! What of the input makes an answer less sure, for commands that answer from whatever could be read.

use palisade_agent::manifests::last_good::loses_an_object;
use palisade_dialects::codes;
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_report::style::Look;
use palisade_report::text::Text;

/// What of the input makes an answer less sure: errors, and what was left out, replaced or read as something else.
pub fn weighty(found: &[Diagnostic]) -> impl Iterator<Item = &Diagnostic> {
    let matters = |code: &Code| {
        code.severity == Severity::Error || LEFT_OUT.contains(&code.id) || DOUBTFUL.contains(&code.id)
    };
    found.iter().filter(move |diagnostic| matters(diagnostic.code))
}

/// Codes that mean that a document, or one of two, takes no part in any answer.
static LEFT_OUT: &[&str] = &[
    codes::UNREADABLE_FILE.id,
    codes::LINK.id,
    codes::SYNTAX.id,
    codes::LIMIT.id,
    codes::NOT_UTF8.id,
    codes::NOT_AN_OBJECT.id,
    codes::UNKNOWN_KIND.id,
    codes::NO_KIND.id,
    codes::FOREIGN_POLICY.id,
    codes::DUPLICATE_OBJECT.id,
    codes::NO_NAME.id,
];

/// Warnings about what was read as something that another reader may read otherwise.
static DOUBTFUL: &[&str] = &[
    "L0111",
    "L0112",
    codes::UNKNOWN_FIELD.id,
    codes::ADMIN_LEGACY.id,
    codes::ADMIN_NULL_LABEL.id,
    codes::ADMIN_NAMES.id,
];

/// The same in words, for standard error.
pub fn reservations(found: &[Diagnostic], look: Look) -> Text {
    let (too_much, found): (Vec<&Diagnostic>, Vec<&Diagnostic>) =
        weighty(found).partition(|diagnostic| diagnostic.code.id == codes::WORK.id);
    let (left_out, doubtful): (Vec<&Diagnostic>, Vec<&Diagnostic>) = found
        .into_iter()
        .partition(|diagnostic| LEFT_OUT.contains(&diagnostic.code.id) || loses_an_object(diagnostic));
    let mut out = Text::new();
    let mut say = |problems: &[&Diagnostic], what: &str| {
        // What is wrong weighs more than what is only unknown.
        let wrong = problems.iter().find(|problem| problem.is_error());
        let Some(first) = wrong.or(problems.first()) else { return };
        let at = first.location.as_ref().map(|at| format!("{at}: ")).unwrap_or_default();
        let more = match problems.len() {
            1 => String::new(),
            count => format!(" (and {} more)", count - 1),
        };
        write_line!(out, "{} {what}: {at}{}{more}", look.warning("warning:"), first.message);
    };
    say(&left_out, "left out of this answer, so the cluster may say otherwise");
    say(&doubtful, "not as the API wants it; what cannot be read fails closed");
    if !out.is_empty() {
        out.push_own("  `palisade check` shows all of it\n");
    }
    for diagnostic in too_much {
        write_line!(out, "{} {}", look.warning("warning:"), diagnostic.message);
    }
    out
}
