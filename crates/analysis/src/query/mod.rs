//! Assertions about a whole cluster: what must never be let through, what must always be.
//!
//! A query stands for every connection between two sorts of endpoints. It is answered from what classes reach, so that a
//! line of text is a statement about all pods, all ports and all addresses; what speaks against it is one concrete
//! connection, which the plain evaluator explains.

mod parse;

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::traffic::PortRange;

use crate::map::Map;
use crate::reach::Reach;
use crate::reach::cells::{CellId, Cells};
use crate::reach::cuts::Cuts;
use crate::reach::traffic_set::{TrafficId, TrafficSet, Traffics};
pub use parse::{Ends, Must, Query, QueryError};

/// What a query comes to.
#[derive(Debug, Clone)]
pub struct Answer {
    /// How many pairs of endpoints it is about; intervals of outside addresses count as one each.
    pub pairs: usize,
    /// What of the traffic is let through for some pair.
    pub some: TrafficId,
    /// What is let through for every pair.
    pub every: TrafficId,
    /// What was asked about.
    pub asked: TrafficId,
    /// A connection that is let through, where there is one.
    pub allowed: Option<Flow>,
    /// A connection that is not.
    pub refused: Option<Flow>,
}

/// Why a query has no answer. Not retryable: the query or the world must change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoAnswer {
    /// An end that stands for nobody.
    #[error("{0} is nobody: no pod matches")]
    Nobody(String),
    /// A node that does not exist.
    #[error("no node {0}")]
    Node(String),
    /// Nobody can be at both ends.
    #[error(
        "there is no such connection: the ends have no address family in common, or are one and the same"
    )]
    NoPair,
}

/// The members of each class.
type Members = BTreeMap<u32, Vec<Party>>;

// === impl Answer ===

impl Answer {
    /// Whether what must hold does.
    pub fn holds(&self, must: Must) -> bool {
        match must {
            Must::BeEmpty => self.some == Traffics::EMPTY,
            Must::BeFull => self.every == self.asked,
        }
    }

    /// The connection that speaks against it.
    pub fn counterexample(&self, must: Must) -> Option<&Flow> {
        match must {
            Must::BeEmpty => self.allowed.as_ref(),
            Must::BeFull => self.refused.as_ref(),
        }
    }
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
    let mut answer =
        Answer { pairs: 0, some: Traffics::EMPTY, every: asked, asked, allowed: None, refused: None };
    let mut found = [false; 2];
    for family in [Family::V4, Family::V6] {
        let reach = &map.reach[family as usize];
        // Outside addresses of a family that nobody speaks of are not asked about.
        let wanted = |ends: &Ends| families.contains(&family) || !matches!(ends, Ends::Internet);
        if !wanted(&query.source) || !wanted(&query.destination) {
            continue;
        }
        let sources = members(reach, &query.source, cuts)?;
        let destinations = members(reach, &query.destination, cuts)?;
        found[0] |= !sources.is_empty();
        found[1] |= !destinations.is_empty();
        between(reach, &sources, &destinations, cells, &mut answer);
    }
    match (found, answer.pairs) {
        ([false, _], _) => Err(NoAnswer::Nobody(first_word(&query.text, &query.source, query))),
        ([_, false], _) => Err(NoAnswer::Nobody(first_word(&query.text, &query.destination, query))),
        (_, 0) => Err(NoAnswer::NoPair),
        _ => Ok(answer),
    }
}

/// The text of an end.
fn first_word(text: &str, end: &Ends, query: &Query) -> String {
    let (left, right) = text.split_once("->").or_else(|| text.split_once("<-")).unwrap_or((text, ""));
    let backwards = !text.contains("->");
    let is_source = *end == query.source;
    let side = if is_source != backwards { left } else { right };
    side.trim().to_owned()
}

fn asked(query: &Query, cells: &mut Cells) -> TrafficId {
    if query.traffic.is_empty() {
        return Traffics::ALL;
    }
    let line = cells.traffics.line();
    let set = query.traffic.iter().fold(TrafficSet::default(), |set, (protocol, range)| {
        set.or(&line.places(*protocol, range.first..=range.last, PortRange::ALL))
    });
    cells.traffics.intern(set)
}

