//! No packet that meets half of a change passes unless the old policy or the new one lets it: random histories of all dialects,
//! every packet between the endpoints of a small universe, and every moment at which the change can be committed between two of
//! its lookups. With a guard, what both policies allow passes all the same.
//!
//! Nor does one that meets halves of several changes, where these do not wait for each other.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_macros)]

mod choices;
#[path = "../../engine/tests/pool/mod.rs"]
mod pool;
#[path = "../../engine/tests/written/mod.rs"]
mod written;

use std::net::IpAddr;

use palisade_engine::view::View;
use palisade_model::snapshot::Snapshot;
use palisade_nftables::compile::{Compiler, Wiring};
use palisade_nftables::program::{Hook, ICMP, ICMP6, Interface, Program, TCP, UDP, Verdict};
use palisade_nftables::settling::{CommitNumber, Settling};
use palisade_nftables::transition::Transition;
use palisade_nftables::walk::{Packet, Walked};

use choices::{Choices, NODES, names, text};
use pool::Dice;
use written::{Followed, loaded};

/// Interfaces that may lead to pods.
fn wires() -> [Interface; 2] {
    ["veth-a", "veth-b"].map(|name| Interface::new(name).unwrap())
}

/// What was tried.
#[derive(Debug, Default)]
struct Tried {
    changes: usize,
    guarded: usize,
    mixtures: usize,
    /// Mixtures that would have let something through but for the guard.
    stopped: usize,
}

/// Packets between all endpoints, to and from the outside, and to and from this machine.
fn packets(own: IpAddr) -> Vec<(Hook, Packet)> {
    let mut packets = Vec::new();
    let four = (0..5).map(|n| IpAddr::from([10, 0, 0, n])).chain([IpAddr::from([192, 0, 2, 1])]);
    let six = (0..5).map(|n| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n]));
    for family in [four.collect::<Vec<_>>(), six.collect()] {
        for (source, destination) in
            family.iter().flat_map(|one| family.iter().map(move |other| (*one, *other)))
        {
            if source != destination {
                packets.extend(carried(source, destination).map(|packet| (Hook::Forward, packet)));
            }
        }
        for source in family.iter().filter(|address| address.is_ipv4()) {
            packets.extend(carried(*source, own).map(|packet| (Hook::Input, packet)));
            packets.extend(carried(own, *source).map(|packet| (Hook::Output, packet)));
        }
    }
    packets
}

fn carried(source: IpAddr, destination: IpAddr) -> impl Iterator<Item = Packet> {
    let icmp = if source.is_ipv4() { ICMP } else { ICMP6 };
    let all =
        [(TCP, Some(80), None), (TCP, Some(82), None), (UDP, Some(81), None), (icmp, None, Some((8, 0)))];
    let service = source.is_ipv4().then(|| "10.96.0.11".parse().unwrap());
    [Some(destination), service].into_iter().flatten().flat_map(move |original| {
        all.map(|(protocol, port, icmp)| Packet {
            source,
            destination,
            original,
            protocol,
            ports: port.map(|port| (40000, port)),
            icmp,
            established: false,
            syn: true,
            loopback: false,
            interface: None,
        })
    })
}

fn check(
    old: &Program,
    new: &Program,
    transition: &Transition,
    all: &[(Hook, Packet)],
    tried: &mut Tried,
    what: &str,
) {
    let passes = |program: &Program, hook, packet: &Packet| {
        program.walk(hook, packet).unwrap().verdict == Verdict::Accept
    };
    tried.changes += 1;
    tried.guarded += usize::from(transition.guard.is_some());
    for (hook, packet) in all {
        let (before, after) = (passes(old, *hook, packet), passes(new, *hook, packet));
        let guard = transition.guard.as_ref().map(|guard| passes(guard, *hook, packet));
        assert!(!after || guard != Some(false), "{what}: the guard refuses {hook:?} {packet:?}");
        if before || after {
            continue;
        }
        for lookups in 0.. {
            let walked = old.walk_into(new, lookups, *hook, packet).unwrap();
            if walked.verdict == Verdict::Accept {
                assert_eq!(
                    guard,
                    Some(false),
                    "{what}: after {lookups} lookups {hook:?} {packet:?} passes\n{}\n{old}",
                    transition.patch.text()
                );
                tried.stopped += 1;
            }
            tried.mixtures += 1;
            if walked.cost.1 <= lookups {
                break;
            }
        }
    }
}

