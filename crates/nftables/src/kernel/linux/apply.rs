//! How patches get into the kernel, so that no packet ever meets half of one.
//!
//! A packet meets the rules of one generation, but sets and maps as they are when it looks into them, and new sets of ranges have nothing
//! in them for a moment after the rules that ask for them are in force. A map that goes is empty at once, also for a packet that
//! meets the rules of before. So a patch of chains and sets is three steps, each a transaction:
//!
//! ```text
//!   what comes      counters, sets with all that is in them, chains: nothing leads there yet
//!   what changes    other rules in chains that stay, elements that come and go: from here on it is in force
//!   what goes       later, when every packet that was on its way is through: nothing leads there any more
//! ```
//!
//! Where the second is elements alone it is a netlink batch, so that most changes of policies take one process. If it is refused the
//! first is undone. Whoever is killed between them leaves the rules of before in force, or the next; what
//! is left over goes when somebody takes over ([`super::replace`]).

use std::collections::BTreeMap;
use std::mem;
use std::time::{Duration, Instant};

use rustix::thread::{MembarrierCommand, membarrier};

use crate::kernel::elements;
use crate::kernel::shape::{Shape, Shapes};
use crate::kernel::{Counts, Kernel, KernelError};
use crate::patch::Patch;
use crate::program::{Name, Set};
use crate::text::TABLE;

use super::Linux;

/// What nft says when something cannot go because something leads to it.
const IN_USE: &str = "Device or resource busy";
/// How long a packet may be on its way, where the kernel does not say when all are through.
const LONG: Duration = Duration::from_millis(200);

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
        self.step(&comes, counts)?;
        if let Err(error) = self.step(&changes, &Counts::new()) {
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

    fn step(&mut self, patch: &Patch, counts: &Counts) -> Result<(), KernelError> {
        if patch.is_empty() {
            return Ok(());
        }
        match self.commit(patch, counts) {
            Err(KernelError::Busy(said)) if said.contains(IN_USE) => Err(KernelError::Refused(said)),
            other => other,
        }
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

/// Waits until every packet that is on its way now is through: the kernel waits for just that before it takes away what packets may
/// still use, and `membarrier` does too.
pub(super) fn wait_for_packets() {
    // With one processor the kernel does not wait: there, a packet that was interrupted is through after some time.
    let alone = std::thread::available_parallelism().is_ok_and(|count| count.get() == 1);
    if membarrier(MembarrierCommand::Global).is_err() || alone {
        std::thread::sleep(LONG);
    }
}

pub(super) fn count_elements(sets: &BTreeMap<Name, Set>) -> usize {
    sets.values().map(|set| set.elements.len()).sum()
}
