//! What a review found in the index, each as small as it gets.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod universe;
mod walk;
mod world;

use std::sync::Arc;

use palisade_engine::delta::Part;
use palisade_engine::feed::Feed;
use palisade_engine::selection::SetKind;
use palisade_engine::{Change, Delta, Engine};
use palisade_model::cluster::{Pod, Service};
use palisade_model::event::{Event, Item};
use palisade_model::flow::Who;
use palisade_model::group::Members;
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::options::Options;
use palisade_model::policy::{
    Action, Direction, DomainName, Isolation, Namespaces, Peer, Peers, Placement, PodSet, Rule, ServiceName,
    Subject, TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::{PortRange, Protocol, Traffic};

use universe::{everybody, group, group_name, labels, namespace, pod, policy, rule, tier};
use world::{World, objects};

const TCP: [Traffic; 2] = [
    Traffic { protocol: Protocol::Tcp, port: 80, source_port: None, icmp: None },
    Traffic { protocol: Protocol::Tcp, port: 81, source_port: None, icmp: None },
];

fn all_pods() -> Arc<[Subject]> {
    Arc::new([PodSet::everything().into()])
}

fn web() -> TrafficMatches {
    TrafficMatches::Of(vec![TrafficMatch::Named(None, "web".into())])
}

fn pods_of(namespaces: Namespaces) -> Peers {
    Peers::Of(vec![Peer::Pods(PodSet::new(namespaces, Selector::everything()))])
}

fn tiered(name: &str, rules: Vec<Rule>) -> Item {
    policy(name, tier(251, 1.0), Vec::new(), rules)
}

fn isolation(subjects: Arc<[Subject]>) -> Isolation {
    Isolation { subjects, direction: Direction::Ingress }
}

fn pair() -> [Item; 3] {
    [
        namespace("x", &[("team", "red")]),
        Item::Pod(pod("x", "a", "a", Some("10.0.0.1"), 80)),
        Item::Pod(pod("x", "b", "b", Some("10.0.0.2"), 81)),
    ]
}

/// A rule whose subjects come to one set, with such peers: it comes, comes again, and goes.
fn comes_twice_and_goes(subjects: [PodSet; 2], peers: Namespaces) {
    let subjects: Arc<[Subject]> = subjects.into_iter().map(Subject::from).collect();
    let end = (pods_of(peers), TrafficMatches::Any);
    let same = tiered("p", vec![rule(Direction::Ingress, &subjects, Action::Deny, end)]);
    let mut world = World::of(pair());
    assert_ne!(world.put(same.clone()).changes, []);
    assert_eq!(world.engine.counts().rules, 1, "{}", world.view);
    assert_eq!(world.put(same.clone()).changes, []);
    assert_eq!(world.engine.counts().rules, 1);
    world.agrees(&TCP, &Options::default(), true);
    world.remove(&same.key());
    assert_eq!((world.engine.counts().rules, world.view.to_string()), (0, String::new()));
    world.clear();
    world.engine.tidy();
    assert!(world.engine.is_empty(), "{:#?}", world.engine);
}

#[test]
fn two_subjects_that_come_to_one_set_where_labels_are_the_same_are_one_rule() {
    let red = PodSet::new(Namespaces::Matching(Selector::label("team", "red")), Selector::everything());
    comes_twice_and_goes([red, PodSet::everything()], Namespaces::SameLabels(vec!["team".into()]));
}

#[test]
fn two_subjects_that_come_to_one_set_in_their_own_namespace_are_one_rule() {
    let app = |namespaces| PodSet::new(namespaces, Selector::label("app", "a"));
    let anywhere = app(Namespaces::Matching(Selector::everything()));
    comes_twice_and_goes([anywhere, app(Namespaces::Named("x".into()))], Namespaces::Own);
}

#[test]
fn a_namespace_is_relabelled_under_a_rule_to_other_labels_and_a_named_port() {
    let others = pods_of(Namespaces::NotSameLabels(vec!["team".into()]));
    for before in [&[("team", "red")][..], &[]] {
        let mut world = World::of([
            namespace("x", before),
            Item::Pod(pod("x", "a", "a", Some("10.0.0.1"), 80)),
            Item::Pod(pod("y", "a", "a", Some("10.0.1.1"), 81)),
        ]);
        let end = (others.clone(), web());
        world.put(tiered("p", vec![rule(Direction::Egress, &all_pods(), Action::Deny, end)]));
        world.agrees(&TCP, &Options::default(), true);
        world.put(namespace("x", &[("team", "blue")]));
        world.agrees(&TCP, &Options::default(), true);
        world.put(namespace("y", &[("team", "blue")]));
        world.agrees(&TCP, &Options::default(), true);
        world.put(namespace("x", before));
        world.agrees(&TCP, &Options::default(), true);
        world.clear();
    }
}

#[test]
fn a_copy_follows_a_list_of_everything() {
    let mut world = World::of(pair());
    let mut copy = world.engine.view();
    let before = world.state.keys().cloned().collect();
    let end = (Peers::Any, TrafficMatches::Any);
    let deny = |name| tiered(name, vec![rule(Direction::Ingress, &all_pods(), Action::Deny, end.clone())]);
    world.state.insert(deny("p").key(), deny("p"));
    world.state.remove(&Item::Pod(pod("x", "b", "b", None, 81)).key());
    let all = objects(&world.state);
    let (now, deltas) = world.engine.relist(&before, &all, &Snapshot::new(all.clone()));
    assert_eq!(now, world.state.keys().cloned().collect());
    assert_eq!(deltas.len(), 2, "a policy comes, and a pod goes");
    for delta in &deltas {
        copy.follow(delta).unwrap();
    }
    assert_eq!(copy, world.engine.view());
    copy.follow(&world.engine.apply(Event::Apply(deny("q")))).unwrap();
    assert_eq!(copy, world.engine.view());
}

/// A delta that adds a policy without rules.
fn another(engine: &mut Engine, number: usize) -> Delta {
    engine.apply(Event::Apply(tiered(&number.to_string(), Vec::new())))
}

#[test]
fn a_reader_that_took_a_delta_and_did_not_catch_up_is_no_beginning() {
    let mut engine = Engine::default();
    let mut feed = Feed::new(engine.view());
    feed.push(another(&mut engine, 0));
    let mut reader = feed.reader();
    reader.catch_up().unwrap();
    feed.push(another(&mut engine, 1));
    assert!(reader.next_delta().is_some());
    assert!(feed.rebase(&reader).is_none());
    assert_eq!(feed.length(), 2);
    feed.push(another(&mut engine, 2));
    assert_eq!(**feed.reader().catch_up().unwrap(), engine.view());
    // What it took is not lost: its view follows later.
    assert_eq!(**reader.catch_up().unwrap(), engine.view());
    assert!(feed.rebase(&reader).is_some());
    assert_eq!(feed.length(), 0);
}

#[test]
fn a_reader_of_another_feed_is_no_beginning() {
    let mut engine = Engine::default();
    let [mut feed, mut other] = [Feed::new(engine.view()), Feed::new(engine.view())];
    for number in 0..3 {
        let delta = another(&mut engine, number);
        feed.push(delta.clone());
        other.push(delta);
    }
    let mut reader = other.reader();
    reader.catch_up().unwrap();
    assert!(feed.rebase(&reader).is_none());
    assert_eq!((feed.length(), feed.reader().view().epoch()), (3, 0));
    assert!(other.rebase(&reader).is_some());
}

#[test]
fn a_beginning_two_deltas_ago_leaves_two_to_follow() {
    let mut engine = Engine::default();
    let mut feed = Feed::new(engine.view());
    feed.push(another(&mut engine, 0));
    let mut reader = feed.reader();
    reader.catch_up().unwrap();
    for number in 1..3 {
        feed.push(another(&mut engine, number));
    }
    assert!(feed.rebase(&reader).is_some());
    assert_eq!(feed.length(), 2);
    // Not older than what is there now.
    assert!(feed.rebase(&reader).is_none());
    let mut latest = feed.reader();
    assert_eq!(latest.view().epoch(), 1);
    assert_eq!(**latest.catch_up().unwrap(), engine.view());
}

#[test]
fn a_rule_that_nobody_can_read_allows_nothing_among_networkpolicies() {
    let unknown = Peers::Of(vec![Peer::Unknown("a peer of another time".into())]);
    for action in [Action::Allow, Action::Deny] {
        let end = (unknown.clone(), TrafficMatches::Any);
        let rules = vec![rule(Direction::Ingress, &everybody(), action, end)];
        let mut world = World::of(pair());
        world.put(policy("p", Placement::Union, vec![isolation(everybody())], rules));
        world.agrees(&TCP, &Options::default(), true);
        world.has_decided([(world::UNION, None)]);
    }
}

#[test]
fn an_isolation_of_a_group_waits_for_the_group() {
    let apps = Subject::Group { group: group_name("apps"), within: None };
    let mut world = World::of(pair());
    world.put(policy("p", Placement::Union, vec![isolation([apps].into())], Vec::new()));
    world.agrees(&TCP, &Options::default(), true);
    let everybody = group("apps", Members::Pods(PodSet::everything()));
    world.put(everybody.clone());
    world.agrees(&TCP, &Options::default(), true);
    world.has_decided([(world::UNION, None)]);
    world.remove(&everybody.key());
    world.agrees(&TCP, &Options::default(), true);
    world.clear();
}

#[test]
fn an_isolation_in_a_tier_isolates_nobody() {
    for place in [tier(251, 1.0), tier(254, 1.0), tier(0, 1.0)] {
        let mut world = World::of(pair());
        world.put(policy("p", place, vec![isolation(everybody())], Vec::new()));
        assert_eq!(world.view.rules().len(), 0);
        world.agrees(&TCP, &Options::default(), true);
    }
}

fn numbered(direction: Direction, index: u32) -> Rule {
    let port = PortRange::single(u16::try_from(1000 + index).unwrap());
    let traffic = TrafficMatches::Of(vec![TrafficMatch::Ports(Protocol::Tcp, port)]);
    Rule { index, ..rule(direction, &all_pods(), Action::Deny, (Peers::Any, traffic)) }
}

#[test]
fn a_rule_more_in_one_direction_leaves_those_of_the_other_alone() {
    let with = |ingress| {
        let ingress = (0..ingress).map(|index| numbered(Direction::Ingress, index));
        tiered("p", ingress.chain((0..20).map(|index| numbered(Direction::Egress, index))).collect())
    };
    let mut world = World::of(pair());
    world.put(with(1));
    assert_eq!(world.view.rules().len(), 21);
    let delta = world.put(with(2));
    let [Change::PolicyApplied(id, origin), Change::RuleAdded(_, new)] = &*delta.changes else {
        panic!("{delta:#?}")
    };
    assert_eq!((new.policy, new.rule, new.directions), (*id, Some(1), Direction::Ingress.into()));
    // And everybody still finds where it is from.
    for rule in world.view.rules().values() {
        let from = origin.rule(rule).unwrap();
        assert_eq!((from.index, rule.directions.contains(from.direction)), (rule.rank.index, true));
    }
}

#[test]
fn whoever_is_not_there_has_no_policies_and_no_verdict() {
    let empty = Engine::default();
    assert_eq!(empty.policies_of(0).count(), 0);
    assert_eq!(empty.policies_naming(0).len(), 0);
    let mut world = World::of(pair());
    let snapshot = world.snapshot();
    let flow = snapshot.flow((Who::Pod(0), None), (Who::Pod(1), None), TCP[0]);
    let own = world.engine.flow(&snapshot, &flow).unwrap();
    // The same pod again is where it was.
    assert_eq!(world.put(Item::Pod(pod("x", "a", "a", Some("10.0.0.1"), 80))).changes, []);
    assert!(world.engine.verdict(&own, &Options::default()).is_some());
    world.remove(&Item::Pod(pod("x", "a", "a", None, 80)).key());
    assert_eq!(world.engine.verdict(&own, &Options::default()), None);
    assert_eq!(world.engine.flow(&snapshot, &flow), None);
}

#[test]
fn classes_that_no_rule_tells_apart_any_more_are_put_together() {
    let one = |at: usize| {
        let id = at.to_string();
        Item::Pod(Pod { labels: labels(&[("id", &id)]), ..pod("x", &format!("pod-{at}"), "", None, 80) })
    };
    let mut world = World::of((0..200).map(one));
    assert_eq!(world.engine.counts().classes, 1);
    let ids = (0..200).map(|at| at.to_string().into()).collect();
    let asked = Selector::new([Requirement::new("id", Operator::In(ids))]);
    let to = PodSet::new(Namespaces::Matching(Selector::everything()), asked);
    let end = (Peers::Any, TrafficMatches::Any);
    let asks = tiered("p", vec![rule(Direction::Ingress, &[to.into()].into(), Action::Deny, end)]);
    world.put(asks.clone());
    assert_eq!(world.engine.counts().classes, 200);
    world.engine.tidy();
    assert_eq!((world.engine.counts().classes, &world.engine.view()), (200, &world.view));
    world.remove(&asks.key());
    world.engine.tidy();
    assert_eq!((world.engine.counts().classes, &world.engine.view()), (1, &world.view));
    // The index goes on as before.
    world.put(asks);
    assert_eq!((world.engine.counts().classes, &world.engine.view()), (200, &world.view));
}

#[test]
fn a_gate_is_needed_by_every_node_as_long_as_its_service_is_there() {
    let name = ServiceName { namespace: "x".into(), name: "web".into() };
    let from = Peers::Of(vec![Peer::Addresses(universe::block("203.0.113.0/24", &[]))]);
    let gate =
        rule(Direction::Ingress, &[Subject::Service(name)].into(), Action::Deny, (from, TrafficMatches::Any));
    let service = Service { namespace: "x".into(), name: "web".into(), ..Service::default() };
    let mut world = World::of(pair());
    world.put(tiered("p", vec![gate]));
    assert_eq!((world.view.needs().len(), world.view.part_of("n0").to_string()), (0, String::new()));
    world.put(Item::Service(service.clone()));
    let needs: Vec<_> = world.view.needs().iter().map(|need| (need.part, need.node.clone())).collect();
    assert_eq!(needs.len(), 2, "{needs:?}");
    assert!(needs.contains(&(Part::Subject, None)) && needs.contains(&(Part::Addresses, None)), "{needs:?}");
    for node in ["n0", "a node that nobody knows"] {
        assert_eq!(world.view.part_of(node).rules().len(), 1);
    }
    world.remove(&Item::Service(service).key());
    assert_eq!((world.view.needs().len(), world.view.part_of("n0").to_string()), (0, String::new()));
    assert_eq!(world.view, world.engine.view());
}

#[test]
fn what_means_the_same_is_one_set() {
    let by_name = Namespaces::Matching(Selector::label("kubernetes.io/metadata.name", "x"));
    let in_x = |namespaces| Peer::Pods(PodSet::new(namespaces, Selector::everything()));
    let names = |names: [&str; 2]| Peer::Names(names.map(DomainName::new).into());
    let peers = Peers::Of(vec![
        in_x(Namespaces::Named("x".into())),
        in_x(by_name),
        names(["a.com", "b.com"]),
        names(["b.com", "a.com"]),
    ]);
    let mut world = World::of(pair());
    let end = (peers, TrafficMatches::Any);
    world.put(tiered("p", vec![rule(Direction::Egress, &all_pods(), Action::Deny, end)]));
    let has = |kind| world.view.sets().values().filter(|set| set.selection.kind() == kind).count();
    assert_eq!(has(SetKind::Names), 1, "{}", world.view);
    // Those of x, and the subject.
    assert_eq!(has(SetKind::Pods), 2, "{}", world.view);
    world.agrees(&TCP, &Options::default(), true);
}

#[test]
fn a_port_that_is_named_twice_is_one_rule_for_each_number() {
    let named = |protocol| TrafficMatch::Named(protocol, "web".into());
    let thrice = TrafficMatches::Of(vec![named(None), named(None), named(Some(Protocol::Tcp))]);
    let mut world = World::of(pair());
    let end = (Peers::Any, thrice);
    world.put(tiered("p", vec![rule(Direction::Ingress, &all_pods(), Action::Deny, end)]));
    assert_eq!(world.engine.counts().rules, 2, "80 and 81: {}", world.view);
    world.agrees(&TCP, &Options::default(), true);
    world.clear();
}
