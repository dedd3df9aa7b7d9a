//! Whole worlds that change at once, several times before anybody follows: what `palisade enforce` does when a folder is saved. The
//! walked program says what the plain evaluator says after each, for both families of addresses.
//!
//! `agreement.rs` changes one object of many at a time, and nobody there has an address of IPv6. Here worlds are small and change
//! a lot: sets go and come back under other numbers, lists are dismissed and served again, addresses change hands.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod choices;
mod packets;
#[path = "../../engine/tests/written/mod.rs"]
mod written;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;

use palisade_engine::Engine;
use palisade_engine::view::View;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::{Flow, Who};
use palisade_model::matching::Context;
use palisade_model::options::Options;
use palisade_model::policy::Direction;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::Verdict;
use palisade_model::traffic::{Protocol, Traffic};
use palisade_nftables::compile::compile;
use palisade_nftables::compile::live::{Live, Wiring};
use palisade_nftables::program::Program;

use choices::{Choices, NODES, names, text};
use palisade_testing::dice::Dice;

use packets::{home, hook, one_way, packet, said};
use written::Followed;

fn objects(text: &str) -> Objects {
    let (objects, found) = written::loaded(text);
    // What is odd about a world is not the question here; what is wrong would be a policy less.
    let wrong: Vec<_> = found.iter().filter(|one| one.is_error()).collect();
    assert!(wrong.is_empty(), "{wrong:#?}\n{text}");
    objects
}

fn agree(snapshot: &Snapshot, programs: [&Program; 2], what: &str) -> (usize, usize) {
    let options = Options::default();
    let context = Context { snapshot, options };
    let mut claims: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for address in snapshot.pods().iter().flat_map(|pod| &pod.addresses) {
        *claims.entry(*address).or_default() += 1;
    }
    let mut ends: Vec<(Who, IpAddr)> = Vec::new();
    for (at, pod) in snapshot.pods().iter().enumerate() {
        ends.extend(pod.addresses.iter().filter(|own| claims[*own] == 1).map(|own| (Who::Pod(at), *own)));
    }
    for (at, node) in snapshot.nodes().iter().enumerate() {
        ends.extend(node.addresses.iter().map(|own| (Who::Node(at), *own)));
    }
    ends.extend(
        ["203.0.113.7", "10.0.0.3", "fd00::3", "2001:db8::7"]
            .map(|text| (Who::Outside, text.parse().unwrap())),
    );
    ends.retain(|(who, address)| *who != Who::Outside || !claims.contains_key(address));
    let traffic = [
        Traffic::new(Protocol::Tcp, 80),
        Traffic::new(Protocol::Tcp, 81),
        Traffic::new(Protocol::Udp, 81),
        Traffic::new(Protocol::Icmp, 0),
        Traffic { icmp: Some((13, Some(1))), ..Traffic::new(Protocol::Icmp, 0) },
    ];
    let ways =
        [Direction::Egress, Direction::Ingress].map(|way| programs.map(|program| one_way(program, way)));
    let (mut checked, mut denied) = (0, 0);
    for (source, from) in &ends {
        for (destination, to) in &ends {
            if source == destination || from.is_ipv4() != to.is_ipv4() {
                continue;
            }
            let vias =
                (0..snapshot.services().len()).map(Some).filter(|_| matches!(destination, Who::Pod(_)));
            for via in [None].into_iter().chain(vias) {
                for traffic in &traffic[..if via.is_some() { 1 } else { 4 }] {
                    let flow = snapshot.flow((*source, Some(*from)), (*destination, Some(*to)), *traffic);
                    let flow = Flow { via, ..flow };
                    let Some(packet) = packet(snapshot, &flow) else { continue };
                    let plain = evaluate(snapshot, &flow, &options);
                    for ((direction, side), programs) in
                        [(Direction::Egress, &plain.egress), (Direction::Ingress, &plain.ingress)]
                            .into_iter()
                            .zip(&ways)
                    {
                        let (own, _) = Context::ends(&flow, direction);
                        let Some(node) = home(snapshot, own, &NODES) else { continue };
                        let Some(hook) = hook(&context, &flow, direction, NODES[node]) else { continue };
                        let walked = programs[node].walk(hook, &packet).unwrap();
                        let expected = said(side.verdict);
                        assert_eq!(
                            walked.verdict, expected,
                            "{what}: {direction} at {} {hook:?}: {packet:?}\n{side:#?}\n{}",
                            NODES[node], programs[node]
                        );
                        checked += 1;
                        denied += usize::from(side.verdict != Verdict::Allow);
                    }
                }
            }
        }
    }
    (checked, denied)
}

