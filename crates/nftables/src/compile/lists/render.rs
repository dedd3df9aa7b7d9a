//! The chain of a list of rules: who is the peer?
//!
//! It goes from what is told apart most finely to what is left: services, members one by one, everybody that a condition means, ranges of
//! addresses, anybody else. Each leads to the chain of what such a peer may do.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use palisade_engine::delta::{CompiledRule as ViewRule, PolicyId};
use palisade_engine::view::View;
use palisade_model::address::Family;
use palisade_model::policy::Direction;

use super::{PART, map_name};
use crate::compile::FAMILIES;
use crate::compile::base::REST;
use crate::compile::budget::{BYTE, Budget};
use crate::compile::chains::{Chains, content_named};
use crate::compile::classify::{Class, Classifier, address_key};
use crate::compile::decide::{Behaviour, Condition, List};
use crate::compile::edit::Edit;
use crate::compile::layers::{Everybody, Layer};
use crate::compile::live::Live;
use crate::program::{Chain, Elements, Field, Match, Name, Rule, Set, Verdict};

/// Behaviours of a list, as far as a budget lasts.
struct Draw<'d> {
    list: &'d List,
    budget: &'d mut Budget,
    /// Whether some behaviour tells too much apart, and denies everything.
    closed: bool,
}

/// Steps for a piece of traffic that chains tell apart: an element or a rule, of 250 bytes.
const PIECE: u64 = 2_000 + 250 * BYTE;
/// Steps for an element of a map of peers, of 100 bytes.
const ELEMENT: u64 = 300 + 100 * BYTE;

// === impl Live ===

