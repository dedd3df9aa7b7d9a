//! How much work a node's program may take.
//!
//! Lists of rules, peers and traffic multiply: policies of less than a megabyte can tell more apart than any machine has
//! memory for. So what can grow counts its steps, and a list that cannot afford them is closed: it denies everything, and
//! [`Live::lacks`](super::live::Live::lacks) says which policies or pods that concerns. Steps are counted, not timed: the
//! same policies are the same program on every machine.
//!
//! What counts is what the program is: a change may use what the limit leaves beside the cost of all lists that exist, and a
//! list that goes gives its cost back. Only which of several lists is closed, if there is no room for all, depends on the
//! order in which they came; those that are closed are tried again when there is twice the room.

/// Steps that may still be taken. A step is about a nanosecond of a core of 2025.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
}

/// What a program may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    steps: u64,
    /// Steps for each address of a peer on top of that: in large clusters lists have many peers, and each is an element in
    /// the maps of some lists.
    for_an_address: u64,
}

/// Steps for a byte that is kept. It is memory that runs out first: the default limit pays for 700 MB.
pub(crate) const BYTE: u64 = 8;

// === impl Limit ===

impl Limit {
    /// Exactly this many steps, whatever the size of the cluster.
    pub(crate) fn of(steps: u64) -> Self {
        Limit { steps, for_an_address: 0 }
    }

    /// The least room with which to try a list again that could not be made: otherwise every change would try all of them.
    pub(crate) fn worth_a_try(self) -> u64 {
        self.steps / 100
    }

    /// What is left for a program about this many addresses of peers, of which `used` steps are taken already.
    pub(crate) fn left(self, addresses: usize, used: u64) -> Budget {
        let all = self.steps.saturating_add(self.for_an_address.saturating_mul(addresses as u64));
        Budget { left: all.saturating_sub(used) }
    }
}

impl Default for Limit {
    /// Some seconds and some hundred megabytes; in a cluster of 100,000 addresses four times as much.
    fn default() -> Self {
        Limit { steps: 6_000_000_000, for_an_address: 200_000 }
    }
}

// === impl Budget ===

impl Budget {
    /// Without a limit: one address that moves takes little, whatever the program.
    pub(crate) fn unlimited() -> Self {
        Budget { left: u64::MAX }
    }

    /// Takes steps. What is begun is finished: a loop asks [`is_spent`](Budget::is_spent) from time to time.
    pub(crate) fn take(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
    }

    /// Whether there is nothing left.
    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Splits a share off: as much of what is left as one of `parts` gets. A list gets a share and not all, so that one that
    /// asks for too much leaves something to the others.
    #[must_use]
    pub(crate) fn share(&mut self, parts: u64) -> Budget {
        let share = self.left / parts.max(1);
        self.left -= share;
        Budget { left: share }
    }

    /// Takes back what is left of a share.
    // By value: a share that was put back must not be put back again.
    #[allow(clippy::needless_pass_by_value)]
    pub(crate) fn put_back(&mut self, share: Budget) {
        self.left = self.left.saturating_add(share.left);
    }

    /// Steps that are left.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }
}
