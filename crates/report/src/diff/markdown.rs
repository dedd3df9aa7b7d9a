//! A difference as a comment on a pull request: the answer first, a table, the reasons beside.

use palisade_analysis::diff::{Deciding, grouped};
use palisade_analysis::map::connections;
use palisade_analysis::reach::cells::Cells;
use palisade_model::diagnostic::Diagnostic;

use super::causes::causes;
use super::{Facts, words};
use crate::diagnostics::plural;
use crate::text::{NL, Text};

/// How many rows are open to see; the rest is folded away.
const SHOWN: usize = 20;
/// How many rows there are at most: a comment has a limit.
const MOST: usize = 200;
/// How many problems of the input are listed.
const MOST_PROBLEMS: usize = 10;

/// All of it.
pub fn markdown(facts: &Facts<'_, '_>, cells: &Cells) -> Text {
    let mut out = Text::new();
    let (before, after) = (escaped(&facts.names.0), escaped(&facts.names.1));
    write_line!(out, "### Network policy: {}{NL}", words::headline(facts).to_lowercase());
    problems(facts, &mut out);
    if facts.findings.list.is_empty() && !facts.diff.is_about_nobody() && facts.is_complete() {
        write_line!(
            out,
            "What could connect in {before} can in {after}, and nothing else can ({}).",
            words::compared(facts)
        );
    }
    for line in words::beyond(facts) {
        write_line!(out, "{NL}{}", escaped(&line));
    }
    let mut rows = Vec::new();
    for finding in &facts.findings.list {
        let traffic = escaped(&connections(finding.part, cells).to_string());
        for (sources, destinations) in grouped(&finding.pairs) {
            rows.push(text!(
                "| {} | {} | {} | {traffic} | {} | {} |",
                Text::own(if finding.opens { "⚠️ **opens**" } else { "🔒 **closes**" }),
                escaped(&words::ends(&sources, facts.diff)),
                escaped(&words::ends(&destinations, facts.diff)),
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
    let kept = &rows[..rows.len().min(MOST)];
    if !kept.is_empty() {
        let (shown, folded) = kept.split_at(kept.len().min(SHOWN));
        table(shown, &mut out);
        if !folded.is_empty() {
            write_line!(out, "{NL}<details><summary>{}</summary>{NL}", plural(folded.len(), "more row"));
            table(folded, &mut out);
            write_line!(out, "{NL}</details>");
        }
        if rows.len() > MOST {
            write_line!(out, "{NL}… and {} that are not shown.", plural(rows.len() - MOST, "row"));
        }
    }
    for line in causes(facts.diff) {
        write_line!(out, "{NL}{}", escaped(&line));
    }
    if !facts.findings.list.is_empty() {
        write_line!(out, "{NL}<sub>{} → {}; {}.</sub>", before, after, words::compared(facts));
    }
    out
}

/// What of the input makes the answer less sure: a reader of the comment sees no standard error.
fn problems(facts: &Facts<'_, '_>, out: &mut Text) {
    if facts.problems.is_empty() {
        return;
    }
    let (wrong, doubtful): (Vec<&Diagnostic>, Vec<_>) =
        facts.problems.iter().partition(|problem| problem.is_error());
    write_line!(
        out,
        "> [!WARNING]{NL}> Not everything could be read as it is meant, so the cluster may say otherwise:"
    );
    for problem in wrong.iter().chain(&doubtful).take(MOST_PROBLEMS) {
        let at = problem.location.as_ref().map(|at| format!(" `{}:{}`", at.file.replace('`', "'"), at.line));
        write_line!(out, "> - {}{}", escaped(&problem.message), at.unwrap_or_default());
    }
    if facts.problems.len() > MOST_PROBLEMS {
        write_line!(out, "> - … and {} more", facts.problems.len() - MOST_PROBLEMS);
    }
    out.end_line();
}

fn reasons(deciders: &[Deciding]) -> String {
    let one = |(words, at): (String, Option<palisade_model::diagnostic::Location>)| {
        let file = |file: &str| file.replace('`', "'").replace('|', "\\|");
        let at = at.map(|at| format!(" `{}:{}`", file(&at.file), at.line)).unwrap_or_default();
        format!("{}{at}", escaped(&words))
    };
    words::decided(deciders).into_iter().map(one).collect::<Vec<_>>().join("<br>")
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
