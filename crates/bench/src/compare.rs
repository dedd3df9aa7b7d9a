//! The scenarios next to what Antrea's controller needs for them.
//!
//! The peer's figures are of its own tests on two virtual CPUs of the same sort, unmodified, the quietest of three runs:
//! CPU time and peak memory of the whole process, four workers for each queue. Ours are of the index alone, one thread.

use std::fmt::Write;
use std::io;

use crate::live::Figures;
use crate::process;
use crate::scenario::{Scale, Scenario};
use crate::units::{duration, mebibytes};

/// What the peer needs.
struct Peer {
    /// On the CPU; in S7 for one operation.
    cpu_seconds: f64,
    mebibytes: f64,
}

/// The best of several runs, each in a process of its own.
pub fn best(scenario: Scenario, scale: Scale, runs: usize) -> io::Result<Figures> {
    let mut best: Option<Figures> = None;
    for _ in 0..runs.max(1) {
        for found in process::ask::<Figures>("engine", scenario, scale, &["--runs", "1"])? {
            if best.as_ref().is_none_or(|best| found.cpu_seconds < best.cpu_seconds) {
                best = Some(found);
            }
        }
    }
    best.ok_or_else(|| io::Error::other(format!("{scenario:?} has no figures")))
}

/// The figures as a table.
pub fn table(rows: &[(Scenario, Figures)], scale: Scale, runs: usize) -> String {
    let Scale { size, fraction } = scale;
    let mut out =
        format!("the index on Antrea's scenarios, {size}/{fraction} of their size; best of {runs}\n\n");
    let _ = writeln!(
        out,
        "{:<9}{:>8}{:>10}{:>10}{:>10}{:>10}{:>9}{:>8}{:>9} | {:>8}{:>9}{:>8}{:>9}",
        "",
        "events",
        "CPU",
        "clock",
        "memory",
        "subjects",
        "sets",
        "rules",
        "changes",
        "peer CPU",
        "memory",
        "CPU",
        "memory"
    );
    for (scenario, figures) in rows {
        let parts = figures.parts(*scenario);
        let (cpu, clock, memory) =
            (figures.cpu_seconds / parts, figures.seconds / parts, mebibytes(figures.rss_bytes));
        let _ = write!(
            out,
            "{:<9}{:>8}{:>10}{:>10}{:>6.1} MiB{:>10}{:>9}{:>8}{:>9} | ",
            scenario.title(),
            figures.events,
            duration(cpu),
            duration(clock),
            memory,
            figures.subjects,
            figures.address_sets,
            figures.rules,
            figures.deltas
        );
        let peer = Peer::of(*scenario);
        // The peer has figures for the scenarios as they are only.
        let _ = if scale == Scale::FULL {
            let (faster, smaller) = (peer.cpu_seconds / cpu, peer.mebibytes / memory);
            let (theirs, much) = (duration(peer.cpu_seconds), peer.mebibytes);
            writeln!(out, "{theirs:>8}{much:>5.0} MiB{faster:>7.0}×{smaller:>8.1}×")
        } else {
            writeln!(out, "{:>8}", "-")
        };
    }
    out.push_str(
        "\nS7: for each time that a member leaves and comes back. S8: for all questions, without the load.\n\
         Peer: Antrea's controller, the whole process, quietest of three runs; the last two columns are how many times as \
         much it needs.\n",
    );
    out
}

// === impl Figures ===

impl Figures {
    /// In how many parts the time is given.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn parts(&self, scenario: Scenario) -> f64 {
        if scenario == Scenario::S7 { self.events as f64 } else { 1.0 }
    }
}

// === impl Scenario ===

impl Scenario {
    fn title(self) -> String {
        if self == Scenario::S7 { "S7 (each)".to_owned() } else { format!("{self:?}") }
    }
}

// === impl Peer ===

impl Peer {
    fn of(scenario: Scenario) -> Peer {
        let (cpu_seconds, mebibytes) = match scenario {
            Scenario::S1 => (14.0, 2191.0),
            Scenario::S2 => (4.9, 1202.0),
            Scenario::S3 => (6.2, 1130.0),
            Scenario::S4 => (16.0, 281.0),
            Scenario::S5 => (14.0, 220.0),
            Scenario::S6 => (5.9, 1221.0),
            Scenario::S7 => (5.1e-3, 113.0),
            Scenario::S8 => (15.8, 1482.0),
        };
        Peer { cpu_seconds, mebibytes }
    }
}
