//! A program that follows what changes: a node's part of the view in, patches out.
//!
//! A pod that comes or goes is an element in a few sets: nothing is compiled again. New chains are made where somebody needs a list
//! of rules that nobody needed before, or is of a kind that there was nobody of; what is not needed any more goes with the
//! next such change, or with [`Live::tidy`], and then the program is the one from scratch, to the byte.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::delta::{Change, Delta, Member, MemberKind, SetId};
use palisade_engine::selection::{Selection, SetKind};
use palisade_engine::view::{OutOfStep, View};
use palisade_model::policy::Direction;
use smol_str::SmolStr;

use super::Counted;
use super::base::loose;
use super::budget::{Budget, Limit};
use super::decide::Behaviour;
use super::edit::Edit;
use super::index::{Index, is_own, tells_peers};
use super::layers::Everybody;
use super::lists::{Listed, Shared};
use super::names::Names;
use crate::program::{Interface, Name, Program};
use crate::transition::Transition;

/// Which interfaces of a machine lead to pods, and which addresses may come by each: whatever else does is forged.
pub type Wiring = BTreeMap<Interface, BTreeSet<IpAddr>>;

/// A node's program, kept up to date.
#[derive(Debug)]
pub struct Live {
    node: SmolStr,
    pub(super) view: View,
    pub(super) wiring: Wiring,
    pub(super) names: Names,
    pub(super) index: Index,
    pub(super) edit: Edit,
    pub(super) counted: BTreeMap<Name, Counted>,
    lacks: BTreeSet<String>,
    /// Lists that tell too much apart, and what to say about them.
    pub(super) closed: BTreeMap<Name, String>,
    pub(super) lists: BTreeMap<Name, Listed>,
    /// Whom conditions mean, and who is to be told apart otherwise.
    pub(super) everybody: BTreeMap<Name, Everybody>,
    pub(super) classifiers: BTreeMap<Name, Shared>,
    /// Those of the two that a set makes a difference to.
    pub(super) by_set: BTreeMap<SetId, BTreeSet<Name>>,
    /// Those of the two that are new: what is in sets of theirs may be from before.
    pub(super) fresh: BTreeSet<Name>,
    /// Sets that are known to hold what they should.
    pub(super) filled: BTreeSet<Name>,
    /// The lists of each of the node's pods, and of the node.
    pub(super) served: BTreeMap<Arc<Member>, BTreeMap<Direction, Name>>,
    pub(super) node_lists: BTreeMap<Direction, Name>,
    /// What all of it may take.
    pub(super) limit: Limit,
    /// Steps that this change may still take to make lists, and those that all lists, classifiers and chains took.
    pub(super) budget: Budget,
    pub(super) used: u64,
    /// Lists whose chains are to be made again, and whether anything else about chains has changed.
    pub(super) stale: BTreeSet<Name>,
    pub(super) structural: bool,
    /// What each chain behind a list lets through: whether one lets through less than another.
    pub(super) behaviours: BTreeMap<Name, Behaviour>,
    /// The lists that look into each set; those that are gone stay until the change that took them away is made.
    pub(super) readers: BTreeMap<Name, BTreeSet<Name>>,
}

/// What deltas have touched.
#[derive(Debug, Default)]
struct Touched {
    /// Addresses that came into sets or left them.
    peers: BTreeSet<(SetId, IpAddr)>,
    /// The node's own, whose sets are others now.
    own: BTreeSet<Arc<Member>>,
    /// Sets whose rules are others now.
    subjects: BTreeSet<SetId>,
    /// Services whose addresses are others now.
    services: BTreeSet<SetId>,
}

// === impl Live ===

impl Live {
    /// The program for a node's part of the view.
    pub fn new(part: View, node: &str, wiring: Wiring) -> Live {
        Live::within(part, node, wiring, Limit::default())
    }

    /// The same with another limit to the work, in steps of about a nanosecond: what cannot be worked out is denied, and
    /// [`lacks`](Live::lacks) says so.
    pub fn limited(part: View, node: &str, wiring: Wiring, steps: u64) -> Live {
        Live::within(part, node, wiring, Limit::of(steps))
    }

