//! Every variant and field of the rule language is generated, and each changes a verdict: a generator that misses one, or makes it
//! where it decides nothing, proves nothing about it.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;

use palisade_model::evaluate::evaluate;
use palisade_model::flow::Flow;
use palisade_model::group::{Group, GroupName};
use palisade_model::options::Options;
use palisade_model::policy::{Peer, Peers, Policy, Rule, Subject};
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::Traffic;
use palisade_testing::cases::{About, Case, cases};
use palisade_testing::random::Generator;
use palisade_testing::shape::{self, Shapes};
use palisade_testing::universe::{all_ends, all_traffic, groups, objects, options, traffic};

/// Shapes that no verdict depends on: what is for people, and what matches nothing whatever stands in it.
fn decides_nothing(shape: &str) -> bool {
    let for_people = ["Policy.unreadable", "Policy.rules.name", "Policy.rules.log", "Policy.rules.at"];
    // A policy alone has its rule; the generator of random policies makes those without, and with several.
    let counted = ["Policy.rules[", "Policy.isolations["];
    // Nothing is in an empty list, and ICMP and IGMP have no ports.
    let portless = |part: &str| {
        let rule =
            shape.strip_prefix("Policy.rules.traffic/Of.list/").and_then(|rest| rest.strip_prefix(part));
        rule.is_some_and(|rest| ["/Icmp", "/Igmp"].contains(&rest))
    };
    let ports = [
        "Ports.protocol",
        "Named.protocol/Some",
        "From.port/Numbers.protocol",
        "From.port/Named.protocol/Some",
    ];
    let empty = [
        "subjects[none]",
        "peers/Of.list[none]",
        "traffic/Of.list[none]",
        "Names.names[none]",
        "Labels.keys[none]",
    ];
    let members = ["members/Nobody", "Children.names[none]", "Addresses.blocks[none]"];
    // NetworkPolicies isolate pods alone, and no namespace has other labels than itself.
    let no_pods = ["Policy.isolations.subjects/Nodes", "Policy.isolations.subjects/Service"];
    let to_itself = ["isolations", "rules"]
        .map(|list| format!("Policy.{list}.subjects/Pods.set.namespaces/NotSameLabels"));
    for_people.iter().chain(&counted).chain(&no_pods).any(|prefix| shape.starts_with(prefix))
        || empty.iter().chain(&members).any(|suffix| shape.ends_with(suffix))
        || to_itself.iter().any(|prefix| shape.starts_with(prefix))
        || ports.into_iter().any(portless)
}

fn named_groups(rule: &Rule) -> Vec<GroupName> {
    let subjects = rule.subjects.iter().filter_map(|subject| match subject {
        Subject::Group { group, .. } => Some(group.clone()),
        Subject::Pods(_) | Subject::Nodes(_) | Subject::Service(_) => None,
    });
    let peers = match &rule.peers {
        Peers::Any => &[][..],
        Peers::Of(peers) => peers,
    };
    let peers = peers.iter().filter_map(|peer| match peer {
        Peer::Group(group) => Some(group.clone()),
        _ => None,
    });
    subjects.chain(peers).collect()
}

/// The shapes of a policy and of the groups that it names.
fn shapes_of(policy: &Policy, groups: &BTreeMap<GroupName, Group>) -> Shapes {
    let mut shapes = shape::of("Policy", policy);
    for group in policy.rules.iter().flat_map(named_groups).filter_map(|name| groups.get(&name)) {
        shapes.append(&mut shape::of("Group", group));
    }
    shapes
}

fn flows(case: &Case, snapshot: &Snapshot) -> Vec<Flow> {
    match case.about {
        About::Ends => all_ends(snapshot, traffic()[0]),
        About::Traffic => all_traffic(snapshot),
    }
}

#[test]
fn every_shape_is_generated_and_decides() {
    let known: BTreeMap<GroupName, Group> = groups().into_iter().map(|group| (group.name(), group)).collect();
    let (mut generated, mut decided) = (Shapes::new(), Shapes::new());
    let mut without: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for case in cases(3) {
        let options = Options::default();
        let alone = Snapshot::new(objects(case.background.clone()));
        let before = without.entry(format!("{:?} {:?}", case.about, case.background)).or_insert_with(|| {
            let verdict = |flow: &Flow| evaluate(&alone, flow, &options).verdict;
            flows(&case, &alone).iter().map(verdict).collect()
        });
        let snapshot = Snapshot::new(objects(case.background.iter().chain([&case.policy]).cloned()));
        let flows = flows(&case, &snapshot);
        assert_eq!(flows.len(), before.len());
        let mut differs = flows.iter().zip(before).filter(|(flow, before)| {
            let verdict = evaluate(&snapshot, flow, &options).verdict;
            verdict != **before
        });
        let mut shapes = shapes_of(&case.policy, &known);
        generated.extend(shapes.iter().cloned());
        if differs.next().is_some() {
            decided.append(&mut shapes);
        }
    }
    let mut random = Generator::new(1);
    for policy in (0..40).flat_map(|_| random.policies(6)) {
        generated.append(&mut shapes_of(&policy, &known));
    }
    let mut all = shape::all::<Policy>("Policy");
    all.append(&mut shape::all::<Group>("Group"));
    let missing: Vec<_> = all.difference(&generated).filter(|shape| !for_no_generator(shape)).collect();
    assert!(missing.is_empty(), "never generated: {missing:#?}");
    let idle: Vec<_> = generated.difference(&decided).filter(|shape| !decides_nothing(shape)).collect();
    assert!(idle.is_empty(), "generated, and no verdict depends on it: {idle:#?}");
    let wrong: Vec<_> = decided.iter().filter(|shape| !all.contains(*shape)).collect();
    assert!(wrong.is_empty(), "not listed in shape.rs: {wrong:#?}");
    assert!(all.len() > 300, "{}", all.len());
}

/// What is written down for people and comes from a text.
fn for_no_generator(shape: &str) -> bool {
    ["Policy.unreadable/Some", "Policy.rules.at/Some"].iter().any(|prefix| shape.starts_with(prefix))
}

#[test]
fn options_and_questions_have_every_shape() {
    let mut generated = Shapes::new();
    (0..8).for_each(|at| generated.append(&mut shape::of("Options", &options(at))));
    traffic().iter().for_each(|traffic| generated.append(&mut shape::of("Traffic", traffic)));
    let mut all = shape::all::<Options>("Options");
    all.append(&mut shape::all::<Traffic>("Traffic"));
    assert_eq!(generated, all);
}
