//! Tables that are loaded over netlink are those that `nft` loads from text: rule for rule, set for set, in `nft`'s own listing and in
//! the bytecode that it reads back.
//!
//! `Linux::with_nft` gets a command that does not exist wherever netlink alone is to be used: a fallback to `nft` would fail.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::disallowed_macros)]

mod kernel_rig;

use std::collections::BTreeMap;

use palisade_model::address::Family;
use palisade_nftables::kernel::{Counts, Kernel, Linux};
use palisade_nftables::patch::Patch;
use palisade_nftables::program::{
    Chain, Field, FieldType, Hook, ICMP, ICMP6, IGMP, Match, Program, Rule, TCP, UDP, Verdict,
};

use kernel_rig::{
    ADDRESS, ADDRESS6, Network, PORT, PROTOCOL, SOURCE, SOURCE6, address, exact, interface, jump, name, nft,
    number, plain, ranges, rich, run, set, v4, verdicts,
};

/// A command that cannot be run.
const NO_NFT: &str = "/nonexistent/nft";

/// A program with every field, condition and verdict, in every sort of set.
fn complete() -> Program {
    let mut program = rich();
    let sets = [
        ("igmp_to", set(&[FieldType::IgmpType, ADDRESS], plain([exact([number(17), v4(1)])]))),
        ("igmp_types", set(&[FieldType::IgmpType], plain([exact([number(17)])]))),
        (
            "icmp4",
            set(
                &[FieldType::IcmpType(Family::V4), FieldType::IcmpCode(Family::V4)],
                plain([exact([number(8), number(0)])]),
            ),
        ),
        (
            "icmp6",
            set(
                &[FieldType::IcmpType(Family::V6), FieldType::IcmpCode(Family::V6)],
                plain([exact([number(128), number(0)])]),
            ),
        ),
        (
            "cells",
            set(
                &[PROTOCOL, PORT, PORT],
                verdicts([(
                    ranges([
                        (number(6), number(6)),
                        (number(0), number(u16::MAX)),
                        (number(1024), number(u16::MAX)),
                    ]),
                    jump("pod_a"),
                )]),
            ),
        ),
        (
            "open6",
            set(
                &[ADDRESS6],
                verdicts([(
                    ranges([(address("2001:db8::"), address("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"))]),
                    jump("pod_a"),
                )]),
            ),
        ),
        ("ranges", set(&[PORT], plain([ranges([(number(80), number(90))]), exact([number(100)])]))),
        ("empty", set(&[ADDRESS], plain([]))),
    ];
    program.sets.extend(sets.map(|(key, set)| (name(key), set)));
    program.sets.get_mut("ports").unwrap().comment = "ports of \"a\" $list\\ of rules".to_owned();
    program.sets.get_mut("blocks").unwrap().comment = "é".repeat(200);
    program.sets.get_mut("name").unwrap().comment = "wires".to_owned();
    let is = |field, n: u8| Match::Is(field, number(n.into()));
    let within = |fields: &[Field], set: &str| Match::In(fields.to_vec(), name(set));
    let (icmp, code) = (Field::IcmpType(Family::V4), Field::IcmpCode(Family::V4));
    let (icmp6, code6) = (Field::IcmpType(Family::V6), Field::IcmpCode(Family::V6));
    let to = Field::Destination(Family::V4);
    let conditions = [
        vec![Match::Established],
        vec![Match::LooseTcp],
        vec![is(Field::Protocol, TCP), Match::LooseTcp],
        vec![Match::LoopbackIn, Match::LoopbackOut],
        vec![Match::Multicast],
        vec![is(Field::Protocol, IGMP), is(Field::IgmpType, 17), Match::Multicast],
        vec![is(Field::Protocol, IGMP), Match::Is(to, address("224.0.0.22"))],
        vec![is(Field::IgmpType, 17)],
        vec![within(&[Field::IgmpType, to], "igmp_to")],
        vec![within(&[Field::IgmpType], "igmp_types")],
        vec![Match::NeighbourDiscovery],
        vec![is(Field::Protocol, ICMP), is(icmp, 8), is(code, 0)],
        vec![is(Field::Protocol, ICMP), is(code, 1)],
        vec![is(icmp, 8)],
        vec![Match::Between(code, number(1), number(2))],
        vec![within(&[icmp, code], "icmp4")],
        vec![is(Field::Protocol, ICMP6), is(icmp6, 128), is(code6, 0)],
        vec![is(code6, 3)],
        vec![Match::NotIn(vec![icmp6, code6], name("icmp6"))],
        vec![Match::Is(SOURCE, v4(1)), Match::Is(to, v4(2)), Match::Is(Field::Port, number(80))],
        vec![
            Match::Is(SOURCE6, address("2001:db8::1")),
            Match::Is(Field::Destination(Family::V6), address("2001:db8::2")),
        ],
        vec![Match::Between(SOURCE, v4(1), v4(9)), is(Field::Protocol, UDP)],
        vec![is(Field::Protocol, UDP), Match::Between(Field::SourcePort, number(1), number(1023))],
        vec![within(&[Field::Port], "ranges"), Match::NotIn(vec![SOURCE], name("blocks"))],
        vec![within(&[Field::Destination(Family::V6)], "plain6")],
        vec![within(&[Field::OriginalDestination(Family::V4)], "plain4")],
        vec![within(&[Field::OriginalDestination(Family::V6)], "plain6")],
        vec![Match::Is(Field::OriginalDestination(Family::V4), v4(7))],
        vec![Match::Is(Field::InterfaceIn, interface("eth0"))],
        vec![
            within(&[Field::InterfaceIn], "name"),
            Match::NotIn(vec![Field::InterfaceIn, SOURCE], name("names")),
        ],
        vec![within(&[Field::Protocol, Field::Port], "ports"), within(&[SOURCE], "empty")],
    ];
    let mut rules: Vec<Rule> = conditions
        .into_iter()
        .enumerate()
        .map(|(n, matches)| Rule::new(matches, Verdict::Drop).comment(format!("condition {n}")))
        .collect();
    let counted = |verdict| Rule { counter: Some(name("denied")), ..Rule::new([], verdict) };
    rules.extend([
        counted(Verdict::Log("a \"prefix\": ".to_owned())),
        counted(Verdict::Jump(name("pod_b"))),
        Rule { matches: vec![is(Field::Protocol, TCP)], ..counted(Verdict::Reject) }.comment("x".repeat(300)),
        Rule { matches: vec![Match::In(vec![SOURCE], name("plain4"))], ..counted(Verdict::Reject) },
        Rule::new([], Verdict::Map(vec![Field::Protocol, Field::SourcePort, Field::Port], name("cells"))),
        Rule::new([Match::LoopbackIn], Verdict::Map(vec![SOURCE6], name("open6"))),
        counted(Verdict::Accept),
        counted(Verdict::Return),
        counted(Verdict::Goto(name("pod_a"))),
    ]);
    program.chains.insert(name("everything"), Chain { hook: None, rules });
    let base = vec![Rule::new([], Verdict::Jump(name("everything")))];
    program.chains.insert(name("output"), Chain { hook: Some(Hook::Output), rules: base });
    program
}

