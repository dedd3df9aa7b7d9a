//! Map as an SVG picture: namespaces are boxes, workloads nodes in them, edges show their traffic on hover.
//!
//! The layout is simple and deterministic: boxes fill columns from left to right, and nodes that are no workloads have a
//! column of their own at the left. Beyond [`MAX_WORKLOADS`] namespaces are drawn instead of workloads.

use std::collections::{BTreeMap, BTreeSet};

use super::fold::{FoldedRow, RowFolder};
use super::{MapContext, MapEnd, MapRow, MapSummary, OWN_NODE, Printer};
use crate::diagnostics::plural;
use crate::text::{NL, Text};

/// Maximum number of workloads drawn; of more their namespaces are drawn.
const MAX_WORKLOADS: usize = 60;
/// Maximum number of edges with labels.
const MAX_LABELS: usize = 30;

const NODE: (usize, usize) = (26, 8);
const PADDING: usize = 12;
const TITLE: usize = 26;
const COLUMN_GAP: usize = 150;
const BOX_GAP: usize = 34;

/// Printer of a picture.
#[derive(Debug, Default)]
pub struct SvgPrinter<'m> {
    fold: RowFolder<'m>,
    edges: Vec<(DrawnNode<'m>, DrawnNode<'m>, String)>,
    /// Number of connected pairs of workloads, by namespace.
    namespaces: BTreeMap<(DrawnNode<'m>, DrawnNode<'m>), usize>,
    seen: BTreeSet<usize>,
}

/// A node of the picture. Ordered as drawn: those that are no workloads first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum DrawnNode<'m> {
    Outside,
    IngressController,
    Hosts(String),
    Workload(usize),
    Namespace(&'m str),
}

/// A box of the picture with its nodes; without a title it is not drawn.
struct DrawnBox<'m> {
    title: Option<&'m str>,
    nodes: Vec<(DrawnNode<'m>, String)>,
}

/// Column and position of a node, in pixels.
#[derive(Clone, Copy)]
struct NodePosition {
    column: usize,
    x: usize,
    y: usize,
    width: usize,
}

// === impl SvgPrinter ===

impl<'m> SvgPrinter<'m> {
    fn take(&mut self, context: &MapContext<'m>, FoldedRow { line, ranges }: &FoldedRow<'m>) {
        let node = |end: &MapEnd<'m>| match end {
            MapEnd::Workload(at) => DrawnNode::Workload(*at),
            MapEnd::Range(..) => DrawnNode::Outside,
            MapEnd::IngressController => DrawnNode::IngressController,
            MapEnd::Nodes(_) => DrawnNode::Hosts(context.name(end)),
        };
        let wide = |node: &DrawnNode<'m>| match node {
            DrawnNode::Workload(at) => DrawnNode::Namespace(context.workloads[*at].name.namespace.as_str()),
            other => other.clone(),
        };
        let (from, to) = (node(&line.source), node(&line.destination));
        *self.namespaces.entry((wide(&from), wide(&to))).or_default() += 1;
        for end in [&from, &to] {
            if let DrawnNode::Workload(at) = end {
                self.seen.insert(*at);
            }
        }
        if self.seen.len() <= MAX_WORKLOADS {
            let addresses = context.addresses(ranges).map(|text| format!(" ({text})")).unwrap_or_default();
            self.edges.push((from, to, format!("{}{addresses}", line.text())));
        } else {
            self.edges.clear();
        }
    }

    /// Returns the boxes and edges to draw, and whether they are of namespaces.
    fn content(
        &self,
        context: &MapContext<'m>,
    ) -> (Vec<DrawnBox<'m>>, Vec<(DrawnNode<'m>, DrawnNode<'m>, String)>, bool) {
        let selected =
            (0..context.workloads.len()).filter(|at| context.is_shown(*at) && context.selected[*at]);
        let shown: BTreeSet<usize> = self.seen.iter().copied().chain(selected).collect();
        let wide = shown.len() > MAX_WORKLOADS;
        let mut members: BTreeMap<&'m str, Vec<usize>> = BTreeMap::new();
        for at in shown {
            members.entry(context.workloads[at].name.namespace.as_str()).or_default().push(at);
        }
        let edges = match wide {
            false => self.edges.clone(),
            true => {
                let edge = |((from, to), count): (&(DrawnNode<'m>, DrawnNode<'m>), &usize)| {
                    (from.clone(), to.clone(), plural(*count, "connected pair"))
                };
                self.namespaces.iter().map(edge).collect()
            }
        };
        let ends = edges.iter().flat_map(|(from, to, _)| [from, to]);
        let others: BTreeSet<&DrawnNode<'m>> =
            ends.filter(|node| !matches!(node, DrawnNode::Workload(_) | DrawnNode::Namespace(_))).collect();
        let mut groups: Vec<DrawnBox<'m>> = Vec::new();
        for node in others {
            let name = match node {
                DrawnNode::Hosts(name) => name.clone(),
                DrawnNode::IngressController => "ingress controller".to_owned(),
                _ => "outside".to_owned(),
            };
            groups.push(DrawnBox { title: None, nodes: vec![(node.clone(), name)] });
        }
        for (namespace, members) in members {
            let nodes = match wide {
                true => vec![(DrawnNode::Namespace(namespace), plural(members.len(), "workload"))],
                false => {
                    let name = |at: usize| context.workloads[at].name.name.to_string();
                    members.into_iter().map(|at| (DrawnNode::Workload(at), name(at))).collect()
                }
            };
            groups.push(DrawnBox { title: Some(namespace), nodes });
        }
        (groups, edges, wide)
    }

    fn draw(&self, context: &MapContext<'m>, summary: &MapSummary) -> Text {
        let (groups, edges, wide) = self.content(context);
        let (positions, boxes, width, height) = lay_out(&groups);
        let mut out = Text::new();
        let (width, height) = (width.max(420), height + 64);
        write_line!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Who can talk to whom\">{NL}{}",
            Text::own(STYLE)
        );
        for ((x, y, width, height), group) in boxes.iter().zip(&groups) {
            let Some(title) = group.title else { continue };
            write_line!(
                out,
                "<rect class=\"box\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>\
                 <text class=\"title\" x=\"{}\" y=\"{}\">{}</text>",
                x + PADDING,
                y + 18,
                escaped(&short(title))
            );
        }
        for (from, to, text) in &edges {
            if let (Some(start), Some(end)) = (positions.get(from), positions.get(to)) {
                let what = format!("{} → {}: {text}", name(context, from), name(context, to));
                edge(*start, *end, &what, (edges.len() <= MAX_LABELS).then_some(text.as_str()), &mut out);
            }
        }
        for (node, label) in groups.iter().flat_map(|group| &group.nodes) {
            let Some(NodePosition { x, y, width, .. }) = positions.get(node) else { continue };
            let class = if matches!(node, DrawnNode::Workload(_) | DrawnNode::Namespace(_)) {
                "node"
            } else {
                "other"
            };
            write_line!(
                out,
                "<g><title>{}</title><rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{}\" rx=\"5\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text></g>",
                escaped(&name(context, node)),
                NODE.0,
                x + 9,
                y + 17,
                escaped(&short(label))
            );
        }
        let note = match wide {
            true => format!("More than {MAX_WORKLOADS} workloads: namespaces are drawn instead. "),
            false => String::new(),
        };
        let text = |y: usize, text: &str| {
            text!("<text class=\"note\" x=\"16\" y=\"{y}\">{}</text>{NL}", escaped(text))
        };
        out.push(&text(height - 34, &summary.text()));
        out.push(&text(height - 14, &format!("{note}{OWN_NODE}")));
        out.push_own("</svg>\n");
        out
    }
}

