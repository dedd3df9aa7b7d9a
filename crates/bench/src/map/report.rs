//! The figures of maps as tables.

use std::fmt::Write;

use super::{Figures, Subject};
use crate::units::{duration, mebibytes};

/// The figures of several subjects.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn table(all: &[Figures], runs: usize) -> String {
    let mut out = format!("maps; CPU time of one thread, best of {runs}\n\n");
    let columns = ["snapshot", "cuts", "reach", "matrix", "total", "map", "memory"];
    let _ = write!(out, "{:<62}", "");
    for column in &columns {
        let _ = write!(out, "{column:>10}");
    }
    let _ = writeln!(out, "{:>12}{:>10}{:>12}", "rows", "", "a second");
    for figures in all {
        let _ = write!(out, "{:<62}", figures.title());
        let times =
            [figures.snapshot, figures.cuts, figures.reach, figures.matrix, figures.whole(), figures.map];
        for seconds in &times {
            let _ = write!(out, "{:>10}", duration(*seconds));
        }
        let rows = figures.rows;
        let _ = writeln!(
            out,
            "{:>6.0} MiB{:>12}{:>10}{:>9.0} M",
            mebibytes(figures.peak_bytes),
            format!("{}{}", rows.count, if rows.all { "" } else { "+" }),
            duration(rows.seconds),
            rows.count as f64 / rows.seconds / 1e6
        );
    }
    out.push('\n');
    let columns = [
        "classes",
        "outside",
        "programs",
        "cells",
        "sets",
        "workloads",
        "kinds",
        "diff",
        "changes",
        "",
        "all pairs",
    ];
    let _ = write!(out, "{:<62}", "");
    for column in &columns {
        let _ = write!(out, "{column:>10}");
    }
    out.push('\n');
    for figures in all {
        let _ = write!(out, "{:<62}", figures.title());
        let counts = [
            figures.classes as usize,
            figures.outside as usize,
            figures.programs,
            figures.cells,
            figures.traffics as usize,
            figures.workloads,
            figures.kinds,
        ];
        for count in &counts {
            let _ = write!(out, "{count:>10}");
        }
        let (diff, more) = (figures.diff, if figures.diff.all { "" } else { "+" });
        let changes = format!("{}{more}", diff.count);
        let _ = write!(out, "{:>10}{changes:>10}{:>10}", duration(diff.maps), duration(diff.changes));
        let pairs = figures.pairs.map_or_else(|| "-".to_owned(), |pairs| duration(pairs.all_seconds));
        let _ = writeln!(out, "{pairs:>10}");
    }
    out.push_str(
        "\nsnapshot: from objects, no part of the map. total: cuts, reach and every pair of classes (matrix), IPv4. map: reach \
         over both families, workloads, kinds.\nmemory: the most the process held, with snapshot and objects. rows: of the \
         map by workloads, to somebody who only counts them.\ndiff: both maps of a diff that takes one in fifty policies \
         away. changes: all pairs of workloads that differ then, and the time to tell them.\nall pairs: what asking about every pair of pods and one port \
         would take with the fast verdicts, from a sample.\n",
    );
    out
}

// === impl Figures ===

impl Figures {
    fn title(&self) -> String {
        let Figures { pods, policies, .. } = self;
        match self.subject {
            Subject::Real(size, _) => {
                format!("{pods} pods, {policies} policies, {} namespaces", size.namespaces)
            }
            Subject::Hard(shape, count) => format!("{} ({count}; {policies} policies)", shape.title()),
        }
    }
}
