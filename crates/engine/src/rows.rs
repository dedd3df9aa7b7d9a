//! Rows: rules as they are handed on, each for one subject, with everything looked up. They stand at their subject's set, in
//! the order in which they are asked.

use std::cmp::Ordering;
use std::num::NonZeroU32;

use palisade_model::policy::Object;
use palisade_model::resolve::Rank;
use palisade_model::snapshot::Stage;
use palisade_model::traffic::Protocol;

use crate::Engine;
use crate::arena::Arena;
use crate::delta::{Directions, RuleEffect};
use crate::endpoints::number;
use crate::id::{PolicyId, RuleId, SetId};
use crate::sets::count;
use crate::shapes::Few;

/// All rows.
pub(crate) type Rows = Arena<RowEntry, RuleId>;

/// A row, and where it is listed.
#[derive(Debug)]
pub(crate) struct RowEntry {
    pub(crate) row: Row,
    /// Its index in [`crate::sets::Set::allows`]; unused for rows that are not listed there.
    place: u32,
    /// How many made it: two subjects of a rule with relative peers may come to the same.
    makers: u32,
}

/// A row. What it carries is with the policy's rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) policy: PolicyId,
    /// The rule's index among those of its direction in the policy; `None` for an isolation.
    pub(crate) rule: Option<RuleIndex>,
    /// Which edition of what the rule carries.
    pub(crate) edition: u32,
    pub(crate) subject: SetId,
    pub(crate) peers: PeerSets,
    /// A set that must hold the receiver of the connection, too.
    pub(crate) destination: Option<SetId>,
    /// Which of the rule's named ports it is for, and what that stands for.
    pub(crate) port: Option<(u32, Protocol, u16)>,
    /// Whether it comes from a rule with relative peers, and may come from it twice.
    pub(crate) shared: bool,
    pub(crate) effect: RuleEffect,
    pub(crate) directions: Directions,
    pub(crate) rank: Rank,
}

/// What the rows of one rule, or of one isolation, have in common: everything but the sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pattern {
    pub(crate) policy: PolicyId,
    pub(crate) rule: Option<RuleIndex>,
    pub(crate) edition: u32,
    pub(crate) effect: RuleEffect,
    pub(crate) directions: Directions,
    pub(crate) rank: Rank,
}

/// The index of a rule among those of its direction in a policy. Kept from 1, so that `Option` takes no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RuleIndex(NonZeroU32);

/// Who must be at the other end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PeerSets {
    /// Anybody.
    Any,
    /// Who is in this set.
    One(SetId),
    /// Who is in any of these.
    Of(Box<[SetId]>),
}

// === impl Pattern ===

impl Pattern {
    /// Returns the row for a subject and the peers at the other end.
    pub(crate) fn row(self, subject: SetId, peers: PeerSets) -> Row {
        let Pattern { policy, rule, edition, effect, directions, rank } = self;
        Row {
            policy,
            rule,
            edition,
            subject,
            peers,
            destination: None,
            port: None,
            shared: false,
            effect,
            directions,
            rank,
        }
    }
}

// === impl RuleIndex ===

impl RuleIndex {
    pub(crate) fn new(index: u32) -> Self {
        RuleIndex(NonZeroU32::MIN.saturating_add(index))
    }

    pub(crate) fn get(self) -> u32 {
        self.0.get() - 1
    }
}

// === impl PeerSets ===

impl PeerSets {
    pub(crate) fn as_slice(&self) -> &[SetId] {
        match self {
            PeerSets::Any => &[],
            PeerSets::One(set) => std::slice::from_ref(set),
            PeerSets::Of(sets) => sets,
        }
    }
}

impl FromIterator<SetId> for PeerSets {
    fn from_iter<I: IntoIterator<Item = SetId>>(sets: I) -> Self {
        let mut sets: Vec<SetId> = sets.into_iter().collect();
        sets.sort_unstable();
        sets.dedup();
        match sets.as_slice() {
            [one] => PeerSets::One(*one),
            _ => PeerSets::Of(sets.into()),
        }
    }
}

// === impl Row ===

impl Row {
    /// The sets at its other end.
    pub(crate) fn named(&self) -> impl Iterator<Item = SetId> {
        self.peers.as_slice().iter().copied().chain(self.destination)
    }
}

