//! Map as a graph for Graphviz: namespaces are clusters, workloads nodes, and allowed traffic labels edges.

use std::collections::BTreeMap;

use super::fold::{FoldedRow, RowFolder};
use super::reasons::reasons;
use super::{MapContext, MapEnd, MapRow, MapSummary, Printer};
use crate::text::{NL, Text, escape};

/// Printer of a graph.
#[derive(Debug, Default)]
pub struct DotPrinter<'m> {
    fold: RowFolder<'m>,
    /// Printed nodes that are no workloads, with their numbers.
    others: BTreeMap<String, usize>,
    /// Whether each workload is printed already.
    is_printed: Vec<bool>,
    /// Number of each namespace's cluster.
    clusters: BTreeMap<&'m str, usize>,
}

// === impl DotPrinter ===

impl<'m> DotPrinter<'m> {
    fn print_row(
        &mut self,
        context: &MapContext<'m>,
        FoldedRow { line, ranges }: &FoldedRow<'m>,
        out: &mut Text,
    ) {
        let addresses = context.addresses(ranges);
        let from = self.node(context, &line.source, addresses.as_deref(), out);
        let to = self.node(context, &line.destination, addresses.as_deref(), out);
        write_text!(out, "  {from} -> {to} [label={}", quoted(&line.text()));
        if context.explain {
            let lines: Vec<String> = reasons(&line.why)
                .iter()
                .map(|reason| {
                    let at = reason.at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
                    escaped(&format!("{} {}: {}{at}", reason.side, reason.part, reason.text))
                })
                .collect();
            // DOT's own line break.
            write_text!(out, ", tooltip=\"{}\"", lines.join("\\n"));
        }
        out.push_own("];\n");
    }

    /// Prints a workload, once: selected ones at the beginning, others with their first edge. DOT merges clusters that are
    /// declared in several places.
    fn workload(&mut self, context: &MapContext<'m>, at: usize, out: &mut Text) {
        if std::mem::replace(&mut self.is_printed[at], true) {
            return;
        }
        let name = &context.workloads[at].name;
        let fresh = self.clusters.len();
        let cluster = *self.clusters.entry(name.namespace.as_str()).or_insert(fresh);
        let (namespace, label, kind) = (quoted(&name.namespace), quoted(&name.name), quoted(&name.kind));
        let label = format!("w{at} [label={label}, tooltip={kind}];");
        write_line!(out, "  subgraph cluster_{cluster} {{ label={namespace}; {label} }}");
    }

    /// Returns the identifier of a node, and prints it with its first edge.
    fn node(
        &mut self,
        context: &MapContext<'m>,
        end: &MapEnd<'m>,
        addresses: Option<&str>,
        out: &mut Text,
    ) -> String {
        let label = match (end, addresses) {
            (MapEnd::Workload(at), _) => {
                self.workload(context, *at, out);
                return format!("w{at}");
            }
            (MapEnd::Range(..), Some(addresses)) => addresses.to_owned(),
            (end, _) => context.name(end),
        };
        let fresh = self.others.len();
        let number = *self.others.entry(label.clone()).or_insert(fresh);
        if number == fresh {
            write_line!(out, "  o{number} [label={}, shape=ellipse, style=dashed];", quoted(&label));
        }
        format!("o{number}")
    }
}

impl<'m> Printer<'m> for DotPrinter<'m> {
    fn begin(&mut self, context: &MapContext<'m>, out: &mut Text) {
        out.push_own("digraph palisade {\n  rankdir=LR;\n  node [shape=box, fontname=\"sans-serif\"];\n");
        out.push_own("  edge [fontname=\"sans-serif\", fontsize=10];\n");
        self.is_printed = vec![false; context.workloads.len()];
        for at in (0..context.workloads.len()).filter(|at| context.is_shown(*at) && context.selected[*at]) {
            self.workload(context, at, out);
        }
    }

    fn row(&mut self, context: &MapContext<'m>, line: MapRow<'m>, out: &mut Text) {
        for row in self.fold.push(line) {
            self.print_row(context, &row, out);
        }
    }

    fn end(&mut self, context: &MapContext<'m>, summary: &MapSummary, out: &mut Text) {
        for row in self.fold.end() {
            self.print_row(context, &row, out);
        }
        write_line!(out, "  label={};{NL}}}", quoted(&summary.text()));
    }
}

/// Quotes a string for DOT.
fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Escapes the content of a string. Invisible characters are escaped first, so that DOT shows their escapes.
fn escaped(text: &str) -> String {
    escape(text).replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_string_ends_where_it_ends() {
        assert_eq!(super::quoted("a\"b\\c\nd"), "\"a\\\"b\\\\c\\\\nd\"");
    }
}
