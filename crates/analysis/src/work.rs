//! Budget of work of an answer.
//!
//! Input is untrusted, and the cost of some analyses grows much faster than the files they are about. So loops that can grow
//! charge steps and stop at a limit; the answer then reports what it left out. Steps are counted, not timed: the same input
//! gives the same answer on every machine. A step is about half a nanosecond of a core of 2025.

/// Steps left for an answer.
#[derive(Debug, Clone)]
pub struct Work {
    left: u64,
}

/// Steps of one answer, without those for the size of the input: some seconds. The map of a cluster with 100,000 pods and
/// 10,000 policies takes a tenth of it.
const MAX_STEPS: u64 = 4_000_000_000;
/// Additional steps for each byte of manifests: large clusters have large answers.
const STEPS_PER_BYTE: u64 = 3_000;

// === impl Work ===

impl Work {
    /// Creates a budget of some steps.
    pub fn new(steps: u64) -> Self {
        Work { left: steps }
    }

    /// Creates the budget of an answer about manifests of this size in bytes.
    pub fn for_input(bytes: usize) -> Self {
        Work::new(MAX_STEPS.saturating_add(STEPS_PER_BYTE.saturating_mul(bytes as u64)))
    }

    /// Charges steps. Loops check [`is_spent`](Work::is_spent) between iterations, and finish what they began.
    pub fn take(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Whether no steps are left.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Splits off one of `parts` equal shares of the remaining steps.
    #[must_use]
    pub fn share(&mut self, parts: u64) -> Work {
        let share = self.left / parts.max(1);
        self.left -= share;
        Work { left: share }
    }

    /// Returns the remaining steps of a share to the budget.
    // By value: a share that was put back must not be put back again.
    #[allow(clippy::needless_pass_by_value)]
    pub fn put_back(&mut self, share: Work) {
        self.left += share.left;
    }
}

impl Default for Work {
    fn default() -> Self {
        Work::new(MAX_STEPS)
    }
}
