//! Rows on their way to standard output: asked for one after the other, put into words, written away.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::rc::Rc;

use palisade_analysis::map::reasons::TrafficReason;
use palisade_analysis::map::{Map, MapPeer, NodeRow, PairTraffic, RowFilter, WorkloadRow, connections};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_analysis::reach::traffics::{TrafficId, Traffics};
use palisade_model::policy::Direction;
use palisade_report::map::{AllowedTraffic, MapContext, MapEnd, MapRow, MapSummary, Printer};
use palisade_report::text::Text;

use crate::print::output::Buffered;
use crate::print::progress::Progress;

/// So many reasons at most are remembered.
const REMEMBERED: usize = 1 << 18;
/// Steps to write a line.
const LINE: u64 = 800;
/// Steps to write a line about addresses, which are put into words.
const RANGE_LINE: u64 = 10_000;
/// Texts are written away when they are so long.
const PIECE: usize = 1 << 16;

/// What reasons are remembered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum About {
    Kind(u32),
    Range(IpAddr, IpAddr),
}

/// Rows on their way to standard output.
pub struct Telling<'t, 's> {
    map: &'t Map<'s>,
    cuts: &'t Cuts,
    facts: MapContext<'t>,
    printer: Box<dyn Printer<'t> + 't>,
    progress: Progress,
    said: HashMap<TrafficId, Rc<AllowedTraffic>>,
    reasons: HashMap<(About, About), Rc<[TrafficReason<'t>]>>,
    /// No reasons.
    silence: Rc<[TrafficReason<'t>]>,
    summary: MapSummary,
    ends: [BTreeSet<usize>; 2],
    text: Text,
    out: Buffered,
    /// Workloads that no rows are told of, because that was too much work.
    pub left_out: usize,
    /// Why no more can be written.
    pub failed: Option<std::io::Error>,
}

// === impl Telling ===

impl<'t, 's: 't> Telling<'t, 's> {
    pub fn new(
        map: &'t Map<'s>,
        cuts: &'t Cuts,
        facts: MapContext<'t>,
        printer: Box<dyn Printer<'t> + 't>,
        progress: Progress,
    ) -> Self {
        Telling {
            map,
            cuts,
            facts,
            printer,
            progress,
            said: HashMap::new(),
            reasons: HashMap::new(),
            silence: Rc::new([]),
            summary: MapSummary::default(),
            ends: [BTreeSet::new(), BTreeSet::new()],
            text: Text::new(),
            out: Buffered::stdout(PIECE),
            left_out: 0,
            failed: None,
        }
    }

    pub fn tell(&mut self, select: &RowFilter, nodes: bool, cells: &mut Cells) {
        let (map, cuts) = (self.map, self.cuts);
        self.printer.begin(&self.facts, &mut self.text);
        let told = match map.rows(select, cuts, cells, |cells, row| self.row(&row, cells)) {
            ControlFlow::Continue(told) => told,
            ControlFlow::Break(()) => return,
        };
        self.left_out = told.left_out;
        if nodes && map.node_rows(select, cells, |cells, row| self.node_row(&row, cells)).is_break() {
            return;
        }
        if self.facts.explain && self.printer.wants_refusals() {
            self.refusals(cells);
        }
        if cells.work().is_spent() {
            self.left_out = self.left_out.max(1);
        }
        self.summary.left_out = self.left_out;
        self.count(select);
        self.printer.end(&self.facts, &self.summary, &mut self.text);
        if self.write().is_continue() {
            self.failed = self.out.flush().err();
        }
    }

    fn row(&mut self, row: &WorkloadRow, cells: &mut Cells) -> ControlFlow<()> {
        let ranges =
            matches!((row.source, row.destination), (MapPeer::Range(..), _) | (_, MapPeer::Range(..)));
        cells.work().take(if ranges { RANGE_LINE } else { LINE });
        let Some((allowed, other)) = self.entry(row.entry, cells) else { return ControlFlow::Continue(()) };
        match (row.source, row.destination) {
            (MapPeer::Workload(from), MapPeer::Workload(_)) => {
                self.summary.connected += 1;
                self.progress.at(from);
            }
            (MapPeer::Workload(from), MapPeer::Range(..)) => _ = self.ends[0].insert(from),
            (MapPeer::Range(..), MapPeer::Workload(to)) => _ = self.ends[1].insert(to),
            _ => {}
        }
        let why = match self.facts.explain {
            true => self.why(row.source, row.destination, cells),
            false => Rc::clone(&self.silence),
        };
        let end = |peer: MapPeer| match peer {
            MapPeer::Workload(at) => MapEnd::Workload(at),
            MapPeer::Range(first, last) => MapEnd::Range(first, last),
            MapPeer::IngressController => MapEnd::IngressController,
        };
        let (source, destination) = (end(row.source), end(row.destination));
        self.say(MapRow { source, destination, allowed, other, uniform: row.entry.uniform, why })
    }

    fn node_row(&mut self, row: &NodeRow, cells: &mut Cells) -> ControlFlow<()> {
        cells.work().take(LINE);
        let Some((allowed, other)) = self.entry(row.entry, cells) else { return ControlFlow::Continue(()) };
        let why: Rc<[TrafficReason<'t>]> = match self.facts.explain {
            true => self.map.why_between(&row.pairs, Traffics::ALL, cells).into(),
            false => Rc::clone(&self.silence),
        };
        let all = self.map.snapshot.nodes();
        let names = (row.nodes.len() < all.len())
            .then(|| row.nodes.iter().map(|at| all[*at].name.as_str()).collect());
        let (own, nodes) = (MapEnd::Workload(row.workload), MapEnd::Nodes(names));
        let (source, destination) = match row.direction {
            Direction::Egress => (own, nodes),
            Direction::Ingress => (nodes, own),
        };
        self.say(MapRow { source, destination, allowed, other, uniform: row.entry.uniform, why })
    }

    /// What a row says; nothing where it is IGMP alone, which is no connection.
    fn entry(
        &mut self,
        entry: PairTraffic,
        cells: &Cells,
    ) -> Option<(Rc<AllowedTraffic>, Option<Rc<AllowedTraffic>>)> {
        let mut said = |id: TrafficId| {
            let said = self.said.entry(id).or_insert_with(|| {
                let connections = connections(id, cells);
                let text = connections.to_string();
                Rc::new(AllowedTraffic { id: id.0, connections, text })
            });
            Rc::clone(said)
        };
        let (allowed, other) = (said(entry.allowed), entry.other.map(&mut said));
        let something = |said: &Rc<AllowedTraffic>| {
            let own = &said.connections;
            let plain = [&own.tcp, &own.udp, &own.sctp, &own.icmp];
            plain.iter().any(|ranges| !ranges.is_empty())
                || own.from.iter().any(|(.., from)| !from.is_empty())
        };
        (something(&allowed) || other.as_ref().is_some_and(something)).then_some((allowed, other))
    }

    fn why(&mut self, source: MapPeer, destination: MapPeer, cells: &mut Cells) -> Rc<[TrafficReason<'t>]> {
        let kinds = self.map.kinds();
        // Workloads of a kind have the same reasons, unless it matters where their pods run, or that they are one.
        let key = match (source, destination) {
            (MapPeer::Workload(from), MapPeer::Workload(to)) if from != to && !kinds.is_host(from) => {
                Some((About::Kind(kinds.kind(from)), About::Kind(kinds.kind(to))))
            }
            (MapPeer::Workload(from), MapPeer::Range(first, last)) => {
                Some((About::Kind(kinds.kind(from)), About::Range(first, last)))
            }
            (MapPeer::Range(first, last), MapPeer::Workload(to)) => {
                Some((About::Range(first, last), About::Kind(kinds.kind(to))))
            }
            _ => None,
        };
        if let Some(known) = key.and_then(|key| self.reasons.get(&key)) {
            return Rc::clone(known);
        }
        let why: Rc<[TrafficReason<'t>]> =
            self.map.why(source, destination, Traffics::ALL, self.cuts, cells).into();
        if let Some(key) = key {
            if self.reasons.len() >= REMEMBERED {
                self.reasons.clear();
            }
            self.reasons.insert(key, Rc::clone(&why));
        }
        why
    }

    /// Why kinds may send each other nothing, where that is so, each said of two workloads of them.
    fn refusals(&mut self, cells: &mut Cells) {
        let map = self.map;
        let mut samples: Vec<[Option<usize>; 2]> = vec![[None; 2]; map.kinds().len()];
        for at in 0..map.workloads.len() {
            let [first, second] = &mut samples[map.kinds().kind(at) as usize];
            *(if first.is_none() { first } else { second }) = Some(at);
        }
        for [from, _] in &samples {
            let Some(from) = *from else { continue };
            if cells.work().is_spent() {
                break;
            }
            cells.work().take(LINE * samples.len() as u64);
            for to in samples
                .iter()
                .filter_map(|[first, second]| if *first == Some(from) { *second } else { *first })
            {
                if map.entry(from, to, cells).is_nothing() {
                    let why = self.why(MapPeer::Workload(from), MapPeer::Workload(to), cells);
                    self.printer.refusal(&self.facts, &MapEnd::Workload(from), &MapEnd::Workload(to), &why);
                }
            }
            for direction in Direction::BOTH {
                let outside = |family| map.outside(from, direction, family, self.cuts, cells);
                if self.facts.families.iter().copied().flat_map(outside).next().is_some() {
                    continue;
                }
                let (first, last) = (Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::BROADCAST.into());
                let (own, range) = (MapPeer::Workload(from), MapPeer::Range(first, last));
                let (end, other) = (MapEnd::Workload(from), MapEnd::Range(first, last));
                match direction {
                    Direction::Egress => {
                        let why = self.why(own, range, cells);
                        self.printer.refusal(&self.facts, &end, &other, &why);
                    }
                    Direction::Ingress => {
                        let why = self.why(range, own, cells);
                        self.printer.refusal(&self.facts, &other, &end, &why);
                    }
                }
            }
        }
    }

    fn say(&mut self, line: MapRow<'t>) -> ControlFlow<()> {
        self.printer.row(&self.facts, line, &mut self.text);
        if self.text.len() < PIECE { ControlFlow::Continue(()) } else { self.write() }
    }

    fn write(&mut self) -> ControlFlow<()> {
        let written = self.out.write(&self.text);
        self.text.clear();
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// How many pairs were asked about.
    fn count(&mut self, select: &RowFilter) {
        let shown = (0..self.facts.workloads.len()).filter(|at| self.facts.is_shown(*at));
        let (all, meant) = shown.fold((0_usize, 0_usize), |(all, meant), at| {
            (all + 1, meant + usize::from(self.facts.selected[at]))
        });
        let others = all - meant;
        let pairs = match select.direction {
            None => all.saturating_mul(all).saturating_sub(others.saturating_mul(others)),
            Some(_) => meant.saturating_mul(all),
        };
        let own = if select.ignore_self { meant } else { 0 };
        self.summary.workloads = meant;
        self.summary.pairs = pairs.saturating_sub(own);
        self.summary.reaching = self.ends[0].len();
        self.summary.reached = self.ends[1].len();
    }
}
