//! Policies, and how they become rows.
//!
//! What a policy says is kept as rows at sets, not as it was written: two policies that select the same pods share a set
//! and hold nothing else in common. Only a policy that names a tier or a group is kept, because it has to be read again
//! when that changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_model::group::GroupName;
use palisade_model::policy::{
    Direction, Object, Peer, Peers, Placement, Policy, Rule, Subject, Tier, TrafficMatches,
};
use palisade_model::resolve::{self, Expansion, References, ResolvedRule};
use palisade_model::snapshot::Stage;
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::Engine;
use crate::arena::Arena;
use crate::carried::Carried;
use crate::delta::{CompiledRule, Directions, Origin, RuleEffect, RuleOrigin};
use crate::expand::Made;
use crate::id::{PolicyId, RuleId, SetId};
use crate::rows::{Pattern, PeerSets, Row, RuleIndex};
use crate::sets::{Counts, Sets, count};
use crate::shapes::Few;
use crate::table::{References as ReferenceTable, Table};
use palisade_model::event::PolicyKey;

/// All policies.
#[derive(Debug, Default)]
pub(crate) struct Policies {
    policies: Arena<Entry, PolicyId>,
    by_key: Table<PolicyId>,
    /// Who names a tier or a group, to be read again when that changes.
    by_tier: ReferenceTable<SmolStr, PolicyId>,
    by_group: ReferenceTable<GroupName, PolicyId>,
}

/// A policy.
#[derive(Debug)]
struct Entry {
    origin: Arc<Origin>,
    /// What rules carry, of each direction.
    rules: [Box<[Carried]>; 2],
    made: Made,
    /// The sets it applies to, and by how many rows.
    subjects: Counts<SetId>,
    /// As it was written, if it has to be read again.
    source: Option<Arc<Policy>>,
}

/// The objects that one policy names, as they are now: apart from the engine, which changes while rows are made.
pub(crate) struct Referenced {
    tier: Option<u8>,
    groups: BTreeMap<GroupName, Arc<Expansion>>,
}

// === impl Policies ===

impl Policies {
    pub(crate) fn object(&self, id: PolicyId) -> &Arc<Object> {
        &self.policies[id].origin.object
    }

    pub(crate) fn origin(&self, id: PolicyId) -> &Arc<Origin> {
        &self.policies[id].origin
    }

    pub(crate) fn origins(&self) -> impl Iterator<Item = (PolicyId, &Arc<Origin>)> {
        self.policies.iter().map(|(id, entry)| (id, &entry.origin))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.policies.len() == 0 && self.by_tier.is_empty() && self.by_group.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.policies.len()
    }

    /// Returns what the rule of a row carries; `None` for an isolation.
    #[inline]
    pub(crate) fn carried(&self, row: &Row) -> Option<&Carried> {
        Some(self.carried_by(row.policy, row.directions, row.rule?))
    }

    /// Returns what a rule carries.
    #[inline]
    pub(crate) fn carried_by(&self, policy: PolicyId, directions: Directions, rule: RuleIndex) -> &Carried {
        &self.policies[policy].rules[usize::from(directions.ingress)][rule.get() as usize]
    }

    /// A row of a policy applies to a set, or does not any more.
    pub(crate) fn applies(&mut self, sets: &mut Sets, policy: PolicyId, subject: SetId, by: i32) {
        let (before, after) = count(&mut self.policies[policy].subjects, subject, by);
        let policies = &mut sets.sets[subject].policies;
        match (before, after) {
            (0, 1..) => policies.push(policy),
            (1.., 0) => {
                if let Some(at) = policies.iter().rposition(|other| *other == policy) {
                    policies.swap_remove(at);
                }
            }
            _ => {}
        }
    }

    fn find(&self, key: Identity<'_>) -> (u64, Option<PolicyId>) {
        let hash = self.by_key.hash(&key);
        (hash, self.by_key.find(hash, |id| identity(self.object(id)) == key))
    }

    /// Forgets a policy that is gone.
    pub(crate) fn forget(&mut self, id: PolicyId) {
        let gone = self.policies.remove(id);
        let hash = self.by_key.hash(&identity(&gone.origin.object));
        self.by_key.remove(hash, id);
    }
}

