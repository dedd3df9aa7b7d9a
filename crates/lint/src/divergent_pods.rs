//! Lint for pods of one workload that policies treat differently.
//!
//! A label set by hand, or changed by a rollout, removes a pod from the policies of its workload without any warning.

use std::collections::BTreeMap;

use palisade_analysis::map::{Level, workloads};
use palisade_model::address::Family;
use palisade_model::diagnostic::{Code, Diagnostic, Severity, Subject};
use palisade_model::label::Labels;

use super::is_visible;
use super::rule_decisions::Decisions;

/// Pods of one workload that policies distinguish by a label.
pub static DIVERGENT_PODS: Code = Code {
    id: "L0127",
    severity: Severity::Note,
    title: "pods of one workload that policies tell apart",
    explanation: "The pods have one owner and not the same labels, and policies ask for a label in which they differ: what holds for one of them does not hold for the other. A label was added or removed by hand (`kubectl label pod`), or the template was changed and not all pods are new yet. Labels that controllers give each pod or each generation of pods (`pod-template-hash`, `controller-revision-hash`, the names and indexes of StatefulSets and Jobs) do not count.",
};

/// Keys of labels that controllers set to distinguish their pods.
const BY_CONTROLLERS: [&str; 9] = [
    "pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "controller-uid",
    "job-name",
    "rollouts-pod-template-hash",
    "deployment",
];
/// Prefix of the keys that Jobs set.
const JOB_PREFIX: &str = "batch.kubernetes.io/";

pub(super) fn check(decisions: &mut Decisions<'_>, found: &mut Vec<Diagnostic>) {
    let snapshot = decisions.snapshot;
    for workload in workloads(snapshot, Level::Workloads) {
        let pods = workload.pods.iter().copied().filter(|pod| is_visible(&snapshot.pods()[*pod]));
        // Classes of a pod by family, and its labels.
        let profile = |pod: usize| {
            let classes = [Family::V4, Family::V6].map(|family| decisions.reach[family as usize].of_pod(pod));
            (classes, labels(&snapshot.pods()[pod].labels))
        };
        let mut pods = pods.peekable();
        let Some(first) = pods.next() else { continue };
        let (classes, own) = profile(first);
        // A pod without an address of a family has no class in it.
        let apart = |one: Option<u32>, other: Option<u32>| one.is_some() && other.is_some() && one != other;
        let other = pods.find_map(|pod| {
            let (others, labels) = profile(pod);
            let distinguished = classes.into_iter().zip(others).any(|(one, other)| apart(one, other));
            (distinguished && labels != own).then_some((pod, labels))
        });
        let Some((pod, labels)) = other else { continue };
        let differs = |key: &&str| own.get(*key) != labels.get(*key);
        let keys: Vec<&str> = own.keys().chain(labels.keys()).copied().filter(differs).collect();
        let Some(key) = keys.iter().min() else { continue };
        let label = |labels: &BTreeMap<&str, &str>| match labels.get(key) {
            Some(value) => format!("{key}={value}"),
            None => format!("no label {key}"),
        };
        let (one, other) = (&snapshot.pods()[first], &snapshot.pods()[pod]);
        let message = format!(
            "policies tell pods of {} {} apart: {} has {}, {} has {}",
            workload.name.kind,
            workload.name,
            one.name,
            label(&own),
            other.name,
            label(&labels),
        );
        let subject = Subject {
            kind: "Pod".into(),
            namespace: Some(other.namespace.clone()),
            name: other.name.clone(),
        };
        let finding = Diagnostic::new(&DIVERGENT_PODS, message).about(subject).at(other.at.clone());
        let help = "give the pods of one workload the labels of its template, or let it make them anew";
        found.push(finding.field("metadata.labels").help(help));
    }
}

/// Returns the labels that a template would give every pod.
fn labels(labels: &Labels) -> BTreeMap<&str, &str> {
    let of_template = |(key, _): &(&str, &str)| !BY_CONTROLLERS.contains(key) && !key.starts_with(JOB_PREFIX);
    labels.iter().filter(of_template).collect()
}
