//! Whether the kernel still has what it should.
//!
//! What our table is, in the kernel's own words, is asked when nothing has changed for a while, and compared whenever somebody else may
//! have changed it. Between a change and that, whatever others do is answered by putting all of it there again.

use std::time::Duration;

use palisade_nftables::kernel::{Kernel, KernelError};

use super::{Done, Enforcement, same_elements};
use crate::connections::Touched;

/// How long nothing must have changed before the kernel is asked what our table is now: that takes time in its size.
const QUIET: Duration = Duration::from_millis(500);

// === impl Enforcement ===

impl<K: Kernel> Enforcement<K> {
    /// Looks whether the kernel still has what it should, and puts it there if not. Says whether anybody had changed it. For a
    /// timer.
    pub fn repair(&mut self) -> (Done, Option<&'static str>) {
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

    /// Whether [`Enforcement::repair`] has something to do soon.
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
}
