//! How patches get into the kernel, so that no packet ever meets half of one.
//!
//! A packet meets the rules of one generation, but sets and maps as they are when it looks into them, and new sets of ranges have nothing
//! in them for a moment after the rules that ask for them are in force. A map that goes is empty at once, also for a packet that
//! meets the rules of before. So a patch of chains and sets is three steps, each a transaction:
//!
//! ```text
//!   additions       counters, sets with all that is in them, chains: nothing leads there yet
//!   changes         other rules in chains that stay, elements that join and leave: from here on it is active
//!   removals        later, when every packet that was on its way is through: nothing leads there any more
//! ```
//!
//! If the second is refused the first is undone. Whoever is killed between them leaves the rules of before in force, or the next; what
//! is left over goes when somebody takes over ([`super::replace`]).

use std::collections::BTreeMap;
use std::mem;
use std::time::Instant;

use crate::kernel::elements;
use crate::kernel::shape::{Shape, Shapes};
use crate::kernel::{Counts, Kernel, KernelError};
use crate::patch::Patch;
use crate::program::{Name, Set};
use crate::text::TABLE;

use super::Linux;

/// What nft says when something cannot go because something leads to it.
const IN_USE: &str = "Device or resource busy";

// === impl Linux ===

impl Linux {
    /// Commits a patch as one transaction: over netlink, or through nft where only that can express it. New counters start with
    /// `counts`.
    pub(super) fn commit(&mut self, patch: &Patch, counts: &Counts) -> Result<(), KernelError> {
        if self.shapes.is_none() && patch.moves() > 0 {
            self.shapes = Some(self.talk("cannot read what sets there are", elements::shapes)?);
        }
        // After an error it is better to look again what there is.
        let shapes = self.shapes.take();
        let elements = patch.moves() + count_elements(&patch.sets);
        let is_committed =
            self.netlink_transaction("cannot change the table", TABLE, elements, |transaction| {
                transaction.patch(patch, counts, shapes.as_ref().unwrap_or(&Shapes::new()))
            })?;
        if !is_committed {
            self.transaction(&patch.text_with(counts), elements)?;
        }
        self.shapes = shapes;
        Ok(())
    }

    /// Commits a patch that packets can see. It waits first if a packet could combine it with an earlier one ([`crate::settling`]).
    pub(super) fn activate(&mut self, patch: &Patch) -> Result<(), KernelError> {
        if let Some(awaited) = self.settling.awaited(patch, self.grace.settled()) {
            self.grace.wait(awaited);
        }
        let done = self.commit(patch, &Counts::new());
        // After an error it may be there all the same.
        self.grace.begin(self.settling.committed(patch, self.grace.settled()));
        done
    }

    /// Applies a patch in steps. New counters start with `counts`.
    pub(super) fn move_structure(&mut self, patch: &Patch, counts: &Counts) -> Result<(), KernelError> {
        if self.left.takes_what_comes_with(patch) {
            self.tidy()?;
        }
        let (mut comes, changes, goes) = patch.clone().split();
        // What an old kernel keeps is there already, empty.
        let kept: Vec<Name> =
            comes.chains.keys().filter(|name| self.left.no_chains.contains(*name)).cloned().collect();
        for name in &kept {
            comes.changed.extend(comes.chains.remove_entry(name));
        }
        if !comes.is_empty() {
            refused_if_in_use(self.commit(&comes, counts))?;
        }
        let changed = if changes.is_empty() { Ok(()) } else { refused_if_in_use(self.activate(&changes)) };
        if let Err(error) = changed {
            self.undo(comes.undone());
            return Err(error);
        }
        if let Some(shapes) = &mut self.shapes {
            shapes.retain(|name, _| !goes.no_sets.contains(name));
            shapes.extend(patch.sets.iter().map(|(name, set)| (name.clone(), Some(Shape::of(set)))));
        }
        self.left.no_chains.retain(|name| !kept.contains(name));
        self.leave(goes);
        Ok(())
    }

    /// Takes away what came, which nothing has ever led to.
    fn undo(&mut self, comes: Patch) {
        if !comes.is_empty() && self.commit(&comes, &Counts::new()).is_err() {
            self.leave(comes);
        }
    }

    /// Nothing leads to this any more.
    fn leave(&mut self, goes: Patch) {
        if !goes.is_empty() {
            self.tried = Instant::now();
            self.left_since = self.settling.last();
            self.left.take_away(goes);
        }
    }

    /// Takes away what is left behind, which no packet is on its way through.
    pub(super) fn clear(&mut self) -> Result<(), KernelError> {
        let mut left = mem::take(&mut self.left);
        match self.commit(&left, &Counts::new()) {
            Err(KernelError::Busy(said)) if said.contains(IN_USE) => {
                if !self.releases_late {
                    return Err(KernelError::Refused(said));
                }
            }
            // It may be there or not: whoever reads the table will see.
            Err(error @ (KernelError::Drifted(_) | KernelError::Refused(_))) => return Err(error),
            Err(error) => {
                self.left = left;
                return Err(error);
            }
            Ok(()) => return Ok(()),
        }
        // Chains that maps led to are free only some time after the maps are gone.
        let chains = Patch { no_chains: mem::take(&mut left.no_chains), ..Patch::default() };
        let empty = chains.no_chains.iter().map(|name| (name.clone(), Default::default())).collect();
        let without = Patch { changed: empty, ..left.clone() };
        self.left = chains;
        if let Err(error) = self.commit(&without, &Counts::new()) {
            self.left.take_away(left);
            return Err(error);
        }
        match self.commit(&self.left.clone(), &Counts::new()) {
            Ok(()) => self.left = Patch::default(),
            Err(KernelError::Busy(said)) if said.contains(IN_USE) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Turns the error about something that cannot be removed because something leads to it into one that is not retried.
fn refused_if_in_use(done: Result<(), KernelError>) -> Result<(), KernelError> {
    match done {
        Err(KernelError::Busy(said)) if said.contains(IN_USE) => Err(KernelError::Refused(said)),
        other => other,
    }
}

pub(super) fn count_elements(sets: &BTreeMap<Name, Set>) -> usize {
    sets.values().map(|set| set.elements.len()).sum()
}
