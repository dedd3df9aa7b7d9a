//! The scenarios that Antrea measures its controller with, as events for the index.
//!
//! Every pod has a random IPv4 address and runs on one of a thousand nodes; every NetworkPolicy is about both directions
//! and names no ports; a namespace has the label `app` with its own name, except where the scenario is about another. What
//! has no name there gets eight random letters, as there. Each scenario is made in chunks, so that what is measured is the
//! index and not a list of a million events.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use clap::ValueEnum;
use palisade_model::cluster::{ContainerPort, Namespace, Pod};
use palisade_model::event::{Event, Item};
use palisade_model::label::{Labels, Selector};
use palisade_model::policy::{
    Action, Dialect, Direction, Isolation, Namespaces, Object, Peer, Peers, Placement, PodSet, Policy,
    Priority, Rule, Subject, Tier, TrafficMatches,
};
use palisade_model::traffic::Protocol;
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
    /// One namespace, 1,000 policies for the same 1,000 pods, and then one of these leaves and comes back, over and over.
    S7,
    /// S3, and then a thousand times the policies of one pod, of which each has 10,000.
    S8,
}

/// How large a scenario is made: so many times as it is, or a fraction of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scale {
    /// So many times.
    pub size: usize,
    /// One of so many parts.
    pub fraction: usize,
}

const NODES: usize = 1000;
const COMPANIES: usize = 100;

// === impl Scale ===

impl Scale {
    /// As it is.
    pub const FULL: Scale = Scale { size: 1, fraction: 1 };

    /// So many times its size.
    pub const fn times(size: usize) -> Self {
        Scale { size, fraction: 1 }
    }

    /// One of so many parts of it.
    pub const fn part(fraction: usize) -> Self {
        Scale { size: 1, fraction }
    }

    fn of(self, count: usize) -> usize {
        (count * self.size / self.fraction.max(1)).max(1)
    }
}

// === impl Scenario ===

impl Scenario {
    /// All of them.
    pub const ALL: [Scenario; 8] = [
        Scenario::S1,
        Scenario::S2,
        Scenario::S3,
        Scenario::S4,
        Scenario::S5,
        Scenario::S6,
        Scenario::S7,
        Scenario::S8,
    ];

    /// Hands the events over, namespace by namespace: its own, its pods, its policies.
    pub fn events(self, scale: Scale, take: &mut dyn FnMut(Vec<Event>)) {
        let make = &mut Make { random: Random::new(1), events: Vec::new(), take };
        match self {
            Scenario::S1 => (0..scale.of(25_000)).for_each(|_| small(make)),
            Scenario::S2 => (0..scale.of(100)).for_each(|_| large(make)),
            Scenario::S3 | Scenario::S8 => alike(make, scale.of(10_000)),
            Scenario::S4 => pairs(make, scale.of(5_000)),
            Scenario::S5 => entities(make, scale.of(5_000)),
            Scenario::S6 => {
                // A larger one has larger companies, as the scenario is written; a part of it has fewer of the same size.
                let companies = scale.of(COMPANIES).min(COMPANIES);
                (0..scale.of(1000)).for_each(|namespace| company(make, namespace % companies));
            }
            Scenario::S7 => alike(make, scale.of(1000)),
        }
        make.hand_over();
    }
}

fn small(make: &mut Make<'_>) {
    let name = make.word("");
    make.namespace(&name, ("app", &name));
    for (pod, app) in [("pod1", 1), ("pod2", 1), ("pod3", 2), ("pod4", 2)] {
        make.pod(&name, pod.into(), (&format_smolstr!("app-{app}"), &format_smolstr!("scale-{app}")));
    }
    make.policy(&name, "default-deny-all".into(), Selector::everything(), None);
    for app in 1..=2 {
        let pods = Selector::label(&format!("app-{app}"), &format!("scale-{app}"));
        make.policy(&name, format_smolstr!("np-{app}"), pods.clone(), Some((own(&name), pods)));
    }
}

fn large(make: &mut Make<'_>) {
    let name = make.word("");
    make.namespace(&name, ("app", &name));
    make.policy(&name, "default-deny-all".into(), Selector::everything(), None);
    for app in 0..100 {
        let label = (&format_smolstr!("app-{app}"), &format_smolstr!("scale-{app}"));
        for pod in 0..10 {
            make.pod(&name, format_smolstr!("pod-{app}-{pod}"), label);
        }
        let pods = Selector::label(label.0, label.1);
        make.policy(&name, format_smolstr!("np-{app}"), pods.clone(), Some((own(&name), pods)));
    }
}

