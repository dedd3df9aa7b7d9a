//! Printers of maps: list, matrix, JSON, CSV, Markdown, DOT, SVG and HTML.
//!
//! ```text
//!   analysis::map ──► rows, one at a time ──► Printer ──► Text, which the caller flushes
//! ```
//!
//! Rows are dropped as soon as they are printed, so that a map of any size can be printed. Printers that need all rows (the
//! matrix, SVG, HTML) keep a bounded part of each.

mod csv;
mod dot;
mod fold;
mod html;
mod json;
mod list;
mod markdown;
mod matrix;
mod reasons;
mod svg;

pub use csv::CsvPrinter;
pub use dot::DotPrinter;
pub use html::HtmlPrinter;
pub use json::JsonPrinter;
#[cfg(any(test, feature = "schema"))]
pub use json::MapJson;
pub use list::ListPrinter;
pub use markdown::MarkdownPrinter;
pub use matrix::MatrixPrinter;
pub use svg::SvgPrinter;

use std::net::IpAddr;
use std::rc::Rc;

use palisade_analysis::map::reasons::TrafficReason;
use palisade_analysis::map::{INGRESS_CONTROLLER, Map, Workload};
use palisade_analysis::reach::connections::Connections;
use palisade_model::address::Family;

use super::diagnostics::plural;
use super::peers::describe_ranges;
use crate::text::Text;

/// Facts about a map that hold for all rows.
#[derive(Debug)]
pub struct MapContext<'m> {
    /// All workloads, sorted by namespace and name.
    pub workloads: &'m [Workload],
    /// Name of each workload, with its kind where two share a name.
    pub names: Vec<String>,
    /// Equivalence class of each workload: those of one class may send and receive the same.
    pub kinds: Vec<u32>,
    /// Whether each workload is selected on the command line.
    pub selected: Vec<bool>,
    /// Whether the traffic of each workload to itself stays on one address.
    pub is_itself: Vec<bool>,
    /// Whether traffic of workloads to themselves is omitted.
    pub ignore_self: bool,
    /// Families of the outside addresses in rows.
    pub families: Vec<Family>,
    /// Whether rows have reasons.
    pub explain: bool,
}

