//! Equality of the verdicts of two sets of policies for one cluster, for every connection, including how it is refused.
//!
//! Endpoints of the same class on both sides are one endpoint here, and each pair of these has a cell on each side: these are
//! equal or not. Nothing is sampled.

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

/// Extent of a comparison without differences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ComparisonExtent {
    /// Number of pods and nodes compared with each other and with every outside address.
    pub endpoints: usize,
    /// Whether source ports are not distinguished, because rules have too many.
    pub coarse: bool,
    /// Number of classes that were not compared with all others, because a limit was reached.
    pub left_out: usize,
}

/// Which verdicts count as different.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DifferenceKind {
    /// All, including whether refused traffic is dropped or rejected.
    InAnyVerdict,
    /// Traffic allowed after and not before.
    InWhatOpens,
    /// Traffic allowed before and not after.
    InWhatCloses,
}

/// A flow with different verdicts on the two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DivergentFlow {
    /// Flow between endpoints of the cluster, or with the outside.
    pub flow: Flow,
    /// Verdict before.
    pub before: Verdict,
    /// Verdict after.
    pub after: Verdict,
}

/// Work to compare a pair of classes.
const PAIR_WORK: u64 = 5;

/// Reachability of both sides over one address family.
struct ReachPair<'s> {
    before: Reach<'s>,
    after: Reach<'s>,
    cuts: &'s Cuts,
    differs: DifferenceKind,
}

/// Endpoints that are equivalent on both sides: their class before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct JointClass {
    before: u32,
    after: u32,
}

/// Compares two snapshots that have the same pods, nodes and namespaces, in the same order.
pub fn compare(
    before: &Snapshot,
    after: &Snapshot,
    options: &Options,
    differs: DifferenceKind,
) -> Result<ComparisonExtent, Box<DivergentFlow>> {
    compare_within(before, after, options, differs, Work::default())
}

/// Compares two such snapshots within a budget of work. Classes beyond it are counted, and nothing is claimed about them.
pub(super) fn compare_within(
    before: &Snapshot,
    after: &Snapshot,
    options: &Options,
    differs: DifferenceKind,
    mut work: Work,
) -> Result<ComparisonExtent, Box<DivergentFlow>> {
    let cuts = Cuts::of([before, after]);
    let mut left_out = 0;
    for family in [Family::V4, Family::V6] {
        let share = work.share(if family == Family::V4 { 2 } else { 1 });
        let mut cells = Cells::limited(cuts.space().clone(), share);
        let kept = cells.work().share(2);
        let before = Reach::new(before, options, family, &cuts, &mut cells);
        cells.work().put_back(kept);
        let after = Reach::new(after, options, family, &cuts, &mut cells);
        let sides = ReachPair { before, after, cuts: &cuts, differs };
        left_out += sides.compare(&mut cells)?;
        work.put_back(std::mem::replace(cells.work(), Work::new(0)));
    }
    let there = before.pods().iter().filter(|pod| !pod.terminated).count();
    Ok(ComparisonExtent { endpoints: there + before.nodes().len(), coarse: cuts.coarse, left_out })
}

// === impl ReachPair ===

