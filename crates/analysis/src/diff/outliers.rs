//! Differences for endpoints that have no row of their own in the map of workloads: nodes, and pods whose policies differ from
//! the rest of their workload.
//!
//! The row of a workload is the union over its pods. Where they differ, one may gain or lose traffic that another had or has:
//! then the row does not change, and its pods are compared one by one. Nodes have no rows among workloads. Only endpoints of
//! both sides are compared: added and removed ones are reported as such.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use palisade_model::flow::Who;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;

use super::outside::differing_ranges;
use super::{ChangeFilter, Diff, DiffPeer, TrafficChange, WorkloadPair};
use crate::map::{ClassPair, Map, PairTraffic, PodProfile, between, is_same_by_sides, pairs};
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;

/// Nodes, or pods of one workload, that are equivalent on both sides.
#[derive(Debug, Clone)]
pub struct Outlier {
    /// Names of the nodes or pods; those of pods with their namespace.
    pub names: Vec<String>,
    /// Index of the pods' workload; `None` for nodes.
    pub of: Option<usize>,
    /// Profiles before and after.
    pub(super) sides: [Vec<PodProfile>; 2],
}

/// Work to compare a pair.
const PAIR_WORK: u64 = 200;

/// Names by their profiles before and after.
type NamesByProfiles = BTreeMap<[Vec<PodProfile>; 2], Vec<String>>;

