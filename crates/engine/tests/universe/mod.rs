//! A small universe: four namespaces with two pods each, a node with a pod in its network, an external entity, services,
//! groups, names and addresses outside. Every form that a rule can have is in `palisade_testing::forms`.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::address::Block;
use palisade_model::cluster::{ContainerPort, Namespace, Node, Pod, Service, ServiceKind};
use palisade_model::event::Item;
use palisade_model::group::{Group, GroupName, Members};
use palisade_model::label::{Labels, Selector};
use palisade_model::policy::{
    Action, Dialect, Direction, Isolation, Namespaces, Object, Peers, Placement, PodSet, Policy, Priority,
    Rule, ServiceName, Subject, Tier, TrafficMatches,
};
use palisade_model::traffic::Protocol;

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::new(pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())))
}

pub fn namespace(name: &str, pairs: &[(&str, &str)]) -> Item {
    Item::Namespace(Namespace { name: name.into(), labels: labels(pairs), at: None })
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn port(name: &str, protocol: Protocol, number: u16) -> ContainerPort {
    ContainerPort { name: Some(name.into()), protocol, number }
}

/// A pod that serves `web`, and `dns` on two protocols.
pub fn pod(namespace: &str, name: &str, app: &str, own: Option<&str>, web: u16) -> Pod {
    Pod {
        namespace: namespace.into(),
        name: name.into(),
        labels: labels(&[("app", app)]),
        addresses: own.map(address).into_iter().collect(),
        node: Some(if name == "a" { "n0" } else { "n1" }.into()),
        ready: true,
        ports: vec![
            port("web", Protocol::Tcp, web),
            port("dns", Protocol::Udp, 53),
            port("dns", Protocol::Tcp, 5353),
        ],
        account: if web == 81 { "robot" } else { "default" }.into(),
        ..Pod::default()
    }
}

/// Everything but policies.
pub fn cluster() -> Vec<Item> {
    let mut items = vec![
        namespace("x", &[("team", "red"), ("zone", "a")]),
        namespace("y", &[("team", "red"), ("zone", "b")]),
        namespace("z", &[("team", "blue"), ("zone", "a")]),
        // The fourth, w, is known by its pods only.
        Item::Pod(pod("x", "a", "a", Some("10.0.0.1"), 80)),
        Item::Pod(pod("x", "b", "b", Some("10.0.0.2"), 81)),
        Item::Pod(pod("y", "a", "a", Some("10.0.1.1"), 80)),
        Item::Pod(pod("y", "b", "b", Some("10.0.1.2"), 81)),
        Item::Pod(pod("z", "a", "a", Some("10.0.2.1"), 81)),
        Item::Pod(pod("z", "b", "b", None, 80)),
        Item::Pod(pod("w", "a", "a", Some("10.0.3.1"), 80)),
        Item::Pod(Pod { ports: Vec::new(), ..pod("w", "b", "c", Some("10.0.0.1"), 80) }),
    ];
    let host = Pod { host_network: true, ..pod("x", "a-host", "a", Some("172.18.0.2"), 80) };
    items.push(Item::Pod(Pod { node: Some("n0".into()), ..host }));
    let vm = Pod { external: true, node: None, ..pod("x", "a", "a", Some("198.51.100.9"), 80) };
    items.push(Item::Pod(vm));
    items.push(Item::Node(Node {
        name: "n0".into(),
        labels: labels(&[("zone", "a")]),
        addresses: vec![address("172.18.0.2")],
        at: None,
    }));
    let selector = Some(Selector::label("app", "a"));
    let web = ServiceKind::ClusterAddress { selector: selector.clone() };
    for (name, kind) in [("web", web), ("all", ServiceKind::Headless { selector })] {
        items.push(Item::Service(Service {
            namespace: "x".into(),
            name: name.into(),
            addresses: if name == "web" { vec![address("10.96.0.1")] } else { Vec::new() },
            kind,
            ..Service::default()
        }));
    }
    items.push(Item::Name("api.example.com".into(), vec![address("203.0.113.7")]));
    items.push(Item::Tier("mine".into(), 10));
    let blocks = Members::Addresses(vec![block("10.0.0.0/30", &["10.0.0.1/32"]), block("192.0.2.0/24", &[])]);
    items.push(group("apps", Members::Pods(anywhere("a"))));
    items.push(group("blocks", blocks));
    items.push(group("family", Members::Children(vec!["apps".into(), "blocks".into(), "gone".into()])));
    items.push(group("served", Members::Service(web_service())));
    items.push(group("nodes", Members::Nodes(Selector::everything())));
    items.push(group("broken", Members::Unknown("nobody can read this".into())));
    items
}

fn web_service() -> ServiceName {
    ServiceName { namespace: "x".into(), name: "web".into() }
}

pub fn group(name: &str, members: Members) -> Item {
    Item::Group(Group { object: object("Group", name), members })
}

pub fn group_name(name: &str) -> GroupName {
    GroupName { namespace: None, name: name.into() }
}

pub fn object(kind: &str, name: &str) -> Arc<Object> {
    Arc::new(Object {
        kind: kind.into(),
        namespace: None,
        name: name.into(),
        group: "".into(),
        version: "v1".into(),
        generation: 0,
        at: None,
        dialect: Dialect::NetworkPolicy,
    })
}

pub fn block(cidr: &str, except: &[&str]) -> Block {
    Block::new(cidr.parse().unwrap(), except.iter().map(|net| net.parse().unwrap()))
}

fn anywhere(app: &str) -> PodSet {
    PodSet::new(Namespaces::Matching(Selector::everything()), Selector::label("app", app))
}

/// A place in a tier.
pub fn tier(number: u8, priority: f64) -> Placement {
    let tier = match number {
        10 => Tier::Named("mine".into()),
        0 => Tier::Named("gone".into()),
        number => Tier::Fixed(number, "fixed"),
    };
    Placement::Tier { tier, priority: Priority(priority) }
}

pub fn policy(name: &str, placement: Placement, isolations: Vec<Isolation>, rules: Vec<Rule>) -> Item {
    Item::Policy(Policy { object: object("Policy", name), placement, isolations, rules, unreadable: None })
}

pub fn rule(
    direction: Direction,
    subjects: &Arc<[Subject]>,
    action: Action,
    end: (Peers, TrafficMatches),
) -> Rule {
    Rule { action, ..Rule::allow(direction, 0, subjects, end, None) }
}

pub fn everybody() -> Arc<[Subject]> {
    let pods = PodSet::everything();
    let entities = PodSet { external: true, ..pods.clone() };
    Arc::new([pods.into(), entities.into(), Subject::Nodes(Selector::everything())])
}
