//! Lists of rules: which exist, which endpoints use them, and the classes of their peers.
//!
//! A list has the rules of an endpoint in one direction. Endpoints with the same rules share it, and lists with rules of the same
//! shape share their peer classes, so both count their users and are removed with the last one. Peers change far more often than
//! rules, so an address is moved to its class ([`Compiler::place`]) without writing chains again ([`Compiler::render`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::delta::{CompiledRule as ViewRule, RuleId, SetId};
use palisade_engine::selection::{SetDigest, SetKind};
use palisade_flatten::{
    Budget, ClassId, Digest, Layer7Support, PeerClasses, PeerSets, RuleDigests, RuleList, SharedCondition,
    shared_conditions,
};
use palisade_model::address::Family;
use palisade_model::policy::Direction;

use super::FAMILIES;
use super::compiler::Compiler;
use super::index::address_key;
use super::names;
use super::shared_sets::SharedSet;
use crate::program::{Name, Verdict};

mod closed;
mod render;
#[cfg(test)]
mod tests;

/// A list of rules that some endpoints of the node use.
#[derive(Debug)]
pub(super) struct CompiledList {
    list: Arc<RuleList>,
    /// The service to which all connections go, if the list is for one.
    via: Option<SetId>,
    /// Conditions that are looked up by themselves.
    shared: Vec<SharedCondition>,
    /// Classes of the peers that these do not find, if there can be any.
    classes: Option<Digest>,
    /// The chain of each class.
    chains: BTreeMap<ClassId, Name>,
    /// Lists for connections to services.
    services: Vec<(SetId, Name)>,
    users: usize,
    /// Steps that the list took.
    cost: u64,
    /// Steps that its chains took.
    chain_cost: u64,
    /// Steps that were available, if they were not enough. The list has no rules then, and denies everything.
    closed_with: Option<u64>,
}

/// Peer classes of all lists with rules of one shape.
#[derive(Debug)]
pub(super) struct ListClasses {
    pub(super) peers: PeerClasses,
    digest: Digest,
    pub(super) lists: BTreeSet<Name>,
    /// Classes that chains have a rule for, by family: also those that have become empty, until the next tidying.
    pub(super) shown: BTreeSet<(Family, ClassId)>,
    /// Steps that the classes took.
    cost: u64,
}

/// A rule with its digests.
pub(super) type DigestedRule = (RuleDigests, Arc<ViewRule>);

/// Steps to find a rule that applies to an endpoint, and to sort it among the others.
const FOUND: u64 = 400;
/// Steps to make a rule part of a list, which keeps about 300 bytes of it.
const LISTED: u64 = 3_000;
/// Steps for each set of peers that a rule names.
const NAMED: u64 = 500;
/// Steps to compare a set with another, for the few conditions that are looked up by themselves.
const COMPARED: u64 = 100;
/// A list gets one of this many parts of the budget that is left.
const PART: u64 = 2;

// === impl Compiler ===

impl Compiler {
    /// Returns whether some rule applies to an endpoint in these sets.
    pub(super) fn has_rules(&self, subjects: &BTreeSet<SetId>, direction: Direction) -> bool {
        let mut ids = subjects.iter().flat_map(|set| self.view.rule_ids_of(*set));
        ids.any(|id| self.view.rules().get(&id).is_some_and(|rule| rule.directions.contains(direction)))
    }

