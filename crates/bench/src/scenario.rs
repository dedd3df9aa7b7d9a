//! The scenarios that Antrea measures its controller with, as events for the index.
//!
//! Every pod has a random IPv4 address and runs on one of a thousand nodes; every NetworkPolicy is about both directions
//! and names no ports; a namespace has the label `app` with its own name. Each scenario is made in chunks, so that what
//! is measured is the index and not a list of a million events.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use clap::ValueEnum;
use palisade_engine::{Event, Item};
use palisade_model::cluster::{Namespace, Pod};
use palisade_model::label::{Labels, Selector};
use palisade_model::policy::{
    Action, Direction, Isolation, Namespaces, Object, Peer, Peers, Placement, PodSet, Policy, Priority, Rule,
    Subject, Tier, TrafficMatch, TrafficMatches,
};
use palisade_model::traffic::{PortRange, Protocol};
use smol_str::{SmolStr, format_smolstr};

use crate::random::Random;

/// A scenario, by the name it has there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Scenario {
    /// 25,000 namespaces with three policies and four pods each.
    S1,
    /// 100 namespaces with 101 policies and 1,000 pods each.
    S2,
    /// One namespace, 10,000 policies for the same 10,000 pods.
    S3,
    /// One namespace, a policy for each of 10,000 pods, from one other.
    S4,
    /// The same with external entities and Antrea's policies.
    S5,
    /// 1,000 namespaces, 10,000 policies that select by the labels of namespaces, 100,000 pods.
    S6,
    /// S3, and then a thousand times the policies of one pod, of which each has 10,000.
    S8,
}

const NODES: usize = 1000;

// === impl Scenario ===

impl Scenario {
    /// Hands the events over, namespace by namespace: its own, its pods, its policies. `size` multiplies the scenario.
    pub fn events(self, size: usize, take: &mut dyn FnMut(Vec<Event>)) {
        let mut make = Make { random: Random::new(1), events: Vec::new() };
        let (namespaces, each): (usize, fn(&mut Make, usize, usize)) = match self {
            Scenario::S1 => (25_000 * size, small),
            Scenario::S2 => (100 * size, large),
            Scenario::S3 | Scenario::S8 => (1, one),
            Scenario::S4 => (1, pairs),
            Scenario::S5 => (1, entities),
            Scenario::S6 => (1000 * size, companies),
        };
        for namespace in 0..namespaces {
            each(&mut make, namespace, size);
            if make.events.len() >= 1000 {
                take(std::mem::take(&mut make.events));
            }
        }
        take(make.events);
    }
}

fn small(make: &mut Make, namespace: usize, _: usize) {
    let name = format_smolstr!("namespace-{namespace}");
    make.namespace(&name, ("app", &name));
    for (pod, app) in [("pod1", 1), ("pod2", 1), ("pod3", 2), ("pod4", 2)] {
        make.pod(&name, pod.into(), &[(format_smolstr!("app-{app}"), format_smolstr!("scale-{app}"))]);
    }
    make.policy(&name, "default-deny-all".into(), Selector::everything(), None);
    for app in 1..=2 {
        let pods = Selector::label(&format!("app-{app}"), &format!("scale-{app}"));
        let peer = PodSet::new(Namespaces::Named(name.clone()), pods.clone());
        make.policy(&name, format_smolstr!("np-{app}"), pods, Some(peer));
    }
}

fn large(make: &mut Make, namespace: usize, _: usize) {
    let name = format_smolstr!("namespace-{namespace}");
    make.namespace(&name, ("app", &name));
    make.policy(&name, "default-deny-all".into(), Selector::everything(), None);
    for app in 0..100 {
        let label = (format_smolstr!("app-{app}"), format_smolstr!("scale-{app}"));
        for pod in 0..10 {
            make.pod(&name, format_smolstr!("pod-{app}-{pod}"), std::slice::from_ref(&label));
        }
        let pods = Selector::label(&label.0, &label.1);
        let peer = PodSet::new(Namespaces::Named(name.clone()), pods.clone());
        make.policy(&name, format_smolstr!("np-{app}"), pods, Some(peer));
    }
}

fn one(make: &mut Make, _: usize, size: usize) {
    let name = SmolStr::new_static("namespace");
    make.namespace(&name, ("app", &name));
    let pods = Selector::label("app-1", "scale-1");
    for index in 0..10_000 * size {
        make.pod(&name, format_smolstr!("pod-{index}"), &[("app-1".into(), "scale-1".into())]);
        let peer = PodSet::new(Namespaces::Named(name.clone()), pods.clone());
        make.policy(&name, format_smolstr!("np-{index}"), pods.clone(), Some(peer));
    }
}

fn pairs(make: &mut Make, _: usize, size: usize) {
    let name = SmolStr::new_static("namespace");
    make.namespace(&name, ("app", &name));
    for pair in 0..5_000 * size {
        let labels = [0, 1].map(|_| format_smolstr!("scale-{}", make.random.word(8)));
        for own in 0..2 {
            make.pod(&name, format_smolstr!("pod-{pair}-{own}"), &[("app".into(), labels[own].clone())]);
            let (pods, twin) =
                (Selector::label("app", &labels[own]), Selector::label("app", &labels[1 - own]));
            let peer = PodSet::new(Namespaces::Named(name.clone()), twin);
            make.policy(&name, format_smolstr!("np-{pair}-{own}"), pods, Some(peer));
        }
    }
}

