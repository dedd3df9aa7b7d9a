//! A copy of what the index says, that follows its deltas: what a backend, an agent or a test works with.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smol_str::SmolStr;
use thiserror::Error;

use crate::delta::{
    Change, CompiledRule, Delta, Member, MemberKind, Need, Origin, Part, PolicyId, RuleId, SetId,
};
use crate::selection::Selection;

mod text;

/// Everything the index says, or a node's part of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    pub(crate) epoch: u64,
    pub(crate) policies: BTreeMap<PolicyId, Arc<Origin>>,
    pub(crate) sets: BTreeMap<SetId, Set>,
    pub(crate) rules: BTreeMap<RuleId, Arc<CompiledRule>>,
    /// The rules that apply to a set, and those of a policy.
    pub(crate) by_subject: BTreeMap<SetId, BTreeSet<RuleId>>,
    pub(crate) by_policy: BTreeMap<PolicyId, BTreeSet<RuleId>>,
    pub(crate) needs: BTreeSet<Need>,
}

/// A set.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// What it selects.
    pub selection: Arc<Selection>,
    /// Who that is.
    pub members: BTreeSet<Arc<Member>>,
}

/// Why a view cannot follow a delta. Not retryable: the view has missed a delta and must start from a whole view again.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OutOfStep {
    /// The delta does not follow the view's epoch.
    #[error("a delta of epoch {found} cannot follow epoch {at}")]
    Epoch {
        /// The view's epoch.
        at: u64,
        /// The delta's epoch.
        found: u64,
    },
    /// A change of the delta contradicts the view.
    #[error("epoch {epoch}: {cause}")]
    Change {
        /// The delta's epoch.
        epoch: u64,
        /// The contradiction.
        #[source]
        cause: Contradiction,
    },
}

/// How a change contradicts the view that it is applied to. Not retryable.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Contradiction {
    /// A set is added twice.
    #[error("set {0} exists already")]
    SetExists(SetId),
    /// A change names a set that does not exist.
    #[error("set {0} does not exist")]
    SetMissing(SetId),
    /// A set is removed while a rule names it.
    #[error("set {0} is removed while a rule names it")]
    SetInUse(SetId),
    /// A rule is added twice.
    #[error("rule {0} exists already")]
    RuleExists(RuleId),
    /// A rule is removed that does not exist.
    #[error("rule {0} does not exist")]
    RuleMissing(RuleId),
    /// A rule is added before its policy.
    #[error("rule {0} is added before its policy {1}")]
    RuleBeforePolicy(RuleId, PolicyId),
    /// A rule is added before a set that it names.
    #[error("rule {0} is added before its set {1}")]
    RuleBeforeSet(RuleId, SetId),
    /// A policy is removed that does not exist.
    #[error("policy {0} does not exist")]
    PolicyMissing(PolicyId),
    /// A policy is removed while a rule is of it.
    #[error("policy {0} is removed while it has rules")]
    PolicyInUse(PolicyId),
    /// A need is added twice.
    #[error("the need for set {} of {} exists already", .0.set, node(.0))]
    NeedExists(Need),
    /// A need is removed that does not exist.
    #[error("the need for set {} of {} does not exist", .0.set, node(.0))]
    NeedMissing(Need),
    /// A member joins a set twice.
    #[error("{1} is in set {0} already")]
    MemberExists(SetId, Arc<Member>),
    /// A member leaves a set that it is not in.
    #[error("{1} is not in set {0}")]
    MemberMissing(SetId, Arc<Member>),
}

fn node(need: &Need) -> &str {
    need.node.as_deref().unwrap_or("every node")
}

// === impl View ===

impl View {
    /// After how many events that changed something.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The policies.
    pub fn policies(&self) -> &BTreeMap<PolicyId, Arc<Origin>> {
        &self.policies
    }

    /// The sets.
    pub fn sets(&self) -> &BTreeMap<SetId, Set> {
        &self.sets
    }

    /// The rules.
    pub fn rules(&self) -> &BTreeMap<RuleId, Arc<CompiledRule>> {
        &self.rules
    }

    /// The rules that apply to a set.
    pub fn rules_of(&self, subject: SetId) -> impl Iterator<Item = &CompiledRule> {
        let rules = self.by_subject.get(&subject).into_iter().flatten();
        rules.filter_map(|rule| self.rules.get(rule)).map(|rule| &**rule)
    }

    /// Which of two rules of one direction is asked first: by their places, and at the same place by their policies.
    pub fn compare(&self, one: &CompiledRule, other: &CompiledRule) -> Ordering {
        let object = |rule: &CompiledRule| self.policies.get(&rule.policy).map(|origin| &origin.object);
        let by_policy = || object(one).cmp(&object(other));
        one.rank.cmp(&other.rank).then_with(by_policy).then_with(|| one.rule.cmp(&other.rule))
    }

