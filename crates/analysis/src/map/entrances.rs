//! Rows of the ingress controller: traffic to the backends of Ingress and Route objects.
//!
//! Manifests do not tell what serves them: a pod of some namespace, or a load balancer outside. It is modelled as a pod
//! without labels in a namespace of its own, to which only rules for any pod apply.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use palisade_model::cluster::Pod;
use palisade_model::flow::Who;
use palisade_model::snapshot::Objects;
use palisade_model::traffic::PortRange;
use palisade_model::traffic_set::Region;

use super::kinds::{PairTraffic, PodProfile, between};
use super::{INGRESS_CONTROLLER, Map, MapPeer, RowFilter, WorkloadRow};
use crate::reach::cells::Cells;
use crate::reach::traffics::{TrafficId, Traffics};

/// Namespace of the ingress controller: no valid name, so that no real namespace has it.
const INGRESS_NAMESPACE: &str = "(ingress controller)";

/// Adds the ingress controller, if there are Ingress or Route objects.
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
    /// Returns the traffic of the ingress controller to each workload behind an entrance: the ports that entrances lead to,
    /// as far as policies of each pod allow them.
    pub fn from_entrances(&self, cells: &mut Cells) -> BTreeMap<usize, PairTraffic> {
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
        let mut by_workload: BTreeMap<usize, (PairTraffic, usize)> = BTreeMap::new();
        for (pod, asked) in reached {
            let Some(workload) = of_pod[pod] else { continue };
            let own: Vec<PodProfile> = PodProfile::all(self.snapshot, Who::Pod(pod), &self.reach).collect();
            let entry = between(self.kinds().profiles(controller), &own, &self.reach, cells);
            let allowed = cells.traffics.intersection(entry.unwrap_or(PairTraffic::NOTHING).allowed, asked);
            let entry = PairTraffic { allowed, other: None, uniform: true };
            let (known, pods) = by_workload.entry(workload).or_insert((entry, 0));
            *known = known.or(entry, cells);
            *pods += 1;
        }
        let by_workload = by_workload.into_iter().filter(|(_, (entry, _))| !entry.is_nothing());
        // A workload with pods that no entrance leads to is not uniform.
        let with_uniform = |(workload, (entry, pods)): (usize, (PairTraffic, usize))| {
            let uniform = entry.uniform && pods == self.workloads[workload].pods.len();
            (workload, PairTraffic { uniform, ..entry })
        };
        by_workload.map(with_uniform).collect()
    }

    /// Emits the rows of the ingress controller.
    pub(super) fn entrance_rows(
        &self,
        filter: &RowFilter,
        cells: &mut Cells,
        emit: &mut impl FnMut(&mut Cells, WorkloadRow) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for (workload, entry) in self.from_entrances(cells) {
            if filter.selects(self, workload) && filter.matches_traffic(entry, cells) {
                let (source, destination) = (MapPeer::IngressController, MapPeer::Workload(workload));
                emit(cells, WorkloadRow { source, destination, entry })?;
            }
        }
        ControlFlow::Continue(())
    }
}
