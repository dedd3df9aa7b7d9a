//! The figures as tables.

use std::fmt::Write;

use super::loading::Loaded;
use super::send::Load;
use super::{Figures, Report};
use crate::units::{duration, mebibytes};

/// How much more than "conntrack only" a packet may cost.
const MORE: f64 = 1.15;
/// How long a full program may take.
const SECONDS: f64 = 1.0;

// === impl Report ===

impl Report {
    /// What packets cost.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "CPU time of the whole way client → node → server: the quiet tenth of {} interleaved rounds (median, upper \
             quartile), and the ratio to conntrack only\n",
            self.rounds
        );
        let mut head = format!("{:<40}", "");
        for load in Load::ALL {
            let (what, each) = load.title();
            let _ = write!(head, "{:>40}", format!("{what}, each {each}"));
        }
        let _ = writeln!(out, "{head}{:>28}", "iperf3, one stream");
        for row in &self.rows {
            let _ = write!(out, "{:<40}", row.name);
            for load in Load::ALL {
                let cell = row.loads.get(&load).map(time).unwrap_or_default();
                let _ = write!(out, "{cell:>40}");
            }
            let cell = row.stream.as_ref().map(rate).unwrap_or_default();
            let _ = writeln!(out, "{cell:>28}");
        }
        out.push('\n');
        for row in self.rows.iter().filter(|row| !row.size.is_empty()) {
            let _ = writeln!(out, "{:<40}{}", row.name, row.size);
        }
        let _ = writeln!(out, "\npackets in a second on one core, connections likewise:");
        for row in &self.rows {
            let _ = write!(out, "{:<40}", row.name);
            for figures in row.loads.values() {
                let _ = write!(out, "{:>12.0}", 1e9 / figures.quiet);
            }
            out.push('\n');
        }
        if let Some(why) = &self.no_streams {
            let _ = writeln!(out, "\nno streams: {why}");
        }
        out.push('\n');
        out.push_str(&self.aims());
        out
    }

    /// Whether what we aim for is met with the most policies, load by load.
    fn aims(&self) -> String {
        let mut out = String::new();
        let Some(most) = self.rows.iter().filter_map(|row| row.policies).max() else { return out };
        let _ = writeln!(
            out,
            "aim: with {most} policies at most {:.0} % above conntrack only",
            (MORE - 1.0) * 100.0
        );
        for row in self.rows.iter().filter(|row| row.policies == Some(most)) {
            let met = |met: bool| if met { "met" } else { "NOT met" };
            let mut line = |what: &str, ratio: f64, is_met: bool| {
                let _ = writeln!(
                    out,
                    "  {:<40}{what:<24}{:>+7.1} %   {}",
                    row.name,
                    (ratio - 1.0) * 100.0,
                    met(is_met)
                );
            };
            for (load, figures) in &row.loads {
                line(load.title().0, figures.ratio, figures.ratio <= MORE);
            }
            if let Some(figures) = &row.stream {
                line("iperf3, bits in a second", figures.ratio, figures.ratio >= 1.0 / MORE);
            }
        }
        out
    }
}

fn time(figures: &Figures) -> String {
    let Figures { quiet, median, noisy, ratio, .. } = figures;
    format!("{} ({}, {}) {ratio:>6.2}×", nanoseconds(*quiet), nanoseconds(*median), nanoseconds(*noisy))
}

/// Whole nanoseconds, as long as one can read them.
fn nanoseconds(time: f64) -> String {
    if time < 1e5 { format!("{time:.0} ns") } else { duration(time / 1e9) }
}

fn rate(figures: &Figures) -> String {
    format!("{:.1} Gbit/s {:>6.2}×", figures.quiet / 1e9, figures.ratio)
}

/// What loading takes.
pub fn loading(all: &[Loaded]) -> String {
    let mut out = format!(
        "full programs for a node with 200 pods; compiling on the CPU, nft by the clock, the best of several\n\n\
         {:<45}{:>8}{:>8}{:>8}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}   aim: below 1 s\n",
        "",
        "peers",
        "chains",
        "rules",
        "sets",
        "elements",
        "part",
        "compile",
        "text",
        "nft -f -",
        "replace",
        "nft RSS"
    );
    for one in all {
        let _ = writeln!(
            out,
            "{:<45}{:>8}{:>8}{:>8}{:>8}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}   {}",
            one.shape.title(),
            one.peers,
            one.chains,
            one.rules,
            one.sets,
            one.elements,
            duration(one.part_seconds),
            duration(one.compile_seconds),
            format!("{:.1} MiB", mebibytes(one.text_bytes as u64)),
            duration(one.nft_seconds),
            duration(one.replace_seconds),
            format!("{:.0} MiB", mebibytes(one.nft_bytes)),
            if one.nft_seconds < SECONDS { "met" } else { "NOT met" },
        );
    }
    out
}
