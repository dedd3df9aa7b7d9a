//! Events collected while several objects change, each object in its final state once.

use palisade_model::event::{Event, Item, Key};

/// Events in the making. Of several entries for one object the last counts.
#[derive(Debug, Default)]
pub(super) struct Batch(Vec<(Key, Option<Item>)>);

// === impl Batch ===

impl Batch {
    pub(super) fn apply(&mut self, item: Item) {
        self.0.push((item.key(), Some(item)));
    }

    pub(super) fn delete(&mut self, key: Key) {
        self.0.push((key, None));
    }

    /// Returns the events: additions and changes first, references before what refers to them, then deletions the other
    /// way round. No pod is without its policies in between.
    pub(super) fn into_events(mut self) -> Vec<Event> {
        self.0.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut applied = Vec::with_capacity(self.0.len());
        let mut deleted = Vec::new();
        let mut entries = self.0.into_iter().peekable();
        while let Some((key, item)) = entries.next() {
            if entries.peek().is_some_and(|(next, _)| *next == key) {
                continue;
            }
            match item {
                Some(item) => applied.push(Event::Apply(item)),
                None => deleted.push(Event::Delete(key)),
            }
        }
        applied.extend(deleted.into_iter().rev());
        applied
    }
}
