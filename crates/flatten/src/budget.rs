//! The work that flattening may take.
//!
//! Rules, peers and traffic multiply: policies of less than a megabyte can distinguish more than any machine has memory for.
//! So every loop that can grow counts its steps, and a list that exceeds its budget is closed: it denies everything. Steps are
//! counted, not timed, so that the same policies give the same result on every machine.
//!
//! What counts against the limit is what exists: a change may use what the limit leaves beside the cost of all existing lists,
//! and a list that is removed returns its cost. Which of several lists is closed, if there is no room for all, depends on the
//! order in which they were built; a backend tries closed lists again when there is twice the room.

/// Steps that may still be taken. A step is about a nanosecond of a core of 2025.
#[derive(Debug)]
pub struct Budget {
    left: u64,
}

/// The steps that all lists of a backend may take together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    steps: u64,
    /// Additional steps for each peer address: in large clusters lists have many peers, each an element of several maps.
    per_address: u64,
}

/// Steps for a byte that is kept. Memory runs out before time does: the default limit pays for 700 MB.
pub const BYTE: u64 = 8;

// === impl Limit ===

impl Limit {
    /// Returns a limit that does not depend on the size of the cluster.
    pub fn fixed(steps: u64) -> Self {
        Limit { steps, per_address: 0 }
    }

    /// Returns the least budget with which a closed list is worth another attempt. Without it every change would retry all of
    /// them.
    pub fn least_retry(self) -> u64 {
        self.steps / 100
    }

    /// Returns the budget that is left in a cluster with this many peer addresses when `used` steps are taken.
    pub fn left(self, addresses: usize, used: u64) -> Budget {
        let all = self.steps.saturating_add(self.per_address.saturating_mul(addresses as u64));
        Budget { left: all.saturating_sub(used) }
    }
}

impl Default for Limit {
    /// Some seconds and some hundred megabytes; in a cluster of 100,000 addresses four times as much.
    fn default() -> Self {
        Limit { steps: 6_000_000_000, per_address: 200_000 }
    }
}

// === impl Budget ===

impl Budget {
    /// Returns a budget without a limit, for work that is known to be small: one address that moves.
    pub fn unlimited() -> Self {
        Budget { left: u64::MAX }
    }

    /// Takes steps. A caller finishes what it has begun and checks [`Budget::is_spent`] from time to time.
    pub fn take(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Returns whether no step is left.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Splits off one of `parts` equal shares. A list gets a share and not all, so that a list that needs too much leaves
    /// something to the others.
    #[must_use]
    pub fn share(&mut self, parts: u64) -> Budget {
        let share = self.left / parts.max(1);
        self.left -= share;
        Budget { left: share }
    }

    /// Returns what is left of a share.
    // By value: a share must not be returned twice.
    #[allow(clippy::needless_pass_by_value)]
    pub fn put_back(&mut self, share: Budget) {
        self.left = self.left.saturating_add(share.left);
    }

    /// Returns the number of steps that are left.
    pub fn left(&self) -> u64 {
        self.left
    }
}
