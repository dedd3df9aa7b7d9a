//! A node's part of the view, in force in a kernel: put there, kept there, and repaired.
//!
//! Every change is one transaction. If that does not work it is tried again, then as a whole program; if that does not work
//! either, what was in force stays, and the next change or the next [`Enforcement::mend`] tries again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use palisade_engine::delta::Delta;
use palisade_engine::view::{OutOfStep, View};
use palisade_nftables::compile::live::{Live, Wiring};
use palisade_nftables::kernel::{Count, Counts, InForce, Kernel, KernelError};
use palisade_nftables::patch::Patch;
use palisade_nftables::program::{Name, Program};

use crate::connections::{Touched, is_denied};
use crate::counted::{self, Decider};
use crate::figures::Figures;
use crate::state::digest;

/// A node's program in a kernel.
#[derive(Debug)]
pub struct Enforcement<K> {
    kernel: K,
    live: Live,
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

/// How often something is tried that may work the next time, and how long to wait before that, at first.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(1);

/// How long nothing must have changed before the kernel is asked what our table is now: that takes time in its size.
const QUIET: Duration = Duration::from_millis(500);

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
        let live = Live::new(part, node, wiring);
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
        let patch = self.live.follow(deltas)?;
        Ok(self.apply(&patch))
    }

    /// The same, and other interfaces lead to pods, and the machine has other addresses: still one change.
    pub fn follow_wired(
        &mut self,
        deltas: &[Delta],
        wiring: Wiring,
        own: BTreeSet<IpAddr>,
    ) -> Result<Done, OutOfStep> {
        let patch = self.live.follow_wired(deltas, wiring)?;
        Ok(self.apply_on(&patch, own))
    }

    /// Takes another part of the view, of whatever epoch, in the place of the one there was.
    pub fn anew(&mut self, part: View, node: &str, wiring: Wiring, own: BTreeSet<IpAddr>) -> Done {
        let live = Live::new(part, node, wiring);
        let patch = Patch::between(self.live.program(), live.program());
        self.live = live;
        self.apply_on(&patch, own)
    }

    /// Applies a patch on a machine that has these addresses now.
    fn apply_on(&mut self, patch: &Patch, own: BTreeSet<IpAddr>) -> Done {
        let moved = self.own != own;
        self.own = own;
        let done = self.apply(patch);
        // What was somebody else's connection can be the machine's own now, and the other way round.
        if moved && done.failed.is_none() { self.cut(Touched::Anything, done) } else { done }
    }

    /// Other interfaces lead to pods now, or the machine has other addresses.
    pub fn rewire(&mut self, wiring: Wiring, own: BTreeSet<IpAddr>) -> Done {
        let patch = if *self.live.wiring() == wiring { Patch::default() } else { self.live.rewire(wiring) };
        self.apply_on(&patch, own)
    }

    /// Takes away what is only kept in case it is needed again soon.
    pub fn tidy(&mut self) -> Done {
        let patch = self.live.tidy();
        self.apply(&patch)
    }

    /// Looks whether the kernel still has what it should, and puts it there if not. Says whether anybody had changed it. For a
    /// timer.
    pub fn mend(&mut self) -> (Done, Option<&'static str>) {
        let mut repaired = None;
        let mut done = Done::default();
        if self.behind.is_some() {
            // Whatever others do meanwhile: all of it is replaced.
            let _ = self.kernel.is_disturbed();
            if self.tried.elapsed() < QUIET {
                return (done, None);
            }
            done = self.replace(done);
            done = self.cut(Touched::Anything, done);
        } else {
            match self.look() {
                Ok(None) => {}
                Ok(Some(why)) => {
                    self.figures.repairs += 1;
                    repaired = Some(why);
                    done = self.replace(done);
                    done = self.cut(Touched::Anything, done);
                    self.learn();
                }
                Err(error) => {
                    self.figures.failed(&error);
                    done.failed = Some(error);
                }
            }
        }
        if self.behind.is_none() && self.uncut != Touched::Nothing {
            // Once more, for those that were on their way; what fails stays for the next time.
            let touched = std::mem::take(&mut self.uncut);
            done = self.cut_now(touched, done);
        }
        (done, repaired)
    }

    /// What is not as it should be with our table, if anything.
    fn look(&mut self) -> Result<Option<&'static str>, KernelError> {
        // What could not be looked at is looked at the next time: until then anything may have happened.
        let disturbed = self.kernel.is_disturbed()? || self.suspect;
        self.suspect = true;
        let looked = self.look_at(disturbed);
        self.suspect = looked.is_err();
        match looked {
            Err(KernelError::Drifted(_)) => Ok(Some("there was something in it that is none of ours")),
            looked => looked,
        }
    }

    fn look_at(&mut self, disturbed: bool) -> Result<Option<&'static str>, KernelError> {
        let known = self.structure.is_some() || self.written.elapsed() < QUIET;
        if known && !disturbed {
            return Ok(None);
        }
        // Before anybody remembers what the table is.
        match self.kernel.tidy() {
            Err(KernelError::Refused(_)) => return Ok(Some("something held what was not needed any more")),
            tidied => tidied?,
        }
        let Some(found) = self.kernel.read()? else { return Ok(Some("the table was gone")) };
        if !same_elements(&found, self.live.program()) {
            return Ok(Some("elements of its sets were others"));
        }
        match &self.structure {
            Some(structure) if *structure == found.structure => Ok(None),
            Some(_) => Ok(Some("its chains or sets were others")),
            None if disturbed => Ok(Some("somebody changed the tables right after we did")),
            None => {
                self.structure = Some(found.structure);
                Ok(None)
            }
        }
    }

    /// Whether [`Enforcement::mend`] has something to do soon.
    pub fn is_unsettled(&self) -> bool {
        self.structure.is_none() || self.behind.is_some() || self.uncut != Touched::Nothing
    }

    /// Finds out what the next enforcer has to know, now rather than when it is quiet.
    pub fn settle(&mut self) {
        if self.structure.is_none() {
            self.learn();
        }
    }

    /// Asks the kernel what our table is, right after all of it was replaced. Whoever changes tables all the time would otherwise have
    /// us replace ours all the time.
    fn learn(&mut self) {
        if self.behind.is_none()
            && self.kernel.tidy().is_ok()
            && let Ok(Some(found)) = self.kernel.read()
            && same_elements(&found, self.live.program())
        {
            self.structure = Some(found.structure);
        }
    }

    /// Packets and bytes by who decided; what was last known, if the kernel does not say.
    pub fn counts(&mut self) -> BTreeMap<Decider, Count> {
        self.count();
        counted::by_decider(&counted::deciders(&self.live), &self.counts)
    }

    /// The program and its view.
    pub fn live(&self) -> &Live {
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

    fn apply(&mut self, patch: &Patch) -> Done {
        let touched = Touched::by(patch);
        let mut done = Done::default();
        if self.behind.is_some() {
            done = self.replace(done);
            return self.cut(Touched::Anything, done);
        }
        if patch.is_empty() {
            self.succeeded();
            return done;
        }
        let begun = Instant::now();
        match self.retrying(|kernel| kernel.patch(patch)) {
            Ok(()) => {
                done.took = begun.elapsed();
                done.at = Some(Instant::now());
                done.wrote = Wrote::Patch;
                self.figures.patches.took(done.took);
                if !patch.is_elements_only() {
                    self.structure = None;
                }
                self.written = Instant::now();
                self.succeeded();
                self.cut(touched, done)
            }
            // Without the right nothing works; anything else may work as a whole.
            Err(error @ (KernelError::Forbidden(_) | KernelError::Missing(_))) => {
                self.fall_behind(error, done)
            }
            Err(error) => {
                match error {
                    KernelError::Drifted(_) => self.figures.repairs += 1,
                    // If it is the following that went wrong, from scratch it is right.
                    KernelError::Refused(_) => self.live = self.live.rebuilt(),
                    _ => {}
                }
                done = self.replace(done);
                self.cut(Touched::Anything, done)
            }
        }
    }

    fn replace(&mut self, mut done: Done) -> Done {
        self.count();
        let counts: Counts = self
            .counts
            .iter()
            .filter(|(name, _)| self.live.program().counters.contains(*name))
            .map(|(name, count)| (name.clone(), *count))
            .collect();
        let begun = Instant::now();
        self.tried = begun;
        let program = self.live.program();
        match retrying(&mut self.kernel, &mut self.figures, |kernel| kernel.replace(program, &counts)) {
            Ok(()) => {
                done.took += begun.elapsed();
                done.at = Some(Instant::now());
                done.wrote = Wrote::Replace;
                self.figures.replaces.took(begun.elapsed());
                self.structure = None;
                self.written = Instant::now();
                self.succeeded();
                done
            }
            Err(error) => self.fall_behind(error, done),
        }
    }

    fn count(&mut self) {
        match self.kernel.counts() {
            Ok(counts) if !counts.is_empty() => self.counts = counts,
            Ok(_) => {}
            Err(error) => self.figures.failed(&error),
        }
    }

    fn succeeded(&mut self) {
        self.behind = None;
        self.figures.last_success = Some(SystemTime::now());
    }

    /// What was in force stays; the next time all of it is replaced.
    fn fall_behind(&mut self, error: KernelError, mut done: Done) -> Done {
        done.failed = Some(again(&error));
        self.behind = Some(error);
        done
    }

    /// Cuts what the program denies, now and once more when [`Enforcement::mend`] comes by: a packet that passed the rules of before
    /// may become a known connection only after we looked.
    fn cut(&mut self, touched: Touched, done: Done) -> Done {
        if touched == Touched::Nothing || self.behind.is_some() {
            return done;
        }
        self.uncut = std::mem::take(&mut self.uncut).and(touched.clone());
        self.cut_now(touched, done)
    }

    fn cut_now(&mut self, touched: Touched, mut done: Done) -> Done {
        let cut = self.retrying(Kernel::connections).and_then(|connections| {
            let program = self.live.program();
            let denied: Vec<_> = connections
                .into_iter()
                .filter(|connection| touched.holds(connection))
                // A program that cannot be walked is one that the kernel did not take.
                .filter(|connection| is_denied(program, &self.own, connection).unwrap_or(false))
                .collect();
            if denied.is_empty() { Ok(0) } else { self.retrying(|kernel| kernel.cut(&denied)) }
        });
        match cut {
            Ok(count) => {
                done.cut += count;
                self.figures.cut += count as u64;
            }
            Err(error) => {
                self.uncut = std::mem::take(&mut self.uncut).and(touched);
                done.uncut = Some(error);
            }
        }
        done
    }

    fn retrying<T>(&mut self, task: impl FnMut(&mut K) -> Result<T, KernelError>) -> Result<T, KernelError> {
        retrying(&mut self.kernel, &mut self.figures, task)
    }
}