    /// The numbers of the rules that apply to a set.
    pub fn rule_ids_of(&self, subject: SetId) -> impl Iterator<Item = RuleId> {
        self.by_subject.get(&subject).into_iter().flatten().copied()
    }

    /// Who needs what.
    pub fn needs(&self) -> &BTreeSet<Need> {
        &self.needs
    }

    /// Takes the next delta.
    pub fn follow(&mut self, delta: &Delta) -> Result<(), OutOfStep> {
        self.follow_with(delta, |_, _| {})
    }

    /// Takes the next delta, and shows each of its changes to somebody, with what is there before it is made.
    pub fn follow_with(
        &mut self,
        delta: &Delta,
        mut look: impl FnMut(&View, &Change),
    ) -> Result<(), OutOfStep> {
        let idle = delta.changes.is_empty() && delta.epoch == self.epoch;
        if !idle && delta.epoch != self.epoch + 1 {
            return Err(OutOfStep::Epoch { at: self.epoch, found: delta.epoch });
        }
        self.take(delta, &mut look)
    }

    fn take(&mut self, delta: &Delta, look: &mut impl FnMut(&View, &Change)) -> Result<(), OutOfStep> {
        for change in &delta.changes {
            look(self, change);
            self.step(change).map_err(|cause| OutOfStep::Change { epoch: delta.epoch, cause })?;
        }
        self.epoch = delta.epoch;
        Ok(())
    }

    /// Applies one change of a delta.
    pub fn step(&mut self, change: &Change) -> Result<(), Contradiction> {
        match change {
            Change::PolicyApplied(id, origin) => drop(self.policies.insert(*id, Arc::clone(origin))),
            Change::SetAdded(id, selection, members) => {
                let set =
                    Set { selection: Arc::clone(selection), members: members.iter().cloned().collect() };
                if self.sets.insert(*id, set).is_some() {
                    return Err(Contradiction::SetExists(*id));
                }
            }
            Change::RuleAdded(id, rule) => self.add_rule(*id, rule)?,
            Change::NeedAdded(need) => {
                if !self.sets.contains_key(&need.set) {
                    return Err(Contradiction::SetMissing(need.set));
                }
                if !self.needs.insert(need.clone()) {
                    return Err(Contradiction::NeedExists(need.clone()));
                }
            }
            Change::MembersMoved(moves) => {
                // All that leave go first: somebody with another address is not twice anywhere.
                for moved in moves {
                    self.leave(&moved.members, &moved.left)?;
                }
                for moved in moves {
                    self.join(&moved.members, &moved.joined)?;
                }
            }
            Change::NeedRemoved(need) => {
                if !self.needs.remove(need) {
                    return Err(Contradiction::NeedMissing(need.clone()));
                }
            }
            Change::RuleRemoved(id) => self.remove_rule(*id)?,
            Change::SetRemoved(id) => {
                let named = |rule: &Arc<CompiledRule>| rule.sets().any(|set| set == *id);
                if self.by_subject.contains_key(id)
                    || cfg!(debug_assertions) && self.rules.values().any(named)
                {
                    return Err(Contradiction::SetInUse(*id));
                }
                self.sets.remove(id).ok_or(Contradiction::SetMissing(*id))?;
                let own = |part, node| Need { set: *id, part, node };
                let first = own(Part::Subject, None);
                let gone: Vec<Need> =
                    self.needs.range(first..).take_while(|need| need.set == *id).cloned().collect();
                for need in gone {
                    self.needs.remove(&need);
                }
            }
            Change::PolicyRemoved(id) => {
                if self.by_policy.contains_key(id) {
                    return Err(Contradiction::PolicyInUse(*id));
                }
                self.policies.remove(id).ok_or(Contradiction::PolicyMissing(*id))?;
            }
        }
        Ok(())
    }

    fn add_rule(&mut self, id: RuleId, rule: &Arc<CompiledRule>) -> Result<(), Contradiction> {
        if !self.policies.contains_key(&rule.policy) {
            return Err(Contradiction::RuleBeforePolicy(id, rule.policy));
        }
        if let Some(set) = rule.sets().find(|set| !self.sets.contains_key(set)) {
            return Err(Contradiction::RuleBeforeSet(id, set));
        }
        self.by_subject.entry(rule.subject).or_default().insert(id);
        self.by_policy.entry(rule.policy).or_default().insert(id);
        match self.rules.insert(id, Arc::clone(rule)) {
            Some(_) => Err(Contradiction::RuleExists(id)),
            None => Ok(()),
        }
    }

