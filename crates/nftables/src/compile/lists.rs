//! Lists of rules: which there are, who needs them, and where their peers are kept.
//!
//! A list is what applies to somebody in one direction. Many of the node's own have the same one, and lists that are about the same
//! peers share how these are told apart, so both count their users: what nobody needs goes, and is not asked about sets any more. Who is a
//! peer changes far more often than which rules there are, so an address is put where it belongs ([`Live::place`]) without its
//! chains being made again ([`Live::render`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::delta::{Content, Rule as ViewRule, RuleId, SetId};
use palisade_model::address::Family;
use palisade_model::policy::Direction;

use super::FAMILIES;
use super::classify::{Class, Classifier, address_key, blocks};
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
}

/// How peers are told apart, and for which lists.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) classifier: Classifier,
    pub(super) lists: BTreeSet<Name>,
}

// === impl Live ===

impl Live {
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
    pub(super) fn list(
        &mut self,
        rules: &[(Said, Arc<ViewRule>)],
        direction: Direction,
        via: Option<SetId>,
    ) -> Option<Name> {
        if rules.is_empty() {
            return None;
        }
        let prefix = if direction == Direction::Egress { "eg" } else { "in" };
        let via_name = via.map(|via| self.names.set(&self.view, via));
        let whole: Vec<&Name> = rules.iter().map(|(said, _)| &said.whole).collect();
        let name = hashed(prefix, &format!("{whole:?} {via_name:?}"));
        if let Some(listed) = self.lists.get_mut(&name) {
            listed.users += 1;
            return Some(name);
        }
        let list = Arc::new(List::new(rules.iter().map(|(_, rule)| Arc::clone(rule)).collect(), direction));
        let layers = self.layers(&list, &name);
        let shapes = rules.iter().map(|(said, _)| &said.shape);
        let shapes: Vec<&Name> = shapes.collect();
        let classifier = self.classifier(&list, &name, via, &layers, &shapes);
        let view = &self.view;
        let mut services = Vec::new();
        if via.is_none() {
            for set in list.named() {
                let is_service = |set: &SetId| {
                    view.sets().get(set).is_some_and(|set| matches!(*set.content, Content::Service(_)))
                };
                if is_service(&set) {
                    services.push(set);
                }
            }
        }
        let services = services
            .into_iter()
            .filter_map(|set| Some((set, self.list(rules, direction, Some(set))?)))
            .collect();
        let listed = Listed { list, via, layers, classifier, chains: BTreeMap::new(), services, users: 1 };
        self.lists.insert(name.clone(), listed);
        self.stale.insert(name.clone());
        Some(name)
    }

    /// The conditions of a list that are looked up by themselves, found or made.
    fn layers(&mut self, list: &List, name: &Name) -> Vec<Layer> {
        let (names, view) = (&mut self.names, &self.view);
        let layers = layers::layers(list, view, |sets| {
            let mut names: Vec<Name> = sets.iter().map(|set| names.set(view, *set)).collect();
            names.sort();
            digest(&format!("{names:?}"))
        });
        for layer in &layers {
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
        layers
    }

    /// How a list tells apart whom its layers do not find, found or made; nothing if they find all.
    fn classifier(
        &mut self,
        list: &Arc<List>,
        name: &Name,
        via: Option<SetId>,
        layers: &[Layer],
        shapes: &[&Name],
    ) -> Option<Name> {
        let found = list.conditions.len() == layers.len() && layers.len() <= 1 && via.is_none();
        if found && blocks(list, &self.view).is_empty() {
            return None;
        }
        let via_name = via.map(|via| self.names.set(&self.view, via));
        let own = digest(&format!("{} {via_name:?} {shapes:?}", list.direction));
        let shared = self.classifiers.entry(own.clone()).or_insert_with(|| {
            let classifier = Classifier::new(own.clone(), list, via, layers, &self.view, &self.index);
            for set in list.named() {
                self.by_set.entry(set).or_default().insert(own.clone());
            }
            self.fresh.insert(own.clone());
            Shared { classifier, lists: BTreeSet::new() }
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
            let Some(Shared { classifier, lists }) = self.classifiers.get_mut(own) else { continue };
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

/// The map of a list's peers.
fn map_name(list: &Name, family: Family) -> Name {
    hashed("m", &format!("{list} {family:?}"))
}
