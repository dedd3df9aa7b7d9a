//! A node's part of the view, in force in a kernel: put there, kept there, and repaired.
//!
//! ```text
//!   View, deltas ──► Compiler ──► transition ──► apply ──► Kernel      in force, or as before; what it denies is cut
//!                                              ▲
//!                          timer ──► repair ───┘                   what failed is tried again, what others did is undone
//! ```
//!
//! Every change is one transition: no packet passes that neither the old policy nor the new one lets through. Whatever does not work, what was in force stays.

mod apply;
mod repair;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use palisade_engine::delta::Delta;
use palisade_engine::view::{OutOfStep, View};
use palisade_nftables::compile::{Compiler, Wiring};
use palisade_nftables::kernel::{Count, Counts, InForce, Kernel, KernelError};
use palisade_nftables::program::{Name, Program};
use palisade_nftables::transition::Transition;

use crate::connections::Touched;
use crate::deciders::{self, Decider};
use crate::figures::Figures;
use crate::state::digest;

/// A node's program in a kernel.
#[derive(Debug)]
pub struct Enforcement<K> {
    kernel: K,
    live: Compiler,
    /// The machine's own addresses.
    own: BTreeSet<IpAddr>,
    /// What the kernel says our table is, if it has been asked since that was last changed.
    structure: Option<String>,
    written: Instant,
    /// When a whole program was last tried.
    tried: Instant,
    /// What was counted when that was last known, in case the table is gone.
    counts: Counts,
    /// Why the program is not in force, while it is not.
    behind: Option<KernelError>,
    /// Whether our table may be another and could not be looked at.
    suspect: bool,
    /// What is still to be looked for among connections: what failed, and once more what may have been on its way.
    uncut: Touched,
    /// What has been done.
    pub figures: Figures,
}

/// What an earlier enforcer knew of the table that it left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The digest of its program, without elements.
    pub program: String,
    /// What the kernel said the table is.
    pub structure: String,
}

/// What a change came to.
#[derive(Debug, Default)]
pub struct Done {
    /// What went into the kernel.
    pub wrote: Wrote,
    /// How long that took.
    pub took: Duration,
    /// When it was in force.
    pub at: Option<Instant>,
    /// How many connections were cut.
    pub cut: usize,
    /// Why it does not go into the kernel, if it does not. What was in force before is in force.
    pub failed: Option<KernelError>,
    /// Why connections could not be cut, if they could not. That is tried again.
    pub uncut: Option<KernelError>,
}

/// What went into the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wrote {
    /// Nothing: all is as it should be, or nothing worked.
    #[default]
    Nothing,
    /// What changed.
    Patch,
    /// A whole program.
    Replace,
}

// === impl Done ===

impl Done {
    /// With what came after.
    pub fn add(&mut self, next: Done) {
        self.wrote = match (self.wrote, next.wrote) {
            (Wrote::Replace, _) | (_, Wrote::Replace) => Wrote::Replace,
            (Wrote::Patch, _) | (_, Wrote::Patch) => Wrote::Patch,
            _ => Wrote::Nothing,
        };
        self.took += next.took;
        self.at = next.at.or(self.at);
        self.cut += next.cut;
        self.failed = next.failed.or(self.failed.take());
        self.uncut = next.uncut.or(self.uncut.take());
    }
}

// === impl Enforcement ===

impl<K: Kernel> Enforcement<K> {
    /// Puts a node's part of the view in force. If the kernel has just that, from an enforcer that is gone, it is left as it
    /// is.
    pub fn begin(
        part: View,
        node: &str,
        wiring: Wiring,
        own: BTreeSet<IpAddr>,
        kernel: K,
        remembered: Option<&Remembered>,
    ) -> (Self, Done) {
        let live = Compiler::new(part, node, wiring);
        let mut new = Enforcement {
            kernel,
            own,
            live,
            structure: None,
            written: Instant::now(),
            tried: Instant::now(),
            counts: Counts::new(),
            behind: None,
            suspect: false,
            uncut: Touched::Nothing,
            figures: Figures::default(),
        };
        let done = new.adopt(remembered);
        (new, done)
    }

