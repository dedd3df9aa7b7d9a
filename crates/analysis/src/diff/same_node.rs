//! Differences between a node and the pods on it: a pod's own node reaches it regardless of its policies, and a pod in its
//! node's network is the node.
//!
//! Classes do not include the nodes of pods, so that a pair of a node and a workload that differs by classes is checked again
//! here. Several nodes need no check: for each pod, one of them at least is not its own.

use palisade_model::flow::Who;

use super::{Diff, DiffPeer};
use crate::map::{Map, PairTraffic, PodProfile, between};
use crate::reach::cells::Cells;

// === impl Diff ===

impl Diff<'_> {
    /// Returns the traffic of a node and a workload before and after, for pods on other nodes; pods on the node itself count
    /// only where there are no others. `None` where neither end is a single node, or the workload has no pod on it.
    pub(super) fn with_own_node(
        &self,
        source: DiffPeer,
        destination: DiffPeer,
        cells: &mut Cells,
    ) -> Option<[PairTraffic; 2]> {
        let (outlier, workload, from_node) = match (source, destination) {
            (DiffPeer::Outlier(outlier), DiffPeer::Workload(workload)) => (outlier, workload, true),
            (DiffPeer::Workload(workload), DiffPeer::Outlier(outlier)) => (outlier, workload, false),
            _ => return None,
        };
        let outlier = &self.outliers[outlier];
        let [node] = outlier.names.as_slice() else { return None };
        if outlier.of.is_some() {
            return None;
        }
        let mut has_pods_on_node = false;
        let mut entry = |map: &Map<'_>, workload: Option<usize>, own: &[PodProfile]| {
            let ends = |pod: usize| {
                let (node, pod) = (Who::Node(map.snapshot.node(node)?), Who::Pod(pod));
                Some(if from_node { (node, pod) } else { (pod, node) })
            };
            let reach = &map.reach[0];
            let is_on_node = |pod: usize| {
                ends(pod).is_some_and(|(one, other)| {
                    reach.is_itself(one, other) || (from_node && reach.is_own_node(one, other))
                })
            };
            let (on_node, elsewhere): (Vec<usize>, Vec<usize>) =
                map.workloads[workload?].pods.iter().partition(|pod| is_on_node(**pod));
            has_pods_on_node |= !on_node.is_empty();
            let mut pods: Vec<PodProfile> = elsewhere
                .iter()
                .flat_map(|pod| PodProfile::all(map.snapshot, Who::Pod(*pod), &map.reach))
                .collect();
            pods.sort_unstable();
            pods.dedup();
            let found = match (pods.is_empty(), from_node) {
                (true, _) => on_node.iter().find_map(|pod| {
                    let (one, other) = ends(*pod)?;
                    let cell = map.reach.iter().find_map(|reach| reach.between(one, other, cells))?;
                    Some(PairTraffic { allowed: cells.get(cell).allow, other: None, uniform: true })
                }),
                (false, true) => between(own, &pods, &map.reach, cells),
                (false, false) => between(&pods, own, &map.reach, cells),
            };
            Some(PairTraffic { uniform: true, ..found.unwrap_or(PairTraffic::NOTHING) })
        };
        let pair = &self.workloads[workload];
        let [before, after] = &outlier.sides;
        let entries = [entry(&self.before, pair.before, before)?, entry(&self.after, pair.after, after)?];
        has_pods_on_node.then_some(entries)
    }
}
