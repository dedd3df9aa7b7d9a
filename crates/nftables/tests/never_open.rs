//! A packet that neither the program of before nor the next one lets through never passes while one takes the place of the other.
//!
//! The kernel decides once for each packet which generation of rules it meets, but looks into sets and maps as they are at that moment.
//! So a packet that is on its way while a transaction is committed can meet rules of before with elements of after. These tests flood a
//! socket from the other processors while programs take each other's place, and count what gets through. The time between the first rule and
//! the lookup is what a packet needs for some rules that never match.
//!
//! The last tests go from policies to packets: two policies that both refuse a connection, each in another way, take each other's place,
//! and a connection that both allow is never refused.
//!
//! `NEVER_OPEN_ROUNDS` is the number of changes, `NEVER_OPEN_NETWORKS` that of networks in which they are made at once, `NEVER_OPEN_PAUSE` the
//! time between bursts of packets in microseconds; `NEVER_OPEN_UNGUARDED=1` shows what passes without guards. It needs root, `nft` and `ip`, so that `cargo test` leaves it out; `make kernel` runs it.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_macros)]

mod kernel_rig;
#[path = "../../engine/tests/written/mod.rs"]
mod written;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use palisade_engine::view::View;
use palisade_model::address::Family;
use palisade_nftables::compile::{Compiler, Wiring};
use palisade_nftables::kernel::{Counts, Kernel, Linux};
use palisade_nftables::patch::Patch;
use palisade_nftables::program::{
    Chain, Field, FieldType, Hook, Match, Program, Rule, Set, UDP, Value, Verdict,
};
use palisade_nftables::transition::Transition;

use kernel_rig::{
    ADDRESS, Network, PORT, PROTOCOL, SOURCE, exact, name, number, plain, ranges, run, set, v4, verdicts,
};

const TO: Field = Field::Destination(Family::V4);
/// The port that nothing ever lets through.
const DENIED: u16 = 5000;

fn environment<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Returns the number of changes of a test.
fn rounds() -> usize {
    environment("NEVER_OPEN_ROUNDS").unwrap_or(60)
}

/// Takes one program's place by the other's again and again, and counts the packets that get through meanwhile.
fn flooded(one: &Program, other: &Program, mut next: impl FnMut(&mut Linux, &Program, &Program) + Send) {
    let rounds = rounds();
    Network::new().inside(|| {
        run("ip", &["link", "set", "lo", "up"], "");
        run("ip", &["address", "add", "10.0.0.1/32", "dev", "lo"], "");
        let mut linux = Linux::new();
        linux.replace(one, &Counts::new()).unwrap();
        let others =
            std::thread::available_parallelism().map_or(1, |all| all.get().saturating_sub(1).clamp(1, 4));
        let probes: Vec<UdpSocket> = (0..others).map(|_| UdpSocket::bind("10.0.0.1:0").unwrap()).collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stop = &stop;
            let flood = |socket: UdpSocket| {
                let (mut sent, mut passed) = (0u64, 0u64);
                while !stop.load(Ordering::Relaxed) {
                    sent += 1;
                    // Whoever is refused on the way out is told so.
                    passed += u64::from(socket.send_to(b"x", ("10.0.0.1", DENIED)).is_ok());
                }
                (sent, passed)
            };
            let floods: Vec<_> =
                probes.into_iter().map(|socket| scope.spawn(move || flood(socket))).collect();
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for round in 0..rounds {
                    let (from, to) = if round % 2 == 0 { (one, other) } else { (other, one) };
                    next(&mut linux, from, to);
                }
            }));
            stop.store(true, Ordering::Relaxed);
            let counted = floods.into_iter().map(|flood| flood.join().unwrap());
            let (sent, passed) = counted.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
            println!("{rounds} changes, {sent} packets sent, {passed} passed");
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            assert!(sent > 1000, "{sent} packets");
            assert_eq!(passed, 0, "of {sent} packets, with {rounds} changes");
        });
    });
}

fn patched(linux: &mut Linux, from: &Program, to: &Program) {
    linux.patch(&Patch::between(from, to)).unwrap();
}

fn replaced(linux: &mut Linux, _: &Program, to: &Program) {
    linux.replace(to, &Counts::new()).unwrap();
}

/// A program that sends what goes to a pod to a chain, by a map, and the rest of it.
fn dispatching(chain: &str, rules: Vec<Rule>) -> Program {
    let mut program = Program::default();
    let dispatch = verdicts([(exact([v4(1)]), Verdict::Goto(name(chain)))]);
    program.sets.insert(name("to_pod4"), set(&[ADDRESS], dispatch));
    let never = |n| Rule::new([Match::Is(SOURCE, Value::Address([192, 0, 2, n].into()))], Verdict::Drop);
    let mut base: Vec<Rule> = (0..40).map(never).collect();
    base.push(Rule::new([], Verdict::Map(vec![TO], name("to_pod4"))));
    program.chains.insert(name("output"), Chain { hook: Some(Hook::Output), rules: base });
    program.chains.insert(name(chain), Chain { hook: None, rules });
    program
}