    /// Returns the rules that apply to an endpoint in these sets, in the order of evaluation.
    pub(super) fn rules(&mut self, subjects: &BTreeSet<SetId>, direction: Direction) -> Vec<DigestedRule> {
        let ids = subjects.iter().flat_map(|set| self.view.rule_ids_of(*set));
        let rules = ids.filter_map(|id| Some((id, self.view.rules().get(&id)?)));
        let rules = rules.filter(|(_, rule)| rule.directions.contains(direction));
        let rules: Vec<(RuleId, Arc<ViewRule>)> = rules.map(|(id, rule)| (id, Arc::clone(rule))).collect();
        self.budget.take(FOUND * rules.len() as u64);
        let mut digested: Vec<DigestedRule> = Vec::with_capacity(rules.len());
        for (id, rule) in rules {
            digested.push((self.digests.of(&self.view, id, &rule), rule));
        }
        // Rows of one rule have the same effect: their order matters for the name of the chain only.
        let view = &self.view;
        digested.sort_by(|(digests, rule), (other_digests, other)| {
            view.compare(rule, other).then_with(|| digests.whole.cmp(&other_digests.whole))
        });
        digested
    }

    /// Finds or compiles the list of some rules. Returns the name of its chain; `None` without rules.
    pub(super) fn list(&mut self, rules: &[DigestedRule], direction: Direction) -> Option<Name> {
        if rules.is_empty() {
            return None;
        }
        let digest = Digest::of_list(rules.iter().map(|(digests, _)| digests.whole));
        let name = names::list_chain(direction, digest, None);
        if let Some(listed) = self.lists.get_mut(&name) {
            listed.users += 1;
            return Some(name);
        }
        let mut budget = self.budget.share(PART);
        let granted = budget.left();
        budget.take(list_cost(rules));
        if budget.is_spent() {
            let message = closed::too_much(&self.view, rules.iter().map(|(_, rule)| &**rule), direction);
            return Some(self.close(name, direction, granted, message));
        }
        let own = rules.iter().map(|(_, rule)| Arc::clone(rule)).collect();
        // Conditions on layer 7 cannot be checked in a packet filter.
        let list = Arc::new(RuleList::new(own, direction, Layer7Support::None));
        let shared = shared_conditions(&list, &self.view);
        let shapes = Digest::of_list(rules.iter().map(|(digests, _)| digests.shape));
        let cost = granted - budget.left();
        let sets = PeerSets::new(list, shared, &self.view);
        self.insert(name.clone(), &sets, shapes, None, (budget, cost));
        let kind = |set: &SetId| self.view.sets().get(set).map(|set| set.selection.kind());
        let is_service = |set: &SetId| kind(set) == Some(SetKind::Service);
        let services: Vec<SetId> = sets.list.sets().filter(is_service).collect();
        let services =
            services.into_iter().map(|set| (set, self.service_list(digest, &sets, shapes, set))).collect();
        if let Some(listed) = self.lists.get_mut(&name) {
            listed.services = services;
        }
        Some(name)
    }

    /// Finds or compiles the list of the same rules for connections to a service.
    fn service_list(&mut self, list: Digest, sets: &PeerSets, shapes: Digest, service: SetId) -> Name {
        let direction = sets.list.direction();
        let name = names::list_chain(direction, list, self.set_digest(service));
        if let Some(listed) = self.lists.get_mut(&name) {
            listed.users += 1;
            return name;
        }
        if self.budget.is_spent() {
            return self.closed_list(direction);
        }
        let mut budget = self.budget.share(PART);
        budget.take(LISTED);
        self.insert(name.clone(), sets, shapes, Some(service), (budget, LISTED));
        name
    }

    /// Adds a list, and the classes of its peers as far as the rest of its budget lasts.
    fn insert(
        &mut self,
        name: Name,
        sets: &PeerSets,
        shapes: Digest,
        via: Option<SetId>,
        (mut budget, cost): (Budget, u64),
    ) {
        let granted = budget.left().saturating_add(cost);
        self.share(&sets.shared, &sets.list, &name);
        let classes = self.list_classes(sets, shapes, &name, via, &mut budget);
        let is_spent = |own: &Digest| self.classes.get(own).is_some_and(|classes| classes.peers.is_spent());
        let closed_with = classes.filter(is_spent).map(|_| granted);
        self.budget.put_back(budget);
        self.used += cost;
        let listed = CompiledList {
            list: Arc::clone(&sets.list),
            via,
            shared: sets.shared.clone(),
            classes,
            chains: BTreeMap::new(),
            services: Vec::new(),
            users: 1,
            cost,
            chain_cost: 0,
            closed_with,
        };
        self.stale.insert(name.clone());
        self.lists.insert(name, listed);
    }

