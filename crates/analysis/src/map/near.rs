//! Pods in their node's network, and the pods beside them: a pod's own node reaches it whatever policies of the pod say.

use std::collections::HashMap;

use palisade_model::address::Family;
use palisade_model::flow::Who;
use palisade_model::snapshot::Snapshot;

use super::kinds::Entry;
use super::workloads::Workload;
use super::{Map, allowed};
use crate::reach::cells::Cells;

/// Where pods are.
#[derive(Debug)]
pub struct Hosts {
    /// For each pod the number of its node.
    home: Vec<Option<u32>>,
    /// For each workload with pods in their node's network, one of these for each node.
    of: Vec<Option<HashMap<u32, usize>>>,
}

// === impl Hosts ===

impl Hosts {
    /// Of these workloads.
    pub fn of(snapshot: &Snapshot, workloads: &[Workload]) -> Self {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut home = Vec::with_capacity(snapshot.pods().len());
        for pod in snapshot.pods() {
            let fresh = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            home.push(pod.node.as_deref().map(|node| *numbers.entry(node).or_insert(fresh)));
        }
        let on_hosts = |workload: &Workload| {
            let on_hosts = workload.pods.iter().filter(|pod| snapshot.pods()[**pod].host_network);
            let of: HashMap<u32, usize> = on_hosts.filter_map(|pod| Some((home[*pod]?, *pod))).collect();
            (!of.is_empty()).then_some(of)
        };
        let of = workloads.iter().map(on_hosts).collect();
        Hosts { home, of }
    }

    /// Whether a workload has pods in their nodes' network.
    pub fn is_host(&self, workload: usize) -> bool {
        self.of[workload].is_some()
    }
}

impl Map<'_> {
    /// Pods of one workload that are the node of pods of another, with those.
    pub(super) fn near(&self, from: usize, to: usize) -> Vec<(Who, Who)> {
        let hosts = self.kinds().hosts();
        let Some(homes) = &hosts.of[from] else { return Vec::new() };
        let beside = self.workloads[to].pods.iter();
        let beside = beside.filter_map(|to| Some((*homes.get(&hosts.home[*to]?)?, *to)));
        let beside = beside.map(|(from, to)| (Who::Pod(from), Who::Pod(to))).filter(|(from, to)| from != to);
        let reach = &self.reach[0];
        beside.filter(|(from, to)| reach.is_itself(*from, *to) || reach.is_own_node(*from, *to)).collect()
    }

    /// With what two workloads are to each other where pods of the one are the node of pods of the other.
    pub(crate) fn with_near(&self, entry: Entry, from: usize, to: usize, cells: &mut Cells) -> Entry {
        let near = self.near(from, to);
        if near.is_empty() {
            return entry;
        }
        // Where all of them are near, what others like them may do is of no interest.
        let pods = self.snapshot.pods();
        let (sources, destinations) = (&self.workloads[from].pods, &self.workloads[to].pods);
        let home = self.kinds().hosts().home[sources[0]];
        let beside = |pod: &usize| pods[*pod].host_network && self.kinds().hosts().home[*pod] == home;
        let all_near = near.len() == destinations.len() && sources.iter().all(beside);
        let mut entry = if all_near { None } else { Some(entry) };
        for (source, destination) in near {
            let family = self.snapshot.families((source, None), (destination, None)).first().copied();
            let reach = &self.reach[family.unwrap_or(Family::V4) as usize];
            if let Some(cell) = reach.between(source, destination, cells) {
                let own = Entry { allowed: allowed(cell, cells), other: None, uniform: true };
                entry = Some(entry.map_or(own, |entry| entry.or(own, cells)));
            }
        }
        entry.unwrap_or(Entry::NOTHING)
    }
}
