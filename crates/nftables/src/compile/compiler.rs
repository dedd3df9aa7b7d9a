//! The compiler of a node: keeps its program up to date with its part of the view.
//!
//! A pod that starts or stops is an element in a few sets: nothing is compiled again. New chains are written where an endpoint
//! needs a list that no endpoint needed before, or a peer is the first of its class. What is no longer needed is removed with the
//! next such change, or with [`Compiler::tidy`]; then the program is the one from scratch, to the byte.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::delta::{Change, Delta, Member, MemberKind, SetId};
use palisade_engine::selection::{Selection, SetKind};
use palisade_engine::view::{OutOfStep, View};
use palisade_flatten::{Budget, Digest, FlatVerdicts, Limit, has_peer_addresses};
use palisade_model::policy::Direction;
use smol_str::SmolStr;

use super::Counted;
use super::base::loose;
use super::edit::Edit;
use super::index::{Index, is_own};
use super::lists::{CompiledList, ListClasses};
use super::names::Digests;
use super::shared_sets::SharedSet;
use crate::program::{Interface, Name, Program};
use crate::transition::Transition;

/// The interfaces of a machine that lead to pods, each with the addresses that packets from it may have; packets with others are
/// forged.
pub type Wiring = BTreeMap<Interface, BTreeSet<IpAddr>>;

/// Compiles a node's part of the view, and what changes in it.
#[derive(Debug)]
pub struct Compiler {
    node: SmolStr,
    pub(super) view: View,
    pub(super) wiring: Wiring,
    pub(super) digests: Digests,
    pub(super) index: Index,
    pub(super) edit: Edit,
    pub(super) counted: BTreeMap<Name, Counted>,
    lacks: BTreeSet<String>,
    /// Lists that deny something for want of room, with the message about each.
    pub(super) closed: BTreeMap<Name, String>,
    pub(super) lists: BTreeMap<Name, CompiledList>,
    /// Sets of conditions that are looked up by themselves.
    pub(super) shared: BTreeMap<Digest, SharedSet>,
    /// Classes of all other peers.
    pub(super) classes: BTreeMap<Digest, ListClasses>,
    /// Those of the two that distinguish peers by a set.
    pub(super) by_set: BTreeMap<SetId, BTreeSet<Digest>>,
    /// Those of the two that are new: a kernel set of theirs may have elements from before.
    pub(super) fresh: BTreeSet<Digest>,
    /// Kernel sets that have been filled in this change.
    pub(super) filled: BTreeSet<Name>,
    /// The lists of each of the node's pods.
    pub(super) pod_lists: BTreeMap<Arc<Member>, BTreeMap<Direction, Name>>,
    pub(super) node_lists: BTreeMap<Direction, Name>,
    /// Maximum number of steps for everything.
    pub(super) limit: Limit,
    /// Steps that this change may still take for lists.
    pub(super) budget: Budget,
    /// Steps that all lists, classes and chains took.
    pub(super) used: u64,
    /// Lists whose chains must be written again.
    pub(super) stale: BTreeSet<Name>,
    /// Whether anything else about chains has changed.
    pub(super) structural: bool,
    /// The verdicts of each chain behind a list, for comparisons.
    pub(super) verdicts: BTreeMap<Name, FlatVerdicts>,
    /// The lists that look into each kernel set; removed lists stay until their removal is applied.
    pub(super) readers: BTreeMap<Name, BTreeSet<Name>>,
}

/// What deltas affect.
#[derive(Debug, Default)]
struct Affected {
    /// Addresses that joined or left sets.
    peers: BTreeSet<(SetId, IpAddr)>,
    /// The node's own endpoints whose sets changed.
    own: BTreeSet<Arc<Member>>,
    /// Sets whose rules changed.
    subjects: BTreeSet<SetId>,
    /// Services whose addresses changed.
    services: BTreeSet<SetId>,
}

// === impl Compiler ===