/// Returns all outliers, nodes first.
pub(super) fn outliers(before: &Map<'_>, after: &Map<'_>, workloads: &[WorkloadPair]) -> Vec<Outlier> {
    let profiles = |map: &Map<'_>, who: Who| {
        let mut all: Vec<PodProfile> = PodProfile::all(map.snapshot, who, &map.reach).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let add = |by_profiles: &mut NamesByProfiles, name: String, one: Who, other: Who| {
        by_profiles.entry([profiles(before, one), profiles(after, other)]).or_default().push(name);
    };
    let mut nodes = NamesByProfiles::new();
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
        let mut pods = NamesByProfiles::new();
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
    /// Emits the changes of outliers, where no row of workloads shows them.
    pub(super) fn outlier_changes(
        &self,
        filter: &ChangeFilter,
        cuts: &Cuts,
        cells: &mut Cells,
        emit: &mut impl FnMut(&mut Cells, TrafficChange) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut mixed: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, outlier) in self.outliers.iter().enumerate() {
            if cells.work().is_spent() {
                return ControlFlow::Continue(());
            }
            match outlier.of {
                Some(workload) => mixed.entry(workload).or_default().push(at),
                None => {
                    self.of_nodes(at, cells, emit)?;
                    self.with_outside(at, filter, cuts, cells, emit)?;
                }
            }
        }
        for (workload, outliers) in &mixed {
            for other in 0..self.workloads.len() {
                if cells.work().is_spent() {
                    return ControlFlow::Continue(());
                }
                self.of_pods((*workload, other), &mixed, filter, cells, emit)?;
                // A pair of two mixed workloads is visited once as source and once as destination.
                if !mixed.contains_key(&other) {
                    self.of_pods((other, *workload), &mixed, filter, cells, emit)?;
                }
            }
            for outlier in outliers {
                self.with_outside(*outlier, filter, cuts, cells, emit)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn of_nodes(
        &self,
        outlier: usize,
        cells: &mut Cells,
        emit: &mut impl FnMut(&mut Cells, TrafficChange) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for workload in (0..self.workloads.len()).filter(|at| !self.is_controller(*at)) {
            let (own, nodes) = (DiffPeer::Workload(workload), DiffPeer::Outlier(outlier));
            for (source, destination) in [(own, nodes), (nodes, own)] {
                self.pair(source, destination, cells, emit)?;
            }
        }
        for other in (0..self.outliers.len()).filter(|other| self.outliers[*other].of.is_none()) {
            // Traffic to itself is always allowed.
            if other != outlier || self.outliers[outlier].names.len() > 1 {
                self.pair(DiffPeer::Outlier(outlier), DiffPeer::Outlier(other), cells, emit)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn of_pods(
        &self,
        (from, to): (usize, usize),
        mixed: &BTreeMap<usize, Vec<usize>>,
        filter: &ChangeFilter,
        cells: &mut Cells,
        emit: &mut impl FnMut(&mut Cells, TrafficChange) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let skipped =
            self.is_controller(from) || self.is_controller(to) || (filter.ignore_self && from == to);
        let [before, after] = self.entries(from, to, cells);
        cells.work().take(PAIR_WORK);
        if skipped || before != after {
            return ControlFlow::Continue(());
        }
        let parts = |workload: usize| match mixed.get(&workload) {
            Some(outliers) => outliers.iter().copied().map(DiffPeer::Outlier).collect(),
            None => vec![DiffPeer::Workload(workload)],
        };
        for source in parts(from) {
            for destination in parts(to) {
                // Traffic to itself is always allowed.
                let alone = matches!(source, DiffPeer::Outlier(at) if self.outliers[at].names.len() == 1);
                if !(source == destination && alone) {
                    self.pair(source, destination, cells, emit)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn with_outside(
        &self,
        outlier: usize,
        filter: &ChangeFilter,
        cuts: &Cuts,
        cells: &mut Cells,
        emit: &mut impl FnMut(&mut Cells, TrafficChange) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let pair = self.outliers[outlier].of.map(|workload| &self.workloads[workload]);
        let whole = pair.and_then(|pair| Some((pair.before?, pair.after?)));
        for (direction, family) in
            Direction::BOTH.into_iter().flat_map(|d| filter.families.iter().map(move |family| (d, *family)))
        {
            // The workload's own row shows the change.
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
            for (first, last, before, after) in differing_ranges(&before, &after) {
                let (pods, range) = (DiffPeer::Outlier(outlier), DiffPeer::Range(first, last));
                let (source, destination) = match direction {
                    Direction::Egress => (pods, range),
                    Direction::Ingress => (range, pods),
                };
                let entry = |allowed| PairTraffic { allowed, other: None, uniform: true };
                emit(
                    cells,
                    TrafficChange { source, destination, before: entry(before), after: entry(after) },
                )?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Emits a pair with an outlier, if its traffic changes.
    fn pair(
        &self,
        source: DiffPeer,
        destination: DiffPeer,
        cells: &mut Cells,
        emit: &mut impl FnMut(&mut Cells, TrafficChange) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        cells.work().take(PAIR_WORK);
        let ends = |after: bool| Some([self.profiles(source, after)?, self.profiles(destination, after)?]);
        let (Some(before), Some(after)) = (ends(false), ends(true)) else {
            return ControlFlow::Continue(());
        };
        // Most pairs do not change: for these nothing is computed.
        if is_same_by_sides(before, after, [&self.before.reach, &self.after.reach]) {
            return ControlFlow::Continue(());
        }
        let mut entry = |[from, to]: [&[PodProfile]; 2], map: &Map<'_>| {
            let entry = between(from, to, &map.reach, cells).unwrap_or(PairTraffic::NOTHING);
            PairTraffic { uniform: true, ..entry }
        };
        let (before, after) = (entry(before, &self.before), entry(after, &self.after));
        if before != after {
            let [before, after] = self.with_own_node(source, destination, cells).unwrap_or([before, after]);
            if before == after {
                return ControlFlow::Continue(());
            }
            emit(cells, TrafficChange { source, destination, before, after })?;
        }
        ControlFlow::Continue(())
    }

    /// Returns the profiles of an end, on one side.
    fn profiles(&self, peer: DiffPeer, after: bool) -> Option<&[PodProfile]> {
        match peer {
            DiffPeer::Outlier(at) => Some(&self.outliers[at].sides[usize::from(after)]),
            DiffPeer::Workload(at) if after => Some(self.after.kinds().profiles(self.workloads[at].after?)),
            DiffPeer::Workload(at) => Some(self.before.kinds().profiles(self.workloads[at].before?)),
            DiffPeer::Range(..) | DiffPeer::IngressController => None,
        }
    }

    /// Returns the pairs of classes that a change of an outlier covers, on one side. `None` where no end is an outlier.
    pub(super) fn outlier_pairs(
        &self,
        change: &TrafficChange,
        after: bool,
        cuts: &Cuts,
    ) -> Option<Vec<ClassPair>> {
        let map = if after { &self.after } else { &self.before };
        let of = |peer| self.profiles(peer, after).unwrap_or_default();
        match (change.source, change.destination) {
            (DiffPeer::Outlier(_), DiffPeer::Range(first, last)) => {
                Some(map.with_outside(of(change.source), Direction::Egress, (first, last), cuts))
            }
            (DiffPeer::Range(first, last), DiffPeer::Outlier(_)) => {
                Some(map.with_outside(of(change.destination), Direction::Ingress, (first, last), cuts))
            }
            (DiffPeer::Outlier(_), _) | (_, DiffPeer::Outlier(_)) => {
                Some(pairs(of(change.source), of(change.destination)))
            }
            _ => None,
        }
    }
}
