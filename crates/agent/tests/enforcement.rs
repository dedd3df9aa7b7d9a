//! Enforcing, over a kernel in memory: what is written when, and what happens when it is not taken.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod recording_kernel;
#[path = "../../engine/tests/written/mod.rs"]
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_agent::{Enforcement, Remembered, Wrote};
use palisade_nftables::guard::Scope;
use palisade_nftables::kernel::{Connection, Count, Kernel, KernelError};
use palisade_nftables::program::{Chain, Program, TCP};

use recording_kernel::{RecordingKernel, connection};
use written::Followed;

const PODS: &str = "\
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: web, labels: {app: web}}
spec: {nodeName: n1}
status: {podIP: 10.0.0.1}
---
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: db, labels: {app: db}}
spec: {nodeName: n1}
status: {podIP: 10.0.0.2}
";

fn policy(from: &str, port: u16) -> String {
    format!(
        "{PODS}---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{namespace: shop, name: db}}
spec: {{podSelector: {{matchLabels: {{app: db}}}}, ingress: [{{from: [{{podSelector: {{matchLabels: {{app: {from}}}}}}}], ports: [{{port: {port}}}]}}]}}
"
    )
}

fn own() -> BTreeSet<IpAddr> {
    BTreeSet::from(["192.0.2.1".parse().unwrap()])
}

fn begin(
    text: &str,
    kernel: RecordingKernel,
    remembered: Option<&Remembered>,
) -> (Followed, Enforcement<RecordingKernel>, Wrote) {
    let mut source = Followed::default();
    source.take(text, "n1");
    let part = source.view.part_of("n1");
    let (force, done) = Enforcement::begin(part, "n1", BTreeMap::new(), own(), kernel, remembered);
    assert!(done.failed.is_none(), "{done:?}");
    (source, force, done.wrote)
}

fn in_force(force: &mut Enforcement<RecordingKernel>) -> Program {
    force.kernel().fake.program().cloned().unwrap()
}

/// Until the kernel may be asked what the table is.
fn quiet() {
    std::thread::sleep(std::time::Duration::from_millis(520));
}

fn busy() -> KernelError {
    KernelError::Busy("no room".to_owned())
}

#[test]
fn the_first_program_is_written_once_and_the_next_enforcer_leaves_it() {
    let (_, mut force, wrote) = begin(&policy("web", 80), RecordingKernel::default(), None);
    assert_eq!(wrote, Wrote::Replace);
    assert_eq!(in_force(&mut force), *force.live().program());
    assert!(force.remembered().is_none(), "nobody has asked the kernel yet");
    force.settle();
    let remembered = force.remembered().unwrap();
    let kernel =
        RecordingKernel { fake: std::mem::take(&mut force.kernel().fake), ..RecordingKernel::default() };
    let (_, mut next, wrote) = begin(&policy("web", 80), kernel, Some(&remembered));
    assert_eq!(wrote, Wrote::Nothing);
    assert_eq!((next.kernel().replaced.len(), next.kernel().patched), (0, 0));
    assert_eq!(next.remembered(), Some(remembered));
}

/// An enforcer that is killed during a change leaves its guard, which would go on refusing what is allowed since.
#[test]
fn the_guard_of_one_that_was_killed_goes_when_the_next_begins() {
    let (_, mut force, _) = begin(&policy("web", 80), RecordingKernel::default(), None);
    force.settle();
    let remembered = force.remembered().unwrap();
    for remembered in [Some(&remembered), None] {
        let mut kernel =
            RecordingKernel { fake: std::mem::take(&mut force.kernel().fake), ..RecordingKernel::default() };
        let guard = kernel.fake.program().unwrap().guard(&Scope::Everything);
        kernel.raise_guard(&guard).unwrap();
        let (_, next, wrote) = begin(&policy("web", 80), kernel, remembered);
        force = next;
        assert_eq!(wrote, if remembered.is_some() { Wrote::Nothing } else { Wrote::Replace });
        assert_eq!(force.kernel().fake.guard(), None);
    }
}

