//! The chain of a list: it looks up the peer, and goes to the chain of its verdicts.
//!
//! Lookups go from the finest distinction to the coarsest: services, members with a class of their own, shared conditions,
//! ranges of addresses, all other addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use palisade_flatten::{
    BYTE, Budget, ClassId, ConditionId, Digest, FlatVerdicts, PeerClasses, RuleList, SharedCondition,
};
use palisade_model::address::Family;
use palisade_model::policy::Direction;

use super::closed::too_much;
use super::{ListClasses, PART, names};
use crate::compile::FAMILIES;
use crate::compile::base::REST;
use crate::compile::chains::{Chains, content_named};
use crate::compile::compiler::Compiler;
use crate::compile::edit::Edit;
use crate::compile::index::address_key;
use crate::program::{Chain, Elements, Field, Key, Match, Name, Rule, Set, Value, Verdict};

/// Flattens a list for several classes of peers, as far as a budget lasts.
struct Flattening<'d> {
    list: &'d RuleList,
    budget: &'d mut Budget,
    /// Whether the verdicts of some class are closed.
    closed: bool,
}

/// Steps for an entry of verdicts: an element or a rule, of 250 bytes.
const ENTRY: u64 = 2_000 + 250 * BYTE;
/// Steps for an element of a map of peers, of 100 bytes.
const ELEMENT: u64 = 300 + 100 * BYTE;

// === impl Compiler ===

