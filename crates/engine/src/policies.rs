//! Policies, and how their rules come to stand at the sets they apply to.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use palisade_model::cluster::NAMESPACE_NAME_LABEL;
use palisade_model::group::{GroupName, Members};
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::matching::Cluster;
use palisade_model::policy::{
    Namespaces, Object, Peer, Peers, Placement, PodSet, Policy, Priority, Rule, Subject, Tier,
};
use palisade_model::snapshot::{NoGroup, Stage};
use slab::Slab;
use smol_str::SmolStr;

use crate::Engine;
use crate::change::{Change, SetId};
use crate::event::PolicyKey;
use crate::sets::{Held, Rank};

/// All policies.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    pub(crate) policies: Slab<Entry>,
    by_key: HashMap<PolicyKey, usize>,
    /// Who names a tier or a group, to be placed anew when that changes.
    by_tier: HashMap<SmolStr, BTreeSet<usize>>,
    by_group: HashMap<GroupName, BTreeSet<usize>>,
    /// Rules that apply to nodes or services, in their order.
    pub(crate) beyond_pods: Vec<Held>,
}

/// A policy, and the sets that it uses.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) policy: Arc<Policy>,
    /// Each as often as it is used.
    sets: Vec<SetId>,
    /// Those of them that are peers, each as often.
    peers: Vec<SetId>,
}

impl Engine {
    pub(crate) fn apply_policy(&mut self, policy: Policy) {
        let key = PolicyKey::from(&policy.object);
        self.delete_policy(&key);
        let id = self.policies.policies.insert(Entry {
            policy: Arc::new(policy),
            sets: Vec::new(),
            peers: Vec::new(),
        });
        self.policies.by_key.insert(key, id);
        self.refer(id, true);
        self.enter(id);
    }

    pub(crate) fn delete_policy(&mut self, key: &PolicyKey) {
        if let Some(id) = self.policies.by_key.remove(key) {
            self.refer(id, false);
            self.leave(id);
            self.policies.policies.remove(id);
        }
    }

    /// Those who name a tier stand elsewhere now.
    pub(crate) fn tier_changed(&mut self, name: &SmolStr) {
        let users: Vec<usize> = self.policies.by_tier.get(name).into_iter().flatten().copied().collect();
        self.place_anew(&users);
    }

    /// Those who name a group mean others now.
    pub(crate) fn groups_changed(&mut self, names: &[GroupName]) {
        let users: BTreeSet<usize> =
            names.iter().filter_map(|name| self.policies.by_group.get(name)).flatten().copied().collect();
        self.place_anew(&users.into_iter().collect::<Vec<_>>());
    }

    fn place_anew(&mut self, users: &[usize]) {
        for id in users {
            self.leave(*id);
        }
        for id in users {
            self.enter(*id);
        }
    }

    /// Notes, or forgets, what a policy refers to by name.
    fn refer(&mut self, id: usize, there: bool) {
        let policy = &self.policies.policies[id].policy;
        let mut groups: BTreeSet<GroupName> = BTreeSet::new();
        for rule in &policy.rules {
            groups.extend(rule.subjects.iter().filter_map(|subject| match subject {
                Subject::Group { group, .. } => Some(group.clone()),
                _ => None,
            }));
            if let Peers::Of(peers) = &rule.peers {
                groups.extend(peers.iter().filter_map(|peer| match peer {
                    Peer::Group(group) => Some(group.clone()),
                    _ => None,
                }));
            }
        }
        if let Placement::Tier { tier: Tier::Named(name), .. } = &policy.placement {
            note(&mut self.policies.by_tier, name.clone(), id, there);
        }
        for group in groups {
            note(&mut self.policies.by_group, group, id, there);
        }
    }

    /// Puts the rules of a policy where they belong.
    fn enter(&mut self, id: usize) {
        let policy = Arc::clone(&self.policies.policies[id].policy);
        let (stage, rank) = self.place(&policy);
        for isolation in &policy.isolations {
            for set in self.subject_sets(&isolation.subjects) {
                let set = self.use_set(id, &set);
                self.sets.sets[set].isolations.push((isolation.direction, id));
                self.applies(id, set);
            }
        }
        for (at, rule) in policy.rules.iter().enumerate() {
            let held = Held {
                direction: rule.direction,
                stage,
                rank: Rank { index: rule.index, ..rank.clone() },
                policy: id,
                rule: at,
            };
            for set in self.subject_sets(&rule.subjects) {
                let set = self.use_set(id, &set);
                self.sets.sets[set].add(held.clone());
                self.applies(id, set);
            }
            if rule.subjects.iter().any(|subject| self.is_beyond_pods(subject)) {
                let beyond = &mut self.policies.beyond_pods;
                let place = beyond.partition_point(|other| other.cmp(&held).is_lt());
                beyond.insert(place, held);
            }
            for set in peer_sets(rule) {
                let set = self.use_set(id, set);
                self.policies.policies[id].peers.push(set);
                self.sets.sets[set].peer_uses += 1;
            }
        }
        self.changes.push(Change::Policy(Arc::clone(&policy.object)));
    }

