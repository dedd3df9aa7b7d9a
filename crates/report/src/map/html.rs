//! Map as one self-contained HTML page: no network, no fonts, no other file.
//!
//! The page is fixed text (`page/`) with the map as JSON data in it. Everything from manifests is data, never markup: it
//! cannot end its element, and the page's script inserts it as text only. Data are compact: workloads of one kind share a
//! row, rows are runs of equal cells, and every distinct value is stored once.

use std::collections::HashMap;
use std::rc::Rc;

use palisade_analysis::map::reasons::TrafficReason;
use serde::Serialize;

use super::fold::{FoldedRow, RowFolder};
use super::reasons::reasons;
use super::{AllowedTraffic, MapContext, MapEnd, MapRow, MapSummary, OWN_NODE, Printer};
use crate::text::Text;
use crate::text::documents::json_in_html;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// Index 0 of every list: nothing is allowed.
const NOTHING: usize = 0;

/// Printer of a page.
#[derive(Debug, Default)]
pub struct HtmlPrinter<'m> {
    fold: RowFolder<'m>,
    data: PageData,
    index: PageIndex,
    /// Cells of rows by the address of their shared reasons; these are kept, so that no address is reused.
    cell_by_reasons: HashMap<RowKey<'m>, (Rc<[TrafficReason<'m>]>, usize)>,
    /// The source of the current row, with its cells.
    open_row: Option<(usize, Vec<(usize, usize)>)>,
    /// The workload of the current outside ranges, whether it is their source, and the ranges.
    outside: Option<(usize, bool, CellRanges)>,
}

/// Data that the page's script reads. Numbers are indices into the other lists; 0 is nothing in all of them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct PageData {
    summary: String,
    note: &'static str,
    explained: bool,
    texts: Vec<String>,
    namespaces: Vec<String>,
    /// Namespace, name, kind, and whether it is printed.
    workloads: Vec<(usize, String, String, bool)>,
    traffics: Vec<PageTraffic>,
    cells: Vec<PageCell>,
    /// Side, traffic, decider, location and action, as indices of texts.
    whys: Vec<Vec<[usize; 5]>>,
    /// Runs: number of destinations, and their cell.
    rows: Vec<Vec<usize>>,
    row_of: Vec<usize>,
    /// Cell of each workload to itself.
    own: Vec<usize>,
    /// Lists of addresses with their cells.
    outsides: Vec<CellRanges>,
    out_of: Vec<usize>,
    in_of: Vec<usize>,
    /// Workloads that the ingress controller reaches, with the cell.
    controller: Vec<(usize, usize)>,
    /// Equivalence class of each workload.
    kinds: Vec<u32>,
    /// For each pair of kinds the reasons why nothing is allowed, in runs as above.
    denied: Vec<Vec<usize>>,
    /// For each kind the reasons why nothing is allowed to the outside.
    denied_out: Vec<usize>,
    /// For each kind the reasons why nothing is allowed from the outside.
    denied_in: Vec<usize>,
}

#[derive(Debug, Default, Serialize)]
struct PageTraffic {
    text: String,
    tcp: Vec<(u16, u16)>,
    udp: Vec<(u16, u16)>,
    sctp: Vec<(u16, u16)>,
    icmp: bool,
}

/// Traffic, traffic over the other family, whether it holds for all pods, and reasons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize)]
struct PageCell(usize, usize, bool, usize);

/// Addresses (index of a text), and their cell.
type CellRanges = Vec<(usize, usize)>;

/// Address of shared reasons, traffic over the preferred and the other family, and whether it holds for all pods.
type RowKey<'m> = (*const TrafficReason<'m>, u32, Option<u32>, bool);

/// Index of each value in the lists of [`PageData`].
#[derive(Debug, Default)]
struct PageIndex {
    texts: HashMap<String, usize>,
    traffics: HashMap<u32, usize>,
    cells: HashMap<PageCell, usize>,
    whys: HashMap<Vec<[usize; 5]>, usize>,
    rows: HashMap<Vec<usize>, usize>,
    outsides: HashMap<CellRanges, usize>,
}

// === impl HtmlPrinter ===

impl<'m> HtmlPrinter<'m> {
    fn take(&mut self, context: &MapContext<'m>, FoldedRow { line, ranges }: &FoldedRow<'m>) {
        let cell = self.cell(line);
        match (&line.source, &line.destination) {
            (MapEnd::Workload(from), MapEnd::Workload(to)) => {
                if self.open_row.as_ref().is_none_or(|(open_row, _)| open_row != from) {
                    self.close_row(context);
                    self.open_row = Some((*from, Vec::new()));
                }
                match &mut self.open_row {
                    _ if from == to => self.data.own[*from] = cell,
                    Some((_, row)) => row.push((*to, cell)),
                    None => {}
                }
            }
            (MapEnd::Workload(at), MapEnd::Range(..)) | (MapEnd::Range(..), MapEnd::Workload(at)) => {
                let out = matches!(line.source, MapEnd::Workload(_));
                if self.outside.as_ref().is_none_or(|(open_row, way, _)| (open_row, *way) != (at, out)) {
                    self.close_outside();
                    self.outside = Some((*at, out, Vec::new()));
                }
                let addresses =
                    context.addresses(ranges).unwrap_or_else(|| "all addresses outside".to_owned());
                let addresses = self.text(&addresses);
                if let Some((.., list)) = &mut self.outside {
                    list.push((addresses, cell));
                }
            }
            (MapEnd::IngressController, MapEnd::Workload(to)) => self.data.controller.push((*to, cell)),
            // Nodes are not drawn; the page has a note about them.
            _ => {}
        }
    }

