//! What changed besides policies: labels, and workloads that came and went. A reviewer looks for the cause there where no
//! policy is it.

use std::collections::{BTreeMap, BTreeSet};

use palisade_analysis::diff::{Diff, Joint};
use palisade_analysis::map::{Map, WorkloadName};
use palisade_model::label::Labels;

/// How many are listed of each sort.
const LISTED: usize = 8;
/// Labels that say which version a pod is of, and that no policy is about.
const OF_VERSIONS: [&str; 3] = ["pod-template-hash", "controller-revision-hash", "pod-template-generation"];

/// A line for each sort of cause.
pub fn causes(diff: &Diff<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let listed = |what: &str, all: Vec<String>| {
        let more = all.len().saturating_sub(LISTED);
        let shown = all.iter().take(LISTED).cloned().collect::<Vec<_>>().join("; ");
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        (!all.is_empty()).then(|| format!("{what}: {shown}{more}"))
    };
    lines.extend(listed("Labels changed", relabelled(diff)));
    lines.extend(listed("Labels of namespaces changed", namespaces(diff)));
    lines.extend(listed("New workloads", diff.came().map(named).collect()));
    lines.extend(listed("Workloads that are gone", diff.went().map(named).collect()));
    if is_rollout(diff) {
        lines.push(
            "Some of these are ReplicaSets of one Deployment: --by-deployment compares Deployments, so that a rollout is no change"
                .to_owned(),
        );
    }
    lines
}

fn named(name: &WorkloadName) -> String {
    format!("{name} ({})", name.kind)
}

/// Workloads whose pods have other labels.
fn relabelled(diff: &Diff<'_>) -> Vec<String> {
    let labels = |map: &Map<'_>, at: usize| -> BTreeSet<(String, String)> {
        let pods = map.workloads[at].pods.iter();
        pods.flat_map(|pod| told(&map.snapshot.pods()[*pod].labels)).collect()
    };
    let one = |joint: &Joint| {
        let (before, after) = (labels(&diff.before, joint.before?), labels(&diff.after, joint.after?));
        (before != after).then(|| format!("{} ({})", joint.name, between(&before, &after)))
    };
    diff.written().filter_map(one).collect()
}

/// Namespaces that have other labels.
fn namespaces(diff: &Diff<'_>) -> Vec<String> {
    let of = |map: &Map<'_>| -> BTreeMap<String, BTreeSet<(String, String)>> {
        let all = map.snapshot.namespaces().iter();
        all.map(|namespace| (namespace.name.to_string(), told(&namespace.labels).collect())).collect()
    };
    let (before, after) = (of(&diff.before), of(&diff.after));
    let both = before.iter().filter_map(|(name, labels)| Some((name, labels, after.get(name)?)));
    let changed = both.filter(|(_, before, after)| before != after);
    changed.map(|(name, one, other)| format!("{name} ({})", between(one, other))).collect()
}

fn told(labels: &Labels) -> impl Iterator<Item = (String, String)> {
    let matter = labels.iter().filter(|(key, _)| !OF_VERSIONS.contains(key));
    matter.map(|(key, value)| (key.to_owned(), value.to_owned()))
}

/// `-app=pg +app=pgx`.
fn between(before: &BTreeSet<(String, String)>, after: &BTreeSet<(String, String)>) -> String {
    let sign = |sign: char| move |(key, value): &(String, String)| format!("{sign}{key}={value}");
    let gone = before.difference(after).map(sign('-'));
    gone.chain(after.difference(before).map(sign('+'))).collect::<Vec<_>>().join(" ")
}

/// Whether ReplicaSets came and went that seem to be of one Deployment.
fn is_rollout(diff: &Diff<'_>) -> bool {
    let of = |name: &WorkloadName| {
        let base = name.name.rsplit_once('-')?.0.to_owned();
        (name.kind == "ReplicaSet").then(|| (name.namespace.clone(), base))
    };
    let came: BTreeSet<_> = diff.came().filter_map(of).collect();
    diff.went().filter_map(of).any(|base| came.contains(&base))
}