/// What one end of a connection loses and the other gains is changed behind a guard, which is gone afterwards.
#[test]
fn a_change_of_both_directions_leaves_no_guard() {
    let both = |egress: &str, ingress: &str| {
        format!(
            "{PODS}---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{namespace: shop, name: all}}, spec: \
             {{podSelector: {{}}, policyTypes: [Ingress, Egress], egress: [{egress}], ingress: [{ingress}]}}}}\n"
        )
    };
    let (mut source, mut force, _) =
        begin(&both("{}", "{ports: [{port: 80}]}"), RecordingKernel::default(), None);
    let deltas = source.take(&both("{ports: [{port: 80}]}", "{}"), "n1");
    let done = force.follow(&deltas).unwrap();
    assert_eq!((done.wrote, force.kernel().guarded), (Wrote::Patch, 1));
    assert_eq!(force.kernel().fake.guard(), None);
    assert_eq!(in_force(&mut force), *force.live().program());
}

#[test]
fn whatever_is_not_what_is_wanted_is_replaced_at_once_and_keeps_its_counts() {
    let (_, mut force, _) = begin(&policy("web", 80), RecordingKernel::default(), None);
    force.settle();
    let remembered = force.remembered().unwrap();
    let counter = force.live().program().counters.first().unwrap().clone();
    let mut kernel =
        RecordingKernel { fake: std::mem::take(&mut force.kernel().fake), ..RecordingKernel::default() };
    kernel.fake.count(&counter, 7, 420);
    // Somebody took an element while nobody watched.
    kernel.fake.disturb(|program| {
        for set in program.as_mut().unwrap().sets.values_mut() {
            set.elements.clear();
        }
    });
    let (_, mut next, wrote) = begin(&policy("web", 80), kernel, Some(&remembered));
    assert_eq!(wrote, Wrote::Replace);
    assert_eq!(in_force(&mut next), *next.live().program());
    assert_eq!(next.kernel().replaced[0][&counter], Count { packets: 7, bytes: 420 });
    assert!(next.counts().values().any(|count| count.packets == 7));
    // And so is a table that nobody remembers.
    let kernel =
        RecordingKernel { fake: std::mem::take(&mut next.kernel().fake), ..RecordingKernel::default() };
    assert_eq!(begin(&policy("web", 80), kernel, None).2, Wrote::Replace);
}

#[test]
fn changes_are_one_patch_each() {
    let (mut source, mut force, _) = begin(&policy("web", 80), RecordingKernel::default(), None);
    for text in [policy("web", 81), policy("nobody", 81), PODS.to_owned(), policy("web", 80)] {
        let before = force.kernel().patched;
        let deltas = source.take(&text, "n1");
        let done = force.follow(&deltas).unwrap();
        assert_eq!((done.wrote, done.failed.is_none()), (Wrote::Patch, true));
        assert_eq!(force.kernel().patched, before + 1);
        assert_eq!(in_force(&mut force), *force.live().program());
    }
    let done = force.follow(&[]).unwrap();
    assert_eq!(done.wrote, Wrote::Nothing);
}

#[test]
fn a_busy_kernel_is_asked_again_and_a_table_that_is_another_is_replaced() {
    let (mut source, mut force, _) = begin(&policy("web", 80), RecordingKernel::default(), None);
    force.kernel().fake.fail([busy(), busy()]);
    let deltas = source.take(&policy("web", 81), "n1");
    assert_eq!(force.follow(&deltas).unwrap().wrote, Wrote::Patch);
    assert_eq!(force.figures.failures["busy"], 2);
    force.kernel().fake.disturb(|program| *program = None);
    let deltas = source.take(&policy("web", 82), "n1");
    let done = force.follow(&deltas).unwrap();
    assert_eq!((done.wrote, done.failed.is_none()), (Wrote::Replace, true));
    assert_eq!((force.figures.failures["drifted"], force.figures.repairs), (1, 1));
    assert_eq!(in_force(&mut force), *force.live().program());
}

