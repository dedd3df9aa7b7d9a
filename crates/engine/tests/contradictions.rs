//! Events that contradict each other or make no sense, and deltas that come in another order than they were made. After
//! each the index says what the plain evaluator says of the objects that are there; who follows wrongly is told.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod universe;
mod walk;
mod world;

use std::collections::BTreeSet;

use palisade_engine::view::{Contradiction, OutOfStep, View};
use palisade_engine::{Delta, Engine};
use palisade_model::cluster::Node;
use palisade_model::event::{Event, Item, Key};
use palisade_model::group::Members;
use palisade_model::label::{Labels, Selector};
use palisade_model::options::Options;
use palisade_model::policy::{
    Action, Direction, Namespaces, Peer, Peers, Placement, PodSet, Priority, Subject, Tier, TrafficMatches,
};
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::traffic::{Protocol, Traffic};

use universe::{cluster, everybody, group, group_name, labels, namespace, pod, policy, rule, tier};
use world::{World, objects};

fn check(world: &mut World) {
    let tcp = [Traffic::new(Protocol::Tcp, 80), Traffic::new(Protocol::Tcp, 81)];
    world.agrees(&tcp, &Options::default(), true);
}

fn general(name: &str, place: Placement, action: Action, to: Subject, peers: Peers) -> Item {
    let subjects = [to].into();
    let rules = [(Direction::Egress, peers.clone()), (Direction::Ingress, peers)]
        .map(|(way, peers)| rule(way, &subjects, action, (peers, TrafficMatches::Any)));
    policy(name, place, Vec::new(), rules.into())
}

fn all_pods() -> Subject {
    PodSet::everything().into()
}

fn group_of(name: &str) -> Subject {
    Subject::Group { group: group_name(name), within: None }
}

#[test]
fn what_never_was_can_be_deleted() {
    let mut world = World::of(cluster());
    world.put(general("p", tier(251, 1.0), Action::Deny, all_pods(), Peers::Any));
    let before = world.engine.view();
    let service = |text: &str| Key::Service(text.into(), text.into());
    for key in [
        Key::Pod("x".into(), "nobody".into(), None),
        Key::Pod("nowhere".into(), "a".into(), None),
        Key::Pod("x".into(), "b".into(), Some("ExternalEntity".into())),
        Key::Pod("x".into(), "a".into(), Some("Deployment".into())),
        Key::Namespace("nowhere".into()),
        Key::Namespace("w".into()),
        Key::Node("n9".into()),
        // Pods run on it, and nobody has declared it.
        Key::Node("n1".into()),
        service("nothing"),
        Key::Endpoints("x".into(), "web".into(), "none".into()),
        Key::Tier("gone".into()),
        Key::Group(group_name("gone")),
        Key::Name("nowhere.example.com".into()),
        general("q", Placement::Union, Action::Deny, all_pods(), Peers::Any).key(),
    ] {
        let delta = world.remove(&key);
        assert_eq!((delta.epoch, delta.changes), (before.epoch(), vec![]), "{key:?}");
    }
    assert_eq!(world.engine.view(), before);
    check(&mut world);
}

#[test]
fn a_namespace_goes_before_its_pods_and_comes_back_as_another() {
    let mut world = World::of(cluster());
    let red = PodSet::new(Namespaces::Matching(Selector::label("team", "red")), Selector::everything());
    let same = PodSet::new(Namespaces::SameLabels(vec!["team".into()]), Selector::everything());
    world.put(general("p", tier(251, 1.0), Action::Deny, red.into(), Peers::Of(vec![Peer::Pods(same)])));
    let x = namespace("x", &[]).key();
    check(&mut world);
    world.remove(&x);
    check(&mut world);
    world.remove(&x);
    world.put(namespace("x", &[("team", "blue")]));
    check(&mut world);
    world.remove(&x);
    world.put(namespace("x", &[("team", "red"), ("more", "labels")]));
    check(&mut world);
    // All of its pods go while it is not declared: then it is nowhere.
    world.remove(&x);
    for key in world
        .state
        .keys()
        .filter(|key| matches!(key, Key::Pod(home, ..) if home == "x"))
        .cloned()
        .collect::<Vec<_>>()
    {
        world.remove(&key);
        check(&mut world);
    }
    world.put(Item::Pod(pod("x", "a", "a", Some("10.0.0.1"), 80)));
    check(&mut world);
    world.clear();
}

