//! What an event has changed so far, and how that becomes a delta.
//!
//! Whoever changes something notes here how it was; what it is, is asked when the event is over. So what changed and
//! changed back is no change, and whatever else the event did in between is seen by nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::Engine;
use crate::delta::{Change, Delta, Member, MemberKind, Members, Moved, Need, Part};
use crate::endpoints::{Class, Endpoints, PodEntry};
use crate::hosts::HostId;
use crate::id::{Id, PolicyId, RuleId, SetId};
use crate::rows::Row;
use crate::selection::Content;
use crate::services::ServiceEntry;
use crate::shapes::Few;
use crate::spans::Location;

/// What an event has changed so far.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Policies that are there or have another origin, and those that are gone.
    pub(crate) policies: Vec<PolicyId>,
    pub(crate) gone: Vec<PolicyId>,
    /// Sets that rows started or ceased to name, and whether they were seen before.
    sets: Vec<(SetId, bool)>,
    /// Sets that nobody used at some moment.
    pub(crate) idle: Vec<SetId>,
    /// Rows that are new, and those that go unless they are added again.
    pub(crate) rows: Vec<RuleId>,
    pub(crate) condemned: BTreeMap<Row, RuleId>,
    touched: Vec<Touched>,
    addresses: BTreeMap<IpAddr, BTreeMap<SetId, i32>>,
    needs: Vec<Needed>,
    pub(crate) idle_hosts: Vec<HostId>,
}

/// A set, what of it, a node, and whether it needs that now (1) or not any more (-1).
type Needed = (SetId, Part, Location, i32);

/// Somebody who may be in other sets than before.
#[derive(Debug)]
struct Touched {
    before: Option<(Members, Few<SetId>)>,
    now: Place,
}

/// Where somebody is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// A pod.
    Pod(Id<PodEntry>),
    /// All pods of a class.
    Class(Id<Class>),
    /// A node.
    Host(HostId),
    /// A service.
    Service(Id<ServiceEntry>),
    /// Gone.
    Nowhere,
}

// === impl Pending ===

impl Pending {
    /// Notes how somebody was.
    pub(crate) fn touch(&mut self, before: Option<(Arc<Member>, Few<SetId>)>, now: Place) {
        let before = before.map(|(member, sets)| (Members::from_buf([member]), sets));
        self.touched.push(Touched { before, now });
    }

    /// Notes how the pods of a class were.
    pub(crate) fn touch_class(&mut self, endpoints: &Endpoints, class: Id<Class>) {
        let found = &endpoints.classes[class];
        let members = found.pods.iter().map(|pod| Arc::clone(&endpoints.pods[*pod].member)).collect();
        self.touched
            .push(Touched { before: Some((members, found.holders().collect())), now: Place::Class(class) });
    }

    /// Notes whether a set was seen before the event.
    pub(crate) fn note_set(&mut self, set: SetId, was_seen: bool) {
        if let Err(at) = self.sets.binary_search_by_key(&set, |(other, _)| *other) {
            self.sets.insert(at, (set, was_seen));
        }
    }

    fn was_seen(&self, set: SetId) -> Option<bool> {
        let at = self.sets.binary_search_by_key(&set, |(other, _)| *other).ok()?;
        Some(self.sets[at].1)
    }

    /// Whether nothing has changed, but for members who may have moved.
    fn is_quiet(&self) -> bool {
        self.policies.is_empty()
            && self.gone.is_empty()
            && self.sets.is_empty()
            && self.idle.is_empty()
            && self.rows.is_empty()
            && self.condemned.is_empty()
            && self.addresses.is_empty()
            && self.needs.is_empty()
            && self.idle_hosts.is_empty()
    }

    /// Ready for the next event, with the memory of this one.
    fn clear(&mut self) {
        self.policies.clear();
        self.sets.clear();
        self.rows.clear();
        self.touched.clear();
        self.addresses.clear();
        self.needs.clear();
    }

    pub(crate) fn move_address(&mut self, set: SetId, address: IpAddr, by: i32) {
        *self.addresses.entry(address).or_default().entry(set).or_insert(0) += by;
    }

    pub(crate) fn need(&mut self, set: SetId, part: Part, location: Location, by: i32) {
        self.needs.push((set, part, location, by));
    }
}

impl Engine {
    /// The event is over: what it changed, in order.
    pub(crate) fn conclude(&mut self) -> Delta {
        if self.pending.is_quiet() {
            let moved = self.moved();
            self.pending.touched.clear();
            let changes = if moved.is_empty() { Vec::new() } else { vec![Change::MembersMoved(moved)] };
            self.epoch += u64::from(!changes.is_empty());
            return Delta { epoch: self.epoch, changes };
        }
        let (mut removed, mut passing) = (self.drop_condemned(), Vec::new());
        if !removed.is_empty() && !self.pending.rows.is_empty() {
            // What came and went with the same event was never there.
            let came: BTreeSet<RuleId> = self.pending.rows.iter().copied().collect();
            (passing, removed) = removed.into_iter().partition(|row| came.contains(row));
            let gone: BTreeSet<RuleId> = passing.iter().copied().collect();
            self.pending.rows.retain(|row| !gone.contains(row));
        }
        let mut needs = std::mem::take(&mut self.pending.needs);
        self.sum_needs(&mut needs);
        self.pending.needs = needs;
        let mut rows = std::mem::take(&mut self.pending.rows);
        self.sort_rows(&mut rows);
        self.pending.rows = rows;
        let changes = self.changes(&removed);
        removed.append(&mut passing);
        self.free(&removed);
        self.pending.clear();
        if !changes.is_empty() {
            self.epoch += 1;
        }
        Delta { epoch: self.epoch, changes }
    }

