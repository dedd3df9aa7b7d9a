//! A kernel in memory that remembers what it was asked to do, and cannot be read when a test says so; and connections it may have.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::VecDeque;

use palisade_nftables::kernel::{Connection, Counts, End, Fake, InForce, Kernel, KernelError};
use palisade_nftables::patch::Patch;
use palisade_nftables::program::Program;

#[derive(Debug, Default)]
pub struct RecordingKernel {
    pub fake: Fake,
    /// The counts of each table that was written as a whole.
    pub replaced: Vec<Counts>,
    pub patched: usize,
    /// How many guards there were.
    pub guarded: usize,
    /// How often connections were asked for.
    pub listed: usize,
    /// What is said instead of what is in force, the next times.
    pub unreadable: VecDeque<KernelError>,
}

/// From a port that nobody asks about, and not translated.
pub fn connection(protocol: u8, from: &str, to: &str, port: u16) -> Connection {
    let end = |text: &str, port| End { address: text.parse().unwrap(), port };
    Connection {
        protocol,
        source: end(from, 40_000),
        original: end(to, port),
        destination: end(to, port),
        seen: end(from, 40_000),
        icmp: None,
        zone: 0,
    }
}

// === impl RecordingKernel ===

impl Kernel for RecordingKernel {
    fn replace(&mut self, program: &Program, counts: &Counts) -> Result<(), KernelError> {
        self.fake.replace(program, counts)?;
        self.replaced.push(counts.clone());
        Ok(())
    }

    fn patch(&mut self, patch: &Patch) -> Result<(), KernelError> {
        self.fake.patch(patch)?;
        self.patched += 1;
        Ok(())
    }

    fn raise_guard(&mut self, guard: &Program) -> Result<(), KernelError> {
        self.guarded += 1;
        self.fake.raise_guard(guard)
    }

    fn drop_guard(&mut self) -> Result<(), KernelError> {
        self.fake.drop_guard()
    }

    fn has_guard(&mut self) -> Result<bool, KernelError> {
        self.fake.has_guard()
    }

    fn read(&mut self) -> Result<Option<InForce>, KernelError> {
        self.unreadable.pop_front().map_or_else(|| self.fake.read(), Err)
    }

    fn counts(&mut self) -> Result<Counts, KernelError> {
        self.fake.counts()
    }

    fn remove(&mut self) -> Result<bool, KernelError> {
        self.fake.remove()
    }

    fn connections(&mut self) -> Result<Vec<Connection>, KernelError> {
        self.listed += 1;
        self.fake.connections()
    }

    fn cut(&mut self, connections: &[Connection]) -> Result<usize, KernelError> {
        self.fake.cut(connections)
    }

    fn is_disturbed(&mut self) -> Result<bool, KernelError> {
        self.fake.is_disturbed()
    }
}