/// Who is meant, by class.
fn members(reach: &Reach<'_>, ends: &Ends, cuts: &Cuts) -> Result<Members, NoAnswer> {
    let snapshot = reach.snapshot();
    let own = |addresses: &[IpAddr]| addresses.iter().copied().find(|at| Family::of(*at) == reach.family());
    let mut members = Members::new();
    let mut add = |class: Option<u32>, who: Who, address: Option<IpAddr>| {
        if let Some(class) = class {
            members.entry(class).or_default().push(Party { who, address });
        }
    };
    match ends {
        Ends::Pods { namespace, name, selector } => {
            for (at, pod) in snapshot.pods().iter().enumerate() {
                let named = || {
                    name.matches(&pod.name)
                        || snapshot.makers(pod).iter().any(|maker| name.matches(&maker.name))
                };
                let plain = name.is_open() && name.matches("") && pod.external;
                if !pod.terminated
                    && !plain
                    && namespace.matches(&pod.namespace)
                    && selector.matches(&pod.labels)
                    && named()
                {
                    add(reach.of_pod(at), Who::Pod(at), own(&pod.addresses));
                }
            }
        }
        Ends::Node(name) => {
            let node = snapshot.node(name).ok_or_else(|| NoAnswer::Node(name.to_string()))?;
            add(reach.of_node(node), Who::Node(node), own(&snapshot.nodes()[node].addresses));
        }
        Ends::Internet => {
            for class in reach.outside() {
                let (first, _) = cuts.interval(reach.family(), (class - reach.outside().start) as usize);
                add(Some(class), Who::Outside, Some(first));
            }
        }
        Ends::Addresses(first, last) if Family::of(*first) == reach.family() => {
            for class in reach.of_address(*first, cuts)..=reach.of_address(*last, cuts) {
                let (start, _) = cuts.interval(reach.family(), (class - reach.outside().start) as usize);
                add(Some(class), Who::Outside, Some(start.max(*first)));
            }
        }
        Ends::Addresses(..) => {}
    }
    Ok(members)
}

/// Every pair of classes.
fn between(
    reach: &Reach<'_>,
    sources: &Members,
    destinations: &Members,
    cells: &mut Cells,
    answer: &mut Answer,
) {
    let outside = |class: u32| reach.outside().contains(&class);
    for (from, source) in sources {
        for (to, destination) in destinations {
            // What addresses outside do among themselves is not the cluster's business.
            if outside(*from) && outside(*to) {
                continue;
            }
            // A node and the pods it runs are near: each pair is asked about.
            let near = !outside(*from) && !outside(*to) && !reach.is_pods(*from);
            if near {
                for (one, other) in
                    source.iter().flat_map(|one| destination.iter().map(move |other| (one, other)))
                {
                    if let Some(cell) =
                        reach.between(one.who, other.who, cells).filter(|_| one.who != other.who)
                    {
                        answer.add(cell, (*one, *other), 1, cells);
                    }
                }
                continue;
            }
            // A wildcard never stands for a pod and itself: where a class meets itself, two of it stand for it.
            let apart = |one: &Party, other: &Party| one.who == Who::Outside || one.who != other.who;
            let two = source
                .iter()
                .take(2)
                .find_map(|one| Some((*one, *destination.iter().find(|other| apart(other, one))?)));
            if let Some(ends) = two {
                let cell = reach.cell(*from, *to, cells);
                answer.add(cell, ends, source.len() * destination.len(), cells);
            }
        }
    }
}

impl Answer {
    /// Takes one pair of classes into account, for which these two stand.
    fn add(&mut self, cell: CellId, (source, destination): (Party, Party), pairs: usize, cells: &mut Cells) {
        let allowed = cells.traffics.and(cells.get(cell).allow, self.asked);
        let refused = cells.traffics.minus(self.asked, allowed);
        self.pairs += pairs;
        self.some = cells.traffics.or(self.some, allowed);
        self.every = cells.traffics.and(self.every, allowed);
        let flow = |part: TrafficId| {
            let traffic = cells.traffics.line().sample(cells.traffics.set(part))?;
            Some(Flow { source, destination, traffic, via: None })
        };
        self.allowed = self.allowed.or_else(|| flow(allowed));
        self.refused = self.refused.or_else(|| flow(refused));
    }
}
