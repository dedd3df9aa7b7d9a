//! Map as CSV: a line for each pair and protocol, quoted as in RFC 4180, with LF line ends.

use palisade_analysis::reach::connections::Connections;

use super::reasons::reasons;
use super::{MapContext, MapEnd, MapRow, MapSummary, Printer};
use crate::text::Text;

/// Printer of rows as CSV.
#[derive(Debug, Default)]
pub struct CsvPrinter;

impl<'m> Printer<'m> for CsvPrinter {
    fn begin(&mut self, context: &MapContext<'m>, out: &mut Text) {
        out.push_own("src_kind,src_namespace,src_name,dst_kind,dst_namespace,dst_name,protocol,ports,note");
        out.push_own(if context.explain { ",why\n" } else { "\n" });
    }

    fn row(&mut self, context: &MapContext<'m>, line: MapRow<'m>, out: &mut Text) {
        let ends = [end(context, &line.source), end(context, &line.destination)].concat();
        let some = if line.uniform { "" } else { "some pods" };
        let why: Vec<String> = reasons(&line.why)
            .iter()
            .map(|reason| {
                let at = reason.at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
                format!("{} {}: {}{at}", reason.side, reason.part, reason.text)
            })
            .collect();
        let mut print_connections = |connections: &Connections, note: &str| {
            let from = connections.from.iter().map(|(first, last, from)| {
                let note = format!("from source ports {first}-{last} {note}");
                (&**from, note.trim_end().to_owned())
            });
            for (connections, note) in [(connections, note.to_owned())].into_iter().chain(from) {
                for (protocol, ports) in protocols(connections) {
                    let mut fields = ends.clone();
                    fields.extend([protocol.to_owned(), ports, note.clone()]);
                    if context.explain {
                        fields.push(why.join("; "));
                    }
                    let quoted: Vec<String> = fields.iter().map(|field| quoted(field)).collect();
                    out.push_str(&quoted.join(","));
                    out.end_line();
                }
            }
        };
        print_connections(&line.allowed.connections, some);
        if let Some(other) = &line.other {
            print_connections(&other.connections, "over the other address family");
        }
    }

    fn end(&mut self, _facts: &MapContext<'m>, _summary: &MapSummary, _out: &mut Text) {}
}

fn end(context: &MapContext<'_>, end: &MapEnd<'_>) -> Vec<String> {
    let (kind, namespace, name) = match end {
        MapEnd::Workload(at) => {
            let name = &context.workloads[*at].name;
            (name.kind.to_string(), name.namespace.to_string(), name.name.to_string())
        }
        MapEnd::Range(first, last) => ("Range".to_owned(), String::new(), format!("{first}-{last}")),
        MapEnd::IngressController => ("IngressController".to_owned(), String::new(), String::new()),
        MapEnd::Nodes(None) => ("Node".to_owned(), String::new(), "*".to_owned()),
        MapEnd::Nodes(Some(names)) => ("Node".to_owned(), String::new(), names.join(" ")),
    };
    vec![kind, namespace, name]
}

/// Returns each protocol with its ports; no ports stand for all.
fn protocols(connections: &Connections) -> Vec<(&'static str, String)> {
    let list = |ranges: &[(u16, u16)]| {
        let one = |(first, last): &(u16, u16)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        match ranges {
            [(1, u16::MAX)] => String::new(),
            _ => ranges.iter().map(one).collect::<Vec<_>>().join(","),
        }
    };
    let ports = [("TCP", &connections.tcp), ("UDP", &connections.udp), ("SCTP", &connections.sctp)];
    let mut found: Vec<(&'static str, String)> = Vec::new();
    for (protocol, ranges) in ports {
        if !ranges.is_empty() {
            found.push((protocol, list(ranges)));
        }
    }
    if !connections.icmp.is_empty() {
        let types = crate::peers::AllowedJson::from(connections).icmp_types.join(",");
        found.push(("ICMP", types));
    }
    found
}

/// Quotes a field. Spreadsheets evaluate a field that begins with one of a few signs as a formula; a leading apostrophe
/// makes it text.
fn quoted(field: &str) -> String {
    let formula = field.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let field = if formula { format!("'{field}") } else { field.to_owned() };
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_quoted_where_it_must_be() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("80,443"), "\"80,443\"");
        assert_eq!(quoted("a \"b\""), "\"a \"\"b\"\"\"");
        assert_eq!(quoted("=1+2,x"), "\"'=1+2,x\"");
        assert_eq!(quoted("@x"), "'@x");
    }

    #[test]
    fn all_of_a_protocol_needs_no_ports() {
        let connections = Connections {
            tcp: vec![(80, 80), (8000, 8080)],
            udp: vec![(1, u16::MAX)],
            icmp: vec![(8 << 8, 8 << 8)],
            ..Connections::default()
        };
        let actual: Vec<(&str, String)> = protocols(&connections);
        let want = [("TCP", "80,8000-8080"), ("UDP", ""), ("ICMP", "8/0")];
        assert_eq!(actual, want.map(|(protocol, ports)| (protocol, ports.to_owned())));
    }
}
