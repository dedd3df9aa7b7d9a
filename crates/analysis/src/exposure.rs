//! What workloads accept from, and send to, pods that do not exist yet, and addresses outside.
//!
//! A map is about the pods there are. What a policy lets in is usually more: whoever will carry a label, in whatever
//! namespace. For each workload the selections of pods that its rules name are taken apart into all combinations of them
//! that some pod could be in ([`crate::space`]), and the pipeline is run for each: exact for every pod there could be,
//! however its labels combine.
//!
//! The pods of a workload need not be alike (a rollout, a label set by hand). As in a map, what some of them do counts, and
//! where others of them do something else, that is said.
//!
//! It is what the workload's own side says. What such a pod is subject to itself depends on more than its labels tell; and
//! it has no address yet, so that rules about addresses are told with the outside.

mod outside;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::flow::Who;
use palisade_model::policy::{Direction, Peer, Peers, PodSet};
use palisade_model::resolve::GroupMember;
use palisade_model::snapshot::Snapshot;

use crate::caveats::{self, Caveat};
use crate::map::Map;
use crate::reach::RuleAt;
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;
use crate::reach::traffics::{TrafficId, Traffics};
use crate::space::{Description, Predicate, Space, TooMany, Witness, describe_groups};

/// What a workload does, in one direction, with whoever could be at the other end.
#[derive(Debug, Clone)]
pub struct Exposed {
    /// The workload, by its place in the map.
    pub workload: usize,
    /// What it accepts, or what it sends.
    pub direction: Direction,
    /// Whether any policy applies to any of its pods in this direction.
    pub protected: bool,
    /// Pods that do not exist yet, and what they get: every pod is in exactly one of them.
    pub pods: Result<Vec<Newcomers>, TooMany>,
    /// Ranges of outside addresses and what they get; those that get nothing are left out.
    pub outside: Vec<Addresses>,
    /// What of its rules depends on more than addresses and ports.
    pub caveats: Vec<Caveat>,
}

/// Pods that do not exist yet and get the same.
#[derive(Debug, Clone)]
pub struct Newcomers {
    /// Who they are, in words.
    pub who: String,
    /// One of them.
    pub example: Witness,
    /// What some pods of the workload do with them.
    pub gets: TrafficId,
    /// Whether all of its pods do that.
    pub uniform: bool,
}

/// Outside addresses that get the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// The first.
    pub first: IpAddr,
    /// The last.
    pub last: IpAddr,
    /// What some pods of the workload do with them.
    pub gets: TrafficId,
    /// Whether all of its pods do that.
    pub uniform: bool,
}

/// Combinations of selections that are told apart, at most.
const MOST_SIGNATURES: usize = 4096;

/// Bits of signatures that are looked at for words, for one workload.
const MOST_LOOKED: usize = 100_000_000;
/// Steps for such a word of bits.
const LOOKED: u64 = 5;
/// Steps for a rule of a workload, and to ask whether a set is about a namespace.
const RULE: u64 = 500;
const NAMESPACE: u64 = 60;
/// Steps to find pods, for all workloads together: some seconds.
const MOST_STEPS: u64 = 10_000_000;
/// Labels that are kept for all combinations, and combinations that are told apart in any case.
const MOST_KEPT: usize = 2_000_000;
const LEAST_SIGNATURES: usize = 256;

/// What is the same for workloads with the same rules.
type Answer = Result<Vec<Newcomers>, TooMany>;

/// Pods of a workload that have the same rules: the family, the number of the rules there, and a class of theirs.
type Sort = (Family, u32, u32);

/// Asks for one workload after the other.
#[derive(Debug)]
pub struct Exposure<'m, 's> {
    map: &'m Map<'s>,
    space: Space,
    /// By direction, the sorts of pods, and the namespace.
    known: HashMap<(Direction, Vec<Sort>, String), Answer>,
    /// Steps that finding pods may still take, for all workloads together.
    steps: u64,
}

// === impl Exposure ===

impl<'m, 's> Exposure<'m, 's> {
    /// Of a map.
    pub fn new(map: &'m Map<'s>) -> Self {
        Exposure { map, space: Space::new(map.snapshot), known: HashMap::new(), steps: MOST_STEPS }
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
        let outside = families.iter().flat_map(|family| {
            let classes = map.kinds().classes(workload, *family);
            outside::of(&map.reach[*family as usize], direction, &classes, cuts, cells)
        });
        let outside = outside.collect();
        let sorts = self.sorts(workload, direction);
        let asked: usize = sorts
            .iter()
            .map(|(family, _, class)| map.reach[*family as usize].rules(direction, *class).count())
            .sum();
        cells.work().take(RULE * asked as u64);
        let subject = |(family, _, class): &Sort| map.reach[*family as usize].is_subject(direction, *class);
        let rules = sorts.iter().flat_map(|(family, _, class)| {
            map.reach[*family as usize].rules(direction, *class).collect::<Vec<_>>()
        });
        Exposed {
            workload,
            direction,
            protected: sorts.iter().any(subject),
            outside,
            caveats: caveats::of(map.snapshot, rules),
            pods: self.pods(direction, &sorts, workload, cells),
        }
    }

