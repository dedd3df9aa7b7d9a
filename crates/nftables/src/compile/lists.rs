//! Lists of rules: which there are, who needs them, and where their peers are kept.
//!
//! A list is what applies to somebody in one direction. Many of the node's own have the same one, and lists that are about the same
//! peers share how these are told apart, so both count their users: what nobody needs goes, and is not asked about sets any more. Who is a
//! peer changes far more often than which rules there are, so an address is put where it belongs ([`Live::place`]) without its
//! chains being made again ([`Live::render`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::delta::{CompiledRule as ViewRule, RuleId, SetId};
use palisade_engine::selection::SetKind;
use palisade_model::address::Family;
use palisade_model::policy::Direction;

use super::FAMILIES;
use super::budget::Budget;
use super::classify::{Class, Classifier, Parts, address_key};
use super::decide::List;
use super::layers::{self, Everybody, Layer};
use super::live::Live;
use super::names::{Said, digest, hashed};
use crate::program::{Name, Verdict};

mod render;
#[cfg(test)]
mod tests;

/// A list of rules that some of the node's own need.
#[derive(Debug)]
pub(super) struct Listed {
    list: Arc<List>,
    /// The service that everybody goes to, if it is for that.
    via: Option<SetId>,
    /// The conditions that are looked up by themselves.
    layers: Vec<Layer>,
    /// How it tells others apart, if it does.
    classifier: Option<Name>,
    /// The chains of classes.
    chains: BTreeMap<Class, Name>,
    /// The lists for what goes to services.
    services: Vec<(SetId, Name)>,
    /// How many need it.
    users: usize,
    /// Steps that it took to make the list, and its chains.
    cost: u64,
    rendered: u64,
    /// Set if the list could not be made: the steps that there were for it. It has no rules then, and denies everything.
    closed_with: Option<u64>,
}

/// How peers are told apart, and for which lists.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) classifier: Classifier,
    pub(super) lists: BTreeSet<Name>,
    /// Steps that it took to make it.
    cost: u64,
}

/// Steps to find a rule that applies to an endpoint, and to put it in its place among the others.
const FOUND: u64 = 400;
/// Steps to make a rule part of a list, which keeps some 300 bytes of it, and for each set of peers that it names.
const LISTED: u64 = 3_000;
const NAMED: u64 = 500;
/// Steps to compare a set with another, for the few conditions that are looked up by themselves.
const COMPARED: u64 = 100;
/// A list gets this part of what is left.
const PART: u64 = 2;

// === impl Live ===

impl Live {
    /// Whether some rule applies to somebody in these sets.
    pub(super) fn has_rules(&self, subjects: &BTreeSet<SetId>, direction: Direction) -> bool {
        let mut ids = subjects.iter().flat_map(|set| self.view.rule_ids_of(*set));
        ids.any(|id| self.view.rules().get(&id).is_some_and(|rule| rule.directions.contains(direction)))
    }

    /// The rules that apply to somebody in these sets, in their order.
    pub(super) fn rules(
        &mut self,
        subjects: &BTreeSet<SetId>,
        direction: Direction,
    ) -> Vec<(Said, Arc<ViewRule>)> {
        let ids = subjects.iter().flat_map(|set| self.view.rule_ids_of(*set));
        let rules = ids.filter_map(|id| Some((id, self.view.rules().get(&id)?)));
        let rules = rules.filter(|(_, rule)| rule.directions.contains(direction));
        let rules: Vec<(RuleId, Arc<ViewRule>)> = rules.map(|(id, rule)| (id, Arc::clone(rule))).collect();
        self.budget.take(FOUND * rules.len() as u64);
        let mut said: Vec<(Said, Arc<ViewRule>)> = Vec::with_capacity(rules.len());
        for (id, rule) in rules {
            said.push((self.names.rule(&self.view, id, &rule), rule));
        }
        // Rows of one rule are alike in what they do; their order is only for the name of the chain.
        let view = &self.view;
        said.sort_by(|(one_said, one), (other_said, other)| {
            view.compare(one, other).then_with(|| one_said.whole.cmp(&other_said.whole))
        });
        said
    }

