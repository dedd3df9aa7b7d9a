//! Diff as text for a terminal.

use palisade_analysis::diff::{DiffFinding, grouped};
use palisade_analysis::map::connections;
use palisade_analysis::reach::cells::Cells;

use super::causes::causes;
use super::{DiffContext, phrases};
use crate::diagnostics::plural;
use crate::style::{Look, wrap};
use crate::text::{NL, Text};

/// Prints a diff as text.
pub fn text(context: &DiffContext<'_, '_>, cells: &Cells, look: Look) -> Text {
    let mut out = Text::new();
    write_line!(out, "{}   ({})", look.strong(phrases::headline(context)), phrases::compared(context));
    let most = context.most.unwrap_or(usize::MAX);
    for finding in context.findings.list.iter().take(most) {
        out.end_line();
        print_finding(finding, context, cells, look, &mut out);
    }
    let hidden = context.findings.list.len().saturating_sub(most);
    if hidden > 0 {
        write_line!(out, "{NL}  … and {}; --all prints them", plural(hidden, "more finding"));
    }
    if context.findings.left_out > 0 {
        write_line!(
            out,
            "{NL}  {} more pairs differ than are kept apart here; --output json tells all of them",
            context.findings.left_out
        );
    }
    for line in phrases::beyond(context).into_iter().chain(causes(context.diff)) {
        let mut lines = wrap(&line, look.width.saturating_sub(4)).into_iter();
        write_line!(out, "{NL}  {}", lines.next().unwrap_or_default());
        for line in lines {
            write_line!(out, "    {line}");
        }
    }
    out
}

fn print_finding(
    finding: &DiffFinding,
    context: &DiffContext<'_, '_>,
    cells: &Cells,
    look: Look,
    out: &mut Text,
) {
    let traffic = connections(finding.part, cells).to_string();
    for (sources, destinations) in grouped(&finding.pairs) {
        let sign = if finding.opens { look.good("OPENS ") } else { look.bad("CLOSES") };
        let (from, to) = (phrases::ends(&sources, context.diff), phrases::ends(&destinations, context.diff));
        let line = format!("{from} → {to}   {traffic}");
        let mut lines = wrap(&line, look.width.saturating_sub(10)).into_iter();
        write_line!(out, "  {sign}  {}", lines.next().unwrap_or_default());
        for line in lines {
            write_line!(out, "          {line}");
        }
    }
    for (when, deciders) in [("before", &finding.before), ("now   ", &finding.after)] {
        for (words, at) in phrases::decided(deciders) {
            let at = at.map(|at| format!("   {}:{}", at.file, at.line)).unwrap_or_default();
            write_line!(out, "          {} {words}{}", look.quiet(when), look.quiet(&at));
        }
    }
}
