//! Two sets of policies are the same exactly where the plain evaluator says so of every connection.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod judge;
#[path = "../../engine/tests/pool/mod.rs"]
mod pool;
#[path = "../../engine/tests/walk/mod.rs"]
mod walk;
#[path = "../../engine/tests/world/mod.rs"]
mod world;

use std::ops::ControlFlow;

use palisade_analysis::diff::{ChangeFilter, Diff, DifferenceKind, compare};
use palisade_analysis::map::Level;
use palisade_analysis::reach::Reach;
use palisade_analysis::reach::cells::Cells;
use palisade_analysis::reach::cuts::Cuts;
use palisade_model::address::Family;
use palisade_model::evaluate::evaluate;
use palisade_model::event::Item;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::verdicts::Verdicts;

use judge::{ends, places};
use pool::{Dice, pool, some};
use world::objects;

/// Whether both say the same of every connection, asked one by one.
fn all_alike(before: &Snapshot, after: &Snapshot, options: &Options) -> bool {
    let cuts = Cuts::of([before, after]);
    let mut cells = Cells::new(cuts.space().clone());
    let verdicts = [Verdicts::new(before, options), Verdicts::new(after, options)];
    for family in [Family::V4, Family::V6] {
        let reach = Reach::new(before, options, family, &cuts, &mut cells);
        Reach::new(after, options, family, &cuts, &mut cells);
        let (ends, places) = (ends(&reach, &cuts), places(&cells));
        for (source, destination) in ends.iter().flat_map(|one| ends.iter().map(move |other| (one, other))) {
            if source.0 == Who::Outside && destination.0 == Who::Outside {
                continue;
            }
            for place in &places {
                let traffic = cells.traffics.space().traffic(*place);
                if family == Family::V6 && matches!(traffic.icmp, Some((133..=137, _))) {
                    continue;
                }
                let party = |end: &(Who, u32, Option<std::net::IpAddr>)| Party { who: end.0, address: end.2 };
                let flow =
                    Flow { source: party(source), destination: party(destination), traffic, via: None };
                if verdicts[0].verdict(&flow) != verdicts[1].verdict(&flow) {
                    return false;
                }
            }
        }
    }
    true
}

/// How many changes a diff tells of.
fn changes(before: &Snapshot, after: &Snapshot, options: &Options) -> usize {
    let cuts = Cuts::of([before, after]);
    let mut cells = Cells::new(cuts.space().clone());
    let diff = Diff::new(before, after, options, Level::Workloads, &cuts, &mut cells);
    let select = ChangeFilter { families: vec![Family::V4, Family::V6], ..ChangeFilter::default() };
    let mut count = 0;
    let _ = diff.changes(&select, &cuts, &mut cells, |_, _| {
        count += 1;
        ControlFlow::Continue(())
    });
    count
}

#[test]
fn the_same_is_what_the_evaluator_calls_the_same() {
    let pool = pool();
    let options = Options::default();
    let mut found = [0; 2];
    for seed in 0..150 {
        let mut dice = Dice(seed);
        let before = some(&pool, 4, &mut dice);
        let mut after = before.clone();
        // Some policies go or say something else; who is there stays.
        for versions in pool.iter().filter(|versions| matches!(versions[0], Item::Policy(_))) {
            match dice.roll(12) {
                0 => drop(after.remove(&versions[0].key())),
                1 => {
                    let item = versions[dice.roll(versions.len())].clone();
                    after.insert(item.key(), item);
                }
                _ => {}
            }
        }
        let (before, after) = (Snapshot::new(objects(&before)), Snapshot::new(objects(&after)));
        let compared = compare(&before, &after, &options, DifferenceKind::InAnyVerdict);
        // A lone pod is allowed to itself, and to be reached from its node; but not another one like it, and the
        // comparison is about that one, too.
        let near = |flow: &Flow| {
            let node = |who| match who {
                Who::Pod(pod) => before.pods()[pod].node.as_deref().and_then(|name| before.node(name)),
                Who::Node(node) => Some(node),
                Who::Outside => None,
            };
            let (from, to) = (flow.source.who, flow.destination.who);
            from == to || (matches!(from, Who::Node(_)) && node(from) == node(to))
        };
        let alone = compared.as_ref().is_err_and(|found| near(&found.flow));
        if !alone {
            assert_eq!(compared.is_ok(), all_alike(&before, &after, &options), "{seed}: {compared:?}");
        }
        if let Err(found) = &compared
            && !alone
        {
            let said = [&before, &after].map(|side| evaluate(side, &found.flow, &options).verdict);
            assert_eq!(said, [found.before, found.after], "{seed}: {found:?}");
        }
        // What a diff tells is all there is: nodes and unlike pods are in it.
        let changes = changes(&before, &after, &options);
        let differs = [DifferenceKind::InWhatOpens, DifferenceKind::InWhatCloses];
        let missed: Vec<_> = differs
            .into_iter()
            .filter_map(|differs| compare(&before, &after, &options, differs).err())
            .filter(|found| !near(&found.flow))
            .collect();
        assert!(changes > 0 || missed.is_empty(), "{seed}: not told: {missed:?}");
        let same = differs.into_iter().all(|differs| compare(&before, &after, &options, differs).is_ok());
        assert!(changes == 0 || !same, "{seed}: {changes} told");
        found[usize::from(compared.is_err())] += 1;
    }
    assert!(found[0] > 10 && found[1] > 50, "{found:?}");
}