    /// The chain of a list of rules, found or made; none if it has nothing to say.
    pub(super) fn list(&mut self, rules: &[(Said, Arc<ViewRule>)], direction: Direction) -> Option<Name> {
        if rules.is_empty() {
            return None;
        }
        let whole: Vec<&Name> = rules.iter().map(|(said, _)| &said.whole).collect();
        // Through no service.
        let name = hashed(prefix(direction), &format!("{whole:?} None"));
        if let Some(listed) = self.lists.get_mut(&name) {
            listed.users += 1;
            return Some(name);
        }
        let mut budget = self.budget.share(PART);
        let granted = budget.left();
        budget.take(listing(rules));
        if budget.is_spent() {
            let message = render::too_much(&self.view, rules.iter().map(|(_, rule)| &**rule), direction);
            return Some(self.close(name, direction, granted, message));
        }
        let list = Arc::new(List::new(rules.iter().map(|(_, rule)| Arc::clone(rule)).collect(), direction));
        let layers = self.layers(&list);
        let shapes: Vec<&Name> = rules.iter().map(|(said, _)| &said.shape).collect();
        let shapes = digest(&format!("{shapes:?}"));
        let cost = granted - budget.left();
        let parts = Parts::new(list, layers, shapes, &self.view);
        self.insert(name.clone(), &parts, None, (budget, cost));
        let kind = |set: &SetId| self.view.sets().get(set).map(|set| set.selection.kind());
        let is_service = |set: &SetId| kind(set) == Some(SetKind::Service);
        let services: Vec<SetId> = parts.list.named().filter(is_service).collect();
        let services = services.into_iter().map(|set| (set, self.list_to(&name, &parts, set))).collect();
        if let Some(listed) = self.lists.get_mut(&name) {
            listed.services = services;
        }
        Some(name)
    }

    /// The list of the same rules for what goes to a service, found or made.
    fn list_to(&mut self, of: &Name, parts: &Parts, service: SetId) -> Name {
        let direction = parts.list.direction;
        let name = hashed(prefix(direction), &format!("{of} {:?}", self.names.set(&self.view, service)));
        if let Some(listed) = self.lists.get_mut(&name) {
            listed.users += 1;
            return name;
        }
        if self.budget.is_spent() {
            return self.closed_list(direction);
        }
        let mut budget = self.budget.share(PART);
        budget.take(LISTED);
        self.insert(name.clone(), parts, Some(service), (budget, LISTED));
        name
    }

    /// Keeps a list that is made, and tells peers apart for it as far as the rest of its budget lasts.
    fn insert(&mut self, name: Name, parts: &Parts, via: Option<SetId>, (mut budget, cost): (Budget, u64)) {
        let granted = budget.left().saturating_add(cost);
        self.look_up(&parts.layers, &parts.list, &name);
        let classifier = self.classifier(parts, &name, via, &mut budget);
        let is_spent =
            |own: &Name| self.classifiers.get(own).is_some_and(|shared| shared.classifier.is_spent());
        let closed_with = classifier.as_ref().filter(|own| is_spent(own)).map(|_| granted);
        self.budget.put_back(budget);
        self.used += cost;
        let listed = Listed {
            list: Arc::clone(&parts.list),
            via,
            layers: parts.layers.clone(),
            classifier,
            chains: BTreeMap::new(),
            services: Vec::new(),
            users: 1,
            cost,
            rendered: 0,
            closed_with,
        };
        self.stale.insert(name.clone());
        self.lists.insert(name, listed);
    }

    /// The list of endpoints for whose rules no work is left: it denies everything.
    pub(super) fn closed_list(&mut self, direction: Direction) -> Name {
        let name = closed_name(direction);
        if let Some(listed) = self.lists.get_mut(&name) {
            listed.users += 1;
            return name;
        }
        self.close(name, direction, 0, String::new())
    }

    /// Makes a list that denies everything, because there were only `granted` steps for it.
    fn close(&mut self, name: Name, direction: Direction, granted: u64, message: String) -> Name {
        let listed = Listed {
            list: Arc::new(List::new(Vec::new(), direction)),
            via: None,
            layers: Vec::new(),
            classifier: None,
            chains: BTreeMap::new(),
            services: Vec::new(),
            users: 1,
            cost: 0,
            rendered: 0,
            closed_with: Some(granted),
        };
        self.lists.insert(name.clone(), listed);
        self.closed.insert(name.clone(), message);
        self.stale.insert(name.clone());
        name
    }

    /// The lists that could not be made, and can be tried again: there is twice the room that there was for them.
    pub(super) fn worth_another_try(&self) -> BTreeSet<Name> {
        let room = self.budget.left() / PART;
        let closed = self.closed.keys().filter_map(|name| Some((name, self.lists.get(name)?.closed_with?)));
        let worth = closed.filter(|(_, with)| room >= self.limit.worth_a_try() && room / 2 >= *with);
        let mut worth: BTreeSet<Name> = worth.map(|(name, _)| name.clone()).collect();
        // Lists for what goes to services are made with the lists that lead to them.
        let leads = |listed: &Listed| listed.services.iter().any(|(_, list)| worth.contains(list));
        let leading: Vec<Name> =
            self.lists.iter().filter(|(_, listed)| leads(listed)).map(|(name, _)| name.clone()).collect();
        worth.extend(leading);
        worth
    }

