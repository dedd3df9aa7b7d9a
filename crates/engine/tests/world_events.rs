//! Events of a world, one object at a time: whatever the order and the history, they lead to the same state as everything at
//! once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use palisade_dialects::load::{load, load_object};
use palisade_dialects::object::{Key, Loaded, Lowered};
use palisade_dialects::source::tree::{Node, Source, Value};
use palisade_dialects::source::{Limits, documents};
use palisade_dialects::thorium::Reading;
use palisade_dialects::world::World;
use palisade_engine::Engine;
use palisade_engine::view::View;
use palisade_model::event::{self, Event};
use palisade_model::snapshot::Snapshot;
use palisade_testing::dice::Dice;

/// Objects that depend on each other.
const OBJECTS: &str = include_str!("world_events/objects.yaml");

/// A world, and consumers that know nothing but its events.
#[derive(Default)]
struct Followed {
    world: World,
    engine: Engine,
    view: View,
    /// The items that exist according to the events, as text.
    items: BTreeMap<event::Key, String>,
    /// Number of events so far.
    events: usize,
}

// === impl Followed ===

impl Followed {
    fn take(&mut self, events: Vec<Event>) {
        for event in events {
            self.events += 1;
            match &event {
                Event::Apply(item) => drop(self.items.insert(item.key(), format!("{item:?}"))),
                Event::Delete(key) => {
                    assert!(self.items.remove(key).is_some(), "{key:?} is deleted and did not exist");
                }
            }
            self.view.follow(&self.engine.apply(event)).unwrap();
        }
    }

    fn apply(&mut self, object: &Loaded) {
        let events = self.world.apply(object.clone());
        self.take(events);
    }

    fn delete(&mut self, key: &Key) {
        let events = self.world.delete(Some(&key.group), &key.kind, key.namespace.as_deref(), &key.name);
        self.take(events);
    }

    /// Compares the items with those of a world that emits everything at once.
    fn check_items(&self, when: &str) {
        let mut fresh = Followed { world: self.fresh_world(), ..Followed::default() };
        let events = fresh.world.events();
        fresh.take(events);
        for (key, item) in &fresh.items {
            assert_eq!(self.items.get(key), Some(item), "{when}: {key:?}");
        }
        let more: Vec<_> = self.items.keys().filter(|key| !fresh.items.contains_key(*key)).collect();
        assert!(more.is_empty(), "{when}: {more:?}");
    }

    /// Compares the engine with one that is built from a snapshot.
    fn check_engine(&self, when: &str) {
        let objects = self.world.objects();
        let whole = Engine::of(&objects, &Snapshot::new(objects.clone()));
        let (own, expected) = (self.engine.view(), whole.view());
        assert_eq!(own.to_string(), expected.to_string(), "{when}");
        assert_eq!(own, self.view, "{when}: a view that follows");
    }

    /// A world with the same objects that has emitted nothing.
    fn fresh_world(&self) -> World {
        let mut fresh = World::default();
        fresh.read_thorium_as(self.world.thorium_reading());
        // Documents that share an identity are distinguished by the group that the first world gave them.
        self.world.iter().cloned().for_each(|loaded| fresh.insert(loaded));
        fresh
    }
}

/// Every object that a text holds, those inside of tests among them.
fn objects(name: &str, text: &str) -> Vec<Loaded> {
    let source = Source::new(name, text);
    let mut all = Vec::new();
    let mut keep = |world: World| all.extend(world.iter().cloned());
    for node in documents(&source, &Limits::default()).flatten() {
        let mut world = World::default();
        load_object(&source, &node, &mut world, &mut Vec::new());
        if world.is_empty() {
            inner(&source, &node, &mut keep);
        } else {
            keep(world);
        }
    }
    all
}

fn inner(source: &Source, node: &Node<'_>, keep: &mut dyn FnMut(World)) {
    if node.get("apiVersion").is_some() && node.get("kind").is_some() {
        let mut world = World::default();
        load_object(source, node, &mut world, &mut Vec::new());
        return keep(world);
    }
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| inner(source, item, keep)),
        Value::Map(entries) => entries.iter().for_each(|entry| inner(source, &entry.value, keep)),
        _ => {}
    }
}

fn texts(folder: &Path, all: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        match path.extension().and_then(|extension| extension.to_str()) {
            _ if path.is_dir() => texts(&path, all),
            Some("yaml" | "yml") => all.push(path),
            _ => {}
        }
    }
}

/// The folders of suites and examples, each with the texts below it.
fn folders() -> Vec<(String, Vec<(String, String)>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = Vec::new();
    for above in ["suites", "examples"] {
        let mut entries: Vec<PathBuf> =
            root.join(above).read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        entries.sort();
        for folder in entries.into_iter().filter(|path| path.is_dir()) {
            let mut paths = Vec::new();
            texts(&folder, &mut paths);
            let name = |path: &PathBuf| path.strip_prefix(&root).unwrap().display().to_string();
            let text = |path: &PathBuf| (name(path), std::fs::read_to_string(path).unwrap());
            folders.push((name(&folder), paths.iter().map(text).collect()));
        }
    }
    assert!(folders.len() > 15, "{}", folders.len());
    folders
}