/// As when another list of rules applies to a pod.
fn denying(n: usize) -> Program {
    let denied = format!("denied_{n}");
    let goto = Rule::new([], Verdict::Goto(name(&denied)));
    let mut program = dispatching(&format!("in_{n}"), vec![goto]);
    program.chains.insert(name(&denied), Chain { hook: None, rules: vec![Rule::new([], Verdict::Drop)] });
    program
}

/// A chain that keeps its name, with rules that look for what is denied in a set or map, and let the rest pass.
fn looking_up(map: &str, sort: Set, fields: Vec<Field>) -> Program {
    let rest = Rule::new([], Verdict::Accept);
    let found = match sort.is_map {
        true => Rule::new([], Verdict::Map(fields, name(map))),
        false => Rule::new([Match::In(fields, name(map))], Verdict::Drop),
    };
    let mut program = dispatching("in_same", vec![found, rest]);
    program.sets.insert(name(map), sort);
    program
}

fn udp() -> Value {
    number(UDP.into())
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn while_a_pod_gets_another_list_of_rules() {
    flooded(&denying(1), &denying(2), patched);
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn while_a_map_of_what_is_denied_is_another() {
    let fields = || vec![Field::Protocol, Field::Port];
    let map = |more| {
        let denied =
            [(udp(), number(DENIED)), (udp(), number(more))].map(|(protocol, port)| exact([protocol, port]));
        set(&[PROTOCOL, PORT], verdicts(denied.map(|key| (key, Verdict::Drop))))
    };
    flooded(&looking_up("m_1", map(1), fields()), &looking_up("m_2", map(2), fields()), patched);
}

/// Sets of ranges with several fields are put in force by the kernel a moment after the rules.
#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn while_ranges_of_what_is_denied_are_others() {
    let fields = || vec![Field::Protocol, Field::Port];
    let cells =
        |last| set(&[PROTOCOL, PORT], plain([ranges([(udp(), udp()), (number(4000), number(last))])]));
    flooded(&looking_up("s_1", cells(6000), fields()), &looking_up("s_2", cells(7000), fields()), patched);
}

/// One field only: another sort of set.
#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn while_a_block_of_what_is_denied_is_another() {
    let block = |last| set(&[FieldType::Port], plain([ranges([(number(4000), number(last))])]));
    let fields = || vec![Field::Port];
    flooded(&looking_up("s_1", block(6000), fields()), &looking_up("s_2", block(7000), fields()), patched);
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn while_a_whole_program_is_replaced_by_itself() {
    flooded(&denying(1), &denying(1), replaced);
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn while_a_whole_program_is_replaced_by_another() {
    flooded(&denying(1), &denying(2), replaced);
}

/// Whoever starts after a kill finds what another put there, or half of the next.
#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn while_the_next_one_takes_over() {
    let mut half = 0;
    flooded(&denying(1), &denying(2), |_, from, to| {
        // What comes was there already when the one before was killed.
        half += 1;
        if half % 2 == 0 {
            let comes = Patch::between(from, to).split().0;
            Linux::new().patch(&comes).unwrap();
        }
        Linux::new().replace(to, &Counts::new()).unwrap();
    });
}

/// Elements that are there stay, whatever else is replaced.
#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn while_everybody_else_comes_and_goes() {
    let program = |to: u32| {
        let mut program = denying(1);
        let others = (2..to).map(|n| (exact([v4(n)]), Verdict::Goto(name("in_1"))));
        program.sets.get_mut("to_pod4").unwrap().elements.extend(verdicts(others));
        program
    };
    flooded(&program(3), &program(300), patched);
    flooded(&program(3), &program(300), replaced);
}

/// Addresses of the two pods, and the port that both policies always allow.
const ONE: &str = "10.0.0.1";
const OTHER: &str = "10.0.0.2";
const ALLOWED: u16 = 6000;

const PODS: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: x}}\n---\n\
    {apiVersion: v1, kind: Pod, metadata: {name: q, namespace: x, labels: {app: q}}, spec: {nodeName: n0}, status: {podIP: 10.0.0.2}}\n---\n";

/// The pod that sends, with its part.
fn sender(role: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: x, labels: {{app: p, role: {role}}}}}, spec: {{nodeName: n0}}, \
         status: {{podIP: {ONE}}}}}\n---\n"
    )
}