    fn changes(&self, removed: &[RuleId]) -> Vec<Change> {
        let pending = &self.pending;
        let moved = self.moved();
        let most = pending.policies.len()
            + pending.sets.len()
            + pending.rows.len()
            + pending.needs.len()
            + usize::from(!moved.is_empty())
            + removed.len()
            + pending.gone.len();
        let mut changes = Vec::with_capacity(most);
        for policy in &pending.policies {
            changes.push(Change::PolicyApplied(*policy, Arc::clone(self.policies.origin(*policy))));
        }
        if !pending.sets.is_empty() {
            let mut moving: SmallVec<[Place; 2]> =
                pending.touched.iter().map(|touched| touched.now).collect();
            moving.sort_unstable();
            for (set, was_seen) in &pending.sets {
                if !was_seen && self.sets.sets[*set].seen > 0 {
                    let selection = Arc::clone(&self.sets.sets[*set].selection);
                    changes.push(Change::SetAdded(*set, selection, self.members(*set, &moving)));
                }
            }
        }
        for row in &pending.rows {
            changes.push(Change::RuleAdded(*row, Arc::new(self.rule_of(*row))));
        }
        let need = |(set, part, at, _): &Needed| Need { set: *set, part: *part, node: self.node_name(*at) };
        changes.extend(pending.needs.iter().filter(|(.., by)| *by > 0).map(need).map(Change::NeedAdded));
        if !moved.is_empty() {
            changes.push(Change::MembersMoved(moved));
        }
        changes.extend(pending.needs.iter().filter(|(.., by)| *by < 0).map(need).map(Change::NeedRemoved));
        changes.extend(removed.iter().rev().map(|row| Change::RuleRemoved(*row)));
        for (set, was_seen) in &pending.sets {
            if *was_seen && self.sets.sets[*set].seen == 0 {
                changes.push(Change::SetRemoved(*set));
            }
        }
        changes.extend(pending.gone.iter().map(|policy| Change::PolicyRemoved(*policy)));
        changes
    }

    /// Rows that nobody added again go: which, in order.
    fn drop_condemned(&mut self) -> Vec<RuleId> {
        if self.pending.condemned.is_empty() {
            return Vec::new();
        }
        let condemned = std::mem::take(&mut self.pending.condemned);
        // From the end, where the lists of sets that rows name are shortened quickest.
        for row in condemned.keys().rev() {
            self.drop_row(row);
        }
        let mut removed: Vec<RuleId> = condemned.into_values().collect();
        self.sort_rows(&mut removed);
        removed
    }

    /// In the order in which they come: stage by stage, in the NetworkPolicy stage what allows before what isolates.
    fn sort_rows(&self, rows: &mut [RuleId]) {
        if rows.len() > 1 {
            let turn = |row: &Row| row.effect.turn(row.rank);
            rows.sort_by(|one, other| {
                let (one, other) = (&self.rows[*one].row, &self.rows[*other].row);
                turn(one).cmp(&turn(other)).then_with(|| self.compare(one, other))
            });
        }
    }

    /// The members of a set.
    pub(crate) fn members_of(&self, set: SetId) -> Vec<Arc<Member>> {
        self.members(set, &[])
    }

    /// The members of a set that is new, but for those who are about to move.
    fn members(&self, set: SetId, moving: &[Place]) -> Vec<Arc<Member>> {
        let still = |place: Place| moving.is_empty() || moving.binary_search(&place).is_err();
        match &self.sets.sets[set].selection.content {
            Content::Pods(..) => {
                let classes = self.sets.sets[set].classes.iter().filter(|class| still(Place::Class(**class)));
                let pods = classes.flat_map(|class| &self.endpoints.classes[*class].pods);
                let pods = pods.filter(|pod| still(Place::Pod(**pod)));
                pods.map(|pod| Arc::clone(&self.endpoints.pods[*pod].member)).collect()
            }
            Content::Nodes(_) => {
                let hosts = self.hosts.holding(set).filter(|host| still(Place::Host(*host)));
                hosts.filter_map(|host| self.hosts.member(host)).map(Arc::clone).collect()
            }
            Content::Names(_) => {
                let coming = |address: &IpAddr| {
                    self.pending.addresses.get(address).is_some_and(|sets| sets.get(&set).copied() > Some(0))
                };
                let addresses = self.names.addresses(set).filter(|address| !coming(address));
                addresses.map(|address| Arc::new(Member::from(address))).collect()
            }
            Content::Service(name) => {
                let service = self.services.reachable(name).filter(|at| still(Place::Service(*at)));
                service.and_then(|at| self.services.member(at)).map(Arc::clone).into_iter().collect()
            }
            Content::Addresses(_) => Vec::new(),
        }
    }