#[test]
fn a_node_goes_by_another_name() {
    let mut world = World::of(cluster());
    let node = |name: &str| {
        Item::Node(Node {
            name: name.into(),
            labels: labels(&[("zone", "a")]),
            addresses: vec!["172.18.0.2".parse().unwrap()],
            at: None,
        })
    };
    world.put(general(
        "p",
        tier(251, 1.0),
        Action::Deny,
        Subject::Nodes(Selector::label("zone", "a")),
        Peers::Any,
    ));
    check(&mut world);
    // For a while there are both, with one address.
    world.put(node("n7"));
    check(&mut world);
    world.remove(&node("n0").key());
    check(&mut world);
    // Pods still say that they run on the old one, which nobody selects any more.
    let said = world.view.to_string();
    assert!(said.contains("[node n7 172.18.0.2]") && !said.contains("node n0"), "{said}");
    world.remove(&node("n7").key());
    check(&mut world);
    world.put(node("n0"));
    check(&mut world);
    world.clear();
}

#[test]
fn a_policy_moves_between_tiers_inside_of_a_list() {
    let named = |name: &str| Placement::Tier { tier: Tier::Named(name.into()), priority: Priority(1.0) };
    let at = |place| general("p", place, Action::Deny, all_pods(), Peers::Any);
    let allow = general("q", tier(253, 1.0), Action::Allow, all_pods(), Peers::Any);
    let mut engine = Engine::default();
    let mut listed = BTreeSet::new();
    let mut first = None;
    for place in
        [tier(10, 1.0), tier(254, 1.0), named("gone"), Placement::Union, tier(251, 1.0), tier(10, 1.0)]
    {
        let mut world = World::of(cluster().into_iter().chain([at(place), allow.clone()]));
        check(&mut world);
        let objects = objects(&world.state);
        (listed, _) = engine.relist(&listed, &objects, &Snapshot::new(objects.clone()));
        let now = engine.view().to_string();
        assert_eq!(now, world.view.to_string());
        first.get_or_insert(now);
    }
    assert_eq!(first, Some(engine.view().to_string()), "there and back");
}

#[test]
fn a_tier_goes_and_its_policies_fail_closed() {
    let mut world = World::of(cluster());
    world.put(general("p", tier(10, 1.0), Action::Allow, all_pods(), Peers::Any));
    world.put(general("q", tier(254, 1.0), Action::Deny, all_pods(), Peers::Any));
    check(&mut world);
    let allowed = |world: &World| {
        let snapshot = world.snapshot();
        let who = |name| (palisade_model::flow::Who::Pod(snapshot.pod("y", name).unwrap()), None);
        let flow = snapshot.flow(who("a"), who("b"), Traffic::new(Protocol::Tcp, 80));
        let own = world.engine.flow(&snapshot, &flow).unwrap();
        world.engine.verdict(&own, &Options::default()) == Some(Verdict::Allow)
    };
    assert!(allowed(&world));
    world.remove(&Key::Tier("mine".into()));
    assert!(!allowed(&world));
    check(&mut world);
    // Another number behind the others is no help, one before them is.
    world.put(Item::Tier("mine".into(), 255));
    assert!(!allowed(&world));
    check(&mut world);
    world.put(Item::Tier("mine".into(), 0));
    assert!(allowed(&world));
    check(&mut world);
}

#[test]
fn a_group_that_contains_itself_is_unreadable_and_nothing_worse() {
    let mut world = World::of(cluster());
    world.put(general("p", tier(251, 1.0), Action::Deny, group_of("knot"), Peers::Any));
    let peers = Peers::Of(vec![Peer::Group(group_name("knot"))]);
    world.put(general("q", tier(251, 2.0), Action::Reject, all_pods(), peers));
    check(&mut world);
    for children in [&["knot"][..], &["apps", "knot"], &["other"], &["apps"], &[]] {
        let children = children.iter().map(|name| (*name).into()).collect();
        world.put(group("knot", Members::Children(children)));
        check(&mut world);
        // Two that contain each other.
        world.put(group("other", Members::Children(vec!["knot".into()])));
        check(&mut world);
        world.remove(&Key::Group(group_name("other")));
        check(&mut world);
    }
    world.clear();
}

