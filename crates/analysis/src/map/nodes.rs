//! What nodes and workloads may send each other.
//!
//! Nodes are no rows of the map proper: policies about pods do not apply to them, and a pod's own node reaches it whatever
//! policies say. What the other nodes may do is worked out here, nodes with the same answer together.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::ControlFlow;

use palisade_model::policy::Direction;

use super::kinds::{Entry, Pair, Profile, pairs, profiles};
use super::{INGRESS_CONTROLLER, Map, Select};
use crate::reach::cells::Cells;

/// What some nodes may send a workload, or it them.
#[derive(Debug, Clone)]
pub struct NodeRow {
    /// The nodes, by their places.
    pub nodes: Vec<usize>,
    /// The workload, by its place.
    pub workload: usize,
    /// Seen from the workload: egress to the nodes, or ingress from them.
    pub direction: Direction,
    /// What is let through.
    pub entry: Entry,
    /// The pairs of classes that this stands for.
    pub pairs: Vec<Pair>,
}

impl Map<'_> {
    /// Tells what each workload that is asked about may send nodes, and they it, where that is anything. What the node of
    /// a pod may do besides is not in it.
    pub fn node_rows(
        &self,
        select: &Select,
        cells: &mut Cells,
        mut tell: impl FnMut(&mut Cells, NodeRow) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut sorts: BTreeMap<Profile, Vec<usize>> = BTreeMap::new();
        for (at, node) in self.snapshot.nodes().iter().enumerate() {
            let profile = Profile {
                classes: [self.reach[0].of_node(at), self.reach[1].of_node(at)],
                unaddressed: node.addresses.is_empty(),
                six_first: node.addresses.first().is_some_and(IpAddr::is_ipv6),
            };
            sorts.entry(profile).or_default().push(at);
        }
        for workload in 0..self.workloads.len() {
            let controller = self.workloads[workload].name.kind == INGRESS_CONTROLLER;
            if controller || !select.is_meant(self, workload) {
                continue;
            }
            for direction in Direction::BOTH.into_iter().filter(|direction| select.wants(*direction)) {
                for row in self.of_nodes(&sorts, workload, direction, cells) {
                    if !row.entry.is_nothing() && select.lets_through(row.entry.allowed, false, cells) {
                        tell(cells, row)?;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// The answers that sorts of nodes get, each once.
    fn of_nodes(
        &self,
        sorts: &BTreeMap<Profile, Vec<usize>>,
        workload: usize,
        direction: Direction,
        cells: &mut Cells,
    ) -> Vec<NodeRow> {
        let mut rows: BTreeMap<Entry, NodeRow> = BTreeMap::new();
        for (sort, nodes) in sorts {
            let (sort, pods) = (std::slice::from_ref(sort), self.kinds().profiles(workload));
            let (from, to) = match direction {
                Direction::Egress => (pods, sort),
                Direction::Ingress => (sort, pods),
            };
            let mut entry: Option<Entry> = None;
            for (from, to) in from.iter().flat_map(|from| to.iter().map(move |to| (from, to))) {
                if let Some(own) = profiles(from, to, &self.reach, cells) {
                    entry = Some(entry.map_or(own, |entry| entry.or(own, cells)));
                }
            }
            let Some(entry) = entry else { continue };
            let row = rows.entry(entry).or_insert_with(|| NodeRow {
                nodes: Vec::new(),
                workload,
                direction,
                entry,
                pairs: Vec::new(),
            });
            row.nodes.extend(nodes);
            row.pairs.extend(pairs(from, to));
        }
        let mut rows: Vec<NodeRow> = rows.into_values().collect();
        for row in &mut rows {
            row.nodes.sort_unstable();
        }
        rows.sort_by(|one, other| one.nodes.cmp(&other.nodes));
        rows
    }
}