impl Engine {
    pub(crate) fn apply_policy(&mut self, policy: Policy) {
        let (hash, found) = self.policies.find(identity(&policy.object));
        let origin = Origin::from(&policy);
        let id = match found {
            Some(id) => {
                self.condemn(id);
                if *self.policies.policies[id].origin != origin {
                    self.policies.policies[id].origin = Arc::new(origin);
                    self.pending.policies.push(id);
                }
                id
            }
            None => {
                let id = self.policies.policies.insert(Entry {
                    origin: Arc::new(origin),
                    rules: Default::default(),
                    made: Made::default(),
                    subjects: Counts::new(),
                    source: None,
                });
                self.policies.by_key.insert(hash, id);
                self.pending.policies.push(id);
                id
            }
        };
        let groups = groups_of(&policy);
        self.enter(id, &policy, &groups);
        if !groups.is_empty() || tier_of(&policy).is_some() {
            self.refer(id, &policy, &groups, true);
            self.policies.policies[id].source = Some(Arc::new(policy));
        }
    }

    pub(crate) fn delete_policy(&mut self, key: &PolicyKey) {
        let identity = (&*key.name, key.namespace.as_deref(), &*key.kind, &*key.group);
        if let (_, Some(id)) = self.policies.find(identity) {
            self.condemn(id);
            self.pending.gone.push(id);
        }
    }

    /// The rows of a policy go, unless it is read again in the same event and says the same.
    fn condemn(&mut self, id: PolicyId) {
        let entry = &mut self.policies.policies[id];
        let made = std::mem::take(&mut entry.made);
        if let Some(source) = entry.source.take() {
            let groups = groups_of(&source);
            self.refer(id, &source, &groups, false);
        }
        self.unmake(made);
    }

    /// Those who name a tier stand elsewhere now.
    pub(crate) fn tier_changed(&mut self, name: &SmolStr) {
        let users = self.policies.by_tier.get(name).copied().collect();
        self.read_again(&users);
    }

    /// Those who name a group mean others now.
    pub(crate) fn groups_changed(&mut self, names: &[GroupName]) {
        let users = names.iter().flat_map(|name| self.policies.by_group.get(name)).copied().collect();
        self.read_again(&users);
    }

    fn read_again(&mut self, users: &BTreeSet<PolicyId>) {
        for id in users {
            let made = std::mem::take(&mut self.policies.policies[*id].made);
            self.unmake(made);
        }
        for id in users {
            if let Some(source) = self.policies.policies[*id].source.clone() {
                self.enter(*id, &source, &groups_of(&source));
            }
        }
    }

    /// Notes, or forgets, what a policy refers to by name.
    fn refer(&mut self, id: PolicyId, policy: &Policy, groups: &BTreeSet<GroupName>, there: bool) {
        if let Some(name) = tier_of(policy) {
            self.policies.by_tier.note(name.clone(), id, there);
        }
        for group in groups {
            self.policies.by_group.note(group.clone(), id, there);
        }
    }

