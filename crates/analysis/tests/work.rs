//! Answers that would take too much work: whatever the limit, what is said is so, and what is not said is named.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::ControlFlow;

use palisade_analysis::diff::{ChangeFilter, Diff, DiffFindings};
use palisade_analysis::map::{self, Level, Map, MapPeer, connections};
use palisade_analysis::query::{Assertion, Query, answer};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_analysis::work::Work;
use palisade_dialects::load::load;
use palisade_dialects::source::{Limits, Source};
use palisade_dialects::world::World;
use palisade_model::address::Family;
use palisade_model::options::Options;
use palisade_model::snapshot::{Objects, Snapshot};

/// Limits from more than enough to nothing.
fn limits() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(40_000_000), |limit| (*limit > 0).then(|| limit - limit / 64 - 1))
}

/// Pods with a label each, and policies for all but some of them, with ports that overlap.
fn objects(policies: usize) -> Objects {
    let mut text = String::new();
    for pod in 0..12 {
        let _ = write!(
            text,
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{pod}, namespace: d, labels: {{a: '{pod}'}}}}\n\
             status: {{podIP: 10.0.0.{}}}\n---\n",
            pod + 1
        );
    }
    for at in 0..policies {
        let but = |at: usize| {
            format!("{{matchExpressions: [{{key: a, operator: NotIn, values: ['{}']}}]}}", at % 12)
        };
        let _ = write!(
            text,
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: n{at}, namespace: d}}\n\
             spec: {{podSelector: {}, policyTypes: [Ingress, Egress], \
             ingress: [{{from: [{{podSelector: {}}}], ports: [{{port: {}, endPort: {}}}]}}], \
             egress: [{{to: [{{podSelector: {}}}, {{ipBlock: {{cidr: 203.0.{at}.0/24}}}}], ports: [{{port: {}}}]}}]}}\n---\n",
            but(at),
            but(at * 3),
            at + 1,
            at * 5 + 20,
            but(at * 5),
            at * 2 + 1
        );
    }
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("work.yaml", text), &Limits::default(), &mut world, &mut found);
    assert!(found.is_empty(), "{found:?}");
    world.into_objects()
}

/// Rows in words, and the names of the workloads that are told of.
fn rows(map: &Map<'_>, cuts: &Cuts, cells: &mut Cells) -> (BTreeMap<(String, String), String>, bool) {
    let select = map::RowFilter { families: vec![Family::V4], ..map::RowFilter::default() };
    let mut rows = BTreeMap::new();
    let told = map.rows(&select, cuts, cells, |cells, row| {
        let end = |peer: MapPeer| match peer {
            MapPeer::Workload(at) => map.workloads[at].name.to_string(),
            other => format!("{other:?}"),
        };
        let said = connections(row.entry.allowed, cells).to_string();
        rows.insert((end(row.source), end(row.destination)), said);
        ControlFlow::Continue(())
    });
    let ControlFlow::Continue(told) = told else { panic!("nobody stops") };
    (rows, told.left_out == 0)
}

#[test]
fn a_map_says_nothing_wrong_and_names_whom_it_leaves_out() {
    let (snapshot, options) = (Snapshot::new(objects(20)), Options::default());
    let cuts = Cuts::of([&snapshot]);
    let (mut whole, mut partial) = (BTreeMap::new(), 0);
    for limit in limits() {
        let mut cells = Cells::limited(cuts.space().clone(), Work::new(limit));
        let map = Map::new(&snapshot, &options, Level::Workloads, &cuts, &mut cells);
        let (rows, complete) = rows(&map, &cuts, &mut cells);
        assert_eq!(map.workloads.len() + map.left_out.len(), 12, "with {limit} steps");
        if whole.is_empty() {
            assert!(complete && map.left_out.is_empty(), "{limit} steps are enough");
            whole = rows;
            continue;
        }
        let left_out: BTreeSet<String> = map.left_out.iter().map(ToString::to_string).collect();
        for (ends, said) in &rows {
            assert_eq!(whole.get(ends), Some(said), "with {limit} steps");
        }
        // What is missing, was said to be.
        let about = |(from, to): &&(String, String)| !left_out.contains(from) && !left_out.contains(to);
        let missing = whole.keys().filter(about).find(|ends| !rows.contains_key(*ends));
        assert!(missing.is_none() || !complete, "{missing:?} with {limit} steps");
        partial += usize::from(!left_out.is_empty() && !rows.is_empty());
    }
    assert!(partial > 0, "some limit leaves some out, and not all");
}

