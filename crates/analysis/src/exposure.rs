//! What workloads accept from, and send to, pods that do not exist yet, and addresses outside.
//!
//! A map is about the pods there are. What a policy lets in is usually more: whoever will carry a label, in whatever
//! namespace. For each workload the selections of pods that its rules name are taken apart into all combinations of them
//! that some pod could be in ([`crate::space`]), and the pipeline is run for each: exact for every pod there could be,
//! however its labels combine.
//!
//! It is what the workload's own side says. What such a pod is subject to itself depends on more than its labels tell; and
//! it has no address yet, so that rules about addresses are told with the outside.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::group::Members;
use palisade_model::policy::{Direction, Peer, Peers, PodSet};
use palisade_model::snapshot::Snapshot;

use crate::map::Map;
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;
use crate::reach::traffic_set::{TrafficId, Traffics};
use crate::reach::{Reach, RuleAt};
use crate::space::{Description, Predicate, Space, TooMany, describe_groups};

/// What a workload does, in one direction, with whoever could be at the other end.
#[derive(Debug, Clone)]
pub struct Exposed {
    /// The workload, by its place in the map.
    pub workload: usize,
    /// What it accepts, or what it sends.
    pub direction: Direction,
    /// Whether any policy applies to it in this direction.
    pub protected: bool,
    /// Pods that do not exist yet, in words, and what they get: every pod is in exactly one of them.
    pub pods: Result<Vec<(String, TrafficId)>, TooMany>,
    /// Ranges of outside addresses and what they get; those that get nothing are left out.
    pub outside: Vec<(IpAddr, IpAddr, TrafficId)>,
}

/// Combinations of selections that are told apart, at most.
const MOST_SIGNATURES: usize = 4096;

/// What is the same for workloads with the same rules.
type Answer = Result<Vec<(String, TrafficId)>, TooMany>;

/// Asks for one workload after the other.
#[derive(Debug)]
pub struct Exposure<'m, 's> {
    map: &'m Map<'s>,
    space: Space,
    /// By direction, the number of the rules, and the namespace.
    known: HashMap<(Direction, u32, Family, String), Answer>,
}

// === impl Exposure ===

impl<'m, 's> Exposure<'m, 's> {
    /// Of a map.
    pub fn new(map: &'m Map<'s>) -> Self {
        Exposure { map, space: Space::new(map.snapshot), known: HashMap::new() }
    }

    /// What a workload does with whoever could be at the other end. Where its pods are not alike, what some of them do.
    pub fn of(
        &mut self,
        workload: usize,
        direction: Direction,
        families: &[Family],
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> Exposed {
        let map = self.map;
        let outside =
            families.iter().flat_map(|family| map.outside(workload, direction, *family, cuts, cells));
        let outside = outside.collect();
        let mut pods: Answer = Ok(Vec::new());
        let mut protected = false;
        for family in [Family::V4, Family::V6] {
            let classes = map.kinds().classes(workload, family);
            for class in &classes {
                protected |= map.reach[family as usize].is_subject(direction, *class);
            }
            // The rules are the same over both families, but for addresses.
            if let Some(class) = classes.first().filter(|_| matches!(&pods, Ok(found) if found.is_empty())) {
                let namespace = map.workloads[workload].name.namespace.to_string();
                pods = self.pods(direction, *class, family, namespace, cells);
            }
        }
        Exposed { workload, direction, protected, pods, outside }
    }

    fn pods(
        &mut self,
        direction: Direction,
        class: u32,
        family: Family,
        namespace: String,
        cells: &mut Cells,
    ) -> Answer {
        let reach = &self.map.reach[family as usize];
        let key = (direction, reach.row_number(direction, class), family, namespace);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let answer = self.work_out(direction, class, reach, &key.3, cells);
        self.known.insert(key, answer.clone());
        answer
    }

    fn work_out(
        &self,
        direction: Direction,
        class: u32,
        reach: &Reach<'_>,
        namespace: &str,
        cells: &mut Cells,
    ) -> Answer {
        let place = self.space.place(namespace);
        let mut sets: Vec<&PodSet> = Vec::new();
        let mut named: BTreeMap<RuleAt, Vec<usize>> = BTreeMap::new();
        for rule in reach.rules(direction, class) {
            let own = selections(self.map.snapshot, rule);
            let places = own.into_iter().map(|set| match sets.iter().position(|known| *known == set) {
                Some(at) => at,
                None => {
                    sets.push(set);
                    sets.len() - 1
                }
            });
            named.insert(rule, places.collect());
        }
        let predicates: Vec<Predicate> = sets.iter().map(|set| self.space.predicate(set, place)).collect();
        let predicates: Vec<&Predicate> = predicates.iter().collect();
        let signatures = self.space.signatures(&predicates, MOST_SIGNATURES)?;
        let mut gets = Vec::with_capacity(signatures.len());
        for signature in &signatures {
            let names = |rule: RuleAt| {
                named.get(&rule).is_some_and(|sets| sets.iter().any(|set| signature.members.has(*set)))
            };
            let cell = reach.supposed(direction, class, names, cells);
            gets.push(cells.get(cell).allow);
        }
        let described = describe_groups(&predicates, &signatures, |at| gets[at]);
        let mut told: Vec<(String, TrafficId)> =
            described.into_iter().map(|(gets, who)| (who.to_string(), gets)).collect();
        // Whoever gets nothing is whoever is left, where nobody else is.
        let last = described_last(&told);
        if let Some(at) = last {
            let (_, gets) = told.remove(at);
            told.push((Description::Others.to_string(), gets));
        }
        Ok(told)
    }
}

/// Those who get nothing, where others get something and nobody is called the others yet.
fn described_last(told: &[(String, TrafficId)]) -> Option<usize> {
    let others = Description::Others.to_string();
    let named = told.iter().any(|(who, _)| *who == others);
    let nothing = told.iter().position(|(_, gets)| *gets == Traffics::EMPTY);
    nothing.filter(|_| told.len() > 1 && !named)
}

/// The selections of pods among a rule's peers.
fn selections(snapshot: &Snapshot, at: RuleAt) -> Vec<&PodSet> {
    let Peers::Of(peers) = &snapshot.policies()[at.policy].rules[at.rule].peers else { return Vec::new() };
    let mut sets = Vec::new();
    for peer in peers {
        match peer {
            Peer::Pods(set) if !set.external => sets.push(set),
            Peer::Group(group) => {
                let members = snapshot.group(group).unwrap_or_default().iter();
                sets.extend(members.filter_map(|member| match member {
                    Members::Pods(set) if !set.external => Some(set),
                    _ => None,
                }));
            }
            _ => {}
        }
    }
    sets
}
