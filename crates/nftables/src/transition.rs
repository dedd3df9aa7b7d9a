//! A patch together with what keeps it safe while packets are on their way.
//!
//! A packet meets rules of one generation, but looks sets and maps up as they are at that moment. During a change it can
//! therefore combine lookups from before with lookups from after. Most changes cannot be combined to anything that neither
//! policy allows ([`crate::compile`] works that out). Where one can, the new policy is loaded as a second table, the *guard*
//! ([`crate::guard`]), before the patch and removed after it: while both are there, a packet passes only if both let it.
//!
//! ```text
//!   in force       old        old ∩ new      any mixture ∩ new       new
//!   ─────────────────┬──────────────┬───────────────┬────────────────┬──►
//!                 guard added    every packet     patch          guard removed
//!                                that began
//!                                before is through
//! ```

use crate::guard::Scope;
use crate::patch::Patch;
use crate::program::Program;

/// A patch, with the guard that it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transition {
    /// What takes the program of before to the next one.
    pub patch: Patch,
    /// The second table that has to be in force while the patch is applied. None if no mixture of before and after lets a packet
    /// through that both refuse.
    pub guard: Option<Program>,
}

// === impl Transition ===

impl Transition {
    /// Returns the change from one whole program to another of which nothing is known: all of the new one is the guard.
    pub fn between(old: &Program, new: &Program) -> Transition {
        let patch = Patch::between(old, new);
        let guard = (!patch.is_empty()).then(|| new.guard(&Scope::Everything));
        Transition { patch, guard }
    }
}

impl From<Patch> for Transition {
    fn from(patch: Patch) -> Self {
        Transition { patch, guard: None }
    }
}
