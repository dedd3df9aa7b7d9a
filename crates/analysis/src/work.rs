//! How much work an answer may take.
//!
//! Input comes from anybody, and some questions about policies grow much faster than the files that raise them. So what
//! can grow counts its steps and stops at a limit; the answer then says what it left out. Steps are counted, not timed: the
//! same input gives the same answer on every machine. A step is about half a nanosecond of a core of 2025.

/// Steps that may still be taken.
#[derive(Debug, Clone)]
pub struct Work {
    left: u64,
}

/// Steps of one answer about all connections, whatever the size of the input: some seconds. The map of a cluster with 100,000
/// pods and 10,000 policies takes a tenth of it.
const MOST_STEPS: u64 = 4_000_000_000;
/// Steps for each byte of manifests on top of that: large clusters have large answers.
const FOR_A_BYTE: u64 = 3_000;

// === impl Work ===

impl Work {
    /// Work that ends after some steps.
    pub fn new(steps: u64) -> Self {
        Work { left: steps }
    }

    /// Work for an answer about manifests of so many bytes.
    pub fn for_input(bytes: usize) -> Self {
        Work::new(MOST_STEPS.saturating_add(FOR_A_BYTE.saturating_mul(bytes as u64)))
    }

    /// Takes steps. What is begun is finished: whoever loops asks [`is_spent`](Work::is_spent) from time to time.
    pub fn take(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Whether there is nothing left.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Splits a share off: as much of what is left as one of `parts` gets.
    #[must_use]
    pub fn share(&mut self, parts: u64) -> Work {
        let share = self.left / parts.max(1);
        self.left -= share;
        Work { left: share }
    }

    /// Takes back what is left of a share.
    // By value: a share that was put back must not be put back again.
    #[allow(clippy::needless_pass_by_value)]
    pub fn put_back(&mut self, share: Work) {
        self.left += share.left;
    }
}

impl Default for Work {
    fn default() -> Self {
        Work::new(MOST_STEPS)
    }
}
