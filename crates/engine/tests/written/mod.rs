//! Worlds that are written down as manifests: read once, or followed from one text to the next, as an enforcer follows its files.
//! Tests of other crates take it from here by its path.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::BTreeSet;

use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_engine::Engine;
use palisade_engine::delta::Delta;
use palisade_engine::view::View;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::event::Key;
use palisade_model::snapshot::{Objects, Snapshot};

/// An index that follows texts, and what it has handed on.
#[derive(Default)]
pub struct Followed {
    engine: Engine,
    known: BTreeSet<Key>,
    pub view: View,
}

/// The objects of a text, and what was found in it.
pub fn loaded(text: &str) -> (Objects, Vec<Diagnostic>) {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("world.yaml", text), &Limits::default(), &mut world, &mut found);
    (world.into_objects(), found)
}

/// The objects of a text in which nothing is odd: a typing error would be a policy less.
pub fn objects(text: &str) -> Objects {
    let (objects, found) = loaded(text);
    assert!(found.is_empty(), "{found:#?}");
    objects
}

/// What a node needs of a world.
pub fn part(text: &str, node: &str) -> View {
    let objects = objects(text);
    Engine::of(&objects, &Snapshot::new(objects.clone())).view().part_of(node)
}

// === impl Followed ===

impl Followed {
    /// Takes the next text; what the node is to take because of it.
    pub fn take(&mut self, text: &str, node: &str) -> Vec<Delta> {
        let objects = objects(text);
        let [parts] = self.relist(&objects, &Snapshot::new(objects.clone()), [node]);
        parts
    }

    /// Takes the next world; what each of the nodes is to take because of it.
    pub fn relist<const N: usize>(
        &mut self,
        objects: &Objects,
        snapshot: &Snapshot,
        nodes: [&str; N],
    ) -> [Vec<Delta>; N] {
        let (known, deltas) = self.engine.relist(&self.known, objects, snapshot);
        self.known = known;
        let mut parts = [const { Vec::new() }; N];
        for delta in &deltas {
            for (waiting, part) in parts.iter_mut().zip(self.view.follow_for(delta, &nodes).unwrap()) {
                waiting.push(part);
            }
        }
        parts
    }
}
