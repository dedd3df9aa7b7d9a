//! A copy of what the index says, that follows its deltas: what a backend, an agent or a test works with.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smol_str::SmolStr;
use thiserror::Error;

use crate::delta::{Change, Delta, Member, MemberKind, Need, Origin, Part, PolicyId, Rule, RuleId, SetId};
use crate::selection::Selection;

mod text;

/// Everything the index says, or a node's part of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct View {
    pub(crate) epoch: u64,
    pub(crate) policies: BTreeMap<PolicyId, Arc<Origin>>,
    pub(crate) sets: BTreeMap<SetId, Set>,
    pub(crate) rules: BTreeMap<RuleId, Arc<Rule>>,
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

/// A delta that does not fit. Not retryable: the copy has missed something, and needs a new beginning.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum OutOfStep {
    /// It is not the next one.
    #[error("a delta of epoch {found} cannot follow epoch {at}")]
    Epoch {
        /// Where the copy is.
        at: u64,
        /// What came.
        found: u64,
    },
    /// It is about something that is not as it says.
    #[error("epoch {epoch}: {what}")]
    Content {
        /// Which delta.
        epoch: u64,
        /// What does not fit.
        what: String,
    },
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
    pub fn rules(&self) -> &BTreeMap<RuleId, Arc<Rule>> {
        &self.rules
    }

    /// The rules that apply to a set.
    pub fn rules_of(&self, subject: SetId) -> impl Iterator<Item = &Rule> {
        let rules = self.by_subject.get(&subject).into_iter().flatten();
        rules.filter_map(|rule| self.rules.get(rule)).map(|rule| &**rule)
    }

    /// Which of two rules of one direction is asked first: by their places, and at the same place by their policies.
    pub fn compare(&self, one: &Rule, other: &Rule) -> Ordering {
        let object = |rule: &Rule| self.policies.get(&rule.policy).map(|origin| &origin.object);
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
            self.step(change).map_err(|what| OutOfStep::Content { epoch: delta.epoch, what })?;
        }
        self.epoch = delta.epoch;
        Ok(())
    }

    /// Takes one change of a delta.
    pub fn step(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::Policy(id, origin) => drop(self.policies.insert(*id, Arc::clone(origin))),
            Change::Set(id, selection, members) => {
                let set =
                    Set { selection: Arc::clone(selection), members: members.iter().cloned().collect() };
                if self.sets.insert(*id, set).is_some() {
                    return Err(format!("set {id} is there already"));
                }
            }
            Change::Rule(id, rule) => self.add_rule(*id, rule)?,
            Change::Need(need) => {
                if !self.sets.contains_key(&need.set) || !self.needs.insert(need.clone()) {
                    return Err(format!("{need:?} is there already, or its set is not"));
                }
            }
            Change::Move(moves) => {
                // All that leave go first: somebody with another address is not twice anywhere.
                for moved in moves {
                    self.leave(&moved.members, &moved.left)?;
                }
                for moved in moves {
                    self.join(&moved.members, &moved.joined)?;
                }
            }
            Change::NoNeed(need) => {
                if !self.needs.remove(need) {
                    return Err(format!("{need:?} is not there"));
                }
            }
            Change::NoRule(id) => self.remove_rule(*id)?,
            Change::NoSet(id) => {
                let named = |rule: &Arc<Rule>| rule.sets().any(|set| set == *id);
                if self.by_subject.contains_key(id)
                    || cfg!(debug_assertions) && self.rules.values().any(named)
                {
                    return Err(format!("set {id} is still named"));
                }
                self.sets.remove(id).ok_or_else(|| format!("set {id} is not there"))?;
                let own = |part, node| Need { set: *id, part, node };
                let first = own(Part::Subject, None);
                let gone: Vec<Need> =
                    self.needs.range(first..).take_while(|need| need.set == *id).cloned().collect();
                for need in gone {
                    self.needs.remove(&need);
                }
            }
            Change::NoPolicy(id) => {
                if self.by_policy.contains_key(id) {
                    return Err(format!("policy {id} still has rules"));
                }
                self.policies.remove(id).ok_or_else(|| format!("policy {id} is not there"))?;
            }
        }
        Ok(())
    }

    fn add_rule(&mut self, id: RuleId, rule: &Arc<Rule>) -> Result<(), String> {
        if !self.policies.contains_key(&rule.policy) {
            return Err(format!("rule {id} comes before its policy"));
        }
        if let Some(set) = rule.sets().find(|set| !self.sets.contains_key(set)) {
            return Err(format!("rule {id} comes before its set {set}"));
        }
        self.by_subject.entry(rule.subject).or_default().insert(id);
        self.by_policy.entry(rule.policy).or_default().insert(id);
        match self.rules.insert(id, Arc::clone(rule)) {
            Some(_) => Err(format!("rule {id} is there already")),
            None => Ok(()),
        }
    }

    fn remove_rule(&mut self, id: RuleId) -> Result<(), String> {
        let rule = self.rules.remove(&id).ok_or_else(|| format!("rule {id} is not there"))?;
        remove(&mut self.by_subject, rule.subject, id);
        remove(&mut self.by_policy, rule.policy, id);
        Ok(())
    }

    fn leave(&mut self, members: &[Arc<Member>], sets: &[SetId]) -> Result<(), String> {
        for id in sets {
            let set = self.sets.get_mut(id).ok_or_else(|| format!("set {id} is not there"))?;
            for member in members {
                if !set.members.remove(member) {
                    return Err(format!("{member:?} is not in set {id}"));
                }
            }
        }
        Ok(())
    }

    fn join(&mut self, members: &[Arc<Member>], sets: &[SetId]) -> Result<(), String> {
        for id in sets {
            let set = self.sets.get_mut(id).ok_or_else(|| format!("set {id} is not there"))?;
            for member in members {
                if !set.members.insert(Arc::clone(member)) {
                    return Err(format!("{member:?} is in set {id} already"));
                }
            }
        }
        Ok(())
    }

    /// The whole as a delta, for somebody who has nothing yet.
    pub fn as_delta(&self) -> Delta {
        let mut changes: Vec<Change> = Vec::new();
        changes.extend(self.policies.iter().map(|(id, origin)| Change::Policy(*id, Arc::clone(origin))));
        changes.extend(self.sets.iter().map(|(id, set)| {
            Change::Set(*id, Arc::clone(&set.selection), set.members.iter().cloned().collect())
        }));
        let mut rules: Vec<(&RuleId, &Arc<Rule>)> = self.rules.iter().collect();
        rules.sort_by_key(|(_, rule)| rule.effect.turn(rule.rank));
        changes.extend(rules.into_iter().map(|(id, rule)| Change::Rule(*id, Arc::clone(rule))));
        changes.extend(self.needs.iter().cloned().map(Change::Need));
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

fn remove(index: &mut BTreeMap<u32, BTreeSet<u32>>, key: u32, id: u32) {
    if let Some(ids) = index.get_mut(&key) {
        ids.remove(&id);
        if ids.is_empty() {
            index.remove(&key);
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

// === impl Rule ===

impl Rule {
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
