//! Diff as a comment on a pull request: the summary, then a table with reasons.

use palisade_analysis::diff::{SideDecision, grouped};
use palisade_analysis::map::connections;
use palisade_analysis::reach::cells::Cells;
use palisade_model::diagnostic::Diagnostic;

use super::causes::causes;
use super::{DiffContext, phrases};
use crate::diagnostics::plural;
use crate::text::{NL, Text};

/// Maximum number of rows outside of the folded part.
const MAX_SHOWN: usize = 20;
/// Maximum number of rows: comments are limited in length.
const MAX_ROWS: usize = 200;
/// Maximum number of problems of the input listed.
const MAX_PROBLEMS: usize = 10;

/// Prints a diff as Markdown.
pub fn markdown(context: &DiffContext<'_, '_>, cells: &Cells) -> Text {
    let mut out = Text::new();
    let (before, after) = (escaped(&context.names.0), escaped(&context.names.1));
    write_line!(out, "### Network policy: {}{NL}", phrases::headline(context).to_lowercase());
    problems(context, &mut out);
    if context.findings.list.is_empty() && !context.diff.has_no_workloads() && context.is_complete() {
        write_line!(
            out,
            "What could connect in {before} can in {after}, and nothing else can ({}).",
            phrases::compared(context)
        );
    }
    for line in phrases::beyond(context) {
        write_line!(out, "{NL}{}", escaped(&line));
    }
    let mut rows = Vec::new();
    for finding in &context.findings.list {
        let traffic = escaped(&connections(finding.part, cells).to_string());
        for (sources, destinations) in grouped(&finding.pairs) {
            rows.push(text!(
                "| {} | {} | {} | {traffic} | {} | {} |",
                Text::own(if finding.opens { "⚠️ **opens**" } else { "🔒 **closes**" }),
                escaped(&phrases::ends(&sources, context.diff)),
                escaped(&phrases::ends(&destinations, context.diff)),
                reasons(&finding.before),
                reasons(&finding.after),
            ));
        }
    }
    let table = |rows: &[Text], out: &mut Text| {
        write_line!(out, "| | from | to | traffic | before | now |{NL}|---|---|---|---|---|---|");
        for row in rows {
            write_line!(out, "{row}");
        }
    };
    let kept = &rows[..rows.len().min(MAX_ROWS)];
    if !kept.is_empty() {
        let (shown, folded) = kept.split_at(kept.len().min(MAX_SHOWN));
        table(shown, &mut out);
        if !folded.is_empty() {
            write_line!(out, "{NL}<details><summary>{}</summary>{NL}", plural(folded.len(), "more row"));
            table(folded, &mut out);
            write_line!(out, "{NL}</details>");
        }
        if rows.len() > MAX_ROWS {
            write_line!(out, "{NL}… and {} that are not shown.", plural(rows.len() - MAX_ROWS, "row"));
        }
    }
    for line in causes(context.diff) {
        write_line!(out, "{NL}{}", escaped(&line));
    }
    if !context.findings.list.is_empty() {
        write_line!(out, "{NL}<sub>{} → {}; {}.</sub>", before, after, phrases::compared(context));
    }
    out
}

/// Prints problems of the input: readers of the comment do not see standard error.
fn problems(context: &DiffContext<'_, '_>, out: &mut Text) {
    if context.problems.is_empty() {
        return;
    }
    let (wrong, doubtful): (Vec<&Diagnostic>, Vec<_>) =
        context.problems.iter().partition(|problem| problem.is_error());
    write_line!(
        out,
        "> [!WARNING]{NL}> Not everything could be read as it is meant, so the cluster may say otherwise:"
    );
    for problem in wrong.iter().chain(&doubtful).take(MAX_PROBLEMS) {
        let at = problem.location.as_ref().map(|at| format!(" `{}:{}`", at.file.replace('`', "'"), at.line));
        write_line!(out, "> - {}{}", escaped(&problem.message), at.unwrap_or_default());
    }
    if context.problems.len() > MAX_PROBLEMS {
        write_line!(out, "> - … and {} more", context.problems.len() - MAX_PROBLEMS);
    }
    out.end_line();
}

fn reasons(deciders: &[SideDecision]) -> String {
    let one = |(words, at): (String, Option<palisade_model::diagnostic::Location>)| {
        let file = |file: &str| file.replace('`', "'").replace('|', "\\|");
        let at = at.map(|at| format!(" `{}:{}`", file(&at.file), at.line)).unwrap_or_default();
        format!("{}{at}", escaped(&words))
    };
    phrases::decided(deciders).into_iter().map(one).collect::<Vec<_>>().join("<br>")
}

/// Without what Markdown or HTML would take for its own.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '@' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
