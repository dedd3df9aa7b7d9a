//! Peers that are relative to the subject: its own namespace, or those with the same labels.
//!
//! Namespaces that are the same to a rule are one class: with `match: Self` each is a class of its own, with
//! `sameLabels: [team]` all those of one team are. The rule becomes the rows of each class, with the subject narrowed to it
//! and the peers said in so many words. A namespace that comes, goes or is relabelled is counted in its class; only the
//! first and the last one of a class make rows come and go.

use std::collections::BTreeMap;

use palisade_model::cluster::Namespace;
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::policy::{Namespaces, PodSet};
use smol_str::SmolStr;

use crate::Engine;
use crate::arena::Arena;
use crate::expand::Made;
use crate::id::Id;
use crate::rows::{Pattern, PeerSets, Row};
use crate::selection::Wanted;
use crate::sets::matches;

/// All rules with relative peers.
pub(crate) type Relatives = Arena<Relative>;

/// A rule with relative peers, for one subject.
#[derive(Debug)]
pub(crate) struct Relative {
    pattern: Pattern,
    subject: PodSet,
    /// The peers that are relative, and the others.
    peers: Vec<PodSet>,
    fixed: PeerSets,
    /// Whether each namespace is a class of its own.
    own: bool,
    /// The labels that tell classes apart.
    keys: Vec<SmolStr>,
    /// The names of ports that the rule is about.
    ports: Vec<SmolStr>,
    classes: BTreeMap<Same, Sharing>,
}

/// What namespaces of a class have in common: the name, where that matters, and the values of the labels.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Same {
    name: Option<SmolStr>,
    values: Vec<Option<SmolStr>>,
}

/// The namespaces of a class, and the rows they share.
#[derive(Debug, Default)]
struct Sharing {
    namespaces: u32,
    made: Made,
}

impl Engine {
    /// Makes rows for each class of namespaces.
    pub(crate) fn make_relative(
        &mut self,
        pattern: Pattern,
        subject: PodSet,
        (fixed, peers): (PeerSets, Vec<PodSet>),
    ) -> Id<Relative> {
        // Later, while a namespace changes, is no time for pods to fall into other classes.
        for set in peers.iter().chain([&subject]) {
            let shapes = self.endpoints.shapes.ask_for(set, None);
            self.reclass(&shapes);
        }
        let rule =
            pattern.rule.map(|rule| self.policies.carried_by(pattern.policy, pattern.directions, rule));
        let named = rule.into_iter().flat_map(|carried| &carried.named);
        let ports: Vec<SmolStr> = named.map(|named| named.name.clone()).collect();
        for name in &ports {
            let shapes = self.endpoints.shapes.ask_for_port(name);
            self.reclass(&shapes);
        }
        let own = peers.iter().any(|peer| peer.namespaces == Namespaces::Own);
        let mut keys: Vec<SmolStr> = Vec::new();
        for peer in &peers {
            if let Namespaces::SameLabels(labels) | Namespaces::NotSameLabels(labels) = &peer.namespaces {
                keys.extend(labels.iter().cloned());
            }
        }
        keys.sort();
        keys.dedup();
        for set in fixed.as_slice() {
            self.use_set(*set, 1);
        }
        let relative =
            Relative { pattern, subject, peers, fixed, own, keys, ports, classes: BTreeMap::new() };
        let same = self.endpoints.namespaces.iter().filter_map(|(_, entry)| relative.same(&entry.namespace));
        let same: Vec<Same> = same.collect();
        let id = self.relatives.insert(relative);
        for same in same {
            self.join_class(id, &same);
        }
        id
    }

    /// Takes them back.
    pub(crate) fn unmake_relative(&mut self, id: Id<Relative>) {
        let gone = self.relatives.remove(id);
        for sharing in gone.classes.into_values() {
            self.unmake(sharing.made);
        }
        for set in gone.fixed.as_slice() {
            self.use_set(*set, -1);
        }
        for set in gone.peers.iter().chain([&gone.subject]) {
            self.endpoints.shapes.ask_no_more(set, None);
        }
        for name in &gone.ports {
            self.endpoints.shapes.ask_no_more_for_port(name);
        }
    }

