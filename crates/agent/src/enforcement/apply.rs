//! How a change gets into the kernel, and what is cut then.
//!
//! A patch that does not work is tried again, then as a whole program. If that does not work either, what was in force stays, and
//! [`Enforcement::behind`] says why until it does.

use std::time::{Duration, Instant, SystemTime};

use palisade_nftables::kernel::{Counts, Kernel, KernelError};
use palisade_nftables::transition::Transition;

use super::{Done, Enforcement, Wrote};
use crate::connections::{Touched, is_denied};
use crate::figures::Figures;

/// How often something is tried that may work the next time, and how long to wait before that, at first.
const TRIES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(1);

// === impl Enforcement ===

impl<K: Kernel> Enforcement<K> {
    pub(super) fn apply(&mut self, transition: &Transition) -> Done {
        let patch = &transition.patch;
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
        match self.retrying(|kernel| kernel.transition(transition)) {
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

    pub(super) fn replace(&mut self, mut done: Done) -> Done {
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

    pub(super) fn count(&mut self) {
        match self.kernel.counts() {
            Ok(counts) if !counts.is_empty() => self.counts = counts,
            Ok(_) => {}
            Err(error) => self.figures.failed(&error),
        }
    }

    pub(super) fn succeeded(&mut self) {
        self.behind = None;
        self.figures.last_success = Some(SystemTime::now());
    }

    /// What was in force stays; the next time all of it is replaced.
    pub(super) fn fall_behind(&mut self, error: KernelError, mut done: Done) -> Done {
        done.failed = Some(again(&error));
        self.behind = Some(error);
        done
    }

    /// Cuts what the program denies, now and once more when [`Enforcement::repair`] comes by: a packet that passed the rules of before
    /// may become a known connection only after we looked.
    pub(super) fn cut(&mut self, touched: Touched, done: Done) -> Done {
        if touched == Touched::Nothing || self.behind.is_some() {
            return done;
        }
        self.uncut = std::mem::take(&mut self.uncut).and(touched.clone());
        self.cut_now(touched, done)
    }

    pub(super) fn cut_now(&mut self, touched: Touched, mut done: Done) -> Done {
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

    pub(super) fn retrying<T>(
        &mut self,
        task: impl FnMut(&mut K) -> Result<T, KernelError>,
    ) -> Result<T, KernelError> {
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