    fn within(part: View, node: &str, wiring: Wiring, limit: Limit) -> Live {
        let mut live = Live {
            node: node.into(),
            view: View::default(),
            wiring,
            names: Names::default(),
            index: Index::default(),
            edit: Edit::default(),
            counted: BTreeMap::new(),
            lacks: BTreeSet::new(),
            closed: BTreeMap::new(),
            lists: BTreeMap::new(),
            everybody: BTreeMap::new(),
            classifiers: BTreeMap::new(),
            by_set: BTreeMap::new(),
            fresh: BTreeSet::new(),
            filled: BTreeSet::new(),
            served: BTreeMap::new(),
            node_lists: BTreeMap::new(),
            limit,
            budget: limit.left(0, 0),
            used: 0,
            stale: BTreeSet::new(),
            structural: true,
            behaviours: BTreeMap::new(),
            readers: BTreeMap::new(),
        };
        let mut touched = Touched::default();
        for change in &part.as_delta().changes {
            touched.note(&part, change, &mut live.index, &mut live.names, node);
        }
        live.view = part;
        live.base_sets();
        live.wire();
        live.take(touched);
        live.transition();
        live
    }

    /// The same from scratch.
    #[must_use]
    pub fn rebuilt(&self) -> Live {
        Live::within(self.view.clone(), &self.node, self.wiring.clone(), self.limit)
    }

    /// The program.
    pub fn program(&self) -> &Program {
        self.edit.program()
    }

    /// What of the policies the kernel cannot do, in words.
    pub fn lacks(&self) -> &BTreeSet<String> {
        &self.lacks
    }

    /// What the counters count.
    pub fn counted(&self) -> &BTreeMap<Name, Counted> {
        &self.counted
    }

    /// The node's part of the view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Which interfaces lead to pods.
    pub fn wiring(&self) -> &Wiring {
        &self.wiring
    }

    /// Takes the next deltas of the node's part as one change. If one does not fit nothing can be said any more: begin anew.
    pub fn follow(&mut self, deltas: &[Delta]) -> Result<Transition, OutOfStep> {
        let mut touched = Touched::default();
        let (index, names, node) = (&mut self.index, &mut self.names, self.node.as_str());
        for delta in deltas {
            self.view.follow_with(delta, |view, change| touched.note(view, change, index, names, node))?;
        }
        self.take(touched);
        Ok(self.transition())
    }

    /// Ends a change: what is to be done to the kernel for it.
    fn transition(&mut self) -> Transition {
        let guard = self.needs_guard().map(|scope| self.edit.program().guard(&scope));
        let patch = self.edit.patch();
        let program = self.edit.program();
        if !patch.is_elements_only() {
            self.behaviours.retain(|chain, _| program.chains.contains_key(chain));
            for lists in self.readers.values_mut() {
                lists.retain(|list| self.lists.contains_key(list));
            }
            self.readers.retain(|_, lists| !lists.is_empty());
        }
        Transition { patch, guard }
    }

    /// The same, and other interfaces lead to pods: one change, so that no address may come without its rules.
    pub fn follow_wired(&mut self, deltas: &[Delta], wiring: Wiring) -> Result<Transition, OutOfStep> {
        self.set_wiring(wiring);
        self.follow(deltas)
    }

    /// Updates the interfaces that lead to pods.
    pub fn rewire(&mut self, wiring: Wiring) -> Transition {
        self.set_wiring(wiring);
        self.finish();
        self.transition()
    }

    fn set_wiring(&mut self, wiring: Wiring) {
        let same = wiring.is_empty() == self.wiring.is_empty();
        self.wiring = wiring;
        if !same {
            self.structural = true;
            self.base_sets();
        }
        self.wire();
    }

    /// Takes away what is kept in case it is needed again soon. After this, the program is the one from scratch.
    pub fn tidy(&mut self) -> Transition {
        self.structural = true;
        self.finish();
        self.transition()
    }

    fn take(&mut self, mut touched: Touched) {
        // The other half is for chains.
        self.budget = self.limit.left(self.index.peers(), self.used).share(2);
        let ruled = |sets: &BTreeSet<SetId>| sets.iter().any(|set| touched.subjects.contains(set));
        if !touched.subjects.is_empty() {
            self.structural = true;
            let own = self.index.own.iter().filter(|(_, sets)| ruled(sets));
            touched.own.extend(own.map(|(member, _)| Arc::clone(member)));
        }
        // Whatever goes makes room for what had none.
        if !touched.own.is_empty() && !self.closed.is_empty() {
            let again = self.worth_another_try();
            let concerns =
                |lists: &BTreeMap<Direction, Name>| lists.values().any(|list| again.contains(list));
            let served = self.served.iter().filter(|(_, lists)| concerns(lists)).map(|(member, _)| member);
            let node = self.index.own.keys().filter(|own| own.kind == MemberKind::Node);
            let node = node.filter(|_| concerns(&self.node_lists));
            touched.own.extend(served.chain(node).cloned());
        }
        let mut addresses: BTreeSet<IpAddr> = BTreeSet::new();
        // First all of them go: what says the same as before may be made of other sets now.
        for member in &touched.own {
            addresses.extend(&member.addresses);
            self.dismiss(member);
        }
        for member in &touched.own {
            self.serve(member);
        }
        for address in addresses {
            self.dispatch(address);
        }
        for (set, address) in touched.peers {
            self.place(set, address);
        }
        for service in touched.services {
            self.stale.extend(self.lists_to(service));
        }
        self.finish();
    }

