//! A map as one page that needs nothing else: no network, no fonts, no other file.
//!
//! The page is fixed text (`page/`), the map is data in it. Everything that comes from manifests is data, never markup: it
//! is JSON in which nothing can end the element it stands in, and the page's program puts it on the screen as text only. Data are
//! compact: workloads of one kind have the same row, rows are runs of equal cells, and what is said twice is said once.

use std::collections::HashMap;
use std::rc::Rc;

use palisade_analysis::map::why::Why;
use serde::Serialize;

use super::fold::{Fold, Folded};
use super::reasons::reasons;
use super::{End, Facts, Line, OWN_NODE, Printer, Said, Summary};
use crate::text::Text;
use crate::text::documents::json_in_html;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// No cell, no list: nothing is let through.
const NOTHING: usize = 0;

/// Prints a page.
#[derive(Debug, Default)]
pub struct Html<'m> {
    fold: Fold<'m>,
    data: Data,
    known: Known,
    /// The cells of rows with the same reasons, by where those are; they are kept, so that nothing else gets there.
    alike: HashMap<RowKey<'m>, (Rc<[Why<'m>]>, usize)>,
    /// The source whose row is being taken, with its cells.
    open: Option<(usize, Vec<(usize, usize)>)>,
    /// The workload whose outside is being taken, whether as a source, and its ranges.
    outside: Option<(usize, bool, Ranges)>,
}

/// What the page's program reads. Numbers are places in the other lists; 0 is nothing in all of them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    summary: String,
    note: &'static str,
    explained: bool,
    texts: Vec<String>,
    namespaces: Vec<String>,
    /// Namespace, name, kind, and whether it is printed.
    workloads: Vec<(usize, String, String, bool)>,
    traffics: Vec<Traffic>,
    cells: Vec<Cell>,
    /// Side, part, who, where, and a sign: all of them texts.
    whys: Vec<Vec<[usize; 5]>>,
    /// Runs: how many destinations, and their cell.
    rows: Vec<Vec<usize>>,
    row_of: Vec<usize>,
    /// What a workload sends itself.
    own: Vec<usize>,
    /// Addresses (a text), and their cell.
    outsides: Vec<Ranges>,
    out_of: Vec<usize>,
    in_of: Vec<usize>,
    /// What the ingress controller sends: a workload, and the cell.
    controller: Vec<(usize, usize)>,
    /// The kind of each workload.
    kinds: Vec<u32>,
    /// For each kind why it may send a kind nothing, in runs as above.
    denied: Vec<Vec<usize>>,
    /// For each kind why it may send the outside nothing, and why that may send it nothing.
    denied_out: Vec<usize>,
    denied_in: Vec<usize>,
}

#[derive(Debug, Default, Serialize)]
struct Traffic {
    text: String,
    tcp: Vec<(u16, u16)>,
    udp: Vec<(u16, u16)>,
    sctp: Vec<(u16, u16)>,
    icmp: bool,
}

/// Traffic, over the other family, whether all pods are alike, and why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
struct Cell(usize, usize, bool, usize);

/// Addresses (a text), and their cell.
type Ranges = Vec<(usize, usize)>;

/// Reasons by where they are, and what is let through: over the family that is preferred, over the other, by all pods.
type RowKey<'m> = (*const Why<'m>, u32, Option<u32>, bool);

/// What was said before, and its place.
#[derive(Debug, Default)]
struct Known {
    texts: HashMap<String, usize>,
    traffics: HashMap<u32, usize>,
    cells: HashMap<Cell, usize>,
    whys: HashMap<Vec<[usize; 5]>, usize>,
    rows: HashMap<Vec<usize>, usize>,
    outsides: HashMap<Ranges, usize>,
}

// === impl Html ===

