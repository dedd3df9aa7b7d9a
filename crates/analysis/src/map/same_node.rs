//! Pods in their node's network and the pods of that node: a pod's own node reaches it regardless of its policies.

use std::collections::HashMap;

use palisade_model::address::Family;
use palisade_model::flow::Who;
use palisade_model::snapshot::Snapshot;

use super::kinds::PairTraffic;
use super::workloads::Workload;
use super::{Map, allowed};
use crate::reach::cells::Cells;

/// Nodes of pods, and workloads with pods in their node's network.
#[derive(Debug)]
pub struct HostPods {
    /// Number of each pod's node.
    node_of: Vec<Option<u32>>,
    /// For each workload with pods in their node's network, one such pod of each node.
    of: Vec<Option<HashMap<u32, usize>>>,
}

// === impl HostPods ===

impl HostPods {
    /// Collects the nodes of these workloads' pods.
    pub fn of(snapshot: &Snapshot, workloads: &[Workload]) -> Self {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut node_of = Vec::with_capacity(snapshot.pods().len());
        for pod in snapshot.pods() {
            let fresh = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            node_of.push(pod.node.as_deref().map(|node| *numbers.entry(node).or_insert(fresh)));
        }
        let on_hosts = |workload: &Workload| {
            let on_hosts = workload.pods.iter().filter(|pod| snapshot.pods()[**pod].host_network);
            let of: HashMap<u32, usize> = on_hosts.filter_map(|pod| Some((node_of[*pod]?, *pod))).collect();
            (!of.is_empty()).then_some(of)
        };
        let of = workloads.iter().map(on_hosts).collect();
        HostPods { node_of, of }
    }

    /// Whether a workload has pods in their nodes' network.
    pub fn is_host(&self, workload: usize) -> bool {
        self.of[workload].is_some()
    }
}

impl Map<'_> {
    /// Returns pods of one workload in their node's network, each with a pod of another workload on that node.
    pub(super) fn same_node_pairs(&self, from: usize, to: usize) -> Vec<(Who, Who)> {
        let hosts = self.kinds().hosts();
        let Some(host_by_node) = &hosts.of[from] else { return Vec::new() };
        let beside = self.workloads[to].pods.iter();
        let beside = beside.filter_map(|to| Some((*host_by_node.get(&hosts.node_of[*to]?)?, *to)));
        let beside = beside.map(|(from, to)| (Who::Pod(from), Who::Pod(to))).filter(|(from, to)| from != to);
        let reach = &self.reach[0];
        beside.filter(|(from, to)| reach.is_itself(*from, *to) || reach.is_own_node(*from, *to)).collect()
    }

    /// Adds the traffic of pods in their node's network to pods of another workload on that node.
    pub(crate) fn with_same_node(
        &self,
        entry: PairTraffic,
        from: usize,
        to: usize,
        cells: &mut Cells,
    ) -> PairTraffic {
        let pairs = self.same_node_pairs(from, to);
        if pairs.is_empty() {
            return entry;
        }
        // Where all pairs share a node, traffic between others does not count.
        let pods = self.snapshot.pods();
        let (sources, destinations) = (&self.workloads[from].pods, &self.workloads[to].pods);
        let node_of = self.kinds().hosts().node_of[sources[0]];
        let beside = |pod: &usize| pods[*pod].host_network && self.kinds().hosts().node_of[*pod] == node_of;
        let all_same_node = pairs.len() == destinations.len() && sources.iter().all(beside);
        let mut entry = if all_same_node { None } else { Some(entry) };
        for (source, destination) in pairs {
            let family = self.snapshot.families((source, None), (destination, None)).first().copied();
            let reach = &self.reach[family.unwrap_or(Family::V4) as usize];
            if let Some(cell) = reach.between(source, destination, cells) {
                let own = PairTraffic { allowed: allowed(cell, cells), other: None, uniform: true };
                entry = Some(entry.map_or(own, |entry| entry.or(own, cells)));
            }
        }
        entry.unwrap_or(PairTraffic::NOTHING)
    }
}
