//! State, not history: two hundred worlds, each reached in many ways, end with the same words. The ways are those of
//! Calico's Felix, whose tests expand each scenario into such histories: other orders, everything twice, deletions of what
//! is not there, everything gone and back, and a start from quite another world.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pool;
mod walk;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use palisade_engine::Engine;
use palisade_engine::view::View;
use palisade_model::event::{Event, Item, Key};
use palisade_model::snapshot::Snapshot;

use pool::{Dice, pool};
use world::{State, objects};

/// A world with about two thirds of the objects, each in some version.
fn some_world(pool: &[Vec<Item>], dice: &mut Dice) -> Vec<Item> {
    let mut items = Vec::new();
    for versions in pool {
        if dice.roll(3) > 0 {
            items.push(versions[dice.roll(versions.len())].clone());
        }
    }
    items
}

fn shuffled<T>(mut all: Vec<T>, dice: &mut Dice) -> Vec<T> {
    for at in (1..all.len()).rev() {
        all.swap(at, dice.roll(at + 1));
    }
    all
}

fn applied(items: &[Item]) -> Vec<Event> {
    items.iter().cloned().map(Event::Apply).collect()
}

/// The ways to a world, each by its name.
fn ways(items: &[Item], pool: &[Vec<Item>], dice: &mut Dice) -> Vec<(&'static str, Vec<Event>)> {
    let keys = || items.iter().map(Item::key);
    let mut backwards = applied(items);
    backwards.reverse();
    let twice = applied(items).into_iter().flat_map(|event| [event.clone(), event]).collect();
    // Of what is there already the deletion comes first, and of the rest at any time.
    let there: BTreeSet<Key> = keys().collect();
    let mut spurious = Vec::new();
    for event in applied(items) {
        let other = pool[dice.roll(pool.len())][0].key();
        if !there.contains(&other) {
            spurious.push(Event::Delete(other));
        }
        if let Event::Apply(item) = &event {
            spurious.push(Event::Delete(item.key()));
        }
        spurious.push(event);
    }
    let mut again = applied(items);
    again.extend(keys().map(Event::Delete));
    again.extend(applied(&shuffled(items.to_vec(), dice)));
    // Each object in all of its other versions before.
    let mut versions = Vec::new();
    for item in shuffled(items.to_vec(), dice) {
        let own = pool.iter().find(|versions| versions[0].key() == item.key()).unwrap();
        versions.extend(applied(own));
        versions.push(Event::Apply(item));
    }
    // One by one gone and back, while all the others are there.
    let mut flapping = applied(items);
    for item in shuffled(items.to_vec(), dice) {
        flapping.extend([Event::Delete(item.key()), Event::Apply(item)]);
    }
    vec![
        ("as given", applied(items)),
        ("backwards", backwards),
        ("shuffled", applied(&shuffled(items.to_vec(), dice))),
        ("each twice", twice),
        ("with deletions of what is not there", spurious),
        ("gone and back", again),
        ("through other versions", versions),
        ("each gone and back", flapping),
    ]
}

#[test]
fn a_world_is_the_same_however_one_gets_there() {
    let pool = pool();
    let mut dice = Dice(2016);
    let mut said = BTreeSet::new();
    for number in 0..200 {
        let items = some_world(&pool, &mut dice);
        let mut expected: Option<String> = None;
        for (way, events) in ways(&items, &pool, &mut dice) {
            let mut engine = Engine::default();
            let mut copy = engine.view();
            for event in events {
                copy.follow(&engine.apply(event)).unwrap();
            }
            let end = copy.to_string();
            assert_eq!(engine.view(), copy, "world {number}, {way}: the view that followed");
            assert_eq!(&end, expected.get_or_insert(end.clone()), "world {number}, {way}");
        }
        said.extend(expected);
    }
    // It is about something: the worlds are not all the same, and none is empty.
    assert!(said.len() > 190 && !said.contains(""), "{}", said.len());
}

#[test]
fn a_list_of_everything_leads_from_any_world_to_any_other() {
    let pool = pool();
    let mut dice = Dice(1999);
    let mut engine = Engine::default();
    let mut copy = View::default();
    let mut listed: BTreeSet<Key> = BTreeSet::new();
    for number in 0..200 {
        let mut items = some_world(&pool, &mut dice);
        // A list has no names of its own for what is behind services, so that it gives them numbers.
        let mut numbers: BTreeMap<(String, String), usize> = BTreeMap::new();
        for item in &mut items {
            if let Item::Endpoints(name, behind) = item {
                let key = (behind.namespace.to_string(), behind.service.to_string());
                let number = numbers.entry(key).or_default();
                *name = number.to_string().into();
                *number += 1;
            }
        }
        let state: State = items.iter().map(|item| (item.key(), item.clone())).collect::<BTreeMap<_, _>>();
        let objects = objects(&state);
        let snapshot = Snapshot::new(objects.clone());
        let deltas;
        (listed, deltas) = engine.relist(&listed, &objects, &snapshot);
        for delta in &deltas {
            copy.follow(delta).unwrap();
        }
        assert_eq!(copy, engine.view(), "world {number}: a copy that follows");
        assert_eq!(listed, state.keys().cloned().collect(), "world {number}: what is there");
        let mut fresh = Engine::default();
        for event in applied(&shuffled(items, &mut dice)) {
            fresh.apply(event);
        }
        assert_eq!(engine.view().to_string(), fresh.view().to_string(), "world {number}");
    }
    let nothing = objects(&State::new());
    let (_, deltas) = engine.relist(&listed, &nothing, &Snapshot::new(nothing.clone()));
    deltas.iter().for_each(|delta| copy.follow(delta).unwrap());
    assert_eq!(copy.to_string(), "");
    assert!(engine.is_empty(), "something is left: {engine:#?}");
}
