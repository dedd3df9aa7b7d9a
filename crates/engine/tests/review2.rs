//! What a review changed in the index without any test noticing: here it would be noticed.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod universe;
mod walk;
mod world;

use std::sync::Arc;

use palisade_engine::view::View;
use palisade_engine::{Change, Engine};
use palisade_model::cluster::{ContainerPort, Node, Pod, Service, ServiceKind};
use palisade_model::event::{Event, Item};
use palisade_model::flow::{Flow, Who};
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::options::Options;
use palisade_model::policy::{
    Action, Direction, DomainName, Isolation, Namespaces, Peer, Peers, Placement, PodSet, Rule, Subject,
    TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::traffic::{PortRange, Protocol, Traffic};

use universe::{block, everybody, labels, namespace, pod, policy, rule, tier};
use walk::Walk;
use world::{World, flows, options};

const TCP: [Traffic; 2] = [
    Traffic { protocol: Protocol::Tcp, port: 80, source_port: None, icmp: None },
    Traffic { protocol: Protocol::Tcp, port: 81, source_port: None, icmp: None },
];

fn all_pods() -> Arc<[Subject]> {
    Arc::new([PodSet::everything().into()])
}

fn app(app: &str) -> PodSet {
    PodSet::new(Namespaces::Matching(Selector::everything()), Selector::label("app", app))
}

fn apps(names: &[&str]) -> Peers {
    Peers::Of(names.iter().map(|name| Peer::Pods(app(name))).collect())
}

fn to_port(number: u16) -> TrafficMatches {
    TrafficMatches::Of(vec![TrafficMatch::Ports(Protocol::Tcp, PortRange::single(number))])
}

fn web() -> TrafficMatches {
    TrafficMatches::Of(vec![TrafficMatch::Named(None, "web".into())])
}

fn ingress(index: u32, action: Action, end: (Peers, TrafficMatches)) -> Rule {
    Rule { index, ..rule(Direction::Ingress, &all_pods(), action, end) }
}

fn tiered(name: &str, rules: Vec<Rule>) -> Item {
    policy(name, tier(251, 1.0), Vec::new(), rules)
}

fn trio() -> [Item; 3] {
    [
        Item::Pod(pod("x", "a", "a", Some("10.0.0.1"), 80)),
        Item::Pod(pod("x", "b", "b", Some("10.0.0.2"), 81)),
        Item::Pod(pod("y", "c", "c", Some("10.0.1.1"), 80)),
    ]
}

/// With every combination of the options.
fn agrees(world: &mut World) {
    (0..8).for_each(|index| world.agrees(&TCP, &options(index), true));
}

#[test]
fn a_namespace_without_a_label_gets_one_of_the_values_that_peers_may_have() {
    let team = Requirement::new("team", Operator::In(vec!["blue".into(), "red".into()]));
    let peer = PodSet::new(Namespaces::Matching(Selector::new([team])), Selector::everything());
    let mut world = World::of(trio());
    world.put(namespace("x", &[]));
    let end = (Peers::Of(vec![Peer::Pods(peer)]), TrafficMatches::Any);
    world.put(tiered("p", vec![ingress(0, Action::Deny, end)]));
    for label in [Some("red"), Some("blue"), Some("green"), Some("red"), None, Some("blue")] {
        let label = label.map(|value| ("team", value));
        world.put(namespace("x", label.as_slice()));
        agrees(&mut world);
    }
    world.has_decided([(251, Some(Action::Deny))]);
}

fn port(number: u16) -> ContainerPort {
    ContainerPort { name: Some("web".into()), protocol: Protocol::Tcp, number }
}

#[test]
fn of_two_ports_with_one_name_the_first_counts() {
    let twice = Pod { ports: vec![port(81), port(80)], ..pod("x", "a", "a", Some("10.0.0.1"), 80) };
    let mut world = World::of(trio());
    world.put(Item::Pod(twice));
    world.put(tiered("p", vec![ingress(0, Action::Deny, (Peers::Any, web()))]));
    agrees(&mut world);
    let said = world.view.to_string();
    let set = said.lines().find(|line| line.contains("web is tcp/81:")).unwrap();
    assert!(set.contains("x/a") && !said.contains("tcp/80: [x/a"), "{said}");
}

#[test]
fn a_headless_service_stands_for_pods_that_are_not_ready_if_it_says_so() {
    for publish_not_ready in [true, false] {
        let mut world = World::of(trio());
        world.put(Item::Pod(Pod { ready: false, ..pod("x", "a", "a", Some("10.0.0.1"), 80) }));
        world.put(Item::Service(Service {
            namespace: "x".into(),
            name: "all".into(),
            kind: ServiceKind::Headless { selector: Some(Selector::label("app", "a")) },
            publish_not_ready,
            ..Service::default()
        }));
        let names = Peers::Of(vec![Peer::Names(vec![DomainName::form("all.x.svc*")])]);
        let deny = rule(Direction::Egress, &everybody(), Action::Deny, (names, TrafficMatches::Any));
        world.put(tiered("p", vec![deny]));
        agrees(&mut world);
        assert_eq!(world.decided.contains_key(&(251, Some(Action::Deny))), publish_not_ready);
        // Readiness comes and goes.
        world.put(Item::Pod(pod("x", "a", "a", Some("10.0.0.1"), 80)));
        agrees(&mut world);
        world.has_decided([(251, Some(Action::Deny))]);
        world.put(Item::Pod(Pod { ready: false, ..pod("x", "a", "a", Some("10.0.0.1"), 80) }));
        agrees(&mut world);
    }
}

#[test]
fn a_pod_in_the_network_of_one_of_two_nodes_with_one_address() {
    let node = |name: &str| {
        let addresses = vec!["172.18.0.2".parse().unwrap()];
        Item::Node(Node { name: name.into(), labels: labels(&[("name", name)]), addresses, at: None })
    };
    let host = Pod { host_network: true, node: None, ..pod("x", "host", "a", Some("172.18.0.2"), 80) };
    for denied in ["n0", "n1"] {
        for order in [["n0", "n1"], ["n1", "n0"]] {
            let mut world = World::of(trio());
            world.put(Item::Pod(host.clone()));
            let to = Subject::Nodes(Selector::label("name", denied));
            let end = (Peers::Any, TrafficMatches::Any);
            world.put(tiered("p", vec![rule(Direction::Ingress, &[to].into(), Action::Deny, end)]));
            for name in order {
                world.put(node(name));
                agrees(&mut world);
            }
            world.remove(&node(order[0]).key());
            agrees(&mut world);
            world.put(node(order[0]));
            agrees(&mut world);
        }
    }
}

#[test]
fn a_policy_goes_with_its_rules_and_sets_and_nothing_else() {
    let mut world = World::of(trio());
    let from_b = tiered("p", vec![ingress(0, Action::Deny, (apps(&["b"]), TrafficMatches::Any))]);
    world.put(from_b.clone());
    // Both nodes need the subject, which is everybody, and the peers.
    assert_eq!((world.view.needs().len(), world.view.sets().len()), (4, 2));
    let delta = world.remove(&from_b.key());
    let [
        Change::RuleRemoved(_),
        Change::SetRemoved(one),
        Change::SetRemoved(other),
        Change::PolicyRemoved(_),
    ] = &*delta.changes
    else {
        panic!("{delta:#?}")
    };
    assert_ne!(one, other);
    assert_eq!((world.view.to_string(), world.view.needs().len()), (String::new(), 0));
}

/// Of a view, about a flow.
fn says(view: &View, snapshot: &Snapshot, flow: &Flow, direction: Direction) -> Verdict {
    Walk::new(view).side(snapshot, flow, &Options::default(), direction)
}

#[test]
fn what_a_new_networkpolicy_allows_is_never_closed_in_between() {
    let isolations = [Direction::Ingress, Direction::Egress]
        .map(|direction| Isolation { subjects: all_pods(), direction });
    let rules = vec![
        ingress(0, Action::Allow, (apps(&["b"]), to_port(80))),
        ingress(1, Action::Allow, (apps(&["c"]), web())),
        rule(Direction::Egress, &all_pods(), Action::Allow, (apps(&["a"]), TrafficMatches::Any)),
    ];
    let new = policy("p", Placement::Union, isolations.into(), rules);
    let mut world = World::of(trio());
    let mut copy = world.engine.view();
    let snapshot = world.snapshot();
    let verdict = |view: &View, flow: &Flow| Walk::new(view).verdict(&snapshot, flow, &Options::default());
    let deltas = [world.put(new.clone()), world.remove(&new.key())];
    let mut whole = copy.clone();
    whole.follow(&deltas[0]).unwrap();
    let allowed: Vec<Flow> =
        flows(&snapshot, &TCP).into_iter().filter(|flow| verdict(&whole, flow) == Verdict::Allow).collect();
    // It is about something: b and c to a, besides whoever talks with itself or is not isolated.
    let is_about = |flow: &&Flow| flow.source != flow.destination && flow.destination.who != Who::Outside;
    assert!(allowed.iter().filter(is_about).count() >= 2, "{allowed:#?}");
    assert!(allowed.len() < flows(&snapshot, &TCP).len());
    for delta in deltas {
        for change in &delta.changes {
            copy.step(change).unwrap();
            for flow in &allowed {
                assert_eq!(verdict(&copy, flow), Verdict::Allow, "{flow:?} after {change:?} of {delta:#?}");
            }
        }
    }
}

/// Versions of a policy, above one that denies everything. In each somebody is denied before others are allowed.
fn versions() -> Vec<Vec<Rule>> {
    let any = || (Peers::Any, TrafficMatches::Any);
    let of_x = || {
        let pods = PodSet::new(Namespaces::Named("x".into()), Selector::label("app", "b"));
        Peers::Of(vec![Peer::Pods(pods)])
    };
    vec![
        Vec::new(),
        vec![ingress(0, Action::Deny, (apps(&["b"]), TrafficMatches::Any)), ingress(1, Action::Allow, any())],
        vec![ingress(0, Action::Deny, (of_x(), TrafficMatches::Any)), ingress(1, Action::Allow, any())],
        vec![
            ingress(0, Action::Deny, (apps(&["b", "c"]), to_port(80))),
            ingress(1, Action::Deny, (apps(&["b"]), web())),
            ingress(2, Action::Allow, any()),
        ],
        vec![ingress(0, Action::Deny, (apps(&["b"]), web())), ingress(1, Action::Allow, any())],
        vec![ingress(0, Action::Allow, (apps(&["c"]), TrafficMatches::Any))],
    ]
}

#[test]
fn no_nodes_part_of_an_update_opens_what_is_closed_before_and_after() {
    let nodes = ["n0", "n1"];
    let any = (Peers::Any, TrafficMatches::Any);
    let mut closed = 0;
    for before in versions() {
        for after in versions() {
            let mut world = World::of(trio());
            world.put(policy(
                "last",
                tier(254, 1.0),
                Vec::new(),
                vec![ingress(0, Action::Deny, any.clone())],
            ));
            world.put(tiered("p", before.clone()));
            let mut copy = world.engine.view();
            let snapshot = world.snapshot();
            let mut parts = nodes.map(|node| copy.part_of(node));
            let delta = world.put(tiered("p", after));
            let deltas = copy.follow_for(&delta, &nodes).unwrap();
            for ((node, part), delta) in nodes.iter().zip(&mut parts).zip(deltas) {
                let whole = copy.part_of(node);
                let is_here = |flow: &Flow| match flow.destination.who {
                    Who::Pod(at) => snapshot.pods()[at].node.as_deref() == Some(node),
                    _ => false,
                };
                let refused = |view: &View, flow: &Flow| {
                    says(view, &snapshot, flow, Direction::Ingress) != Verdict::Allow
                };
                let mut flows = flows(&snapshot, &TCP);
                flows.retain(|flow| is_here(flow) && refused(part, flow) && refused(&whole, flow));
                closed += flows.len();
                for change in &delta.changes {
                    part.step(change).unwrap();
                    for flow in &flows {
                        assert!(refused(part, flow), "{flow:?} on {node} after {change:?} of {delta:#?}");
                    }
                }
                assert_eq!(part.to_string(), whole.to_string());
            }
        }
    }
    assert!(closed > 100, "{closed}");
}

#[test]
fn a_rule_is_edited_and_the_nodes_hear_once_of_its_policy() {
    let with = |rules: &[u16], name: Option<&str>| {
        let all = (0..).zip(rules).map(|(at, port)| Rule {
            name: name.map(Into::into),
            ..ingress(at, Action::Deny, (Peers::Any, to_port(*port)))
        });
        tiered("p", all.collect())
    };
    // The only one, or one of several; and its policy is told if its origin is another.
    for (before, after) in [(&[81][..], &[83][..]), (&[80, 81, 82], &[80, 83, 82])] {
        for (name, told) in [(None, 0), (Some("another"), 1)] {
            let mut world = World::of(trio());
            world.put(with(before, None));
            let mut copy = world.engine.view();
            let delta = world.put(with(after, name));
            for part in copy.follow_for(&delta, &["n0", "n1"]).unwrap() {
                let policies =
                    part.changes.iter().filter(|change| matches!(change, Change::PolicyApplied(..)));
                assert_eq!(policies.count(), told, "{part:#?}");
                assert_eq!(part.changes.len(), told + 2, "a rule that comes, one that goes: {part:#?}");
            }
        }
    }
}

#[test]
fn rules_of_networkpolicies_are_all_at_one_place() {
    let isolation = Isolation { subjects: all_pods(), direction: Direction::Ingress };
    let rules = (0..3).map(|at| ingress(at, Action::Allow, (Peers::Any, to_port(80 + at as u16)))).collect();
    let mut world = World::of(trio());
    world.put(policy("p", Placement::Union, vec![isolation], rules));
    let places: Vec<_> = world.view.rules().values().map(|rule| (rule.rank.index, rule.rule)).collect();
    assert_eq!(places.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0; 4]);
    let mut from: Vec<_> = places.into_iter().filter_map(|(_, rule)| rule).collect();
    from.sort_unstable();
    assert_eq!(from, [0, 1, 2]);
}

