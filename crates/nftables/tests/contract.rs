//! What every kernel must do, asked of the one in memory and of the real one: the same cases, the same answers.
//!
//! The real one is asked in a network namespace of its own. That needs root, `nft` and `ip`, so that `cargo test` leaves it out; `make
//! kernel` runs it.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod kernel_rig;

use palisade_nftables::guard::Scope;
use palisade_nftables::kernel::{Count, Counts, Fake, InForce, Kernel, KernelError, Linux};
use palisade_nftables::patch::Patch;
use palisade_nftables::program::{
    Chain, Elements, Field, FieldType, Hook, Key, Match, Name, Program, Rule, Set, Verdict,
};
use palisade_nftables::transition::Transition;

use kernel_rig::{
    ADDRESS, ADDRESS6, Network, PORT, PROTOCOL, SOURCE, address, exact, interface, jump, name, nft, number,
    plain, ranges, rich, run, set, v4, verdicts,
};

/// What somebody else does to our table.
enum Meddling {
    Table,
    Element(&'static str, Key, &'static str),
    Rules(&'static str),
    OtherTable,
}

/// A kernel and those who meddle with it.
trait Rig: Kernel {
    fn meddle(&mut self, how: Meddling);
    fn count(&mut self, counter: &str, packets: u64, bytes: u64);
    /// What is in the tables of others.
    fn others(&self) -> String;
    /// Whether there is a guard.
    fn is_guarded(&self) -> bool;
}

impl Rig for Fake {
    fn meddle(&mut self, how: Meddling) {
        match how {
            Meddling::Table => self.disturb(|program| *program = None),
            Meddling::Element(set, key, _) => self.disturb(|program| {
                program.as_mut().unwrap().sets.get_mut(set).unwrap().elements.remove(&key).unwrap();
            }),
            Meddling::Rules(chain) => self.disturb(|program| {
                program.as_mut().unwrap().chains.get_mut(chain).unwrap().rules.clear();
            }),
            Meddling::OtherTable => {}
        }
    }

    fn count(&mut self, counter: &str, packets: u64, bytes: u64) {
        Fake::count(self, counter, packets, bytes);
    }

    fn others(&self) -> String {
        String::new()
    }

    fn is_guarded(&self) -> bool {
        self.guard().is_some()
    }
}

impl Rig for Linux {
    fn meddle(&mut self, how: Meddling) {
        match how {
            Meddling::Table => nft("delete table inet palisade"),
            Meddling::Element(set, _, text) => {
                nft(&format!("delete element inet palisade {set} {{ {text} }}"))
            }
            Meddling::Rules(chain) => nft(&format!("flush chain inet palisade {chain}")),
            Meddling::OtherTable => nft(
                "table ip palisade {\nset s {\ntype ipv4_addr\nelements = { 1.1.1.1 }\n}\n}\ntable inet other {\n}",
            ),
        };
    }

    fn count(&mut self, counter: &str, packets: u64, bytes: u64) {
        // Nothing counts without packets, so that the counter is made again with these.
        nft(&format!(
            "delete counter inet palisade {counter}\nadd counter inet palisade {counter} {{ packets {packets} bytes {bytes} ; }}"
        ));
        assert!(self.is_disturbed().unwrap());
    }

    fn others(&self) -> String {
        let list = |family, table| run("nft", &["list", "table", family, table], "");
        list("ip", "palisade") + &list("inet", "other")
    }

