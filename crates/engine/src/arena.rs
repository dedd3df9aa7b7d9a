//! Arenas: objects by typed index. Slots come in chunks, so that growing neither moves nor reallocates objects.
//!
//! Indices are the engine's own: no event carries one, and those that a question carries (the positions of a flow) are
//! looked up with [`Arena::get`] first. Indexing is for an index that another object of the engine holds, which gives it up
//! before the object is removed. An index without an object is a fault of the engine, and to go on would be to answer from the
//! slot of another object, so it panics.

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

use crate::id::{ArenaIndex, Id};

const CHUNK: usize = 512;

/// Objects by index. The index of a removed object is assigned again.
#[derive(Debug)]
pub(crate) struct Arena<T, I = Id<T>> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<I>,
    /// Slot 0 stays vacant, because indices are not zero: to compute a slot takes no subtraction.
    next: NonZeroU32,
    index: PhantomData<fn() -> I>,
}

// === impl Arena ===

impl<T, I> Default for Arena<T, I> {
    fn default() -> Self {
        Arena { chunks: Vec::new(), free: Vec::new(), next: NonZeroU32::MIN, index: PhantomData }
    }
}

impl<T, I: ArenaIndex> Arena<T, I> {
    /// Adds an object and returns its index.
    pub(crate) fn insert(&mut self, object: T) -> I {
        if let Some(id) = self.free.pop() {
            *self.slot(id) = Some(object);
            return id;
        }
        let id = self.next;
        // Indices are 32 bits: more objects than those fit in no memory.
        self.next = id.saturating_add(1);
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(Some(object)),
            last => {
                let is_first = last.is_none();
                let mut chunk = Vec::with_capacity(CHUNK);
                if is_first {
                    chunk.push(None);
                }
                chunk.push(Some(object));
                self.chunks.push(chunk);
            }
        }
        I::from_number(id)
    }

    /// Removes an object, which must be there: otherwise its index would be assigned to two objects.
    pub(crate) fn remove(&mut self, id: I) -> T {
        let object = self.slot(id).take();
        self.free.push(id);
        match object {
            Some(object) => object,
            None => unreachable!("{id} has been removed before"),
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: I) -> Option<&T> {
        let (chunk, at) = location(id);
        self.chunks.get(chunk)?.get(at)?.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.next.get() as usize - 1 - self.free.len()
    }

    /// Returns all objects, by index.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        let slots = self.chunks.iter().flatten();
        (0..)
            .zip(slots)
            .filter_map(|(number, slot)| Some((I::from_number(NonZeroU32::new(number)?), slot.as_ref()?)))
    }

    #[inline]
    fn slot(&mut self, id: I) -> &mut Option<T> {
        let (chunk, at) = location(id);
        &mut self.chunks[chunk][at]
    }
}

#[inline]
fn location(id: impl ArenaIndex) -> (usize, usize) {
    let number = id.number().get() as usize;
    (number / CHUNK, number % CHUNK)
}

impl<T, I: ArenaIndex> Index<I> for Arena<T, I> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        match self.get(id) {
            Some(object) => object,
            None => unreachable!("{id} is not there"),
        }
    }
}

impl<T, I: ArenaIndex> IndexMut<I> for Arena<T, I> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        match self.slot(id) {
            Some(object) => object,
            None => unreachable!("{id} is not there"),
        }
    }
}
