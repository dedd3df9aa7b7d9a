//! Exposure of workloads: traffic with pods that could exist, and with outside addresses.
//!
//! A map covers existing pods. A policy usually allows more: any pod with a label, in any namespace. For each workload the
//! pod sets of its rules' peers are split into all signatures that some pod could have ([`crate::space`]), and the pipeline
//! is run for each: exact for every possible combination of labels.
//!
//! Pods of a workload can differ (a rollout, a label set by hand). As in a map, traffic of some pods counts, and `uniform`
//! is `false` where others differ.
//!
//! Only the workload's own side is evaluated. The other side of a possible pod depends on more than its labels, and it has no
//! address yet: rules with addresses are part of the outside.

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

/// Exposure of a workload in one direction.
#[derive(Debug, Clone)]
pub struct WorkloadExposure {
    /// Index of the workload in the map.
    pub workload: usize,
    /// Ingress for accepted traffic, egress for sent traffic.
    pub direction: Direction,
    /// Whether any policy applies to any of its pods in this direction.
    pub protected: bool,
    /// Possible pods by traffic: every possible pod is in exactly one entry.
    pub pods: Result<Vec<PotentialPods>, TooMany>,
    /// Outside addresses with something allowed.
    pub outside: Vec<OutsideRange>,
    /// Caveats of its rules.
    pub caveats: Vec<Caveat>,
}

/// Possible pods that get the same traffic.
#[derive(Debug, Clone)]
pub struct PotentialPods {
    /// Description of their labels and namespaces.
    pub who: String,
    /// Example of such a pod.
    pub example: Witness,
    /// Traffic allowed by some pods of the workload.
    pub allowed: TrafficId,
    /// Whether all of its pods allow that.
    pub uniform: bool,
}

/// Outside addresses that get the same traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutsideRange {
    /// First address of the range.
    pub first: IpAddr,
    /// Last address of the range.
    pub last: IpAddr,
    /// Traffic allowed by some pods of the workload.
    pub allowed: TrafficId,
    /// Whether all of its pods allow that.
    pub uniform: bool,
}

/// Maximum number of signatures.
const MAX_SIGNATURES: usize = 4096;

/// Maximum number of 64-bit words of signatures compared for descriptions, for one workload.
const MAX_DESCRIBED: usize = 100_000_000;
/// Work of such a word.
const DESCRIPTION_WORK: u64 = 5;
/// Work of a rule of a workload.
const RULE_WORK: u64 = 500;
/// Work to check whether a set selects a namespace.
const NAMESPACE_WORK: u64 = 60;
/// Maximum number of solver steps, for all workloads together: some seconds.
const MAX_STEPS: u64 = 10_000_000;
/// Maximum number of labels kept for all signatures.
const MAX_KEPT: usize = 2_000_000;
/// Number of signatures that are distinguished in any case.
const MIN_SIGNATURES: usize = 256;

/// Result that workloads with the same rules share.
type PotentialPodsResult = Result<Vec<PotentialPods>, TooMany>;

/// Pods of a workload with the same rules: family, number of their row, and a class that has it.
type RuleSet = (Family, u32, u32);

/// Computation of exposure, with a cache shared by workloads.
#[derive(Debug)]
pub struct Exposure<'m, 's> {
    map: &'m Map<'s>,
    space: Space,
    /// Results by direction, rules of the pods, and namespace.
    known: HashMap<(Direction, Vec<RuleSet>, String), PotentialPodsResult>,
    /// Solver steps left, for all workloads together.
    steps: u64,
}

// === impl Exposure ===

impl<'m, 's> Exposure<'m, 's> {
    /// Creates the computation for a map.
    pub fn new(map: &'m Map<'s>) -> Self {
        Exposure { map, space: Space::new(map.snapshot), known: HashMap::new(), steps: MAX_STEPS }
    }