/// The chains, sets and counters of a table as nft lists them with their bytecode, by name.
fn listed(table: &str, program: &Program) -> BTreeMap<String, String> {
    let chains = program.chains.keys().map(|name| ("chain", name));
    let sets = program.sets.iter().map(|(name, set)| (if set.is_map { "map" } else { "set" }, name));
    let counters = program.counters.iter().map(|name| ("counter", name));
    let text = |kind: &str, name: &str| {
        let details: &[&str] = if kind == "chain" { &["-s", "--debug=netlink"] } else { &["-s"] };
        let listing = run("nft", &[details, &["list", kind, "inet", table, name]].concat(), "");
        let lines = listing.lines().filter(|line| !is_noise(line));
        lines.map(|line| line.replace(table, "TABLE")).collect::<Vec<_>>().join("\n")
    };
    chains
        .chain(sets)
        .chain(counters)
        .map(|(kind, name)| (format!("{kind} {name}"), text(kind, name)))
        .collect()
}

/// Whether a line of bytecode differs between equal chains: numbers that the kernel gives, the elements of the whole table in the
/// order of the kernel's hash, and an instruction that nft 1.0.6 emits and that does nothing (it swaps the bytes of one byte).
fn is_noise(line: &str) -> bool {
    line.starts_with("inet ")
        || line.starts_with("\telement ")
        || (line.starts_with("  [ byteorder reg ") && line.ends_with(", 2, 1) ]"))
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_patch_over_netlink_is_what_nft_loads() {
    let program = complete();
    Network::new().inside(|| {
        nft(&program.replace());
        let by_nft = (listed("palisade", &program), Linux::new().read().unwrap().unwrap());
        let mut linux = Linux::new();
        linux.remove().unwrap();
        linux.replace(&Program::default(), &Counts::new()).unwrap();
        let mut linux = Linux::with_nft(NO_NFT);
        linux.patch(&Patch::between(&Program::default(), &program)).unwrap();
        let by_netlink = (listed("palisade", &program), Linux::new().read().unwrap().unwrap());
        for (part, text) in &by_nft.0 {
            assert_eq!(by_netlink.0.get(part), Some(text), "{part}");
        }
        assert_eq!(by_netlink, by_nft);
        // And back.
        linux.patch(&Patch::between(&program, &Program::default())).unwrap();
        linux.tidy().unwrap();
        assert_eq!(nft("list table inet palisade").trim(), "table inet palisade {\n}");
    });
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_guard_over_netlink_is_what_nft_loads() {
    let mut program = complete();
    program.counters.clear();
    program.chains.values_mut().flat_map(|chain| &mut chain.rules).for_each(|rule| rule.counter = None);
    Network::new().inside(|| {
        nft(&program.replace());
        let mut linux = Linux::with_nft(NO_NFT);
        // The second takes the place of the first.
        for _ in 0..2 {
            linux.raise_guard(&program).unwrap();
        }
        let (table, guard) = (listed("palisade", &program), listed("palisade_guard", &program));
        for (part, text) in &table {
            let guard = guard[part]
                .replace("priority filter - 1;", "priority filter;")
                .replace("priority -1;", "priority filter;");
            assert_eq!(&guard, text, "{part}");
        }
        linux.drop_guard().unwrap();
        assert!(!linux.has_guard().unwrap());
    });
}

/// Rules of a chain that stays are replaced, a hook is never changed, and what is refused changes nothing.
#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn chains_are_changed_in_place_and_refusals_change_nothing() {
    let before = complete();
    let mut after = before.clone();
    after.chains.get_mut("forward").unwrap().rules.truncate(2);
    after.chains.get_mut("everything").unwrap().rules.reverse();
    Network::new().inside(|| {
        Linux::new().replace(&before, &Counts::new()).unwrap();
        let mut linux = Linux::with_nft(NO_NFT);
        linux.patch(&Patch::between(&before, &after)).unwrap();
        let listed_after = listed("palisade", &after);
        Linux::new().remove().unwrap();
        Linux::new().replace(&after, &Counts::new()).unwrap();
        for (part, text) in listed("palisade", &after) {
            assert_eq!(listed_after[&part], text, "{part}");
        }
        let mut other = after.clone();
        other.chains.get_mut("forward").unwrap().hook = Some(Hook::Input);
        other.chains.get_mut("everything").unwrap().rules.clear();
        linux.patch(&Patch::between(&after, &other)).unwrap_err();
        assert_eq!(listed("palisade", &after), listed_after);
    });
}
