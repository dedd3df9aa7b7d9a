//! Changes as somebody reads them: what opens and what closes, for whom, and because of which rules.
//!
//! A change of one rule is often a change of hundreds of pairs. Pairs that open or close for the same traffic and the same
//! reason are one finding, so that a reviewer reads as many lines as there are decisions.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use palisade_model::address::Family;
use palisade_model::diagnostic::Location;
use palisade_model::policy::{Action, Direction, Object, Policy};
use smol_str::SmolStr;

use super::{Change, Diff, Peer, Select};
use crate::map;
use crate::map::why::{Decided, Why};
use crate::reach::cells::Cells;
use crate::reach::cuts::Cuts;
use crate::reach::traffics::{TrafficId, Traffics};

/// Pairs that open or close alike.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Whether it opens.
    pub opens: bool,
    /// What of the traffic.
    pub part: TrafficId,
    /// Who decided before.
    pub before: Vec<Deciding>,
    /// Who decides after.
    pub after: Vec<Deciding>,
    /// Who is concerned: source and destination.
    pub pairs: Vec<(Peer, Peer)>,
}

/// Who decided, on which side.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Deciding {
    /// Whose side: egress of the source, or ingress of the destination.
    pub direction: Direction,
    /// What was done.
    pub action: Action,
    /// Who did it.
    pub by: By,
}

/// Who decides.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum By {
    /// A rule.
    Rule {
        /// Its policy.
        policy: Arc<Object>,
        /// Its place in the policy.
        index: u32,
        /// Its name.
        name: Option<SmolStr>,
        /// Where it is written.
        at: Option<Location>,
    },
    /// Policies that isolate, none of which allows it.
    Isolation(Vec<Arc<Object>>),
    /// No policy has anything to say, or none can have.
    Nobody,
    /// The workload is not there.
    Absent,
}

/// All findings, and how much there is of them.
#[derive(Debug, Default)]
pub struct Findings {
    /// What opens and closes: what is worth a look first.
    pub list: Vec<Finding>,
    /// Pairs that something opens for.
    pub opened: usize,
    /// Pairs that something closes for.
    pub closed: usize,
    /// Whether there were more pairs than are kept: counted, and not among the findings.
    pub left_out: usize,
    /// Workloads, or nodes and single pods, that were not compared: telling stopped there, because it was too much work.
    pub unseen: usize,
}

/// Steps to keep a pair, and to count one.
const PAIR: u64 = 500;
const COUNTED: u64 = 400;
/// Steps for each policy that is named for a pair.
const NAMED: u64 = 400;

/// What makes pairs one finding.
type Key = (bool, TrafficId, Vec<Deciding>, Vec<Deciding>);

/// How many pairs are kept.
const MOST_PAIRS: usize = 200_000;

// === impl Findings ===

impl Findings {
    /// Of a diff.
    pub fn of(diff: &Diff<'_>, select: &Select, cuts: &Cuts, cells: &mut Cells) -> Self {
        let mut findings = Findings::default();
        let mut at: HashMap<Key, usize> = HashMap::new();
        let mut deciders = Deciders::new(diff, cuts);
        let mut kept = 0;
        let told = diff.changes(select, cuts, cells, |cells, change| {
            cells.work().take(COUNTED);
            if cells.work().is_spent() {
                return ControlFlow::Break(());
            }
            for (opens, part) in parts(&change, cells) {
                *(if opens { &mut findings.opened } else { &mut findings.closed }) += 1;
                if kept >= MOST_PAIRS {
                    findings.left_out += 1;
                    continue;
                }
                kept += 1;
                cells.work().take(PAIR);
                let (before, after) = deciders.of(&change, opens, part, cells);
                let named = before.iter().chain(&after).map(Deciding::weight).sum::<u64>();
                cells.work().take(NAMED * named);
                let key = (opens, part, before, after);
                let pair = (change.source, change.destination);
                match at.get(&key) {
                    Some(place) => findings.list[*place].pairs.push(pair),
                    None => {
                        let (before, after) = (key.2.clone(), key.3.clone());
                        at.insert(key, findings.list.len());
                        findings.list.push(Finding { opens, part, before, after, pairs: vec![pair] });
                    }
                }
            }
            ControlFlow::Continue(())
        });
        // Who was the last that was looked at is not known then.
        findings.unseen = told.continue_value().map_or(diff.workloads.len(), |told| told.left_out);
        // What opens is read first, and of that what opens to the outside; what only comes or goes with its workload, last.
        let outside = |pair: &(Peer, Peer)| matches!(pair, (Peer::Range(..), _) | (_, Peer::Range(..)));
        let absent =
            |finding: &Finding| finding.before.iter().chain(&finding.after).any(|one| one.by == By::Absent);
        findings
            .list
            .sort_by_key(|finding| (absent(finding), !finding.opens, !finding.pairs.iter().any(outside)));
        findings
    }
}

