//! Whether two sets of policies say the same about one cluster, of every connection: not only what is let through, also how
//! the rest is refused.
//!
//! Endpoints that both sides put into one class each are one endpoint here, and every pair of these is two cells of the two
//! sides, on one line of traffic: they are equal or they are not. Nothing is sampled.

use std::collections::HashSet;

use palisade_model::address::Family;
use palisade_model::flow::{Flow, Who};
use palisade_model::options::Options;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::traffic::Traffic;

use crate::reach::cells::{Cell, CellId, Cells};
use crate::reach::cuts::Cuts;
use crate::reach::traffics::TrafficId;
use crate::reach::{Matrix, Reach};
use crate::work::Work;

/// What was found equal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compared {
    /// So many pods and nodes, with each other and with every address outside.
    pub endpoints: usize,
    /// Whether more source ports are told apart than can be compared: connections that name one are left out.
    pub coarse: bool,
    /// Sorts of endpoints that were not compared with all others, because that takes too much work.
    pub left_out: usize,
}

/// What makes two sides different.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Differs {
    /// Any verdict: also whether what is refused is dropped or answered.
    InAnyVerdict,
    /// What is let through after, and not before.
    InWhatOpens,
    /// What is let through before, and not after.
    InWhatCloses,
}

/// A connection about which the two sides disagree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differing {
    /// The connection.
    pub flow: Flow,
    /// What becomes of it before.
    pub before: Verdict,
    /// And after.
    pub after: Verdict,
}

/// Steps to compare a pair of classes.
const PAIR: u64 = 5;

/// Both sides of one family of addresses.
struct Sides<'s> {
    before: Reach<'s>,
    after: Reach<'s>,
    cuts: &'s Cuts,
    differs: Differs,
}

/// Endpoints that neither side tells apart: their class before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct End {
    before: u32,
    after: u32,
}

/// Compares two snapshots that have the same pods, nodes and namespaces, in the same order.
pub fn compare(
    before: &Snapshot,
    after: &Snapshot,
    options: &Options,
    differs: Differs,
) -> Result<Compared, Box<Differing>> {
    compare_within(before, after, options, differs, Work::default())
}

/// Compares two such snapshots as far as the work lasts. Who could not be compared is counted, and nothing is claimed about
/// them.
pub(super) fn compare_within(
    before: &Snapshot,
    after: &Snapshot,
    options: &Options,
    differs: Differs,
    mut work: Work,
) -> Result<Compared, Box<Differing>> {
    let cuts = Cuts::of([before, after]);
    let mut left_out = 0;
    for family in [Family::V4, Family::V6] {
        let share = work.share(if family == Family::V4 { 2 } else { 1 });
        let mut cells = Cells::limited(cuts.space().clone(), share);
        let kept = cells.work().share(2);
        let before = Reach::new(before, options, family, &cuts, &mut cells);
        cells.work().put_back(kept);
        let after = Reach::new(after, options, family, &cuts, &mut cells);
        let sides = Sides { before, after, cuts: &cuts, differs };
        left_out += sides.compare(&mut cells)?;
        work.put_back(std::mem::replace(cells.work(), Work::new(0)));
    }
    let there = before.pods().iter().filter(|pod| !pod.terminated).count();
    Ok(Compared { endpoints: there + before.nodes().len(), coarse: cuts.coarse, left_out })
}

// === impl Sides ===

