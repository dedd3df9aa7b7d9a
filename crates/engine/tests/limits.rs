//! Hostile and odd input: far more of something than anybody has, objects that lack what they should have, events that
//! contradict each other. Nothing of it may be lost, made up, or bring the index down. Nothing here looks at a clock: what
//! is too slow is noticed by whoever waits for the test.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod universe;
mod walk;
mod world;

use std::net::IpAddr;

use palisade_engine::Engine;
use palisade_engine::view::View;
use palisade_model::cluster::{ContainerPort, Node, Pod, Service};
use palisade_model::event::{Event, Item};
use palisade_model::label::{Labels, Selector};
use palisade_model::options::Options;
use palisade_model::policy::{
    Action, Direction, Namespaces, Peer, Peers, Placement, PodSet, ServiceName, Subject, TrafficMatch,
    TrafficMatches,
};
use palisade_model::traffic::{Protocol, Traffic};
use smol_str::{SmolStr, format_smolstr};

use universe::{block, everybody, pod, policy, rule, tier};
use world::World;

const TCP: [Traffic; 2] = [
    Traffic { protocol: Protocol::Tcp, port: 80, source_port: None, icmp: None },
    Traffic { protocol: Protocol::Tcp, port: 81, source_port: None, icmp: None },
];

/// Few enough for every day: to split a set takes as long as it has splits.
const SPLITS: usize = 2_000;

fn deny(name: &str, place: Placement, to: Subject, end: (Peers, TrafficMatches)) -> Item {
    policy(name, place, Vec::new(), vec![rule(Direction::Ingress, &[to].into(), Action::Deny, end)])
}

fn anything() -> (Peers, TrafficMatches) {
    (Peers::Any, TrafficMatches::Any)
}

fn named(name: &str) -> TrafficMatches {
    TrafficMatches::Of(vec![TrafficMatch::Named(None, name.into())])
}

fn with_label(key: &str, value: &str) -> Subject {
    PodSet::new(Namespaces::Matching(Selector::everything()), Selector::label(key, value)).into()
}

/// The members of the one set with such a content.
fn members(view: &View, content: &str) -> Vec<String> {
    let found = view.sets().values().find(|set| set.selection.to_string() == content);
    let set = found.unwrap_or_else(|| panic!("no {content} in\n{view}"));
    set.members.iter().map(ToString::to_string).collect()
}

#[test]
fn a_pod_with_a_million_labels_is_found_by_each_of_them() {
    let many = (0..1_000_000).map(|at| (format_smolstr!("key-{at:07}"), SmolStr::new_static("v")));
    let mut world = World::of([Item::Pod(Pod { labels: Labels::new(many), ..pod("x", "a", "a", None, 80) })]);
    for at in [0, 499_999, 999_999, 1_000_000] {
        let key = format!("key-{at:07}");
        world.put(deny(&key, tier(251, 1.0), with_label(&key, "v"), anything()));
        let expected: &[&str] = if at < 1_000_000 { &["x/a on n0"] } else { &[] };
        assert_eq!(members(&world.view, &format!("pods with {key}=v anywhere")), expected);
    }
    assert_eq!(world.engine.counts().classes, 1);
    // And it loses all of them at once.
    world.put(Item::Pod(pod("x", "a", "a", None, 80)));
    assert_eq!(members(&world.view, "pods with key-0499999=v anywhere"), [""; 0]);
    world.clear();
}

#[test]
fn ten_thousand_blocks_are_one_rule_with_one_set() {
    // Every other half of a /24 as two quarters that touch: half as many ranges as blocks.
    let blocks = (0..5_000).flat_map(|at| {
        let [high, low] = [at / 256, at % 256];
        [0, 64].map(|last| Peer::Addresses(block(&format!("10.{high}.{low}.{last}/26"), &[])))
    });
    let world = World::of([
        Item::Pod(pod("x", "a", "a", Some("192.168.0.1"), 80)),
        deny(
            "p",
            tier(251, 1.0),
            PodSet::everything().into(),
            (Peers::Of(blocks.collect()), TrafficMatches::Any),
        ),
    ]);
    assert_eq!(world.view.rules().len(), 1);
    let ranges: Vec<_> =
        world.view.sets().values().filter_map(|set| set.selection.ranges().cloned()).collect();
    assert_eq!(ranges.len(), 1);
    assert_eq!(ranges[0].len(), 5_000);
    let inside = |text: &str| ranges[0].contains(text.parse::<IpAddr>().unwrap());
    assert!(inside("10.0.0.0") && inside("10.0.0.127") && inside("10.19.135.100"));
    assert!(!inside("10.0.0.128") && !inside("10.19.136.0"));
}

fn port(name: &str, number: usize) -> ContainerPort {
    let number = u16::try_from(number % 65_536).unwrap();
    ContainerPort { name: Some(name.into()), protocol: Protocol::Tcp, number }
}

#[test]
fn of_a_hundred_thousand_ports_rules_see_those_they_name() {
    let ports = (0..100_000).map(|at| port(&format!("port-{at}"), at)).collect();
    let mut world = World::of([Item::Pod(Pod { ports, ..pod("x", "a", "a", Some("10.0.0.1"), 80) })]);
    for name in ["port-80", "port-81", "port-99999", "port-100000"] {
        world.put(deny(name, tier(251, 1.0), PodSet::everything().into(), (Peers::Any, named(name))));
    }
    assert_eq!(world.engine.counts().rules, 3);
    assert_eq!(members(&world.view, "any pod whose port port-99999 is tcp/34463"), ["x/a 10.0.0.1 on n0"]);
    world.agrees(&TCP, &Options::default(), true);
    world.clear();
}