/// Interfaces that lead to pods, each with some of the addresses of the universe.
fn wiring(dice: &mut Dice) -> Wiring {
    let mut wiring = Wiring::new();
    for wire in wires() {
        if dice.roll(3) > 0 {
            let own = wiring.entry(wire).or_default();
            for _ in 0..dice.roll(3) {
                let n = u8::try_from(dice.roll(4)).unwrap();
                own.insert(IpAddr::from([10, 0, 0, n]));
                own.insert(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(n)]));
            }
        }
    }
    wiring
}

/// Histories of worlds, in steps of one or a few choices.
fn histories(seeds: std::ops::Range<u64>, allow_only: bool, wired: bool) -> Tried {
    let packets = ["172.18.0.0", "172.18.0.1"].map(|own| {
        let all = packets(own.parse().unwrap());
        if !wired {
            return all;
        }
        let by = |wire| move |(hook, packet): &(Hook, Packet)| (*hook, Packet { interface: wire, ..*packet });
        let came = || all.iter().filter(|(hook, packet)| *hook != Hook::Output && packet.ports.is_some());
        wires().into_iter().flat_map(|wire| came().map(by(Some(wire)))).collect()
    });
    let names = names();
    let mut tried = Tried::default();
    for seed in seeds {
        let mut dice = Dice(seed * 7919 + 1);
        let mut choices = Choices::default();
        for name in &names {
            choices.0.insert(name.clone(), dice.roll(60));
        }
        if allow_only {
            choices.0.extend((0..3).map(|number| (format!("there of antrea {number}"), 1)));
        }
        let names: Vec<&String> = names.iter().filter(|name| !allow_only || !name.contains(" of ")).collect();
        let mut source = Followed::default();
        let mut lives = NODES.map(|node| Compiler::new(View::default(), node, Wiring::new()));
        let mut before = lives.each_ref().map(|live| live.program().clone());
        for step in 0..14 {
            for _ in 0..=dice.roll(4) {
                choices.0.insert(names[dice.roll(names.len())].clone(), dice.roll(60));
            }
            // Some of what is chosen at random says nothing, and is reported.
            let (objects, _) = loaded(&text(&choices));
            let waiting = source.relist(&objects, &Snapshot::new(objects.clone()), NODES);
            for (((live, old), waits), packets) in
                lives.iter_mut().zip(&mut before).zip(&waiting).zip(&packets)
            {
                let transition = if wired && dice.roll(2) == 0 {
                    live.follow_wired(waits, wiring(&mut dice)).unwrap()
                } else {
                    live.follow(waits).unwrap()
                };
                let what = format!("seed {seed} step {step}");
                check(old, live.program(), &transition, packets, &mut tried, &what);
                *old = live.program().clone();
                if step % 5 == 4 {
                    let tidied = live.tidy();
                    check(old, live.program(), &tidied, packets, &mut tried, &format!("{what}, tidied"));
                    *old = live.program().clone();
                }
            }
        }
    }
    println!("{tried:?}");
    tried
}

/// Changes of a node that packets on their way may not have seen, with the programs before and after each.
struct Sequence {
    settling: Settling,
    settled: CommitNumber,
    programs: Vec<Program>,
}

/// What was tried with several changes.
#[derive(Debug, Default)]
struct Combined {
    /// Changes that were made without waiting for those before them.
    at_once: usize,
    /// Changes that waited, and those of them that would have let something through otherwise.
    waited: usize,
    stopped: usize,
    mixtures: usize,
}

// === impl Sequence ===

impl Sequence {
    fn new(program: &Program) -> Sequence {
        let mut settling = Settling::default();
        settling.observe(program);
        Sequence { settling, settled: 0, programs: vec![program.clone()] }
    }

    fn settle(&mut self, program: &Program) {
        self.settled = self.settling.last();
        self.programs = vec![program.clone()];
    }