fn entities(make: &mut Make, _: usize, size: usize) {
    let name = SmolStr::new_static("namespace");
    make.namespace(&name, ("app", &name));
    for pair in 0..5_000 * size {
        let labels = [0, 1].map(|_| format_smolstr!("scale-{}", make.random.word(8)));
        for own in 0..2 {
            make.entity(&name, format_smolstr!("ee-{pair}-{own}"), &labels[own]);
            let set = |label: &SmolStr| PodSet {
                external: true,
                ..PodSet::new(Namespaces::Named(name.clone()), Selector::label("ee", label))
            };
            let (own_set, twin) = (set(&labels[own]), set(&labels[1 - own]));
            make.antrea(&name, format_smolstr!("annp-{pair}-{own}"), own_set, twin);
        }
    }
}

fn companies(make: &mut Make, namespace: usize, _: usize) {
    let name = format_smolstr!("namespace-{namespace}");
    let company = format_smolstr!("company-{}", namespace % 100);
    make.namespace(&name, ("company", &company));
    for app in 0..10 {
        let label = ("app".into(), format_smolstr!("scale-{app}"));
        for pod in 0..10 {
            make.pod(&name, format_smolstr!("pod-{app}-{pod}"), std::slice::from_ref(&label));
        }
        let pods = Selector::label(&label.0, &label.1);
        let peer = PodSet::new(Namespaces::Matching(Selector::label("company", &company)), pods.clone());
        make.policy(&name, format_smolstr!("np-{app}"), pods, Some(peer));
    }
}

/// Events in the making.
struct Make {
    random: Random,
    events: Vec<Event>,
}

impl Make {
    fn add(&mut self, item: Item) {
        self.events.push(Event::Apply(item));
    }

    fn namespace(&mut self, name: &SmolStr, label: (&str, &SmolStr)) {
        let labels = Labels::new([(label.0.into(), label.1.clone())]);
        self.add(Item::Namespace(Namespace { name: name.clone(), labels, at: None }));
    }

    fn address(&mut self) -> IpAddr {
        #[expect(clippy::cast_possible_truncation, reason = "any 32 bits will do")]
        let bits = self.random.number() as u32;
        IpAddr::V4(Ipv4Addr::from_bits(bits))
    }

    fn pod(&mut self, namespace: &SmolStr, name: SmolStr, labels: &[(SmolStr, SmolStr)]) {
        let node = format_smolstr!("Node-{}", self.random.below(NODES));
        let pod = Pod {
            namespace: namespace.clone(),
            name,
            labels: Labels::new(labels.iter().cloned()),
            addresses: vec![self.address()],
            node: Some(node),
            ready: true,
            account: SmolStr::new_static("default"),
            ..Pod::default()
        };
        self.add(Item::Pod(pod));
    }

    fn entity(&mut self, namespace: &SmolStr, name: SmolStr, label: &SmolStr) {
        let pod = Pod {
            namespace: namespace.clone(),
            name,
            labels: Labels::new([("ee".into(), label.clone())]),
            addresses: vec![self.address()],
            external: true,
            ready: true,
            ..Pod::default()
        };
        self.add(Item::Pod(pod));
    }

    fn policy(&mut self, namespace: &SmolStr, name: SmolStr, pods: Selector, from: Option<PodSet>) {
        let subjects: Arc<[Subject]> =
            Arc::new([PodSet::new(Namespaces::Named(namespace.clone()), pods).into()]);
        let isolation = |direction| Isolation { subjects: Arc::clone(&subjects), direction };
        let rules =
            from.map(|from| rule(Direction::Ingress, Arc::clone(&subjects), from, TrafficMatches::Any));
        self.add(Item::Policy(Policy {
            object: object("NetworkPolicy", "networking.k8s.io", namespace, name),
            placement: Placement::Union,
            isolations: Direction::BOTH.map(isolation).into(),
            rules: rules.into_iter().collect(),
            unreadable: None,
        }));
    }

    fn antrea(&mut self, namespace: &SmolStr, name: SmolStr, subject: PodSet, from: PodSet) {
        let port = TrafficMatch::Ports(Protocol::Tcp, PortRange::single(8080));
        let rule = rule(Direction::Ingress, Arc::new([subject.into()]), from, TrafficMatches::Of(vec![port]));
        self.add(Item::Policy(Policy {
            object: object("NetworkPolicy", "crd.antrea.io", namespace, name),
            placement: Placement::Tier { tier: Tier::Fixed(250, "application"), priority: Priority(5.0) },
            isolations: Vec::new(),
            rules: vec![rule],
            unreadable: None,
        }));
    }
}

fn rule(direction: Direction, subjects: Arc<[Subject]>, from: PodSet, traffic: TrafficMatches) -> Rule {
    let peers = Peers::Of(vec![Peer::Pods(from)]);
    let (name, layer7, at) = (None, Vec::new(), None);
    Rule { direction, index: 0, name, subjects, action: Action::Allow, peers, traffic, layer7, at }
}

fn object(kind: &'static str, group: &'static str, namespace: &SmolStr, name: SmolStr) -> Arc<Object> {
    Arc::new(Object {
        kind: SmolStr::new_static(kind),
        namespace: Some(namespace.clone()),
        name,
        group: SmolStr::new_static(group),
        version: SmolStr::new_static("v1"),
        generation: 1,
        at: None,
        api: "",
    })
}
