//! Pods by what made them: the rows and columns of a map.
//!
//! A workload is the direct controller of pods; a pod without one, a template that stands for pods, an external entity is
//! a workload by itself. Pods of one workload are usually alike; where they are not (a rollout, a label set by hand), the
//! workload has several kinds of pods, and a map says so.

use std::collections::BTreeMap;

use palisade_model::cluster::Pod;
use palisade_model::snapshot::Snapshot;
use smol_str::SmolStr;

/// The identity of a workload.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadName {
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// Its kind.
    pub kind: SmolStr,
}

/// A workload with its pods.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Which one.
    pub name: WorkloadName,
    /// Its pods, by their places; at least one.
    pub pods: Vec<usize>,
}

/// What a row stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Level {
    /// What made the pods.
    #[default]
    Workloads,
    /// What made that, as a Deployment makes ReplicaSets and a CronJob makes Jobs.
    Makers,
    /// Each pod by itself.
    Pods,
}

/// The kind of an external entity.
pub const EXTERNAL: &str = "ExternalEntity";
/// The kind of whoever serves Ingress and Route objects.
pub const INGRESS_CONTROLLER: &str = "IngressController";

// === impl WorkloadName ===

impl WorkloadName {
    /// Of a pod.
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

/// The workloads of a cluster, by namespace, name and kind. The terminated are nowhere.
pub fn workloads(snapshot: &Snapshot, level: Level) -> Vec<Workload> {
    let mut all: BTreeMap<WorkloadName, Vec<usize>> = BTreeMap::new();
    for (at, pod) in snapshot.pods().iter().enumerate().filter(|(_, pod)| !pod.terminated) {
        all.entry(WorkloadName::of(snapshot, pod, level)).or_default().push(at);
    }
    all.into_iter().map(|(name, pods)| Workload { name, pods }).collect()
}

/// Whether a workload can only ever be one endpoint, so that what it sends itself stays on its own address.
pub fn is_one(snapshot: &Snapshot, workload: &Workload) -> bool {
    match &workload.pods[..] {
        [only] => {
            snapshot.pods()[*only].stand_in.is_none()
                && matches!(workload.name.kind.as_str(), "Pod" | EXTERNAL)
        }
        _ => false,
    }
}