impl<'m> Printer<'m> for SvgPrinter<'m> {
    fn row(&mut self, context: &MapContext<'m>, line: MapRow<'m>, _out: &mut Text) {
        for row in self.fold.push(line) {
            self.take(context, &row);
        }
    }

    fn end(&mut self, context: &MapContext<'m>, summary: &MapSummary, out: &mut Text) {
        for row in self.fold.end() {
            self.take(context, &row);
        }
        out.push(&self.draw(context, summary));
    }
}

const STYLE: &str = "\
<style>
  svg { background: #fff; font: 12px sans-serif; fill: #1c2430 }
  .box { fill: #f3f5f8; stroke: #c3cad5 } .title { font-weight: bold } .note { fill: #5b6675 }
  .node { fill: #fff; stroke: #5b7089 } .other { fill: #fff; stroke: #5b7089; stroke-dasharray: 4 3 }
  .edge path { fill: none; stroke: #3568a8; stroke-width: 1.2; opacity: .55 }
  .edge .wide { stroke-width: 9; opacity: 0 } .edge text { font-size: 10px; fill: #3568a8 }
  .edge:hover path { opacity: 1; stroke-width: 2.4 } .edge:hover .wide { opacity: 0 }
  @media (prefers-color-scheme: dark) {
    svg { background: #14181f; fill: #e4e8ee } .box { fill: #1b212b; stroke: #39424f } .note { fill: #9aa5b4 }
    .node, .other { fill: #222a36; stroke: #7d8da3 } .edge path { stroke: #7fb0ef } .edge text { fill: #7fb0ef }
  }
</style>
<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\" \
markerUnits=\"userSpaceOnUse\"><path d=\"M0 0 8 4 0 8z\" fill=\"#3568a8\"/></marker></defs>";

fn name(context: &MapContext<'_>, node: &DrawnNode<'_>) -> String {
    match node {
        DrawnNode::Outside => "outside".to_owned(),
        DrawnNode::IngressController => "ingress controller".to_owned(),
        DrawnNode::Hosts(name) => name.clone(),
        DrawnNode::Workload(at) => context.names[*at].clone(),
        DrawnNode::Namespace(namespace) => format!("namespace {namespace}"),
    }
}

type Rectangles = Vec<(usize, usize, usize, usize)>;

/// Lays out boxes in columns of about the same height. Returns positions, boxes (x, y, width, height), width and height.
fn lay_out<'m>(groups: &[DrawnBox<'m>]) -> (BTreeMap<DrawnNode<'m>, NodePosition>, Rectangles, usize, usize) {
    let height = |group: &DrawnBox<'_>| match group.title {
        None => NODE.0,
        Some(_) => TITLE + group.nodes.len() * (NODE.0 + NODE.1) + PADDING - NODE.1,
    };
    let named = |group: &&DrawnBox<'_>| group.title.is_some();
    let total: usize = groups.iter().filter(named).map(|group| height(group) + BOX_GAP).sum();
    let columns = (1..).find(|columns| columns * columns * 300 >= total || *columns == 8).unwrap_or(1);
    let fair = total / columns;
    let (mut positions, mut boxes) = (BTreeMap::new(), Vec::new());
    let (mut column, mut x, mut y, mut width, mut bottom) = (0, 16, 16, 0, 0);
    for (at, group) in groups.iter().enumerate() {
        let first_named = group.title.is_some() && at > 0 && groups[at - 1].title.is_none();
        let full = group.title.is_some() && y > 16 && y + height(group) / 2 > fair + 16;
        if first_named || full {
            x += width + COLUMN_GAP;
            (column, y, width) = (column + 1, 16, 0);
        }
        let names = group.nodes.iter().map(|(_, name)| name.as_str()).chain(group.title);
        let longest = names.map(|name| short(name).chars().count()).max().unwrap_or(0);
        let own = (longest * 7 + 22).max(110);
        let inset = if group.title.is_some() { PADDING } else { 0 };
        let mut top = if group.title.is_some() { y + TITLE } else { y };
        for (node, _) in &group.nodes {
            positions.insert(node.clone(), NodePosition { column, x: x + inset, y: top, width: own });
            top += NODE.0 + NODE.1;
        }
        boxes.push((x, y, own + 2 * inset, height(group)));
        width = width.max(own + 2 * inset);
        y += height(group) + BOX_GAP;
        bottom = bottom.max(y);
    }
    (positions, boxes, x + width + COLUMN_GAP / 2, bottom)
}

/// Draws a curve from one node to another: across between columns, around the right inside one.
fn edge(from: NodePosition, to: NodePosition, what: &str, label: Option<&str>, out: &mut Text) {
    let middle = |position: NodePosition| position.y + NODE.0 / 2;
    let right = |position: NodePosition| position.x + position.width;
    let (y1, y2) = (middle(from), middle(to));
    let (path, label_at) = match from.column.cmp(&to.column) {
        std::cmp::Ordering::Less => {
            let (x1, x2) = (right(from), to.x);
            let bend = (x2 - x1) / 2;
            let path = format!("M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}", x1 + bend, x2 - bend);
            (path, (x1 + bend, (y1 + y2) / 2))
        }
        std::cmp::Ordering::Greater => {
            let (x1, x2) = (from.x, right(to));
            let bend = (x1 - x2) / 2;
            let path = format!("M{x1} {y1}C{} {y1} {} {y2} {x2} {y2}", x1 - bend, x2 + bend);
            (path, (x2 + bend, (y1 + y2) / 2 + 10))
        }
        std::cmp::Ordering::Equal => {
            let (x1, x2) = (right(from), right(to));
            let (start, end) = if y1 == y2 { (y1 - 6, y2 + 6) } else { (y1, y2) };
            let bend = x1.max(x2) + 22 + start.abs_diff(end).min(260) / 4;
            let path = format!("M{x1} {start}C{bend} {start} {bend} {end} {x2} {end}");
            (path, (bend, (y1 + y2) / 2))
        }
    };
    write_text!(
        out,
        "<g class=\"edge\"><title>{}</title><path d=\"{path}\" marker-end=\"url(#arrow)\"/><path class=\"wide\" d=\"{path}\"/>",
        escaped(what)
    );
    if let Some(label) = label {
        write_text!(
            out,
            "<text text-anchor=\"middle\" x=\"{}\" y=\"{}\">{}</text>",
            label_at.0,
            label_at.1.saturating_sub(3),
            escaped(&short(label))
        );
    }
    out.push_own("</g>\n");
}

/// Truncates a text to fit a node.
fn short(text: &str) -> String {
    const LONGEST: usize = 36;
    match text.chars().count() > LONGEST {
        true => text.chars().take(LONGEST - 1).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Escapes a text for XML content and attributes.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML 1.0 cannot represent these.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_markup() {
        assert_eq!(
            escaped("<img src='x' onerror=\"y\">&\u{1b}"),
            "&lt;img src=&#39;x&#39; onerror=&quot;y&quot;&gt;&amp;\u{fffd}"
        );
        assert_eq!(short(&"x".repeat(40)).chars().count(), 36);
    }
}