/// Applies, replaces, re-applies and deletes objects at random, and checks on the way.
fn history(name: &str, pool: &[Loaded], steps: usize, (items, engine): (usize, usize), dice: &mut Dice) {
    let mut followed = Followed::default();
    for step in 0..steps {
        let when = format!("{name}, step {step}");
        let there: Vec<Key> = followed.world.iter().map(|loaded| loaded.key.clone()).collect();
        match dice.roll(10) {
            0..=4 => followed.apply(&dice.one(pool)),
            5..=6 if !there.is_empty() => followed.delete(&dice.one(&there)),
            7 if !there.is_empty() => {
                let before = (followed.items.clone(), followed.engine.view().to_string());
                let again = followed.world.get(&dice.one(&there)).cloned().unwrap();
                // A document that is applied replaces those that were added beside it.
                if !matches!(again.lowered, Lowered::Thorium(_)) {
                    followed.apply(&again);
                    assert!(before == (followed.items.clone(), followed.engine.view().to_string()), "{when}");
                }
            }
            8 => {
                let key = dice.one(pool).key;
                followed.delete(&key);
                let events =
                    followed.world.delete(Some(&key.group), &key.kind, key.namespace.as_deref(), &key.name);
                assert!(events.is_empty(), "{when}: what does not exist is deleted: {events:?}");
            }
            _ => {
                // Several changes at once, some of them undone again.
                for _ in 0..dice.roll(6) {
                    match dice.roll(3) {
                        0 => drop(followed.world.remove_key(&dice.one(pool).key)),
                        1 => followed.world.add(dice.one(pool)),
                        _ => followed.world.insert(dice.one(pool)),
                    }
                }
                if dice.roll(4) == 0 {
                    let other = dice.one(&[Reading::Document, Reading::Program]);
                    followed.world.read_thorium_as(other);
                }
                let events = followed.world.events();
                followed.take(events);
            }
        }
        if step % items == 0 {
            followed.check_items(&when);
        }
        if step % engine == 0 {
            followed.check_engine(&when);
        }
    }
    followed.check_engine(name);
    assert!(followed.world.events().is_empty(), "{name}: nothing changed");
    let there: Vec<Key> = followed.world.iter().map(|loaded| loaded.key.clone()).collect();
    there.iter().for_each(|key| followed.delete(key));
    assert!(followed.items.is_empty(), "{name}: {:?}", followed.items);
    assert_eq!(followed.view.to_string(), "", "{name}");
    followed.engine.tidy();
    assert!(followed.engine.is_empty(), "{name}: something is left");
}

#[test]
fn every_order_of_a_suites_world_gives_the_same_engine() {
    let mut dice = Dice(16);
    for (name, texts) in folders() {
        let mut whole = World::default();
        for (name, text) in &texts {
            load(&Source::new(name.as_str(), text.as_str()), &Limits::default(), &mut whole, &mut Vec::new());
        }
        let mut all: Vec<Loaded> = whole.iter().cloned().collect();
        for order in ["as sorted", "backwards", "shuffled"] {
            match order {
                "backwards" => all.reverse(),
                "shuffled" => (1..all.len()).rev().for_each(|at| all.swap(at, dice.roll(at + 1))),
                _ => {}
            }
            let mut followed = Followed::default();
            for object in &all {
                // Documents of one name are kept apart by the groups that they were given.
                followed.world.insert(object.clone());
                let events = followed.world.events();
                followed.take(events);
            }
            assert_eq!(followed.world.len(), whole.len(), "{name}, {order}");
            followed.check_items(&format!("{name}, {order}"));
            followed.check_engine(&format!("{name}, {order}"));
        }
    }
}

#[test]
fn any_history_of_a_suites_objects_gives_the_same_engine() {
    let mut dice = Dice(1606);
    for (name, texts) in folders() {
        let pool: Vec<Loaded> = texts.iter().flat_map(|(name, text)| objects(name, text)).collect();
        if !pool.is_empty() {
            history(&name, &pool, 150, (3, 10), &mut dice);
        }
    }
}

#[test]
fn any_history_of_objects_that_depend_on_each_other_gives_the_same_engine() {
    let mut dice = Dice(2026);
    let pool = objects("objects.yaml", OBJECTS);
    assert!(pool.len() > 55, "{}", pool.len());
    for round in 0..40 {
        history(&format!("round {round}"), &pool, 200, (1, 4), &mut dice);
    }
}

#[test]
fn one_change_is_few_events() {
    let mut followed = Followed::default();
    for number in 0..1000 {
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p{number}, namespace: x, labels: {{app: web}}}}}}"
        );
        objects("pods.yaml", &text).iter().for_each(|pod| followed.apply(pod));
    }
    assert_eq!(followed.events, 1000);
    let pool = objects("objects.yaml", OBJECTS);
    let tier = pool.iter().find(|object| object.key.kind == "Tier").unwrap();
    followed.apply(tier);
    assert_eq!(followed.events, 1007, "the built-in tiers come with the first object of Antrea");
    let thorium = pool.iter().find(|object| object.key.kind == "ThoriumInstance").unwrap();
    followed.apply(thorium);
    let events = followed.events;
    followed.apply(thorium);
    assert_eq!(followed.events, events, "an instance that is the same again");
}
