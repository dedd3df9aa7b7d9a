//! Assertions about a whole cluster: what must never be let through, what must always be.
//!
//! A query stands for every connection between two sorts of endpoints. It is answered from what classes reach, so that a
//! line of text is a statement about all pods, all ports and all addresses; what speaks against it is one concrete
//! connection, which the plain evaluator explains.
//!
//! What a rule allows on condition (layer 7) is let through, but not all of it: enough to speak against `empty`, not enough
//! for `full`.

mod between;
mod ends;
mod members;
mod nobody;
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
use between::Between;
pub use ends::Ends;
use members::members;
use palisade_model::traffic_set::{Region, TrafficSet};
pub use parse::{Must, Query, QueryError};

/// What a query comes to.
#[derive(Debug, Clone)]
pub struct Answer {
    /// How many pairs of endpoints it is about, over each family of addresses that both have; intervals of outside
    /// addresses count as one each.
    pub pairs: usize,
    /// What is let through, and for how many of the pairs.
    pub by_traffic: BTreeMap<TrafficId, usize>,
    /// What of the traffic is let through for some pair.
    pub some: TrafficId,
    /// What is let through for every pair.
    pub every: TrafficId,
    /// What of it is let through on condition (layer 7), for some pair.
    pub conditional: TrafficId,
    /// Pairs of classes that it says nothing about: what policies say about them takes too much work.
    pub left_out: usize,
    /// Whether source ports are not distinguished, because rules have too many: then it is about connections that name none.
    pub coarse: bool,
    /// What was asked about.
    pub asked: TrafficId,
    /// A connection that is let through, where there is one.
    pub allowed: Option<Flow>,
    /// A connection that is not.
    pub refused: Option<Flow>,
    /// A connection that is let through on condition.
    pub on_condition: Option<Flow>,
    /// Rules for the sources that depend on names whose addresses are not known.
    pub caveats: Vec<Caveat>,
}

/// What is said where an answer is not known.
pub const TOO_MUCH: &str =
    "not known: working out what policies say about all of the endpoints takes too much work";

/// Why a query has no answer. Not retryable: the query or the world must change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// An end that stands for nobody.
    #[error("{end} is nobody: no pod matches")]
    Nobody {
        /// As it is written.
        end: String,
        /// What may have been meant.
        near: Vec<String>,
    },
    /// A node that does not exist.
    #[error("no node {name}")]
    Node {
        /// Its name.
        name: String,
        /// What may have been meant.
        near: Vec<String>,
    },
    /// A block without an address outside.
    #[error("{0} is nobody outside: pods and nodes have all of its addresses")]
    Owned(String),
    /// Nothing could be worked out.
    #[error("{TOO_MUCH}")]
    TooMuch,
    /// No end is in the cluster.
    #[error("both ends are outside: what they do is not the cluster's business")]
    Outside,
    /// Nobody can be at both ends.
    #[error(
        "there is no such connection: the ends have no address family in common, or are one and the same"
    )]
    NoPair,
}

// === impl NoAnswer ===

impl NoAnswer {
    /// What may have been meant instead.
    pub fn near(&self) -> &[String] {
        match self {
            NoAnswer::Nobody { near, .. } | NoAnswer::Node { near, .. } => near,
            NoAnswer::Owned(_) | NoAnswer::TooMuch | NoAnswer::Outside | NoAnswer::NoPair => &[],
        }
    }
}

// === impl Answer ===

impl Answer {
    /// Whether what must hold does.
    pub fn holds(&self, must: Must) -> bool {
        match must {
            Must::BeEmpty => self.some == Traffics::EMPTY,
            Must::NotBeEmpty => self.some != Traffics::EMPTY,
            Must::BeFull => self.every == self.asked && self.conditional == Traffics::EMPTY,
        }
    }