#[test]
fn what_was_in_force_stays_when_nothing_works_and_the_next_change_replaces_all() {
    let (mut source, mut force, _) = begin(&policy("web", 80), RecordingKernel::default(), None);
    let before = in_force(&mut force);
    force.kernel().fake.fail((0..40).map(|_| busy()));
    let deltas = source.take(&policy("web", 81), "n1");
    let done = force.follow(&deltas).unwrap();
    assert!(matches!(done.failed, Some(KernelError::Busy(_))), "{done:?}");
    assert_eq!(in_force(&mut force), before);
    assert!(force.behind().is_some() && force.remembered().is_none());
    // The kernel has room again.
    while force.kernel().fake.counts().is_err() {}
    let deltas = source.take(&policy("web", 82), "n1");
    let done = force.follow(&deltas).unwrap();
    assert_eq!((done.wrote, done.failed.is_none()), (Wrote::Replace, true));
    assert_eq!(in_force(&mut force), *force.live().program());
    assert!(force.behind().is_none());
}

#[test]
fn a_timer_tries_again_too() {
    let (mut source, mut force, _) = begin(&policy("web", 80), RecordingKernel::default(), None);
    force.kernel().fake.fail([KernelError::Forbidden("no".to_owned())]);
    let deltas = source.take(&policy("web", 81), "n1");
    let done = force.follow(&deltas).unwrap();
    assert!(matches!(done.failed, Some(KernelError::Forbidden(_))));
    quiet();
    let (done, repaired) = force.repair();
    assert_eq!((done.wrote, repaired), (Wrote::Replace, None));
    assert_eq!(in_force(&mut force), *force.live().program());
}

#[test]
fn connections_that_a_change_denies_are_cut_and_others_are_not() {
    let (mut source, mut force, _) = begin(PODS, RecordingKernel::default(), None);
    let (denied, allowed) =
        (connection(TCP, "10.0.0.9", "10.0.0.2", 80), connection(TCP, "10.0.0.1", "10.0.0.2", 80));
    let (node, other) =
        (connection(TCP, "192.0.2.1", "10.0.0.2", 80), connection(TCP, "10.0.0.9", "10.0.0.1", 80));
    let all = [denied, allowed, node, other];
    for one in all {
        force.kernel().fake.connect(one);
    }
    let deltas = source.take(&policy("web", 80), "n1");
    let done = force.follow(&deltas).unwrap();
    assert_eq!((done.cut, force.figures.cut), (1, 1));
    let left = force.kernel().fake.connections().unwrap();
    let expected: BTreeSet<Connection> = [allowed, node, other].into();
    assert_eq!(left.into_iter().collect::<BTreeSet<_>>(), expected);
    // What was on its way while we looked is found the next time.
    force.kernel().fake.connect(denied);
    assert_eq!(force.repair().0.cut, 1);
    assert_eq!(force.repair().0.cut, 0);
}

#[test]
fn cutting_that_fails_is_tried_again() {
    let (mut source, mut force, _) = begin(PODS, RecordingKernel::default(), None);
    force.repair();
    let denied = connection(TCP, "10.0.0.9", "10.0.0.2", 80);
    force.kernel().fake.connect(denied);
    let deltas = source.take(&policy("web", 80), "n1");
    let patch = [KernelError::Busy("once".to_owned())];
    force.kernel().fake.fail(patch);
    // The patch works the second time; whoever lists connections is out of luck until later.
    let done = force.follow(&deltas).unwrap();
    assert_eq!((done.wrote, done.cut), (Wrote::Patch, 1));
    force.kernel().fake.connect(denied);
    // One for the look at the table, one for the connections.
    let missing = || KernelError::Missing("no conntrack".to_owned());
    force.kernel().fake.fail([missing(), missing()]);
    let (done, _) = force.repair();
    assert!(done.uncut.is_some() && done.cut == 0, "{done:?}");
    assert_eq!(force.repair().0.cut, 1);
}