impl Compiler {
    /// Writes the chain of a list. It denies everything if the budget is not enough for the verdicts of its peers.
    pub(in crate::compile) fn render(&mut self, name: &Name, budget: &mut Budget) {
        let Some(listed) = self.lists.get_mut(name) else { return };
        let mut own = budget.share(PART);
        let granted = own.left();
        let direction = listed.list.direction();
        let mut rules = Vec::new();
        if listed.via.is_none() {
            rules.push(Rule::new([Match::LooseTcp], Verdict::Drop).comment(REST));
        }
        for (service, to) in &listed.services {
            let members = self.view.sets().get(service).into_iter().flat_map(|set| &set.members);
            let mut keys: BTreeMap<Family, Elements> = BTreeMap::new();
            for address in members.flat_map(|member| &member.addresses) {
                keys.entry(Family::of(*address)).or_default().insert(address_key(*address), None);
            }
            for (family, elements) in keys {
                let field = Field::OriginalDestination(family);
                let set =
                    content_named(&mut self.edit, &[field], elements, false, "the addresses of a service");
                rules.push(Rule::new([Match::In(vec![field], set)], Verdict::Goto(to.clone())));
            }
        }
        let mut chains = Chains {
            view: &self.view,
            edit: &mut self.edit,
            counted: &mut self.counted,
            list: &listed.list,
            verdicts: &mut self.verdicts,
        };
        let classes = listed.classes.as_ref().and_then(|own| self.classes.get(own));
        let peers = classes.map(|classes| &classes.peers);
        let mut flattening = Flattening { list: &listed.list, budget: &mut own, closed: false };
        let is_refused = listed.list.rules().is_empty() && listed.closed_with.is_some();
        let is_closed = peers.is_some_and(PeerClasses::is_closed);
        listed.chains.clear();
        let mut shared_chains: BTreeMap<Digest, Name> = BTreeMap::new();
        let mut others = None;
        if !is_refused && !is_closed {
            if let Some(classes) = classes {
                let peers = &classes.peers;
                flattening.budget.take(ELEMENT * (peers.members().len() + peers.ranges().len()) as u64);
                let shown = classes.shown.iter().map(|(_, class)| *class);
                let ranges = peers.ranges().iter().map(|range| range.class);
                let shared = listed.shared.iter().flat_map(|one| {
                    FAMILIES.into_iter().filter_map(|family| peers.of_shared(one.condition, family))
                });
                let used: BTreeSet<ClassId> = shown.chain(ranges).chain(shared).collect();
                for class in used {
                    let met = peers.get(class).map(|class| class.met.as_slice());
                    let Some(verdicts) = flattening.verdicts(met.unwrap_or_default()) else { break };
                    listed.chains.insert(class, chains.write(&verdicts));
                }
            }
            let has_class = |one: &&SharedCondition| {
                let class = |family| peers?.of_shared(one.condition, family);
                FAMILIES.into_iter().all(|family| class(family).is_some())
            };
            for one in listed.shared.iter().filter(|one| !has_class(one)) {
                let Some(verdicts) = flattening.verdicts(&one.implied) else { break };
                shared_chains.insert(one.digest, chains.write(&verdicts));
            }
            let met = listed.list.met(listed.via.into_iter());
            others = flattening.verdicts(&met).map(|verdicts| chains.write(&verdicts));
        }
        let closed = flattening.closed;
        let cost = granted - own.left();
        budget.put_back(own);
        self.used = self.used.saturating_sub(mem::take(&mut listed.chain_cost));
        let Some(others) = others else {
            rules.truncate(usize::from(listed.via.is_none()));
            let nothing = chains.write(&FlatVerdicts::closed());
            rules.push(Rule::new([], Verdict::Goto(nothing)));
            listed.chains.clear();
            if !is_refused {
                let message = too_much(&self.view, listed.list.rules().iter().map(|rule| &**rule), direction);
                self.closed.insert(name.clone(), message);
            }
            self.edit.chain(name.clone(), Chain { hook: None, rules });
            return;
        };
        listed.chain_cost = cost;
        self.used += cost;
        for family in FAMILIES {
            let field = match direction {
                Direction::Egress => Field::Destination(family),
                Direction::Ingress => Field::Source(family),
            };
            if let Some(classes) = classes {
                let fresh = self.fresh.contains(&classes.digest);
                let fill = (fresh, &mut self.filled);
                write_members(chains.edit, classes, name, field, &listed.chains, fill, &mut rules);
            }
            for one in &listed.shared {
                let Some(shared) = self.shared.get(&one.digest) else { continue };
                if !shared.shown.contains(&family) {
                    continue;
                }
                let class = peers.and_then(|peers| peers.of_shared(one.condition, family));
                let to =
                    class.map_or_else(|| shared_chains.get(&one.digest), |class| listed.chains.get(&class));
                let Some(to) = to.cloned() else { continue };
                let set = names::shared_set(one.digest, family);
                let fresh = self.fresh.contains(&one.digest);
                let elements = || shared.elements(&self.view, family);
                let comment = shared.comment(&self.view);
                write_set(chains.edit, &set, field, elements, (fresh, &mut self.filled), &comment);
                rules.push(Rule::new([Match::In(vec![field], set)], Verdict::Goto(to)));
            }
            if let Some(peers) = peers {
                write_ranges(chains.edit, peers, field, &listed.chains, &mut rules);
            }
        }
        if closed {
            let message = too_much(&self.view, listed.list.rules().iter().map(|rule| &**rule), direction);
            self.closed.insert(name.clone(), message);
        } else {
            self.closed.remove(name);
        }
        rules.push(Rule::new([], Verdict::Goto(others)).comment("anybody else"));
        let services: Vec<Name> = listed.services.iter().map(|(_, list)| list.clone()).collect();
        self.edit.chain(name.clone(), Chain { hook: None, rules });
        // While a service has no address nothing leads to its list, and the chain was removed.
        for list in services {
            if !self.edit.program().chains.contains_key(&list) {
                self.render(&list, budget);
            }
        }
    }
}

// === impl Flattening ===

impl Flattening<'_> {
    /// Returns the verdicts of a peer that meets these conditions; `None` if the budget is not enough for them or their chains.
    fn verdicts(&mut self, met: &[ConditionId]) -> Option<FlatVerdicts> {
        let verdicts = self.list.flatten(met, self.budget);
        self.budget.take(ENTRY * verdicts.len() as u64);
        self.closed |= verdicts.is_closed();
        (!self.budget.is_spent()).then_some(verdicts)
    }
}

