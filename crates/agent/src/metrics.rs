//! Metrics of an enforcer for Prometheus, in OpenMetrics text (`prometheus-client`); serve.rs and client.rs serve them over HTTP.
//!
//! Most values live elsewhere: in the kernel, the program, the placement. So they are collected into a [`Sample`] when a scrape comes,
//! and nothing is counted twice.

use std::collections::BTreeMap;
use std::fmt;
use std::time::UNIX_EPOCH;

use palisade_nftables::kernel::Count;
use palisade_nftables::program::Program;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::deciders::Decider;
use crate::figures::{BOUNDS, Figures, Histogram, KINDS};

mod client;
pub mod serve;

/// The values of all metrics at one moment.
#[derive(Debug, Default)]
pub struct Sample {
    /// The node.
    pub node: String,
    /// What the enforcer has done since it began.
    pub figures: Figures,
    /// Packets and bytes by what decided.
    pub counts: BTreeMap<Decider, Count>,
    /// The size of the table.
    pub table: TableSize,
    /// The number of events of the index that changed anything.
    pub epoch: u64,
    /// The number of pods of this machine.
    pub pods: usize,
    /// Whether what is enforced is what the source has.
    pub in_force: bool,
}

/// The size of a program's table.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TableSize {
    /// The number of chains.
    pub chains: usize,
    /// The number of sets and maps.
    pub sets: usize,
    /// The number of their elements.
    pub elements: usize,
}

// === impl TableSize ===

impl From<&Program> for TableSize {
    fn from(program: &Program) -> Self {
        TableSize {
            chains: program.chains.len(),
            sets: program.sets.len(),
            elements: program.sets.values().map(|set| set.elements.len()).sum(),
        }
    }
}

// === impl Sample ===

impl Sample {
    /// Returns the sample as OpenMetrics text, version 1.0.0.
    pub fn into_text(self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &registry);
        text
    }
}

impl Collector for Sample {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut metrics = Metrics(encoder);
        let figures = &self.figures;
        metrics.info(
            "palisade",
            "The node and the version.",
            &[("node", self.node.as_str()), ("version", env!("CARGO_PKG_VERSION"))],
        )?;
        let help = "Whether what is in force is what the files say.";
        metrics.gauge("palisade_in_force", help, None, &u64::from(self.in_force))?;
        let last = figures.last_success.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let last = last.unwrap_or_default().as_secs_f64();
        let help = "When what is wanted was last known to be in force.";
        metrics.gauge("palisade_last_success_timestamp", help, Some(&Unit::Seconds), &last)?;
        let reloads = [("ok", figures.reloads), ("refused", figures.refused_reloads)];
        let reloads = reloads.map(|(result, count)| ([("result", result)], count));
        metrics.counters("palisade_reloads", "How often the files were read again.", reloads)?;
        let failures = KINDS.map(|kind| ([("kind", kind)], figures.failures.get(kind).copied().unwrap_or(0)));
        metrics.counters("palisade_kernel_failures", "What the kernel did not do, by kind.", failures)?;
        metrics.counter("palisade_connections_cut", "Connections that a change denied.", figures.cut)?;
        let help = "How often another program had changed the table.";
        metrics.counter("palisade_drift_repairs", help, figures.repairs)?;
        for (name, help, value) in [
            ("palisade_table_chains", "Chains of the table.", self.table.chains as u64),
            ("palisade_table_sets", "Sets and maps of the table.", self.table.sets as u64),
            ("palisade_table_elements", "Elements of its sets and maps.", self.table.elements as u64),
            ("palisade_pods", "Pods of this machine.", self.pods as u64),
            ("palisade_epoch", "Events that changed anything.", self.epoch),
        ] {
            metrics.gauge(name, help, None, &value)?;
        }
        let by = |value: fn(&Count) -> u64| {
            self.counts.iter().map(move |(decider, count)| (labels(decider), value(count)))
        };
        let help = "Packets that opened a connection, by what decided.";
        metrics.counters("palisade_packets", help, by(|count| count.packets))?;
        metrics.counters("palisade_bytes", "Bytes of those packets.", by(|count| count.bytes))?;
        metrics.histograms(
            "palisade_kernel_change_duration",
            "How long the kernel took to take a change.",
            [("patch", &figures.patches), ("replace", &figures.replaces)],
        )
    }
}