#[test]
fn what_cannot_close_anything_does_not_even_list_connections() {
    let (mut source, mut force, _) = begin(&policy("web", 80), RecordingKernel::default(), None);
    force.repair();
    let before = force.kernel().listed;
    let deltas = source.take(&format!("# The same, further down.\n{}", policy("web", 80)), "n1");
    force.follow(&deltas).unwrap();
    force.tidy();
    force.repair();
    assert_eq!(force.kernel().listed, before);
}

#[test]
fn somebody_elses_changes_are_undone() {
    let (_, mut force, _) = begin(&policy("web", 80), RecordingKernel::default(), None);
    force.settle();
    assert!(force.remembered().is_some());
    assert_eq!(force.repair().1, None);
    let counter = force.live().program().counters.first().unwrap().clone();
    force.kernel().fake.count(&counter, 3, 99);
    force.counts();
    type Change = fn(&mut Option<Program>);
    let changes: [(&str, Change); 3] = [
        ("gone", |program| *program = None),
        ("chains", |program| {
            program.as_mut().unwrap().chains.insert("mine".into(), Chain::default());
        }),
        ("elements", |program| {
            let sets = &mut program.as_mut().unwrap().sets;
            sets.values_mut().for_each(|set| set.elements.clear());
        }),
    ];
    for (at, (what, change)) in changes.into_iter().enumerate() {
        force.kernel().fake.disturb(change);
        let (done, repaired) = force.repair();
        assert!(repaired.is_some_and(|why| why.contains(what)), "{what}: {repaired:?}");
        assert_eq!(done.wrote, Wrote::Replace);
        assert_eq!(in_force(&mut force), *force.live().program());
        assert_eq!(force.figures.repairs, at as u64 + 1);
        assert!(force.counts().values().any(|count| count.packets == 3), "counts are carried over: {what}");
        assert_eq!(force.repair().1, None);
    }
    // A change of somebody's own table is none of our business.
    force.kernel().fake.disturb(|_| {});
    assert_eq!(force.repair().1, None);
}

#[test]
fn what_is_changed_before_we_have_looked_is_undone_too() {
    let (_, mut force, _) = begin(&policy("web", 80), RecordingKernel::default(), None);
    force.kernel().fake.disturb(|program| {
        program.as_mut().unwrap().chains.insert("mine".into(), Chain::default());
    });
    let (done, repaired) = force.repair();
    assert!(repaired.is_some() && done.wrote == Wrote::Replace);
    assert_eq!(in_force(&mut force), *force.live().program());
    assert!(
        force.remembered().is_some(),
        "so that whoever changes tables all the time does not have us replace ours"
    );
}

#[test]
fn another_part_takes_the_place_of_the_one_there_was() {
    let (mut source, mut force, _) = begin(&policy("web", 80), RecordingKernel::default(), None);
    source.take(&policy("web", 81), "n1");
    let later = source.take(&policy("web", 82), "n1");
    // One is missing in between.
    assert!(force.follow(&later).is_err());
    let done =
        force.anew(source.view.part_of("n1"), "n1", force.live().wiring().clone(), force.own().clone());
    assert!(done.failed.is_none() && done.wrote != Wrote::Nothing);
    assert_eq!(in_force(&mut force), *force.live().program());
}

#[test]
fn odd_names_of_policies_are_counted_under_their_names() {
    let text = policy("web", 80).replace("name: db}\nspec: {pod", "name: db.x-9}\nspec: {pod");
    let (_, mut force, _) = begin(&text, RecordingKernel::default(), None);
    let policies: BTreeSet<String> = force.counts().into_keys().map(|decider| decider.policy).collect();
    assert_eq!(policies, BTreeSet::from(["NetworkPolicy shop/db.x-9".to_owned()]));
}
