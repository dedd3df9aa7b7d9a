//! A node's part of a delta: what of it the node needs, and what it needs or does not need any more because of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::delta::{Change, CompiledRule, Delta, Member, Members, Moved, Need, Part};
use crate::id::{PolicyId, RuleId, SetId};
use crate::shapes::Few;
use crate::view::{OutOfStep, View};

/// What a delta took away, as it was.
#[derive(Debug, Default)]
struct Gone {
    rules: BTreeMap<RuleId, Arc<CompiledRule>>,
    needs: BTreeSet<Need>,
}

/// What a delta brought, gathered once for all nodes.
#[derive(Debug, Default)]
struct Came<'a> {
    needs: BTreeSet<&'a Need>,
    rules: BTreeMap<RuleId, &'a Arc<CompiledRule>>,
    policies: Vec<PolicyId>,
    moves: Vec<&'a Moved>,
    /// The sets of which a node needs more or less; under no node those of which all do.
    touched: BTreeMap<Option<&'a str>, BTreeSet<SetId>>,
}

/// Rules by number.
type Rules<'a> = BTreeMap<RuleId, &'a Arc<CompiledRule>>;

/// How much of a set a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Has {
    Nothing,
    Here,
    All,
}

impl View {
    /// Takes the next delta, and says for each of these nodes what it is to take. There are no needs in it: it is what the
    /// node needs. What comes to the node with a delta comes as it is after it, so where a namespace changes that other
    /// rules of the node name too, the part is for applying at once.
    pub fn follow_for(&mut self, delta: &Delta, nodes: &[&str]) -> Result<Vec<Delta>, OutOfStep> {
        let mut gone = Gone::default();
        for change in &delta.changes {
            match change {
                Change::RuleRemoved(id) => {
                    gone.rules.extend(self.rules.get(id).map(|rule| (*id, Arc::clone(rule))));
                }
                Change::NeedRemoved(need) => drop(gone.needs.insert(need.clone())),
                Change::SetRemoved(id) => {
                    let first = Need { set: *id, part: Part::Subject, node: None };
                    let own = self.needs.range(first..).take_while(|need| need.set == *id);
                    gone.needs.extend(own.cloned());
                }
                _ => {}
            }
        }
        self.follow(delta)?;
        let came = Came::of(delta, &gone);
        Ok(nodes.iter().map(|node| self.part(delta, &gone, &came, node)).collect())
    }

    fn part(&self, delta: &Delta, gone: &Gone, came: &Came<'_>, node: &str) -> Delta {
        let step = Step::new(self, gone, came, node);
        let mut changes = Vec::new();
        let (came, went) = step.rules();
        changes.extend(step.policies(&came));
        for set in step.touched.iter().copied() {
            if step.before(set) == Has::Nothing && step.now(set) > Has::Nothing {
                let content = Arc::clone(&self.sets[&set].selection);
                changes.push(Change::SetAdded(set, content, self.had(set, step.now(set), node)));
            }
        }
        let mut came: Vec<(RuleId, &Arc<CompiledRule>)> = came.into_iter().collect();
        came.sort_by_key(|(_, rule)| rule.effect.turn(rule.rank));
        changes.extend(came.iter().map(|(id, rule)| Change::RuleAdded(*id, Arc::clone(rule))));
        let moves = step.moves();
        if !moves.is_empty() {
            changes.push(Change::MembersMoved(moves));
        }
        let mut left: Vec<(&RuleId, &Arc<CompiledRule>)> =
            went.iter().map(|(id, rule)| (id, *rule)).collect();
        left.sort_by_key(|(_, rule)| rule.effect.turn(rule.rank));
        changes.extend(left.iter().rev().map(|(id, _)| Change::RuleRemoved(**id)));
        for set in step.touched.iter().copied() {
            if step.before(set) > Has::Nothing && step.now(set) == Has::Nothing {
                changes.push(Change::SetRemoved(set));
            }
        }
        changes.extend(step.policies_gone(&went));
        Delta { epoch: delta.epoch, changes }
    }