fn alike(make: &mut Make<'_>, count: usize) {
    let name = make.word("");
    make.namespace(&name, ("app", &name));
    let label = (&SmolStr::new_static("app-1"), &SmolStr::new_static("scale-1"));
    let pods = Selector::label(label.0, label.1);
    for _ in 0..count {
        let (pod, policy) = (make.word("pod-"), make.word("np-"));
        make.pod(&name, pod, label);
        make.policy(&name, policy, pods.clone(), Some((own(&name), pods.clone())));
    }
}

fn pairs(make: &mut Make<'_>, count: usize) {
    let name = make.word("");
    make.namespace(&name, ("app", &name));
    let key = SmolStr::new_static("app");
    for _ in 0..count {
        let labels = [make.word("scale-"), make.word("scale-")];
        for (mine, twin) in [(0, 1), (1, 0)] {
            let (pod, policy) = (make.word("pod-"), make.word("np-"));
            make.pod(&name, pod, (&key, &labels[mine]));
            let from = Selector::label(&key, &labels[twin]);
            make.policy(&name, policy, Selector::label(&key, &labels[mine]), Some((own(&name), from)));
        }
    }
}

fn entities(make: &mut Make<'_>, count: usize) {
    let name = make.word("");
    make.namespace(&name, ("app", &name));
    for _ in 0..count {
        let labels = [make.word("scale-"), make.word("scale-")];
        let set = |label: &SmolStr| PodSet {
            external: true,
            ..PodSet::new(own(&name), Selector::label("ee", label))
        };
        for (mine, twin) in [(0, 1), (1, 0)] {
            let (entity, policy) = (make.word("ee-"), make.word("annp-"));
            make.entity(&name, entity, &labels[mine]);
            make.antrea(&name, policy, set(&labels[mine]), set(&labels[twin]));
        }
    }
}

fn company(make: &mut Make<'_>, company: usize) {
    let company = format_smolstr!("company-{company}");
    let name = make.word(&format!("{company}-"));
    make.namespace(&name, ("company", &company));
    for app in 0..10 {
        let label = (&SmolStr::new_static("app"), &format_smolstr!("scale-{app}"));
        for pod in 0..10 {
            make.pod(&name, format_smolstr!("pod-{app}-{pod}"), label);
        }
        let pods = Selector::label(label.0, label.1);
        let all_of_it = Namespaces::Matching(Selector::label("company", &company));
        make.policy(&name, format_smolstr!("np-{app}"), pods.clone(), Some((all_of_it, pods)));
    }
}

fn own(namespace: &SmolStr) -> Namespaces {
    Namespaces::Named(namespace.clone())
}

/// How many events are made before they are handed over.
const CHUNK: usize = 1000;

/// Events in the making.
struct Make<'t> {
    random: Random,
    events: Vec<Event>,
    take: &'t mut dyn FnMut(Vec<Event>),
}

// === impl Make ===

