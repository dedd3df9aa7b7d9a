//! Places by what is found there, without a copy of it: a cluster has a hundred thousand names, and they are long.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use crate::endpoints::number;
use crate::id::ArenaIndex;
use crate::shapes::Few;

/// A map with hashes that are quick, and seeded: objects are written by others.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, RandomState>;

/// Finds the place of something by its content, which stays where it is.
#[derive(Debug)]
pub(crate) struct Table<I> {
    hasher: RandomState,
    places: HashTable<(u64, I)>,
}

/// Places that share something, by a hash of it: there may be too many, never too few. Who asks looks again.
#[derive(Debug)]
pub(crate) struct Index<I> {
    hasher: RandomState,
    places: std::collections::HashMap<u64, Places<I>, Hashed>,
}

/// A list of places, in no order. A long one knows where each is, so that leaving it does not mean to look through it.
#[derive(Debug)]
struct Places<I> {
    list: Few<I>,
    at: Option<Box<Map<I, u32>>>,
}

/// More than this is long.
const LONG: usize = 64;

/// Who refers to what, by name.
#[derive(Debug)]
pub(crate) struct References<K, V>(Map<K, BTreeSet<V>>);

/// For what is a hash already.
#[derive(Debug, Clone, Copy, Default)]
struct Hashed(u64);

// === impl Table ===

impl<I> Default for Table<I> {
    fn default() -> Self {
        Table { hasher: RandomState::default(), places: HashTable::new() }
    }
}

impl<I: ArenaIndex> Table<I> {
    /// The hash of a content.
    pub(crate) fn hash(&self, content: &impl Hash) -> u64 {
        self.hasher.hash_one(content)
    }

    /// The place whose content has this hash, and is this.
    pub(crate) fn find(&self, hash: u64, is: impl Fn(I) -> bool) -> Option<I> {
        self.places.find(hash, |(other, at)| *other == hash && is(*at)).map(|(_, at)| *at)
    }

    /// Notes a place.
    pub(crate) fn insert(&mut self, hash: u64, at: I) {
        self.places.insert_unique(hash, (hash, at), |(hash, _)| *hash);
    }

    /// Forgets a place.
    pub(crate) fn remove(&mut self, hash: u64, at: I) {
        if let Ok(entry) = self.places.find_entry(hash, |(other, place)| *other == hash && *place == at) {
            entry.remove();
        }
    }
}

// === impl Index ===

impl<I> Default for Index<I> {
    fn default() -> Self {
        Index { hasher: RandomState::default(), places: Default::default() }
    }
}

impl<I: ArenaIndex> Index<I> {
    /// Whether there is none under any key.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The places under a key.
    pub(crate) fn get(&self, key: &impl Hash) -> &[I] {
        let places = self.places.get(&self.hasher.hash_one(key));
        places.map(|places| places.list.as_slice()).unwrap_or_default()
    }

    /// One more.
    pub(crate) fn add(&mut self, key: &impl Hash, at: I) {
        self.places.entry(self.hasher.hash_one(key)).or_default().add(at);
    }

    /// One less.
    pub(crate) fn take(&mut self, key: &impl Hash, at: I) {
        let hash = self.hasher.hash_one(key);
        if let Some(places) = self.places.get_mut(&hash) {
            places.take(at);
            if places.list.is_empty() {
                self.places.remove(&hash);
            }
        }
    }
}

// === impl Places ===

impl<I> Default for Places<I> {
    fn default() -> Self {
        Places { list: Few::new(), at: None }
    }
}

impl<I: ArenaIndex> Places<I> {
    fn add(&mut self, place: I) {
        self.list.push(place);
        let last = number(self.list.len() - 1);
        match &mut self.at {
            Some(at) => drop(at.insert(place, last)),
            None if self.list.len() > LONG => {
                self.at = Some(Box::new((0..).zip(&self.list).map(|(at, place)| (*place, at)).collect()));
            }
            None => {}
        }
    }

    fn take(&mut self, place: I) {
        let known = self.at.as_mut().and_then(|at| at.remove(&place));
        // Somebody who is there twice is known once.
        let found = known.or_else(|| self.list.iter().rposition(|other| *other == place).map(number));
        let Some(found) = found else { return };
        self.list.swap_remove(found as usize);
        if let (Some(at), Some(moved)) = (&mut self.at, self.list.get(found as usize)) {
            at.insert(*moved, found);
        }
    }
}

// === impl References ===

impl<K, V> Default for References<K, V> {
    fn default() -> Self {
        References(Map::default())
    }
}

impl<K: Hash + Eq, V: Ord> References<K, V> {
    /// Whether nobody refers to anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Who refers to it, in order.
    pub(crate) fn get(&self, key: &K) -> impl Iterator<Item = &V> {
        self.0.get(key).into_iter().flatten()
    }

    /// Forgets a name: who referred to it.
    pub(crate) fn remove(&mut self, key: &K) -> BTreeSet<V> {
        self.0.remove(key).unwrap_or_default()
    }

    /// Notes that somebody does, or does not any more.
    pub(crate) fn note(&mut self, key: K, who: V, there: bool) {
        if there {
            self.0.entry(key).or_default().insert(who);
        } else if let Some(users) = self.0.get_mut(&key) {
            users.remove(&who);
            if users.is_empty() {
                self.0.remove(&key);
            }
        }
    }
}

// === impl Hashed ===

impl BuildHasher for Hashed {
    type Hasher = Hashed;

    fn build_hasher(&self) -> Hashed {
        Hashed(0)
    }
}

impl std::hash::Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    /// The only keys are numbers of 64 bits ([`Index`]), and these hash themselves with `write_u64` alone.
    fn write(&mut self, _: &[u8]) {
        unreachable!("only whole hashes are asked for");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
