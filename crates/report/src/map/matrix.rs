//! A map as a matrix for people at a terminal, where it fits; else as a list.
//!
//! Rows are kept until it is known that they do not fit, which is soon: a terminal is not wide.

use std::collections::BTreeMap;

use super::fold::Fold;
use super::list::{List, foot};
use super::{End, Facts, Line, OWN_NODE, Printer, Summary};
use crate::style::{Look, wrap};
use crate::text::Text;

/// More rows than this are never kept.
const MOST: usize = 4096;
/// More columns than this fit nobody's terminal.
const MOST_COLUMNS: usize = 32;
const NOTHING: &str = "·";
const ITSELF: &str = "–";

/// Prints a matrix, or a list.
#[derive(Debug)]
pub struct Table<'m> {
    look: Look,
    kept: Vec<Line<'m>>,
    list: List<'m>,
    /// Whether rows go to the list as they come.
    listing: bool,
}

/// A row or a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Axis {
    Workload(usize),
    IngressController,
    Outside,
}

// === impl Table ===

impl<'m> Table<'m> {
    /// For a terminal.
    pub fn new(look: Look) -> Self {
        Table { look, kept: Vec::new(), list: List::new(look), listing: false }
    }

    fn give_up(&mut self, facts: &Facts<'m>, out: &mut Text) {
        self.listing = true;
        for line in std::mem::take(&mut self.kept) {
            self.list.row(facts, line, out);
        }
    }

    /// The matrix, if it fits; what is no part of it (nodes) is left over.
    fn matrix(&self, facts: &Facts<'m>) -> Option<(Text, Vec<Line<'m>>)> {
        let meant = |at: usize| facts.is_shown(at) && facts.meant[at];
        let mut axes: [Vec<Axis>; 2] = [(); 2].map(|()| {
            let own = (0..facts.workloads.len()).filter(|at| meant(*at));
            own.map(Axis::Workload).collect()
        });
        let mut cells: BTreeMap<(Axis, Axis), Vec<String>> = BTreeMap::new();
        let (mut fold, mut rest) = (Fold::default(), Vec::new());
        let mut folded = Vec::new();
        for line in &self.kept {
            match (&line.source, &line.destination) {
                (End::Nodes(_), _) | (_, End::Nodes(_)) => rest.push(line.clone()),
                _ => folded.extend(fold.push(line.clone())),
            }
        }
        folded.extend(fold.end());
        for row in folded {
            let (Some(from), Some(to)) = (axis(&row.line.source), axis(&row.line.destination)) else {
                continue;
            };
            axes[0].push(from);
            axes[1].push(to);
            let text = match (facts.addresses(&row.ranges), to) {
                (None, _) => row.line.text(),
                (Some(addresses), Axis::Outside) => format!("{} to {addresses}", row.line.text()),
                (Some(addresses), _) => format!("{} from {addresses}", row.line.text()),
            };
            cells.entry((from, to)).or_default().push(text);
        }
        for axis in &mut axes {
            axis.sort_unstable();
            axis.dedup();
        }
        let [sources, destinations] = axes;
        if destinations.len() > MOST_COLUMNS || sources.len() > 4 * MOST_COLUMNS {
            return None;
        }
        let name = |axis: &Axis| match axis {
            Axis::Workload(at) => facts.names[*at].clone(),
            Axis::IngressController => "ingress controller".to_owned(),
            Axis::Outside => "outside".to_owned(),
        };
        let asked = |axis: &Axis| matches!(axis, Axis::Workload(at) if facts.meant[*at]);
        let cell = |from: &Axis, to: &Axis| match (from, to) {
            (Axis::Workload(one), Axis::Workload(other))
                if one == other && (facts.ignore_self || facts.itself[*one]) =>
            {
                ITSELF.to_owned()
            }
            _ => match cells.get(&(*from, *to)) {
                Some(texts) => texts.join("; "),
                None if from == to => ITSELF.to_owned(),
                None if asked(from) || asked(to) => NOTHING.to_owned(),
                None => String::new(),
            },
        };
        let mut table: Vec<Vec<String>> = Vec::new();
        table.push([String::from("FROM \\ TO")].into_iter().chain(destinations.iter().map(name)).collect());
        for from in &sources {
            let texts = destinations.iter().map(|to| cell(from, to));
            table.push([name(from)].into_iter().chain(texts).collect());
        }
        Some((laid_out(&table, self.look)?, rest))
    }
}