impl Live {
    /// Makes the chain of a list, which denies everything if the budget is not enough for what its rules say.
    pub(in crate::compile) fn render(&mut self, name: &Name, budget: &mut Budget) {
        let Some(listed) = self.lists.get_mut(name) else { return };
        let mut own = budget.share(PART);
        let granted = own.left();
        let direction = listed.list.direction;
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
            behaviours: &mut self.behaviours,
        };
        let classifier = listed.classifier.as_ref().and_then(|own| self.classifiers.get(own));
        let classifier = classifier.map(|shared| &shared.classifier);
        let mut draw = Draw { list: &listed.list, budget: &mut own, closed: false };
        let is_refused = listed.list.rules.is_empty() && listed.closed_with.is_some();
        let too_much_apart = classifier.is_some_and(Classifier::is_too_much);
        listed.chains.clear();
        let mut layer_chains: BTreeMap<&Name, Name> = BTreeMap::new();
        let mut rest = None;
        if !is_refused && !too_much_apart {
            if let Some(classifier) = classifier {
                draw.budget.take(ELEMENT * (classifier.exact.len() + classifier.ranges.len()) as u64);
                let shown = classifier.shown.iter().map(|(_, class)| *class);
                let ranges = classifier.ranges.iter().map(|range| range.2);
                let layers = listed.layers.iter().flat_map(|layer| {
                    FAMILIES.into_iter().filter_map(|family| classifier.layer(layer.condition, family))
                });
                let classes: BTreeSet<Class> = shown.chain(ranges).chain(layers).collect();
                for class in classes {
                    let fulfilled = classifier.classes.get(class).map(|(_, fulfilled)| fulfilled.as_slice());
                    let Some(behaviour) = draw.behaviour(fulfilled.unwrap_or_default()) else { break };
                    listed.chains.insert(class, chains.behaviour(&behaviour));
                }
            }
            let found = |layer: &&Layer| {
                let class = |family| classifier?.layer(layer.condition, family);
                FAMILIES.into_iter().all(|family| class(family).is_some())
            };
            for layer in listed.layers.iter().filter(|layer| !found(layer)) {
                let Some(behaviour) = draw.behaviour(&layer.fulfilled) else { break };
                layer_chains.insert(&layer.name, chains.behaviour(&behaviour));
            }
            let nobody = listed.list.fulfilled(listed.via.into_iter());
            rest = draw.behaviour(&nobody).map(|behaviour| chains.behaviour(&behaviour));
        }
        let closed = draw.closed;
        let cost = granted - own.left();
        budget.put_back(own);
        self.used = self.used.saturating_sub(mem::take(&mut listed.rendered));
        let Some(rest) = rest else {
            rules.truncate(usize::from(listed.via.is_none()));
            let nothing = chains.behaviour(&Behaviour::closed());
            rules.push(Rule::new([], Verdict::Goto(nothing)));
            listed.chains.clear();
            if !is_refused {
                let message = too_much(&self.view, listed.list.rules.iter().map(|rule| &**rule), direction);
                self.closed.insert(name.clone(), message);
            }
            self.edit.chain(name.clone(), Chain { hook: None, rules });
            return;
        };
        listed.rendered = cost;
        self.used += cost;
        for family in FAMILIES {
            let field = match direction {
                Direction::Egress => Field::Destination(family),
                Direction::Ingress => Field::Source(family),
            };
            if let Some(classifier) = classifier {
                let fresh = listed.classifier.as_ref().is_some_and(|own| self.fresh.contains(own));
                members(
                    chains.edit,
                    classifier,
                    name,
                    field,
                    &listed.chains,
                    (fresh, &mut self.filled),
                    &mut rules,
                );
            }
            for layer in &listed.layers {
                let Some(everybody) = self.everybody.get(&layer.name) else { continue };
                if !everybody.shown.contains(&family) {
                    continue;
                }
                let class = classifier.and_then(|classifier| classifier.layer(layer.condition, family));
                let to =
                    class.map_or_else(|| layer_chains.get(&layer.name), |class| listed.chains.get(&class));
                let Some(to) = to.cloned() else { continue };
                let set = Everybody::set(&layer.name, family);
                let fresh = self.fresh.contains(&layer.name);
                let members = || everybody.members(&self.view, family);
                peers(
                    chains.edit,
                    &set,
                    field,
                    members,
                    (fresh, &mut self.filled),
                    &everybody.words(&self.view),
                );
                rules.push(Rule::new([Match::In(vec![field], set)], Verdict::Goto(to)));
            }
            if let Some(classifier) = classifier {
                ranges(chains.edit, classifier, field, &listed.chains, &mut rules);
            }
        }
        if closed {
            let message = too_much(&self.view, listed.list.rules.iter().map(|rule| &**rule), direction);
            self.closed.insert(name.clone(), message);
        } else {
            self.closed.remove(name);
        }
        rules.push(Rule::new([], Verdict::Goto(rest)).comment("anybody else"));
        let services: Vec<Name> = listed.services.iter().map(|(_, list)| list.clone()).collect();
        self.edit.chain(name.clone(), Chain { hook: None, rules });
        // While a service has no address nothing leads to its list, and the chain was taken away.
        for list in services {
            if !self.edit.program().chains.contains_key(&list) {
                self.render(&list, budget);
            }
        }
    }
}

// === impl Draw ===

impl Draw<'_> {
    /// What the rules say to a peer for whom these conditions hold; nothing if that, or the chains for it, cannot be afforded.
    fn behaviour(&mut self, fulfilled: &[Condition]) -> Option<Behaviour> {
        let behaviour = self.list.behaviour(fulfilled, self.budget);
        self.budget.take(PIECE * behaviour.pieces() as u64);
        self.closed |= behaviour.closed;
        (!self.budget.is_spent()).then_some(behaviour)
    }
}

/// What is said about a list that tells too much apart.
pub(super) fn too_much<'r>(
    view: &View,
    rules: impl Iterator<Item = &'r ViewRule>,
    direction: Direction,
) -> String {
    // Rules of a policy follow each other.
    let mut ids: Vec<PolicyId> = rules.map(|rule| rule.policy).collect();
    ids.dedup();
    let more = ids.len().saturating_sub(3);
    let origins = ids.iter().take(3).filter_map(|policy| view.policies().get(policy));
    let policies: Vec<String> = origins.map(|origin| origin.object.to_string()).collect();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "{}{more}: together they tell more ports and peers apart than can be put into a kernel: what they cannot is denied in {}",
        policies.join(", "),
        direction
    )
}