fn antrea(spec: &str) -> String {
    format!(
        "{{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {{name: c}}, spec: {{priority: 5, {spec}}}}}\n"
    )
}

/// How many rules that never match stand before each lookup. A packet spends nearly all of its time in them, so that it is probably
/// between two lookups when a change is committed. They stand in chains that a change leaves alone: they are not loaded again.
#[derive(Clone, Copy)]
struct Slowing {
    base_chains: usize,
    lists: usize,
}

const SLOWING_RULES: usize = 200;
const SLOWING_OF_GUARD: Slowing = Slowing { base_chains: 2, lists: 2 };

/// Returns a node's program whose rules packets of this machine meet on their way out, with rules before each lookup that never match.
fn slowed(program: &Program, slowing: Slowing) -> Program {
    let mut slowed = program.clone();
    slowed.chains.retain(|name, chain| chain.hook.is_none() || name == "forward");
    for chain in slowed.chains.values_mut() {
        let count = if chain.hook.is_some() { slowing.base_chains } else { slowing.lists };
        chain.hook = chain.hook.map(|_| Hook::Output);
        let never = Rule::new([Match::Is(SOURCE, Value::Address([192, 0, 2, 1].into()))], Verdict::Drop);
        let rules = std::mem::take(&mut chain.rules);
        for rule in rules {
            if rule.sets().next().is_some() {
                chain.rules.extend(std::iter::repeat_n(never.clone(), count));
            }
            chain.rules.push(rule);
        }
    }
    slowed
}

/// What a flood counted.
#[derive(Default)]
struct Flood {
    changes: u64,
    /// Changes that were made behind a guard.
    guarded: u64,
    sent: u64,
    /// Packets that passed and that no policy allows.
    passed: u64,
    /// Packets that were refused and that all policies allow.
    refused: u64,
    /// Time that changes took of this thread's processor, and until they were done.
    processor: Duration,
    elapsed: Duration,
}

/// Returns the time that this thread has used of a processor.
fn processor_time() -> Duration {
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime)).unwrap()
}

/// Packets between two pauses (`NEVER_OPEN_PAUSE`, in microseconds). Without pauses, floods of many networks keep the processors from
/// each other: a packet that is interrupted holds up the grace periods of all changes.
const BURST: u64 = 4;

/// Replaces two worlds by each other while packets are sent.
fn flooded_by_worlds(worlds: &[String; 2], slowing: Slowing, rounds: usize, guarded: bool) -> Flood {
    Network::new().inside(|| {
        run("ip", &["link", "set", "lo", "up"], "");
        for address in [ONE, OTHER] {
            run("ip", &["address", "add", &format!("{address}/32"), "dev", "lo"], "");
        }
        let pause = Duration::from_micros(environment("NEVER_OPEN_PAUSE").unwrap_or(0));
        let mut source = written::Followed::default();
        let mut live = Compiler::new(View::default(), "n0", Wiring::new());
        let mut linux = Linux::new();
        let mut before = slowed(live.program(), slowing);
        linux.replace(&before, &Counts::new()).unwrap();
        let mut next = |round: usize| {
            let transition = live.follow(&source.take(&worlds[round % 2], "n0")).unwrap();
            let after = slowed(live.program(), slowing);
            let patch = Patch::between(&before, &after);
            before = after;
            let guard = transition.guard.filter(|_| guarded);
            Transition { patch, guard: guard.map(|guard| slowed(&guard, SLOWING_OF_GUARD)) }
        };
        linux.transition(&next(0)).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let flood = |port: u16| {
                let socket = UdpSocket::bind((ONE, 0)).unwrap();
                let stop = &stop;
                scope.spawn(move || {
                    let (mut sent, mut passed) = (0u64, 0u64);
                    while !stop.load(Ordering::Relaxed) {
                        sent += 1;
                        passed += u64::from(socket.send_to(b"x", (OTHER, port)).is_ok());
                        // Between packets that matter one that may pass is enough.
                        let pause =
                            if port == ALLOWED { pause.max(Duration::from_micros(200)) } else { pause };
                        if !pause.is_zero() && (port == ALLOWED || sent.is_multiple_of(BURST)) {
                            std::thread::sleep(pause);
                        }
                    }
                    (sent, passed)
                })
            };
            let (denied, allowed) = (flood(DENIED), flood(ALLOWED));
            let mut flood = Flood::default();
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                for round in 1..=rounds {
                    let transition = next(round);
                    let (processor, start) = (processor_time(), Instant::now());
                    linux.transition(&transition).unwrap();
                    flood.processor += processor_time() - processor;
                    flood.elapsed += start.elapsed();
                    flood.changes += 1;
                    flood.guarded += u64::from(transition.guard.is_some());
                }
            }));
            stop.store(true, Ordering::Relaxed);
            let ((sent, passed), (asked, answered)) = (denied.join().unwrap(), allowed.join().unwrap());
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            assert!(sent > 1000 && asked > 100, "{sent} packets, {asked} that may pass");
            Flood { sent, passed, refused: asked - answered, ..flood }
        })
    })
}