    fn adopt(&mut self, remembered: Option<&Remembered>) -> Done {
        // Whatever happens from here on is noticed.
        if let Err(error) = self.retrying(Kernel::is_disturbed).and_then(|_| {
            let found = self.retrying(Kernel::read)?;
            if let (Some(found), Some(remembered)) = (found, remembered)
                && found.structure == remembered.structure
                && program_digest(self.live.program()) == remembered.program
                && same_elements(&found, self.live.program())
            {
                // One that was killed during a change left its guard, which refuses what is allowed since.
                self.retrying(Kernel::drop_guard)?;
                self.structure = Some(found.structure);
                self.succeeded();
            }
            Ok(())
        }) {
            // What cannot be read is replaced, if anything can be done at all.
            if matches!(error, KernelError::Forbidden(_) | KernelError::Missing(_)) {
                return self.fall_behind(error, Done::default());
            }
            self.structure = None;
        }
        let done = if self.structure.is_some() { Done::default() } else { self.replace(Done::default()) };
        // The one before us may have been ended between a change and its cutting.
        self.cut(Touched::Anything, done)
    }

    /// Takes the next deltas of the node's part, as one change. If they do not fit, see [`Enforcement::anew`].
    pub fn follow(&mut self, deltas: &[Delta]) -> Result<Done, OutOfStep> {
        let transition = self.live.follow(deltas)?;
        Ok(self.apply(&transition))
    }

    /// The same, and other interfaces lead to pods, and the machine has other addresses: still one change.
    pub fn follow_wired(
        &mut self,
        deltas: &[Delta],
        wiring: Wiring,
        own: BTreeSet<IpAddr>,
    ) -> Result<Done, OutOfStep> {
        let transition = self.live.follow_wired(deltas, wiring)?;
        Ok(self.apply_on(&transition, own))
    }

    /// Takes another part of the view, of whatever epoch, in the place of the one there was.
    pub fn anew(&mut self, part: View, node: &str, wiring: Wiring, own: BTreeSet<IpAddr>) -> Done {
        let live = Compiler::new(part, node, wiring);
        let transition = Transition::between(self.live.program(), live.program());
        self.live = live;
        self.apply_on(&transition, own)
    }

    /// Applies a patch on a machine that has these addresses now.
    fn apply_on(&mut self, transition: &Transition, own: BTreeSet<IpAddr>) -> Done {
        let moved = self.own != own;
        self.own = own;
        let done = self.apply(transition);
        // What was somebody else's connection can be the machine's own now, and the other way round.
        if moved && done.failed.is_none() { self.cut(Touched::Anything, done) } else { done }
    }

    /// Other interfaces lead to pods now, or the machine has other addresses.
    pub fn rewire(&mut self, wiring: Wiring, own: BTreeSet<IpAddr>) -> Done {
        let same = *self.live.wiring() == wiring;
        let transition = if same { Transition::default() } else { self.live.rewire(wiring) };
        self.apply_on(&transition, own)
    }

    /// Takes away what is only kept in case it is needed again soon.
    pub fn tidy(&mut self) -> Done {
        let transition = self.live.tidy();
        self.apply(&transition)
    }

    /// Packets and bytes by who decided; what was last known, if the kernel does not say.
    pub fn counts(&mut self) -> BTreeMap<Decider, Count> {
        self.count();
        deciders::by_decider(&deciders::deciders(&self.live), &self.counts)
    }

    /// The program and its view.
    pub fn live(&self) -> &Compiler {
        &self.live
    }

    /// Why the program is not in force, if it is not.
    pub fn behind(&self) -> Option<&KernelError> {
        self.behind.as_ref()
    }

    /// What the next enforcer has to know to leave the table as it is; nothing if the kernel has not been asked yet.
    pub fn remembered(&self) -> Option<Remembered> {
        let structure = self.structure.clone().filter(|_| self.behind.is_none())?;
        Some(Remembered { program: program_digest(self.live.program()), structure })
    }

    /// The machine's own addresses.
    pub fn own(&self) -> &BTreeSet<IpAddr> {
        &self.own
    }

    /// The kernel.
    pub fn kernel(&mut self) -> &mut K {
        &mut self.kernel
    }
}

/// The digest of a program without what is in its sets.
pub fn program_digest(program: &Program) -> String {
    let mut skeleton = program.clone();
    for set in skeleton.sets.values_mut() {
        set.elements.clear();
    }
    digest(skeleton.to_string().as_bytes())
}

/// Whether what the kernel has in its sets is what a program has.
pub fn same_elements(found: &InForce, program: &Program) -> bool {
    let filled = |name: &&Name| found.elements.get(*name).is_some_and(|elements| !elements.is_empty());
    let wanted = program.sets.iter().filter(|(_, set)| !set.elements.is_empty());
    found.elements.keys().filter(filled).count() == wanted.clone().count()
        && wanted.into_iter().all(|(name, set)| found.elements.get(name) == Some(&set.elements))
}
