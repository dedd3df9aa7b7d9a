//! What an enforcer reports while it runs, as data: the binary prints it.

use std::fmt;
use std::time::Duration;

use palisade_model::diagnostic::Diagnostic;
use palisade_model::snapshot::Objects;

use crate::comparison::Outcome;
use crate::source::Problem;

/// Receives what an enforcer reports.
pub trait Observer {
    /// What a comparison of objects yields.
    type Changes: Send + fmt::Debug + 'static;

    /// Compares the objects before and after changes. Runs in a thread of its own.
    fn compare(before: Objects, after: Objects) -> Self::Changes;

    /// Takes a notice.
    fn notice(&mut self, notice: Notice<'_, Self::Changes>);

    /// Describes a problem for the state on disk, which `palisade enforce status` shows.
    fn describe(&self, problem: &Problem) -> String {
        problem.to_string()
    }
}

/// Something that an enforcer reports.
#[derive(Debug)]
pub enum Notice<'n, C> {
    /// The problems of the source are others than before.
    Problems(&'n [Problem]),
    /// The source was accepted, with these findings.
    Findings(&'n [Diagnostic]),
    /// Warnings about a topic: all that hold now. Those that held before need no second report.
    Warnings(Topic, Vec<String>),
    /// The source was read because that was requested, and nothing is new.
    NothingNew,
    /// The source has problems: what was enforced stays.
    Unchanged,
    /// Enforcing has begun.
    Begun(Begun<'n>),
    /// An enforced change, as far as its comparison is known.
    Change(Outcome<C>),
    /// The table was changed by another program, and is as it should be again.
    Repaired {
        /// What was different.
        why: &'static str,
        /// Connections that were cut.
        cut: usize,
        /// How long the repair took.
        took: Duration,
    },
    /// The kernel takes changes again.
    Recovered {
        /// Connections that were cut.
        cut: usize,
        /// How long the last attempt took.
        took: Duration,
    },
    /// Connections were cut later than the change that denied them.
    Cut(usize),
}

/// How enforcing began.
#[derive(Debug)]
pub struct Begun<'n> {
    /// The node.
    pub node: &'n str,
    /// The number of policies.
    pub policies: usize,
    /// The number of pods.
    pub pods: usize,
    /// Whether the kernel had exactly this program already.
    pub was_enforced: bool,
    /// Connections that were cut.
    pub cut: usize,
    /// The time from noticing the source to enforcing it.
    pub took: Duration,
}

/// What warnings are about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Topic {
    /// The machine cannot be placed among the objects.
    Placing,
    /// The machine's interfaces cannot be read.
    Interfaces,
    /// Pods that are not as the objects say.
    Pods,
    /// Policies that this backend cannot enforce.
    Unsupported,
    /// The kernel refuses.
    Kernel,
    /// The state cannot be written to disk.
    State,
}
