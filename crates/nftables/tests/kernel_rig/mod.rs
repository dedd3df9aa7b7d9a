//! What tests of kernels need: networks of their own, others who meddle, and programs to put there.
#![allow(dead_code)]

use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use palisade_model::address::Family;
use palisade_nftables::program::{
    Chain, Elements, Field, FieldType, Hook, Interface, Key, Match, Name, Program, Rule, Set, Value, Verdict,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace that goes when this does, also when a test fails.
pub struct Network(pub String);

impl Network {
    pub fn new() -> Network {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("palk-{:x}-{:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        run("ip", &["netns", "add", &name], "");
        Network(name)
    }

    /// Does something in it, on a thread of its own.
    pub fn inside<T: Send>(&self, task: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        let done = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                task()
            });
            thread.join()
        });
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "delete", &self.0]).status();
    }
}

/// Runs a command to its good end, in the namespace of this thread; what it writes.
pub fn run(command: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(command)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// What somebody else does with nft.
pub fn nft(text: &str) -> String {
    run("nft", &["-f", "-"], text)
}

pub fn v4(n: u32) -> Value {
    Value::Address(IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + n)))
}

pub fn address(text: &str) -> Value {
    Value::Address(text.parse().unwrap())
}

pub fn number(n: u16) -> Value {
    Value::Number(n)
}

pub fn interface(name: &str) -> Value {
    Value::Interface(Interface::new(name).unwrap())
}

/// A key of single values.
pub fn exact(values: impl IntoIterator<Item = Value>) -> Key {
    values.into_iter().map(|value| (value, value)).collect()
}

/// A key of ranges.
pub fn ranges(values: impl IntoIterator<Item = (Value, Value)>) -> Key {
    values.into_iter().collect()
}

pub fn plain(keys: impl IntoIterator<Item = Key>) -> Elements {
    keys.into_iter().map(|key| (key, None)).collect()
}

pub fn set(key: &[FieldType], elements: Elements) -> Set {
    let is_map = elements.values().any(Option::is_some);
    let interval = elements.keys().flatten().any(|(first, last)| first != last);
    Set { key: key.to_vec(), elements, is_map, interval, comment: String::new() }
}

pub const ADDRESS: FieldType = FieldType::Address(Family::V4);
pub const ADDRESS6: FieldType = FieldType::Address(Family::V6);
pub const PROTOCOL: FieldType = FieldType::Protocol;
pub const PORT: FieldType = FieldType::Port;
pub const SOURCE: Field = Field::Source(Family::V4);
pub const SOURCE6: Field = Field::Source(Family::V6);

pub fn name(text: &str) -> Name {
    Name::new(text)
}

pub fn jump(to: &str) -> Verdict {
    Verdict::Jump(name(to))
}

/// A program with every sort of set, chain and rule that ours have.
pub fn rich() -> Program {
    let mut program = Program::default();
    program.counters.extend([name("denied"), name("allowed")]);
    let all = Family::V6;
    let sets = [
        ("plain4", set(&[ADDRESS], plain((1..4).map(|n| exact([v4(n)]))))),
        ("plain6", set(&[ADDRESS6], plain([exact([address("2001:db8::1")])]))),
        ("ports", set(&[PROTOCOL, PORT], plain([exact([number(6), number(80)])]))),
        ("names", set(&[FieldType::Interface, ADDRESS], plain([exact([interface("veth0"), v4(1)])]))),
        ("name", set(&[FieldType::Interface], plain([exact([interface("fifteen-letters")])]))),
        (
            "kinds",
            set(
                &[
                    FieldType::IcmpType(Family::V4),
                    FieldType::IcmpCode(Family::V4),
                    FieldType::IcmpType(all),
                    FieldType::IcmpCode(all),
                ],
                plain([exact([number(8), number(0), number(128), number(4)])]),
            ),
        ),
        (
            "blocks",
            set(
                &[ADDRESS],
                plain([
                    ranges([(address("10.0.0.0"), address("10.0.0.255"))]),
                    ranges([(address("10.0.1.0"), address("10.0.1.255"))]),
                    exact([address("10.9.9.9")]),
                    ranges([(address("0.0.0.0"), address("0.0.0.7"))]),
                    ranges([(address("255.255.255.0"), address("255.255.255.255"))]),
                ]),
            ),
        ),
        (
            "to_pod",
            set(&[ADDRESS], verdicts([(exact([v4(1)]), jump("pod_a")), (exact([v4(2)]), Verdict::Drop)])),
        ),
        (
            "matrix",
            set(
                &[ADDRESS6, PROTOCOL, PORT],
                verdicts([
                    (
                        ranges([
                            (address("2001:db8::"), address("2001:db8::ff")),
                            (number(6), number(6)),
                            (number(80), number(90)),
                        ]),
                        Verdict::Goto(name("pod_b")),
                    ),
                    (exact([address("2001:db8::1"), number(17), number(53)]), Verdict::Accept),
                ]),
            ),
        ),
    ];
    program.sets.extend(sets.map(|(key, set)| (name(key), set)));
    let forward = vec![
        Rule::new([Match::Established], Verdict::Accept),
        Rule::new([Match::LooseTcp], Verdict::Drop).comment("the rest of a connection that was cut"),
        Rule::new([], Verdict::Map(vec![SOURCE], name("to_pod"))),
        Rule::new([], Verdict::Map(vec![SOURCE6, Field::Protocol, Field::Port], name("matrix"))),
        Rule {
            counter: Some(name("denied")),
            ..Rule::new(
                [Match::In(vec![Field::OriginalDestination(Family::V4)], name("blocks"))],
                Verdict::Reject,
            )
        },
    ];
    program.chains.insert(name("forward"), Chain { hook: Some(Hook::Forward), rules: forward });
    let input = vec![
        Rule::new([Match::LoopbackIn], Verdict::Accept),
        Rule::new([Match::NeighbourDiscovery], Verdict::Accept),
    ];
    program.chains.insert(name("input"), Chain { hook: Some(Hook::Input), rules: input });
    let counted = Rule {
        counter: Some(name("allowed")),
        ..Rule::new([Match::In(vec![SOURCE], name("plain4"))], Verdict::Accept)
    };
    let pod_a = vec![
        counted,
        Rule::new([Match::In(vec![Field::Protocol, Field::Port], name("ports"))], Verdict::Accept),
        Rule::new([Match::In(vec![Field::InterfaceIn, SOURCE], name("names"))], Verdict::Return),
        Rule::new([Match::In(vec![Field::InterfaceIn], name("name"))], Verdict::Return),
        Rule::new([], Verdict::Drop),
    ];
    program.chains.insert(name("pod_a"), Chain { hook: None, rules: pod_a });
    let pod_b = vec![Rule::new([Match::NotIn(vec![SOURCE6], name("plain6"))], Verdict::Drop)];
    program.chains.insert(name("pod_b"), Chain { hook: None, rules: pod_b });
    program
}

pub fn verdicts(elements: impl IntoIterator<Item = (Key, Verdict)>) -> Elements {
    elements.into_iter().map(|(key, verdict)| (key, Some(verdict))).collect()
}
