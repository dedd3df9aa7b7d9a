//! Rows of nodes: traffic between nodes and workloads.
//!
//! Nodes have no rows among workloads: policies of pods do not apply to them, and a pod's own node always reaches it. Traffic
//! of other nodes is computed here, for nodes with the same traffic together.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use palisade_model::flow::Who;
use palisade_model::policy::Direction;

use super::kinds::{ClassPair, PairTraffic, PodProfile, between, pairs};
use super::{INGRESS_CONTROLLER, Map, RowFilter};
use crate::reach::cells::Cells;

/// Traffic between some nodes and a workload.
#[derive(Debug, Clone)]
pub struct NodeRow {
    /// Indices of the nodes.
    pub nodes: Vec<usize>,
    /// Index of the workload.
    pub workload: usize,
    /// Direction seen from the workload: egress to the nodes, or ingress from them.
    pub direction: Direction,
    /// Allowed traffic.
    pub entry: PairTraffic,
    /// Pairs of classes that the row covers.
    pub pairs: Vec<ClassPair>,
}

/// Work of a group of nodes with the same profiles.
const PAIR_WORK: u64 = 100;

impl Map<'_> {
    /// Emits the rows of nodes for each selected workload, where something is allowed. Traffic of a pod's own node is not
    /// included.
    pub fn node_rows(
        &self,
        filter: &RowFilter,
        cells: &mut Cells,
        mut emit: impl FnMut(&mut Cells, NodeRow) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut node_groups: BTreeMap<Vec<PodProfile>, Vec<usize>> = BTreeMap::new();
        for at in (0..self.snapshot.nodes().len()).filter(|at| self.knows_node(*at)) {
            let mut profiles: Vec<PodProfile> =
                PodProfile::all(self.snapshot, Who::Node(at), &self.reach).collect();
            profiles.sort_unstable();
            profiles.dedup();
            node_groups.entry(profiles).or_default().push(at);
        }
        for workload in 0..self.workloads.len() {
            let controller = self.workloads[workload].name.kind == INGRESS_CONTROLLER;
            if controller || !filter.selects(self, workload) {
                continue;
            }
            if cells.work().is_spent() {
                break;
            }
            cells.work().take(PAIR_WORK * (node_groups.len() as u64 + 1));
            for direction in Direction::BOTH.into_iter().filter(|direction| filter.includes(*direction)) {
                for row in self.of_nodes(&node_groups, workload, direction, cells) {
                    if !row.entry.is_nothing() && filter.matches_traffic(row.entry, cells) {
                        emit(cells, row)?;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns rows for groups of nodes; groups with the same traffic share one.
    fn of_nodes(
        &self,
        node_groups: &BTreeMap<Vec<PodProfile>, Vec<usize>>,
        workload: usize,
        direction: Direction,
        cells: &mut Cells,
    ) -> Vec<NodeRow> {
        let mut rows: BTreeMap<PairTraffic, NodeRow> = BTreeMap::new();
        for (profiles, nodes) in node_groups {
            let (profiles, pods) = (&profiles[..], self.kinds().profiles(workload));
            let (from, to) = match direction {
                Direction::Egress => (pods, profiles),
                Direction::Ingress => (profiles, pods),
            };
            let Some(entry) = between(from, to, &self.reach, cells) else { continue };
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