/// Sends members to the chains of their classes: by a set if there is one class, else by a map.
fn write_members(
    edit: &mut Edit,
    classes: &ListClasses,
    list: &Name,
    field: Field,
    chains: &BTreeMap<ClassId, Name>,
    (fresh, filled): (bool, &mut BTreeSet<Name>),
    rules: &mut Vec<Rule>,
) {
    let Some(family) = field.family() else { return };
    let members = classes.peers.members().iter().filter(|(address, _)| Family::of(**address) == family);
    let shown = classes.shown(family).filter_map(|class| Some((chains.get(&class)?, class)));
    let mut shown: Vec<(&Name, ClassId)> = shown.collect();
    // By name: indices of classes differ between runs.
    shown.sort_by_key(|(name, class)| (*name, classes.set(family, *class)));
    if shown.len() <= 1 {
        for (to, class) in shown {
            let set = classes.set(family, class);
            let own = || members.clone().filter(|(_, own)| **own == class);
            let elements = || own().map(|(address, _)| (address_key(*address), None)).collect();
            write_set(edit, &set, field, elements, (fresh, &mut *filled), "peers that may do the same");
            rules.push(Rule::new([Match::In(vec![field], set)], Verdict::Goto(to.clone())));
        }
        return;
    }
    let map = names::peer_map(list, family);
    edit.set(&map, || Set {
        key: vec![field.is_of()],
        elements: Elements::new(),
        is_map: true,
        interval: false,
        comment: "peers by what they may do".to_owned(),
    });
    let elements = members.filter_map(|(address, class)| {
        Some((address_key(*address), Some(Verdict::Goto(chains.get(class)?.clone()))))
    });
    edit.fill(&map, elements.collect());
    rules.push(Rule::new([], Verdict::Map(vec![field], map)));
}

/// Adds a set of peers. One that exists is up to date, unless it is left from a list of before.
fn write_set(
    edit: &mut Edit,
    name: &Name,
    field: Field,
    elements: impl Fn() -> Elements,
    (fresh, filled): (bool, &mut BTreeSet<Name>),
    comment: &str,
) {
    if edit.program().sets.contains_key(name) {
        if fresh && filled.insert(name.clone()) {
            edit.fill(name, elements());
        }
        return;
    }
    filled.insert(name.clone());
    edit.set(name, || Set {
        key: vec![field.is_of()],
        elements: elements(),
        is_map: false,
        interval: false,
        comment: comment.to_owned(),
    });
}

/// Sends ranges of addresses to the chains of their classes.
fn write_ranges(
    edit: &mut Edit,
    peers: &PeerClasses,
    field: Field,
    chains: &BTreeMap<ClassId, Name>,
    rules: &mut Vec<Rule>,
) {
    let Some(family) = field.family() else { return };
    let mut by_chain: BTreeMap<&Name, Vec<Key>> = BTreeMap::new();
    for range in peers.ranges().iter().filter(|range| Family::of(range.first) == family) {
        if let Some(to) = chains.get(&range.class) {
            let key = vec![(Value::Address(range.first), Value::Address(range.last))];
            by_chain.entry(to).or_default().push(key);
        }
    }
    if by_chain.len() <= 1 {
        for (to, keys) in by_chain {
            let elements = keys.into_iter().map(|key| (key, None)).collect();
            let set = content_named(edit, &[field], elements, false, "addresses that may do the same");
            rules.push(Rule::new([Match::In(vec![field], set)], Verdict::Goto(to.clone())));
        }
        return;
    }
    let mut elements = Elements::new();
    for (to, keys) in by_chain {
        elements.extend(keys.into_iter().map(|key| (key, Some(Verdict::Goto(to.clone())))));
    }
    let map = content_named(edit, &[field], elements, true, "addresses by what they may do");
    rules.push(Rule::new([], Verdict::Map(vec![field], map)));
}