    /// Makes a change, and checks it with all before it that it did not wait for.
    fn change(
        &mut self,
        next: &Program,
        transition: &Transition,
        all: &[(Hook, Packet)],
        tried: &mut Combined,
        what: &str,
    ) {
        let current = self.programs.last().unwrap().clone();
        if transition.patch.is_empty() {
            return;
        }
        let visible = transition.patch.clone().split().1;
        let waits = transition.guard.is_some() || self.settling.awaited(&visible, self.settled).is_some();
        if waits && transition.guard.is_none() {
            tried.waited += 1;
            self.programs.push(next.clone());
            tried.stopped += usize::from(self.passing(all, &mut tried.mixtures).is_some());
        }
        if waits {
            self.settle(&current);
        }
        self.settling.committed(&visible, self.settled);
        if waits {
            self.programs.push(next.clone());
            return;
        }
        self.programs.push(next.clone());
        // A guard decides about packets that began before it is removed.
        tried.at_once += usize::from(self.programs.len() > 2);
        if let Some(passing) = self.passing(all, &mut tried.mixtures) {
            panic!("{what}: {passing}\n{}", transition.patch.text());
        }
    }

    /// Returns a packet that none of the programs lets through, and that passes when it meets the first of them, one between, and the
    /// last.
    fn passing(&self, all: &[(Hook, Packet)], mixtures: &mut usize) -> Option<String> {
        let [first, between @ .., last] = self.programs.as_slice() else { return None };
        let passes = |walked: Walked| walked.verdict == Verdict::Accept;
        for (hook, packet) in all {
            if self.programs.iter().any(|program| passes(program.walk(*hook, packet).unwrap())) {
                continue;
            }
            for middle in between {
                for from in 0.. {
                    let mut is_over = true;
                    for to in from.. {
                        let walked =
                            first.walk_through(&[(middle, from), (last, to)], *hook, packet).unwrap();
                        *mixtures += 1;
                        let lookups = walked.cost.1;
                        if passes(walked) {
                            return Some(format!("{hook:?} {packet:?} passes after {from} and {to} lookups"));
                        }
                        is_over = lookups <= from;
                        if lookups <= to {
                            break;
                        }
                    }
                    if is_over {
                        break;
                    }
                }
            }
        }
        None
    }
}

/// Pods that come, go and are relabelled, and policies, one after the other without a pause.
#[test]
fn no_mixture_of_several_changes_lets_through_what_all_policies_refuse() {
    let packets = packets("172.18.0.0".parse().unwrap());
    let names = names();
    let mut tried = Combined::default();
    for seed in 3000..3000 + seeds() {
        let mut dice = Dice(seed * 7919 + 1);
        let mut choices = Choices::default();
        for name in &names {
            choices.0.insert(name.clone(), dice.roll(60));
        }
        // Mostly pods change.
        let pods: Vec<&String> = names.iter().filter(|name| !name.contains(" of ")).collect();
        let all: Vec<&String> = names.iter().collect();
        let mut source = Followed::default();
        let mut live = Compiler::new(View::default(), NODES[0], Wiring::new());
        let mut sequence = Sequence::new(live.program());
        for step in 0..14 {
            let some = if dice.roll(4) == 0 { &all } else { &pods };
            choices.0.insert(some[dice.roll(some.len())].clone(), dice.roll(60));
            let (objects, _) = loaded(&text(&choices));
            let waiting = source.relist(&objects, &Snapshot::new(objects.clone()), NODES);
            let transition = live.follow(&waiting[0]).unwrap();
            let what = format!("seed {seed} step {step}");
            sequence.change(live.program(), &transition, &packets, &mut tried, &what);
        }
    }
    println!("{tried:?}");
    // Some would pass if changes did not wait.
    assert!(tried.waited > 0 && tried.stopped > 0, "{tried:?}");
}

