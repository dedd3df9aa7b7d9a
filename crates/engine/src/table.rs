//! Places by what is found there, without a copy of it: a cluster has a hundred thousand names, and they are long.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

/// Finds the place of something by its content, which stays where it is.
#[derive(Debug, Default)]
pub(crate) struct Table {
    hasher: RandomState,
    places: HashTable<(u64, u32)>,
}

/// Places that share something, by a hash of it: there may be too many, never too few. Who asks looks again.
#[derive(Debug, Default)]
pub(crate) struct Index {
    hasher: RandomState,
    places: HashMap<u64, Vec<usize>>,
}

// === impl Table ===

impl Table {
    /// The hash of a content.
    pub(crate) fn hash(&self, content: &impl Hash) -> u64 {
        self.hasher.hash_one(content)
    }

    /// The place whose content is this.
    pub(crate) fn find(&self, content: &impl Hash, is: impl Fn(usize) -> bool) -> Option<usize> {
        let hash = self.hash(content);
        self.places.find(hash, |(other, at)| *other == hash && is(*at as usize)).map(|(_, at)| *at as usize)
    }

    /// Notes a place. There are never more than fit: each takes memory of its own.
    #[expect(clippy::cast_possible_truncation, reason = "four thousand million objects fit in no memory")]
    pub(crate) fn insert(&mut self, hash: u64, at: usize) {
        self.places.insert_unique(hash, (hash, at as u32), |(hash, _)| *hash);
    }

    /// Forgets a place.
    pub(crate) fn remove(&mut self, content: &impl Hash, at: usize) {
        let hash = self.hash(content);
        if let Ok(entry) =
            self.places.find_entry(hash, |(other, place)| *other == hash && *place as usize == at)
        {
            entry.remove();
        }
    }
}

// === impl Index ===

impl Index {
    /// The places under a key.
    pub(crate) fn get(&self, key: &impl Hash) -> &[usize] {
        self.places.get(&self.hasher.hash_one(key)).map(Vec::as_slice).unwrap_or_default()
    }

    /// One more.
    pub(crate) fn add(&mut self, key: &impl Hash, at: usize) {
        self.places.entry(self.hasher.hash_one(key)).or_default().push(at);
    }

    /// One less.
    pub(crate) fn take(&mut self, key: &impl Hash, at: usize) {
        let hash = self.hasher.hash_one(key);
        if let Some(places) = self.places.get_mut(&hash) {
            if let Some(found) = places.iter().position(|other| *other == at) {
                places.swap_remove(found);
            }
            if places.is_empty() {
                self.places.remove(&hash);
            }
        }
    }
}