impl Engine {
    /// Adds a row, or takes one back that was about to go. The sets it names are taken by it.
    pub(crate) fn add_row(&mut self, row: Row) -> RuleId {
        if let Some(id) = self.pending.condemned.remove(&row) {
            if row.shared {
                self.shared_rows.insert(row, id);
            }
            self.attach(id);
            return id;
        }
        if row.shared
            && let Some(id) = self.shared_rows.get(&row)
        {
            self.rows[*id].makers += 1;
            return *id;
        }
        let (subject, policy) = (row.subject, row.policy);
        let named: Few<SetId> = row.named().collect();
        let shared = row.shared.then(|| row.clone());
        let id = self.rows.insert(RowEntry { row, place: 0, makers: 1 });
        if let Some(row) = shared {
            self.shared_rows.insert(row, id);
        }
        self.pending.rows.push(id);
        self.see(subject, 1);
        self.sets.sets[subject].applied += 1;
        if self.sets.sets[subject].applied == 1 {
            self.start_span(subject);
        }
        for set in named {
            self.see(set, 1);
            self.name_set(subject, set, 1);
        }
        self.policies.applies(&mut self.sets, policy, subject, 1);
        self.attach(id);
        id
    }

    /// Puts a row where it is asked.
    fn attach(&mut self, id: RuleId) {
        let row = &self.rows[id].row;
        let (subject, directions) = (row.subject, row.directions);
        match (row.effect, row.rank.stage) {
            (RuleEffect::Isolate, _) => self.sets.sets[subject].isolate(directions, 1),
            (_, Stage::NetworkPolicy) => {
                let allows = &mut self.sets.sets[subject].allows;
                allows.push(id);
                self.rows[id].place = number(allows.len() - 1);
            }
            _ => {
                let before = |other: &RuleId| self.compare_rows(*other, id) == Ordering::Less;
                let at = self.sets.sets[subject].ranked.partition_point(before);
                self.sets.sets[subject].ranked.insert(at, id);
            }
        }
    }

    /// A row is not asked any more. It is still there, and goes with the event unless it is added again.
    pub(crate) fn condemn_row(&mut self, id: RuleId) {
        if self.rows[id].makers > 1 {
            self.rows[id].makers -= 1;
            return;
        }
        let row = &self.rows[id].row;
        if row.shared {
            self.shared_rows.remove(row);
        }
        let (subject, directions) = (row.subject, row.directions);
        match (row.effect, row.rank.stage) {
            (RuleEffect::Isolate, _) => self.sets.sets[subject].isolate(directions, -1),
            (_, Stage::NetworkPolicy) => {
                let place = self.rows[id].place;
                let set = &mut self.sets.sets[subject];
                set.allows.swap_remove(place as usize);
                if let Some(moved) = set.allows.get(place as usize) {
                    self.rows[*moved].place = place;
                }
            }
            _ => {
                let before = |other: &RuleId| self.compare_rows(*other, id) == Ordering::Less;
                let first = self.sets.sets[subject].ranked.partition_point(before);
                let ranked = &mut self.sets.sets[subject].ranked;
                if let Some(at) = ranked[first..].iter().position(|other| *other == id) {
                    ranked.remove(first + at);
                }
            }
        }
        self.pending.condemned.insert(self.rows[id].row.clone(), id);
    }

    /// The row goes; its number stays taken until the event is told.
    pub(crate) fn drop_row(&mut self, row: &Row) {
        self.policies.applies(&mut self.sets, row.policy, row.subject, -1);
        for set in row.named() {
            self.name_set(row.subject, set, -1);
            self.see(set, -1);
        }
        self.sets.sets[row.subject].applied -= 1;
        if self.sets.sets[row.subject].applied == 0 {
            self.end_span(row.subject);
        }
        self.see(row.subject, -1);
    }

    /// A row uses a set, or does not any more.
    fn see(&mut self, id: SetId, by: i32) {
        let set = &mut self.sets.sets[id];
        let before = set.seen;
        set.seen = before.saturating_add_signed(by);
        if (before == 0) != (set.seen == 0) {
            self.pending.note_set(id, before > 0);
        }
        self.use_set(id, by);
    }

    /// A row that applies to a subject names a set, or does not any more.
    fn name_set(&mut self, subject: SetId, set: SetId, by: i32) {
        let (before, after) = count(&mut self.sets.sets[subject].named, set, by);
        if (before == 0) != (after == 0) {
            let nodes = self.sets.sets[subject].nodes.clone();
            for (node, _) in nodes {
                self.need_addresses(set, node, by);
            }
        }
    }

    /// Which of two rows is asked first.
    pub(crate) fn compare_rows(&self, one: RuleId, other: RuleId) -> Ordering {
        self.compare(&self.rows[one].row, &self.rows[other].row)
    }

    pub(crate) fn compare(&self, one: &Row, other: &Row) -> Ordering {
        let object = |row: &Row| -> &Object { self.policies.object(row.policy) };
        (one.directions, one.rank)
            .cmp(&(other.directions, other.rank))
            .then_with(|| object(one).cmp(object(other)))
            .then_with(|| one.rule.cmp(&other.rule))
    }
}
