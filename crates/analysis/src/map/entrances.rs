//! Who comes in by name: what the ingress controller may reach behind Ingress and Route objects.
//!
//! Nobody knows who serves them: a pod of some namespace, a load balancer outside. It is a pod without labels in a
//! namespace of its own, so that it gets what policies let everybody do.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use palisade_model::cluster::Pod;
use palisade_model::flow::Who;
use palisade_model::snapshot::Objects;
use palisade_model::traffic::PortRange;
use palisade_model::traffic_set::Region;

use super::kinds::{Entry, Profile, between};
use super::{INGRESS_CONTROLLER, Map, Peer, Row, Select};
use crate::reach::cells::Cells;
use crate::reach::traffics::{TrafficId, Traffics};

/// Where the ingress controller lives, which is no name that a namespace can have.
const INGRESS_NAMESPACE: &str = "(ingress controller)";

/// Adds whoever serves Ingress and Route objects, where there are any.
pub fn with_ingress_controller(objects: &mut Objects) {
    if objects.entrances.is_empty() {
        return;
    }
    objects.pods.push(Pod {
        namespace: INGRESS_NAMESPACE.into(),
        name: "ingress-controller".into(),
        stand_in: Some(INGRESS_CONTROLLER.into()),
        ready: true,
        account: "default".into(),
        ..Pod::default()
    });
}

impl Map<'_> {
    /// For each workload behind an entrance what the ingress controller may send it: each pod of it gets what the entrance
    /// leads to, as far as policies let that pod have it.
    pub fn from_entrances(&self, cells: &mut Cells) -> BTreeMap<usize, Entry> {
        let Some(controller) = self.workloads.iter().position(|own| own.name.kind == INGRESS_CONTROLLER)
        else {
            return BTreeMap::new();
        };
        let mut of_pod: Vec<Option<usize>> = vec![None; self.snapshot.pods().len()];
        for (at, workload) in self.workloads.iter().enumerate() {
            workload.pods.iter().for_each(|pod| of_pod[*pod] = Some(at));
        }
        let mut reached: BTreeMap<usize, TrafficId> = BTreeMap::new();
        for opening in self.snapshot.entrances().iter().flat_map(|entrance| self.snapshot.behind(entrance)) {
            let space = cells.traffics.space();
            let port =
                space.region(Region::new(opening.protocol, opening.port..=opening.port, PortRange::ALL));
            let port = cells.traffics.intern(port);
            let set = reached.entry(opening.pod).or_insert(Traffics::EMPTY);
            *set = cells.traffics.union(*set, port);
        }
        let mut gets: BTreeMap<usize, (Entry, usize)> = BTreeMap::new();
        for (pod, asked) in reached {
            let Some(workload) = of_pod[pod] else { continue };
            let own: Vec<Profile> = Profile::all(self.snapshot, Who::Pod(pod), &self.reach).collect();
            let entry = between(self.kinds().profiles(controller), &own, &self.reach, cells);
            let allowed = cells.traffics.intersection(entry.unwrap_or(Entry::NOTHING).allowed, asked);
            let entry = Entry { allowed, other: None, uniform: true };
            let (known, pods) = gets.entry(workload).or_insert((entry, 0));
            *known = known.or(entry, cells);
            *pods += 1;
        }
        let gets = gets.into_iter().filter(|(_, (entry, _))| !entry.is_nothing());
        // Pods that no entrance leads to get nothing.
        let told = |(workload, (entry, pods)): (usize, (Entry, usize))| {
            let uniform = entry.uniform && pods == self.workloads[workload].pods.len();
            (workload, Entry { uniform, ..entry })
        };
        gets.map(told).collect()
    }

    /// Tells the rows of the ingress controller.
    pub(super) fn entrance_rows(
        &self,
        select: &Select,
        cells: &mut Cells,
        tell: &mut impl FnMut(&mut Cells, Row) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for (workload, entry) in self.from_entrances(cells) {
            if select.is_meant(self, workload) && select.lets_through(entry, cells) {
                let (source, destination) = (Peer::IngressController, Peer::Workload(workload));
                tell(cells, Row { source, destination, entry })?;
            }
        }
        ControlFlow::Continue(())
    }
}
