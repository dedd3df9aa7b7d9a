//! What tests found in the index, each as small as it gets.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod universe;
mod walk;
mod world;

use std::net::IpAddr;

use palisade_model::cluster::{Node, Pod, Service, ServiceKind};
use palisade_model::event::Item;
use palisade_model::label::Selector;
use palisade_model::options::Options;
use palisade_model::policy::{
    Action, Direction, DomainName, Namespaces, Peer, Peers, Placement, PodSet, Subject, TrafficMatch,
    TrafficMatches,
};
use palisade_model::trace::Verdict;
use palisade_model::traffic::{Protocol, Traffic};

use universe::{everybody, labels, namespace, pod, policy, rule, tier};
use walk::Walk;
use world::World;

const TCP: [Traffic; 2] = [
    Traffic { protocol: Protocol::Tcp, port: 80, source_port: None, icmp: None },
    Traffic { protocol: Protocol::Tcp, port: 81, source_port: None, icmp: None },
];

fn web() -> TrafficMatches {
    TrafficMatches::Of(vec![TrafficMatch::Named(None, "web".into())])
}

fn own_namespace() -> Peers {
    Peers::Of(vec![Peer::Pods(PodSet::new(Namespaces::Own, Selector::everything()))])
}

fn addresses(all: &[&str]) -> Vec<IpAddr> {
    all.iter().map(|text| text.parse().unwrap()).collect()
}

fn ingress(name: &str, place: Placement, to: Subject, action: Action, end: (Peers, TrafficMatches)) -> Item {
    policy(name, place, Vec::new(), vec![rule(Direction::Ingress, &[to].into(), action, end)])
}

#[test]
fn whoever_moves_leaves_the_sets_that_go_as_well() {
    let app = |app| PodSet::new(Namespaces::Matching(Selector::everything()), Selector::label("app", app));
    let any = (Peers::Any, TrafficMatches::Any);
    let mut world = World::of([
        Item::Pod(pod("x", "b", "b", Some("10.0.0.2"), 80)),
        Item::Pod(pod("x", "a", "a", Some("10.0.0.1"), 81)),
        ingress("first", tier(251, 1.0), app("a").into(), Action::Deny, any.clone()),
        ingress("then", tier(251, 2.0), PodSet::everything().into(), Action::Allow, (Peers::Any, web())),
        ingress("last", tier(254, 1.0), PodSet::everything().into(), Action::Deny, any),
    ]);
    let snapshot = world.snapshot();
    let who = |name| (palisade_model::flow::Who::Pod(snapshot.pod("x", name).unwrap()), None);
    let flow = snapshot.flow(who("b"), who("a"), TCP[1]);
    let options = Options::default();
    let mut copy = world.view.clone();
    assert_eq!(Walk::new(&copy).verdict(&snapshot, &flow, &options), Verdict::Deny);
    // Before, the first policy denies it; after, its web is another port, and the last one does.
    let delta = world.put(Item::Pod(pod("x", "a", "b", Some("10.0.0.1"), 80)));
    for change in &delta.changes {
        copy.step(change).unwrap();
        let between = Walk::new(&copy).verdict(&snapshot, &flow, &options);
        assert_eq!(between, Verdict::Deny, "after {change:?} of {delta:#?}");
    }
}

#[test]
fn a_namespace_comes_with_its_first_pod_to_a_rule_with_relative_peers_and_a_named_port() {
    let to = PodSet::everything().into();
    let mut world = World::default();
    world.put(ingress("p", tier(251, 1.0), to, Action::Deny, (own_namespace(), web())));
    world.put(Item::Pod(pod("x", "a", "a", Some("10.0.0.1"), 80)));
    world.put(Item::Pod(pod("x", "b", "a", Some("10.0.0.2"), 81)));
    world.agrees(&TCP, &Options::default(), true);
}

#[test]
fn a_namespace_is_relabelled_into_a_rule_with_relative_peers_and_a_named_port() {
    let red = Namespaces::Matching(Selector::label("team", "red"));
    let to = PodSet::new(red, Selector::everything()).into();
    let mut world = World::of([
        namespace("x", &[]),
        Item::Pod(pod("x", "a", "a", Some("10.0.0.1"), 80)),
        Item::Pod(pod("x", "b", "a", Some("10.0.0.2"), 81)),
    ]);
    world.put(ingress("p", tier(251, 1.0), to, Action::Deny, (own_namespace(), web())));
    world.put(namespace("x", &[("team", "red")]));
    world.agrees(&TCP, &Options::default(), true);
}

fn node(name: &str, own: &[&str]) -> Item {
    let labels = labels(&[("name", name)]);
    Item::Node(Node { name: name.into(), labels, addresses: addresses(own), at: None })
}

#[test]
fn a_host_network_pod_with_addresses_of_two_nodes_is_on_the_node_of_its_first() {
    let host = Pod {
        node: None,
        host_network: true,
        addresses: addresses(&["172.18.0.3", "172.18.0.2"]),
        ..pod("x", "host", "a", None, 80)
    };
    let first = Subject::Nodes(Selector::label("name", "n0"));
    let mut world = World::of([
        node("n0", &["172.18.0.2"]),
        node("n1", &["172.18.0.3"]),
        Item::Pod(host),
        Item::Pod(pod("y", "a", "a", Some("10.0.0.1"), 80)),
        ingress("p", tier(251, 1.0), first, Action::Deny, (Peers::Any, TrafficMatches::Any)),
    ]);
    world.agrees(&TCP, &Options::default(), true);
}

#[test]
fn a_headless_service_stands_for_the_node_of_a_host_network_pod_that_tells_no_address() {
    let mut world = World::of([
        node("n0", &["172.18.0.2"]),
        Item::Pod(Pod { host_network: true, node: Some("n0".into()), ..pod("x", "host", "a", None, 80) }),
        Item::Pod(pod("x", "a", "b", Some("10.0.0.1"), 80)),
        Item::Service(Service {
            namespace: "x".into(),
            name: "all".into(),
            kind: ServiceKind::Headless { selector: Some(Selector::label("app", "a")) },
            ..Service::default()
        }),
    ]);
    let names = Peers::Of(vec![Peer::Names(vec![DomainName::form("all.x.svc*")])]);
    let deny = rule(Direction::Egress, &everybody(), Action::Deny, (names, TrafficMatches::Any));
    world.put(policy("p", tier(251, 1.0), Vec::new(), vec![deny]));
    world.agrees(&TCP, &Options::default(), true);
}