/// Names of the policies that apply to a pod, and of those that name it.
fn policies(world: &World, of: &Pod) -> (Vec<String>, Vec<String>) {
    let at = world.engine.pod_at(of).unwrap();
    let own = world.engine.policies_of(at).map(|object| object.name.to_string()).collect();
    (own, world.engine.policies_naming(at).iter().map(|object| object.name.to_string()).collect())
}

#[test]
fn people_ask_which_policies_apply_to_a_pod_and_which_name_it() {
    let mut world = World::of(trio());
    let [a, b, c] =
        ["a", "b", "c"].map(|name| pod(if name == "c" { "y" } else { "x" }, name, name, None, 80));
    let to = |app_: &str, peers| {
        vec![rule(Direction::Ingress, &[app(app_).into()].into(), Action::Deny, (peers, TrafficMatches::Any))]
    };
    let two = tiered("two", to("a", apps(&["b", "nobody"])));
    let any = tiered("any", to("a", Peers::Any));
    world.put(any.clone());
    assert_eq!(world.engine.counts().address_sets, 0);
    assert_eq!(policies(&world, &a), (vec!["any".to_owned()], vec![]));
    assert_eq!(policies(&world, &b), (vec![], vec![]));
    world.put(two.clone());
    assert_eq!(world.engine.counts().address_sets, 2);
    let (mut own, naming) = policies(&world, &a);
    own.sort();
    assert_eq!((own, naming), (vec!["any".to_owned(), "two".to_owned()], vec![]));
    assert_eq!(policies(&world, &b), (vec![], vec!["two".to_owned()]));
    assert_eq!(policies(&world, &c), (vec![], vec![]));
    world.remove(&any.key());
    world.remove(&two.key());
    for pod in [&a, &b, &c] {
        assert_eq!(policies(&world, pod), (vec![], vec![]));
    }
}

#[test]
fn many_ranges_and_many_numbers_are_reported() {
    let found = |ranges: usize, numbers: u16| -> Vec<String> {
        // Halves that do not touch.
        let half = |at: usize| Peer::Addresses(block(&format!("10.{}.{}.0/25", at / 256, at % 256), &[]));
        let blocks = Peers::Of((0..ranges).map(half).collect());
        let mut engine = Engine::default();
        engine.apply(Event::Apply(tiered("p", vec![ingress(0, Action::Deny, (blocks, web()))])));
        for number in 1..=numbers {
            let name = format!("pod-{number}");
            let pod = Pod { node: None, ports: vec![port(number)], ..pod("x", &name, "a", None, 80) };
            engine.apply(Event::Apply(Item::Pod(pod)));
        }
        engine.findings().iter().map(ToString::to_string).collect()
    };
    assert_eq!(found(1_000, 100), [""; 0]);
    assert_eq!(
        found(1_001, 101),
        ["a set of addresses has 1001 ranges", "port web stands for 101 numbers among any pod"]
    );
}