impl Findings {
    /// Of a diff in which nobody need speak of IPv6: what changes there is what changes for IPv4, and told, and added to what
    /// is selected, only where it is more than that.
    pub fn of_either_family(diff: &Diff<'_>, select: &mut Select, cuts: &Cuts, cells: &mut Cells) -> Self {
        let findings = Findings::of(diff, select, cuts, cells);
        if select.families.contains(&Family::V6) || findings.unseen > 0 {
            return findings;
        }
        let six = Select { families: vec![Family::V6], ..select.clone() };
        let others = Findings::of(diff, &six, cuts, cells);
        if !others.exceeds(&findings, cells) {
            return Findings { unseen: others.unseen, ..findings };
        }
        select.families.push(Family::V6);
        Findings::of(diff, select, cuts, cells)
    }

    /// Whether something opens or closes between a workload and the outside that does not in other findings: findings of one
    /// family are compared with those of another.
    fn exceeds(&self, other: &Findings, cells: &mut Cells) -> bool {
        let (own, other) = (self.outside(cells), other.outside(cells));
        own.into_iter().any(|(about, part)| {
            let known = other.get(&about).copied().unwrap_or(Traffics::EMPTY);
            cells.traffics.difference(part, known) != Traffics::EMPTY
        })
    }

    /// What opens or closes for each workload, outward or inward.
    fn outside(&self, cells: &mut Cells) -> BTreeMap<(Peer, bool, bool), TrafficId> {
        let mut all = BTreeMap::new();
        for finding in &self.list {
            for pair in &finding.pairs {
                let about = match pair {
                    (Peer::Range(..), own) => (*own, false, finding.opens),
                    (own, Peer::Range(..)) => (*own, true, finding.opens),
                    _ => continue,
                };
                let known = all.entry(about).or_insert(Traffics::EMPTY);
                *known = cells.traffics.union(*known, finding.part);
            }
        }
        all
    }
}

/// What of a change opens, and what closes, over either family.
pub fn parts(change: &Change, cells: &mut Cells) -> Vec<(bool, TrafficId)> {
    let over = |entry: &map::Entry| [entry.allowed, entry.other.unwrap_or(entry.allowed)];
    let (before, after) = (over(&change.before), over(&change.after));
    let mut part = |more: [TrafficId; 2], less: [TrafficId; 2]| {
        let over = [0, 1].map(|family| cells.traffics.difference(more[family], less[family]));
        cells.traffics.union(over[0], over[1])
    };
    let (opened, closed) = (part(after, before), part(before, after));
    let found = [(true, opened), (false, closed)];
    found.into_iter().filter(|(_, part)| *part != Traffics::EMPTY).collect()
}

/// What a change is about, so that the same is asked once: kinds of both ends, or a range.
type Question = (End, End, bool, TrafficId);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum End {
    Kind(u32),
    Peer(Peer),
}

/// Looks up who decided, each thing once.
#[derive(Debug)]
pub struct Deciders<'d, 's> {
    diff: &'d Diff<'s>,
    cuts: &'d Cuts,
    known: HashMap<Question, (Vec<Deciding>, Vec<Deciding>)>,
}

// === impl Deciding ===

impl Deciding {
    /// How many policies it names.
    fn weight(&self) -> u64 {
        match &self.by {
            By::Isolation(by) => by.len() as u64,
            _ => 1,
        }
    }
}

// === impl Deciders ===