/// Tries something until it works or will not, a bounded number of times.
fn retrying<K, T>(
    kernel: &mut K,
    figures: &mut Figures,
    mut task: impl FnMut(&mut K) -> Result<T, KernelError>,
) -> Result<T, KernelError> {
    let mut pause = PAUSE;
    for _ in 1..TRIES {
        match task(kernel) {
            Err(error @ (KernelError::Busy(_) | KernelError::System { .. })) => {
                figures.failed(&error);
                std::thread::sleep(pause);
                pause *= 2;
            }
            Ok(done) => return Ok(done),
            Err(error) => {
                figures.failed(&error);
                return Err(error);
            }
        }
    }
    task(kernel).inspect_err(|error| figures.failed(error))
}

/// The same error once more: one is kept, one is handed on.
fn again(error: &KernelError) -> KernelError {
    match error {
        KernelError::Missing(what) => KernelError::Missing(what.clone()),
        KernelError::Forbidden(what) => KernelError::Forbidden(what.clone()),
        KernelError::Busy(what) => KernelError::Busy(what.clone()),
        KernelError::Drifted(what) => KernelError::Drifted(what.clone()),
        KernelError::Refused(what) => KernelError::Refused(what.clone()),
        KernelError::System { what, source } => KernelError::System {
            what: what.clone(),
            source: source.raw_os_error().map_or_else(
                || std::io::Error::new(source.kind(), source.to_string()),
                std::io::Error::from_raw_os_error,
            ),
        },
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
