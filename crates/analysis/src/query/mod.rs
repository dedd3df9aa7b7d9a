//! Queries: assertions about all connections between two sets of endpoints.
//!
//! ```text
//!   text ──► Query (parse) ──► classes of both ends (members) ──► cells of each pair (pairs) ──► QueryAnswer
//! ```
//!
//! A query is answered from reachability between classes, so that it covers all pods, ports and addresses. A counterexample
//! is one concrete connection, which the plain evaluator explains.
//!
//! Traffic allowed on a layer-7 condition contradicts `is empty`, and does not suffice for `is full`.

mod endpoints;
mod members;
mod no_match;
mod pairs;
mod parse;

use std::collections::BTreeMap;

use palisade_model::address::Family;
use palisade_model::flow::{Flow, Party};
use palisade_model::policy::Direction;
use palisade_model::traffic::PortRange;

use crate::caveats::{self, Caveat};
use crate::map::Map;
use crate::reach::RuleAt;
use crate::reach::cells::{CellId, Cells};
use crate::reach::cuts::Cuts;
use crate::reach::traffics::{TrafficId, Traffics};
pub use endpoints::QueryEndpoints;
use members::members;
use pairs::PairEvaluator;
use palisade_model::traffic_set::{Region, TrafficSet};
pub use parse::{Assertion, Query, QueryError};

/// Answer to a query.
#[derive(Debug, Clone)]
pub struct QueryAnswer {
    /// Number of pairs of endpoints, over each address family that both have; an interval of outside addresses counts as
    /// one.
    pub pairs: usize,
    /// Number of pairs by allowed traffic.
    pub by_traffic: BTreeMap<TrafficId, usize>,
    /// Traffic allowed for some pair.
    pub some: TrafficId,
    /// Traffic allowed for every pair.
    pub every: TrafficId,
    /// Traffic allowed on a layer-7 condition, for some pair.
    pub conditional: TrafficId,
    /// Number of pairs of classes that are not covered, because a limit was reached.
    pub left_out: usize,
    /// Whether source ports are not distinguished, because rules have too many: then only connections without one are
    /// covered.
    pub coarse: bool,
    /// Traffic of the query.
    pub queried: TrafficId,
    /// Example of an allowed connection.
    pub allowed: Option<Flow>,
    /// Example of a refused connection.
    pub refused: Option<Flow>,
    /// Example of a connection allowed on a layer-7 condition.
    pub on_condition: Option<Flow>,
    /// Rules of the sources that depend on unresolved names.
    pub caveats: Vec<Caveat>,
}

/// Message for an answer that exceeds the limit.
pub const TOO_MUCH: &str =
    "not known: working out what policies say about all of the endpoints takes too much work";

/// Why a query has no answer. Not retryable: the query or the world must change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryRefusal {
    /// An end that matches no endpoint.
    #[error("{end} is nobody: no pod matches")]
    Nobody {
        /// The end as written.
        end: String,
        /// Suggestions.
        near: Vec<String>,
    },
    /// A node that does not exist.
    #[error("no node {name}")]
    Node {
        /// Name of the node.
        name: String,
        /// Suggestions.
        near: Vec<String>,
    },
    /// A block of which pods and nodes have all addresses.
    #[error("{0} is nobody outside: pods and nodes have all of its addresses")]
    Owned(String),
    /// The limit was reached before the first pair.
    #[error("{TOO_MUCH}")]
    TooMuch,
    /// Both ends are outside.
    #[error("both ends are outside: what they do is not the cluster's business")]
    Outside,
    /// No two endpoints of the ends can connect.
    #[error(
        "there is no such connection: the ends have no address family in common, or are one and the same"
    )]
    NoPair,
}

// === impl QueryRefusal ===

impl QueryRefusal {
    /// Returns suggestions for the end that matches nothing.
    pub fn near(&self) -> &[String] {
        match self {
            QueryRefusal::Nobody { near, .. } | QueryRefusal::Node { near, .. } => near,
            QueryRefusal::Owned(_) | QueryRefusal::TooMuch | QueryRefusal::Outside | QueryRefusal::NoPair => {
                &[]
            }
        }
    }
}

// === impl QueryAnswer ===

impl QueryAnswer {
    /// Whether an assertion holds.
    pub fn holds(&self, assertion: Assertion) -> bool {
        match assertion {
            Assertion::BeEmpty => self.some == Traffics::EMPTY,
            Assertion::NotBeEmpty => self.some != Traffics::EMPTY,
            Assertion::BeFull => self.every == self.queried && self.conditional == Traffics::EMPTY,
        }
    }

    /// Whether the result of an assertion is certain: pairs that were left out cannot change it.
    pub fn is_decided(&self, assertion: Assertion) -> bool {
        let shown = match assertion {
            Assertion::NotBeEmpty => self.holds(assertion),
            Assertion::BeEmpty | Assertion::BeFull => !self.holds(assertion),
        };
        (self.left_out == 0 && !self.coarse) || shown
    }