    /// A namespace comes, goes, or has other labels.
    pub(crate) fn namespace_changed(&mut self, before: Option<&Namespace>, after: Option<&Namespace>) {
        let ids: Vec<Id<Relative>> = self.relatives.iter().map(|(id, _)| id).collect();
        for id in ids {
            let relative = &self.relatives[id];
            let old = before.and_then(|namespace| relative.same(namespace));
            let new = after.and_then(|namespace| relative.same(namespace));
            if old == new {
                continue;
            }
            if let Some(new) = new {
                self.join_class(id, &new);
            }
            if let Some(old) = old {
                self.leave_class(id, &old);
            }
        }
    }

    fn join_class(&mut self, id: Id<Relative>, same: &Same) {
        let sharing = self.relatives[id].classes.entry(same.clone()).or_default();
        sharing.namespaces += 1;
        if sharing.namespaces > 1 {
            return;
        }
        let relative = &self.relatives[id];
        let (subject, peers) = (relative.subject_for(same), relative.peers_for(same));
        let (pattern, fixed) = (relative.pattern, relative.fixed.clone());
        let subject = self.take_set(Wanted::Pods(&subject, None));
        let peers = peers.iter().map(|peer| self.take_set(Wanted::Pods(peer, None)));
        let peers: PeerSets = peers.chain(fixed.as_slice().iter().copied()).collect();
        let mut made = Made::default();
        self.make_rows(Row { shared: true, ..pattern.row(subject, peers) }, &mut made);
        if let Some(sharing) = self.relatives[id].classes.get_mut(same) {
            sharing.made = made;
        }
    }

    fn leave_class(&mut self, id: Id<Relative>, same: &Same) {
        let Some(sharing) = self.relatives[id].classes.get_mut(same) else { return };
        sharing.namespaces -= 1;
        if sharing.namespaces == 0
            && let Some(gone) = self.relatives[id].classes.remove(same)
        {
            self.unmake(gone.made);
        }
    }
}

// === impl Relative ===

impl Relative {
    /// The class of a namespace; none if the rule is about nobody there.
    fn same(&self, namespace: &Namespace) -> Option<Same> {
        if !matches(&self.subject.namespaces, &namespace.name, &namespace.labels) {
            return None;
        }
        let value = |key: &SmolStr| namespace.labels.get(key).map(SmolStr::from);
        let name = self.own.then(|| namespace.name.clone());
        Some(Same { name, values: self.keys.iter().map(value).collect() })
    }

    /// The subject, in the namespaces of a class.
    fn subject_for(&self, same: &Same) -> PodSet {
        let subject = match &same.name {
            Some(namespace) => self.subject.in_namespace(namespace),
            None => self.subject.clone(),
        };
        if self.keys.is_empty() {
            return subject;
        }
        let asked = self.keys.iter().zip(&same.values).map(|(key, value)| match value {
            Some(value) => Requirement::equals(key, value),
            None => Requirement::new(key.clone(), Operator::DoesNotExist),
        });
        let namespaces = Namespaces::Matching(subject.namespaces.narrowed(asked));
        PodSet { namespaces, ..subject }
    }

    /// The relative peers of a class, in so many words.
    fn peers_for(&self, same: &Same) -> Vec<PodSet> {
        let value = |key: &SmolStr| {
            let at = self.keys.binary_search(key).ok()?;
            same.values[at].as_ref()
        };
        let mut sets = Vec::new();
        for peer in &self.peers {
            let mut add = |namespaces| sets.push(PodSet { namespaces, ..peer.clone() });
            match &peer.namespaces {
                Namespaces::Own => {
                    if let Some(name) = &same.name {
                        add(Namespaces::Named(name.clone()));
                    }
                }
                Namespaces::SameLabels(keys) => {
                    let asked: Option<Vec<Requirement>> =
                        keys.iter().map(|key| Some(Requirement::equals(key, value(key)?))).collect();
                    if let Some(asked) = asked.filter(|asked| !asked.is_empty()) {
                        add(Namespaces::Matching(Selector::new(asked)));
                    }
                }
                // All of the labels are there, and some one of them is another: one set for each of them.
                Namespaces::NotSameLabels(keys) => {
                    for other in keys {
                        let there = keys.iter().map(|key| Requirement::new(key.clone(), Operator::Exists));
                        let another = value(other).map(|value| {
                            Requirement::new(other.clone(), Operator::NotIn(vec![value.clone()]))
                        });
                        add(Namespaces::Matching(Selector::new(there.chain(another))));
                    }
                }
                Namespaces::Named(_) | Namespaces::Matching(_) => {}
            }
        }
        sets
    }
}
