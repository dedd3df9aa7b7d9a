//! Putting programs into a kernel: whatever is one is this trait.
//!
//! ```text
//!   Program, Patch ──► Kernel ──┬─► Linux   `nft -f -` for structure, netlink for elements, counters and connections
//!                               └─► Fake    in memory; one suite of tests keeps it equal to the real thing
//! ```
//!
//! Everything here is about our own table. Nobody else's is ever changed.

mod conntrack;
mod counters;
mod elements;
mod expressions;
mod fake;
pub mod features;
mod linux;
mod listing;
mod message;
mod netlink;
mod nft;
mod shape;
mod tables;
mod transaction;
mod watch;

use std::collections::BTreeMap;
use std::net::IpAddr;

use rustix::io::Errno;
use thiserror::Error;

pub use fake::Fake;
pub use linux::Linux;

use crate::patch::Patch;
use crate::program::{Elements, Name, Program};
use crate::transition::Transition;

/// A kernel, as far as we need one.
pub trait Kernel {
    /// Puts a program in the place of whatever is in our table, all at once. Counters that are there go on; others begin with these
    /// counts.
    fn replace(&mut self, program: &Program, counts: &Counts) -> Result<(), KernelError>;

    /// Does what a patch says, all at once. What goes may stay for a while, where nothing leads to it and nobody reads of it
    /// ([`Kernel::tidy`]); if it cannot go, that is said then.
    fn patch(&mut self, patch: &Patch) -> Result<(), KernelError>;

    /// Applies a patch behind its guard, if it has one: every state that a packet can meet lets through at most what the programs
    /// of before and after let through.
    fn transition(&mut self, transition: &Transition) -> Result<(), KernelError> {
        let Some(guard) = &transition.guard else { return self.patch(&transition.patch) };
        self.raise_guard(guard)?;
        let patched = self.patch(&transition.patch);
        // A guard that stays would go on refusing what the next change allows.
        let dropped = self.drop_guard();
        patched.and(dropped)
    }

    /// Loads a second table beside ours, in the place of one that may be there, and returns when every packet meets it.
    fn raise_guard(&mut self, guard: &Program) -> Result<(), KernelError>;

    /// Removes the second table, if there is one: of ours, or of an enforcer that was killed.
    fn drop_guard(&mut self) -> Result<(), KernelError>;

    /// Whether there is a second table: of a change that is being made, or of an enforcer that was killed during one.
    fn has_guard(&mut self) -> Result<bool, KernelError>;

    /// Takes away what patches have left behind. It takes a moment, so that it is for when there is time; before somebody else
    /// reads the table.
    fn tidy(&mut self) -> Result<(), KernelError> {
        Ok(())
    }

    /// What is in our table; nothing if there is none.
    fn read(&mut self) -> Result<Option<InForce>, KernelError>;

    /// What has been counted; empty if there is no table.
    fn counts(&mut self) -> Result<Counts, KernelError>;

    /// Takes our table away, and a guard. Says whether the table was there.
    fn remove(&mut self) -> Result<bool, KernelError>;

    /// The connections that the kernel knows.
    fn connections(&mut self) -> Result<Vec<Connection>, KernelError>;

    /// Makes it forget some. Says how many of them it still knew.
    fn cut(&mut self, connections: &[Connection]) -> Result<usize, KernelError>;

    /// Whether somebody else may have changed our table since this was last asked.
    fn is_disturbed(&mut self) -> Result<bool, KernelError>;
}

/// Makes the kernel forget every connection of this thread's network namespace.
pub fn forget_connections() -> Result<(), KernelError> {
    let forgotten = netlink::Socket::open().and_then(|mut socket| conntrack::forget(&mut socket));
    forgotten.map_err(|error| conntrack::without(KernelError::of("cannot forget connections", error)))
}

/// Packets and bytes, by counter.
pub type Counts = BTreeMap<Name, Count>;

/// What a counter says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What is in our table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForce {
    /// Chains, rules, and what sets there are, without elements and counts: the kernel's own words. Whoever put a program there
    /// and read it back knows by them whether it is still that program.
    pub structure: String,
    /// What is in the sets.
    pub elements: BTreeMap<Name, Elements>,
}

/// A connection that the kernel knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    /// The number of its protocol.
    pub protocol: u8,
    /// Who opened it.
    pub source: End,
    /// To whom, as the opener sees it.
    pub original: End,
    /// To whom, after translation.
    pub destination: End,
    /// Whom that one sees as the opener, after translation of the source.
    pub seen: End,
    /// Type and code, for ICMP; its identifier stands in the ends' ports.
    pub icmp: Option<(u8, u8)>,
    /// The zone of conntrack.
    pub zone: u16,
}

/// An end of a connection. A protocol without ports has zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct End {
    /// The address.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
}

/// Why something did not go into the kernel. What was in force is in force.
#[derive(Debug, Error)]
pub enum KernelError {
    /// Something on this machine is missing or too old. Not retryable.
    #[error("{0}")]
    Missing(String),
    /// We may not. Not retryable.
    #[error("not permitted: {0}")]
    Forbidden(String),
    /// Another change came between, or the kernel has no room at the moment. Retryable.
    #[error("the kernel is busy: {0}")]
    Busy(String),
    /// What the change is about is not there, or is there already: our table is not what we put there. Retryable by replacing all
    /// of it.
    #[error("the table is not as it was left: {0}")]
    Drifted(String),
    /// The kernel or nft refuses what we say. Not retryable: it is wrong.
    #[error("refused: {0}")]
    Refused(String),
    /// Something else did not work. Retryable.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// What came back.
        #[source]
        source: std::io::Error,
    },
}

// === impl KernelError ===

impl KernelError {
    /// What a number of the kernel means for whoever changes or reads our table.
    pub(crate) fn of(what: &str, error: Errno) -> KernelError {
        let said = format!("{what}: {}", std::io::Error::from(error));
        match error {
            Errno::PERM | Errno::ACCESS => KernelError::Forbidden(said),
            Errno::NOENT | Errno::EXIST | Errno::NOTEMPTY => KernelError::Drifted(said),
            Errno::BUSY | Errno::INTR | Errno::NOBUFS | Errno::AGAIN | Errno::NOMEM => {
                KernelError::Busy(said)
            }
            Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT => KernelError::Missing(said),
            Errno::INVAL
            | Errno::RANGE
            | Errno::OPNOTSUPP
            | Errno::MLINK
            | Errno::LOOP
            | Errno::NAMETOOLONG => KernelError::Refused(said),
            other => KernelError::System { what: what.to_owned(), source: other.into() },
        }
    }
}
