//! How the costs grow with the cluster: S6 at once, twice, four and eight times its size.
//!
//! What loading costs should grow with the number of events and with nothing else, and what one event costs not at all:
//! only with how much it changes. Each size is measured in processes of its own.

use std::fmt::Write;
use std::io;

use serde::Serialize;

use crate::compare;
use crate::live::Figures;
use crate::process;
use crate::scenario::{Scale, Scenario};
use crate::single::{Cost, Sort};
use crate::units::{duration, mebibytes, nanoseconds};

/// The figures of one size.
#[derive(Debug, Serialize)]
pub struct Step {
    /// How many times the scenario.
    pub size: usize,
    /// Loading it.
    pub load: Figures,
    /// Single events on it.
    pub events: Vec<Cost>,
}

/// The sizes that are measured.
pub const SIZES: [usize; 4] = [1, 2, 4, 8];

/// Measures a scenario at several sizes.
pub fn run(scenario: Scenario, sizes: &[usize], runs: usize) -> io::Result<Vec<Step>> {
    let step = |size: &usize| {
        let scale = Scale::times(*size);
        let load = compare::best(scenario, scale, runs)?;
        Ok(Step { size: *size, load, events: process::ask("events", scenario, scale, &[])? })
    };
    sizes.iter().map(step).collect()
}

/// The figures as a table.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn table(steps: &[Step]) -> String {
    let mut out = String::new();
    let mut line = |title: &str, cell: &dyn Fn(&Step) -> String| {
        let _ = write!(out, "{title:<48}");
        for step in steps {
            let _ = write!(out, "{:>20}", cell(step));
        }
        out.push('\n');
    };
    let name = steps.first().map_or("", |step| step.load.scenario.as_str());
    line(name, &|step| format!("{}×", step.size));
    line("load: events", &|step| step.load.events.to_string());
    line("load: CPU", &|step| duration(step.load.cpu_seconds));
    line("load: CPU for an event", &|step| duration(step.load.cpu_seconds / step.load.events as f64));
    line("load: memory", &|step| format!("{:.1} MiB", mebibytes(step.load.rss_bytes)));
    line("load: memory for an event", &|step| {
        format!("{:.0} bytes", step.load.rss_bytes as f64 / step.load.events as f64)
    });
    for sort in Sort::ALL {
        let of = |step: &Step, cell: &dyn Fn(&Cost) -> String| {
            step.events.iter().find(|cost| cost.event == sort).map_or_else(String::new, cell)
        };
        let times = |cost: &Cost| format!("{} / {}", nanoseconds(cost.median_ns), nanoseconds(cost.p99_ns));
        line(&format!("{}: median / p99", sort.title()), &|step| of(step, &times));
        let delta = |cost: &Cost| format!("{} / {}", cost.changes_median, cost.members_median);
        line("  changes / members", &|step| of(step, &delta));
    }
    out
}