impl<'m> Printer<'m> for Table<'m> {
    fn begin(&mut self, facts: &Facts<'m>, out: &mut Text) {
        self.list.begin(facts, out);
        let meant = (0..facts.workloads.len()).filter(|at| facts.is_shown(*at) && facts.meant[*at]).count();
        self.listing = facts.explain || meant > MOST_COLUMNS;
    }

    fn row(&mut self, facts: &Facts<'m>, line: Line<'m>, out: &mut Text) {
        if self.listing {
            return self.list.row(facts, line, out);
        }
        self.kept.push(line);
        if self.kept.len() > MOST {
            self.give_up(facts, out);
        }
    }

    fn end(&mut self, facts: &Facts<'m>, summary: &Summary, out: &mut Text) {
        let matrix = if self.listing { None } else { self.matrix(facts) };
        let Some((matrix, rest)) = matrix.filter(|_| !self.kept.is_empty()) else {
            self.give_up(facts, out);
            return self.list.end(facts, summary, out);
        };
        out.push(&matrix);
        if !rest.is_empty() {
            out.end_line();
        }
        for line in rest {
            self.list.row(facts, line, out);
        }
        out.end_line();
        foot(&summary.text(), &format!("{NOTHING} nothing   {ITSELF} itself   {OWN_NODE}"), self.look, out);
    }
}

fn axis(end: &End<'_>) -> Option<Axis> {
    match end {
        End::Workload(at) => Some(Axis::Workload(*at)),
        End::Range(..) => Some(Axis::Outside),
        End::IngressController => Some(Axis::IngressController),
        End::Nodes(_) => None,
    }
}

/// A table with a head, wrapped to the width; `None` where even that is too narrow.
fn laid_out(table: &[Vec<String>], look: Look) -> Option<Text> {
    let columns = table.first().map_or(0, Vec::len);
    let longest = |column: usize, split: bool| {
        let cells = table.iter().map(|row| row[column].as_str());
        let lengths = cells.flat_map(|cell| {
            let whole = if split { None } else { Some(cell) };
            whole.into_iter().chain(cell.split(' ').filter(move |_| split)).map(|word| word.chars().count())
        });
        lengths.max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..columns).map(|column| longest(column, false)).collect();
    let least: Vec<usize> = (0..columns).map(|column| longest(column, true)).collect();
    let room = look.width.saturating_sub(2 + 3 * columns.saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        // The widest that can still shrink gives way first.
        let give = (0..columns).filter(|at| widths[*at] > least[*at]).max_by_key(|at| (widths[*at], *at))?;
        widths[give] -= 1;
    }
    let mut out = Text::new();
    for (index, row) in table.iter().enumerate() {
        let cells: Vec<Vec<String>> =
            row.iter().zip(&widths).map(|(cell, width)| wrap(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        for line in 0..height {
            let mut text = Text::own("  ");
            for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                let word = cell.get(line).map_or("", String::as_str);
                let padding = " ".repeat(width.saturating_sub(word.chars().count()));
                let painted = match (index, column, word) {
                    (0, ..) | (_, 0, _) => look.strong(word),
                    (_, _, NOTHING | ITSELF) => look.quiet(word),
                    _ => Text::from(word),
                };
                let gap = if column == 0 { "" } else { "   " };
                write_text!(text, "{gap}{painted}{padding}");
            }
            out.push(&text.trim_end());
            out.end_line();
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(table: &[&[&str]]) -> Vec<Vec<String>> {
        table.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect()
    }

    #[test]
    fn a_table_shrinks_to_the_terminal_and_gives_up_where_it_cannot() {
        let table = rows(&[&["FROM", "a"], &["b", "tcp/80, udp/53, sctp/9"]]);
        let look = |width| Look { color: false, width };
        assert_eq!(
            laid_out(&table, look(80)).unwrap().as_str(),
            "  FROM   a\n  b      tcp/80, udp/53, sctp/9\n"
        );
        assert_eq!(
            laid_out(&table, look(24)).unwrap().as_str(),
            "  FROM   a\n  b      tcp/80, udp/53,\n         sctp/9\n"
        );
        assert_eq!(laid_out(&table, look(12)), None);
    }
}
