//! Differences for endpoints that have no row of their own in the map of workloads: nodes, and pods whose policies differ from
//! the rest of their workload.
//!
//! A workload may do what some of its pods may. Where they are not alike, one of them may gain or lose something that
//! another one had, or has: then the workload's row says nothing, and its pods are told apart. Nodes are no workloads, and
//! what policies say about them is compared here. Only who is there on both sides is: what comes and goes is told as that.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use palisade_model::flow::Who;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;

use super::outside::compared;
use super::{Change, Diff, Peer, Select, WorkloadPair};
use crate::map::{Entry, Map, Pair, Profile, between, is_same_by_sides, pairs};
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;

/// Nodes, or pods of one workload, that neither side tells apart.
#[derive(Debug, Clone)]
pub struct Outlier {
    /// Which ones; pods with their namespace.
    pub names: Vec<String>,
    /// The workload of pods, by its place; none for nodes.
    pub of: Option<usize>,
    /// What they are before and after.
    pub(super) sides: [Vec<Profile>; 2],
}

/// Steps to compare a pair.
const PAIR: u64 = 200;

/// Those that are the same on both sides, put together.
type Alike = BTreeMap<[Vec<Profile>; 2], Vec<String>>;

/// All of them: nodes first.
pub(super) fn outliers(before: &Map<'_>, after: &Map<'_>, workloads: &[WorkloadPair]) -> Vec<Outlier> {
    let profiles = |map: &Map<'_>, who: Who| {
        let mut all: Vec<Profile> = Profile::all(map.snapshot, who, &map.reach).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let add = |alike: &mut Alike, name: String, one: Who, other: Who| {
        alike.entry([profiles(before, one), profiles(after, other)]).or_default().push(name);
    };
    let mut nodes = Alike::new();
    for (at, node) in before.snapshot.nodes().iter().enumerate() {
        if let Some(other) = after.snapshot.node(&node.name)
            && before.knows_node(at)
            && after.knows_node(other)
        {
            add(&mut nodes, node.name.to_string(), Who::Node(at), Who::Node(other));
        }
    }
    let outlier = |of: Option<usize>| move |(sides, names)| Outlier { names, of, sides };
    let mut all: Vec<Outlier> = nodes.into_iter().map(outlier(None)).collect();
    for (at, pair) in workloads.iter().enumerate() {
        let (Some(one), Some(other)) = (pair.before, pair.after) else { continue };
        if !before.kinds().is_mixed(one) && !after.kinds().is_mixed(other) {
            continue;
        }
        let name = |snapshot: &Snapshot, pod: usize| snapshot.pods()[pod].name.clone();
        let there: HashMap<_, usize> =
            after.workloads[other].pods.iter().map(|pod| (name(after.snapshot, *pod), *pod)).collect();
        let mut pods = Alike::new();
        for pod in &before.workloads[one].pods {
            let name = name(before.snapshot, *pod);
            if let Some(other) = there.get(&name) {
                let full = format!("{}/{name}", pair.name.namespace);
                add(&mut pods, full, Who::Pod(*pod), Who::Pod(*other));
            }
        }
        all.extend(pods.into_iter().map(outlier(Some(at))));
    }
    all
}

// === impl Diff ===

