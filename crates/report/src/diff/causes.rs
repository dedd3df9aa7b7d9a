//! Text of changes besides policies: labels, added and removed workloads.

use palisade_analysis::diff::{Causes, Diff, Relabelled};
use palisade_analysis::map::WorkloadName;

/// Maximum number of changes listed of each kind.
const MAX_LISTED: usize = 8;

/// Returns a line for each kind of cause.
pub fn causes(diff: &Diff<'_>) -> Vec<String> {
    let found = Causes::of(diff);
    let listed = |what: &str, all: Vec<String>| {
        let more = all.len().saturating_sub(MAX_LISTED);
        let shown = all.iter().take(MAX_LISTED).cloned().collect::<Vec<_>>().join("; ");
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        (!all.is_empty()).then(|| format!("{what}: {shown}{more}"))
    };
    let named = |name: &WorkloadName| format!("{name} ({})", name.kind);
    let rollout = "Some of these are ReplicaSets of one Deployment: --by-deployment compares Deployments, so that a rollout is no change";
    [
        listed("Labels changed", found.workloads.iter().map(relabelled).collect()),
        listed("Labels of namespaces changed", found.namespaces.iter().map(relabelled).collect()),
        listed("New workloads", diff.added().map(named).collect()),
        listed("Workloads that are gone", diff.removed().map(named).collect()),
        found.rollout.then(|| rollout.to_owned()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Describes changed labels: `shop/db (-app=pg +app=pgx)`.
fn relabelled(one: &Relabelled) -> String {
    let sign = |sign: char| move |(key, value): &(String, String)| format!("{sign}{key}={value}");
    let labels: Vec<String> =
        one.removed.iter().map(sign('-')).chain(one.added.iter().map(sign('+'))).collect();
    format!("{} ({})", one.name, labels.join(" "))
}
