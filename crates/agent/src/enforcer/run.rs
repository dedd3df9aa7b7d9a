//! The loop of an enforcer: waits until there is something to do, and does it.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};

use super::notice::Observer;
use super::{Enforcer, KernelState, TIDY, WatchedKernel};
use crate::metrics::serve::Scrapes;
use crate::source::Source;
use crate::timeout;

/// Flags that end or interrupt the loop, e.g. set by signals.
#[derive(Debug)]
pub struct Control {
    /// Ends the loop.
    pub stop: Arc<AtomicBool>,
    /// Reads the source again.
    pub relist: Arc<AtomicBool>,
    /// Becomes readable when a flag is set. Must not block.
    pub wakeup: UnixStream,
}

/// The maximum pause: drift that the kernel did not report is found after it.
const PAUSE: Duration = Duration::from_secs(2);
/// The maximum pause while something is to be repaired, cut or written down.
const UNSETTLED_PAUSE: Duration = Duration::from_millis(250);

// === impl Enforcer ===

impl<S: Source, K: WatchedKernel, O: Observer> Enforcer<S, K, O> {
    /// Enforces until it is stopped. What is enforced then stays in the kernel.
    pub fn run(&mut self, control: &Control, mut scrapes: Option<Scrapes>) {
        let mut tidied = Instant::now();
        while !control.stop.load(Ordering::Relaxed) {
            self.wait(control, scrapes.as_ref());
            if control.relist.swap(false, Ordering::Relaxed) {
                self.source.relist();
            }
            self.step();
            self.repair();
            if tidied.elapsed() >= TIDY {
                tidied = Instant::now();
                self.tidy();
            }
            if let Some(scrapes) = &mut scrapes {
                scrapes.answer(|| self.metrics());
            }
            self.write_state();
            let outcomes = self.comparisons.advance();
            self.report_outcomes(outcomes);
        }
        let outcomes = self.comparisons.finish();
        self.report_outcomes(outcomes);
    }

    /// Waits until a descriptor is readable or something is due.
    fn wait(&mut self, control: &Control, scrapes: Option<&Scrapes>) {
        let pause = if self.is_unsettled() { UNSETTLED_PAUSE } else { PAUSE };
        let due = self.source.due().into_iter().chain(self.comparisons.due());
        let pause = due.fold(pause, Duration::min);
        let mut all: Vec<BorrowedFd<'_>> = vec![control.wakeup.as_fd()];
        all.extend(self.source.wakeups());
        all.extend(scrapes.map(AsFd::as_fd));
        all.extend(self.comparisons.wakeup());
        if let KernelState::Enforcing(enforcement) = &mut self.kernel {
            all.extend(enforcement.kernel().wakeup());
        }
        let mut all: Vec<PollFd<'_>> =
            all.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // An interruption is a signal, which has set its flag.
        let _ = poll(&mut all, Some(&timeout(pause)));
        control.drain();
    }

    fn is_unsettled(&self) -> bool {
        self.is_unwritten || self.enforcement().is_some_and(|enforcement| enforcement.is_unsettled())
    }
}

// === impl Control ===

impl Control {
    fn drain(&self) {
        let mut buffer = [0; 64];
        while (&self.wakeup).read(&mut buffer).is_ok_and(|length| length > 0) {}
    }
}