/// What comes back after it was changed is what matters most: a third of the steps go back to an earlier world.
#[test]
fn worlds_that_change_all_at_once() {
    let names = names();
    let (mut checked, mut denied, mut patched) = (0, 0, 0);
    let seeds: u64 = std::env::var("REVIEW_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(120);
    for seed in 0..seeds {
        let mut dice = Dice(seed * 1000);
        let mut choices = Choices::default();
        for name in &names {
            choices.0.insert(name.clone(), dice.roll(60));
        }
        // Half of the worlds have one policy with one rule, and only who is who changes, a little at a time: then sets become empty
        // without a chain being made again, and are found so by the list that comes next.
        let small = seed % 2 == 1;
        if small {
            for number in 0..3 {
                choices.0.insert(format!("there of policy {number}"), 1);
                choices.0.insert(format!("there of antrea {number}"), usize::from(number > 0));
                for way in ["ingress", "egress"] {
                    for rule in 0..3 {
                        choices.0.insert(format!("{way} {rule} of antrea {number}"), usize::from(rule > 0));
                        choices.0.insert(format!("{way} {rule} peers of antrea {number}"), 0);
                        choices.0.insert(format!("{way} {rule} action of antrea {number}"), 0);
                    }
                }
            }
        }
        let names: Vec<String> =
            names.iter().filter(|name| !small || !name.contains(" of ")).cloned().collect();
        let mut earlier = vec![choices.clone()];
        let mut source = Followed::default();
        let mut lives = NODES.map(|node| Live::new(View::default(), node, Wiring::new()));
        let mut copies = lives.each_ref().map(|live| live.program().clone());
        for step in 0..if small { 40 } else { 12 } {
            let mut waiting: [Vec<_>; 2] = Default::default();
            let mut snapshot = None;
            for _ in 0..=dice.roll(3) {
                if dice.roll(3) == 0 {
                    choices = earlier[dice.roll(earlier.len())].clone();
                }
                for _ in 0..if small { dice.roll(4) } else { dice.roll(9) } {
                    choices.0.insert(names[dice.roll(names.len())].clone(), dice.roll(60));
                }
                // Whether policies are there at all is what makes sets come and go.
                if !small && dice.roll(3) == 0 {
                    let which = format!("there of {} {}", dice.one(&["policy", "antrea"]), dice.roll(3));
                    choices.0.insert(which, dice.roll(2));
                }
                earlier.push(choices.clone());
                let objects = objects(&text(&choices));
                let now = Snapshot::new(objects.clone());
                for (waits, parts) in waiting.iter_mut().zip(source.relist(&objects, &now, NODES)) {
                    waits.extend(parts);
                }
                snapshot = Some(now);
            }
            for ((live, copy), waits) in lives.iter_mut().zip(&mut copies).zip(&waiting) {
                let patch = live.follow(waits).unwrap().patch;
                patched += usize::from(!patch.is_empty());
                copy.follow(&patch).unwrap();
                assert_eq!(copy, live.program());
            }
            let what = format!("seed {seed} step {step}");
            let (asked, refused) = agree(&snapshot.unwrap(), copies.each_ref(), &what);
            checked += asked;
            denied += refused;
            if step % if small { 20 } else { 6 } == 5 {
                for ((live, copy), node) in lives.iter_mut().zip(&mut copies).zip(NODES) {
                    copy.follow(&live.tidy().patch).unwrap();
                    assert_eq!(*copy, compile(&source.view.part_of(node), node).program, "{what}");
                }
            }
        }
    }
    // It is about something: most steps change the program, and both verdicts are common.
    assert!(patched > usize::try_from(seeds).unwrap() * 10, "{patched}");
    assert!(denied * 50 > checked && denied * 10 < checked * 9, "{denied} of {checked}");
}

/// Two replicas wait for their addresses; then one has its own. And: of two that claim an address the one that has it goes.
#[test]
fn a_list_that_nothing_led_to_is_there_when_something_does() {
    let world = |addresses: [&str; 2], labels: [&str; 2]| {
        let mut text = "{apiVersion: v1, kind: Namespace, metadata: {name: x}}\n---\n\
            {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: a, namespace: x}, spec: {podSelector: \
            {matchLabels: {app: a}}}}\n---\n\
            {apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: b, namespace: x}, spec: {podSelector: \
            {matchLabels: {app: b}}, ingress: [{ports: [{port: 80}]}]}}\n"
            .to_owned();
        for (number, (address, label)) in addresses.into_iter().zip(labels).enumerate() {
            let status = if address.is_empty() { String::new() } else { format!("podIP: {address}") };
            let _ = write!(
                text,
                "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{number}, namespace: x, labels: {{app: {label}}}}}, spec: \
                 {{nodeName: n0, containers: [{{name: c, image: i}}]}}, status: {{{status}}}}}\n"
            );
        }
        objects(&text)
    };
    let cases = [
        // Both wait; one comes.
        [world(["", ""], ["a", "a"]), world(["10.0.0.1", ""], ["a", "a"])],
        // Both claim an address, and the second, which has it, gets another.
        [world(["10.0.0.1", "10.0.0.1"], ["a", "b"]), world(["10.0.0.1", "10.0.0.2"], ["a", "b"])],
    ];
    for (number, case) in cases.into_iter().enumerate() {
        let mut source = Followed::default();
        let mut live = Live::new(View::default(), "n0", Wiring::new());
        for objects in case {
            let [parts] = source.relist(&objects, &Snapshot::new(objects.clone()), ["n0"]);
            live.follow(&parts).unwrap();
            assert_eq!(live.program().dangling(), None, "case {number}");
        }
    }
}

/// A member for whom nothing more holds than for anybody, in a range for which something does: it is told apart from the range.
#[test]
fn a_member_that_may_do_what_anybody_may_is_not_taken_for_its_range() {
    let mut text = "{apiVersion: v1, kind: Namespace, metadata: {name: x}}\n---\n\
        {apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: base}, spec: {priority: 5, tier: baseline, \
        appliedTo: [{podSelector: {matchLabels: {app: db}}}], ingress: [{action: Drop}]}}\n---\n\
        {apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {name: own, namespace: x}, spec: {priority: 5, \
        appliedTo: [{podSelector: {matchLabels: {app: db}}}], ingress: [{action: Pass, from: [{podSelector: {matchLabels: {app: a}}}]}, \
        {action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/24}}]}]}}\n"
        .to_owned();
    for (name, number) in [("a", 1), ("other", 2), ("db", 9)] {
        let _ = write!(
            text,
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: x, labels: {{app: {name}}}}}, spec: {{nodeName: n0, \
             containers: [{{name: c, image: i}}]}}, status: {{podIP: 10.0.0.{number}}}}}\n"
        );
    }
    let objects = objects(&text);
    let snapshot = Snapshot::new(objects.clone());
    let view = Engine::of(&objects, &snapshot).view();
    let program = |node: &str| compile(&view.part_of(node), node).program;
    let (here, there) = (program("n0"), program("n1"));
    let (_, denied) = agree(&snapshot, [&here, &there], "from scratch");
    assert!(denied > 0);
}