    fn moved(&self) -> Vec<Moved> {
        let pending = &self.pending;
        let mut all = Vec::new();
        let is_seen = |set: &SetId| self.sets.sets[*set].seen > 0;
        let was_seen = |set: &SetId| pending.was_seen(*set).unwrap_or_else(|| is_seen(set));
        for touched in &pending.touched {
            let mut joined = self.sets_at(touched.now);
            joined.retain(|set| is_seen(set));
            let (old, before) = match &touched.before {
                Some((old, before)) => (old.as_slice(), before.iter().copied().filter(was_seen).collect()),
                None => (&[][..], Few::new()),
            };
            if joined.is_empty() && before.is_empty() {
                continue;
            }
            let members = self.members_at(touched.now);
            if old == members.as_slice() {
                let difference = |all: &Few<SetId>, without: &Few<SetId>| -> Few<SetId> {
                    all.iter().copied().filter(|set| without.binary_search(set).is_err()).collect()
                };
                let (joined, left) = (difference(&joined, &before), difference(&before, &joined));
                all.push(Moved { members, joined, left });
            } else {
                all.push(Moved { members: old.into(), joined: Few::new(), left: before });
                all.push(Moved { members, joined, left: Few::new() });
            }
        }
        for (address, sets) in &pending.addresses {
            let joined = sets.iter().filter(|(set, by)| **by > 0 && is_seen(set));
            let left = sets.iter().filter(|(set, by)| **by < 0 && was_seen(set));
            let (joined, left) = (joined.map(|(set, _)| *set).collect(), left.map(|(set, _)| *set).collect());
            let members = Members::from_buf([Arc::new(Member::from(*address))]);
            all.push(Moved { members, joined, left });
        }
        all.retain(|moved| !(moved.members.is_empty() || moved.joined.is_empty() && moved.left.is_empty()));
        all
    }

    /// Who is at a place.
    fn members_at(&self, place: Place) -> Members {
        match place {
            Place::Pod(pod) => Members::from_buf([Arc::clone(&self.endpoints.pods[pod].member)]),
            Place::Class(class) => {
                let pods = self.endpoints.classes[class].pods.iter();
                pods.map(|pod| Arc::clone(&self.endpoints.pods[*pod].member)).collect()
            }
            Place::Host(host) => self.hosts.member(host).cloned().into_iter().collect(),
            Place::Service(at) => self.services.member(at).cloned().into_iter().collect(),
            Place::Nowhere => Members::new(),
        }
    }

    /// The sets that hold whoever is at a place, sorted.
    fn sets_at(&self, place: Place) -> Few<SetId> {
        match place {
            Place::Pod(pod) => {
                let class = self.endpoints.class_of(pod);
                class.map(|class| class.holders().collect()).unwrap_or_default()
            }
            Place::Class(class) => self.endpoints.classes[class].holders().collect(),
            Place::Host(host) => self.hosts.sets(host).into(),
            Place::Service(at) => self.services.sets(at).into(),
            Place::Nowhere => Few::new(),
        }
    }

    /// Leaves of the needs what has changed in the end, sorted.
    fn sum_needs(&self, needs: &mut Vec<Needed>) {
        needs.sort_unstable();
        needs.dedup_by(|next, sum| {
            let same = (next.0, next.1, next.2) == (sum.0, sum.1, sum.2);
            if same {
                sum.3 += next.3;
            }
            same
        });
        // Whoever has lost the set has lost the need.
        needs.retain(|(set, _, _, by)| *by != 0 && self.sets.sets[*set].seen > 0);
    }

    /// Returns the node's name; `None` stands for all of them.
    pub(crate) fn node_name(&self, location: Location) -> Option<SmolStr> {
        match location {
            Location::Node(host) => Some(self.hosts.name(host).cloned().unwrap_or_default()),
            Location::Everywhere => None,
        }
    }

    /// Numbers that the event took out of use may be given again from now on.
    fn free(&mut self, removed: &[RuleId]) {
        for row in removed {
            self.rows.remove(*row);
        }
        while let Some(set) = self.pending.idle.pop() {
            if self.sets.sets.get(set).is_some_and(|set| set.uses == 0) {
                self.empty_set(set);
                if let Content::Pods(pods, port) = &self.sets.sets[set].selection.content {
                    self.endpoints.shapes.ask_no_more(pods, port.as_ref());
                }
                self.sets.remove(set);
            }
        }
        while let Some(policy) = self.pending.gone.pop() {
            self.policies.forget(policy);
        }
        while let Some(host) = self.pending.idle_hosts.pop() {
            self.hosts.forget(host);
        }
    }
}

// === impl Member ===

impl From<IpAddr> for Member {
    fn from(address: IpAddr) -> Self {
        Member {
            kind: MemberKind::Address,
            namespace: SmolStr::default(),
            name: SmolStr::default(),
            addresses: SmallVec::from_buf([address]),
            node: None,
        }
    }
}