impl Make<'_> {
    fn add(&mut self, item: Item) {
        self.events.push(Event::Apply(item));
        if self.events.len() >= CHUNK {
            self.hand_over();
        }
    }

    fn hand_over(&mut self) {
        (self.take)(std::mem::take(&mut self.events));
    }

    fn word(&mut self, prefix: &str) -> SmolStr {
        format_smolstr!("{prefix}{}", self.random.word(8))
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

    fn pod(&mut self, namespace: &SmolStr, name: SmolStr, label: (&SmolStr, &SmolStr)) {
        let node = format_smolstr!("Node-{}", self.random.below(NODES));
        let pod = Pod {
            namespace: namespace.clone(),
            name,
            labels: Labels::new([(label.0.clone(), label.1.clone())]),
            addresses: vec![self.address()],
            node: Some(node),
            ready: true,
            account: SmolStr::new_static("default"),
            ..Pod::default()
        };
        self.add(Item::Pod(pod));
    }

    /// A machine outside, which no node stands for, with one port that has no name.
    fn entity(&mut self, namespace: &SmolStr, name: SmolStr, label: &SmolStr) {
        let pod = Pod {
            namespace: namespace.clone(),
            name,
            labels: Labels::new([("ee".into(), label.clone())]),
            addresses: vec![self.address()],
            ports: vec![ContainerPort { name: None, protocol: Protocol::Tcp, number: 8080 }],
            external: true,
            ready: true,
            ..Pod::default()
        };
        self.add(Item::Pod(pod));
    }

    /// A NetworkPolicy for both directions, with an ingress rule from these pods of these namespaces if there are any.
    fn policy(
        &mut self,
        namespace: &SmolStr,
        name: SmolStr,
        pods: Selector,
        from: Option<(Namespaces, Selector)>,
    ) {
        let subjects: Arc<[Subject]> = Arc::new([PodSet::new(own(namespace), pods).into()]);
        let isolation = |direction| Isolation { subjects: Arc::clone(&subjects), direction };
        let rule =
            from.map(|(namespaces, pods)| ingress(Arc::clone(&subjects), PodSet::new(namespaces, pods)));
        self.add(Item::Policy(Policy {
            object: object(Dialect::NetworkPolicy, ("networking.k8s.io", "v1"), namespace, name),
            placement: Placement::Union,
            isolations: Direction::BOTH.map(isolation).into(),
            rules: rule.into_iter().collect(),
            unreadable: None,
        }));
    }

    /// Antrea's own, in its default tier and with no priority given.
    fn antrea(&mut self, namespace: &SmolStr, name: SmolStr, subject: PodSet, from: PodSet) {
        self.add(Item::Policy(Policy {
            object: object(Dialect::Antrea, ("crd.antrea.io", "v1beta1"), namespace, name),
            placement: Placement::Tier { tier: Tier::Fixed(250, "application"), priority: Priority(0.0) },
            isolations: Vec::new(),
            rules: vec![ingress(Arc::new([subject.into()]), from)],
            unreadable: None,
        }));
    }
}

/// Allows everything from these.
fn ingress(subjects: Arc<[Subject]>, from: PodSet) -> Rule {
    Rule {
        direction: Direction::Ingress,
        index: 0,
        name: None,
        subjects,
        action: Action::Allow,
        peers: Peers::Of(vec![Peer::Pods(from)]),
        traffic: TrafficMatches::Any,
        layer7: Vec::new(),
        log: None,
        at: None,
    }
}

fn object(
    dialect: Dialect,
    (group, version): (&'static str, &'static str),
    namespace: &SmolStr,
    name: SmolStr,
) -> Arc<Object> {
    Arc::new(Object {
        kind: SmolStr::new_static("NetworkPolicy"),
        namespace: Some(namespace.clone()),
        name,
        group: SmolStr::new_static(group),
        version: SmolStr::new_static(version),
        generation: 1,
        at: None,
        dialect,
    })
}

#[cfg(test)]
mod tests {
    use palisade_engine::Engine;

    use super::*;

    /// Namespaces, pods, policies; subjects, address sets and rules that the index makes of them.
    fn counts(scenario: Scenario, fraction: usize) -> [usize; 6] {
        let (mut engine, mut namespaces) = (Engine::default(), 0);
        scenario.events(Scale::part(fraction), &mut |events| {
            for event in events {
                namespaces += usize::from(matches!(event, Event::Apply(Item::Namespace(_))));
                engine.apply(event);
            }
        });
        let of = engine.counts();
        [namespaces, of.pods, of.policies, of.subjects, of.address_sets, of.rules]
    }

    #[test]
    fn a_scenario_has_as_much_of_everything_as_its_description_says() {
        assert_eq!(counts(Scenario::S1, 100), [250, 1000, 750, 750, 500, 500]);
        assert_eq!(counts(Scenario::S2, 50), [2, 2000, 202, 202, 200, 200]);
        assert_eq!(counts(Scenario::S3, 100), [1, 100, 100, 1, 1, 100]);
        assert_eq!(counts(Scenario::S4, 100), [1, 100, 100, 100, 100, 100]);
        assert_eq!(counts(Scenario::S5, 100), [1, 100, 100, 100, 100, 100]);
        assert_eq!(counts(Scenario::S6, 50), [20, 2000, 200, 200, 20, 200]);
        assert_eq!(counts(Scenario::S7, 10), [1, 100, 100, 1, 1, 100]);
    }
}