impl<'m> Html<'m> {
    fn take(&mut self, facts: &Facts<'m>, Folded { line, ranges }: &Folded<'m>) {
        let cell = self.cell(line);
        match (&line.source, &line.destination) {
            (End::Workload(from), End::Workload(to)) => {
                if self.open.as_ref().is_none_or(|(open, _)| open != from) {
                    self.close_row(facts);
                    self.open = Some((*from, Vec::new()));
                }
                match &mut self.open {
                    _ if from == to => self.data.own[*from] = cell,
                    Some((_, row)) => row.push((*to, cell)),
                    None => {}
                }
            }
            (End::Workload(at), End::Range(..)) | (End::Range(..), End::Workload(at)) => {
                let out = matches!(line.source, End::Workload(_));
                if self.outside.as_ref().is_none_or(|(open, way, _)| (open, *way) != (at, out)) {
                    self.close_outside();
                    self.outside = Some((*at, out, Vec::new()));
                }
                let addresses = facts.addresses(ranges).unwrap_or_else(|| "all addresses outside".to_owned());
                let addresses = self.text(&addresses);
                if let Some((.., list)) = &mut self.outside {
                    list.push((addresses, cell));
                }
            }
            (End::IngressController, End::Workload(to)) => self.data.controller.push((*to, cell)),
            // Nodes are a matter of lists; the page has a note about them.
            _ => {}
        }
    }

    fn close_row(&mut self, facts: &Facts<'m>) {
        let Some((source, row)) = self.open.take() else { return };
        let mut cells = vec![NOTHING; facts.workloads.len()];
        let mut alike = NOTHING;
        for (destination, cell) in row {
            cells[destination] = cell;
            if facts.kinds[destination] == facts.kinds[source] {
                alike = cell;
            }
        }
        // What it sends itself is kept apart: with what it sends others of its kind in that place, all of them have
        // the same row.
        cells[source] = alike;
        self.data.row_of[source] = intern(&mut self.known.rows, &mut self.data.rows, runs(&cells));
    }

    fn close_outside(&mut self) {
        let Some((workload, out, list)) = self.outside.take() else { return };
        let number = intern(&mut self.known.outsides, &mut self.data.outsides, list);
        match out {
            true => self.data.out_of[workload] = number,
            false => self.data.in_of[workload] = number,
        }
    }

    fn cell(&mut self, line: &Line<'m>) -> usize {
        let other = line.other.as_ref().map(|other| other.id);
        let key = (line.why.as_ptr(), line.allowed.id, other, line.uniform);
        if let Some((_, known)) = self.alike.get(&key) {
            return *known;
        }
        let cell = self.new_cell(line);
        self.alike.insert(key, (Rc::clone(&line.why), cell));
        cell
    }

    fn new_cell(&mut self, line: &Line<'m>) -> usize {
        let allowed = self.traffic(&line.allowed);
        let other = line.other.as_ref().map_or(NOTHING, |other| self.traffic(other));
        let why = self.why(&line.why);
        intern(&mut self.known.cells, &mut self.data.cells, Cell(allowed, other, line.uniform, why))
    }

    fn why(&mut self, why: &[Why<'_>]) -> usize {
        let why: Vec<[usize; 5]> = reasons(why)
            .iter()
            .map(|reason| {
                let at = reason.at.as_ref().map(ToString::to_string).unwrap_or_default();
                let sign = reason.action.to_string();
                [&reason.side, &reason.part, &reason.text, &at, &sign].map(|text| self.text(text))
            })
            .collect();
        match why.is_empty() {
            true => NOTHING,
            false => intern(&mut self.known.whys, &mut self.data.whys, why),
        }
    }

    fn traffic(&mut self, said: &Said) -> usize {
        if let Some(known) = self.known.traffics.get(&said.id) {
            return *known;
        }
        let connections = &said.connections;
        self.data.traffics.push(Traffic {
            text: said.text.clone(),
            tcp: connections.tcp.clone(),
            udp: connections.udp.clone(),
            sctp: connections.sctp.clone(),
            icmp: !connections.icmp.is_empty(),
        });
        let number = self.data.traffics.len() - 1;
        self.known.traffics.insert(said.id, number);
        number
    }

    fn text(&mut self, text: &str) -> usize {
        match self.known.texts.get(text) {
            Some(known) => *known,
            None => intern(&mut self.known.texts, &mut self.data.texts, text.to_owned()),
        }
    }
}

impl<'m> Printer<'m> for Html<'m> {
    fn begin(&mut self, facts: &Facts<'m>, _out: &mut Text) {
        let data = &mut self.data;
        data.note = OWN_NODE;
        data.explained = facts.explain;
        // Number 0 is taken everywhere.
        data.texts.push(String::new());
        data.traffics.push(Traffic { text: "nothing".to_owned(), ..Traffic::default() });
        data.cells.push(Cell::default());
        data.whys.push(Vec::new());
        data.rows.push(Vec::new());
        data.outsides.push(Vec::new());
        for (at, workload) in facts.workloads.iter().enumerate() {
            let name = &workload.name;
            if data.namespaces.last().is_none_or(|last| *last != name.namespace) {
                data.namespaces.push(name.namespace.to_string());
            }
            let namespace = data.namespaces.len() - 1;
            data.workloads.push((
                namespace,
                name.name.to_string(),
                name.kind.to_string(),
                facts.is_shown(at),
            ));
        }
        data.kinds.clone_from(&facts.kinds);
        let kinds = facts.kinds.iter().max().map_or(0, |most| *most as usize + 1);
        if facts.explain {
            data.denied = vec![vec![NOTHING; kinds]; kinds];
            (data.denied_out, data.denied_in) = (vec![NOTHING; kinds], vec![NOTHING; kinds]);
        }
        for list in [&mut data.row_of, &mut data.own, &mut data.out_of, &mut data.in_of] {
            *list = vec![NOTHING; facts.workloads.len()];
        }
    }

