//! An instance in the rule language: its policies, and its tools as pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use palisade_model::cluster::{Namespace, Owner, Pod, Workload};
use palisade_model::diagnostic::{Diagnostic, Location};
use palisade_model::label::{Labels, Operator, Requirement, Selector};
use palisade_model::policy::{
    Dialect, Direction, Isolation, Namespaces, Object, Peer, Peers, Placement, PodSet, Rule, Subject,
    TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::Objects;
use smol_str::SmolStr;

use super::assemble::assemble;
use super::document::Part;
use super::instance::Instance;
use super::names::object_name;
use super::policy::{self, Policy, Reading, STAGE_LABEL, Sort, TOOL_LABEL, Who};
use super::program;

/// What makes the pods of a tool.
pub const IMAGE_KIND: &str = "ThoriumImage";

/// The label of the pods that serve the Thorium API.
const API_LABEL: (&str, &str) = ("app", "api");

/// The label of the pods that serve cluster DNS.
const DNS_LABEL: (&str, &str) = ("k8s-app", "kube-dns");

/// Adds an instance to the objects of a cluster, and says what is wrong with it.
pub fn extend(parts: &[Arc<Part>], reading: Reading, objects: &mut Objects) -> Vec<Diagnostic> {
    let (instance, found) = instance(parts, reading, objects);
    add_namespaces(&instance, objects);
    add_tools(&instance, objects);
    if instance.described {
        add_services(&instance, objects);
    }
    objects.policies.extend(lower(&instance));
    found
}

/// Whether [`extend`] looks at pods with these labels, or at workloads that make them: tools, and the services around them.
pub fn is_related(labels: &Labels) -> bool {
    let has = |(key, value): (&str, &str)| labels.get(key) == Some(value);
    has(TOOL_LABEL) || has(API_LABEL) || has(DNS_LABEL)
}

/// The instance that the documents describe, in a cluster with these objects.
pub fn instance(parts: &[Arc<Part>], reading: Reading, objects: &Objects) -> (Instance, Vec<Diagnostic>) {
    let templates = objects.workloads.iter().map(|workload| &workload.template);
    let is_tool = |pod: &&Pod| pod.labels.get(TOOL_LABEL.0) == Some(TOOL_LABEL.1);
    let pods = objects.pods.iter().chain(templates).filter(is_tool);
    let seen = pods.map(|pod| (pod.namespace.clone(), pod.at.clone())).collect();
    assemble(parts, seen, reading)
}

/// The policies of an instance, one for each policy and group in which it applies to somebody.
pub fn lower(instance: &Instance) -> Vec<palisade_model::policy::Policy> {
    let mut lowered = Vec::new();
    let base = instance.base();
    for group in &instance.groups {
        let here = instance.policies().iter().filter(|policy| policy.is_in(group));
        for policy in base.iter().copied().chain(here) {
            if let Some(subjects) =
                subjects(instance, policy, group).filter(|_| policy.in_force(instance.reading))
            {
                lowered.push(one(policy, group, &subjects, instance.reading));
            }
        }
    }
    lowered.extend(doubtful(instance));
    lowered
}

/// The pods of a group that a policy applies to; `None` when no tool has it.
pub(super) fn subjects(instance: &Instance, policy: &Policy, group: &str) -> Option<PodSet> {
    let mut pods = vec![Requirement::equals(TOOL_LABEL.0, TOOL_LABEL.1)];
    if policy.sort == Sort::Regular && !policy.is_forced(instance.reading) {
        let tools = having(instance, policy, group);
        if tools.is_empty() {
            return None;
        }
        pods.push(match program::hides_stages(instance) {
            true => Requirement::equals(&object_name(policy), "true"),
            false => Requirement::new(STAGE_LABEL, Operator::In(tools)),
        });
    }
    Some(PodSet::new(Namespaces::Named(group.into()), Selector::new(pods)))
}

/// The tools of a group that have a policy.
pub(super) fn having(instance: &Instance, policy: &Policy, group: &str) -> Vec<SmolStr> {
    let images = instance.images().filter(|(home, _, image)| *home == group && image.kubernetes);
    images
        .filter(|(.., image)| image.policies.contains(&policy.name))
        .map(|(_, tool, _)| tool.clone())
        .collect()
}

fn one(policy: &Policy, group: &str, subjects: &PodSet, reading: Reading) -> palisade_model::policy::Policy {
    let subjects: Arc<[Subject]> = Arc::new([subjects.clone().into()]);
    let mut isolations = Vec::new();
    let mut rules = Vec::new();
    let unreadable = policy.unreadable(reading);
    for direction in [Direction::Ingress, Direction::Egress] {
        let Some(list) = policy.rules(direction, reading) else { continue };
        isolations.push(Isolation { subjects: Arc::clone(&subjects), direction });
        for (index, rule) in list.iter().enumerate() {
            let meant = match unreadable.or(rule.unreadable(reading)) {
                Some(what) => (Peers::Of(vec![Peer::Unknown(what.to_owned())]), TrafficMatches::Any),
                None => meaning(rule.meaning(reading), group),
            };
            rules.push(Rule::allow(direction, index, &subjects, meant, rule.at.clone()));
        }
    }
    let object = object(policy.kind(), group, &policy.name, policy.at.clone());
    let unreadable = unreadable.map(ToOwned::to_owned);
    palisade_model::policy::Policy { object, placement: Placement::Union, isolations, rules, unreadable }
}

fn meaning(meaning: &policy::Meaning, group: &str) -> (Peers, TrafficMatches) {
    let peer = |peer: &policy::Peer| match peer {
        policy::Peer::Addresses(block) => Some(Peer::Addresses(block.clone())),
        peer => peer.pods(group).map(Peer::Pods),
    };
    let peers = match &meaning.who {
        Who::Everybody => Peers::Any,
        Who::Of(peers) => Peers::Of(peers.iter().filter_map(peer).collect()),
    };
    let traffic = match meaning.ports.as_slice() {
        [] => TrafficMatches::Any,
        ports => TrafficMatches::Of(
            ports.iter().map(|ports| TrafficMatch::Ports(ports.protocol, ports.range)).collect(),
        ),
    };
    (peers, traffic)
}

fn object(kind: &str, group: &str, name: &str, at: Option<Location>) -> Arc<Object> {
    Arc::new(Object {
        kind: kind.into(),
        namespace: Some(group.into()),
        name: name.into(),
        group: SmolStr::default(),
        version: SmolStr::default(),
        generation: 0,
        at,
        dialect: Dialect::Thorium,
    })
}

/// Images that cannot be read are isolated: a policy that was lost could have done that.
fn doubtful(instance: &Instance) -> Vec<palisade_model::policy::Policy> {
    let mut lowered = Vec::new();
    for (group, tool, image) in instance.images().filter(|(.., image)| image.kubernetes) {
        let Some(what) = &image.unreadable else { continue };
        let pods = [(TOOL_LABEL.0, TOOL_LABEL.1), (STAGE_LABEL, tool.as_str())];
        let pods = Selector::new(pods.map(|(key, value)| Requirement::equals(key, value)));
        let subjects: Arc<[Subject]> = Arc::new([PodSet::new(Namespaces::Named(group.clone()), pods).into()]);
        let isolation = |direction| Isolation { subjects: Arc::clone(&subjects), direction };
        lowered.push(palisade_model::policy::Policy {
            object: object(IMAGE_KIND, group, tool, image.at.clone()),
            placement: Placement::Union,
            isolations: Direction::BOTH.map(isolation).into(),
            rules: Vec::new(),
            unreadable: Some(what.clone()),
        });
    }
    lowered
}

/// A group is a namespace, whether or not anybody wrote one.
fn add_namespaces(instance: &Instance, objects: &mut Objects) {
    let known: BTreeSet<SmolStr> =
        objects.namespaces.iter().map(|namespace| namespace.name.clone()).collect();
    let fresh = |name: &SmolStr| Namespace { name: name.clone(), labels: Labels::default(), at: None };
    objects.namespaces.extend(instance.groups.iter().filter(|name| !known.contains(*name)).map(fresh));
}

/// A tool is a pod of its image: those that run, or one that stands for them.
fn add_tools(instance: &Instance, objects: &mut Objects) {
    for pod in objects.pods.iter_mut().filter(|pod| pod.owner.is_none()) {
        if pod.labels.get(TOOL_LABEL.0) == Some(TOOL_LABEL.1)
            && let Some(tool) = pod.labels.get(STAGE_LABEL)
            && instance.image(&pod.namespace, tool).is_some()
        {
            pod.owner = Some(Owner { kind: IMAGE_KIND.into(), name: tool.into() });
        }
    }
    for (group, tool, image) in instance.images().filter(|(.., image)| image.kubernetes) {
        let template = Pod {
            namespace: group.clone(),
            name: tool.clone(),
            labels: labels(instance, group, tool),
            ready: true,
            at: image.at.clone(),
            ..Pod::default()
        };
        objects.workloads.push(Workload { kind: IMAGE_KIND.into(), owner: None, template });
    }
}

/// The labels of a tool's pods.
fn labels(instance: &Instance, group: &SmolStr, tool: &SmolStr) -> Labels {
    let mut labels = Labels::new([
        (TOOL_LABEL.0.into(), TOOL_LABEL.1.into()),
        (STAGE_LABEL.into(), tool.clone()),
        ("group".into(), group.clone()),
    ]);
    for (_, policy) in instance.applied(group, tool) {
        match policy.sort {
            // One that cannot be read may have the name, and so the label, of another.
            Sort::Regular if policy.unreadable(instance.reading).is_some() => {}
            // So may one that is not there at all.
            Sort::Regular if !policy.in_force(instance.reading) => {}
            Sort::Regular => labels.set(object_name(policy), "true".into()),
            Sort::Base
                if instance.reading == Reading::Program && program::RESERVED.contains(&&*policy.name) =>
            {
                labels.set(policy.name.clone(), "base".into());
            }
            Sort::Base => {}
        }
    }
    labels
}

/// The Thorium API and cluster DNS, which the default base policy speaks about, where nobody wrote them.
fn add_services(instance: &Instance, objects: &mut Objects) {
    let services = [
        (instance.namespace.as_str(), "api", API_LABEL, "Thorium"),
        ("kube-system", "kube-dns", DNS_LABEL, "cluster DNS"),
    ];
    for (namespace, name, (key, value), kind) in services {
        let there = |pod: &Pod| pod.namespace == namespace && pod.labels.get(key) == Some(value);
        let known = objects.pods.iter().any(there)
            || objects.workloads.iter().any(|workload| there(&workload.template));
        if !known {
            let template = Pod {
                namespace: namespace.into(),
                name: name.into(),
                labels: Labels::new([(key.into(), value.into())]),
                ready: true,
                ..Pod::default()
            };
            objects.workloads.push(Workload { kind: kind.into(), owner: None, template });
        }
    }
}