    /// The members of a set that a node has.
    fn had(&self, set: SetId, has: Has, node: &str) -> Vec<Arc<Member>> {
        let members = self.sets.get(&set).into_iter().flat_map(|set| &set.members);
        members.filter(|member| is_had(member, has, node)).cloned().collect()
    }
}

fn is_had(member: &Member, has: Has, node: &str) -> bool {
    match has {
        Has::Nothing => false,
        Has::Here => member.is_on(node),
        Has::All => true,
    }
}

// === impl Came ===

impl<'a> Came<'a> {
    fn of(delta: &'a Delta, gone: &'a Gone) -> Self {
        let mut came = Came::default();
        for change in &delta.changes {
            match change {
                Change::NeedAdded(need) => drop(came.needs.insert(need)),
                Change::RuleAdded(id, rule) => drop(came.rules.insert(*id, rule)),
                Change::PolicyApplied(id, _) => came.policies.push(*id),
                Change::MembersMoved(moves) => came.moves.extend(moves),
                _ => {}
            }
        }
        for need in came.needs.iter().copied().chain(&gone.needs) {
            came.touched.entry(need.node.as_deref()).or_default().insert(need.set);
        }
        came
    }
}

/// A delta, as a node sees it.
struct Step<'a> {
    view: &'a View,
    gone: &'a Gone,
    came: &'a Came<'a>,
    node: &'a str,
    /// The sets of which the node has more or less now.
    touched: BTreeSet<SetId>,
}

// === impl Step ===

impl<'a> Step<'a> {
    fn new(view: &'a View, gone: &'a Gone, came: &'a Came<'a>, node: &'a str) -> Self {
        let own = [None, Some(node)].into_iter().filter_map(|node| came.touched.get(&node));
        let touched = own.flatten().copied().collect();
        Step { view, gone, came, node, touched }
    }

    fn needed_now(&self, set: SetId, part: Part) -> bool {
        self.view.is_needed(set, part, self.node)
    }

    fn needed_before(&self, set: SetId, part: Part) -> bool {
        [None, Some(self.node.into())].into_iter().any(|node| {
            let need = Need { set, part, node };
            self.gone.needs.contains(&need)
                || self.view.needs.contains(&need) && !self.came.needs.contains(&need)
        })
    }

    fn now(&self, set: SetId) -> Has {
        has(|part| self.needed_now(set, part))
    }

    fn before(&self, set: SetId) -> Has {
        has(|part| self.needed_before(set, part))
    }

    /// The rules that come to the node, and those that leave it.
    fn rules(&self) -> (Rules<'a>, Rules<'a>) {
        let (mut came, mut went) = (BTreeMap::new(), BTreeMap::new());
        let subjects = self.touched.iter().copied();
        let changed: BTreeSet<SetId> = subjects
            .filter(|set| self.needed_now(*set, Part::Subject) != self.needed_before(*set, Part::Subject))
            .collect();
        for (id, rule) in &self.came.rules {
            if self.needed_now(rule.subject, Part::Subject) {
                came.insert(*id, *rule);
            }
        }
        for (id, rule) in &self.gone.rules {
            if self.needed_before(rule.subject, Part::Subject) {
                went.insert(*id, rule);
            }
        }
        for set in changed {
            for id in self.view.by_subject.get(&set).into_iter().flatten() {
                let Some(rule) = self.view.rules.get(id) else { continue };
                if self.needed_now(set, Part::Subject) {
                    came.insert(*id, rule);
                } else if !self.came.rules.contains_key(id) {
                    went.insert(*id, rule);
                }
            }
        }
        (came, went)
    }

