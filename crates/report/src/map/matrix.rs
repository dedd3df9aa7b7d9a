//! Map as a matrix for a terminal, where it fits; else as a list.
//!
//! Rows are kept until it is known that the matrix does not fit, which is after few workloads.

use std::collections::BTreeMap;

use super::fold::RowFolder;
use super::list::{ListPrinter, foot};
use super::{MapContext, MapEnd, MapRow, MapSummary, OWN_NODE, Printer};
use crate::style::{Look, wrap};
use crate::text::Text;

/// Maximum number of rows kept.
const MAX_ROWS: usize = 4096;
/// Maximum number of columns: more fit no terminal.
const MAX_COLUMNS: usize = 32;
const NOTHING: &str = "·";
const ITSELF: &str = "–";

/// Printer of a matrix, or of a list where that does not fit.
#[derive(Debug)]
pub struct MatrixPrinter<'m> {
    look: Look,
    kept: Vec<MapRow<'m>>,
    list: ListPrinter<'m>,
    /// Whether rows are passed on to the list.
    listing: bool,
}

/// A row or a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Axis {
    Workload(usize),
    IngressController,
    Outside,
}

// === impl MatrixPrinter ===

impl<'m> MatrixPrinter<'m> {
    /// Creates a printer for a terminal.
    pub fn new(look: Look) -> Self {
        MatrixPrinter { look, kept: Vec::new(), list: ListPrinter::new(look), listing: false }
    }

    fn switch_to_list(&mut self, context: &MapContext<'m>, out: &mut Text) {
        self.listing = true;
        for line in std::mem::take(&mut self.kept) {
            self.list.row(context, line, out);
        }
    }

    /// Returns the matrix, if it fits, and the rows that are no part of it (nodes).
    fn matrix(&self, context: &MapContext<'m>) -> Option<(Text, Vec<MapRow<'m>>)> {
        let selected = |at: usize| context.is_shown(at) && context.selected[at];
        let mut axes: [Vec<Axis>; 2] = [(); 2].map(|()| {
            let own = (0..context.workloads.len()).filter(|at| selected(*at));
            own.map(Axis::Workload).collect()
        });
        let mut cells: BTreeMap<(Axis, Axis), Vec<String>> = BTreeMap::new();
        let (mut fold, mut rest) = (RowFolder::default(), Vec::new());
        let mut folded = Vec::new();
        for line in &self.kept {
            match (&line.source, &line.destination) {
                (MapEnd::Nodes(_), _) | (_, MapEnd::Nodes(_)) => rest.push(line.clone()),
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
            let text = match (context.addresses(&row.ranges), to) {
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
        if destinations.len() > MAX_COLUMNS || sources.len() > 4 * MAX_COLUMNS {
            return None;
        }
        let name = |axis: &Axis| match axis {
            Axis::Workload(at) => context.names[*at].clone(),
            Axis::IngressController => "ingress controller".to_owned(),
            Axis::Outside => "outside".to_owned(),
        };
        let is_selected = |axis: &Axis| matches!(axis, Axis::Workload(at) if context.selected[*at]);
        let cell = |from: &Axis, to: &Axis| match (from, to) {
            (Axis::Workload(one), Axis::Workload(other))
                if one == other && (context.ignore_self || context.is_itself[*one]) =>
            {
                ITSELF.to_owned()
            }
            _ => match cells.get(&(*from, *to)) {
                Some(texts) => texts.join("; "),
                None if from == to => ITSELF.to_owned(),
                None if is_selected(from) || is_selected(to) => NOTHING.to_owned(),
                None => String::new(),
            },
        };
        let mut table: Vec<Vec<String>> = Vec::new();
        table.push([String::from("FROM \\ TO")].into_iter().chain(destinations.iter().map(name)).collect());
        for from in &sources {
            let texts = destinations.iter().map(|to| cell(from, to));
            table.push([name(from)].into_iter().chain(texts).collect());
        }
        Some((lay_out(&table, self.look)?, rest))
    }
}

impl<'m> Printer<'m> for MatrixPrinter<'m> {
    fn begin(&mut self, context: &MapContext<'m>, out: &mut Text) {
        self.list.begin(context, out);
        let selected =
            (0..context.workloads.len()).filter(|at| context.is_shown(*at) && context.selected[*at]).count();
        self.listing = context.explain || selected > MAX_COLUMNS;
    }

    fn row(&mut self, context: &MapContext<'m>, line: MapRow<'m>, out: &mut Text) {
        if self.listing {
            return self.list.row(context, line, out);
        }
        self.kept.push(line);
        if self.kept.len() > MAX_ROWS {
            self.switch_to_list(context, out);
        }
    }

    fn end(&mut self, context: &MapContext<'m>, summary: &MapSummary, out: &mut Text) {
        let matrix = if self.listing { None } else { self.matrix(context) };
        let Some((matrix, rest)) = matrix.filter(|_| !self.kept.is_empty()) else {
            self.switch_to_list(context, out);
            return self.list.end(context, summary, out);
        };
        out.push(&matrix);
        if !rest.is_empty() {
            out.end_line();
        }
        for line in rest {
            self.list.row(context, line, out);
        }
        out.end_line();
        foot(&summary.text(), &format!("{NOTHING} nothing   {ITSELF} itself   {OWN_NODE}"), self.look, out);
    }
}

fn axis(end: &MapEnd<'_>) -> Option<Axis> {
    match end {
        MapEnd::Workload(at) => Some(Axis::Workload(*at)),
        MapEnd::Range(..) => Some(Axis::Outside),
        MapEnd::IngressController => Some(Axis::IngressController),
        MapEnd::Nodes(_) => None,
    }
}

/// Lays out a table with a head, wrapped to the width; `None` where that is too narrow.
fn lay_out(table: &[Vec<String>], look: Look) -> Option<Text> {
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
        // The widest column that can still shrink does so first.
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
            lay_out(&table, look(80)).unwrap().as_str(),
            "  FROM   a\n  b      tcp/80, udp/53, sctp/9\n"
        );
        assert_eq!(
            lay_out(&table, look(24)).unwrap().as_str(),
            "  FROM   a\n  b      tcp/80, udp/53,\n         sctp/9\n"
        );
        assert_eq!(lay_out(&table, look(12)), None);
    }
}