/// Sends members to what they may do: by a set if that is the same for all, by a map otherwise.
fn members(
    edit: &mut Edit,
    classifier: &Classifier,
    list: &Name,
    field: Field,
    chains: &BTreeMap<Class, Name>,
    (fresh, filled): (bool, &mut BTreeSet<Name>),
    rules: &mut Vec<Rule>,
) {
    let Some(family) = field.family() else { return };
    let shown: Vec<(&Name, Class)> = {
        let own = classifier.shown(family).filter_map(|class| Some((chains.get(&class)?, class)));
        let mut own: Vec<(&Name, Class)> = own.collect();
        // By the name of the chain, which is the same in every run.
        own.sort_by_key(|(name, class)| (*name, classifier.set(family, *class)));
        own
    };
    if shown.len() <= 1 {
        for (to, class) in shown {
            let set = classifier.set(family, class);
            let members = || classifier.members(family, class).map(|key| (key, None)).collect();
            peers(edit, &set, field, members, (fresh, &mut *filled), "peers that may do the same");
            rules.push(Rule::new([Match::In(vec![field], set)], Verdict::Goto(to.clone())));
        }
        return;
    }
    let map = map_name(list, family);
    edit.set(&map, || Set {
        key: vec![field.is_of()],
        elements: Elements::new(),
        is_map: true,
        interval: false,
        comment: "peers by what they may do".to_owned(),
    });
    let own = classifier.exact.iter().filter(|(address, _)| Family::of(**address) == family);
    let elements = own.filter_map(|(address, class)| {
        Some((address_key(*address), Some(Verdict::Goto(chains.get(class)?.clone()))))
    });
    edit.fill(&map, elements.collect());
    rules.push(Rule::new([], Verdict::Map(vec![field], map)));
}

/// A set of peers. If it is there it is kept up to date, unless it is one from before.
fn peers(
    edit: &mut Edit,
    name: &Name,
    field: Field,
    members: impl Fn() -> Elements,
    (fresh, filled): (bool, &mut BTreeSet<Name>),
    comment: &str,
) {
    if edit.program().sets.contains_key(name) {
        if fresh && filled.insert(name.clone()) {
            edit.fill(name, members());
        }
        return;
    }
    filled.insert(name.clone());
    edit.set(name, || Set {
        key: vec![field.is_of()],
        elements: members(),
        is_map: false,
        interval: false,
        comment: comment.to_owned(),
    });
}

/// The same for ranges of addresses.
fn ranges(
    edit: &mut Edit,
    classifier: &Classifier,
    field: Field,
    chains: &BTreeMap<Class, Name>,
    rules: &mut Vec<Rule>,
) {
    let Some(family) = field.family() else { return };
    let mut ways: BTreeMap<&Name, Elements> = BTreeMap::new();
    for (class, keys) in classifier.ranges(family) {
        if let Some(to) = chains.get(&class) {
            ways.entry(to).or_default().extend(keys.into_iter().map(|key| (key, None)));
        }
    }
    if ways.len() <= 1 {
        for (to, elements) in ways {
            let set = content_named(edit, &[field], elements, false, "addresses that may do the same");
            rules.push(Rule::new([Match::In(vec![field], set)], Verdict::Goto(to.clone())));
        }
        return;
    }
    let mut elements = Elements::new();
    for (to, keys) in ways {
        elements.extend(keys.into_keys().map(|key| (key, Some(Verdict::Goto(to.clone())))));
    }
    let map = content_named(edit, &[field], elements, true, "addresses by what they may do");
    rules.push(Rule::new([], Verdict::Map(vec![field], map)));
}