impl Compiler {
    /// Compiles a node's part of the view.
    pub fn new(part: View, node: &str, wiring: Wiring) -> Compiler {
        Compiler::within(part, node, wiring, Limit::default())
    }

    /// Compiles with another limit to the work, in steps of about a nanosecond. Lists beyond it deny everything, and
    /// [`lacks`](Compiler::lacks) has a message about each.
    pub fn limited(part: View, node: &str, wiring: Wiring, steps: u64) -> Compiler {
        Compiler::within(part, node, wiring, Limit::fixed(steps))
    }

    fn within(part: View, node: &str, wiring: Wiring, limit: Limit) -> Compiler {
        let mut compiler = Compiler {
            node: node.into(),
            view: View::default(),
            wiring,
            digests: Digests::default(),
            index: Index::default(),
            edit: Edit::default(),
            counted: BTreeMap::new(),
            lacks: BTreeSet::new(),
            closed: BTreeMap::new(),
            lists: BTreeMap::new(),
            shared: BTreeMap::new(),
            classes: BTreeMap::new(),
            by_set: BTreeMap::new(),
            fresh: BTreeSet::new(),
            filled: BTreeSet::new(),
            pod_lists: BTreeMap::new(),
            node_lists: BTreeMap::new(),
            limit,
            budget: limit.left(0, 0),
            used: 0,
            stale: BTreeSet::new(),
            structural: true,
            verdicts: BTreeMap::new(),
            readers: BTreeMap::new(),
        };
        let mut affected = Affected::default();
        for change in &part.as_delta().changes {
            affected.note(&part, change, &mut compiler.index, &mut compiler.digests, node);
        }
        compiler.view = part;
        compiler.base_sets();
        compiler.wire();
        compiler.apply(affected);
        compiler.transition();
        compiler
    }

    /// Returns a compiler that starts from the same view, without what is left of earlier changes.
    #[must_use]
    pub fn rebuilt(&self) -> Compiler {
        Compiler::within(self.view.clone(), &self.node, self.wiring.clone(), self.limit)
    }

    /// Returns the program.
    pub fn program(&self) -> &Program {
        self.edit.program()
    }

    /// Returns messages about the parts of policies that the kernel does not enforce.
    pub fn lacks(&self) -> &BTreeSet<String> {
        &self.lacks
    }

    /// Returns what each counter counts.
    pub fn counted(&self) -> &BTreeMap<Name, Counted> {
        &self.counted
    }

    /// Returns the node's part of the view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the interfaces that lead to pods.
    pub fn wiring(&self) -> &Wiring {
        &self.wiring
    }

    /// Applies the next deltas of the node's part as one change. Not retryable: after an error the compiler must be replaced by a
    /// new one.
    pub fn follow(&mut self, deltas: &[Delta]) -> Result<Transition, OutOfStep> {
        let mut affected = Affected::default();
        let (index, digests, node) = (&mut self.index, &mut self.digests, self.node.as_str());
        for delta in deltas {
            self.view.follow_with(delta, |view, change| affected.note(view, change, index, digests, node))?;
        }
        self.apply(affected);
        Ok(self.transition())
    }

    /// Ends a change. Returns what it does to the kernel.
    fn transition(&mut self) -> Transition {
        let guard = self.needs_guard().map(|scope| self.edit.program().guard(&scope));
        let patch = self.edit.patch();
        let program = self.edit.program();
        if !patch.is_elements_only() {
            self.verdicts.retain(|chain, _| program.chains.contains_key(chain));
            for lists in self.readers.values_mut() {
                lists.retain(|list| self.lists.contains_key(list));
            }
            self.readers.retain(|_, lists| !lists.is_empty());
        }
        Transition { patch, guard }
    }

    /// Applies deltas and updates the interfaces that lead to pods, as one change: no address is accepted without its rules.
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

    /// Removes what is kept in case it is needed again. After this, the program is the one from scratch.
    pub fn tidy(&mut self) -> Transition {
        self.structural = true;
        self.finish();
        self.transition()
    }