    /// Computes the exposure of a workload in one direction.
    pub fn of(
        &mut self,
        workload: usize,
        direction: Direction,
        families: &[Family],
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> WorkloadExposure {
        let map = self.map;
        let outside = families.iter().flat_map(|family| {
            let classes = map.kinds().classes(workload, *family);
            outside::of(&map.reach[*family as usize], direction, &classes, cuts, cells)
        });
        let outside = outside.collect();
        let rule_sets = self.rule_sets(workload, direction);
        let rule_count: usize = rule_sets
            .iter()
            .map(|(family, _, class)| map.reach[*family as usize].rules(direction, *class).count())
            .sum();
        cells.work().take(RULE_WORK * rule_count as u64);
        let subject =
            |(family, _, class): &RuleSet| map.reach[*family as usize].is_subject(direction, *class);
        let rules = rule_sets.iter().flat_map(|(family, _, class)| {
            map.reach[*family as usize].rules(direction, *class).collect::<Vec<_>>()
        });
        WorkloadExposure {
            workload,
            direction,
            protected: rule_sets.iter().any(subject),
            outside,
            caveats: caveats::of(map.snapshot, rules),
            pods: self.pods(direction, &rule_sets, workload, cells),
        }
    }

    /// Returns the distinct rules of a workload's pods. Rules are the same over both families, except for addresses: each
    /// pod counts over the first family it has.
    fn rule_sets(&self, workload: usize, direction: Direction) -> Vec<RuleSet> {
        let of = |pod: usize| {
            let class = |family: Family| {
                let reach = &self.map.reach[family as usize];
                let class = reach.class(Who::Pod(pod))?;
                Some((family, reach.row_number(direction, class), class))
            };
            class(Family::V4).or_else(|| class(Family::V6))
        };
        let pods = self.map.workloads[workload].pods.iter();
        let mut rule_sets: Vec<RuleSet> =
            pods.filter_map(|pod| of(*pod)).collect::<BTreeSet<_>>().into_iter().collect();
        rule_sets.dedup_by_key(|(family, row, _)| (*family, *row));
        rule_sets
    }

    fn pods(
        &mut self,
        direction: Direction,
        rule_sets: &[RuleSet],
        workload: usize,
        cells: &mut Cells,
    ) -> PotentialPodsResult {
        // Without pods there is no traffic.
        if rule_sets.is_empty() {
            return Ok(Vec::new());
        }
        let namespace = self.map.workloads[workload].name.namespace.to_string();
        // Classes with the same rules have the same exposure: the class is no part of the key.
        let rows = rule_sets.iter().map(|(family, row, _)| (*family, *row, 0)).collect();
        let key = (direction, rows, namespace);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let answer = self.compute(direction, rule_sets, &key.2, cells);
        self.known.insert(key, answer.clone());
        answer
    }

    fn compute(
        &mut self,
        direction: Direction,
        rule_sets: &[RuleSet],
        namespace: &str,
        cells: &mut Cells,
    ) -> PotentialPodsResult {
        let map = self.map;
        let namespace_index = self.space.namespace(namespace);
        let mut sets: Vec<&PodSet> = Vec::new();
        let mut known: HashMap<&PodSet, usize> = HashMap::new();
        let mut named: BTreeMap<RuleAt, Vec<usize>> = BTreeMap::new();
        for (family, _, class) in rule_sets {
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
        cells
            .work()
            .take(sets.len() as u64 * (RULE_WORK + NAMESPACE_WORK * map.snapshot.namespaces().len() as u64));
        let predicates: Vec<Predicate> =
            sets.iter().map(|set| self.space.predicate(set, namespace_index)).collect();
        let predicates: Vec<&Predicate> = predicates.iter().collect();
        // Pending signatures are kept with a value set for every label.
        let most = MAX_SIGNATURES.min((MAX_KEPT / predicates.len().max(1)).max(MIN_SIGNATURES));
        let signatures = self.space.signatures_within(&predicates, most, &mut self.steps)?;
        // Descriptions compare all predicates with all signatures.
        let looked =
            (signatures.len().saturating_mul(signatures.len()) / 64).saturating_mul(predicates.len());
        if looked > MAX_DESCRIBED {
            return Err(TooMany::Signatures);
        }
        cells.work().take(DESCRIPTION_WORK * looked as u64);
        let mut allowed = Vec::with_capacity(signatures.len());
        for signature in &signatures {
            if cells.work().is_spent() {
                return Err(TooMany::Steps);
            }
            let names = |rule: RuleAt| {
                named.get(&rule).is_some_and(|sets| sets.iter().any(|set| signature.members.has(*set)))
            };
            let each = rule_sets.iter().map(|(family, _, class)| {
                let cell =
                    map.reach[*family as usize].side_for_potential_peer(direction, *class, names, cells);
                cells.get(cell).allow
            });
            let each: Vec<TrafficId> = each.collect();
            let some = each.iter().fold(Traffics::EMPTY, |some, own| cells.traffics.union(some, *own));
            allowed.push((some, each.iter().all(|own| *own == some)));
        }
        let described = describe_groups(&predicates, &signatures, |at| allowed[at]);
        let newcomers = |((gets_this, uniform), who): ((TrafficId, bool), Description<'_>)| {
            let one = allowed.iter().position(|allowed| *allowed == (gets_this, uniform))?;
            let example = signatures[one].witness.clone();
            Some(PotentialPods { who: who.to_string(), example, allowed: gets_this, uniform })
        };
        let mut pods_by_traffic: Vec<PotentialPods> = described.into_iter().filter_map(newcomers).collect();
        // Pods that get nothing are called the others, unless other pods are.
        if let Some(at) = described_last(&pods_by_traffic) {
            let last = pods_by_traffic.remove(at);
            pods_by_traffic.push(PotentialPods { who: Description::Others.to_string(), ..last });
        }
        Ok(pods_by_traffic)
    }
}

/// Returns the index of the pods that get nothing, where others get something and none is called the others yet.
fn described_last(pods_by_traffic: &[PotentialPods]) -> Option<usize> {
    let others = Description::Others.to_string();
    let named = pods_by_traffic.iter().any(|one| one.who == others);
    let nothing = pods_by_traffic.iter().position(|one| one.allowed == Traffics::EMPTY);
    nothing.filter(|_| pods_by_traffic.len() > 1 && !named)
}

/// Returns the pod sets among a rule's peers.
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
