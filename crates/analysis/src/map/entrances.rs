//! Who comes in by name: what the ingress controller may reach behind Ingress and Route objects.
//!
//! Nobody knows who serves them: a pod of some namespace, a load balancer outside. It is a pod without labels in a
//! namespace of its own, so that it gets what policies let everybody do.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use palisade_model::cluster::Pod;
use palisade_model::snapshot::Objects;
use palisade_model::traffic::PortRange;

use super::{Entry, INGRESS_CONTROLLER, Map, Peer, Row, Select};
use crate::reach::cells::Cells;
use crate::reach::traffic_set::{TrafficId, TrafficSet, Traffics};

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
    /// For each workload behind an entrance what the ingress controller may send it.
    pub fn from_entrances(&self, cells: &mut Cells) -> BTreeMap<usize, TrafficId> {
        let Some(controller) = self.workloads.iter().position(|own| own.name.kind == INGRESS_CONTROLLER)
        else {
            return BTreeMap::new();
        };
        let mut of_pod: Vec<Option<usize>> = vec![None; self.snapshot.pods().len()];
        for (at, workload) in self.workloads.iter().enumerate() {
            workload.pods.iter().for_each(|pod| of_pod[*pod] = Some(at));
        }
        let mut reached: BTreeMap<usize, TrafficSet> = BTreeMap::new();
        for opening in self.snapshot.entrances().iter().flat_map(|entrance| self.snapshot.behind(entrance)) {
            let Some(workload) = of_pod[opening.pod] else { continue };
            let line = cells.traffics.line();
            let port = line.places(opening.protocol, opening.port..=opening.port, PortRange::ALL);
            let set = reached.entry(workload).or_default();
            *set = set.or(&port);
        }
        let mut gets = BTreeMap::new();
        for (workload, set) in reached {
            let asked = cells.traffics.intern(set);
            let allowed = self.entry(controller, workload, cells).allowed;
            let allowed = cells.traffics.and(allowed, asked);
            if allowed != Traffics::EMPTY {
                gets.insert(workload, allowed);
            }
        }
        gets
    }

    /// Tells the rows of the ingress controller.
    pub(super) fn entrance_rows(
        &self,
        select: &Select,
        cells: &mut Cells,
        tell: &mut impl FnMut(&mut Cells, Row) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for (workload, allowed) in self.from_entrances(cells) {
            if select.is_meant(self, workload) && select.lets_through(allowed, false, cells) {
                let entry = Entry { allowed, other: None, uniform: true };
                let (source, destination) = (Peer::IngressController, Peer::Workload(workload));
                tell(cells, Row { source, destination, entry })?;
            }
        }
        ControlFlow::Continue(())
    }
}
