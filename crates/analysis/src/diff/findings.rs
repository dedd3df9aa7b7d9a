//! Findings of a diff: opened and closed traffic, with the rules that decide before and after.
//!
//! A change of one rule often changes hundreds of pairs. Pairs with the same traffic and the same deciders are one finding, so
//! that a reviewer reads as many lines as there are decisions.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use palisade_model::address::Family;
use palisade_model::diagnostic::Location;
use palisade_model::policy::{Action, Direction, Object, Policy};
use smol_str::SmolStr;

use super::{ChangeFilter, Diff, DiffPeer, TrafficChange};
use crate::map;
use crate::map::reasons::{DecidedBy, TrafficReason};
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;
use crate::reach::traffics::{TrafficId, Traffics};

/// Pairs that open or close for the same traffic and the same deciders.
#[derive(Debug, Clone)]
pub struct DiffFinding {
    /// Whether the traffic opens; else it closes.
    pub opens: bool,
    /// Traffic that opens or closes.
    pub part: TrafficId,
    /// Deciders before.
    pub before: Vec<SideDecision>,
    /// Deciders after.
    pub after: Vec<SideDecision>,
    /// Sources and destinations.
    pub pairs: Vec<(DiffPeer, DiffPeer)>,
}

/// A decision on one side of a connection.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SideDecision {
    /// Side: egress of the source, or ingress of the destination.
    pub direction: Direction,
    /// Action on the traffic.
    pub action: Action,
    /// What decided.
    pub by: DecisionSource,
}

/// What decided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecisionSource {
    /// A rule.
    Rule {
        /// Policy of the rule.
        policy: Arc<Object>,
        /// Index in the policy.
        index: u32,
        /// Name of the rule.
        name: Option<SmolStr>,
        /// Location of the rule.
        at: Option<Location>,
    },
    /// Policies that isolate the endpoint, none of which allows the traffic.
    Isolation(Vec<Arc<Object>>),
    /// No policy decides: allowed by default, or policies do not apply.
    Nobody,
    /// The workload does not exist on this side.
    Absent,
}

/// All findings of a diff, with counts.
#[derive(Debug, Default)]
pub struct DiffFindings {
    /// Findings, the most important first.
    pub list: Vec<DiffFinding>,
    /// Number of pairs for which traffic opens.
    pub opened: usize,
    /// Number of pairs for which traffic closes.
    pub closed: usize,
    /// Number of pairs that are counted above and not in `list`, because there are too many.
    pub left_out: usize,
    /// Number of workloads, or of nodes and single pods, that were not compared, because a limit was reached.
    pub unseen: usize,
}

/// Work to keep a pair.
const PAIR_WORK: u64 = 500;
/// Work to count a pair.
const COUNT_WORK: u64 = 400;
/// Work of each policy listed for a pair.
const NAME_WORK: u64 = 400;

/// Identity of a finding.
type FindingKey = (bool, TrafficId, Vec<SideDecision>, Vec<SideDecision>);

/// Maximum number of pairs kept.
const MAX_PAIRS: usize = 200_000;

// === impl DiffFindings ===

impl DiffFindings {
    /// Collects the findings of a diff.
    pub fn of(diff: &Diff<'_>, filter: &ChangeFilter, cuts: &Cuts, cells: &mut Cells) -> Self {
        let mut findings = DiffFindings::default();
        let mut at: HashMap<FindingKey, usize> = HashMap::new();
        let mut deciders = DeciderLookup::new(diff, cuts);
        let mut kept = 0;
        let streamed = diff.changes(filter, cuts, cells, |cells, change| {
            cells.work().take(COUNT_WORK);
            if cells.work().is_spent() {
                return ControlFlow::Break(());
            }
            for (opens, part) in parts(&change, cells) {
                *(if opens { &mut findings.opened } else { &mut findings.closed }) += 1;
                if kept >= MAX_PAIRS {
                    findings.left_out += 1;
                    continue;
                }
                kept += 1;
                cells.work().take(PAIR_WORK);
                let (before, after) = deciders.of(&change, opens, part, cells);
                let named = before.iter().chain(&after).map(SideDecision::weight).sum::<u64>();
                cells.work().take(NAME_WORK * named);
                let key = (opens, part, before, after);
                let pair = (change.source, change.destination);
                match at.get(&key) {
                    Some(place) => findings.list[*place].pairs.push(pair),
                    None => {
                        let (before, after) = (key.2.clone(), key.3.clone());
                        at.insert(key, findings.list.len());
                        findings.list.push(DiffFinding { opens, part, before, after, pairs: vec![pair] });
                    }
                }
            }
            ControlFlow::Continue(())
        });
        // If the consumer stopped, it is not known where.
        findings.unseen =
            streamed.continue_value().map_or(diff.workloads.len(), |streamed| streamed.left_out);
        // Opened traffic first, of that to the outside first; findings of added and removed workloads last.
        let outside =
            |pair: &(DiffPeer, DiffPeer)| matches!(pair, (DiffPeer::Range(..), _) | (_, DiffPeer::Range(..)));
        let absent = |finding: &DiffFinding| {
            finding.before.iter().chain(&finding.after).any(|one| one.by == DecisionSource::Absent)
        };
        findings
            .list
            .sort_by_key(|finding| (absent(finding), !finding.opens, !finding.pairs.iter().any(outside)));
        findings
    }
}