/// A pod whose `web` is a port that no other pod's is: there are 65,535 numbers for each protocol.
fn served(at: usize) -> Item {
    let (protocol, number) = if at < 65_535 { (Protocol::Tcp, at + 1) } else { (Protocol::Udp, at - 65_534) };
    let ports = vec![ContainerPort { protocol, ..port("web", number) }];
    Item::Pod(Pod { namespace: "x".into(), name: format_smolstr!("pod-{at}"), ports, ..Pod::default() })
}

/// Rules come and go with the pods, and all at once with the policy.
fn splits(pods: usize) {
    let mut engine = Engine::default();
    let policy = deny("p", tier(251, 1.0), PodSet::everything().into(), (Peers::Any, named("web")));
    engine.apply(Event::Apply(policy.clone()));
    for at in 0..pods {
        // A set, a rule and the member, however many have come before.
        assert_eq!(engine.apply(Event::Apply(served(at))).changes.len(), 3, "pod {at}");
    }
    assert_eq!(engine.counts().rules, pods);
    let Item::Pod(seventh) = served(7) else { unreachable!() };
    let again = Item::Pod(Pod { name: "again".into(), ..seventh });
    engine.apply(Event::Apply(again.clone()));
    assert_eq!(engine.counts().rules, pods, "two pods of one number share a rule");
    assert_eq!(members(&engine.view(), "any pod whose port web is tcp/8"), ["x/again", "x/pod-7"]);
    engine.apply(Event::Delete(again.key()));
    engine.apply(Event::Delete(policy.key()));
    assert_eq!(engine.counts().rules, 0);
    let delta = engine.apply(Event::Apply(policy));
    assert_eq!(
        (engine.counts().rules, delta.changes.len()),
        (pods, 2 * pods + 1),
        "sets, rules and a policy"
    );
    for at in 0..pods {
        engine.apply(Event::Delete(served(at).key()));
    }
    assert_eq!(engine.counts().rules, 0);
}

#[test]
fn a_name_that_stands_for_another_number_at_each_pod_is_as_many_rules() {
    splits(SPLITS);
}

#[test]
fn a_name_may_stand_for_a_hundred_thousand_numbers() {
    splits(100_000);
}

#[test]
fn who_has_no_address_is_a_member_all_the_same() {
    let mut world = World::of([
        Item::Pod(pod("x", "a", "a", None, 80)),
        Item::Pod(Pod { node: None, ..pod("x", "b", "a", None, 80) }),
        Item::Pod(Pod { external: true, node: None, ..pod("x", "a", "a", None, 80) }),
        Item::Node(Node { name: "n0".into(), labels: Labels::default(), addresses: Vec::new(), at: None }),
        Item::Service(Service { namespace: "x".into(), name: "web".into(), ..Service::default() }),
    ]);
    let service = ServiceName { namespace: "x".into(), name: "web".into() };
    let mut all: Vec<Subject> = everybody().to_vec();
    all.push(Subject::Service(service));
    for (at, subject) in all.into_iter().enumerate() {
        world.put(deny(&at.to_string(), tier(251, 1.0), subject, anything()));
    }
    assert_eq!(members(&world.view, "any pod"), ["x/a on n0", "x/b"]);
    assert_eq!(members(&world.view, "any external entity"), ["entity x/a"]);
    assert_eq!(members(&world.view, "any node"), ["node n0"]);
    assert_eq!(members(&world.view, "service x/web"), ["service x/web"]);
    world.agrees(&TCP, &Options::default(), true);
}

#[test]
fn an_address_that_two_pods_have_is_there_twice() {
    let own = |name: &str, own| Item::Pod(pod("x", name, "a", Some(own), 80));
    let mut world = World::of([own("a", "10.0.0.1"), own("b", "10.0.0.1")]);
    world.put(deny("p", tier(251, 1.0), with_label("app", "a"), anything()));
    let content = "pods with app=a anywhere";
    assert_eq!(members(&world.view, content), ["x/a 10.0.0.1 on n0", "x/b 10.0.0.1 on n1"]);
    world.put(own("a", "10.0.0.2"));
    assert_eq!(members(&world.view, content), ["x/a 10.0.0.2 on n0", "x/b 10.0.0.1 on n1"]);
    world.remove(&own("b", "10.0.0.1").key());
    world.put(own("a", "10.0.0.1"));
    assert_eq!(members(&world.view, content), ["x/a 10.0.0.1 on n0"]);
}

#[test]
fn what_stands_out_is_reported() {
    let many = (0..1001).map(|at| (format!("key-{at}").into(), "v".into()));
    let mut engine = Engine::default();
    for item in [
        Item::Pod(pod("x", "a", "a", Some("10.0.0.1"), 80)),
        Item::Pod(pod("y", "b", "a", Some("10.0.0.1"), 81)),
        Item::Pod(pod("x", "c", "a", None, 80)),
        Item::Pod(Pod { labels: Labels::new(many), ..pod("x", "d", "a", Some("10.0.0.4"), 80) }),
        // Whoever has ended has no address, and whoever is its node shares the node's.
        Item::Pod(Pod { terminated: true, ..pod("x", "e", "a", Some("10.0.0.4"), 80) }),
        Item::Pod(Pod { host_network: true, ..pod("x", "f", "a", Some("10.0.0.4"), 80) }),
    ] {
        engine.apply(Event::Apply(item));
    }
    let found: Vec<String> = engine.findings().iter().map(ToString::to_string).collect();
    assert_eq!(
        found,
        ["10.0.0.1 is the address of x/a and of y/b", "x/c on n1 has no address", "x/d has 1001 labels"]
    );
}