/// Writes metrics one by one.
struct Metrics<'e>(DescriptorEncoder<'e>);

// === impl Metrics ===

impl Metrics<'_> {
    fn info<const N: usize>(&mut self, name: &str, help: &str, labels: &[(&str, &str); N]) -> fmt::Result {
        self.0.encode_descriptor(name, help, None, MetricType::Info)?.encode_info(labels)
    }

    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: &impl EncodeGaugeValue,
    ) -> fmt::Result {
        self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?.encode_gauge(value)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        encoder.encode_counter::<NoLabelSet, u64, f64>(&value, None)
    }

    fn counters<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = ([(&'l str, impl AsRef<str>); N], u64)>,
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            let labels = labels.each_ref().map(|(name, value)| (*name, value.as_ref()));
            encoder.encode_family(&labels)?.encode_counter::<NoLabelSet, u64, f64>(&value, None)?;
        }
        Ok(())
    }

    fn histograms<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: [(&str, &Histogram); N],
    ) -> fmt::Result {
        let mut encoder =
            self.0.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Histogram)?;
        for (sort, histogram) in values {
            let bounds = BOUNDS.iter().map(|bound| bound.as_secs_f64());
            let mut buckets: Vec<(f64, u64)> = bounds.zip(histogram.buckets).collect();
            let bounded: u64 = histogram.buckets.iter().sum();
            buckets.push((f64::INFINITY, histogram.count.saturating_sub(bounded)));
            let labels = [("sort", sort)];
            let mut encoder = encoder.encode_family(&labels)?;
            let sum = histogram.sum.as_secs_f64();
            encoder.encode_histogram::<NoLabelSet>(sum, histogram.count, &buckets, None)?;
        }
        Ok(())
    }
}

fn labels(decider: &Decider) -> [(&'static str, String); 4] {
    [
        ("policy", decider.policy.clone()),
        ("rule", decider.rule.map(|rule| rule.to_string()).unwrap_or_default()),
        ("direction", decider.direction.clone()),
        ("verdict", decider.verdict.clone()),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_line_is_openmetrics() {
        let mut figures = Figures::default();
        figures.patches.took(Duration::from_micros(300));
        figures.patches.took(Duration::from_secs(9));
        let decider = Decider {
            policy: "NetworkPolicy shop/\"db\"\\\n".to_owned(),
            direction: "ingress".to_owned(),
            rule: None,
            verdict: "denied".to_owned(),
        };
        let counts = BTreeMap::from([(decider, Count { packets: 3, bytes: 180 })]);
        let sample =
            Sample { node: "n".to_owned(), figures, counts, epoch: 7, in_force: true, ..Sample::default() };
        let text = sample.into_text();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(value.parse::<f64>().is_ok() && name.starts_with("palisade_"), "{line}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
        for expected in [
            "palisade_info{node=\"n\",version=\"",
            // Whatever is in a name, it cannot end it.
            "palisade_packets_total{policy=\"NetworkPolicy shop/\\\"db\\\"\\\\\\n\",rule=\"\",direction=\"ingress\",verdict=\"denied\"} 3\n",
            "palisade_kernel_change_duration_seconds_bucket{le=\"0.0005\",sort=\"patch\"} 1\n",
            "palisade_kernel_change_duration_seconds_bucket{le=\"+Inf\",sort=\"patch\"} 2\n",
            "palisade_kernel_change_duration_seconds_count{sort=\"patch\"} 2\n",
            "palisade_kernel_failures_total{kind=\"busy\"} 0\n",
            "palisade_last_success_timestamp_seconds 0.0\n",
            "palisade_in_force 1\n",
            "palisade_epoch 7\n",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}
