//! Things by small numbers. Slots come in chunks, so that growing neither copies what is there nor keeps twice of it.
//!
//! Numbers are the index's own: no event has one in it, and where a question has (the places of a flow) it is looked up with
//! [`Arena::get`] before anything else is. Indexing is for a number that somebody in the index holds, who gives it up before the
//! thing goes; that nobody is there would be a fault of the index, and to go on would be to answer from another's slot.

use std::ops::{Index, IndexMut};

const CHUNK: usize = 512;

/// Things by number; a number is given again once its thing is gone.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
    next: u32,
}

// === impl Arena ===

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena { chunks: Vec::new(), free: Vec::new(), next: 0 }
    }
}

impl<T> Arena<T> {
    /// Puts something in, and says its number.
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        if let Some(id) = self.free.pop() {
            *self.slot(id) = Some(thing);
            return id;
        }
        let id = self.next;
        self.next += 1;
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(Some(thing)),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(Some(thing));
                self.chunks.push(chunk);
            }
        }
        id
    }

    /// Takes something out that is there. To do so twice would give its number to two.
    pub(crate) fn remove(&mut self, id: u32) -> T {
        let thing = self.slot(id).take();
        self.free.push(id);
        match thing {
            Some(thing) => thing,
            None => unreachable!("{id} has been removed before"),
        }
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        let (chunk, at) = place(id);
        self.chunks.get(chunk)?.get(at)?.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.next as usize - self.free.len()
    }

    /// Everything, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.chunks.iter().flatten();
        (0..).zip(slots).filter_map(|(id, slot)| slot.as_ref().map(|thing| (id, thing)))
    }

    fn slot(&mut self, id: u32) -> &mut Option<T> {
        let (chunk, at) = place(id);
        &mut self.chunks[chunk][at]
    }
}

fn place(id: u32) -> (usize, usize) {
    (id as usize / CHUNK, id as usize % CHUNK)
}

impl<T> Index<u32> for Arena<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        match self.get(id) {
            Some(thing) => thing,
            None => unreachable!("{id} is not there"),
        }
    }
}

impl<T> IndexMut<u32> for Arena<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        match self.slot(id) {
            Some(thing) => thing,
            None => unreachable!("{id} is not there"),
        }
    }
}