    /// Returns a counterexample. `is not empty` has none: no single connection shows that nothing is allowed.
    pub fn counterexample(&self, assertion: Assertion) -> Option<&Flow> {
        match assertion {
            Assertion::BeEmpty => self.allowed.as_ref(),
            Assertion::NotBeEmpty => None,
            Assertion::BeFull => self.refused.as_ref().or(self.on_condition.as_ref()),
        }
    }

    /// Adds `pairs` pairs of endpoints with the same cell, with an example of one.
    fn add(&mut self, cell: CellId, (source, destination): (Party, Party), pairs: usize, cells: &mut Cells) {
        let allowed = cells.traffics.intersection(cells.get(cell).allow, self.queried);
        let refused = cells.traffics.difference(self.queried, allowed);
        self.pairs += pairs;
        *self.by_traffic.entry(allowed).or_default() += pairs;
        self.some = cells.traffics.union(self.some, allowed);
        self.every = cells.traffics.intersection(self.every, allowed);
        let flow = |part| flow(source, destination, part, cells);
        self.allowed = self.allowed.or_else(|| flow(allowed));
        self.refused = self.refused.or_else(|| flow(refused));
    }

    /// Adds traffic of a pair that is allowed on a layer-7 condition.
    fn add_conditional(&mut self, part: TrafficId, (source, destination): (Party, Party), cells: &mut Cells) {
        let part = cells.traffics.intersection(part, self.queried);
        self.conditional = cells.traffics.union(self.conditional, part);
        self.on_condition = self.on_condition.or_else(|| flow(source, destination, part, cells));
    }
}

/// Returns a connection with some of this traffic.
fn flow(source: Party, destination: Party, part: TrafficId, cells: &Cells) -> Option<Flow> {
    let traffic = cells.traffics.space().sample(cells.traffics.set(part))?;
    Some(Flow { source, destination, traffic, via: None })
}

/// Answers a query.
pub fn answer(
    map: &Map<'_>,
    query: &Query,
    families: &[Family],
    cuts: &Cuts,
    cells: &mut Cells,
) -> Result<QueryAnswer, QueryRefusal> {
    let queried = queried(query, cells);
    let mut answer = QueryAnswer {
        pairs: 0,
        by_traffic: BTreeMap::new(),
        some: Traffics::EMPTY,
        every: queried,
        conditional: Traffics::EMPTY,
        left_out: 0,
        coarse: cuts.coarse,
        queried,
        allowed: None,
        refused: None,
        on_condition: None,
        caveats: Vec::new(),
    };
    let (mut found, mut inside) = ([false; 2], false);
    let mut rules: Vec<RuleAt> = Vec::new();
    for family in [Family::V4, Family::V6] {
        let reach = &map.reach[family as usize];
        // Outside addresses of a family that is not in use do not count.
        let wanted =
            |ends: &QueryEndpoints| families.contains(&family) || !matches!(ends, QueryEndpoints::Internet);
        if !wanted(&query.source) || !wanted(&query.destination) {
            continue;
        }
        let sources = members(reach, &query.source, cuts);
        let destinations = members(reach, &query.destination, cuts);
        found[0] |= !sources.is_empty();
        found[1] |= !destinations.is_empty();
        let outside = reach.outside();
        inside |= sources.keys().chain(destinations.keys()).any(|class| !outside.contains(class));
        rules.extend(sources.keys().flat_map(|class| reach.rules(Direction::Egress, *class)));
        PairEvaluator::new(reach).evaluate(&sources, &destinations, cells, &mut answer);
    }
    // Layer-7 conditions are part of the answer; unresolved names are not.
    answer.caveats = caveats::of(map.snapshot, rules);
    answer.caveats.retain(|caveat| matches!(caveat, Caveat::Names { .. }));
    let [source, destination] = &query.ends;
    match (found, answer.pairs) {
        ([false, _], _) => Err(no_match::no_match(map.snapshot, &query.source, source)),
        ([_, false], _) => Err(no_match::no_match(map.snapshot, &query.destination, destination)),
        (_, 0) if answer.left_out > 0 => Err(QueryRefusal::TooMuch),
        (_, 0) if !inside => Err(QueryRefusal::Outside),
        (_, 0) => Err(QueryRefusal::NoPair),
        _ => Ok(answer),
    }
}

fn queried(query: &Query, cells: &mut Cells) -> TrafficId {
    if query.traffic.is_empty() {
        return Traffics::ALL;
    }
    let space = cells.traffics.space();
    let set = query.traffic.iter().fold(TrafficSet::default(), |set, (protocol, range)| {
        set.union(&space.region(Region::new(*protocol, range.first..=range.last, PortRange::ALL)))
    });
    cells.traffics.intern(set)
}