    /// Says which endpoints are denied everything because no work was left for their rules.
    pub(super) fn name_closed(&mut self) {
        for direction in Direction::BOTH {
            let name = closed_name(direction);
            if !self.lists.contains_key(&name) {
                continue;
            }
            let pods = self.served.iter().filter(|(_, lists)| lists.get(&direction) == Some(&name));
            let mut who: Vec<String> =
                pods.map(|(pod, _)| format!("pod {}/{}", pod.namespace, pod.name)).collect();
            who.extend((self.node_lists.get(&direction) == Some(&name)).then(|| "the node".to_owned()));
            if who.is_empty() {
                // Then it is for what goes to services.
                let leads = |listed: &&Listed| listed.services.iter().any(|(_, list)| *list == name);
                let Some(listed) = self.lists.values().find(leads) else { continue };
                let rules = listed.list.rules.iter().map(|rule| &**rule);
                let message = render::too_much(&self.view, rules, direction);
                self.closed.insert(name, message);
                continue;
            }
            let more = who.len().saturating_sub(3);
            who.truncate(3);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let message = format!(
                "{}{more}: the policies of this node tell more apart than can be put into a kernel: everything is \
                 denied in {direction}",
                who.join(", ")
            );
            self.closed.insert(name, message);
        }
    }

    /// The conditions of a list that are looked up by themselves, found or made.
    fn layers(&mut self, list: &List) -> Vec<Layer> {
        let (names, view) = (&mut self.names, &self.view);
        layers::layers(list, view, |sets| {
            let mut names: Vec<Name> = sets.iter().map(|set| names.set(view, *set)).collect();
            names.sort();
            digest(&format!("{names:?}"))
        })
    }

    /// Notes that a list looks up conditions by themselves.
    fn look_up(&mut self, layers: &[Layer], list: &List, name: &Name) {
        for layer in layers {
            let everybody = self.everybody.entry(layer.name.clone()).or_insert_with(|| {
                let sets = list.conditions.get(layer.condition).cloned().unwrap_or_default();
                for set in &sets {
                    self.by_set.entry(*set).or_default().insert(layer.name.clone());
                }
                self.fresh.insert(layer.name.clone());
                Everybody { sets, shown: BTreeSet::new(), lists: BTreeSet::new() }
            });
            everybody.lists.insert(name.clone());
        }
    }

    /// How a list tells apart whom its layers do not find, found or made; nothing if they find all.
    fn classifier(
        &mut self,
        parts: &Parts,
        name: &Name,
        via: Option<SetId>,
        budget: &mut Budget,
    ) -> Option<Name> {
        let Parts { list, layers, shapes, blocks, peers } = parts;
        let found = list.conditions.len() == layers.len() && layers.len() <= 1 && via.is_none();
        if found && blocks.is_empty() {
            return None;
        }
        let via_name = via.map(|via| self.names.set(&self.view, via));
        let own = digest(&format!("{} {via_name:?} {shapes:?}", list.direction));
        let shared = self.classifiers.entry(own.clone()).or_insert_with(|| {
            let granted = budget.left();
            let classifier = Classifier::new(own.clone(), parts, via, &self.view, &self.index, budget);
            for set in peers {
                budget.take(NAMED);
                self.by_set.entry(*set).or_default().insert(own.clone());
            }
            // What a classifier that was not finished kept is gone.
            let cost = if classifier.is_spent() { 0 } else { granted - budget.left() };
            self.used += cost;
            self.fresh.insert(own.clone());
            Shared { classifier, lists: BTreeSet::new(), cost }
        });
        shared.lists.insert(name.clone());
        Some(own)
    }

    /// One that needed a list does not any more.
    pub(super) fn unlist(&mut self, name: &Name) {
        let Some(listed) = self.lists.get_mut(name) else { return };
        listed.users -= 1;
        if listed.users > 0 {
            return;
        }
        let Some(listed) = self.lists.remove(name) else { return };
        self.used -= listed.cost + listed.rendered;
        self.stale.remove(name);
        self.closed.remove(name);
        // The chain itself goes when nothing leads to it any more.
        self.structural = true;
        for (_, service) in listed.services {
            self.unlist(&service);
        }
        for layer in &listed.layers {
            let Some(everybody) = self.everybody.get_mut(&layer.name) else { continue };
            everybody.lists.remove(name);
            if everybody.lists.is_empty()
                && let Some(everybody) = self.everybody.remove(&layer.name)
            {
                self.forget(&layer.name, everybody.sets.into_iter());
            }
        }
        let Some(own) = listed.classifier else { return };
        let Some(shared) = self.classifiers.get_mut(&own) else { return };
        shared.lists.remove(name);
        if shared.lists.is_empty() {
            self.used -= shared.cost;
            self.classifiers.remove(&own);
            self.forget(&own, listed.list.named());
        }
    }