    fn apply(&mut self, mut affected: Affected) {
        // One half is for lists and classes, the other for chains.
        self.budget = self.limit.left(self.index.peers.len(), self.used).share(2);
        let ruled = |sets: &BTreeSet<SetId>| sets.iter().any(|set| affected.subjects.contains(set));
        if !affected.subjects.is_empty() {
            self.structural = true;
            let own = self.index.own.iter().filter(|(_, sets)| ruled(sets));
            affected.own.extend(own.map(|(member, _)| Arc::clone(member)));
        }
        // What is removed makes room for lists that had none.
        if !affected.own.is_empty() && !self.closed.is_empty() {
            let again = self.worth_retrying();
            let concerns =
                |lists: &BTreeMap<Direction, Name>| lists.values().any(|list| again.contains(list));
            let served = self.pod_lists.iter().filter(|(_, lists)| concerns(lists)).map(|(member, _)| member);
            let node = self.index.own.keys().filter(|own| own.kind == MemberKind::Node);
            let node = node.filter(|_| concerns(&self.node_lists));
            affected.own.extend(served.chain(node).cloned());
        }
        let mut addresses: BTreeSet<IpAddr> = BTreeSet::new();
        // All are dismissed first: a list of the same digest may consist of other set numbers now.
        for member in &affected.own {
            addresses.extend(&member.addresses);
            self.release_lists(member);
        }
        for member in &affected.own {
            self.compile_lists(member);
        }
        for address in addresses {
            self.dispatch(address);
        }
        for (set, address) in affected.peers {
            self.place(set, address);
        }
        for service in affected.services {
            self.stale.extend(self.lists_to(service));
        }
        self.finish();
    }

    /// Releases the lists of an endpoint.
    fn release_lists(&mut self, member: &Arc<Member>) {
        let before = if member.kind == MemberKind::Node {
            mem::take(&mut self.node_lists)
        } else {
            self.pod_lists.remove(member).unwrap_or_default()
        };
        for list in before.values() {
            self.release_list(list);
        }
    }

    /// Finds or compiles the lists of an endpoint.
    fn compile_lists(&mut self, member: &Arc<Member>) {
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
            self.pod_lists.insert(Arc::clone(member), now);
        }
    }

    /// Writes stale chains, and removes what is not needed if any chain changed.
    fn finish(&mut self) {
        if self.stale.is_empty() && !self.structural {
            return;
        }
        self.tidy_peers();
        let mut budget = self.limit.left(self.index.peers.len(), self.used);
        for list in mem::take(&mut self.stale) {
            self.render(&list, &mut budget);
        }
        self.report_closed();
        self.fresh.clear();
        self.filled.clear();
        self.lacks = super::lacks(&self.view);
        self.lacks.extend(self.closed.values().cloned());
        self.base_chains();
        // An element of a dispatch map may lead to these without another change of chains.
        self.edit.collect(&Direction::BOTH.map(loose));
        let program = self.edit.program();
        self.counted.retain(|name, _| program.counters.contains(name));
        self.structural = false;
        self.note_readers();
    }
}

// === impl Affected ===

impl Affected {
    /// Notes what a change affects, before the view has it.
    fn note(&mut self, view: &View, change: &Change, index: &mut Index, digests: &mut Digests, node: &str) {
        match change {
            Change::SetAdded(id, selection, members) => {
                // Lists that name a new set are compiled anew, and find its members in the view.
                for member in members {
                    index.join(*id, selection, member, node);
                    self.own(member, node);
                }
            }
            Change::SetRemoved(id) => {
                let Some(set) = view.sets().get(id) else { return };
                for member in &set.members {
                    index.leave(*id, &set.selection, member, node);
                    self.own(member, node);
                }
            }
            Change::RuleAdded(id, rule) => {
                digests.forget(*id);
                self.subjects.insert(rule.subject);
            }
            Change::RuleRemoved(id) => {
                digests.forget(*id);
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
        if has_peer_addresses(selection) {
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
