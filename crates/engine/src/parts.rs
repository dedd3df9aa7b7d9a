//! A node's part of a delta: what of it the node needs, and what it needs or does not need any more because of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::delta::{Change, Delta, Does, Member, Members, Moved, Need, Part, PolicyId, Rule, RuleId, SetId};
use crate::shapes::Few;
use crate::view::{OutOfStep, View};

/// What a delta took away, as it was.
#[derive(Debug, Default)]
struct Gone {
    rules: BTreeMap<RuleId, Arc<Rule>>,
    needs: BTreeSet<Need>,
}

/// Rules by number.
type Rules<'a> = BTreeMap<RuleId, &'a Arc<Rule>>;

/// How much of a set a node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Has {
    Nothing,
    Here,
    All,
}

impl View {
    /// Takes the next delta, and says for each of these nodes what it is to take. A node's part never has a number for
    /// needs: it is what the node needs.
    pub fn follow_for(&mut self, delta: &Delta, nodes: &[&str]) -> Result<Vec<Delta>, OutOfStep> {
        let mut gone = Gone::default();
        for change in &delta.changes {
            match change {
                Change::NoRule(id) => {
                    gone.rules.extend(self.rules.get(id).map(|rule| (*id, Arc::clone(rule))));
                }
                Change::NoNeed(need) => drop(gone.needs.insert(need.clone())),
                Change::NoSet(id) => {
                    let first = Need { set: *id, part: Part::Subject, node: None };
                    let own = self.needs.range(first..).take_while(|need| need.set == *id);
                    gone.needs.extend(own.cloned());
                }
                _ => {}
            }
        }
        self.follow(delta)?;
        Ok(nodes.iter().map(|node| self.part(delta, &gone, node)).collect())
    }

    fn part(&self, delta: &Delta, gone: &Gone, node: &str) -> Delta {
        let step = Step::new(self, delta, gone, node);
        let mut changes = Vec::new();
        let (came, went) = step.rules();
        changes.extend(step.policies(&came));
        for set in step.touched.iter().copied() {
            if step.before(set) == Has::Nothing && step.now(set) > Has::Nothing {
                let content = Arc::clone(&self.sets[&set].content);
                changes.push(Change::Set(set, content, self.had(set, step.now(set), node)));
            }
        }
        let mut came: Vec<(RuleId, &Arc<Rule>)> = came.into_iter().collect();
        came.sort_by_key(|(_, rule)| (rule.order, rule.does == Does::Isolate));
        changes.extend(came.iter().map(|(id, rule)| Change::Rule(*id, Arc::clone(rule))));
        let moves = step.moves();
        if !moves.is_empty() {
            changes.push(Change::Move(moves));
        }
        let mut left: Vec<(&RuleId, &Arc<Rule>)> = went.iter().map(|(id, rule)| (id, *rule)).collect();
        left.sort_by_key(|(_, rule)| (rule.order, rule.does == Does::Isolate));
        changes.extend(left.iter().rev().map(|(id, _)| Change::NoRule(**id)));
        for set in step.touched.iter().copied() {
            if step.before(set) > Has::Nothing && step.now(set) == Has::Nothing {
                changes.push(Change::NoSet(set));
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

/// A delta, as a node sees it.
struct Step<'a> {
    view: &'a View,
    delta: &'a Delta,
    gone: &'a Gone,
    node: &'a str,
    /// Needs that came.
    needs: BTreeSet<&'a Need>,
    /// Rules that came, for everybody.
    rules: BTreeSet<RuleId>,
    /// The sets of which the node has more or less now.
    touched: BTreeSet<SetId>,
}

// === impl Step ===

impl<'a> Step<'a> {
    fn new(view: &'a View, delta: &'a Delta, gone: &'a Gone, node: &'a str) -> Self {
        let mut step = Step {
            view,
            delta,
            gone,
            node,
            needs: BTreeSet::new(),
            rules: BTreeSet::new(),
            touched: BTreeSet::new(),
        };
        for change in &delta.changes {
            match change {
                Change::Need(need) => drop(step.needs.insert(need)),
                Change::Rule(id, _) => drop(step.rules.insert(*id)),
                _ => {}
            }
        }
        let own = |need: &&&Need| need.node.as_deref().is_none_or(|own| own == node);
        let needs = step.needs.iter().copied().chain(&gone.needs);
        step.touched = needs.filter(|need| own(&need)).map(|need| need.set).collect();
        step
    }

    fn needed_now(&self, set: SetId, part: Part) -> bool {
        self.view.is_needed(set, part, self.node)
    }

    fn needed_before(&self, set: SetId, part: Part) -> bool {
        [None, Some(self.node.into())].into_iter().any(|node| {
            let need = Need { set, part, node };
            self.gone.needs.contains(&need) || self.view.needs.contains(&need) && !self.needs.contains(&need)
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
        for change in &self.delta.changes {
            if let Change::Rule(id, rule) = change
                && self.needed_now(rule.subject, Part::Subject)
            {
                came.insert(*id, rule);
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
                } else if !self.rules.contains(id) {
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
        for change in &self.delta.changes {
            if let Change::Policy(id, _) = change
                && self.has_rules(*id)
            {
                policies.insert(*id);
            }
        }
        policies
            .into_iter()
            .filter_map(|id| Some(Change::Policy(id, Arc::clone(self.view.policies.get(&id)?))))
    }

    /// Policies that the node has no rules of any more.
    fn policies_gone(&self, went: &Rules<'_>) -> impl Iterator<Item = Change> {
        let mut policies: BTreeSet<PolicyId> = BTreeSet::new();
        for rule in went.values() {
            if !self.has_rules(rule.policy) {
                policies.insert(rule.policy);
            }
        }
        policies.into_iter().map(Change::NoPolicy)
    }

    fn has_rules(&self, policy: PolicyId) -> bool {
        let rules = self.view.by_policy.get(&policy).into_iter().flatten();
        rules
            .filter_map(|id| self.view.rules.get(id))
            .any(|rule| self.needed_now(rule.subject, Part::Subject))
    }

    fn had_rules(&self, policy: PolicyId) -> bool {
        let rules = self.view.by_policy.get(&policy).into_iter().flatten();
        let stayed = rules.filter(|id| !self.rules.contains(id)).filter_map(|id| self.view.rules.get(id));
        let gone = self.gone.rules.values().filter(|rule| rule.policy == policy);
        stayed.chain(gone).any(|rule| self.needed_before(rule.subject, Part::Subject))
    }

    /// Members that come and go in the sets that the node keeps.
    fn moves(&self) -> Vec<Moved> {
        let keeps = |set: &SetId| self.before(*set) > Has::Nothing && self.now(*set) > Has::Nothing;
        let mut moves: Vec<Moved> = Vec::new();
        for change in &self.delta.changes {
            let Change::Move(all) = change else { continue };
            for moved in all {
                for member in &moved.members {
                    let sets = |sets: &[SetId], has: &dyn Fn(SetId) -> Has| -> Few {
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
                let own: Few = [set].into_iter().collect();
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
        let mut joined = BTreeSet::new();
        for change in &self.delta.changes {
            let Change::Move(all) = change else { continue };
            for moved in all.iter().filter(|moved| moved.joined.contains(&set)) {
                joined.extend(&moved.members);
            }
        }
        joined
    }
}

fn has(needed: impl Fn(Part) -> bool) -> Has {
    match (needed(Part::Subject), needed(Part::Addresses)) {
        (_, true) => Has::All,
        (true, false) => Has::Here,
        (false, false) => Has::Nothing,
    }
}
