//! Grace periods: until every packet that is on its way is through.
//!
//! A thread waits for them, so that a change only waits for what is left of the period after the one before. Periods of several commits
//! are one: unless a change waits, the thread lets some time pass first.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::thread::{MembarrierCommand, membarrier};

use crate::settling::CommitNumber;

/// How long a packet may be on its way, where the kernel does not say when all are through.
const LONG: Duration = Duration::from_millis(200);
/// How long commits are collected before the thread waits for their packets, unless a change waits for that.
const COLLECT: Duration = Duration::from_millis(20);

/// The commits whose packets are waited for.
#[derive(Debug, Default)]
pub(super) struct Grace {
    shared: Arc<Shared>,
    has_thread: bool,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The last commit, and the last one whose packets are through.
    committed: CommitNumber,
    settled: CommitNumber,
    /// Whether a change waits.
    is_urgent: bool,
    is_closed: bool,
}

// === impl Grace ===

impl Grace {
    /// Begins a grace period after a commit.
    pub(super) fn begin(&mut self, commit: CommitNumber) {
        if !self.has_thread {
            let shared = Arc::clone(&self.shared);
            let spawned = std::thread::Builder::new().name("grace".to_owned()).spawn(move || shared.run());
            // Without a thread, changes wait for whole periods.
            self.has_thread = spawned.is_ok();
        }
        let mut state = self.shared.lock();
        state.committed = commit;
        let was_idle = state.settled + 1 == commit;
        drop(state);
        // A thread that collects commits needs no other wake-up.
        if was_idle {
            self.shared.changed.notify_all();
        }
    }

    /// Returns the last commit whose packets are through.
    pub(super) fn settled(&self) -> CommitNumber {
        self.shared.lock().settled
    }

    /// Waits until the packets of a commit are through.
    pub(super) fn wait(&self, commit: CommitNumber) {
        if !self.has_thread {
            wait_for_packets();
            return self.settle(commit);
        }
        let mut state = self.shared.lock();
        while state.settled < commit {
            if !state.is_urgent {
                state.is_urgent = true;
                self.shared.changed.notify_all();
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Notes that the packets of a commit are through.
    pub(super) fn settle(&self, commit: CommitNumber) {
        let mut state = self.shared.lock();
        state.settled = state.settled.max(commit);
    }
}

impl Drop for Grace {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

// === impl Shared ===

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut state = self.lock();
        loop {
            while state.settled >= state.committed && !state.is_closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let start = Instant::now();
            while let Some(rest) = COLLECT.checked_sub(start.elapsed())
                && !state.is_urgent
                && !state.is_closed
            {
                let waited = self.changed.wait_timeout(state, rest);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            if state.is_closed {
                return;
            }
            let committed = state.committed;
            state.is_urgent = false;
            drop(state);
            wait_for_packets();
            state = self.lock();
            state.settled = state.settled.max(committed);
            self.changed.notify_all();
        }
    }
}

/// Waits until every packet that is on its way now is through: the kernel waits for just that before it frees what packets may
/// still use, and `membarrier` does too.
pub(super) fn wait_for_packets() {
    // With one processor the kernel does not wait: there, a packet that was interrupted is through after some time.
    let alone = std::thread::available_parallelism().is_ok_and(|count| count.get() == 1);
    if membarrier(MembarrierCommand::Global).is_err() || alone {
        std::thread::sleep(LONG);
    }
}
