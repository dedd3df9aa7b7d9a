//! Workloads: pods grouped by their controller, the rows and columns of a map.
//!
//! A workload is the direct controller of pods; a pod without one, a template that stands in for pods, and an external entity
//! are workloads by themselves. Pods of one workload are usually equivalent; where they are not (a rollout, a label set by
//! hand), rows are not uniform.

use std::collections::BTreeMap;

use palisade_model::cluster::Pod;
use palisade_model::snapshot::Snapshot;
use smol_str::SmolStr;

/// The identity of a workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadName {
    /// Namespace of its pods.
    pub namespace: SmolStr,
    /// Name of the controller, or of the pod.
    pub name: SmolStr,
    /// Kind of the controller, `Pod`, or one of the constants below.
    pub kind: SmolStr,
}

/// A workload with its pods.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Identity of the workload.
    pub name: WorkloadName,
    /// Indices of its pods; at least one.
    pub pods: Vec<usize>,
}

/// What pods are grouped by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Level {
    /// Their controller.
    #[default]
    Workloads,
    /// The topmost controller, as a Deployment for ReplicaSets and a CronJob for Jobs.
    Makers,
    /// Nothing: each pod is a workload.
    Pods,
}

/// Kind of external entities.
pub const EXTERNAL: &str = "ExternalEntity";
/// Kind of the controller that serves Ingress and Route objects.
pub const INGRESS_CONTROLLER: &str = "IngressController";

// === impl WorkloadName ===

impl WorkloadName {
    /// Returns the workload of a pod.
    fn of(snapshot: &Snapshot, pod: &Pod, level: Level) -> Self {
        let maker = match level {
            Level::Workloads if pod.stand_in.is_none() => pod.owner.clone(),
            Level::Makers => snapshot.makers(pod).pop(),
            _ => None,
        };
        let (kind, name) = match (&pod.stand_in, maker) {
            _ if pod.external => (EXTERNAL.into(), pod.name.clone()),
            (_, Some(maker)) => (maker.kind, maker.name),
            (Some(kind), None) => (kind.clone(), pod.name.clone()),
            (None, None) => ("Pod".into(), pod.name.clone()),
        };
        WorkloadName { namespace: pod.namespace.clone(), name, kind }
    }
}

impl std::fmt::Display for WorkloadName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Groups the pods of a cluster by workload, sorted by namespace, name and kind; without terminated pods.
pub fn workloads(snapshot: &Snapshot, level: Level) -> Vec<Workload> {
    let mut all: BTreeMap<WorkloadName, Vec<usize>> = BTreeMap::new();
    for (at, pod) in snapshot.pods().iter().enumerate().filter(|(_, pod)| !pod.terminated) {
        all.entry(WorkloadName::of(snapshot, pod, level)).or_default().push(at);
    }
    all.into_iter().map(|(name, pods)| Workload { name, pods }).collect()
}

/// Whether a workload is a single endpoint, so that its traffic to itself stays on its own address.
pub fn is_single_endpoint(snapshot: &Snapshot, workload: &Workload) -> bool {
    match &workload.pods[..] {
        [only] => {
            snapshot.pods()[*only].stand_in.is_none()
                && matches!(workload.name.kind.as_str(), "Pod" | EXTERNAL)
        }
        _ => false,
    }
}