#[test]
fn a_query_is_decided_only_by_what_was_worked_out() {
    let (snapshot, options) = (Snapshot::new(objects(20)), Options::default());
    let cuts = Cuts::of([&snapshot]);
    let (mut known, mut undecided) = (Vec::new(), 0);
    for limit in limits() {
        let mut cells = Cells::limited(cuts.space().clone(), Work::new(limit));
        let map = Map::new(&snapshot, &options, Level::Pods, &cuts, &mut cells);
        for (at, (text, must)) in [
            ("d/* -> d/* tcp/65000 is empty", Assertion::BeEmpty),
            ("d/* -> d/* tcp/21 is empty", Assertion::BeEmpty),
            ("d/* -> d/* is full", Assertion::BeFull),
            ("d/* -> internet is not empty", Assertion::NotBeEmpty),
        ]
        .into_iter()
        .enumerate()
        {
            let query: Query = text.parse().unwrap();
            let Ok(found) = answer(&map, &query, &[Family::V4], &cuts, &mut cells) else {
                undecided += 1;
                continue;
            };
            if known.len() <= at {
                assert_eq!(found.left_out, 0, "{limit} steps are enough");
                known.push(found.holds(must));
            }
            match found.is_decided(must) {
                true => assert_eq!(found.holds(must), known[at], "{text} with {limit} steps"),
                false => undecided += 1,
            }
        }
    }
    assert_eq!(known, [true, false, false, true]);
    assert!(undecided > 0);
}

#[test]
fn a_diff_that_is_not_complete_says_so() {
    let options = Options::default();
    let (before, after) = (Snapshot::new(objects(20)), Snapshot::new(objects(21)));
    let cuts = Cuts::of([&before, &after]);
    let select = ChangeFilter { ignore_self: false, families: vec![Family::V4] };
    let (mut whole, mut partial) = (None, 0);
    for limit in limits() {
        let mut cells = Cells::limited(cuts.space().clone(), Work::new(limit));
        let diff = Diff::new(&before, &after, &options, Level::Workloads, &cuts, &mut cells);
        let findings = DiffFindings::of(&diff, &select, &cuts, &mut cells);
        let counted = (findings.opened, findings.closed);
        let complete = diff.left_out.is_empty() && findings.unseen == 0;
        assert_eq!(diff.added().count() + diff.removed().count(), 0, "who is left out did not come or go");
        let whole = *whole.get_or_insert(counted);
        match complete {
            true => assert_eq!(counted, whole, "with {limit} steps"),
            false => assert!(counted.0 <= whole.0 && counted.1 <= whole.1, "with {limit} steps"),
        }
        partial += usize::from(!complete);
    }
    assert!(whole.is_some_and(|(opened, _)| opened > 0) && partial > 0);
}

/// Rules for all nodes about a block that holds them, each but for two addresses, and with ports of its own: no two nodes are
/// equivalent, and what is left behind each rule is another set.
fn node_rules(nodes: usize, rules: usize) -> Objects {
    let address = |at: usize| format!("172.18.{}.{}", at / 250, at % 250 + 1);
    let mut text = String::new();
    for at in 0..nodes {
        let _ = write!(
            text,
            "apiVersion: v1\nkind: Node\nmetadata: {{name: n{at}}}\n\
             status: {{addresses: [{{type: InternalIP, address: {}}}]}}\n---\n",
            address(at)
        );
    }
    text.push_str(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: d}\nstatus: {podIP: 10.0.0.1}\n---\n",
    );
    for at in 0..rules {
        let rule = |peers: &str| {
            format!(
                "[{{action: {}, {peers}: [{{ipBlock: {{cidr: 172.18.0.0/16, except: [{}/32, {}/32]}}}}], \
                 ports: [{{protocol: TCP, port: {}}}]}}]",
                if at.is_multiple_of(2) { "Drop" } else { "Allow" },
                address(at),
                address(at * 7 % nodes),
                2 * at + 1
            )
        };
        let _ = write!(
            text,
            "apiVersion: crd.antrea.io/v1beta1\nkind: ClusterNetworkPolicy\nmetadata: {{name: c{at}}}\n\
             spec: {{priority: {}, appliedTo: [{{nodeSelector: {{}}}}], ingress: {}, egress: {}}}\n---\n",
            at % 100 + 1,
            rule("from"),
            rule("to")
        );
    }
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("nodes.yaml", text), &Limits::default(), &mut world, &mut found);
    assert!(found.is_empty(), "{found:?}");
    world.into_objects()
}

/// What is charged is what is done: a tenth of what commands allow is enough. When what every rule left behind was kept, these
/// answers took 240 MB in 0.7 s, and all of the work.
#[test]
fn hundreds_of_node_rules_with_exceptions_are_answered_completely() {
    let options = Options::default();
    let (before, after) = (Snapshot::new(node_rules(400, 399)), Snapshot::new(node_rules(400, 400)));
    let cuts = Cuts::of([&before, &after]);
    let mut cells = Cells::limited(cuts.space().clone(), Work::new(400_000_000));
    let map = Map::new(&after, &options, Level::Workloads, &cuts, &mut cells);
    assert!(map.left_out.is_empty(), "{:?}", map.left_out);
    let query: Query = "d/p -> node:n7 tcp/15 is full".parse().unwrap();
    let found = answer(&map, &query, &[Family::V4], &cuts, &mut cells).unwrap();
    assert_eq!(found.left_out, 0);
    let mut cells = Cells::limited(cuts.space().clone(), Work::new(400_000_000));
    let diff = Diff::new(&before, &after, &options, Level::Workloads, &cuts, &mut cells);
    let select = ChangeFilter { ignore_self: false, families: vec![Family::V4] };
    let findings = DiffFindings::of(&diff, &select, &cuts, &mut cells);
    assert!(diff.left_out.is_empty() && findings.unseen == 0, "{:?} {}", diff.left_out, findings.unseen);
}
