//! A difference for people at a terminal.

use palisade_analysis::diff::{Finding, grouped};
use palisade_analysis::map::connections;
use palisade_analysis::reach::cells::Cells;

use super::causes::causes;
use super::{Facts, words};
use crate::diagnostics::plural;
use crate::style::{Look, wrap};
use crate::text::{NL, Text};

/// All of it.
pub fn text(facts: &Facts<'_, '_>, cells: &Cells, look: Look) -> Text {
    let mut out = Text::new();
    write_line!(out, "{}   ({})", look.strong(words::headline(facts)), words::compared(facts));
    let most = facts.most.unwrap_or(usize::MAX);
    for finding in facts.findings.list.iter().take(most) {
        out.end_line();
        one(finding, facts, cells, look, &mut out);
    }
    let hidden = facts.findings.list.len().saturating_sub(most);
    if hidden > 0 {
        write_line!(out, "{NL}  … and {}; --all prints them", plural(hidden, "more finding"));
    }
    if facts.findings.left_out > 0 {
        write_line!(
            out,
            "{NL}  {} more pairs differ than are kept apart here; --output json tells all of them",
            facts.findings.left_out
        );
    }
    for line in words::beyond(facts).into_iter().chain(causes(facts.diff)) {
        let mut lines = wrap(&line, look.width.saturating_sub(4)).into_iter();
        write_line!(out, "{NL}  {}", lines.next().unwrap_or_default());
        for line in lines {
            write_line!(out, "    {line}");
        }
    }
    out
}

fn one(finding: &Finding, facts: &Facts<'_, '_>, cells: &Cells, look: Look, out: &mut Text) {
    let traffic = connections(finding.part, cells).to_string();
    for (sources, destinations) in grouped(&finding.pairs) {
        let sign = if finding.opens { look.good("OPENS ") } else { look.bad("CLOSES") };
        let (from, to) = (words::ends(&sources, facts.diff), words::ends(&destinations, facts.diff));
        let line = format!("{from} → {to}   {traffic}");
        let mut lines = wrap(&line, look.width.saturating_sub(10)).into_iter();
        write_line!(out, "  {sign}  {}", lines.next().unwrap_or_default());
        for line in lines {
            write_line!(out, "          {line}");
        }
    }
    for (when, deciders) in [("before", &finding.before), ("now   ", &finding.after)] {
        for (words, at) in words::decided(deciders) {
            let at = at.map(|at| format!("   {}:{}", at.file, at.line)).unwrap_or_default();
            write_line!(out, "          {} {words}{}", look.quiet(when), look.quiet(&at));
        }
    }
}