/// One end of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MapEnd<'m> {
    /// A workload, by its index.
    Workload(usize),
    /// Outside addresses, first and last.
    Range(IpAddr, IpAddr),
    /// The controller that serves Ingress and Route objects.
    IngressController,
    /// Nodes by name; `None` for every node.
    Nodes(Option<Rc<[&'m str]>>),
}

/// Traffic allowed by rows, shared by all that have the same.
#[derive(Debug)]
pub struct AllowedTraffic {
    /// Equal for equal traffic.
    pub id: u32,
    /// Protocols and ports, as data.
    pub connections: Connections,
    /// Protocols and ports, as text.
    pub text: String,
}

/// A row of a map: what one end may send the other.
#[derive(Debug, Clone)]
pub struct MapRow<'m> {
    /// The end that opens connections.
    pub source: MapEnd<'m>,
    /// The end that receives them.
    pub destination: MapEnd<'m>,
    /// Traffic allowed over the preferred family.
    pub allowed: Rc<AllowedTraffic>,
    /// Traffic allowed over the other family, where it differs.
    pub other: Option<Rc<AllowedTraffic>>,
    /// Whether the row holds for all pods of the two.
    pub uniform: bool,
    /// Reasons; empty unless requested.
    pub why: Rc<[TrafficReason<'m>]>,
}

/// Counts of a map.
#[derive(Debug, Default)]
pub struct MapSummary {
    /// Number of selected workloads.
    pub workloads: usize,
    /// Number of pairs of selected workloads.
    pub pairs: usize,
    /// Number of pairs with something allowed.
    pub connected: usize,
    /// Number of workloads that reach an outside address.
    pub reaching: usize,
    /// Number of workloads that an outside address reaches.
    pub reached: usize,
    /// Number of workloads without rows, because a limit was reached.
    pub left_out: usize,
}

/// Consumer of the rows of a map that appends to a text.
pub trait Printer<'m> {
    /// Prints what precedes the first row.
    fn begin(&mut self, _facts: &MapContext<'m>, _out: &mut Text) {}
    /// Prints a row. Rows of nodes come last.
    fn row(&mut self, context: &MapContext<'m>, line: MapRow<'m>, out: &mut Text);
    /// Whether [`Printer::refusal`] is to be called.
    fn wants_refusals(&self) -> bool {
        false
    }
    /// Takes the reasons why nothing is allowed, for one pair of workloads of each pair of kinds; after all rows.
    fn refusal(
        &mut self,
        _facts: &MapContext<'m>,
        _source: &MapEnd<'m>,
        _destination: &MapEnd<'m>,
        _why: &[TrafficReason<'m>],
    ) {
    }
    /// Prints what follows the last row.
    fn end(&mut self, context: &MapContext<'m>, summary: &MapSummary, out: &mut Text);
}

/// Footnote of every map that is text.
pub const OWN_NODE: &str = "A pod's own node always reaches it.";

// === impl MapContext ===

impl<'m> MapContext<'m> {
    /// Creates the context of a map with all workloads selected.
    pub fn new(map: &'m Map<'_>) -> Self {
        let workloads = &map.workloads[..];
        let same = |one: usize, other: Option<usize>| {
            let (own, other) = (&workloads[one].name, other.and_then(|at| workloads.get(at)));
            other
                .is_some_and(|other| (&other.name.namespace, &other.name.name) == (&own.namespace, &own.name))
        };
        // Workloads are sorted by namespace and name: those that share a name are neighbours.
        let name = |at: usize| {
            let own = &workloads[at].name;
            let shared = same(at, at.checked_sub(1)) || same(at, Some(at + 1));
            if shared { format!("{own} ({})", own.kind) } else { own.to_string() }
        };
        MapContext {
            workloads,
            names: (0..workloads.len()).map(name).collect(),
            kinds: (0..workloads.len()).map(|at| map.kinds().kind(at)).collect(),
            selected: vec![true; workloads.len()],
            is_itself: (0..workloads.len()).map(|at| map.is_itself(at)).collect(),
            ignore_self: false,
            families: Vec::new(),
            explain: false,
        }
    }

    /// Whether a workload has rows under its own name: the ingress controller has not.
    pub fn is_shown(&self, workload: usize) -> bool {
        self.workloads[workload].name.kind != INGRESS_CONTROLLER
    }

    /// Returns the name of an end, without outside addresses.
    pub fn name(&self, end: &MapEnd<'_>) -> String {
        match end {
            MapEnd::Workload(at) => self.names[*at].clone(),
            MapEnd::Range(..) => "outside".to_owned(),
            MapEnd::IngressController => "ingress controller".to_owned(),
            MapEnd::Nodes(None) => "every node".to_owned(),
            MapEnd::Nodes(Some(names)) => match &names[..] {
                [only] => format!("node {only}"),
                [first, second] => format!("nodes {first}, {second}"),
                [first, rest @ ..] => format!("node {first} and {} more", rest.len()),
                [] => "no node".to_owned(),
            },
        }
    }

    /// Describes outside addresses; `None` where it is all of them.
    pub fn addresses(&self, ranges: &[(IpAddr, IpAddr)]) -> Option<String> {
        let text = describe_ranges(ranges);
        let whole = text == "anywhere outside";
        let whole = whole || (self.families.len() == 1 && text.starts_with("anywhere outside"));
        (!ranges.is_empty() && !whole).then_some(text)
    }
}

// === impl MapRow ===

impl MapRow<'_> {
    /// Describes the traffic allowed.
    pub fn text(&self) -> String {
        let mut text = self.allowed.text.clone();
        if let Some(other) = &self.other {
            text.push_str("; over the other address family ");
            text.push_str(&other.text);
        }
        if !self.uniform {
            text.push_str(" (some pods)");
        }
        text
    }
}

// === impl MapSummary ===

impl MapSummary {
    /// Describes the counts: `12 workloads, 31 of 144 pairs connected, 4 reach outside, 2 are reached from outside`.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}, {} of {} connected",
            plural(self.workloads, "workload"),
            self.connected,
            plural(self.pairs, "pair"),
        );
        if self.reaching > 0 {
            text.push_str(&format!(", {} {} outside", self.reaching, verb(self.reaching, "reach")));
        }
        if self.reached > 0 {
            let are = if self.reached == 1 { "is" } else { "are" };
            text.push_str(&format!(", {} {are} reached from outside", self.reached));
        }
        text
    }
}

fn verb(count: usize, verb: &str) -> String {
    if count == 1 { format!("{verb}es") } else { verb.to_owned() }
}
