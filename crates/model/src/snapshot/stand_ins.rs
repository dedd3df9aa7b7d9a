//! Templates that stand for pods which do not exist (yet), and who made what.

use std::collections::BTreeSet;

use smol_str::SmolStr;

use crate::cluster::{Owner, Pod, Workload};

/// Namespace, kind and name.
pub(super) type WorkloadKey = (SmolStr, SmolStr, SmolStr);

/// Who made a workload.
pub(super) fn maker(workload: Workload) -> Option<(WorkloadKey, Owner)> {
    Some(((workload.template.namespace, workload.kind, workload.template.name), workload.owner?))
}

/// Adds, for every workload without living pods of its own, the pod of its template. Two workloads of one name, or a
/// pod and a workload, are different endpoints that share it: a question by that name is about all of them.
pub(super) fn with_stand_ins(mut pods: Vec<Pod>, workloads: &[Workload]) -> Vec<Pod> {
    let own = |workload: &Workload| -> WorkloadKey {
        (workload.template.namespace.clone(), workload.kind.clone(), workload.template.name.clone())
    };
    let key =
        |namespace: &SmolStr, owner: &Owner| (namespace.clone(), owner.kind.clone(), owner.name.clone());
    let known: BTreeSet<WorkloadKey> = workloads.iter().map(own).collect();
    let mut staffed: BTreeSet<WorkloadKey> = BTreeSet::new();
    for pod in pods.iter().filter(|pod| !pod.terminated) {
        staffed.extend(
            [&pod.owner, &pod.workload()].into_iter().flatten().map(|owner| key(&pod.namespace, owner)),
        );
    }
    // The owner of a workload with living pods needs no stand-in: a CronJob is represented by the pods of its Jobs. One
    // level only, so that the order of the workloads does not matter.
    let owners = workloads
        .iter()
        .filter(|workload| staffed.contains(&own(workload)))
        .filter_map(|workload| workload.owner.as_ref().map(|owner| key(&workload.template.namespace, owner)));
    let owners: Vec<WorkloadKey> = owners.collect();
    staffed.extend(owners);
    for workload in workloads {
        let made_by_known = workload
            .owner
            .as_ref()
            .is_some_and(|owner| known.contains(&key(&workload.template.namespace, owner)));
        if !made_by_known && !staffed.contains(&own(workload)) {
            pods.push(Pod { stand_in: Some(workload.kind.clone()), ..workload.template.clone() });
        }
    }
    pods
}
