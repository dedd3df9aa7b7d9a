//! What a query comes to is what the plain evaluator says about every pair of pods that it stands for.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../engine/tests/pool/mod.rs"]
mod pool;
#[path = "../../engine/tests/walk/mod.rs"]
mod walk;
#[path = "../../engine/tests/world/mod.rs"]
mod world;

use std::net::IpAddr;

use palisade_analysis::map::{Level, Map};
use palisade_analysis::query::{Assertion, Query, answer};
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_model::address::Family;
use palisade_model::cluster::Pod;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::options::Options;
use palisade_model::policy::Layer7;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::traffic::Traffic;

use pool::{Dice, pool, some};
use world::objects;

/// Whether a pod is one of an end, without asking the parser.
type IsMeant = fn(&Pod) -> bool;

const ENDS: [(&str, IsMeant); 5] = [
    ("ns:x", |pod| pod.namespace == "x"),
    ("ns:y", |pod| pod.namespace == "y"),
    ("*/*", |_| true),
    ("app=a", |pod| pod.labels.get("app") == Some("a")),
    ("x/app!=a", |pod| pod.namespace == "x" && pod.labels.get("app") != Some("a")),
];

/// Every connection between two sorts of pods, over each family of addresses that both have.
fn flows(snapshot: &Snapshot, ends: [IsMeant; 2], traffic: Traffic) -> Vec<Flow> {
    let of = |is_meant: IsMeant| {
        let pods = snapshot.pods().iter().enumerate();
        pods.filter(|(_, pod)| !pod.terminated && !pod.external && is_meant(pod)).collect::<Vec<_>>()
    };
    let mut flows = Vec::new();
    for (from, source) in of(ends[0]) {
        for (to, destination) in of(ends[1]).into_iter().filter(|(to, _)| *to != from) {
            let nowhere = source.addresses.is_empty() && destination.addresses.is_empty();
            for family in [Family::V4, Family::V6].into_iter().take(if nowhere { 1 } else { 2 }) {
                let party = |at: usize, own: &[IpAddr]| {
                    let address = own.iter().copied().find(|address| Family::of(*address) == family);
                    (address.is_some() || own.is_empty()).then_some(Party { who: Who::Pod(at), address })
                };
                if let (Some(source), Some(destination)) =
                    (party(from, &source.addresses), party(to, &destination.addresses))
                {
                    flows.push(Flow { source, destination, traffic, via: None });
                }
            }
        }
    }
    flows
}

#[test]
fn queries_say_what_the_evaluator_says_about_every_pair() {
    let mut seen = [0; 4];
    for seed in 0..60 {
        let mut dice = Dice(4200 + seed);
        let state = some(&pool(), 4, &mut dice);
        let mut objects = objects(&state);
        // Some of what is allowed in tiers is allowed on condition.
        for rule in objects.policies.iter_mut().flat_map(|policy| &mut policy.rules) {
            if dice.roll(3) == 0 {
                rule.layer7 = vec![Layer7::Tls { sni: None }];
            }
        }
        let snapshot = Snapshot::new(objects);
        let options = Options::default();
        let cuts = Cuts::of([&snapshot]);
        let mut cells = Cells::new(cuts.space().clone());
        let map = Map::new(&snapshot, &options, Level::Pods, &cuts, &mut cells);
        for (one, is_source) in ENDS {
            for (other, is_destination) in ENDS {
                for traffic in ["tcp/80", "udp/53"] {
                    let query: Query = format!("{one} -> {other} {traffic}").parse().unwrap();
                    let flows = flows(&snapshot, [is_source, is_destination], traffic.parse().unwrap());
                    let found = answer(&map, &query, &[Family::V4], &cuts, &mut cells);
                    let Ok(found) = found else {
                        assert!(flows.is_empty(), "seed {seed}: {}: {found:?}", query.text);
                        continue;
                    };
                    let verdicts: Vec<(bool, bool)> = flows
                        .iter()
                        .map(|flow| evaluate(&snapshot, flow, &options))
                        .map(|said| (said.verdict == Verdict::Allow, !said.conditions().is_empty()))
                        .collect();
                    let allowed = verdicts.iter().filter(|(allowed, _)| *allowed).count();
                    let conditional = verdicts.iter().any(|(allowed, conditional)| *allowed && *conditional);
                    let expected = [
                        (Assertion::BeEmpty, allowed == 0),
                        (Assertion::NotBeEmpty, allowed > 0),
                        (Assertion::BeFull, allowed == flows.len() && !conditional),
                    ];
                    let place = format!("seed {seed}: {}: {found:?}", query.text);
                    assert_eq!(found.pairs, flows.len(), "{place}");
                    let counted: usize = found
                        .by_traffic
                        .iter()
                        .filter(|(traffic, _)| **traffic == found.queried)
                        .map(|(_, pairs)| pairs)
                        .sum();
                    assert_eq!(counted, allowed, "{place}");
                    for (at, (assertion, holds)) in expected.into_iter().enumerate() {
                        assert_eq!(found.holds(assertion), holds, "{assertion}: {place}");
                        seen[at] += usize::from(holds);
                    }
                    if !found.holds(Assertion::BeFull) {
                        let flow = found.counterexample(Assertion::BeFull).expect(&place);
                        let said = evaluate(&snapshot, flow, &options);
                        assert!(said.verdict != Verdict::Allow || !said.conditions().is_empty(), "{place}");
                    }
                    seen[3] += usize::from(conditional);
                }
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
}