    fn wants_refusals(&self) -> bool {
        true
    }

    fn refusal(&mut self, facts: &Facts<'m>, source: &End<'m>, destination: &End<'m>, why: &[Why<'m>]) {
        let why = self.why(why);
        let kind = |end: &End<'m>| match end {
            End::Workload(at) => facts.kinds.get(*at).map(|kind| *kind as usize),
            _ => None,
        };
        let data = &mut self.data;
        let place = match (kind(source), kind(destination)) {
            (Some(from), Some(to)) => data.denied.get_mut(from).and_then(|row| row.get_mut(to)),
            (Some(from), None) => data.denied_out.get_mut(from),
            (None, Some(to)) => data.denied_in.get_mut(to),
            (None, None) => None,
        };
        if let Some(place) = place {
            *place = why;
        }
    }

    fn row(&mut self, facts: &Facts<'m>, line: Line<'m>, _out: &mut Text) {
        for row in self.fold.push(line) {
            self.take(facts, &row);
        }
    }

    fn end(&mut self, facts: &Facts<'m>, summary: &Summary, out: &mut Text) {
        for row in self.fold.end() {
            self.take(facts, &row);
        }
        self.close_row(facts);
        self.close_outside();
        for row in &mut self.data.denied {
            *row = runs(row);
        }
        self.data.summary = summary.text();
        let data = json_in_html(&self.data);
        let pieces = [("/*style*/", Text::own(STYLE)), ("/*data*/", data), ("/*script*/", Text::own(SCRIPT))];
        let mut rest = PAGE;
        for (mark, text) in pieces {
            let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
            out.push_own(before);
            out.push(&text);
            rest = after;
        }
        out.push_own(rest);
    }
}

/// How often each value comes in a row, and which it is.
fn runs(values: &[usize]) -> Vec<usize> {
    let mut runs: Vec<usize> = Vec::new();
    for value in values {
        match runs.len().checked_sub(1) {
            Some(last) if runs[last] == *value => runs[last - 1] += 1,
            _ => runs.extend([1, *value]),
        }
    }
    runs
}

/// The place of something in a list, where it is put if it is new.
fn intern<T: Clone + Eq + std::hash::Hash>(
    known: &mut HashMap<T, usize>,
    list: &mut Vec<T>,
    value: T,
) -> usize {
    *known.entry(value).or_insert_with_key(|value| {
        list.push(value.clone());
        list.len() - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_place_for_everything_once() {
        for mark in ["/*style*/", "/*data*/", "/*script*/"] {
            assert_eq!(PAGE.matches(mark).count(), 1, "{mark}");
        }
        for text in [PAGE, STYLE, SCRIPT] {
            // The name of SVG's namespace is no address that anybody asks.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for foreign in ["http:", "https:", "@import", "innerHTML", "insertAdjacentHTML", "document.write"]
            {
                assert!(!text.contains(foreign), "{foreign}");
            }
        }
    }
}