    /// Takes them away again.
    fn leave(&mut self, id: usize) {
        let object = Arc::clone(&self.policies.policies[id].policy.object);
        self.changes.push(Change::NoPolicy(object));
        for set in std::mem::take(&mut self.policies.policies[id].peers) {
            self.sets.sets[set].peer_uses -= 1;
        }
        let mut sets = std::mem::take(&mut self.policies.policies[id].sets);
        sets.sort_unstable();
        for (at, set) in sets.iter().enumerate() {
            if at == 0 || sets[at - 1] != *set {
                let set = &mut self.sets.sets[*set];
                set.rules.retain(|held| held.policy != id);
                set.isolations.retain(|(_, policy)| *policy != id);
                set.policies.retain(|policy| *policy != id);
            }
            if self.sets.give_back(*set) {
                self.drop_set(*set);
            }
        }
        self.policies.beyond_pods.retain(|held| held.policy != id);
    }

    fn applies(&mut self, policy: usize, set: SetId) {
        let policies = &mut self.sets.sets[set].policies;
        if policies.last() != Some(&policy) {
            policies.push(policy);
        }
    }

    fn use_set(&mut self, policy: usize, content: &PodSet) -> SetId {
        let (set, new) = self.sets.take(content);
        self.policies.policies[policy].sets.push(set);
        if new {
            self.fill_set(set);
        }
        set
    }

    /// The stage of a policy, and its rank there; a tier that does not exist comes first.
    fn place(&self, policy: &Policy) -> (Stage, Rank) {
        let rank = |placed, tier, priority| Rank {
            placed,
            tier,
            priority,
            index: 0,
            object: Arc::clone(&policy.object),
        };
        match &policy.placement {
            Placement::Union => (Stage::NetworkPolicy, rank(true, 0, Priority(0.0))),
            Placement::Tier { tier, priority } => {
                let number = match tier {
                    Tier::Fixed(number, _) => Some(*number),
                    Tier::Named(name) => self.tiers.get(name).copied(),
                };
                let stage = match number {
                    Some(number) if number > Stage::LAST_TIER => Stage::Baseline,
                    _ => Stage::Tiers,
                };
                (stage, rank(number.is_some(), number.unwrap_or(0), *priority))
            }
        }
    }

    /// The pods that subjects mean, groups looked up.
    fn subject_sets(&self, subjects: &[Subject]) -> Vec<PodSet> {
        let mut sets = Vec::new();
        for subject in subjects {
            match subject {
                Subject::Pods(set) => sets.push(set.clone()),
                Subject::Group { group, within } => match self.group(group) {
                    Ok(members) => sets.extend(members.iter().filter_map(|member| match member {
                        Members::Pods(set) => Some(inside(set, within.as_ref())),
                        _ => None,
                    })),
                    Err(NoGroup::Missing) => {}
                    Err(NoGroup::Unreadable(_)) => {
                        let pods = inside(&PodSet::everything(), within.as_ref());
                        sets.push(PodSet { external: true, ..pods.clone() });
                        sets.push(pods);
                    }
                },
                Subject::Nodes(_) | Subject::Service(_) => {}
            }
        }
        sets.dedup();
        sets
    }

    fn is_beyond_pods(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Pods(_) => false,
            Subject::Nodes(_) | Subject::Service(_) => true,
            Subject::Group { group, within } => match self.group(group) {
                Ok(members) => members.iter().any(|member| matches!(member, Members::Nodes(_))),
                Err(NoGroup::Missing) => false,
                Err(NoGroup::Unreadable(_)) => within.is_none(),
            },
        }
    }

    /// The object of a policy.
    pub(crate) fn object(&self, policy: usize) -> &Arc<Object> {
        &self.policies.policies[policy].policy.object
    }

    pub(crate) fn rule(&self, held: &Held) -> &Rule {
        &self.policies.policies[held.policy].policy.rules[held.rule]
    }
}

/// A set, only in one namespace. Where both say something about namespaces, what is asked of labels stays: the name of a
/// namespace is a label of it.
fn inside(set: &PodSet, within: Option<&SmolStr>) -> PodSet {
    let Some(namespace) = within else { return set.clone() };
    let namespaces = match &set.namespaces {
        Namespaces::Matching(selector) if !selector.is_everything() => {
            let own = Requirement::equals(NAMESPACE_NAME_LABEL, namespace);
            Namespaces::Matching(Selector::new(selector.requirements().iter().cloned().chain([own])))
        }
        // The members of another namespace are nobody here.
        Namespaces::Named(other) if other != namespace => Namespaces::Matching(nobody(namespace)),
        _ => Namespaces::Named(namespace.clone()),
    };
    PodSet { namespaces, ..set.clone() }
}

/// A selector that no namespace fulfils.
fn nobody(namespace: &SmolStr) -> Selector {
    let not = Requirement::new(NAMESPACE_NAME_LABEL, Operator::NotIn(vec![namespace.clone()]));
    Selector::new([Requirement::equals(NAMESPACE_NAME_LABEL, namespace), not])
}

/// The sets of pods that a rule names, as far as they are the same for everybody.
fn peer_sets(rule: &Rule) -> impl Iterator<Item = &PodSet> {
    let peers: &[Peer] = match &rule.peers {
        Peers::Any => &[],
        Peers::Of(peers) => peers,
    };
    peers.iter().filter_map(|peer| match peer {
        Peer::Pods(set) if matches!(set.namespaces, Namespaces::Named(_) | Namespaces::Matching(_)) => {
            Some(set)
        }
        _ => None,
    })
}

fn note<K: std::hash::Hash + Eq>(map: &mut HashMap<K, BTreeSet<usize>>, key: K, id: usize, there: bool) {
    if there {
        map.entry(key).or_default().insert(id);
    } else if let Some(users) = map.get_mut(&key) {
        users.remove(&id);
        if users.is_empty() {
            map.remove(&key);
        }
    }
}