    /// The sorts of a workload's pods. The rules are the same over both families, but for addresses: a pod is asked over
    /// the first that it has.
    fn sorts(&self, workload: usize, direction: Direction) -> Vec<Sort> {
        let of = |pod: usize| {
            let class = |family: Family| {
                let reach = &self.map.reach[family as usize];
                let class = reach.class(Who::Pod(pod))?;
                Some((family, reach.row_number(direction, class), class))
            };
            class(Family::V4).or_else(|| class(Family::V6))
        };
        let pods = self.map.workloads[workload].pods.iter();
        let mut sorts: Vec<Sort> =
            pods.filter_map(|pod| of(*pod)).collect::<BTreeSet<_>>().into_iter().collect();
        sorts.dedup_by_key(|(family, row, _)| (*family, *row));
        sorts
    }

    fn pods(&mut self, direction: Direction, sorts: &[Sort], workload: usize, cells: &mut Cells) -> Answer {
        // Whoever runs nowhere meets nobody.
        if sorts.is_empty() {
            return Ok(Vec::new());
        }
        let namespace = self.map.workloads[workload].name.namespace.to_string();
        // Classes with the same rules say the same: which of them was met first is no part of the question.
        let asked = sorts.iter().map(|(family, row, _)| (*family, *row, 0)).collect();
        let key = (direction, asked, namespace);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let answer = self.work_out(direction, sorts, &key.2, cells);
        self.known.insert(key, answer.clone());
        answer
    }

    fn work_out(
        &mut self,
        direction: Direction,
        sorts: &[Sort],
        namespace: &str,
        cells: &mut Cells,
    ) -> Answer {
        let map = self.map;
        let place = self.space.place(namespace);
        let mut sets: Vec<&PodSet> = Vec::new();
        let mut known: HashMap<&PodSet, usize> = HashMap::new();
        let mut named: BTreeMap<RuleAt, Vec<usize>> = BTreeMap::new();
        for (family, _, class) in sorts {
            for rule in map.reach[*family as usize].rules(direction, *class) {
                if named.contains_key(&rule) {
                    continue;
                }
                let own = selections(map.snapshot, rule);
                let places = own.into_iter().map(|set| {
                    *known.entry(set).or_insert_with(|| {
                        sets.push(set);
                        sets.len() - 1
                    })
                });
                named.insert(rule, places.collect());
            }
        }
        cells.work().take(sets.len() as u64 * (RULE + NAMESPACE * map.snapshot.namespaces().len() as u64));
        let predicates: Vec<Predicate> = sets.iter().map(|set| self.space.predicate(set, place)).collect();
        let predicates: Vec<&Predicate> = predicates.iter().collect();
        // What is not decided yet is kept, with what it says of every label.
        let most = MOST_SIGNATURES.min((MOST_KEPT / predicates.len().max(1)).max(LEAST_SIGNATURES));
        let signatures = self.space.signatures_within(&predicates, most, &mut self.steps)?;
        // Words for them are looked for among all of both.
        let looked =
            (signatures.len().saturating_mul(signatures.len()) / 64).saturating_mul(predicates.len());
        if looked > MOST_LOOKED {
            return Err(TooMany::Signatures);
        }
        cells.work().take(LOOKED * looked as u64);
        let mut gets = Vec::with_capacity(signatures.len());
        for signature in &signatures {
            if cells.work().is_spent() {
                return Err(TooMany::Steps);
            }
            let names = |rule: RuleAt| {
                named.get(&rule).is_some_and(|sets| sets.iter().any(|set| signature.members.has(*set)))
            };
            let each = sorts.iter().map(|(family, _, class)| {
                let cell = map.reach[*family as usize].supposed(direction, *class, names, cells);
                cells.get(cell).allow
            });
            let each: Vec<TrafficId> = each.collect();
            let some = each.iter().fold(Traffics::EMPTY, |some, own| cells.traffics.union(some, *own));
            gets.push((some, each.iter().all(|own| *own == some)));
        }
        let described = describe_groups(&predicates, &signatures, |at| gets[at]);
        let newcomers = |((gets_this, uniform), who): ((TrafficId, bool), Description<'_>)| {
            let one = gets.iter().position(|gets| *gets == (gets_this, uniform))?;
            let example = signatures[one].witness.clone();
            Some(Newcomers { who: who.to_string(), example, gets: gets_this, uniform })
        };
        let mut told: Vec<Newcomers> = described.into_iter().filter_map(newcomers).collect();
        // Whoever gets nothing is whoever is left, where nobody else is.
        if let Some(at) = described_last(&told) {
            let last = told.remove(at);
            told.push(Newcomers { who: Description::Others.to_string(), ..last });
        }
        Ok(told)
    }
}

/// Those who get nothing, where others get something and nobody is called the others yet.
fn described_last(told: &[Newcomers]) -> Option<usize> {
    let others = Description::Others.to_string();
    let named = told.iter().any(|one| one.who == others);
    let nothing = told.iter().position(|one| one.gets == Traffics::EMPTY);
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
                    GroupMember::Pods(set) if !set.external => Some(set),
                    _ => None,
                }));
            }
            _ => {}
        }
    }
    sets
}