    fn is_guarded(&self) -> bool {
        run("nft", &["list", "tables"], "").lines().any(|line| line == "table inet palisade_guard")
    }
}

macro_rules! contract {
    ($($case:ident),* $(,)?) => {
        mod fake {
            $(#[test] fn $case() { super::$case(&mut super::Fake::new()); })*
        }
        mod linux {
            $(#[test]
            #[ignore = "needs root, nft and ip: make kernel"]
            fn $case() { super::Network::new().inside(|| super::$case(&mut super::Linux::new())); })*
        }
    };
}

contract!(
    what_is_put_there_is_there,
    elements_come_and_go,
    elements_of_intervals_come_and_go,
    an_element_changes_its_verdict,
    structure_is_patched,
    a_patched_program_is_a_replaced_one,
    drift_is_found,
    only_others_disturb,
    wrong_patches_change_nothing,
    wrong_programs_change_nothing,
    counts_are_kept,
    many_elements_at_once,
    remove_twice,
    odd_names_and_comments,
    other_tables_stay,
    jumps_are_as_deep_as_the_kernel_allows,
    without_a_table,
    a_guard_comes_and_goes,
    a_transition_is_its_patch_and_leaves_no_guard,
);

fn in_force(kernel: &mut impl Rig) -> InForce {
    kernel.read().unwrap().expect("there is a table")
}

/// Whether exactly this is in the sets.
#[track_caller]
fn assert_elements(kernel: &mut impl Rig, program: &Program) {
    let read = in_force(kernel).elements;
    let wanted: Vec<&Name> = program.sets.keys().collect();
    assert_eq!(read.keys().collect::<Vec<_>>(), wanted);
    for (name, set) in &program.sets {
        let (read, wanted) = (&read[name], &set.elements);
        assert!(read == wanted, "{name}: {:?}\nnot {:?}", some(read), some(wanted));
    }
}

fn some(elements: &Elements) -> Vec<(&Key, &Option<Verdict>)> {
    elements.iter().take(10).collect()
}

/// Takes the kernel and the program to the next.
#[track_caller]
fn step(kernel: &mut impl Rig, program: &mut Program, patch: &Patch) {
    kernel.patch(patch).unwrap();
    program.follow(patch).unwrap();
    assert_elements(kernel, program);
}

fn joins(set: &str, elements: Elements) -> Patch {
    Patch { join: [(name(set), elements)].into(), ..Patch::default() }
}

fn leaves(set: &str, elements: Elements) -> Patch {
    Patch { leave: [(name(set), elements)].into(), ..Patch::default() }
}

fn what_is_put_there_is_there(kernel: &mut impl Rig) {
    assert_eq!(kernel.read().unwrap(), None);
    let program = rich();
    kernel.replace(&program, &Counts::new()).unwrap();
    assert_elements(kernel, &program);
    let before = in_force(kernel);
    kernel.replace(&program, &Counts::new()).unwrap();
    assert_eq!(in_force(kernel), before);
    kernel.replace(&Program::default(), &Counts::new()).unwrap();
    assert_elements(kernel, &Program::default());
    assert_ne!(in_force(kernel).structure, before.structure);
}

fn elements_come_and_go(kernel: &mut impl Rig) {
    let mut program = rich();
    kernel.replace(&program, &Counts::new()).unwrap();
    let structure = in_force(kernel).structure;
    let patches = [
        joins("plain4", plain((10..20).map(|n| exact([v4(n)])))),
        leaves("plain4", plain((1..3).map(|n| exact([v4(n)])))),
        joins("plain6", plain([exact([address("2001:db8::2")]), exact([address("::")])])),
        joins("ports", plain([exact([number(17), number(65535)]), exact([number(132), number(1)])])),
        joins("names", plain([exact([interface("eth0"), v4(9)])])),
        leaves("names", plain([exact([interface("veth0"), v4(1)])])),
        joins("name", plain([exact([interface("a")])])),
        leaves("name", plain([exact([interface("fifteen-letters")])])),
        joins("kinds", plain([exact([number(255), number(255), number(0), number(0)])])),
        leaves("kinds", plain([exact([number(8), number(0), number(128), number(4)])])),
        joins(
            "to_pod",
            verdicts([(exact([v4(3)]), Verdict::Goto(name("pod_b"))), (exact([v4(4)]), Verdict::Return)]),
        ),
        leaves("to_pod", verdicts([(exact([v4(1)]), jump("pod_a"))])),
        Patch {
            leave: [
                (name("plain4"), plain([exact([v4(10)])])),
                (name("to_pod"), verdicts([(exact([v4(4)]), Verdict::Return)])),
            ]
            .into(),
            join: [
                (name("plain4"), plain([exact([v4(1)])])),
                (name("plain6"), plain([exact([address("2001:db8::3")])])),
            ]
            .into(),
            ..Patch::default()
        },
    ];
    for patch in patches {
        step(kernel, &mut program, &patch);
    }
    assert_eq!(in_force(kernel).structure, structure);
    assert!(!kernel.is_disturbed().unwrap());
}

fn elements_of_intervals_come_and_go(kernel: &mut impl Rig) {
    let mut program = rich();
    let port = |first, last| ranges([(number(first), number(last))]);
    let by_port = verdicts([
        (port(80, 90), Verdict::Accept),
        (port(91, 91), Verdict::Drop),
        (port(92, 100), jump("pod_a")),
    ]);
    program.sets.insert(name("by_port"), set(&[PORT], by_port));
    program.sets.insert(name("empty"), Set { interval: true, ..set(&[ADDRESS6], Elements::new()) });
    kernel.replace(&program, &Counts::new()).unwrap();
    let block = |first: &str, last: &str| ranges([(address(first), address(last))]);
    let cell = |first, last, from, to| {
        ranges([(address(first), address(last)), (number(6), number(6)), (number(from), number(to))])
    };
    let patches = [
        joins("blocks", plain([block("10.0.2.0", "10.0.3.255"), exact([address("10.0.4.0")])])),
        // Between others that stay, so that it is next to both.
        leaves("blocks", plain([block("10.0.1.0", "10.0.1.255")])),
        joins("blocks", plain([block("10.0.1.0", "10.0.1.127"), block("10.0.1.128", "10.0.1.255")])),
        leaves("blocks", plain([block("255.255.255.0", "255.255.255.255"), block("0.0.0.0", "0.0.0.7")])),
        joins("blocks", plain([block("255.255.255.254", "255.255.255.255"), exact([address("0.0.0.0")])])),
        leaves("by_port", verdicts([(port(91, 91), Verdict::Drop)])),
        joins(
            "by_port",
            verdicts([(port(91, 91), Verdict::Goto(name("pod_b"))), (port(0, 79), Verdict::Drop)]),
        ),
        joins("by_port", verdicts([(port(65535, 65535), Verdict::Drop)])),
        joins("empty", plain([block("2001:db8::", "2001:db8::ffff"), exact([address("::")])])),
        leaves("empty", plain([block("2001:db8::", "2001:db8::ffff"), exact([address("::")])])),
        joins("matrix", verdicts([(cell("2001:db8:1::", "2001:db8:1::ff", 1, 1023), jump("pod_a"))])),
        leaves(
            "matrix",
            verdicts([(cell("2001:db8::", "2001:db8::ff", 80, 90), Verdict::Goto(name("pod_b")))]),
        ),
        Patch {
            // Smaller, bigger and other verdicts, in one step.
            leave: [
                (name("blocks"), plain([block("10.0.0.0", "10.0.0.255")])),
                (
                    name("matrix"),
                    verdicts([(cell("2001:db8:1::", "2001:db8:1::ff", 1, 1023), jump("pod_a"))]),
                ),
            ]
            .into(),
            join: [
                (name("blocks"), plain([block("10.0.0.0", "10.0.0.15"), block("10.0.0.128", "10.0.0.255")])),
                (
                    name("matrix"),
                    verdicts([(cell("2001:db8:1::", "2001:db8:1::1ff", 1, 1023), Verdict::Drop)]),
                ),
            ]
            .into(),
            ..Patch::default()
        },
    ];
    for patch in patches {
        step(kernel, &mut program, &patch);
    }
    assert!(!kernel.is_disturbed().unwrap());
}

fn an_element_changes_its_verdict(kernel: &mut impl Rig) {
    let mut program = rich();
    kernel.replace(&program, &Counts::new()).unwrap();
    for (from, to) in [(jump("pod_a"), Verdict::Drop), (Verdict::Drop, Verdict::Goto(name("pod_b")))] {
        let patch = Patch {
            leave: [(name("to_pod"), verdicts([(exact([v4(1)]), from)]))].into(),
            join: [(name("to_pod"), verdicts([(exact([v4(1)]), to)]))].into(),
            ..Patch::default()
        };
        step(kernel, &mut program, &patch);
    }
}

/// The rich program with other rules, another pod, and without one of the old.
fn richer() -> Program {
    let mut program = rich();
    program.counters.remove("allowed");
    program.counters.insert(name("seen"));
    program.sets.remove("plain6");
    program.sets.remove("plain4");
    program.sets.remove("names");
    program.sets.insert(name("plain4b"), set(&[ADDRESS], plain((5..9).map(|n| exact([v4(n)])))));
    program.chains.remove("pod_b");
    let pod_c = vec![
        Rule::new([Match::In(vec![SOURCE], name("plain4b"))], Verdict::Accept),
        Rule::new([], Verdict::Reject),
    ];
    program.chains.insert(name("pod_c"), Chain { hook: None, rules: pod_c });
    let seen = Rule { counter: Some(name("seen")), ..Rule::new([], Verdict::Drop) };
    program.chains.insert(name("pod_a"), Chain { hook: None, rules: vec![seen] });
    let more = verdicts([(exact([v4(7)]), jump("pod_c")), (exact([v4(1)]), Verdict::Goto(name("pod_a")))]);
    program.sets.get_mut("to_pod").unwrap().elements = more;
    for verdict in program.sets.get_mut("matrix").unwrap().elements.values_mut() {
        *verdict = Some(jump("pod_c"));
    }
    let leads = set(&[PROTOCOL], verdicts([(exact([number(1)]), jump("pod_c"))]));
    program.sets.insert(name("by_protocol"), leads);
    let forward = program.chains.get_mut("forward").unwrap();
    forward.rules.truncate(3);
    forward.rules.push(Rule::new([], Verdict::Map(vec![Field::Protocol], name("by_protocol"))));
    let output = vec![Rule::new([Match::LoopbackOut], Verdict::Accept)];
    program.chains.insert(name("output"), Chain { hook: Some(Hook::Output), rules: output });
    program
}

fn structure_is_patched(kernel: &mut impl Rig) {
    let (one, two) = (rich(), richer());
    kernel.replace(&one, &Counts::new()).unwrap();
    let first = in_force(kernel);
    for _ in 0..3 {
        kernel.patch(&Patch::between(&one, &two)).unwrap();
        assert_elements(kernel, &two);
        assert_eq!(kernel.counts().unwrap().into_keys().collect::<Vec<_>>(), ["denied", "seen"]);
        kernel.patch(&Patch::between(&two, &one)).unwrap();
        assert_elements(kernel, &one);
        assert_eq!(in_force(kernel), first);
    }
    assert!(!kernel.is_disturbed().unwrap());
}

fn a_patched_program_is_a_replaced_one(kernel: &mut impl Rig) {
    let (one, two) = (rich(), richer());
    kernel.replace(&two, &Counts::new()).unwrap();
    let replaced = in_force(kernel);
    kernel.replace(&one, &Counts::new()).unwrap();
    kernel.patch(&Patch::between(&one, &two)).unwrap();
    let patched = in_force(kernel);
    assert_eq!(patched.structure, replaced.structure);
    assert_eq!(patched, replaced);
}

fn drift_is_found(kernel: &mut impl Rig) {
    let program = rich();
    kernel.replace(&program, &Counts::new()).unwrap();
    let whole = in_force(kernel);

    kernel.meddle(Meddling::Element("plain4", exact([v4(1)]), "10.0.0.1"));
    let read = in_force(kernel);
    assert_eq!(read.structure, whole.structure);
    assert_eq!(read.elements["plain4"].len(), whole.elements["plain4"].len() - 1);
    let gone = kernel.patch(&leaves("plain4", plain([exact([v4(1)])])));
    assert!(matches!(gone, Err(KernelError::Drifted(_))), "{gone:?}");

    kernel.meddle(Meddling::Rules("pod_a"));
    let read = in_force(kernel);
    assert_ne!(read.structure, whole.structure);

    kernel.meddle(Meddling::Table);
    assert_eq!(kernel.read().unwrap(), None);
    let gone = kernel.patch(&joins("plain4", plain([exact([v4(77)])])));
    assert!(matches!(gone, Err(KernelError::Drifted(_))), "{gone:?}");
    let gone = kernel.patch(&Patch::between(&program, &richer()));
    assert!(matches!(gone, Err(KernelError::Drifted(_))), "{gone:?}");

    kernel.replace(&program, &Counts::new()).unwrap();
    assert_eq!(in_force(kernel), whole);
}

fn only_others_disturb(kernel: &mut impl Rig) {
    let one = rich();
    assert!(!kernel.is_disturbed().unwrap());
    kernel.replace(&one, &Counts::new()).unwrap();
    kernel.patch(&joins("plain4", plain([exact([v4(50)])]))).unwrap();
    kernel.patch(&leaves("plain4", plain([exact([v4(50)])]))).unwrap();
    kernel.patch(&Patch::between(&one, &richer())).unwrap();
    kernel.patch(&Patch::between(&richer(), &one)).unwrap();
    let _ = kernel.patch(&leaves("plain4", plain([exact([v4(50)])])));
    kernel.read().unwrap();
    kernel.counts().unwrap();
    assert!(!kernel.is_disturbed().unwrap());
    kernel.meddle(Meddling::OtherTable);
    assert!(!kernel.is_disturbed().unwrap());
    kernel.meddle(Meddling::Element("plain4", exact([v4(1)]), "10.0.0.1"));
    // It is remembered, whatever we do meanwhile, and told once.
    kernel.patch(&joins("plain4", plain([exact([v4(50)])]))).unwrap();
    kernel.patch(&Patch::default()).unwrap();
    kernel.read().unwrap();
    assert!(kernel.is_disturbed().unwrap());
    assert!(!kernel.is_disturbed().unwrap());
    kernel.meddle(Meddling::Rules("pod_a"));
    assert!(kernel.is_disturbed().unwrap());
    kernel.meddle(Meddling::Table);
    kernel.replace(&one, &Counts::new()).unwrap();
    assert!(kernel.is_disturbed().unwrap());
    kernel.remove().unwrap();
    assert!(!kernel.is_disturbed().unwrap());
}

#[derive(Debug, PartialEq, Eq)]
enum Sort {
    Drifted,
    Refused,
    Other(String),
}

fn sort(result: Result<(), KernelError>) -> Option<Sort> {
    match result {
        Ok(()) => None,
        Err(KernelError::Drifted(_)) => Some(Sort::Drifted),
        Err(KernelError::Refused(_)) => Some(Sort::Refused),
        Err(other) => Some(Sort::Other(other.to_string())),
    }
}

/// What goes with a patch goes at the latest now.
fn at_last(kernel: &mut impl Rig, patch: &Patch) -> Result<(), KernelError> {
    kernel.patch(patch)?;
    kernel.tidy()
}

fn wrong_patches_change_nothing(kernel: &mut impl Rig) {
    let program = rich();
    kernel.replace(&program, &Counts::new()).unwrap();
    let before = in_force(kernel);
    let chain = |rules: Vec<Rule>| Chain { hook: None, rules };
    let chains =
        |name_: &str, rules| Patch { changed: [(name(name_), chain(rules))].into(), ..Patch::default() };
    let mut cases: Vec<(&str, Patch, Sort)> = vec![
        ("an element that is there", joins("plain4", plain([exact([v4(1)])])), Sort::Drifted),
        ("an element that is not", leaves("plain4", plain([exact([v4(99)])])), Sort::Drifted),
        ("another verdict", joins("to_pod", verdicts([(exact([v4(1)]), Verdict::Drop)])), Sort::Drifted),
        ("no such set", joins("nowhere", plain([exact([v4(1)])])), Sort::Drifted),
        ("no such chain", joins("to_pod", verdicts([(exact([v4(9)]), jump("nowhere"))])), Sort::Drifted),
        ("a base chain", joins("to_pod", verdicts([(exact([v4(9)]), jump("input"))])), Sort::Refused),
        ("another family", joins("plain4", plain([exact([address("::1")])])), Sort::Refused),
        ("too many fields", joins("plain4", plain([exact([v4(9), v4(9)])])), Sort::Refused),
        ("a range", joins("plain4", plain([ranges([(v4(8), v4(9))])])), Sort::Refused),
        ("a verdict in a set", joins("plain4", verdicts([(exact([v4(9)]), Verdict::Drop)])), Sort::Refused),
        ("no verdict in a map", joins("to_pod", plain([exact([v4(9)])])), Sort::Refused),
        (
            "an interval in another",
            joins("blocks", plain([ranges([(address("10.0.0.4"), address("10.0.0.9"))])])),
            Sort::Drifted,
        ),
        (
            "an interval around another",
            joins("blocks", plain([ranges([(address("9.0.0.0"), address("10.9.9.9"))])])),
            Sort::Drifted,
        ),
        (
            "half of an interval",
            leaves("blocks", plain([ranges([(address("10.0.0.0"), address("10.0.0.9"))])])),
            Sort::Drifted,
        ),
        (
            "a cell in another",
            joins(
                "matrix",
                verdicts([(
                    ranges([
                        (address("2001:db8::4"), address("2001:db8::5")),
                        (number(6), number(6)),
                        (number(81), number(82)),
                    ]),
                    Verdict::Drop,
                )]),
            ),
            Sort::Drifted,
        ),
        ("a rule to nowhere", chains("pod_a", vec![Rule::new([], jump("nowhere"))]), Sort::Drifted),
        (
            "a set from nowhere",
            chains("pod_a", vec![Rule::new([Match::In(vec![SOURCE], name("nowhere"))], Verdict::Drop)]),
            Sort::Drifted,
        ),
        (
            "a counter from nowhere",
            chains("pod_a", vec![Rule { counter: Some(name("nowhere")), ..Rule::new([], Verdict::Drop) }]),
            Sort::Drifted,
        ),
        ("a circle", chains("pod_a", vec![Rule::new([], jump("pod_a"))]), Sort::Refused),
        ("no such chain changes", chains("nowhere", vec![Rule::new([], Verdict::Drop)]), Sort::Drifted),
        (
            "a chain twice",
            Patch { chains: [(name("pod_a"), chain(Vec::new()))].into(), ..Patch::default() },
            Sort::Drifted,
        ),
        (
            "another hook",
            Patch {
                changed: [(name("input"), Chain { hook: Some(Hook::Output), rules: Vec::new() })].into(),
                ..Patch::default()
            },
            Sort::Refused,
        ),
        ("a counter twice", Patch { counters: [name("denied")].into(), ..Patch::default() }, Sort::Drifted),
        (
            "a set twice",
            Patch { sets: [(name("plain4"), program.sets["plain4"].clone())].into(), ..Patch::default() },
            Sort::Drifted,
        ),
        (
            "a chain in use goes",
            Patch { no_chains: [name("pod_a")].into(), ..Patch::default() },
            Sort::Refused,
        ),
        ("a set in use goes", Patch { no_sets: [name("plain4")].into(), ..Patch::default() }, Sort::Refused),
        ("a map in use goes", Patch { no_sets: [name("to_pod")].into(), ..Patch::default() }, Sort::Refused),
        (
            "a counter in use goes",
            Patch { no_counters: [name("denied")].into(), ..Patch::default() },
            Sort::Refused,
        ),
        (
            "no such chain goes",
            Patch { no_chains: [name("nowhere")].into(), ..Patch::default() },
            Sort::Drifted,
        ),
        ("no such set goes", Patch { no_sets: [name("nowhere")].into(), ..Patch::default() }, Sort::Drifted),
        (
            "no such counter goes",
            Patch { no_counters: [name("nowhere")].into(), ..Patch::default() },
            Sort::Drifted,
        ),
    ];
    // The same among much that is right.
    let mut much = joins("plain4", plain((1000..4000).map(|n| exact([v4(n)]))));
    much.join.get_mut("plain4").unwrap().insert(exact([v4(2)]), None);
    cases.push(("one of many is there", much, Sort::Drifted));
    let mut half = Patch::between(&program, &richer());
    half.leave.insert(name("ports"), plain([exact([number(6), number(99)])]));
    cases.push(("most of it is right", half, Sort::Drifted));
    for (what, patch, wanted) in cases {
        assert_eq!(sort(at_last(kernel, &patch)), Some(wanted), "{what}");
        assert_eq!(in_force(kernel), before, "{what}");
    }
    assert!(!kernel.is_disturbed().unwrap());
    // And it is still good for what is right.
    kernel.patch(&Patch::between(&program, &richer())).unwrap();
    assert_elements(kernel, &richer());
}

fn wrong_programs_change_nothing(kernel: &mut impl Rig) {
    let program = rich();
    kernel.replace(&program, &Counts::new()).unwrap();
    let before = in_force(kernel);
    let mut cases = Vec::new();
    let mut wrong = rich();
    wrong.chains.remove("pod_a");
    cases.push(("no such chain", wrong));
    let mut wrong = rich();
    wrong.sets.remove("plain4");
    cases.push(("no such set", wrong));
    let mut wrong = rich();
    wrong.counters.clear();
    cases.push(("no such counter", wrong));
    let mut wrong = rich();
    wrong.sets.get_mut("plain4").unwrap().elements.insert(exact([address("::1")]), None);
    cases.push(("another family", wrong));
    let mut wrong = rich();
    wrong.sets.get_mut("blocks").unwrap().elements.insert(exact([address("10.0.0.7")]), None);
    cases.push(("overlap", wrong));
    let mut wrong = rich();
    wrong.chains.get_mut("pod_a").unwrap().rules.push(Rule::new([], jump("pod_a")));
    cases.push(("a circle", wrong));
    for (what, wrong) in cases {
        assert_eq!(sort(kernel.replace(&wrong, &Counts::new())), Some(Sort::Refused), "{what}");
        assert_eq!(in_force(kernel), before, "{what}");
    }
}

fn counts_are_kept(kernel: &mut impl Rig) {
    assert_eq!(kernel.counts().unwrap(), Counts::new());
    let mut program = Program::default();
    program.counters.extend(["a", "b", "c"].map(name));
    kernel.replace(&program, &Counts::new()).unwrap();
    let none = Count::default();
    assert_eq!(kernel.counts().unwrap(), ["a", "b", "c"].map(|counter| (name(counter), none)).into());
    kernel.count("a", 7, 700);
    kernel.count("b", u64::from(u32::MAX) + 1, u64::MAX / 2);
    let counts = kernel.counts().unwrap();
    assert_eq!(counts["a"], Count { packets: 7, bytes: 700 });
    assert_eq!(counts["b"], Count { packets: 1 << 32, bytes: u64::MAX / 2 });
    program.counters.remove("c");
    program.counters.insert(name("d"));
    kernel.replace(&program, &counts).unwrap();
    let kept = kernel.counts().unwrap();
    assert_eq!(kept, [(name("a"), counts["a"]), (name("b"), counts["b"]), (name("d"), none)].into());
    kernel
        .patch(&Patch { counters: [name("e")].into(), no_counters: [name("a")].into(), ..Patch::default() })
        .unwrap();
    assert_eq!(
        kernel.counts().unwrap(),
        [(name("b"), counts["b"]), (name("d"), none), (name("e"), none)].into()
    );
}

fn many_elements_at_once(kernel: &mut impl Rig) {
    let mut program = rich();
    let many = |from: u32| plain((from..from + 100_000).map(|n| exact([v4(n), number(6), number(80)])));
    program.sets.insert(name("many"), set(&[ADDRESS, PROTOCOL, PORT], many(0)));
    kernel.replace(&program, &Counts::new()).unwrap();
    assert_elements(kernel, &program);
    step(kernel, &mut program, &joins("many", many(100_000)));
    step(kernel, &mut program, &leaves("many", many(0)));
    let both = Patch {
        leave: [(name("many"), many(100_000))].into(),
        join: [(name("many"), many(300_000))].into(),
        ..Patch::default()
    };
    step(kernel, &mut program, &both);
    assert!(!kernel.is_disturbed().unwrap());
}

fn remove_twice(kernel: &mut impl Rig) {
    assert!(!kernel.remove().unwrap());
    kernel.replace(&rich(), &Counts::new()).unwrap();
    assert!(kernel.remove().unwrap());
    assert!(!kernel.remove().unwrap());
    assert_eq!(kernel.read().unwrap(), None);
    assert_eq!(kernel.counts().unwrap(), Counts::new());
    assert!(!kernel.is_disturbed().unwrap());
}

fn odd_names_and_comments(kernel: &mut impl Rig) {
    let comments = [
        "quotes \" and \\ and '".to_owned(),
        "lines\nand\ttabs\rand\0zeros".to_owned(),
        "ends in a backslash \\".to_owned(),
        "ü ß 漢字 🦀 \u{202e}".to_owned(),
        "# no comment; } drop".to_owned(),
        "$variable @set *".to_owned(),
        "漢".repeat(500),
        "x".repeat(128),
        String::new(),
        "\t}\n\tchain forged {".to_owned(),
    ];
    let mut program = Program::default();
    let names = ["x", "a_b", "A9", "with.dots", "with/slashes", "in_0123456789abcdef"];
    for (n, text) in names.into_iter().map(str::to_owned).chain([format!("l{}", "o".repeat(120))]).enumerate()
    {
        let chain = |comment: &String| Rule::new([], Verdict::Accept).comment(comment);
        let rules = comments.iter().map(chain).collect();
        program.chains.insert(name(&format!("c{text}")), Chain { hook: None, rules });
        let comment = comments[n].clone();
        let one = set(&[ADDRESS], plain([exact([v4(1)])]));
        program.sets.insert(name(&format!("s{text}")), Set { comment, ..one });
        program.counters.insert(name(&format!("n{text}")));
    }
    kernel.replace(&program, &Counts::new()).unwrap();
    assert_elements(kernel, &program);
    let before = in_force(kernel);
    assert_eq!(kernel.counts().unwrap().len(), program.counters.len());
    // The same, piece by piece.
    kernel.replace(&Program::default(), &Counts::new()).unwrap();
    kernel.patch(&Patch::between(&Program::default(), &program)).unwrap();
    assert_eq!(in_force(kernel), before);
    step(kernel, &mut program, &joins("swith.dots", plain([exact([v4(2)])])));
    kernel.patch(&Patch::between(&program, &Program::default())).unwrap();
    assert_elements(kernel, &Program::default());
    // Interfaces may be called nearly anything.
    let odd = ["eth0.100", "a*", "*", "a-b@c", "veth%d", "ü"];
    let interfaces = plain(odd.iter().map(|odd| exact([interface(odd), number(6)])));
    let mut program = Program::default();
    program.sets.insert(name("odd"), set(&[FieldType::Interface, PROTOCOL], Elements::new()));
    kernel.replace(&program, &Counts::new()).unwrap();
    step(kernel, &mut program, &joins("odd", interfaces));
    kernel.replace(&program, &Counts::new()).unwrap();
    assert_elements(kernel, &program);
}

fn other_tables_stay(kernel: &mut impl Rig) {
    kernel.replace(&rich(), &Counts::new()).unwrap();
    kernel.meddle(Meddling::OtherTable);
    let before = kernel.others();
    kernel.patch(&Patch::between(&rich(), &richer())).unwrap();
    kernel.replace(&rich(), &Counts::new()).unwrap();
    assert_elements(kernel, &rich());
    kernel.remove().unwrap();
    assert_eq!(kernel.read().unwrap(), None);
    assert_eq!(kernel.counts().unwrap(), Counts::new());
    assert_eq!(kernel.others(), before);
}

fn jumps_are_as_deep_as_the_kernel_allows(kernel: &mut impl Rig) {
    let deep = |chains: usize| {
        let mut program = Program::default();
        let at = |n: usize| name(&format!("c{n}"));
        for n in 0..chains {
            let rules =
                if n + 1 < chains { vec![Rule::new([], Verdict::Jump(at(n + 1)))] } else { Vec::new() };
            let hook = (n == 0).then_some(Hook::Input);
            program.chains.insert(at(n), Chain { hook, rules });
        }
        program
    };
    kernel.replace(&deep(16), &Counts::new()).unwrap();
    assert_eq!(sort(kernel.replace(&deep(17), &Counts::new())), Some(Sort::Refused));
}

fn without_a_table(kernel: &mut impl Rig) {
    assert_eq!(kernel.read().unwrap(), None);
    assert_eq!(kernel.counts().unwrap(), Counts::new());
    assert_eq!(sort(kernel.patch(&Patch::default())), None);
    let patches = [
        joins("s", plain([exact([v4(1)])])),
        Patch { counters: [name("n")].into(), ..Patch::default() },
        Patch::between(&Program::default(), &rich()),
        Patch { no_chains: [name("c")].into(), ..Patch::default() },
    ];
    for patch in patches {
        assert_eq!(sort(at_last(kernel, &patch)), Some(Sort::Drifted), "{patch:?}");
    }
    assert_eq!(kernel.read().unwrap(), None);
}

fn a_guard_comes_and_goes(kernel: &mut impl Rig) {
    kernel.drop_guard().unwrap();
    assert!(!kernel.is_guarded() && !kernel.has_guard().unwrap());
    kernel.replace(&rich(), &Counts::new()).unwrap();
    assert!(!kernel.is_guarded(), "replacing leaves none");
    let before = in_force(kernel);
    // With sets of ranges and without; the second takes the place of the first.
    for guard in [
        rich().guard(&Scope::Everything),
        rich().guard(&Scope::Between([std::net::IpAddr::from([10, 0, 0, 1])].into())),
    ] {
        assert!(guard.counters.is_empty() && guard.dangling().is_none());
        kernel.raise_guard(&guard).unwrap();
        assert!(kernel.is_guarded() && kernel.has_guard().unwrap());
    }
    assert!(!kernel.is_disturbed().unwrap(), "it is ours");
    assert_eq!(in_force(kernel), before);
    kernel.drop_guard().unwrap();
    kernel.drop_guard().unwrap();
    assert!(!kernel.is_guarded() && !kernel.is_disturbed().unwrap());
    assert_eq!(in_force(kernel), before);
    let mut wrong = rich().guard(&Scope::Everything);
    wrong
        .chains
        .values_mut()
        .for_each(|chain| chain.rules.push(Rule::new([], Verdict::Goto(name("nowhere")))));
    assert_eq!(sort(kernel.raise_guard(&wrong)), Some(Sort::Refused));
    assert!(!kernel.is_guarded());
    kernel.raise_guard(&rich().guard(&Scope::Everything)).unwrap();
    assert!(kernel.remove().unwrap());
    assert!(!kernel.is_guarded() && !kernel.has_guard().unwrap(), "what is removed is removed whole");
}

fn a_transition_is_its_patch_and_leaves_no_guard(kernel: &mut impl Rig) {
    let (one, two) = (rich(), richer());
    kernel.replace(&one, &Counts::new()).unwrap();
    let transition = Transition::between(&one, &two);
    assert!(transition.guard.is_some());
    kernel.transition(&transition).unwrap();
    assert_elements(kernel, &two);
    assert!(!kernel.is_guarded());
    // What does not fit changes nothing, and leaves nothing either.
    let before = in_force(kernel);
    assert_eq!(sort(kernel.transition(&transition)), Some(Sort::Drifted));
    assert_eq!(in_force(kernel), before);
    assert!(!kernel.is_guarded());
    kernel.transition(&Transition::default()).unwrap();
    kernel.transition(&Transition::from(Patch::between(&two, &one))).unwrap();
    assert_elements(kernel, &one);
}