    /// Policies that the node has rules of now and had none of before, and those whose origin is another.
    fn policies(&self, came: &Rules<'_>) -> impl Iterator<Item = Change> {
        let mut policies: BTreeSet<PolicyId> = BTreeSet::new();
        for rule in came.values() {
            if !self.had_rules(rule.policy) {
                policies.insert(rule.policy);
            }
        }
        policies.extend(self.came.policies.iter().copied().filter(|id| self.has_rules(*id)));
        policies
            .into_iter()
            .filter_map(|id| Some(Change::PolicyApplied(id, Arc::clone(self.view.policies.get(&id)?))))
    }

    /// Policies that the node has no rules of any more.
    fn policies_gone(&self, went: &Rules<'_>) -> impl Iterator<Item = Change> {
        let mut policies: BTreeSet<PolicyId> = BTreeSet::new();
        for rule in went.values() {
            if !self.has_rules(rule.policy) {
                policies.insert(rule.policy);
            }
        }
        policies.into_iter().map(Change::PolicyRemoved)
    }

    fn has_rules(&self, policy: PolicyId) -> bool {
        let rules = self.view.by_policy.get(&policy).into_iter().flatten();
        rules
            .filter_map(|id| self.view.rules.get(id))
            .any(|rule| self.needed_now(rule.subject, Part::Subject))
    }

    fn had_rules(&self, policy: PolicyId) -> bool {
        let rules = self.view.by_policy.get(&policy).into_iter().flatten();
        let stayed =
            rules.filter(|id| !self.came.rules.contains_key(id)).filter_map(|id| self.view.rules.get(id));
        let gone = self.gone.rules.values().filter(|rule| rule.policy == policy);
        stayed.chain(gone).any(|rule| self.needed_before(rule.subject, Part::Subject))
    }

    /// Members that come and go in the sets that the node keeps.
    fn moves(&self) -> Vec<Moved> {
        let keeps = |set: &SetId| self.before(*set) > Has::Nothing && self.now(*set) > Has::Nothing;
        let mut moves: Vec<Moved> = Vec::new();
        for moved in &self.came.moves {
            if !moved.joined.iter().chain(&moved.left).any(keeps) {
                continue;
            }
            for member in &moved.members {
                let sets = |sets: &[SetId], has: &dyn Fn(SetId) -> Has| -> Few<SetId> {
                    let own = sets.iter().copied().filter(keeps);
                    own.filter(|set| is_had(member, has(*set), self.node)).collect()
                };
                let joined = sets(&moved.joined, &|set| self.now(set));
                let left = sets(&moved.left, &|set| self.before(set));
                if !(joined.is_empty() && left.is_empty()) {
                    moves.push(Moved { members: Members::from_buf([Arc::clone(member)]), joined, left });
                }
            }
        }
        // Where the node has more or less of a set than before, the others come, or go.
        for set in self.touched.iter().copied().filter(keeps) {
            let (before, now) = (self.before(set), self.now(set));
            if before == now {
                continue;
            }
            let joined = self.joined(set);
            let all = self.view.had(set, Has::All, self.node).into_iter();
            let others: Members =
                all.filter(|member| !member.is_on(self.node) && !joined.contains(member)).collect();
            if !others.is_empty() {
                let own: Few<SetId> = [set].into_iter().collect();
                moves.push(match now {
                    Has::All => Moved { members: others, joined: own, left: Few::new() },
                    _ => Moved { members: others, joined: Few::new(), left: own },
                });
            }
        }
        moves
    }

    /// Who joined a set.
    fn joined(&self, set: SetId) -> BTreeSet<&'a Arc<Member>> {
        let moves = self.came.moves.iter().filter(|moved| moved.joined.contains(&set));
        moves.flat_map(|moved| &moved.members).collect()
    }
}

fn has(needed: impl Fn(Part) -> bool) -> Has {
    match (needed(Part::Subject), needed(Part::Addresses)) {
        (_, true) => Has::All,
        (true, false) => Has::Here,
        (false, false) => Has::Nothing,
    }
}