impl DiffFindings {
    /// Collects the findings of a diff that may not use IPv6: IPv6 is added to the filter only if it has changes that IPv4 has
    /// not.
    pub fn of_either_family(
        diff: &Diff<'_>,
        filter: &mut ChangeFilter,
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> Self {
        let findings = DiffFindings::of(diff, filter, cuts, cells);
        if filter.families.contains(&Family::V6) || findings.unseen > 0 {
            return findings;
        }
        let six = ChangeFilter { families: vec![Family::V6], ..filter.clone() };
        let others = DiffFindings::of(diff, &six, cuts, cells);
        if !others.exceeds(&findings, cells) {
            return DiffFindings { unseen: others.unseen, ..findings };
        }
        filter.families.push(Family::V6);
        DiffFindings::of(diff, filter, cuts, cells)
    }

    /// Whether some traffic with the outside opens or closes that does not in `other`, the findings of another family.
    fn exceeds(&self, other: &DiffFindings, cells: &mut Cells) -> bool {
        let (own, other) = (self.outside(cells), other.outside(cells));
        own.into_iter().any(|(about, part)| {
            let known = other.get(&about).copied().unwrap_or(Traffics::EMPTY);
            cells.traffics.difference(part, known) != Traffics::EMPTY
        })
    }

    /// Returns the opened and closed traffic with the outside, by workload and direction.
    fn outside(&self, cells: &mut Cells) -> BTreeMap<(DiffPeer, bool, bool), TrafficId> {
        let mut all = BTreeMap::new();
        for finding in &self.list {
            for pair in &finding.pairs {
                let about = match pair {
                    (DiffPeer::Range(..), own) => (*own, false, finding.opens),
                    (own, DiffPeer::Range(..)) => (*own, true, finding.opens),
                    _ => continue,
                };
                let known = all.entry(about).or_insert(Traffics::EMPTY);
                *known = cells.traffics.union(*known, finding.part);
            }
        }
        all
    }
}

/// Returns the opened (`true`) and the closed traffic of a change, over either family.
pub fn parts(change: &TrafficChange, cells: &mut Cells) -> Vec<(bool, TrafficId)> {
    let over = |entry: &map::PairTraffic| [entry.allowed, entry.other.unwrap_or(entry.allowed)];
    let (before, after) = (over(&change.before), over(&change.after));
    let mut part = |more: [TrafficId; 2], less: [TrafficId; 2]| {
        let over = [0, 1].map(|family| cells.traffics.difference(more[family], less[family]));
        cells.traffics.union(over[0], over[1])
    };
    let (opened, closed) = (part(after, before), part(before, after));
    let found = [(true, opened), (false, closed)];
    found.into_iter().filter(|(_, part)| *part != Traffics::EMPTY).collect()
}

/// Identity of a lookup: kinds of both ends or the ends, whether traffic opens, and the traffic.
type DeciderKey = (DeciderEnd, DeciderEnd, bool, TrafficId);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum DeciderEnd {
    Kind(u32),
    DiffPeer(DiffPeer),
}

/// Lookup of the deciders of changes, with a cache.
#[derive(Debug)]
pub struct DeciderLookup<'d, 's> {
    diff: &'d Diff<'s>,
    cuts: &'d Cuts,
    known: HashMap<DeciderKey, (Vec<SideDecision>, Vec<SideDecision>)>,
}

// === impl SideDecision ===

impl SideDecision {
    /// Returns the number of policies.
    fn weight(&self) -> u64 {
        match &self.by {
            DecisionSource::Isolation(by) => by.len() as u64,
            _ => 1,
        }
    }
}

// === impl DeciderLookup ===

impl<'d, 's> DeciderLookup<'d, 's> {
    /// Creates a lookup with an empty cache.
    pub fn new(diff: &'d Diff<'s>, cuts: &'d Cuts) -> Self {
        DeciderLookup { diff, cuts, known: HashMap::new() }
    }