fn never_mixed(worlds: &[String; 2], slowing: Slowing) {
    let networks = environment("NEVER_OPEN_NETWORKS").unwrap_or(1);
    let guarded = std::env::var_os("NEVER_OPEN_UNGUARDED").is_none();
    let rounds = rounds().div_ceil(networks);
    let floods: Vec<Flood> = std::thread::scope(|scope| {
        let one = || scope.spawn(|| flooded_by_worlds(worlds, slowing, rounds, guarded));
        let all: Vec<_> = (0..networks).map(|_| one()).collect();
        all.into_iter().map(|network| network.join().unwrap()).collect()
    });
    let sum = |part: fn(&Flood) -> u64| floods.iter().map(part).sum::<u64>();
    let (changes, sent) = (sum(|flood| flood.changes), sum(|flood| flood.sent));
    let (passed, refused) = (sum(|flood| flood.passed), sum(|flood| flood.refused));
    let mean = |part: fn(&Flood) -> Duration| {
        floods.iter().map(part).sum::<Duration>() / u32::try_from(changes).unwrap()
    };
    println!(
        "{changes} changes, {} guarded, {sent} packets sent, {passed} passed that none allows, {refused} refused that all allow; \
         a change: {:?} CPU, {:?} until done",
        sum(|flood| flood.guarded),
        mean(|flood| flood.processor),
        mean(|flood| flood.elapsed),
    );
    // Half of the changes at least could be mixed, or the flood shows nothing.
    assert!(!guarded || 2 * sum(|flood| flood.guarded) >= changes, "too few guarded changes");
    assert_eq!(refused, 0, "of what both policies allow");
    assert_eq!(passed, 0, "of {sent} packets, with {changes} changes");
}

/// What the sender's list denied the receiver's denies now: its old list must not meet the receiver's old one.
#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn while_a_denial_goes_from_the_receiver_to_the_sender_and_back() {
    let ports = "ports: [{protocol: UDP, port: 5000}]";
    let by_sender = antrea(&format!(
        "appliedTo: [{{podSelector: {{matchLabels: {{app: p}}}}}}], egress: [{{action: Drop, to: [{{podSelector: {{matchLabels: {{app: q}}}}}}], {ports}}}]"
    ));
    let by_receiver = antrea(&format!(
        "appliedTo: [{{podSelector: {{matchLabels: {{app: q}}}}}}], ingress: [{{action: Drop, from: [{{podSelector: {{matchLabels: {{app: p}}}}}}], {ports}}}]"
    ));
    // The base chain looks up the list of the sender, then that of the receiver.
    let slowing = Slowing { base_chains: SLOWING_RULES, lists: 0 };
    never_mixed(&[by_sender, by_receiver].map(|policy| format!("{PODS}{}{policy}", sender("a"))), slowing);
}

/// Pods that stay in the two sets that a sender moves between: a set without members has no lookup.
const OTHER_SENDERS: &str = "{apiVersion: v1, kind: Pod, metadata: {name: stays-a, namespace: x, labels: {role: a}}, status: {podIP: 10.0.1.1}}\n---\n\
    {apiVersion: v1, kind: Pod, metadata: {name: stays-b, namespace: x, labels: {role: b}}, status: {podIP: 10.0.1.2}}\n---\n";

/// A sender that two rules deny, first by the one, then by the other: it must not be missed by both.
#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn while_an_address_goes_from_one_set_that_is_denied_to_another() {
    let from = |role: &str| {
        format!(
            "{{action: Drop, from: [{{namespaceSelector: {{}}, podSelector: {{matchLabels: {{role: {role}}}}}}}], ports: [{{protocol: UDP, port: 5000}}]}}"
        )
    };
    let policy = antrea(&format!(
        "appliedTo: [{{podSelector: {{matchLabels: {{app: q}}}}}}], ingress: [{}, {}]",
        from("a"),
        from("b")
    ));
    // The list of the receiver looks up the one set, then the other.
    let slowing = Slowing { base_chains: 0, lists: SLOWING_RULES };
    never_mixed(&["a", "b"].map(|role| format!("{PODS}{OTHER_SENDERS}{}{policy}", sender(role))), slowing);
}