impl Diff<'_> {
    /// Tells what nodes and unlike pods may do otherwise, where no row of workloads does.
    pub(super) fn apart(
        &self,
        select: &Select,
        cuts: &Cuts,
        cells: &mut Cells,
        tell: &mut impl FnMut(&mut Cells, Change) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut mixed: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, outlier) in self.outliers.iter().enumerate() {
            if cells.work().is_spent() {
                return ControlFlow::Continue(());
            }
            match outlier.of {
                Some(workload) => mixed.entry(workload).or_default().push(at),
                None => {
                    self.of_nodes(at, cells, tell)?;
                    self.with_outside(at, select, cuts, cells, tell)?;
                }
            }
        }
        for (workload, outliers) in &mixed {
            for other in 0..self.workloads.len() {
                if cells.work().is_spent() {
                    return ControlFlow::Continue(());
                }
                self.of_pods((*workload, other), &mixed, select, cells, tell)?;
                // Two of which both are mixed meet once as source and once as destination.
                if !mixed.contains_key(&other) {
                    self.of_pods((other, *workload), &mixed, select, cells, tell)?;
                }
            }
            for outlier in outliers {
                self.with_outside(*outlier, select, cuts, cells, tell)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn of_nodes(
        &self,
        outlier: usize,
        cells: &mut Cells,
        tell: &mut impl FnMut(&mut Cells, Change) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for workload in (0..self.workloads.len()).filter(|at| !self.is_controller(*at)) {
            let (own, nodes) = (Peer::Workload(workload), Peer::Outlier(outlier));
            for (source, destination) in [(own, nodes), (nodes, own)] {
                self.pair(source, destination, cells, tell)?;
            }
        }
        for other in (0..self.outliers.len()).filter(|other| self.outliers[*other].of.is_none()) {
            // Nobody is cut off from itself.
            if other != outlier || self.outliers[outlier].names.len() > 1 {
                self.pair(Peer::Outlier(outlier), Peer::Outlier(other), cells, tell)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn of_pods(
        &self,
        (from, to): (usize, usize),
        mixed: &BTreeMap<usize, Vec<usize>>,
        select: &Select,
        cells: &mut Cells,
        tell: &mut impl FnMut(&mut Cells, Change) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let skipped =
            self.is_controller(from) || self.is_controller(to) || (select.ignore_self && from == to);
        let [before, after] = self.entries(from, to, cells);
        cells.work().take(PAIR);
        if skipped || before != after {
            return ControlFlow::Continue(());
        }
        let parts = |workload: usize| match mixed.get(&workload) {
            Some(outliers) => outliers.iter().copied().map(Peer::Outlier).collect(),
            None => vec![Peer::Workload(workload)],
        };
        for source in parts(from) {
            for destination in parts(to) {
                // Nobody is cut off from itself.
                let alone = matches!(source, Peer::Outlier(at) if self.outliers[at].names.len() == 1);
                if !(source == destination && alone) {
                    self.pair(source, destination, cells, tell)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn with_outside(
        &self,
        outlier: usize,
        select: &Select,
        cuts: &Cuts,
        cells: &mut Cells,
        tell: &mut impl FnMut(&mut Cells, Change) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let pair = self.outliers[outlier].of.map(|workload| &self.workloads[workload]);
        let whole = pair.and_then(|pair| Some((pair.before?, pair.after?)));
        for (direction, family) in
            Direction::BOTH.into_iter().flat_map(|d| select.families.iter().map(move |family| (d, *family)))
        {
            // The workload's own row tells it.
            if let Some((before, after)) = whole
                && self.before.outside(before, direction, family, cuts, cells)
                    != self.after.outside(after, direction, family, cuts, cells)
            {
                continue;
            }
            let mut own = |map: &Map<'_>, side: usize| {
                let own = self.outliers[outlier].sides[side].iter();
                let classes: Vec<u32> = own.filter_map(|own| own.classes[family as usize]).collect();
                map.outside_of(&classes, direction, family, cuts, cells)
            };
            let (before, after) = (own(&self.before, 0), own(&self.after, 1));
            for (first, last, before, after) in compared(&before, &after) {
                let (pods, range) = (Peer::Outlier(outlier), Peer::Range(first, last));
                let (source, destination) = match direction {
                    Direction::Egress => (pods, range),
                    Direction::Ingress => (range, pods),
                };
                let entry = |allowed| Entry { allowed, other: None, uniform: true };
                tell(cells, Change { source, destination, before: entry(before), after: entry(after) })?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Tells a pair of which one is a outlier, if it may do something else.
    fn pair(
        &self,
        source: Peer,
        destination: Peer,
        cells: &mut Cells,
        tell: &mut impl FnMut(&mut Cells, Change) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        cells.work().take(PAIR);
        let ends = |after: bool| Some([self.profiles(source, after)?, self.profiles(destination, after)?]);
        let (Some(before), Some(after)) = (ends(false), ends(true)) else {
            return ControlFlow::Continue(());
        };
        // Most pairs are as they were: of these nothing is worked out, and nothing kept.
        if is_same_by_sides(before, after, [&self.before.reach, &self.after.reach]) {
            return ControlFlow::Continue(());
        }
        let mut entry = |[from, to]: [&[Profile]; 2], map: &Map<'_>| {
            let entry = between(from, to, &map.reach, cells).unwrap_or(Entry::NOTHING);
            Entry { uniform: true, ..entry }
        };
        let (before, after) = (entry(before, &self.before), entry(after, &self.after));
        if before != after {
            let [before, after] = self.with_own_node(source, destination, cells).unwrap_or([before, after]);
            if before == after {
                return ControlFlow::Continue(());
            }
            tell(cells, Change { source, destination, before, after })?;
        }
        ControlFlow::Continue(())
    }

    /// What an end is, on one side.
    fn profiles(&self, peer: Peer, after: bool) -> Option<&[Profile]> {
        match peer {
            Peer::Outlier(at) => Some(&self.outliers[at].sides[usize::from(after)]),
            Peer::Workload(at) if after => Some(self.after.kinds().profiles(self.workloads[at].after?)),
            Peer::Workload(at) => Some(self.before.kinds().profiles(self.workloads[at].before?)),
            Peer::Range(..) | Peer::IngressController => None,
        }
    }

    /// The pairs of classes that a change of a outlier stands for, on one side. `None` where it is of none.
    pub(super) fn spot_pairs(&self, change: &Change, after: bool, cuts: &Cuts) -> Option<Vec<Pair>> {
        let map = if after { &self.after } else { &self.before };
        let of = |peer| self.profiles(peer, after).unwrap_or_default();
        match (change.source, change.destination) {
            (Peer::Outlier(_), Peer::Range(first, last)) => {
                Some(map.with_outside(of(change.source), Direction::Egress, (first, last), cuts))
            }
            (Peer::Range(first, last), Peer::Outlier(_)) => {
                Some(map.with_outside(of(change.destination), Direction::Ingress, (first, last), cuts))
            }
            (Peer::Outlier(_), _) | (_, Peer::Outlier(_)) => {
                Some(pairs(of(change.source), of(change.destination)))
            }
            _ => None,
        }
    }
}