    /// Takes away the lists of somebody whom nothing is compiled for any more; whoever comes back gets new ones.
    fn dismiss(&mut self, member: &Arc<Member>) {
        let before = if member.kind == MemberKind::Node {
            mem::take(&mut self.node_lists)
        } else {
            self.served.remove(member).unwrap_or_default()
        };
        for list in before.values() {
            self.unlist(list);
        }
    }

    /// Finds the lists of somebody.
    fn serve(&mut self, member: &Arc<Member>) {
        let subjects = self.index.own.get(member).cloned().unwrap_or_default();
        let mut now = BTreeMap::new();
        for direction in Direction::BOTH {
            if self.budget.is_spent() {
                if self.has_rules(&subjects, direction) {
                    now.insert(direction, self.closed_list(direction));
                }
                continue;
            }
            let rules = self.rules(&subjects, direction);
            if let Some(list) = self.list(&rules, direction) {
                now.insert(direction, list);
            }
        }
        if member.kind == MemberKind::Node {
            self.structural = true;
            self.node_lists = now;
        } else if !now.is_empty() {
            self.served.insert(Arc::clone(member), now);
        }
    }

    /// Makes the chains that are to be made, and where any are, takes away what is not needed.
    fn finish(&mut self) {
        if self.stale.is_empty() && !self.structural {
            return;
        }
        self.tidy_peers();
        let mut budget = self.limit.left(self.index.peers(), self.used);
        for list in mem::take(&mut self.stale) {
            self.render(&list, &mut budget);
        }
        self.name_closed();
        self.fresh.clear();
        self.filled.clear();
        self.lacks = super::lacks(&self.view);
        self.lacks.extend(self.closed.values().cloned());
        self.base_chains();
        // A pod may need these with elements alone.
        self.edit.collect(&Direction::BOTH.map(loose));
        let program = self.edit.program();
        self.counted.retain(|name, _| program.counters.contains(name));
        self.structural = false;
        self.note_readers();
    }
}

// === impl Touched ===

impl Touched {
    /// What a change touches, before it is made.
    fn note(&mut self, view: &View, change: &Change, index: &mut Index, names: &mut Names, node: &str) {
        match change {
            Change::SetAdded(id, selection, members) => {
                names.forget_set(*id);
                // Whoever is told apart by a set that comes is served anew, and finds its members there.
                for member in members {
                    index.join(*id, selection, member, node);
                    self.own(member, node);
                }
            }
            Change::SetRemoved(id) => {
                names.forget_set(*id);
                let Some(set) = view.sets().get(id) else { return };
                for member in &set.members {
                    index.leave(*id, &set.selection, member, node);
                    self.own(member, node);
                }
            }
            Change::RuleAdded(id, rule) => {
                names.forget_rule(*id);
                self.subjects.insert(rule.subject);
            }
            Change::RuleRemoved(id) => {
                names.forget_rule(*id);
                self.subjects.extend(view.rules().get(id).map(|rule| rule.subject));
            }
            Change::MembersMoved(moves) => {
                let selection = |set: &SetId| view.sets().get(set).map(|set| Arc::clone(&set.selection));
                for moved in moves {
                    for (set, selection) in moved.left.iter().filter_map(|set| Some((*set, selection(set)?)))
                    {
                        for member in &moved.members {
                            index.leave(set, &selection, member, node);
                            self.member(set, &selection, member, node);
                        }
                    }
                }
                for moved in moves {
                    for (set, selection) in
                        moved.joined.iter().filter_map(|set| Some((*set, selection(set)?)))
                    {
                        for member in &moved.members {
                            index.join(set, &selection, member, node);
                            self.member(set, &selection, member, node);
                        }
                    }
                }
            }
            Change::PolicyApplied(..)
            | Change::PolicyRemoved(_)
            | Change::NeedAdded(_)
            | Change::NeedRemoved(_) => {}
        }
    }

    fn member(&mut self, set: SetId, selection: &Selection, member: &Arc<Member>, node: &str) {
        if tells_peers(selection) {
            self.peers.extend(member.addresses.iter().map(|address| (set, *address)));
        }
        if selection.kind() == SetKind::Service {
            self.services.insert(set);
        }
        self.own(member, node);
    }

    fn own(&mut self, member: &Arc<Member>, node: &str) {
        if is_own(member, node) {
            self.own.insert(Arc::clone(member));
        }
    }
}