    /// Whether it is known whether what must hold does: what was left out cannot change it.
    pub fn is_decided(&self, must: Must) -> bool {
        let shown = match must {
            Must::NotBeEmpty => self.holds(must),
            Must::BeEmpty | Must::BeFull => !self.holds(must),
        };
        (self.left_out == 0 && !self.coarse) || shown
    }

    /// The connection that speaks against it. That nothing at all is let through, no single one shows.
    pub fn counterexample(&self, must: Must) -> Option<&Flow> {
        match must {
            Must::BeEmpty => self.allowed.as_ref(),
            Must::NotBeEmpty => None,
            Must::BeFull => self.refused.as_ref().or(self.on_condition.as_ref()),
        }
    }

    /// Takes one pair of classes into account, for which these two stand.
    fn add(&mut self, cell: CellId, (source, destination): (Party, Party), pairs: usize, cells: &mut Cells) {
        let allowed = cells.traffics.intersection(cells.get(cell).allow, self.asked);
        let refused = cells.traffics.difference(self.asked, allowed);
        self.pairs += pairs;
        *self.by_traffic.entry(allowed).or_default() += pairs;
        self.some = cells.traffics.union(self.some, allowed);
        self.every = cells.traffics.intersection(self.every, allowed);
        let flow = |part| flow(source, destination, part, cells);
        self.allowed = self.allowed.or_else(|| flow(allowed));
        self.refused = self.refused.or_else(|| flow(refused));
    }

    /// Takes into account that some of what the two may do they may do on condition.
    fn add_conditional(&mut self, part: TrafficId, (source, destination): (Party, Party), cells: &mut Cells) {
        let part = cells.traffics.intersection(part, self.asked);
        self.conditional = cells.traffics.union(self.conditional, part);
        self.on_condition = self.on_condition.or_else(|| flow(source, destination, part, cells));
    }
}

/// A connection that carries some of this.
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
) -> Result<Answer, NoAnswer> {
    let asked = asked(query, cells);
    let mut answer = Answer {
        pairs: 0,
        by_traffic: BTreeMap::new(),
        some: Traffics::EMPTY,
        every: asked,
        conditional: Traffics::EMPTY,
        left_out: 0,
        coarse: cuts.coarse,
        asked,
        allowed: None,
        refused: None,
        on_condition: None,
        caveats: Vec::new(),
    };
    let (mut found, mut inside) = ([false; 2], false);
    let mut rules: Vec<RuleAt> = Vec::new();
    for family in [Family::V4, Family::V6] {
        let reach = &map.reach[family as usize];
        // Outside addresses of a family that nobody speaks of are not asked about.
        let wanted = |ends: &Ends| families.contains(&family) || !matches!(ends, Ends::Internet);
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
        Between::new(reach).ask(&sources, &destinations, cells, &mut answer);
    }
    // What holds on condition is counted exactly; what names stand for nobody can count.
    answer.caveats = caveats::of(map.snapshot, rules);
    answer.caveats.retain(|caveat| matches!(caveat, Caveat::Names { .. }));
    let [source, destination] = &query.ends;
    match (found, answer.pairs) {
        ([false, _], _) => Err(nobody::nobody(map.snapshot, &query.source, source)),
        ([_, false], _) => Err(nobody::nobody(map.snapshot, &query.destination, destination)),
        (_, 0) if answer.left_out > 0 => Err(NoAnswer::TooMuch),
        (_, 0) if !inside => Err(NoAnswer::Outside),
        (_, 0) => Err(NoAnswer::NoPair),
        _ => Ok(answer),
    }
}

fn asked(query: &Query, cells: &mut Cells) -> TrafficId {
    if query.traffic.is_empty() {
        return Traffics::ALL;
    }
    let space = cells.traffics.space();
    let set = query.traffic.iter().fold(TrafficSet::default(), |set, (protocol, range)| {
        set.union(&space.region(Region::new(*protocol, range.first..=range.last, PortRange::ALL)))
    });
    cells.traffics.intern(set)
}