/// Pods of another machine change their labels one after the other, under rules that allow and deny by label: that never waits unless
/// one pod changes twice.
#[test]
fn changes_of_pods_elsewhere_are_made_at_once() {
    let packets = packets("172.18.0.0".parse().unwrap());
    let rule = |way: &str, peers: &str, action: &str, app: &str| {
        format!("{way}: [{{action: {action}, {peers}: [{{podSelector: {{matchLabels: {{app: {app}}}}}}}]}}]")
    };
    let mut policies = String::new();
    let rules = [("Allow", "aa"), ("Drop", "bb"), ("Allow", "cc"), ("Drop", "dd")];
    for (n, (action, app)) in (1..).zip(rules) {
        let (egress, ingress) = (rule("egress", "to", action, app), rule("ingress", "from", action, app));
        policies += &tiered(&format!("p{n}"), n, ONE, &format!("{egress}, {ingress}"));
    }
    policies += &tiered("rest", 9, ONE, "egress: [{action: Drop}], ingress: [{action: Drop}]");
    let pod = |n: usize, app: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{namespace: a, name: r{n}, labels: {{app: {app}}}}}, spec: {{nodeName: n1}}, \
             status: {{podIPs: [{{ip: 10.0.0.{n}}}]}}}}\n"
        )
    };
    let mut tried = Combined::default();
    for seed in 0..seeds() {
        let mut dice = Dice(seed * 7919 + 1);
        let apps = ["aa", "bb", "cc", "dd", "ee"];
        // Pods that stay keep the sets.
        let stay: String = (0..5).map(|n| pod(10 + n, apps[n])).collect();
        let mut chosen = [3, 4].map(|n| (n, 0));
        let mut source = Followed::default();
        let mut live = Compiler::new(View::default(), NODES[0], Wiring::new());
        let world = |chosen: &[(usize, usize)]| {
            let pods: String = chosen.iter().map(|(n, app)| pod(*n, apps[*app])).collect();
            world("one", "none", "zz", &policies)
                .replace("10.0.0.3", "10.0.0.8")
                .replace("10.0.0.4", "10.0.0.9")
                + &stay
                + &pods
        };
        live.follow(&source.take(&world(&chosen), NODES[0])).unwrap();
        let mut sequence = Sequence::new(live.program());
        for step in 0..8 {
            let one = dice.roll(2);
            chosen[one].1 = dice.roll(apps.len());
            let transition = live.follow(&source.take(&world(&chosen), NODES[0])).unwrap();
            sequence.change(
                live.program(),
                &transition,
                &packets,
                &mut tried,
                &format!("seed {seed} step {step}"),
            );
        }
    }
    println!("{tried:?}");
    assert!(tried.at_once > 10 && tried.waited > 10, "{tried:?}");
}

fn seeds() -> u64 {
    std::env::var("MIXTURE_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

#[test]
fn no_mixture_of_two_policies_lets_through_what_both_refuse() {
    let tried = histories(0..seeds(), false, false);
    // It is about something: some mixtures would pass without a guard, and many changes need none.
    assert!(tried.stopped > 0 && tried.guarded * 10 < tried.changes * 9, "{tried:?}");
}

/// Pods that come, go and are relabelled where policies only allow: mostly that is one step.
#[test]
fn pods_that_come_and_go_under_policies_that_allow_rarely_need_a_guard() {
    let tried = histories(1000..1000 + seeds() / 2, true, false);
    assert!(tried.guarded * 2 < tried.changes, "{tried:?}");
}

/// Addresses that move from one interface to another while policies change.
#[test]
fn no_mixture_of_interfaces_and_policies_lets_through_what_both_refuse() {
    let tried = histories(2000..2000 + seeds(), false, true);
    assert!(tried.stopped > 0, "{tried:?}");
}

/// Pods `s` and `t` are here, `x` and `w` on another machine; roles and labels are what changes.
fn world(s: &str, node: &str, x: &str, policies: &str) -> String {
    let pod = |name: &str, labels: &str, node: &str, address: u8| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{namespace: a, name: {name}, labels: {{{labels}}}}}, spec: {{nodeName: {node}}}, \
             status: {{podIPs: [{{ip: 10.0.0.{address}}}]}}}}\n"
        )
    };
    let mut text = format!(
        "{{apiVersion: v1, kind: Namespace, metadata: {{name: a}}}}\n---\n\
         {{apiVersion: v1, kind: Node, metadata: {{name: n0, labels: {{nn: {node}}}}}, status: {{addresses: [{{type: InternalIP, address: 172.18.0.0}}]}}}}\n---\n\
         {{apiVersion: v1, kind: Service, metadata: {{namespace: a, name: svc}}, spec: {{clusterIP: 10.96.0.11, selector: {{x: q}}, ports: [{{port: 80}}]}}}}\n"
    );
    text += &pod("s", &format!("role: {s}"), "n0", 1);
    text += &pod("t", "role: two", "n0", 2);
    text += &pod("x", &format!("app: {x}"), "n1", 3);
    text += &pod("w", "app: yy", "n1", 4);
    text + policies
}

