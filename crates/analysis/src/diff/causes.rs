//! Possible causes of a diff besides policies: changed labels, and ReplicaSets of one Deployment.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::label::Labels;

use super::{Diff, WorkloadPair};
use crate::map::{Map, WorkloadName};

/// Changes besides policies.
#[derive(Debug, Default)]
pub struct Causes {
    /// Workloads whose pods' labels changed.
    pub workloads: Vec<Relabelled>,
    /// Namespaces whose labels changed.
    pub namespaces: Vec<Relabelled>,
    /// Whether ReplicaSets of one Deployment, by their names, were added and removed.
    pub rollout: bool,
}

/// A workload or a namespace whose labels changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relabelled {
    /// Name, of a workload with its namespace.
    pub name: String,
    /// Labels that only the side before has.
    pub removed: Vec<(String, String)>,
    /// Labels that only the side after has.
    pub added: Vec<(String, String)>,
}

/// Keys and values of labels.
type LabelSet = BTreeSet<(String, String)>;

/// Keys of labels that distinguish revisions of a workload.
const VERSION_LABELS: [&str; 3] =
    ["pod-template-hash", "controller-revision-hash", "pod-template-generation"];

// === impl Relabelled ===

impl Relabelled {
    fn of(name: &impl ToString, before: &LabelSet, after: &LabelSet) -> Option<Self> {
        (before != after).then(|| Relabelled {
            name: name.to_string(),
            removed: before.difference(after).cloned().collect(),
            added: after.difference(before).cloned().collect(),
        })
    }
}

// === impl Causes ===

impl Causes {
    /// Collects the causes of a diff.
    pub fn of(diff: &Diff<'_>) -> Self {
        let labels = |map: &Map<'_>, at: usize| -> LabelSet {
            let pods = map.workloads[at].pods.iter();
            pods.flat_map(|pod| stable_labels(&map.snapshot.pods()[*pod].labels)).collect()
        };
        let workload = |pair: &WorkloadPair| {
            let (before, after) = (labels(&diff.before, pair.before?), labels(&diff.after, pair.after?));
            Relabelled::of(&pair.name, &before, &after)
        };
        let namespace_labels = |map: &Map<'_>| -> BTreeMap<String, LabelSet> {
            let all = map.snapshot.namespaces().iter();
            all.map(|namespace| (namespace.name.to_string(), stable_labels(&namespace.labels).collect()))
                .collect()
        };
        let (before, after) = (namespace_labels(&diff.before), namespace_labels(&diff.after));
        let both = before.iter().filter_map(|(name, labels)| Some((name, labels, after.get(name)?)));
        Causes {
            workloads: diff.written().filter_map(workload).collect(),
            namespaces: both.filter_map(|(name, one, other)| Relabelled::of(name, one, other)).collect(),
            rollout: is_rollout(diff),
        }
    }
}

fn stable_labels(labels: &Labels) -> impl Iterator<Item = (String, String)> {
    let matter = labels.iter().filter(|(key, _)| !VERSION_LABELS.contains(key));
    matter.map(|(key, value)| (key.to_owned(), value.to_owned()))
}

fn is_rollout(diff: &Diff<'_>) -> bool {
    let of = |name: &WorkloadName| {
        let base = name.name.rsplit_once('-')?.0.to_owned();
        (name.kind == "ReplicaSet").then(|| (name.namespace.clone(), base))
    };
    let added: BTreeSet<_> = diff.added().filter_map(of).collect();
    diff.removed().filter_map(of).any(|base| added.contains(&base))
}