impl<'d, 's> Deciders<'d, 's> {
    /// Of a diff.
    pub fn new(diff: &'d Diff<'s>, cuts: &'d Cuts) -> Self {
        Deciders { diff, cuts, known: HashMap::new() }
    }

    /// Who decided about a part of a change before, and who after.
    pub fn of(
        &mut self,
        change: &Change,
        opens: bool,
        part: TrafficId,
        cells: &mut Cells,
    ) -> (Vec<Deciding>, Vec<Deciding>) {
        let end = |peer: Peer| match peer {
            // A workload and itself, or one on nodes, is not what its kind is.
            Peer::Workload(at) if change.source != change.destination && !self.diff.is_host(at) => {
                End::Kind(self.diff.kind(at))
            }
            peer => End::Peer(peer),
        };
        let question = (end(change.source), end(change.destination), opens, part);
        if let Some(known) = self.known.get(&question) {
            return known.clone();
        }
        let why = |after: bool, cells: &mut Cells| -> Option<Vec<Deciding>> {
            let map = if after { &self.diff.after } else { &self.diff.before };
            if let Some(pairs) = self.diff.spot_pairs(change, after, self.cuts) {
                return Some(map.why_between(&pairs, part, cells).iter().filter_map(deciding).collect());
            }
            let (source, destination) =
                (self.end(change.source, after)?, self.end(change.destination, after)?);
            Some(map.why(source, destination, part, self.cuts, cells).iter().filter_map(deciding).collect())
        };
        let (before, after) = (why(false, cells), why(true, cells));
        let answer = told(before, after, opens);
        self.known.insert(question, answer.clone());
        answer
    }

    fn end(&self, peer: Peer, after: bool) -> Option<map::Peer> {
        Some(match peer {
            Peer::Workload(at) => {
                let pair = &self.diff.workloads[at];
                map::Peer::Workload(if after { pair.after? } else { pair.before? })
            }
            Peer::Range(first, last) => map::Peer::Range(first, last),
            Peer::IngressController => map::Peer::IngressController,
            Peer::Outlier(_) => return None,
        })
    }
}

/// Who is worth telling: whoever refuses, and what has become of that side on the other.
fn told(
    before: Option<Vec<Deciding>>,
    after: Option<Vec<Deciding>>,
    opens: bool,
) -> (Vec<Deciding>, Vec<Deciding>) {
    let absent = |direction| vec![Deciding { direction, action: Action::Deny, by: By::Absent }];
    let (closed, open) = if opens { (before, after) } else { (after, before) };
    let (closed, open) = match (closed, open) {
        (Some(closed), Some(open)) => {
            let refused: Vec<Deciding> =
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

fn deciding(why: &Why<'_>) -> Option<Deciding> {
    let (action, by) = match &why.decided {
        // What passes, others decide.
        Decided::Rule { action: Action::Pass, .. } => return None,
        Decided::Rule { policy, rule, action } => {
            let at = rule.at.clone().or_else(|| policy.object.at.clone());
            let policy = Arc::clone(&policy.object);
            (*action, By::Rule { policy, index: rule.index, name: rule.name.clone(), at })
        }
        Decided::Isolated { by } => {
            let object = |policy: &&Policy| Arc::clone(&policy.object);
            (Action::Deny, By::Isolation(by.iter().map(object).collect()))
        }
        _ => (Action::Allow, By::Nobody),
    };
    Some(Deciding { direction: why.direction, action, by })
}

/// Sources by destination, or destinations by source, whichever is shorter to tell.
pub fn grouped(pairs: &[(Peer, Peer)]) -> Vec<(Vec<Peer>, Vec<Peer>)> {
    let mut by_destination: BTreeMap<Peer, Vec<Peer>> = BTreeMap::new();
    let mut by_source: BTreeMap<Peer, Vec<Peer>> = BTreeMap::new();
    for (source, destination) in pairs {
        by_destination.entry(*destination).or_default().push(*source);
        by_source.entry(*source).or_default().push(*destination);
    }
    // Ends that have the same others are told together.
    let together = |by: BTreeMap<Peer, Vec<Peer>>| {
        let mut alike: Vec<(Vec<Peer>, Vec<Peer>)> = Vec::new();
        let mut at: HashMap<Vec<Peer>, usize> = HashMap::new();
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
