//! Clusters that are hard on a map, each in one way, so that one sees what is bounded and what is not.

use clap::ValueEnum;
use palisade_model::label::Selector;
use palisade_model::policy::{Action, Direction, Namespaces, Peer, Peers, PodSet, TrafficMatches};
use palisade_model::snapshot::Objects;
use serde::{Deserialize, Serialize};
use smol_str::{SmolStr, format_smolstr};

use super::make::{App, anything, block, namespace, network_policy, node, pod, ports, tier_policy};

/// A way to be hard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Every pod has a policy of its own, from one other: as many classes as pods.
    Alone,
    /// Ten times as many distinct ranges of ports, in rules for a tenth as many applications.
    Ranges,
    /// So many CIDRs with exceptions, ten in each policy.
    Blocks,
    /// All of those CIDRs with exceptions in every one of a hundred policies, each by a port of its own.
    SameBlocks,
    /// One policy with so many rules, each about an application and a port of its own, for everybody.
    Rules,
    /// So many namespaces, each its own tenant, and one policy that lets tenants talk to themselves.
    SameLabels,
    /// The same, for all but themselves.
    NotSameLabels,
}

const NODES: usize = 100;

// === impl Shape ===

impl Shape {
    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Shape::Alone => "every pod its own class",
            Shape::Ranges => "distinct port ranges, 10 ×",
            Shape::Blocks => "CIDRs with exceptions, 10 each",
            Shape::SameBlocks => "all CIDRs, in 100 policies",
            Shape::Rules => "one policy, a rule for each app",
            Shape::SameLabels => "namespaces with sameLabels",
            Shape::NotSameLabels => "namespaces with notSameLabels",
        }
    }

    /// Its objects, for a number of whatever there are many of.
    pub fn objects(self, count: usize) -> Objects {
        let mut objects = Objects { nodes: (0..NODES).map(node).collect(), ..Objects::default() };
        let one = SmolStr::new_static("shop");
        if !matches!(self, Shape::SameLabels | Shape::NotSameLabels) {
            objects.namespaces.push(namespace(one.clone(), &[]));
        }
        let set = |app: usize| PodSet::new(Namespaces::Named(one.clone()), app_selector(app));
        let ingress = |peers: Peers, traffic: TrafficMatches| (Direction::Ingress, (peers, traffic));
        let isolated = &[Direction::Ingress];
        match self {
            Shape::Alone => {
                apps(&mut objects, &one, count);
                for at in 0..count {
                    let from = Peers::Of(vec![Peer::Pods(set((at + 1) % count))]);
                    let name = format_smolstr!("policy-{at}");
                    let rules = vec![ingress(from, TrafficMatches::Any)];
                    objects.policies.push(network_policy(&one, name, set(at), isolated, rules));
                }
            }
            Shape::Ranges => {
                let many = (count / 10).max(1);
                apps(&mut objects, &one, many);
                for at in 0..many {
                    let rule = |nth: usize| {
                        let from = Peers::Of(vec![Peer::Pods(set((at + nth) % many))]);
                        ingress(from, ports([range(at * 100 + nth)]))
                    };
                    let rules = (0..100).map(rule).collect();
                    let name = format_smolstr!("policy-{at}");
                    objects.policies.push(network_policy(&one, name, set(at), isolated, rules));
                }
            }
            Shape::Blocks => {
                let many = (count / 10).max(1);
                apps(&mut objects, &one, many);
                for at in 0..many {
                    let from = Peers::Of((at * 10..at * 10 + 10).filter_map(cidr).collect());
                    let rules = vec![ingress(from, ports([(443, 443)]))];
                    let name = format_smolstr!("policy-{at}");
                    objects.policies.push(network_policy(&one, name, set(at), isolated, rules));
                }
            }
            Shape::SameBlocks => {
                apps(&mut objects, &one, 100);
                for at in 0..100 {
                    let from = Peers::Of((0..count).filter_map(cidr).collect());
                    let rules = vec![ingress(from, ports([range(at)]))];
                    let name = format_smolstr!("policy-{at}");
                    objects.policies.push(network_policy(&one, name, set(at), isolated, rules));
                }
            }
            Shape::Rules => {
                apps(&mut objects, &one, count);
                let rule = |at: usize| ingress(Peers::Of(vec![Peer::Pods(set(at))]), ports([range(at)]));
                let rules = (0..count).map(rule).collect();
                let everybody = PodSet::all_of(&one);
                objects.policies.push(network_policy(&one, "policy".into(), everybody, isolated, rules));
            }
            Shape::SameLabels | Shape::NotSameLabels => {
                for at in 0..count {
                    let name = format_smolstr!("team-{at}");
                    objects.namespaces.push(namespace(name.clone(), &[("tenant", &name)]));
                    apps(&mut objects, &name, 1);
                }
                let labels = vec![SmolStr::new_static("tenant")];
                let (own, action) = match self {
                    Shape::SameLabels => (Namespaces::SameLabels(labels), Action::Allow),
                    _ => (Namespaces::NotSameLabels(labels), Action::Deny),
                };
                let own = Peers::Of(vec![Peer::Pods(PodSet::new(own, Selector::everything()))]);
                let mut rules = vec![(Direction::Ingress, action, (own, TrafficMatches::Any))];
                if action == Action::Allow {
                    rules.push((Direction::Ingress, Action::Deny, anything()));
                }
                objects.policies.push(tier_policy((250, "application"), 5, PodSet::everything(), rules));
            }
        }
        objects
    }
}

fn app_selector(at: usize) -> Selector {
    Selector::label("app", &format!("app-{at}"))
}

/// Applications of one pod each.
fn apps(objects: &mut Objects, namespace: &SmolStr, count: usize) {
    for at in 0..count {
        let name = format_smolstr!("app-{at}");
        let labels = vec![("app", name.clone())];
        let app = App { namespace: namespace.clone(), name, labels, port: ("http", 8080) };
        objects.pods.push(pod(&app, objects.pods.len(), NODES));
    }
}

/// Ranges of which no two are the same, up to a million.
fn range(at: usize) -> (u16, u16) {
    let first = u16::try_from(1 + at % 60_000).unwrap_or(1);
    let length = u16::try_from(at / 60_000 % 5_000).unwrap_or(0);
    (first, first + length)
}

fn cidr(at: usize) -> Option<Peer> {
    let (a, b, c) = (20 + at / 65_536, at / 256 % 256, at % 256);
    let except = [format!("{a}.{b}.{c}.64/28"), format!("{a}.{b}.{c}.128/26")];
    block(&format!("{a}.{b}.{c}.0/24"), &except).map(Peer::Addresses)
}