impl Sides<'_> {
    /// Compares all pairs. Returns how many sorts of endpoints were left out.
    fn compare(&self, cells: &mut Cells) -> Result<usize, Box<Differing>> {
        let all = self.ends();
        let known = |end: &End| self.before.is_known(end.before) && self.after.is_known(end.after);
        let ends: Vec<End> = all.iter().copied().filter(known).collect();
        let unknown = all.len() - ends.len();
        let (mut before, mut after) = (Matrix::new(&self.before, cells), Matrix::new(&self.after, cells));
        let outside = |end: &End| self.before.outside().contains(&end.before);
        for (at, source) in ends.iter().enumerate() {
            if cells.work().is_spent() {
                return Ok(unknown + ends.len() - at);
            }
            cells.work().take(PAIR * ends.len() as u64);
            let (one, other) = (before.from(source.before, cells), after.from(source.after, cells));
            let equal = |end: &&End| one[end.before as usize] == other[end.after as usize];
            // What addresses outside do among themselves is not the cluster's business.
            let concerned = |end: &&End| !(outside(source) && outside(end));
            for to in ends.iter().filter(|end| !equal(end)).filter(concerned) {
                self.differ([one[to.before as usize], other[to.after as usize]], *source, *to, cells)?;
            }
        }
        self.near(cells)?;
        Ok(unknown)
    }

    /// Everybody, each sort once, in the order of their classes.
    fn ends(&self) -> Vec<End> {
        let snapshot = self.before.snapshot();
        // The addresses are the same on both sides, and so are the intervals they are in.
        let ends = |who: Who| {
            let both = self.before.classes_of(who).zip(self.after.classes_of(who));
            both.map(|((before, _), (after, _))| End { before, after })
        };
        let pods = (0..snapshot.pods().len()).flat_map(|pod| ends(Who::Pod(pod)));
        let nodes = (0..snapshot.nodes().len()).flat_map(|node| ends(Who::Node(node)));
        // Their intervals are the same: they have the boundaries of both.
        let outside = self.before.outside().zip(self.after.outside());
        let outside = outside.map(|(before, after)| End { before, after });
        let mut ends: Vec<End> = pods.chain(nodes).chain(outside).collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// What nodes send to the pods that run on them is theirs alone to say.
    fn near(&self, cells: &Cells) -> Result<(), Box<Differing>> {
        let snapshot = self.before.snapshot();
        let mut seen = HashSet::new();
        for (at, pod) in snapshot.pods().iter().enumerate() {
            let Some(node) = pod.node.as_deref().and_then(|name| snapshot.node(name)) else { continue };
            let (node, pod) = (Who::Node(node), Who::Pod(at));
            if !self.before.is_own_node(node, pod) || self.before.is_itself(node, pod) {
                continue;
            }
            let end = |who| Some(End { before: self.before.class(who)?, after: self.after.class(who)? });
            let Some((from, to)) = end(node).zip(end(pod)).filter(|ends| seen.insert(*ends)) else {
                continue;
            };
            // Of who is unknown, it was said before.
            if !self.before.is_known(from.before) || !self.after.is_known(from.after) {
                continue;
            }
            let said = [
                self.before.side(Direction::Egress, from.before, to.before),
                self.after.side(Direction::Egress, from.after, to.after),
            ];
            self.differ(said, from, to, cells)?;
        }
        Ok(())
    }

    /// The connection that two cells disagree about, unless nobody could open one.
    fn differ(
        &self,
        cells: [CellId; 2],
        source: End,
        destination: End,
        all: &Cells,
    ) -> Result<(), Box<Differing>> {
        let [before, after] = cells.map(|cell| all.get(cell));
        let (traffics, line) = (&all.traffics, all.traffics.space());
        let more = |one: TrafficId, other: TrafficId| {
            line.sample(&traffics.set(one).difference(traffics.set(other)))
        };
        let (opened, closed) = (|| more(after.allow, before.allow), || more(before.allow, after.allow));
        let differing = match self.differs {
            Differs::InWhatOpens => opened(),
            Differs::InWhatCloses => closed(),
            Differs::InAnyVerdict => opened()
                .or_else(closed)
                .or_else(|| more(after.reject, before.reject))
                .or_else(|| more(before.reject, after.reject)),
        };
        let Some(traffic) = differing else { return Ok(()) };
        let source = self.before.sample(source.before, None, self.cuts);
        let destination = self.before.sample(destination.before, Some(source), self.cuts);
        let verdict = |cell: Cell| self.verdict(cell, traffic, all);
        Err(Box::new(Differing {
            flow: Flow { source, destination, traffic, via: None },
            before: verdict(before),
            after: verdict(after),
        }))
    }

    fn verdict(&self, cell: Cell, traffic: Traffic, cells: &Cells) -> Verdict {
        let place = cells.traffics.space().offset(traffic, self.before.family() == Family::V6);
        let in_part = |part| cells.traffics.set(part).contains(place);
        match (in_part(cell.allow), in_part(cell.reject)) {
            (true, _) => Verdict::Allow,
            (_, true) => Verdict::Reject,
            _ => Verdict::Deny,
        }
    }
}
