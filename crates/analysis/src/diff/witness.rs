//! Example connections of findings.

use palisade_model::address::Family;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::traffic::Traffic;

use super::{Diff, DiffFinding, DiffPeer};
use crate::map::Map;
use crate::reach::Reach;
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;

/// Maximum number of pods of a workload tried: distinct ones are few.
const MAX_TRIED: usize = 64;

impl Diff<'_> {
    /// Returns a connection of a finding between endpoints of one side: that after, or that before.
    pub fn witness(
        &self,
        finding: &DiffFinding,
        after: bool,
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> Option<Flow> {
        let map = if after { &self.after } else { &self.before };
        let lets_through = finding.opens == after;
        let traffic = cells.traffics.space().sample(cells.traffics.set(finding.part))?;
        for (source, destination) in &finding.pairs {
            for reach in &map.reach {
                let sources = self.parties(*source, after, map, reach, cuts);
                let destinations = self.parties(*destination, after, map, reach, cuts);
                let mut pairs =
                    sources.iter().flat_map(|one| destinations.iter().map(move |other| (*one, *other)));
                let mut shows = |((from, source), (to, destination)): &((u32, Party), (u32, Party))| {
                    let near = source.who != Who::Outside
                        && (reach.is_itself(source.who, destination.who)
                            || reach.is_own_node(source.who, destination.who));
                    !near && is_allowed(reach, (*from, *to), traffic, cells) == lets_through
                };
                if let Some(((_, source), (_, destination))) = pairs.find(|pair| shows(pair)) {
                    return Some(Flow { source, destination, traffic, via: None });
                }
            }
        }
        None
    }

    /// Returns the endpoints of an end, with their classes over a family.
    fn parties(
        &self,
        peer: DiffPeer,
        after: bool,
        map: &Map<'_>,
        reach: &Reach<'_>,
        cuts: &Cuts,
    ) -> Vec<(u32, Party)> {
        let of = |who: Who| {
            reach
                .classes_of(who)
                .map(move |(class, address)| (class, Party { who, address }))
                .collect::<Vec<_>>()
        };
        let side = |before: Option<usize>, now: Option<usize>| if after { now } else { before };
        match peer {
            DiffPeer::Workload(at) => {
                let pair = &self.workloads[at];
                let Some(at) = side(pair.before, pair.after) else { return Vec::new() };
                let pods = map.workloads[at].pods.iter().take(MAX_TRIED);
                pods.flat_map(|pod| of(Who::Pod(*pod))).collect()
            }
            DiffPeer::Range(first, _) if Family::of(first) != reach.family() => Vec::new(),
            DiffPeer::Range(first, _) => {
                let class = reach.of_address(first, cuts);
                vec![(class, reach.sample(class, None, cuts))]
            }
            DiffPeer::Outlier(at) => {
                let outlier = &self.outliers[at];
                let meant = |name: &str| outlier.names.iter().any(|known| known == name);
                let snapshot = map.snapshot;
                match outlier.of {
                    None => {
                        let nodes = snapshot.nodes().iter().enumerate().filter(|(_, node)| meant(&node.name));
                        nodes.take(MAX_TRIED).flat_map(|(at, _)| of(Who::Node(at))).collect()
                    }
                    Some(workload) => {
                        let pair = &self.workloads[workload];
                        let Some(at) = side(pair.before, pair.after) else { return Vec::new() };
                        let named = |pod: &&usize| {
                            let own = &snapshot.pods()[**pod];
                            meant(&format!("{}/{}", own.namespace, own.name))
                        };
                        let pods = map.workloads[at].pods.iter().filter(named).take(MAX_TRIED);
                        pods.flat_map(|pod| of(Who::Pod(*pod))).collect()
                    }
                }
            }
            // The ingress controller is no endpoint of the manifests.
            DiffPeer::IngressController => Vec::new(),
        }
    }
}

fn is_allowed(reach: &Reach<'_>, (from, to): (u32, u32), traffic: Traffic, cells: &mut Cells) -> bool {
    let cell = reach.cell(from, to, cells);
    let allowed = cells.get(cell).allow;
    let place = cells.traffics.space().offset(traffic, reach.family() == Family::V6);
    cells.traffics.set(allowed).contains(place)
}
