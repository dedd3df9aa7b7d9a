//! What changed besides policies: labels, and ReplicaSets of one Deployment. A reviewer looks for the cause there where no
//! policy is it.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::label::Labels;

use super::{Diff, WorkloadPair};
use crate::map::{Map, WorkloadName};

/// What may be a cause.
#[derive(Debug, Default)]
pub struct Causes {
    /// Workloads whose pods have other labels.
    pub workloads: Vec<Relabelled>,
    /// Namespaces that have other labels.
    pub namespaces: Vec<Relabelled>,
    /// Whether ReplicaSets came and went that seem to be of one Deployment.
    pub rollout: bool,
}

/// Somebody with other labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relabelled {
    /// Its name, with its namespace.
    pub name: String,
    /// Labels that it has no more.
    pub gone: Vec<(String, String)>,
    /// Labels that it has now.
    pub came: Vec<(String, String)>,
}

/// Keys and values.
type Told = BTreeSet<(String, String)>;

/// Labels that say which version a pod is of, and that no policy is about.
const OF_VERSIONS: [&str; 3] = ["pod-template-hash", "controller-revision-hash", "pod-template-generation"];

// === impl Relabelled ===

impl Relabelled {
    fn of(name: &impl ToString, before: &Told, after: &Told) -> Option<Self> {
        (before != after).then(|| Relabelled {
            name: name.to_string(),
            gone: before.difference(after).cloned().collect(),
            came: after.difference(before).cloned().collect(),
        })
    }
}

// === impl Causes ===

impl Causes {
    /// Of a diff.
    pub fn of(diff: &Diff<'_>) -> Self {
        let labels = |map: &Map<'_>, at: usize| -> Told {
            let pods = map.workloads[at].pods.iter();
            pods.flat_map(|pod| told(&map.snapshot.pods()[*pod].labels)).collect()
        };
        let workload = |pair: &WorkloadPair| {
            let (before, after) = (labels(&diff.before, pair.before?), labels(&diff.after, pair.after?));
            Relabelled::of(&pair.name, &before, &after)
        };
        let homes = |map: &Map<'_>| -> BTreeMap<String, Told> {
            let all = map.snapshot.namespaces().iter();
            all.map(|namespace| (namespace.name.to_string(), told(&namespace.labels).collect())).collect()
        };
        let (before, after) = (homes(&diff.before), homes(&diff.after));
        let both = before.iter().filter_map(|(name, labels)| Some((name, labels, after.get(name)?)));
        Causes {
            workloads: diff.written().filter_map(workload).collect(),
            namespaces: both.filter_map(|(name, one, other)| Relabelled::of(name, one, other)).collect(),
            rollout: is_rollout(diff),
        }
    }
}

fn told(labels: &Labels) -> impl Iterator<Item = (String, String)> {
    let matter = labels.iter().filter(|(key, _)| !OF_VERSIONS.contains(key));
    matter.map(|(key, value)| (key.to_owned(), value.to_owned()))
}

fn is_rollout(diff: &Diff<'_>) -> bool {
    let of = |name: &WorkloadName| {
        let base = name.name.rsplit_once('-')?.0.to_owned();
        (name.kind == "ReplicaSet").then(|| (name.namespace.clone(), base))
    };
    let came: BTreeSet<_> = diff.came().filter_map(of).collect();
    diff.went().filter_map(of).any(|base| came.contains(&base))
}