    fn set_digest(&self, set: SetId) -> Option<SetDigest> {
        self.view.sets().get(&set).map(|set| set.selection.digest())
    }

    /// Notes that a list looks up conditions by themselves.
    fn share(&mut self, conditions: &[SharedCondition], list: &RuleList, name: &Name) {
        for one in conditions {
            let shared = self.shared.entry(one.digest).or_insert_with(|| {
                let sets = list.sets_of(one.condition).to_vec();
                for set in &sets {
                    self.by_set.entry(*set).or_default().insert(one.digest);
                }
                self.fresh.insert(one.digest);
                SharedSet { sets, shown: BTreeSet::new(), lists: BTreeSet::new() }
            });
            shared.lists.insert(name.clone());
        }
    }

    /// Finds or makes the classes of the peers that shared conditions do not find; `None` if they find all.
    fn list_classes(
        &mut self,
        sets: &PeerSets,
        shapes: Digest,
        name: &Name,
        via: Option<SetId>,
        budget: &mut Budget,
    ) -> Option<Digest> {
        let PeerSets { list, shared, blocks, members } = sets;
        let all_shared = list.conditions().len() == shared.len() && shared.len() <= 1 && via.is_none();
        if all_shared && blocks.is_empty() {
            return None;
        }
        let via_digest = via.and_then(|via| self.set_digest(via));
        let digest = names::peer_classes(list.direction(), shapes, via_digest);
        let classes = self.classes.entry(digest).or_insert_with(|| {
            let granted = budget.left();
            let peers = PeerClasses::new(sets, via, &self.view, &self.index.peers, budget);
            for set in members {
                budget.take(NAMED);
                self.by_set.entry(*set).or_default().insert(digest);
            }
            // Incomplete classes keep nothing.
            let cost = if peers.is_spent() { 0 } else { granted - budget.left() };
            self.used += cost;
            self.fresh.insert(digest);
            ListClasses { peers, digest, lists: BTreeSet::new(), shown: BTreeSet::new(), cost }
        });
        classes.lists.insert(name.clone());
        Some(digest)
    }

    /// Releases a list for one of its users, and removes it with the last one.
    pub(super) fn release_list(&mut self, name: &Name) {
        let Some(listed) = self.lists.get_mut(name) else { return };
        listed.users -= 1;
        if listed.users > 0 {
            return;
        }
        let Some(listed) = self.lists.remove(name) else { return };
        self.used -= listed.cost + listed.chain_cost;
        self.stale.remove(name);
        self.closed.remove(name);
        // The chain itself is removed when nothing leads to it any more.
        self.structural = true;
        for (_, service) in listed.services {
            self.release_list(&service);
        }
        for one in &listed.shared {
            let Some(shared) = self.shared.get_mut(&one.digest) else { continue };
            shared.lists.remove(name);
            if shared.lists.is_empty()
                && let Some(shared) = self.shared.remove(&one.digest)
            {
                self.forget(one.digest, shared.sets.into_iter());
            }
        }
        let Some(digest) = listed.classes else { return };
        let Some(classes) = self.classes.get_mut(&digest) else { return };
        classes.lists.remove(name);
        if classes.lists.is_empty() {
            self.used -= classes.cost;
            self.classes.remove(&digest);
            self.forget(digest, listed.list.sets());
        }
    }

    /// Removes a shared set, or classes, from the sets they distinguished peers by.
    fn forget(&mut self, own: Digest, sets: impl Iterator<Item = SetId>) {
        for set in sets {
            if let Some(digests) = self.by_set.get_mut(&set) {
                digests.remove(&own);
                if digests.is_empty() {
                    self.by_set.remove(&set);
                }
            }
        }
    }