impl ReachPair<'_> {
    /// Compares all pairs. Returns the number of classes left out.
    fn compare(&self, cells: &mut Cells) -> Result<usize, Box<DivergentFlow>> {
        let all = self.joint_classes();
        let known = |end: &JointClass| self.before.is_known(end.before) && self.after.is_known(end.after);
        let joint_classes: Vec<JointClass> = all.iter().copied().filter(known).collect();
        let unknown = all.len() - joint_classes.len();
        let (mut before, mut after) = (Matrix::new(&self.before, cells), Matrix::new(&self.after, cells));
        let outside = |end: &JointClass| self.before.outside().contains(&end.before);
        for (at, source) in joint_classes.iter().enumerate() {
            if cells.work().is_spent() {
                return Ok(unknown + joint_classes.len() - at);
            }
            cells.work().take(PAIR_WORK * joint_classes.len() as u64);
            let (one, other) = (before.from(source.before, cells), after.from(source.after, cells));
            let equal = |end: &&JointClass| one[end.before as usize] == other[end.after as usize];
            // Traffic between outside addresses is not the cluster's.
            let concerned = |end: &&JointClass| !(outside(source) && outside(end));
            for to in joint_classes.iter().filter(|end| !equal(end)).filter(concerned) {
                self.check_cells([one[to.before as usize], other[to.after as usize]], *source, *to, cells)?;
            }
        }
        self.compare_own_nodes(cells)?;
        Ok(unknown)
    }

    /// Returns the joint classes of all endpoints, sorted.
    fn joint_classes(&self) -> Vec<JointClass> {
        let snapshot = self.before.snapshot();
        // The addresses are the same on both sides, and so are the intervals they are in.
        let joint_classes = |who: Who| {
            let both = self.before.classes_of(who).zip(self.after.classes_of(who));
            both.map(|((before, _), (after, _))| JointClass { before, after })
        };
        let pods = (0..snapshot.pods().len()).flat_map(|pod| joint_classes(Who::Pod(pod)));
        let nodes = (0..snapshot.nodes().len()).flat_map(|node| joint_classes(Who::Node(node)));
        // Both sides have the same intervals: the boundaries of both.
        let outside = self.before.outside().zip(self.after.outside());
        let outside = outside.map(|(before, after)| JointClass { before, after });
        let mut joint_classes: Vec<JointClass> = pods.chain(nodes).chain(outside).collect();
        joint_classes.sort_unstable();
        joint_classes.dedup();
        joint_classes
    }

    /// Compares traffic of nodes to their own pods, for which egress of the node alone counts.
    fn compare_own_nodes(&self, cells: &Cells) -> Result<(), Box<DivergentFlow>> {
        let snapshot = self.before.snapshot();
        let mut seen = HashSet::new();
        for (at, pod) in snapshot.pods().iter().enumerate() {
            let Some(node) = pod.node.as_deref().and_then(|name| snapshot.node(name)) else { continue };
            let (node, pod) = (Who::Node(node), Who::Pod(at));
            if !self.before.is_own_node(node, pod) || self.before.is_itself(node, pod) {
                continue;
            }
            let end =
                |who| Some(JointClass { before: self.before.class(who)?, after: self.after.class(who)? });
            let Some((from, to)) =
                end(node).zip(end(pod)).filter(|joint_classes| seen.insert(*joint_classes))
            else {
                continue;
            };
            // Unknown classes are counted already.
            if !self.before.is_known(from.before) || !self.after.is_known(from.after) {
                continue;
            }
            let egress = [
                self.before.side(Direction::Egress, from.before, to.before),
                self.after.side(Direction::Egress, from.after, to.after),
            ];
            self.check_cells(egress, from, to, cells)?;
        }
        Ok(())
    }

    /// Fails with an example flow where two cells differ.
    fn check_cells(
        &self,
        cells: [CellId; 2],
        source: JointClass,
        destination: JointClass,
        all: &Cells,
    ) -> Result<(), Box<DivergentFlow>> {
        let [before, after] = cells.map(|cell| all.get(cell));
        let (traffics, line) = (&all.traffics, all.traffics.space());
        let more = |one: TrafficId, other: TrafficId| {
            line.sample(&traffics.set(one).difference(traffics.set(other)))
        };
        let (opened, closed) = (|| more(after.allow, before.allow), || more(before.allow, after.allow));
        let differing = match self.differs {
            DifferenceKind::InWhatOpens => opened(),
            DifferenceKind::InWhatCloses => closed(),
            DifferenceKind::InAnyVerdict => opened()
                .or_else(closed)
                .or_else(|| more(after.reject, before.reject))
                .or_else(|| more(before.reject, after.reject)),
        };
        let Some(traffic) = differing else { return Ok(()) };
        let source = self.before.sample(source.before, None, self.cuts);
        let destination = self.before.sample(destination.before, Some(source), self.cuts);
        let verdict = |cell: Cell| self.verdict(cell, traffic, all);
        Err(Box::new(DivergentFlow {
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