    /// Somebody who is gone is not asked about sets any more.
    fn forget(&mut self, own: &Name, sets: impl Iterator<Item = SetId>) {
        for set in sets {
            if let Some(names) = self.by_set.get_mut(&set) {
                names.remove(own);
                if names.is_empty() {
                    self.by_set.remove(&set);
                }
            }
        }
    }

    /// The lists that have chains for what goes to a service.
    pub(super) fn lists_to(&self, service: SetId) -> Vec<Name> {
        let own = self.lists.iter();
        own.filter(|(_, listed)| listed.services.iter().any(|(set, _)| *set == service))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Puts an address where it belongs now, for everybody who tells peers apart by a set.
    pub(super) fn place(&mut self, set: SetId, address: IpAddr) {
        let family = Family::of(address);
        for own in self.by_set.get(&set).into_iter().flatten() {
            if let Some(everybody) = self.everybody.get_mut(own) {
                let is_one = self.index.sets_of(address).any(|set| everybody.sets.contains(&set));
                let set = Everybody::set(own, family);
                match is_one {
                    true => self.edit.put(&set, address_key(address), None),
                    false => self.edit.take(&set, &address_key(address)),
                }
                if is_one && everybody.shown.insert(family) {
                    self.stale.extend(everybody.lists.iter().cloned());
                }
            }
            let Some(Shared { classifier, lists, .. }) = self.classifiers.get_mut(own) else { continue };
            let Some((before, now)) = classifier.place(address, &self.index) else { continue };
            let key = address_key(address);
            if let Some(before) = before {
                self.edit.take(&classifier.set(family, before), &key);
            }
            if let Some(now) = now {
                self.edit.put(&classifier.set(family, now), key.clone(), None);
                if classifier.shown.insert((family, now)) {
                    self.stale.extend(lists.iter().cloned());
                }
            }
            for name in lists.iter() {
                let to = now.and_then(|now| self.lists.get(name)?.chains.get(&now));
                let map = map_name(name, family);
                match to {
                    Some(to) => self.edit.put(&map, key.clone(), Some(Verdict::Goto(to.clone()))),
                    None => self.edit.take(&map, &key),
                }
            }
        }
    }

    /// Forgets classes that nobody is in; the chains that show them are to be made again.
    pub(super) fn tidy_peers(&mut self) {
        for shared in self.classifiers.values_mut() {
            if shared.classifier.tidy() {
                self.stale.extend(shared.lists.iter().cloned());
            }
        }
        for (name, everybody) in &mut self.everybody {
            let sets = &self.edit.program().sets;
            let fresh = self.fresh.contains(name);
            let is_met = |family: &Family| match sets.get(&Everybody::set(name, *family)) {
                Some(set) if !fresh => !set.elements.is_empty(),
                _ => !everybody.members(&self.view, *family).is_empty(),
            };
            let shown: BTreeSet<Family> = FAMILIES.into_iter().filter(is_met).collect();
            if shown != everybody.shown {
                everybody.shown = shown;
                self.stale.extend(everybody.lists.iter().cloned());
            }
        }
    }
}

/// Steps to make a list of rules, and to compare those that are looked up by themselves with all others.
fn listing(rules: &[(Said, Arc<ViewRule>)]) -> u64 {
    let sets = rules.iter().map(|(_, rule)| rule.peers.as_ref().map_or(0, |sets| sets.len() as u64));
    let (all, most) = sets.fold((0_u64, 0), |(all, most), sets| (all + sets, most.max(sets)));
    let compared = all.saturating_mul(most).saturating_mul(COMPARED);
    compared.saturating_add(LISTED * rules.len() as u64 + NAMED * all)
}

fn prefix(direction: Direction) -> &'static str {
    match direction {
        Direction::Egress => "eg",
        Direction::Ingress => "in",
    }
}

/// The list of endpoints for whose rules no work is left.
fn closed_name(direction: Direction) -> Name {
    match direction {
        Direction::Egress => "eg_closed".into(),
        Direction::Ingress => "in_closed".into(),
    }
}

/// The map of a list's peers.
fn map_name(list: &Name, family: Family) -> Name {
    hashed("m", &format!("{list} {family:?}"))
}