    /// Returns the lists with chains for connections to a service.
    pub(super) fn lists_to(&self, service: SetId) -> Vec<Name> {
        let own = self.lists.iter();
        own.filter(|(_, listed)| listed.services.iter().any(|(set, _)| *set == service))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Moves an address to the shared sets and classes it belongs to, after it joined or left a set.
    pub(super) fn place(&mut self, set: SetId, address: IpAddr) {
        let family = Family::of(address);
        for own in self.by_set.get(&set).into_iter().flatten() {
            if let Some(shared) = self.shared.get_mut(own) {
                let is_member = self.index.peers.sets_of(address).any(|set| shared.sets.contains(&set));
                let set = names::shared_set(*own, family);
                match is_member {
                    true => self.edit.put(&set, address_key(address), None),
                    false => self.edit.take(&set, &address_key(address)),
                }
                if is_member && shared.shown.insert(family) {
                    self.stale.extend(shared.lists.iter().cloned());
                }
            }
            let Some(classes) = self.classes.get_mut(own) else { continue };
            let Some((before, now)) = classes.peers.place(address, &self.index.peers) else { continue };
            let key = address_key(address);
            if let Some(before) = before {
                self.edit.take(&classes.set(family, before), &key);
            }
            if let Some(now) = now {
                self.edit.put(&classes.set(family, now), key.clone(), None);
                if classes.shown.insert((family, now)) {
                    self.stale.extend(classes.lists.iter().cloned());
                }
            }
            for name in &classes.lists {
                let to = now.and_then(|now| self.lists.get(name)?.chains.get(&now));
                let map = names::peer_map(name, family);
                match to {
                    Some(to) => self.edit.put(&map, key.clone(), Some(Verdict::Goto(to.clone()))),
                    None => self.edit.take(&map, &key),
                }
            }
        }
    }

    /// Hides classes and shared sets that have become empty, and shows those that have members.
    pub(super) fn tidy_peers(&mut self) {
        for classes in self.classes.values_mut() {
            let occupied = classes.peers.occupied();
            if occupied != classes.shown {
                classes.shown = occupied;
                self.stale.extend(classes.lists.iter().cloned());
            }
        }
        for (digest, shared) in &mut self.shared {
            let sets = &self.edit.program().sets;
            let fresh = self.fresh.contains(digest);
            let has_members = |family: &Family| match sets.get(&names::shared_set(*digest, *family)) {
                Some(set) if !fresh => !set.elements.is_empty(),
                _ => !shared.elements(&self.view, *family).is_empty(),
            };
            let shown: BTreeSet<Family> = FAMILIES.into_iter().filter(has_members).collect();
            if shown != shared.shown {
                shared.shown = shown;
                self.stale.extend(shared.lists.iter().cloned());
            }
        }
    }
}

// === impl ListClasses ===

impl ListClasses {
    /// Returns the name of the kernel set of a class.
    pub(super) fn set(&self, family: Family, class: ClassId) -> Name {
        // Classes exist for as long as their list does.
        let class = self.peers.get(class).map_or(self.digest, |class| class.digest);
        names::class_set(self.digest, family, class)
    }

    /// Returns the classes of a family that chains have a rule for.
    fn shown(&self, family: Family) -> impl Iterator<Item = ClassId> {
        self.shown.iter().filter(move |(own, _)| *own == family).map(|(_, class)| *class)
    }
}

/// Returns the steps to make a list of rules, and to compare shared conditions with all others.
fn list_cost(rules: &[DigestedRule]) -> u64 {
    let sets = rules.iter().map(|(_, rule)| rule.peers.as_ref().map_or(0, |sets| sets.len() as u64));
    let (all, most) = sets.fold((0_u64, 0), |(all, most), sets| (all + sets, most.max(sets)));
    let compared = all.saturating_mul(most).saturating_mul(COMPARED);
    compared.saturating_add(LISTED * rules.len() as u64 + NAMED * all)
}
