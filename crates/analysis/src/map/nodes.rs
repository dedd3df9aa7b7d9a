//! What nodes and workloads may send each other.
//!
//! Nodes are no rows of the map proper: policies about pods do not apply to them, and a pod's own node reaches it whatever
//! policies say. What the other nodes may do is worked out here, nodes with the same answer together.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use palisade_model::flow::Who;
use palisade_model::policy::Direction;

use super::kinds::{Entry, Pair, Profile, between, pairs};
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

/// Steps to look at a sort of nodes.
const PAIR: u64 = 100;

impl Map<'_> {
    /// Tells what each workload that is asked about may send nodes, and they it, where that is anything. What the node of
    /// a pod may do besides is not in it.
    pub fn node_rows(
        &self,
        select: &Select,
        cells: &mut Cells,
        mut tell: impl FnMut(&mut Cells, NodeRow) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut sorts: BTreeMap<Vec<Profile>, Vec<usize>> = BTreeMap::new();
        for at in (0..self.snapshot.nodes().len()).filter(|at| self.knows_node(*at)) {
            let mut profiles: Vec<Profile> =
                Profile::all(self.snapshot, Who::Node(at), &self.reach).collect();
            profiles.sort_unstable();
            profiles.dedup();
            sorts.entry(profiles).or_default().push(at);
        }
        for workload in 0..self.workloads.len() {
            let controller = self.workloads[workload].name.kind == INGRESS_CONTROLLER;
            if controller || !select.is_meant(self, workload) {
                continue;
            }
            if cells.work().is_spent() {
                break;
            }
            cells.work().take(PAIR * (sorts.len() as u64 + 1));
            for direction in Direction::BOTH.into_iter().filter(|direction| select.wants(*direction)) {
                for row in self.of_nodes(&sorts, workload, direction, cells) {
                    if !row.entry.is_nothing() && select.lets_through(row.entry, cells) {
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
        sorts: &BTreeMap<Vec<Profile>, Vec<usize>>,
        workload: usize,
        direction: Direction,
        cells: &mut Cells,
    ) -> Vec<NodeRow> {
        let mut rows: BTreeMap<Entry, NodeRow> = BTreeMap::new();
        for (sort, nodes) in sorts {
            let (sort, pods) = (&sort[..], self.kinds().profiles(workload));
            let (from, to) = match direction {
                Direction::Egress => (pods, sort),
                Direction::Ingress => (sort, pods),
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