    /// Makes the rows of a policy.
    fn enter(&mut self, id: PolicyId, policy: &Policy, groups: &BTreeSet<GroupName>) {
        let names = &Referenced::by(self, policy, groups);
        let rank = resolve::rank(policy, &names);
        let mut made = Made::default();
        let before = std::mem::take(&mut self.policies.policies[id].rules);
        let mut resolved: SmallVec<[Option<ResolvedRule<'_>>; 8]> = SmallVec::new();
        let mut carried: [Vec<Carried>; 2] = Default::default();
        for rule in &policy.rules {
            let way = usize::from(rule.direction == Direction::Ingress);
            let old = before[way].get(carried[way].len());
            let own = resolve::rule(rule, rank, &names);
            carried[way].push(Carried::new(rule, own.as_ref(), old));
            resolved.push(own);
        }
        self.policies.policies[id].rules = carried.map(Vec::into_boxed_slice);
        // A policy's isolations and rules mostly apply to the same pods: they are looked up once.
        let mut last: Option<(&Arc<[Subject]>, Few<SetId>)> = None;
        let mut isolated: SmallVec<[(SetId, Directions); 2]> = SmallVec::new();
        // Only the NetworkPolicy stage isolates.
        for isolation in policy.isolations.iter().filter(|_| rank.stage == Stage::NetworkPolicy) {
            let sets = match &last {
                Some((known, sets)) if Arc::ptr_eq(known, &isolation.subjects) => sets.clone(),
                _ => self.pod_subjects(&resolve::subjects(&isolation.subjects, &names)),
            };
            for subject in &sets {
                match isolated.iter_mut().find(|(set, _)| set == subject) {
                    Some((_, directions)) => *directions = directions.with(isolation.direction),
                    None => isolated.push((*subject, isolation.direction.into())),
                }
            }
            last = Some((&isolation.subjects, sets));
        }
        for (subject, directions) in isolated {
            let effect = RuleEffect::Isolate;
            let pattern = Pattern { policy: id, rule: None, edition: 0, effect, directions, rank };
            made.rows.push(self.add_row(pattern.row(subject, PeerSets::Any)));
        }
        let mut indices = [0; 2];
        for (rule, resolved) in policy.rules.iter().zip(resolved) {
            let index = &mut indices[usize::from(rule.direction == Direction::Ingress)];
            let at = *index;
            *index += 1;
            let Some(resolved) = resolved else { continue };
            let (index, directions) = (RuleIndex::new(at), Directions::from(rule.direction));
            let pattern = Pattern {
                policy: id,
                rule: Some(index),
                edition: self.policies.carried_by(id, directions, index).edition(),
                effect: RuleEffect::Decide(resolved.effect),
                directions,
                rank: resolved.rank,
            };
            let known = match &last {
                Some((known, sets)) if Arc::ptr_eq(known, &rule.subjects) => Some(sets.clone()),
                _ => None,
            };
            self.make(pattern, &rule.subjects, known, &resolved.peers, names, &mut made);
        }
        self.policies.policies[id].made = made;
    }

    /// A row as others see it.
    pub(crate) fn rule_of(&self, id: RuleId) -> CompiledRule {
        let row = &self.rows[id].row;
        let carried = self.policies.carried(row);
        let traffic = carried.map_or(TrafficMatches::Any, |carried| carried.traffic_of(row.port));
        CompiledRule {
            policy: row.policy,
            rule: row.rule.map(RuleIndex::get),
            directions: row.directions,
            rank: row.rank,
            effect: row.effect,
            subject: row.subject,
            peers: (row.peers != PeerSets::Any).then(|| row.peers.as_slice().into()),
            destination: row.destination,
            traffic,
            layer7: carried.map(|carried| carried.conditions().to_vec()).unwrap_or_default(),
            log: carried.and_then(|carried| carried.log.clone()),
        }
    }
}

/// What makes a policy that policy.
type Identity<'a> = (&'a str, Option<&'a str>, &'a str, &'a str);

fn identity(object: &Object) -> Identity<'_> {
    (&object.name, object.namespace.as_deref(), &object.kind, &object.group)
}

// === impl Referenced ===

impl Referenced {
    fn by(engine: &Engine, policy: &Policy, groups: &BTreeSet<GroupName>) -> Self {
        let expansion = |name: &GroupName| Some((name.clone(), Arc::clone(engine.groups.get(name)?)));
        Referenced {
            tier: tier_of(policy).and_then(|name| engine.tiers.get(name).copied()),
            groups: groups.iter().filter_map(expansion).collect(),
        }
    }
}

impl<'r> References<'r> for &'r Referenced {
    fn tier(&self, _: &SmolStr) -> Option<u8> {
        self.tier
    }

    fn group(&self, name: &GroupName) -> Option<&'r Expansion> {
        self.groups.get(name).map(|members| &**members)
    }
}

/// The groups that a policy names.
fn groups_of(policy: &Policy) -> BTreeSet<GroupName> {
    let mut groups = BTreeSet::new();
    let isolated = policy.isolations.iter().flat_map(|isolation| &*isolation.subjects);
    for subject in isolated.chain(policy.rules.iter().flat_map(|rule| &*rule.subjects)) {
        if let Subject::Group { group, .. } = subject {
            groups.insert(group.clone());
        }
    }
    for rule in &policy.rules {
        if let Peers::Of(peers) = &rule.peers {
            for peer in peers {
                if let Peer::Group(group) = peer {
                    groups.insert(group.clone());
                }
            }
        }
    }
    groups
}

/// The tier that a policy names.
fn tier_of(policy: &Policy) -> Option<&SmolStr> {
    match &policy.placement {
        Placement::Tier { tier: Tier::Named(name), .. } => Some(name),
        _ => None,
    }
}

// === impl Origin ===

impl From<&Policy> for Origin {
    fn from(policy: &Policy) -> Self {
        let rule = |rule: &Rule| RuleOrigin {
            direction: rule.direction,
            index: rule.index,
            name: rule.name.clone(),
            at: rule.at.clone(),
        };
        Origin { object: Arc::clone(&policy.object), rules: policy.rules.iter().map(rule).collect() }
    }
}
