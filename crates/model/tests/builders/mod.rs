//! Small worlds for tests, in as few words as possible.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::sync::Arc;

use palisade_model::cluster::{ContainerPort, Namespace, Node, Pod};
use palisade_model::evaluate::evaluate;
use palisade_model::flow::FlowPattern;
use palisade_model::label::{Labels, Requirement, Selector};
use palisade_model::options::Options;
use palisade_model::policy::{
    Action, Dialect, Direction, Isolation, Namespaces, Object, Peer, Peers, Placement, PodSet, Policy,
    Priority, Rule, Subject, Tier, TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::Evaluation;
use palisade_model::traffic::{PortRange, Protocol};

/// `app=web,tier=a` as labels.
pub fn labels(text: &str) -> Labels {
    Labels::new(text.split(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.into(), v.into())))
}

/// `app=web,tier=a` as a selector; nothing is everything.
pub fn selector(text: &str) -> Selector {
    Selector::new(
        text.split(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| Requirement::equals(k, v)),
    )
}

pub fn namespace(name: &str, text: &str) -> Namespace {
    Namespace { name: name.into(), labels: labels(text), at: None }
}

pub fn node(name: &str, address: &str) -> Node {
    Node {
        name: name.into(),
        labels: labels("kind=node"),
        addresses: vec![address.parse().unwrap()],
        at: None,
    }
}

/// A pod on node n0, ready, with the port `web` at tcp/80. Addresses are separated by commas.
pub fn pod(namespace: &str, name: &str, text: &str, addresses: &str) -> Pod {
    Pod {
        namespace: namespace.into(),
        name: name.into(),
        labels: labels(text),
        addresses: addresses.split(',').filter(|a| !a.is_empty()).map(|a| a.parse().unwrap()).collect(),
        node: Some("n0".into()),
        ready: true,
        ports: vec![ContainerPort { name: Some("web".into()), protocol: Protocol::Tcp, number: 80 }],
        ..Pod::default()
    }
}

/// Pods `text` of the namespaces `namespaces` (by their labels).
pub fn pods(namespaces: &str, text: &str) -> PodSet {
    PodSet::new(Namespaces::Matching(selector(namespaces)), selector(text))
}

pub fn peers(peers: impl IntoIterator<Item = Peer>) -> Peers {
    Peers::Of(peers.into_iter().collect())
}

pub fn tcp(first: u16, last: u16) -> TrafficMatches {
    TrafficMatches::Of(vec![TrafficMatch::Ports(Protocol::Tcp, PortRange { first, last })])
}

pub fn rule(
    direction: Direction,
    action: Action,
    subject: impl Into<Subject>,
    peers: Peers,
    traffic: TrafficMatches,
) -> Rule {
    let subjects = Arc::new([subject.into()]);
    let (name, layer7, at) = (None, Vec::new(), None);
    Rule { direction, index: 0, name, subjects, action, peers, traffic, layer7, log: None, at }
}

pub fn object(kind: &str, namespace: Option<&str>, name: &str) -> Arc<Object> {
    Arc::new(Object {
        kind: kind.into(),
        namespace: namespace.map(Into::into),
        name: name.into(),
        group: "test".into(),
        version: "v1".into(),
        generation: 0,
        at: None,
        dialect: Dialect::NetworkPolicy,
    })
}

/// A policy of a tier; its rules are numbered per direction in the order given.
pub fn tiered(name: &str, tier: u8, priority: f64, rules: impl IntoIterator<Item = Rule>) -> Policy {
    let placement = Placement::Tier { tier: Tier::Fixed(tier, "tier"), priority: Priority(priority) };
    Policy {
        object: object("Tiered", None, name),
        placement,
        isolations: Vec::new(),
        rules: numbered(rules),
        unreadable: None,
    }
}

/// A NetworkPolicy: isolates its subject in these directions and has these rules.
pub fn network_policy(
    name: &str,
    subject: &PodSet,
    isolates: &[Direction],
    rules: impl IntoIterator<Item = Rule>,
) -> Policy {
    let isolation = |direction: &Direction| Isolation {
        subjects: Arc::new([subject.clone().into()]),
        direction: *direction,
    };
    Policy {
        object: object("NetworkPolicy", Some("x"), name),
        placement: Placement::Union,
        isolations: isolates.iter().map(isolation).collect(),
        rules: numbered(rules),
        unreadable: None,
    }
}

fn numbered(rules: impl IntoIterator<Item = Rule>) -> Vec<Rule> {
    let mut next = [0, 0];
    let number = |mut rule: Rule| {
        let index = &mut next[rule.direction as usize];
        rule.index = *index;
        *index += 1;
        rule
    };
    rules.into_iter().map(number).collect()
}

/// Three namespaces x, y, z (labels ns=…, x and y team=red), in each the pods a and b (labels app=…), nodes n0 and n1.
pub fn world() -> Objects {
    let mut objects = Objects {
        namespaces: vec![
            namespace("x", "ns=x,team=red"),
            namespace("y", "ns=y,team=red"),
            namespace("z", "ns=z"),
        ],
        nodes: vec![node("n0", "172.18.0.2"), node("n1", "172.18.0.3")],
        ..Objects::default()
    };
    for (i, ns) in ["x", "y", "z"].into_iter().enumerate() {
        for (j, name) in ["a", "b"].into_iter().enumerate() {
            let addresses = format!("10.0.{i}.{j},fd00::{i}:{j}");
            objects.pods.push(pod(ns, name, &format!("app={name}"), &addresses));
        }
    }
    objects
}

/// The world with these policies.
pub fn with(policies: impl IntoIterator<Item = Policy>) -> Snapshot {
    Snapshot::new(Objects { policies: policies.into_iter().collect(), ..world() })
}

/// The evaluation of the first flow that a question stands for.
pub fn ask(snapshot: &Snapshot, flow: &str) -> Evaluation {
    ask_with(snapshot, flow, Options::default())
}

pub fn ask_with(snapshot: &Snapshot, flow: &str, options: Options) -> Evaluation {
    let pattern: FlowPattern = flow.parse().unwrap();
    let flows = snapshot.flows(&pattern).unwrap();
    evaluate(snapshot, &flows[0], &options)
}

/// `allow`, `deny` or `reject`.
pub fn verdict(snapshot: &Snapshot, flow: &str) -> &'static str {
    ask(snapshot, flow).verdict.as_str()
}
