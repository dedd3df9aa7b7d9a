//! What an enforcer has done, in numbers.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use palisade_nftables::kernel::KernelError;

/// Numbers since the enforcer began. They only grow, but for those that say how things are now.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// How often the input was read again and put in force, or found to be in force.
    pub reloads: u64,
    /// How often the input could not be taken as it is.
    pub refused_reloads: u64,
    /// What did not work, by kind.
    pub failures: BTreeMap<&'static str, u64>,
    /// Patches that went into the kernel, and the time it took.
    pub patches: Histogram,
    /// Whole programs that did, likewise.
    pub replaces: Histogram,
    /// Connections that were cut.
    pub cut: u64,
    /// How often somebody else had changed our table.
    pub repairs: u64,
    /// When what is wanted was last known to be in force.
    pub last_success: Option<SystemTime>,
}

/// How often something took how long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// For each of [`BOUNDS`] how many took at most so long, and not at most the one before.
    pub buckets: [u64; BOUNDS.len()],
    /// How many there were.
    pub count: u64,
    /// How long they took together.
    pub sum: Duration,
}

/// The upper ends of the buckets of a histogram.
pub const BOUNDS: [Duration; 12] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_millis(2_500),
];

/// The kinds of failures, all of which are shown from the beginning.
pub const KINDS: [&str; 6] = ["busy", "drifted", "forbidden", "missing", "refused", "system"];

// === impl Figures ===

impl Figures {
    /// Counts something that did not work.
    pub fn failed(&mut self, error: &KernelError) {
        *self.failures.entry(kind(error)).or_default() += 1;
    }
}

// === impl Histogram ===

impl Histogram {
    /// Counts one.
    pub fn took(&mut self, time: Duration) {
        if let Some(at) = BOUNDS.iter().position(|bound| time <= *bound) {
            self.buckets[at] += 1;
        }
        self.count += 1;
        self.sum += time;
    }
}

fn kind(error: &KernelError) -> &'static str {
    match error {
        KernelError::Busy(_) => "busy",
        KernelError::Drifted(_) => "drifted",
        KernelError::Forbidden(_) => "forbidden",
        KernelError::Missing(_) => "missing",
        KernelError::Refused(_) => "refused",
        KernelError::System { .. } => "system",
    }
}
