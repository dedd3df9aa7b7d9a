//! A packet that neither the program of before nor the next one lets through never passes while one takes the place of the other.
//!
//! The kernel decides once for each packet which generation of rules it meets, but looks into sets and maps as they are at that moment.
//! So a packet that is on its way while a transaction is committed can meet rules of before with elements of after. These tests flood a
//! socket from the other processors while programs take each other's place, and count what gets through. The time between the first rule and
//! the lookup is what a packet needs for some rules that never match.
//!
//! `NEVER_OPEN_ROUNDS` says how often. It needs root, `nft` and `ip`, so that `cargo test` leaves it out; `make kernel` runs it.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_macros)]

mod kernel_rig;

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};

use palisade_model::address::Family;
use palisade_nftables::kernel::{Counts, Kernel, Linux};
use palisade_nftables::patch::Patch;
use palisade_nftables::program::{
    Chain, Field, FieldType, Hook, Match, Program, Rule, Set, UDP, Value, Verdict,
};

use kernel_rig::{
    ADDRESS, Network, PORT, PROTOCOL, SOURCE, exact, name, number, plain, ranges, run, set, v4, verdicts,
};

const TO: Field = Field::Destination(Family::V4);
/// The port that nothing ever lets through.
const DENIED: u16 = 5000;

/// How often something takes the place of something else.
fn rounds() -> usize {
    std::env::var("NEVER_OPEN_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
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
