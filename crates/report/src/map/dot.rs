//! A map as a graph for Graphviz: namespaces are clusters, workloads nodes, and what is let through labels edges.

use std::collections::BTreeMap;

use super::fold::{Fold, Folded};
use super::reasons::reasons;
use super::{End, Facts, Line, Printer, Summary};
use crate::text::{NL, Text, escape};

/// Prints a graph.
#[derive(Debug, Default)]
pub struct Dot<'m> {
    fold: Fold<'m>,
    /// Nodes that are no workloads, and are already there, with their numbers.
    others: BTreeMap<String, usize>,
    /// Whether a workload is already there.
    there: Vec<bool>,
    /// The number of each namespace's cluster.
    clusters: BTreeMap<&'m str, usize>,
}

// === impl Dot ===

impl<'m> Dot<'m> {
    fn say(&mut self, facts: &Facts<'m>, Folded { line, ranges }: &Folded<'m>, out: &mut Text) {
        let addresses = facts.addresses(ranges);
        let from = self.node(facts, &line.source, addresses.as_deref(), out);
        let to = self.node(facts, &line.destination, addresses.as_deref(), out);
        write_text!(out, "  {from} -> {to} [label={}", quoted(&line.text()));
        if facts.explain {
            let lines: Vec<String> = reasons(&line.why)
                .iter()
                .map(|reason| {
                    let at = reason.at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
                    inside(&format!("{} {}: {}{at}", reason.side, reason.part, reason.text))
                })
                .collect();
            // DOT's own line break.
            write_text!(out, ", tooltip=\"{}\"", lines.join("\\n"));
        }
        out.push_own("];\n");
    }

    /// Those that are asked about are there from the beginning, the others come with the first edge. A cluster may be
    /// said in pieces.
    fn workload(&mut self, facts: &Facts<'m>, at: usize, out: &mut Text) {
        if std::mem::replace(&mut self.there[at], true) {
            return;
        }
        let name = &facts.workloads[at].name;
        let fresh = self.clusters.len();
        let cluster = *self.clusters.entry(name.namespace.as_str()).or_insert(fresh);
        let (namespace, label, kind) = (quoted(&name.namespace), quoted(&name.name), quoted(&name.kind));
        let label = format!("w{at} [label={label}, tooltip={kind}];");
        write_line!(out, "  subgraph cluster_{cluster} {{ label={namespace}; {label} }}");
    }

    /// A node's name in the graph. Those that are no workloads come with the first edge.
    fn node(&mut self, facts: &Facts<'m>, end: &End<'m>, addresses: Option<&str>, out: &mut Text) -> String {
        let label = match (end, addresses) {
            (End::Workload(at), _) => {
                self.workload(facts, *at, out);
                return format!("w{at}");
            }
            (End::Range(..), Some(addresses)) => addresses.to_owned(),
            (end, _) => facts.name(end),
        };
        let fresh = self.others.len();
        let number = *self.others.entry(label.clone()).or_insert(fresh);
        if number == fresh {
            write_line!(out, "  o{number} [label={}, shape=ellipse, style=dashed];", quoted(&label));
        }
        format!("o{number}")
    }
}

impl<'m> Printer<'m> for Dot<'m> {
    fn begin(&mut self, facts: &Facts<'m>, out: &mut Text) {
        out.push_own("digraph palisade {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n");
        out.push_own("  edge [fontname=\"sans-serif\", fontsize=10];\n");
        self.there = vec![false; facts.workloads.len()];
        for at in (0..facts.workloads.len()).filter(|at| facts.is_shown(*at) && facts.meant[*at]) {
            self.workload(facts, at, out);
        }
    }

    fn row(&mut self, facts: &Facts<'m>, line: Line<'m>, out: &mut Text) {
        for row in self.fold.push(line) {
            self.say(facts, &row, out);
        }
    }

    fn end(&mut self, facts: &Facts<'m>, summary: &Summary, out: &mut Text) {
        for row in self.fold.end() {
            self.say(facts, &row, out);
        }
        write_line!(out, "  label={};{NL}}}", quoted(&summary.text()));
    }
}

/// A string as DOT has it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", inside(text))
}

/// What stands between the quotes. Escapes of characters that are not visible come first, so that DOT shows them.
fn inside(text: &str) -> String {
    escape(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_string_ends_where_it_ends() {
        assert_eq!(super::quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\\\nd\"");
    }
}