fn tiered(name: &str, priority: u8, applied: &str, rules: &str) -> String {
    format!(
        "---\n{{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {{name: {name}}}, spec: {{priority: {priority}, \
         appliedTo: [{applied}], {rules}}}}}\n"
    )
}

/// Goes from one world to the other and back, checks both changes, and returns how many of them were guarded.
fn to_and_fro(worlds: &[String; 2]) -> Tried {
    let packets = packets("172.18.0.0".parse().unwrap());
    let mut source = Followed::default();
    let mut live = Compiler::new(View::default(), NODES[0], Wiring::new());
    live.follow(&source.take(&worlds[0], NODES[0])).unwrap();
    let mut tried = Tried::default();
    for next in [&worlds[1], &worlds[0]] {
        let old = live.program().clone();
        let transition = live.follow(&source.take(next, NODES[0])).unwrap();
        check(&old, live.program(), &transition, &packets, &mut tried, "to and fro");
    }
    tried
}

const ONE: &str = "{podSelector: {matchLabels: {role: one}}}";
const TWO: &str = "{podSelector: {matchLabels: {role: two}}}";
const DROP_YY: &str = "{action: Drop, to: [{podSelector: {matchLabels: {app: yy}}}]}";

/// One endpoint goes to a list that another keeps, and the list gets other rules at the same time.
#[test]
fn joining_a_list_whose_rules_change_is_guarded() {
    let drop_x = "egress: [{action: Drop, to: [{podSelector: {matchLabels: {app: zz}}}]}]";
    let policies = tiered("one", 1, ONE, "egress: [{action: Drop}]")
        + &tiered("two", 2, TWO, &drop_x.replace("zz", "vv"));
    let tried = to_and_fro(&[world("one", "none", "zz", &policies), world("two", "none", "vv", &policies)]);
    assert!(tried.guarded > 0 && tried.stopped > 0, "{tried:?}");
}

/// One endpoint leaves a list that another keeps, and a peer leaves a set that only connections through a service are looked up in.
#[test]
fn leaving_a_list_of_a_service_is_guarded() {
    let two = format!(
        "egress: [{DROP_YY}, {{action: Allow, toServices: [{{name: svc, namespace: a}}]}}, {{action: Drop}}]"
    );
    let policies = tiered("one", 1, ONE, "egress: [{action: Drop}]") + &tiered("two", 2, TWO, &two);
    let tried = to_and_fro(&[world("two", "none", "yy", &policies), world("one", "none", "zz", &policies)]);
    assert!(tried.guarded > 0 && tried.stopped > 0, "{tried:?}");
}

/// The machine itself leaves a list that a pod keeps, by rules.
#[test]
fn a_node_that_leaves_a_list_is_guarded() {
    let one = tiered("one", 1, "{nodeSelector: {matchLabels: {nn: one}}}", "ingress: [{action: Drop}]");
    let applied = format!("{{nodeSelector: {{matchLabels: {{nn: two}}}}}}, {TWO}");
    let two = "ingress: [{action: Drop, from: [{podSelector: {matchLabels: {app: yy}}}]}]";
    let policies = one + &tiered("two", 2, &applied, two);
    let tried = to_and_fro(&[world("none", "two", "yy", &policies), world("none", "one", "zz", &policies)]);
    assert!(tried.guarded > 0 && tried.stopped > 0, "{tried:?}");
}
