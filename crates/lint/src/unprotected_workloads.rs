//! Lint for workloads to which no policy refuses any connection.

use std::collections::BTreeMap;

use palisade_analysis::map::{Level, Workload, workloads};
use palisade_analysis::reach::cells::CellId;
use palisade_analysis::reach::combinations::example_outside_address;
use palisade_model::address::Family;
use palisade_model::diagnostic::{Code, Diagnostic, Severity, Subject};
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::{Protocol, Traffic};

use super::is_visible;
use super::rule_decisions::Decisions;

/// Workloads of a namespace that accept every connection.
pub static UNPROTECTED: Code = Code {
    id: "L0122",
    severity: Severity::Note,
    title: "workloads that nothing protects",
    explanation: "No policy refuses any connection to these workloads: everybody, from inside and outside of the cluster, may connect to all of their ports, over every family of addresses that they have. Where that holds for some pods of a workload only, these are named. It is not enough that policies select a pod; they have to refuse something. One note for each namespace with such workloads, and none when the input has no policy at all. A NetworkPolicy with `podSelector: {}` and `policyTypes: [Ingress]` refuses all that no other allows.",
};

/// Maximum number of workloads, or of pods, listed in a message.
const MAX_NAMED: usize = 5;

/// A workload of which some pods accept every connection.
struct OpenWorkload {
    workload: Workload,
    /// The open pods, each with a family of its addresses.
    pods: Vec<(usize, Family)>,
}

pub(super) fn check(decisions: &mut Decisions<'_>, found: &mut Vec<Diagnostic>) {
    let snapshot = decisions.snapshot;
    // Pods of one class share their row.
    let is_open = |family: Family, class: u32| {
        let row = decisions.reach[family as usize].row(Direction::Ingress, class);
        row.runs().iter().all(|(_, cell)| *cell == CellId::ALL)
    };
    let open = |pod: &usize| {
        let class = |family: Family| Some((family, decisions.reach[family as usize].of_pod(*pod)?));
        let is_pod = is_visible(&snapshot.pods()[*pod]);
        let mut classes = [Family::V4, Family::V6].into_iter().filter_map(class);
        // A pod that refuses something over one family is protected.
        let family = classes.clone().next()?.0;
        (is_pod && classes.all(|(family, class)| is_open(family, class))).then_some((*pod, family))
    };
    let mut by_namespace: BTreeMap<String, Vec<OpenWorkload>> = BTreeMap::new();
    for workload in workloads(snapshot, Level::Workloads) {
        let pods: Vec<(usize, Family)> = workload.pods.iter().filter_map(open).collect();
        if !pods.is_empty() {
            let namespace = workload.name.namespace.to_string();
            by_namespace.entry(namespace).or_default().push(OpenWorkload { workload, pods });
        }
    }
    for (name, open) in by_namespace {
        let Some((pod, family)) = open.first().and_then(|open| open.pods.first()) else { continue };
        let first = &snapshot.pods()[*pod];
        let names: Vec<String> = open.iter().take(MAX_NAMED).map(|open| open.name(snapshot)).collect();
        let more = if open.len() > MAX_NAMED { ", …" } else { "" };
        let (count, noun) = (open.len(), if open.len() == 1 { "workload" } else { "workloads" });
        let traffic = Traffic::new(Protocol::Tcp, 80);
        let message = format!(
            "nothing protects {count} {noun} of namespace {name}: {}{more}; {} -> {name}/{} {traffic} is allowed, as is everything",
            names.join(", "),
            example_outside_address(*family),
            first.name,
        );
        let at = snapshot.namespace(&name).and_then(|namespace| namespace.at.clone());
        let subject = Subject { kind: "Namespace".into(), namespace: None, name: name.as_str().into() };
        let finding =
            Diagnostic::new(&UNPROTECTED, message).about(subject).at(at.or_else(|| first.at.clone()));
        found.push(finding.field("metadata.name").help(
            "a NetworkPolicy with podSelector: {} and policyTypes: [Ingress] refuses all that no other allows",
        ));
    }
}

// === impl OpenWorkload ===

impl OpenWorkload {
    /// Returns the workload's name, with its open pods where others are not.
    fn name(&self, snapshot: &Snapshot) -> String {
        let name = &self.workload.name.name;
        let all = self.workload.pods.iter().filter(|pod| is_visible(&snapshot.pods()[**pod])).count();
        if self.pods.len() == all {
            return name.to_string();
        }
        let pods = self.pods.iter().take(MAX_NAMED).map(|(pod, _)| snapshot.pods()[*pod].name.as_str());
        let more = if self.pods.len() > MAX_NAMED { ", …" } else { "" };
        format!(
            "{name} (only {} of its {all} pods: {}{more})",
            self.pods.len(),
            pods.collect::<Vec<_>>().join(", ")
        )
    }
}