    fn close_row(&mut self, context: &MapContext<'m>) {
        let Some((source, row)) = self.open_row.take() else { return };
        let mut cells = vec![NOTHING; context.workloads.len()];
        let mut cell_by_reasons = NOTHING;
        for (destination, cell) in row {
            cells[destination] = cell;
            if context.kinds[destination] == context.kinds[source] {
                cell_by_reasons = cell;
            }
        }
        // Traffic to itself is stored apart: with that to others of its kind in its place, all workloads of a kind share
        // a row.
        cells[source] = cell_by_reasons;
        self.data.row_of[source] = intern(&mut self.index.rows, &mut self.data.rows, runs(&cells));
    }

    fn close_outside(&mut self) {
        let Some((workload, out, list)) = self.outside.take() else { return };
        let number = intern(&mut self.index.outsides, &mut self.data.outsides, list);
        match out {
            true => self.data.out_of[workload] = number,
            false => self.data.in_of[workload] = number,
        }
    }

    fn cell(&mut self, line: &MapRow<'m>) -> usize {
        let other = line.other.as_ref().map(|other| other.id);
        let key = (line.why.as_ptr(), line.allowed.id, other, line.uniform);
        if let Some((_, index)) = self.cell_by_reasons.get(&key) {
            return *index;
        }
        let cell = self.new_cell(line);
        self.cell_by_reasons.insert(key, (Rc::clone(&line.why), cell));
        cell
    }

    fn new_cell(&mut self, line: &MapRow<'m>) -> usize {
        let allowed = self.traffic(&line.allowed);
        let other = line.other.as_ref().map_or(NOTHING, |other| self.traffic(other));
        let why = self.why(&line.why);
        intern(&mut self.index.cells, &mut self.data.cells, PageCell(allowed, other, line.uniform, why))
    }

    fn why(&mut self, why: &[TrafficReason<'_>]) -> usize {
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
            false => intern(&mut self.index.whys, &mut self.data.whys, why),
        }
    }

    fn traffic(&mut self, allowed: &AllowedTraffic) -> usize {
        if let Some(index) = self.index.traffics.get(&allowed.id) {
            return *index;
        }
        let connections = &allowed.connections;
        self.data.traffics.push(PageTraffic {
            text: allowed.text.clone(),
            tcp: connections.tcp.clone(),
            udp: connections.udp.clone(),
            sctp: connections.sctp.clone(),
            icmp: !connections.icmp.is_empty(),
        });
        let number = self.data.traffics.len() - 1;
        self.index.traffics.insert(allowed.id, number);
        number
    }

    fn text(&mut self, text: &str) -> usize {
        match self.index.texts.get(text) {
            Some(index) => *index,
            None => intern(&mut self.index.texts, &mut self.data.texts, text.to_owned()),
        }
    }
}

impl<'m> Printer<'m> for HtmlPrinter<'m> {
    fn begin(&mut self, context: &MapContext<'m>, _out: &mut Text) {
        let data = &mut self.data;
        data.note = OWN_NODE;
        data.explained = context.explain;
        // Index 0 is reserved in every list.
        data.texts.push(String::new());
        data.traffics.push(PageTraffic { text: "nothing".to_owned(), ..PageTraffic::default() });
        data.cells.push(PageCell::default());
        data.whys.push(Vec::new());
        data.rows.push(Vec::new());
        data.outsides.push(Vec::new());
        for (at, workload) in context.workloads.iter().enumerate() {
            let name = &workload.name;
            if data.namespaces.last().is_none_or(|last| *last != name.namespace) {
                data.namespaces.push(name.namespace.to_string());
            }
            let namespace = data.namespaces.len() - 1;
            data.workloads.push((
                namespace,
                name.name.to_string(),
                name.kind.to_string(),
                context.is_shown(at),
            ));
        }
        data.kinds.clone_from(&context.kinds);
        let kinds = context.kinds.iter().max().map_or(0, |most| *most as usize + 1);
        if context.explain {
            data.denied = vec![vec![NOTHING; kinds]; kinds];
            (data.denied_out, data.denied_in) = (vec![NOTHING; kinds], vec![NOTHING; kinds]);
        }
        for list in [&mut data.row_of, &mut data.own, &mut data.out_of, &mut data.in_of] {
            *list = vec![NOTHING; context.workloads.len()];
        }
    }

    fn wants_refusals(&self) -> bool {
        true
    }

    fn refusal(
        &mut self,
        context: &MapContext<'m>,
        source: &MapEnd<'m>,
        destination: &MapEnd<'m>,
        why: &[TrafficReason<'m>],
    ) {
        let why = self.why(why);
        let kind = |end: &MapEnd<'m>| match end {
            MapEnd::Workload(at) => context.kinds.get(*at).map(|kind| *kind as usize),
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

    fn row(&mut self, context: &MapContext<'m>, line: MapRow<'m>, _out: &mut Text) {
        for row in self.fold.push(line) {
            self.take(context, &row);
        }
    }

    fn end(&mut self, context: &MapContext<'m>, summary: &MapSummary, out: &mut Text) {
        for row in self.fold.end() {
            self.take(context, &row);
        }
        self.close_row(context);
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

/// Returns runs of equal values: count, value, count, value …
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

/// Returns the index of a value in a list, and appends it if it is new.
fn intern<T: Clone + Eq + std::hash::Hash>(
    index: &mut HashMap<T, usize>,
    list: &mut Vec<T>,
    value: T,
) -> usize {
    *index.entry(value).or_insert_with_key(|value| {
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
            // The name of SVG's namespace is never fetched.
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for foreign in ["http:", "https:", "@import", "innerHTML", "insertAdjacentHTML", "document.write"]
            {
                assert!(!text.contains(foreign), "{foreign}");
            }
        }
    }
}
