//! A map: for people, for programs, for spreadsheets, for pull requests, as a picture and as a page.
//!
//! Rows come one after the other and are forgotten as soon as they are said, so that a map of any size can be printed; only
//! what needs all rows to be drawn (a matrix, a picture, a page) keeps what it needs of them, and has a bound. A printer
//! appends to a text, which whoever runs it writes away.

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

pub use csv::Csv;
pub use dot::Dot;
pub use html::Html;
#[cfg(any(test, feature = "schema"))]
pub use json::Document;
pub use json::Json;
pub use list::List;
pub use markdown::Markdown;
pub use matrix::Table;
pub use svg::Svg;

use std::net::IpAddr;
use std::rc::Rc;

use palisade_analysis::map::why::Why;
use palisade_analysis::map::{INGRESS_CONTROLLER, Map, Workload};
use palisade_analysis::reach::connections::Connections;
use palisade_model::address::Family;

use super::diagnostics::plural;
use super::peers::outside;
use crate::text::Text;

/// What is true of the map as a whole.
#[derive(Debug)]
pub struct Facts<'m> {
    /// The workloads.
    pub workloads: &'m [Workload],
    /// What each is called: with its kind where two share a name.
    pub names: Vec<String>,
    /// Its kind: workloads of one kind may send and receive the same.
    pub kinds: Vec<u32>,
    /// Whether it is asked about.
    pub meant: Vec<bool>,
    /// Whether what it sends itself stays on one address.
    pub itself: Vec<bool>,
    /// Without what a workload sends itself.
    pub ignore_self: bool,
    /// The families of outside addresses that are told.
    pub families: Vec<Family>,
    /// Whether rows come with their reasons.
    pub explain: bool,
}

/// One end of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End<'m> {
    /// A workload, by its place.
    Workload(usize),
    /// Outside addresses, first and last.
    Range(IpAddr, IpAddr),
    /// Whoever serves Ingress and Route objects.
    IngressController,
    /// Nodes by name; `None` where it is every node.
    Nodes(Option<Rc<[&'m str]>>),
}

/// What may be sent.
#[derive(Debug)]
pub struct Said {
    /// The same number is the same traffic.
    pub id: u32,
    /// Protocols and ports.
    pub connections: Connections,
    /// The same in words.
    pub text: String,
}

/// A row.
#[derive(Debug, Clone)]
pub struct Line<'m> {
    /// Who opens connections.
    pub source: End<'m>,
    /// Who receives them.
    pub destination: End<'m>,
    /// What is let through.
    pub allowed: Rc<Said>,
    /// The same over the other family, where that is something else.
    pub other: Option<Rc<Said>>,
    /// Whether all pods of the two are alike.
    pub uniform: bool,
    /// Why, if that is asked for.
    pub why: Rc<[Why<'m>]>,
}

/// How much there is.
#[derive(Debug, Default)]
pub struct Summary {
    /// Workloads, those that are asked about first.
    pub workloads: usize,
    /// Pairs of workloads that are asked about.
    pub pairs: usize,
    /// How many of them may send something.
    pub connected: usize,
    /// How many workloads reach something outside.
    pub reaching: usize,
    /// How many workloads something outside reaches.
    pub reached: usize,
    /// Workloads that no rows are told of, because that was too much work.
    pub stopped: usize,
}

/// Says rows, one after the other.
pub trait Printer<'m> {
    /// What comes before the first row.
    fn begin(&mut self, _facts: &Facts<'m>, _out: &mut Text) {}
    /// A row. Those of nodes come last.
    fn row(&mut self, facts: &Facts<'m>, line: Line<'m>, out: &mut Text);
    /// Whether it wants to know why nothing is let through where that is so.
    fn wants_refusals(&self) -> bool {
        false
    }
    /// Why two ends may send nothing, for one pair of workloads of each pair of kinds. These come last.
    fn refusal(&mut self, _facts: &Facts<'m>, _source: &End<'m>, _destination: &End<'m>, _why: &[Why<'m>]) {}
    /// What comes after the last row.
    fn end(&mut self, facts: &Facts<'m>, summary: &Summary, out: &mut Text);
}

/// What every map for people says at its end.
pub const OWN_NODE: &str = "A pod's own node always reaches it.";

// === impl Facts ===

impl<'m> Facts<'m> {
    /// Of a map; nobody is asked about yet.
    pub fn new(map: &'m Map<'_>) -> Self {
        let workloads = &map.workloads[..];
        let same = |one: usize, other: Option<usize>| {
            let (own, other) = (&workloads[one].name, other.and_then(|at| workloads.get(at)));
            other
                .is_some_and(|other| (&other.name.namespace, &other.name.name) == (&own.namespace, &own.name))
        };
        // They are sorted by namespace and name: who shares a name stands next to it.
        let name = |at: usize| {
            let own = &workloads[at].name;
            let shared = same(at, at.checked_sub(1)) || same(at, Some(at + 1));
            if shared { format!("{own} ({})", own.kind) } else { own.to_string() }
        };
        Facts {
            workloads,
            names: (0..workloads.len()).map(name).collect(),
            kinds: (0..workloads.len()).map(|at| map.kinds().kind(at)).collect(),
            meant: vec![true; workloads.len()],
            itself: (0..workloads.len()).map(|at| map.is_itself(at)).collect(),
            ignore_self: false,
            families: Vec::new(),
            explain: false,
        }
    }

    /// Whether a workload is one that is printed: not whoever serves Ingress objects, who has a name of its own.
    pub fn is_shown(&self, workload: usize) -> bool {
        self.workloads[workload].name.kind != INGRESS_CONTROLLER
    }

    /// An end in words. Outside addresses are said elsewhere.
    pub fn name(&self, end: &End<'_>) -> String {
        match end {
            End::Workload(at) => self.names[*at].clone(),
            End::Range(..) => "outside".to_owned(),
            End::IngressController => "ingress controller".to_owned(),
            End::Nodes(None) => "every node".to_owned(),
            End::Nodes(Some(names)) => match &names[..] {
                [only] => format!("node {only}"),
                [first, second] => format!("nodes {first}, {second}"),
                [first, rest @ ..] => format!("node {first} and {} more", rest.len()),
                [] => "no node".to_owned(),
            },
        }
    }

    /// Which outside addresses; nothing where it is all of them.
    pub fn addresses(&self, ranges: &[(IpAddr, IpAddr)]) -> Option<String> {
        let text = outside(ranges);
        let whole = text == "anywhere outside";
        let whole = whole || (self.families.len() == 1 && text.starts_with("anywhere outside"));
        (!ranges.is_empty() && !whole).then_some(text)
    }
}

// === impl Line ===

impl Line<'_> {
    /// What is let through, in words.
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

// === impl Summary ===

impl Summary {
    /// `12 workloads, 31 of 144 pairs connected, 4 reach outside, 2 are reached from outside`.
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
