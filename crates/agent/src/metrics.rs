//! What an enforcer does, for Prometheus: the text, and (serve.rs, client.rs) the server that hands it out.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use palisade_nftables::kernel::Count;
use palisade_nftables::program::Program;

use crate::deciders::Decider;
use crate::figures::{BOUNDS, Figures, Histogram, KINDS};

mod client;
pub mod serve;

/// All that is shown.
#[derive(Debug)]
pub struct Reading<'a> {
    /// The node.
    pub node: &'a str,
    /// What has been done; nothing before there is anything to do.
    pub figures: &'a Figures,
    /// What has been counted.
    pub counts: &'a BTreeMap<Decider, Count>,
    /// The program.
    pub program: &'a Program,
    /// How many events of the index it comes from.
    pub epoch: u64,
    /// How many pods are here.
    pub pods: usize,
    /// Whether what is in force is what the files say.
    pub in_force: bool,
}

// === impl Reading ===

impl Reading<'_> {
    /// In Prometheus' text form, version 0.0.4.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let figures = self.figures;
        let mut one = |name: &str, kind: &str, help: &str, rows: &[(String, String)]| {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in rows {
                let _ = writeln!(out, "{name}{labels} {value}");
            }
        };
        let plain = |value: String| vec![(String::new(), value)];
        let info = labels(&[("node", self.node), ("version", env!("CARGO_PKG_VERSION"))]);
        one("palisade_info", "gauge", "The node and the version.", &[(info, "1".to_owned())]);
        let in_force = plain(u8::from(self.in_force).to_string());
        one("palisade_in_force", "gauge", "Whether what is in force is what the files say.", &in_force);
        let last = figures.last_success.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let last = plain(seconds(last.unwrap_or_default()));
        let help = "When what is wanted was last known to be in force.";
        one("palisade_last_success_timestamp_seconds", "gauge", help, &last);
        let reloads = [("ok", figures.reloads), ("refused", figures.refused_reloads)]
            .map(|(result, count)| (labels(&[("result", result)]), count.to_string()));
        one("palisade_reloads_total", "counter", "How often the files were read again.", &reloads);
        let failures = KINDS.map(|kind| {
            let count = figures.failures.get(kind).copied().unwrap_or(0);
            (labels(&[("kind", kind)]), count.to_string())
        });
        one("palisade_kernel_failures_total", "counter", "What the kernel did not do, by kind.", &failures);
        let cut = plain(figures.cut.to_string());
        one("palisade_connections_cut_total", "counter", "Connections that a change denied.", &cut);
        let repairs = plain(figures.repairs.to_string());
        let help = "How often somebody else had changed the table.";
        one("palisade_drift_repairs_total", "counter", help, &repairs);
        let elements: usize = self.program.sets.values().map(|set| set.elements.len()).sum();
        for (name, help, value) in [
            ("palisade_table_chains", "Chains of the table.", self.program.chains.len()),
            ("palisade_table_sets", "Sets and maps of the table.", self.program.sets.len()),
            ("palisade_table_elements", "Elements of its sets and maps.", elements),
            ("palisade_pods", "Pods of this machine.", self.pods),
        ] {
            one(name, "gauge", help, &plain(value.to_string()));
        }
        one("palisade_epoch", "counter", "Events that changed anything.", &plain(self.epoch.to_string()));
        let by = |value: fn(&Count) -> u64| -> Vec<(String, String)> {
            let rows = self.counts.iter();
            rows.map(|(decider, count)| (decided(decider), value(count).to_string())).collect()
        };
        one(
            "palisade_packets_total",
            "counter",
            "Packets that opened something, by who decided.",
            &by(|c| c.packets),
        );
        one("palisade_bytes_total", "counter", "Their bytes.", &by(|count| count.bytes));
        let name = "palisade_kernel_change_duration_seconds";
        let _ = writeln!(
            out,
            "# HELP {name} How long it took the kernel to take a change.\n# TYPE {name} histogram"
        );
        histogram(&mut out, name, "patch", &figures.patches);
        histogram(&mut out, name, "replace", &figures.replaces);
        out
    }
}

fn histogram(out: &mut String, name: &str, sort: &str, of: &Histogram) {
    let mut sum = 0;
    for (bound, count) in BOUNDS.iter().zip(of.buckets) {
        sum += count;
        let labels = labels(&[("sort", sort), ("le", &seconds(*bound))]);
        let _ = writeln!(out, "{name}_bucket{labels} {sum}");
    }
    let _ = writeln!(out, "{name}_bucket{} {}", labels(&[("sort", sort), ("le", "+Inf")]), of.count);
    let sort = labels(&[("sort", sort)]);
    let _ = writeln!(out, "{name}_sum{sort} {}\n{name}_count{sort} {}", seconds(of.sum), of.count);
}

fn decided(decider: &Decider) -> String {
    let rule = decider.rule.map(|rule| rule.to_string()).unwrap_or_default();
    labels(&[
        ("policy", &decider.policy),
        ("rule", &rule),
        ("direction", &decider.direction),
        ("verdict", &decider.verdict),
    ])
}

fn seconds(time: Duration) -> String {
    time.as_secs_f64().to_string()
}

/// Labels as Prometheus reads them: whatever is in a name, it cannot end it.
fn labels(all: &[(&str, &str)]) -> String {
    let one = |(name, value): &(&str, &str)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    format!("{{{}}}", all.iter().map(one).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_odd_characters_stay_in_their_quotes() {
        assert_eq!(labels(&[("a", "x\"y\\z\nw")]), r#"{a="x\"y\\z\nw"}"#);
    }

    #[test]
    fn every_line_is_prometheus() {
        let mut figures = Figures::default();
        figures.patches.took(Duration::from_micros(300));
        figures.patches.took(Duration::from_secs(9));
        let decider = Decider {
            policy: "NetworkPolicy shop/\"db\"".to_owned(),
            direction: "ingress".to_owned(),
            rule: None,
            verdict: "denied".to_owned(),
        };
        let counts = BTreeMap::from([(decider, Count { packets: 3, bytes: 180 })]);
        let program = Program::default();
        let reading = Reading {
            node: "n",
            figures: &figures,
            counts: &counts,
            program: &program,
            epoch: 7,
            pods: 2,
            in_force: true,
        };
        let text = reading.text();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok() && name.starts_with("palisade_"), "{line}");
        }
        for expected in [
            "palisade_packets_total{policy=\"NetworkPolicy shop/\\\"db\\\"\",rule=\"\",direction=\"ingress\",verdict=\"denied\"} 3",
            "palisade_kernel_change_duration_seconds_bucket{sort=\"patch\",le=\"0.0005\"} 1",
            "palisade_kernel_change_duration_seconds_bucket{sort=\"patch\",le=\"+Inf\"} 2",
            "palisade_kernel_failures_total{kind=\"busy\"} 0",
            "palisade_in_force 1",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}