    /// Returns the deciders of a part of a change, before and after.
    pub fn of(
        &mut self,
        change: &TrafficChange,
        opens: bool,
        part: TrafficId,
        cells: &mut Cells,
    ) -> (Vec<SideDecision>, Vec<SideDecision>) {
        let end = |peer: DiffPeer| match peer {
            // Traffic to itself, and traffic that depends on nodes, is not that of the kind.
            DiffPeer::Workload(at) if change.source != change.destination && !self.diff.is_host(at) => {
                DeciderEnd::Kind(self.diff.kind(at))
            }
            peer => DeciderEnd::DiffPeer(peer),
        };
        let question = (end(change.source), end(change.destination), opens, part);
        if let Some(known) = self.known.get(&question) {
            return known.clone();
        }
        let why = |after: bool, cells: &mut Cells| -> Option<Vec<SideDecision>> {
            let map = if after { &self.diff.after } else { &self.diff.before };
            if let Some(pairs) = self.diff.outlier_pairs(change, after, self.cuts) {
                return Some(map.why_between(&pairs, part, cells).iter().filter_map(deciding).collect());
            }
            let (source, destination) =
                (self.end(change.source, after)?, self.end(change.destination, after)?);
            Some(map.why(source, destination, part, self.cuts, cells).iter().filter_map(deciding).collect())
        };
        let (before, after) = (why(false, cells), why(true, cells));
        let answer = relevant_deciders(before, after, opens);
        self.known.insert(question, answer.clone());
        answer
    }

    fn end(&self, peer: DiffPeer, after: bool) -> Option<map::MapPeer> {
        Some(match peer {
            DiffPeer::Workload(at) => {
                let pair = &self.diff.workloads[at];
                map::MapPeer::Workload(if after { pair.after? } else { pair.before? })
            }
            DiffPeer::Range(first, last) => map::MapPeer::Range(first, last),
            DiffPeer::IngressController => map::MapPeer::IngressController,
            DiffPeer::Outlier(_) => return None,
        })
    }
}

/// Selects the relevant deciders: those that refuse, and what allows on the same side of a connection afterwards or before.
fn relevant_deciders(
    before: Option<Vec<SideDecision>>,
    after: Option<Vec<SideDecision>>,
    opens: bool,
) -> (Vec<SideDecision>, Vec<SideDecision>) {
    let absent =
        |direction| vec![SideDecision { direction, action: Action::Deny, by: DecisionSource::Absent }];
    let (closed, open) = if opens { (before, after) } else { (after, before) };
    let (closed, open) = match (closed, open) {
        (Some(closed), Some(open)) => {
            let refused: Vec<SideDecision> =
                closed.into_iter().filter(|one| one.action != Action::Allow).collect();
            let sides: Vec<Direction> = refused.iter().map(|one| one.direction).collect();
            let open =
                open.into_iter().filter(|one| sides.contains(&one.direction) && one.action == Action::Allow);
            (refused, open.collect())
        }
        (Some(closed), None) => (closed, absent(Direction::Egress)),
        (None, open) => (absent(Direction::Egress), open.unwrap_or_default()),
    };
    if opens { (closed, open) } else { (open, closed) }
}

fn deciding(why: &TrafficReason<'_>) -> Option<SideDecision> {
    let (action, by) = match &why.decided {
        // Passed traffic is decided by a later rule.
        DecidedBy::Rule { action: Action::Pass, .. } => return None,
        DecidedBy::Rule { policy, rule, action } => {
            let at = rule.at.clone().or_else(|| policy.object.at.clone());
            let policy = Arc::clone(&policy.object);
            (*action, DecisionSource::Rule { policy, index: rule.index, name: rule.name.clone(), at })
        }
        DecidedBy::Isolated { by } => {
            let object = |policy: &&Policy| Arc::clone(&policy.object);
            (Action::Deny, DecisionSource::Isolation(by.iter().map(object).collect()))
        }
        _ => (Action::Allow, DecisionSource::Nobody),
    };
    Some(SideDecision { direction: why.direction, action, by })
}

/// Groups pairs by destination or by source, whichever gives fewer groups.
pub fn grouped(pairs: &[(DiffPeer, DiffPeer)]) -> Vec<(Vec<DiffPeer>, Vec<DiffPeer>)> {
    let mut by_destination: BTreeMap<DiffPeer, Vec<DiffPeer>> = BTreeMap::new();
    let mut by_source: BTreeMap<DiffPeer, Vec<DiffPeer>> = BTreeMap::new();
    for (source, destination) in pairs {
        by_destination.entry(*destination).or_default().push(*source);
        by_source.entry(*source).or_default().push(*destination);
    }
    // Ends with the same other ends form one group.
    let together = |by: BTreeMap<DiffPeer, Vec<DiffPeer>>| {
        let mut alike: Vec<(Vec<DiffPeer>, Vec<DiffPeer>)> = Vec::new();
        let mut at: HashMap<Vec<DiffPeer>, usize> = HashMap::new();
        for (end, mut others) in by {
            others.sort_unstable();
            match at.get(&others) {
                Some(place) => alike[*place].0.push(end),
                None => {
                    at.insert(others.clone(), alike.len());
                    alike.push((vec![end], others));
                }
            }
        }
        alike
    };
    let (to, from) = (together(by_destination), together(by_source));
    if from.len() <= to.len() {
        from
    } else {
        to.into_iter().map(|(destinations, sources)| (sources, destinations)).collect()
    }
}