    fn remove_rule(&mut self, id: RuleId) -> Result<(), Contradiction> {
        let rule = self.rules.remove(&id).ok_or(Contradiction::RuleMissing(id))?;
        remove(&mut self.by_subject, &rule.subject, id);
        remove(&mut self.by_policy, &rule.policy, id);
        Ok(())
    }

    fn leave(&mut self, members: &[Arc<Member>], sets: &[SetId]) -> Result<(), Contradiction> {
        for id in sets {
            let set = self.sets.get_mut(id).ok_or(Contradiction::SetMissing(*id))?;
            for member in members {
                if !set.members.remove(member) {
                    return Err(Contradiction::MemberMissing(*id, Arc::clone(member)));
                }
            }
        }
        Ok(())
    }

    fn join(&mut self, members: &[Arc<Member>], sets: &[SetId]) -> Result<(), Contradiction> {
        for id in sets {
            let set = self.sets.get_mut(id).ok_or(Contradiction::SetMissing(*id))?;
            for member in members {
                if !set.members.insert(Arc::clone(member)) {
                    return Err(Contradiction::MemberExists(*id, Arc::clone(member)));
                }
            }
        }
        Ok(())
    }

    /// The whole as a delta, for somebody who has nothing yet.
    pub fn as_delta(&self) -> Delta {
        let mut changes: Vec<Change> = Vec::new();
        changes
            .extend(self.policies.iter().map(|(id, origin)| Change::PolicyApplied(*id, Arc::clone(origin))));
        changes.extend(self.sets.iter().map(|(id, set)| {
            Change::SetAdded(*id, Arc::clone(&set.selection), set.members.iter().cloned().collect())
        }));
        let mut rules: Vec<(&RuleId, &Arc<CompiledRule>)> = self.rules.iter().collect();
        rules.sort_by_key(|(_, rule)| rule.effect.turn(rule.rank));
        changes.extend(rules.into_iter().map(|(id, rule)| Change::RuleAdded(*id, Arc::clone(rule))));
        changes.extend(self.needs.iter().cloned().map(Change::NeedAdded));
        Delta { epoch: self.epoch, changes }
    }

    /// What a node needs of it, and nothing else.
    pub fn part_of(&self, node: &str) -> View {
        let needs = |set: SetId, part: Part| self.is_needed(set, part, node);
        let mut part = View { epoch: self.epoch, ..View::default() };
        for (id, set) in &self.sets {
            let (subject, addresses) = (needs(*id, Part::Subject), needs(*id, Part::Addresses));
            if subject || addresses {
                let here = |member: &&Arc<Member>| addresses || member.is_on(node);
                let members = set.members.iter().filter(here).cloned().collect();
                part.sets.insert(*id, Set { selection: Arc::clone(&set.selection), members });
            }
            if subject {
                let rules = self.by_subject.get(id).into_iter().flatten();
                for (rule, content) in rules.filter_map(|rule| Some((rule, self.rules.get(rule)?))) {
                    part.rules.insert(*rule, Arc::clone(content));
                    part.by_subject.entry(*id).or_default().insert(*rule);
                    part.by_policy.entry(content.policy).or_default().insert(*rule);
                    if let Some(origin) = self.policies.get(&content.policy) {
                        part.policies.insert(content.policy, Arc::clone(origin));
                    }
                }
            }
        }
        part
    }

    pub(crate) fn is_needed(&self, set: SetId, part: Part, node: &str) -> bool {
        let need = |node| self.needs.contains(&Need { set, part, node });
        need(None) || need(Some(SmolStr::new(node)))
    }
}

fn remove<K: Ord>(index: &mut BTreeMap<K, BTreeSet<RuleId>>, key: &K, id: RuleId) {
    if let Some(ids) = index.get_mut(key) {
        ids.remove(&id);
        if ids.is_empty() {
            index.remove(key);
        }
    }
}

impl TryFrom<&Delta> for View {
    type Error = OutOfStep;

    /// From a whole: see [`View::as_delta`].
    fn try_from(whole: &Delta) -> Result<Self, OutOfStep> {
        let mut view = View::default();
        view.take(whole, &mut |_, _| {})?;
        Ok(view)
    }
}

// === impl CompiledRule ===

impl CompiledRule {
    /// The sets it names.
    pub fn sets(&self) -> impl Iterator<Item = SetId> {
        let peers = self.peers.iter().flatten().copied();
        peers.chain(self.destination).chain([self.subject])
    }
}

// === impl Member ===

impl Member {
    /// Whether it is on a node, or wherever one asks.
    pub fn is_on(&self, node: &str) -> bool {
        self.kind == MemberKind::Service || self.node.as_deref() == Some(node)
    }
}
