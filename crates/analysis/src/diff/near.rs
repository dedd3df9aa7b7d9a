//! A node and the pods that run on it: a pod's own node reaches it whatever policies of the pod say, and a pod in its node's network is the
//! node.
//!
//! Classes do not know where pods run, so a pair of a node and a workload that differs by classes is looked at again here. Several
//! nodes need no second look: of each pod, at least one of them is not the node.

use palisade_model::flow::Who;

use super::{Diff, Peer};
use crate::map::{Entry, Map, Profile, between};
use crate::reach::cells::Cells;

// === impl Diff ===

impl Diff<'_> {
    /// What a node and a workload may do before and after, as far as pods elsewhere are concerned; pods on the node itself count only
    /// where there are no others. `None` where neither end is a single node, or the workload has no pod on it.
    pub(super) fn with_own_node(
        &self,
        source: Peer,
        destination: Peer,
        cells: &mut Cells,
    ) -> Option<[Entry; 2]> {
        let (outlier, workload, from_node) = match (source, destination) {
            (Peer::Outlier(outlier), Peer::Workload(workload)) => (outlier, workload, true),
            (Peer::Workload(workload), Peer::Outlier(outlier)) => (outlier, workload, false),
            _ => return None,
        };
        let outlier = &self.outliers[outlier];
        let [node] = outlier.names.as_slice() else { return None };
        if outlier.of.is_some() {
            return None;
        }
        let mut beside = false;
        let mut entry = |map: &Map<'_>, workload: Option<usize>, own: &[Profile]| {
            let ends = |pod: usize| {
                let (node, pod) = (Who::Node(map.snapshot.node(node)?), Who::Pod(pod));
                Some(if from_node { (node, pod) } else { (pod, node) })
            };
            let reach = &map.reach[0];
            let is_near = |pod: usize| {
                ends(pod).is_some_and(|(one, other)| {
                    reach.is_itself(one, other) || (from_node && reach.is_own_node(one, other))
                })
            };
            let (near, away): (Vec<usize>, Vec<usize>) =
                map.workloads[workload?].pods.iter().partition(|pod| is_near(**pod));
            beside |= !near.is_empty();
            let mut pods: Vec<Profile> =
                away.iter().flat_map(|pod| Profile::all(map.snapshot, Who::Pod(*pod), &map.reach)).collect();
            pods.sort_unstable();
            pods.dedup();
            let found = match (pods.is_empty(), from_node) {
                (true, _) => near.iter().find_map(|pod| {
                    let (one, other) = ends(*pod)?;
                    let cell = map.reach.iter().find_map(|reach| reach.between(one, other, cells))?;
                    Some(Entry { allowed: cells.get(cell).allow, other: None, uniform: true })
                }),
                (false, true) => between(own, &pods, &map.reach, cells),
                (false, false) => between(&pods, own, &map.reach, cells),
            };
            Some(Entry { uniform: true, ..found.unwrap_or(Entry::NOTHING) })
        };
        let pair = &self.workloads[workload];
        let [before, after] = &outlier.sides;
        let entries = [entry(&self.before, pair.before, before)?, entry(&self.after, pair.after, after)?];
        beside.then_some(entries)
    }
}