#[test]
fn a_service_goes_while_a_group_stands_for_it() {
    let mut world = World::of(cluster());
    world.put(group("parent", Members::Children(vec!["served".into()])));
    world.put(general("p", tier(251, 1.0), Action::Deny, group_of("parent"), Peers::Any));
    let peers = Peers::Of(vec![Peer::Group(group_name("served"))]);
    world.put(general("q", tier(251, 2.0), Action::Reject, all_pods(), peers));
    let web = Key::Service("x".into(), "web".into());
    let service = world.state[&web].clone();
    let before = world.view.to_string();
    check(&mut world);
    world.remove(&web);
    check(&mut world);
    world.remove(&Key::Group(group_name("served")));
    check(&mut world);
    let cluster = cluster();
    world.put(service);
    check(&mut world);
    world.put(cluster.into_iter().find(|item| item.key() == Key::Group(group_name("served"))).unwrap());
    check(&mut world);
    assert_eq!(world.view.to_string(), before);
}

#[test]
fn names_are_taken_as_they_are() {
    let long = "n".repeat(253);
    let odd = ["", " ", "*", "a/b", "Ü\u{0}\n", "x-y.z_", "\u{202e}rtl", "'\"\\", long.as_str()];
    let mut world = World::default();
    for (at, name) in odd.iter().enumerate() {
        let own = format!("10.0.0.{}", at + 1);
        let mut pod = pod(name, name, name, Some(&own), 80);
        pod.labels = Labels::new([((*name).into(), (*name).into())]);
        pod.node = Some((*name).into());
        world.put(Item::Pod(pod));
        world.put(namespace(name, &[(name, name)]));
        let set = PodSet::new(Namespaces::Matching(Selector::label(name, name)), Selector::label(name, name));
        let own = Peers::Of(vec![Peer::Pods(PodSet::new(Namespaces::Own, Selector::everything()))]);
        world.put(general(name, tier(251, 1.0), Action::Deny, set.into(), own));
        world.put(general(
            &format!("{name}!"),
            tier(254, 1.0),
            Action::Reject,
            PodSet::all_of(name).into(),
            Peers::Any,
        ));
    }
    check(&mut world);
    assert_eq!(world.engine.counts().pods, odd.len());
    for name in odd {
        assert!(world.view.needs().iter().any(|need| need.node.as_deref() == Some(name)), "{name:?}");
    }
    world.clear();
}

#[test]
fn a_view_takes_no_delta_out_of_step() {
    let mut engine = Engine::default();
    let mut deltas: Vec<Delta> = Vec::new();
    deltas.push(engine.apply(Event::Apply(general(
        "p",
        tier(251, 1.0),
        Action::Deny,
        everybody()[0].clone(),
        Peers::Any,
    ))));
    for name in ["a", "b"] {
        deltas.push(engine.apply(Event::Apply(Item::Pod(pod("x", name, "a", None, 80)))));
    }
    let mut view = View::default();
    let missed = view.follow(&deltas[1]);
    assert_eq!(missed, Err(OutOfStep::Epoch { at: 0, found: 2 }));
    assert_eq!(view, View::default(), "nothing of it has been taken");
    view.follow(&deltas[0]).unwrap();
    assert_eq!(view.follow(&deltas[0]), Err(OutOfStep::Epoch { at: 1, found: 1 }), "a repeated one");
    assert_eq!(view.follow(&deltas[2]), Err(OutOfStep::Epoch { at: 1, found: 3 }), "a missed one");
    view.follow(&deltas[1]).unwrap();
    assert_eq!(view.follow(&deltas[0]), Err(OutOfStep::Epoch { at: 2, found: 1 }), "an old one");
    // One that changes nothing is of the same epoch, and may come any number of times.
    let idle = Delta { epoch: 2, changes: Vec::new() };
    view.follow(&idle).unwrap();
    view.follow(&idle).unwrap();
    assert_eq!(view.follow(&Delta { epoch: 7, ..idle }), Err(OutOfStep::Epoch { at: 2, found: 7 }));
    // The right number with what does not fit.
    let forged = Delta { epoch: 3, ..deltas[1].clone() };
    let refused = view.clone().follow(&forged);
    let again = matches!(&refused, Err(OutOfStep::Change { epoch: 3, cause: Contradiction::NeedExists(_) }));
    assert!(again, "{refused:?}");
    view.follow(&deltas[2]).unwrap();
    assert_eq!(view, engine.view());
}
