//! Test results as text: a line for each case, with the trace of failing ones below.

use palisade_policytest::{CaseFailure, SuiteReport};

use super::diagnostics::{SourcesByName, plural, render};
use super::explain::explanation;
use super::style::Look;
use crate::text::{NL, Text};

/// Prints the results of a run.
pub fn report(report: &SuiteReport, texts: &SourcesByName<'_>, quiet: bool, look: Look) -> Text {
    let mut out = Text::new();
    for case in &report.cases {
        let name =
            if case.test.is_empty() { case.name.clone() } else { format!("{}: {}", case.test, case.name) };
        if case.failures.is_empty() {
            if !quiet {
                let flows = if case.flows > 1 {
                    format!("  ({})", plural(case.flows, "flow"))
                } else {
                    String::new()
                };
                write_line!(out, "{}   {name}{}", look.good("ok"), look.quiet(&flows));
            }
        } else {
            write_line!(out, "{} {name}   {}", look.bad("FAIL"), look.quiet(&case.at));
        }
        if !case.failures.is_empty() || !quiet {
            for note in &case.notes {
                let subject = note.subject.as_ref().map(|subject| format!("{subject}: ")).unwrap_or_default();
                let at = note.location.as_ref().map(|at| format!("   {at}")).unwrap_or_default();
                write_line!(
                    out,
                    "     {} {subject}{}{}",
                    look.warning("note:"),
                    note.message,
                    look.quiet(&at)
                );
            }
        }
        for failure in &case.failures {
            out.push(&failure_line(failure, look));
            let narrow = Look { width: look.width.saturating_sub(7), ..look };
            for line in detail(failure, narrow, texts).lines() {
                write_line!(out, "{}{line}", if line.is_empty() { "" } else { "       " });
            }
        }
    }
    for diagnostic in &report.unreadable {
        out.push(&render(diagnostic, texts, look));
    }
    write_line!(out, "{} passed, {} failed", report.passed(), report.failed());
    out
}

/// Prints the trace of a failing flow, or the errors of a failing request.
pub fn detail(failure: &CaseFailure, look: Look, texts: &SourcesByName<'_>) -> Text {
    if let Some((snapshot, evaluation)) = &failure.evaluation {
        return explanation(snapshot, evaluation, look, false);
    }
    failure.diagnostics.iter().map(|diagnostic| render(diagnostic, texts, look)).collect()
}

/// Prints an unmet expectation in a line.
pub fn failure_line(failure: &CaseFailure, look: Look) -> Text {
    text!(
        "     {}   expected {}, got {}   {}{NL}",
        look.strong(&failure.subject),
        look.good(&failure.expected),
        look.bad(&failure.got),
        look.quiet(&failure.at)
    )
}
