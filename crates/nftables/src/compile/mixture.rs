//! Whether a packet that finds a mixture of the old and the new program could pass although neither allows it.
//!
//! A packet looks up, one after the other: the interface it came by, the list of its sender, the receiver in that list, the list
//! of its receiver, the sender in that one.
//!
//! ```text
//!   forged?   wires, wired
//!   egress:   from_pod[sender] ─► eg_…: map, set, set, …, rest ─► behaviour
//!   ingress:  to_pod[receiver] ─► in_…: map, set, set, …, rest ─► behaviour
//! ```
//!
//! It uses the rules of the generation it began with, and elements as they are at each lookup: old before the commit, new after
//! it. A packet that began after the commit finds everything new. One that began before it has old rules, a prefix of old lookups
//! and a suffix of new ones:
//!
//! * In one list, such a mixture finds a peer in a set where it never was, or in none. That is harmless if the verdicts it finds
//!   allow no more than those of the peer before, or after ([`Shift::is_sound`]).
//! * In two lists, it combines what the egress was with what the ingress becomes. That is harmless unless the change takes
//!   something from the egress and gives something to the ingress of one connection.
//! * A list whose rules change stays what it was for the packet, whatever elements it finds before: what the egress becomes
//!   meets what the ingress was. That is harmless unless the ingress loses something and the egress gains something.
//! * Old interfaces meet new lists. That is harmless unless an address may no longer come by an interface and gains something.
//!
//! Every answer errs to one side: what is unknown, or takes long to find out, needs a guard ([`crate::guard`]).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::policy::Direction;

use super::FAMILIES;
use super::base::{dispatch, loose};
use super::compiler::Compiler;
use crate::guard::Scope;
use crate::program::{Chain, Field, Interface, Match, Name, Rule, Value, Verdict};

/// The chains that a list sends a peer to, before, after and during a change.
struct Shift<'a> {
    before: &'a Name,
    /// `None` if the list is removed.
    after: Option<&'a Name>,
    /// Chains that a packet with old rules can find; first the one it finds if all lookups are new.
    mixed: Vec<&'a Name>,
}

/// What a change of elements does to connections of endpoints of this machine.
#[derive(Default)]
struct Effects {
    /// Lists that endpoints leave, with the lists for services behind them.
    left: BTreeSet<Name>,
    /// Lists that endpoints join, likewise.
    joined: BTreeSet<Name>,
    /// Senders that get another list, which may let through less.
    egress_tightened: BTreeSet<IpAddr>,
    /// Senders that get another list, or none, which may let through more.
    egress_loosened: BTreeSet<IpAddr>,
    /// Receivers that get another list, or none, which may let through more.
    ingress_loosened: BTreeSet<IpAddr>,
    /// Receivers to whom some list of senders may let through less.
    tightened_to: BTreeSet<IpAddr>,
    /// Receivers to whom some list of senders may let through more.
    loosened_to: BTreeSet<IpAddr>,
    /// Whether some list may let through more to or from endpoints of other machines.
    loosened_elsewhere: bool,
    /// Senders from whom some list of receivers may let through more.
    loosened_from: BTreeSet<IpAddr>,
    /// Senders from whom some list of receivers lets through less, but not for packets that still have its old rules.
    outdated_from: BTreeSet<IpAddr>,
    /// Whether this machine itself gets another list of what it receives, by other rules.
    node_list: bool,
    /// Whether what may come by an interface changes.
    wired: bool,
    /// Interfaces by which nothing was forged, with their new addresses, and addresses that may no longer come by an interface.
    joined_wires: BTreeSet<Interface>,
    unwired: BTreeSet<IpAddr>,
}

// === impl Compiler ===

impl Compiler {
    /// Returns the scope of the guard that is needed while the edited program replaces the active one. `None` if no mixture of the
    /// two passes a packet that both refuse.
    pub(super) fn needs_guard(&self) -> Option<Scope> {
        let mut effects = Effects::default();
        let mut moved: BTreeMap<IpAddr, Vec<&Name>> = BTreeMap::new();
        let dispatches = FAMILIES.map(|family| Direction::BOTH.map(|way| (dispatch(way, family), way)));
        let dispatches: BTreeMap<Name, Direction> = dispatches.into_iter().flatten().collect();
        for changed in self.edit.changed_elements() {
            let address = match changed.key.as_slice() {
                [(Value::Address(address), Value::Address(last))] if address == last => *address,
                [(Value::Interface(wire), _)] => {
                    effects.wired = true;
                    effects.joined_wires.extend(changed.now.is_some().then_some(*wire));
                    continue;
                }
                [(Value::Interface(wire), _), (Value::Address(address), _)] => {
                    effects.wired = true;
                    let gone = changed.now.is_none() && self.wiring.contains_key(wire);
                    effects.unwired.extend(gone.then_some(*address));
                    continue;
                }
                _ => return Some(Scope::Everything),
            };
            match dispatches.get(changed.set) {
                Some(direction) => {
                    let list = |element: Option<&Option<Verdict>>| self.list_of(element, *direction);
                    let (before, now) = (list(changed.before), list(changed.now));
                    if before != now {
                        effects.dispatched(address, *direction, before, now);
                    }
                }
                None => moved.entry(address).or_default().push(changed.set),
            }
        }
        let is_plain = |(address, sets): (&IpAddr, &Vec<&Name>)| sets.len() == 1 && !self.is_here(*address);
        let rewritten: Vec<(&Name, &Chain)> = self.edit.changed_chains().collect();
        if moved.is_empty() && effects.is_none() {
            // Rules alone are all old or all new.
            return None;
        }
        if rewritten.is_empty() && effects.is_none() && moved.iter().all(is_plain) {
            return None;
        }
        // What goes to a service is distinguished by rules alone, so that it is never mixed in one list, but it is in two.
        let base_or_services = |(name, before): &(&Name, &Chain)| {
            let now = self.edit.program().chains.get(*name);
            before.hook.is_some() || now.is_some_and(|now| services(before).ne(services(now)))
        };
        if rewritten.iter().any(base_or_services) {
            return Some(Scope::Everything);
        }
        effects.node_list = rewritten.iter().any(|(name, _)| *name == "in_node");
        // This machine gets to its lists by rules, which are old for a packet on its way.
        for (name, before) in &rewritten {
            if *name == "in_node" || *name == "eg_node" {
                effects.left.extend(lists_behind(before).cloned());
            }
        }
        self.add_service_lists(&mut effects.left);
        self.add_service_lists(&mut effects.joined);
        // An endpoint that joins a list uses its old rules, which never applied to it.
        if rewritten.iter().any(|(name, _)| effects.joined.contains(*name)) {
            return Some(Scope::Everything);
        }
        let compared = Comparisons::new(self);
        if self.is_mixed_in_a_list(&moved, &rewritten, &mut effects, &compared) {
            return Some(self.scope());
        }
        self.note_rewritten(&rewritten, &mut effects, &compared);
        if compared.is_spent() {
            return Some(self.scope());
        }
        let forged = |address: &IpAddr| effects.is_forged(*address, self);
        (effects.are_mixed() || effects.egress_loosened.iter().any(forged)).then(|| self.scope())
    }

    /// Returns the scope of a guard: packets between two endpoints that the change affects, unless rules apply to this machine
    /// itself, whose addresses are unknown here.
    fn scope(&self) -> Scope {
        let node_lists = ["in_node".into(), "eg_node".into()];
        let of_node = |name: &Name| {
            self.edit.chain_before(name).is_some() || self.edit.program().chains.contains_key(name)
        };
        if node_lists.iter().any(of_node) { Scope::Everything } else { Scope::Between(self.here()) }
    }

    /// Checks every list with moved peers, and notes the effects on connections of this machine's endpoints. Returns whether some
    /// list needs a guard by itself.
    fn is_mixed_in_a_list(
        &self,
        moved: &BTreeMap<IpAddr, Vec<&Name>>,
        rewritten: &[(&Name, &Chain)],
        effects: &mut Effects,
        compared: &Comparisons<'_>,
    ) -> bool {
        for (address, sets) in moved {
            let mut lists: BTreeSet<&Name> =
                sets.iter().filter_map(|set| self.readers.get(*set)).flatten().collect();
            let looks = |chain: &Chain| {
                chain.rules.iter().flat_map(|rule| rule.sets()).any(|set| sets.contains(&set))
            };
            lists.extend(rewritten.iter().filter(|(_, before)| looks(before)).map(|(name, _)| *name));
            for list in lists {
                if compared.is_spent() {
                    return true;
                }
                let Some(shift) = self.shift(list, *address) else { continue };
                // An endpoint that leaves a list had its old verdicts only: the new ones are for others.
                if !shift.is_sound(compared)
                    || (effects.left.contains(list) && !shift.is_tightening(compared))
                {
                    return true;
                }
                effects.shifted(list, *address, &shift, compared);
            }
        }
        false
    }

    /// Notes the effects of rewritten lists on connections of this machine's endpoints.
    fn note_rewritten(
        &self,
        rewritten: &[(&Name, &Chain)],
        effects: &mut Effects,
        compared: &Comparisons<'_>,
    ) {
        let lists = rewritten.iter().filter(|(name, _)| name.starts_with("eg_") || name.starts_with("in_"));
        let here = self.here();
        for (list, _) in lists {
            for address in &here {
                if compared.is_spent() {
                    return;
                }
                if let Some(shift) = self.shift(list, *address) {
                    effects.shifted(list, *address, &shift, compared);
                }
            }
        }
    }

    /// Returns where a list sends a peer before, after and during the change; `None` for a new list, and for chains that are no list.
    fn shift<'a>(&'a self, list: &Name, address: IpAddr) -> Option<Shift<'a>> {
        let before = self.edit.chain_before(list)?;
        let (lookups, rest) = self.lookups(before, address);
        let first = |new_from: usize| {
            let found = lookups.iter().enumerate();
            found.clone().find_map(|(at, (old, new))| if at < new_from { *old } else { *new }).or(rest)
        };
        let mixed: Option<Vec<&Name>> = (0..lookups.len()).map(first).collect();
        let after = self.edit.program().chains.get(list).and_then(|chain| {
            let (lookups, rest) = self.lookups(chain, address);
            lookups.iter().find_map(|(_, new)| *new).or(rest)
        });
        Some(Shift { before: first(lookups.len())?, after, mixed: mixed? })
    }

    /// Returns what each lookup of a list finds for a peer, before and now, and the chain of all other peers.
    #[allow(clippy::type_complexity)]
    fn lookups<'a>(
        &'a self,
        chain: &'a Chain,
        address: IpAddr,
    ) -> (Vec<(Option<&'a Name>, Option<&'a Name>)>, Option<&'a Name>) {
        let family = Family::of(address);
        let is_peer = |fields: &[Field]| matches!(fields, [Field::Source(own) | Field::Destination(own)] if *own == family);
        let mut lookups = Vec::new();
        for rule in &chain.rules {
            match (rule.matches.as_slice(), &rule.verdict) {
                ([], Verdict::Goto(rest)) => return (lookups, Some(rest)),
                ([Match::In(fields, set)], Verdict::Goto(to)) if is_peer(fields) => {
                    let (old, new) = self.edit.held(set, address);
                    lookups.push((old.map(|_| to), new.map(|_| to)));
                }
                ([], Verdict::Map(fields, map)) if is_peer(fields) => {
                    let (old, new) = self.edit.held(map, address);
                    let to = |element: Option<&'a Option<Verdict>>| element?.as_ref()?.chain();
                    lookups.push((to(old), to(new)));
                }
                _ => {}
            }
        }
        (lookups, None)
    }

    /// Returns the list that an element of a dispatch map leads to; `None` if everything is allowed.
    fn list_of(&self, element: Option<&Option<Verdict>>, direction: Direction) -> Option<Name> {
        let list = element?.as_ref()?.chain()?;
        (*list != loose(direction)).then(|| list.clone())
    }

    /// Returns whether an address is, or was before the change, that of one of this machine's pods, or may be its own: where rules
    /// apply to the machine itself, any may be.
    fn is_here(&self, address: IpAddr) -> bool {
        let family = Family::of(address);
        self.index.claims.contains_key(&address)
            || Direction::BOTH.iter().any(|way| self.edit.held(&dispatch(*way, family), address).0.is_some())
            || self.edit.chain_before(&"in_node".into()).is_some()
            || !self.node_lists.is_empty()
    }

    /// Returns the addresses of this machine's pods, and those that move.
    fn here(&self) -> BTreeSet<IpAddr> {
        let dispatched = FAMILIES.into_iter().flat_map(|family| {
            let maps = Direction::BOTH.map(|way| self.edit.program().sets.get(&dispatch(way, family)));
            maps.into_iter().flatten().flat_map(|map| map.elements.keys())
        });
        let dispatched = dispatched.filter_map(|key| match key.as_slice() {
            [(Value::Address(address), _)] => Some(*address),
            _ => None,
        });
        dispatched.chain(self.index.claims.keys().copied()).chain(self.edit.moved_addresses()).collect()
    }

    /// Updates which lists look into which sets.
    pub(super) fn note_readers(&mut self) {
        let program = self.edit.program();
        for list in self.lists.keys() {
            for set in program
                .chains
                .get(list)
                .into_iter()
                .flat_map(|chain| &chain.rules)
                .flat_map(|rule| rule.sets())
            {
                self.readers.entry(set.clone()).or_default().insert(list.clone());
            }
        }
    }

    /// Adds the lists for connections to services that these lists lead to.
    fn add_service_lists(&self, lists: &mut BTreeSet<Name>) {
        let chains = lists.iter().flat_map(|list| {
            [self.edit.chain_before(list), self.edit.program().chains.get(list)].into_iter().flatten()
        });
        let behind: Vec<Name> = chains.flat_map(lists_behind).cloned().collect();
        lists.extend(behind);
    }
}

/// Returns the lists that a chain leads to.
fn lists_behind(chain: &Chain) -> impl Iterator<Item = &Name> {
    let to = chain.rules.iter().filter_map(|rule| rule.verdict.chain());
    to.filter(|name| name.starts_with("eg_") || name.starts_with("in_"))
}

/// Compares the verdicts of chains, each pair once, and counts lookups.
struct Comparisons<'a> {
    compiler: &'a Compiler,
    known: RefCell<BTreeMap<(Name, Name), bool>>,
    left: Cell<usize>,
}

/// Maximum number of lookups of a peer in a list, about 10 ms: beyond it a guard costs less than finding out whether it is needed.
const MOST_LOOKUPS: usize = 10_000;

// === impl Comparisons ===

impl<'a> Comparisons<'a> {
    fn new(compiler: &'a Compiler) -> Self {
        Comparisons { compiler, known: RefCell::default(), left: Cell::new(MOST_LOOKUPS) }
    }

    /// Counts a lookup. Returns whether there were too many.
    fn is_spent(&self) -> bool {
        self.left.set(self.left.get().saturating_sub(1));
        self.left.get() == 0
    }

    fn is_within(&self, one: &Name, other: &Name) -> bool {
        if one == other {
            return true;
        }
        let pair = (one.clone(), other.clone());
        if let Some(known) = self.known.borrow().get(&pair) {
            return *known;
        }
        let verdicts = &self.compiler.verdicts;
        let within = match (verdicts.get(one), verdicts.get(other)) {
            (Some(one), Some(other)) => one.is_within(other),
            _ => false,
        };
        self.known.borrow_mut().insert(pair, within);
        within
    }
}

/// Returns the rules that match the destination before translation.
fn services(chain: &Chain) -> impl Iterator<Item = &Rule> {
    let of_services = |condition: &Match| matches!(condition, Match::In(fields, _) if matches!(fields.as_slice(), [Field::OriginalDestination(_)]));
    chain.rules.iter().filter(move |rule| rule.matches.iter().any(of_services))
}

// === impl Shift ===

impl Shift<'_> {
    /// Returns whether every chain that a packet can find allows no more than before, or no more than after.
    fn is_sound(&self, compared: &Comparisons<'_>) -> bool {
        let allowed = |found: &&Name| {
            compared.is_within(found, self.before)
                || self.after.is_some_and(|after| compared.is_within(found, after))
        };
        self.mixed.iter().all(allowed)
    }

    /// Returns whether no packet on its way is allowed more than before.
    fn is_tightening(&self, compared: &Comparisons<'_>) -> bool {
        self.mixed.iter().all(|found| compared.is_within(found, self.before))
    }

    /// Returns whether neither the old chain nor any that a packet on its way finds allows more than the new one.
    fn is_loosening(&self, compared: &Comparisons<'_>) -> bool {
        let mut through = [self.before].into_iter().chain(self.mixed.iter().copied());
        self.after.is_some_and(|after| through.all(|found| compared.is_within(found, after)))
    }

    /// Returns whether old rules with new lookups allow more than the new chain.
    fn is_outdated(&self, compared: &Comparisons<'_>) -> bool {
        let found = self.mixed.first().copied().unwrap_or(self.before);
        self.after.is_some_and(|after| !compared.is_within(found, after))
    }
}

// === impl Effects ===

impl Effects {
    /// Notes that an address leaves one list and joins another.
    fn dispatched(&mut self, address: IpAddr, direction: Direction, before: Option<Name>, now: Option<Name>) {
        // Without a list everything is allowed.
        let (loosens, tightens) = (before.is_some(), now.is_some());
        self.left.extend(before);
        self.joined.extend(now);
        match direction {
            Direction::Egress => {
                self.egress_loosened.extend(loosens.then_some(address));
                self.egress_tightened.extend(tightens.then_some(address));
            }
            Direction::Ingress => self.ingress_loosened.extend(loosens.then_some(address)),
        }
    }

    /// Notes that a list sends a peer to another chain.
    fn shifted(&mut self, list: &Name, address: IpAddr, shift: &Shift<'_>, compared: &Comparisons<'_>) {
        if !compared.compiler.is_here(address) {
            self.loosened_elsewhere |= !shift.is_tightening(compared);
            return;
        }
        if list.starts_with("eg_") {
            self.tightened_to.extend((!shift.is_loosening(compared)).then_some(address));
            self.loosened_to.extend((!shift.is_tightening(compared)).then_some(address));
        }
        if list.starts_with("in_") {
            self.loosened_from.extend((!shift.is_tightening(compared)).then_some(address));
            self.outdated_from.extend(shift.is_outdated(compared).then_some(address));
        }
    }

    fn is_none(&self) -> bool {
        self.egress_tightened.is_empty()
            && self.egress_loosened.is_empty()
            && self.ingress_loosened.is_empty()
            && !self.wired
    }

    /// Returns whether an address may no longer come by some interface by which it was accepted before.
    fn is_forged(&self, address: IpAddr, compiler: &Compiler) -> bool {
        let allows = |wire: &Interface| compiler.wiring.get(wire).is_some_and(|own| own.contains(&address));
        self.unwired.contains(&address) || self.joined_wires.iter().any(|wire| !allows(wire))
    }

    /// Returns whether some connection may lose something in its first lookups and gain something in later ones, or gain something
    /// first and lose something later that packets on their way do not see.
    fn are_mixed(&self) -> bool {
        let meet = |senders: &BTreeSet<IpAddr>, receivers: &BTreeSet<IpAddr>| {
            // Connections of a pod to itself do not pass the kernel's hooks here.
            senders
                .iter()
                .any(|one| receivers.iter().any(|other| one != other && one.is_ipv4() == other.is_ipv4()))
        };
        let forges = !self.joined_wires.is_empty() || !self.unwired.is_empty();
        let tightens = self.wired || !self.egress_tightened.is_empty() || !self.tightened_to.is_empty();
        let loosens = self.wired || !self.egress_loosened.is_empty() || !self.loosened_to.is_empty();
        let gains = [&self.ingress_loosened, &self.loosened_from, &self.loosened_to];
        (self.node_list && (tightens || loosens))
            || (forges && (self.loosened_elsewhere || gains.iter().any(|gain| !gain.is_empty())))
            || (self.wired && !self.outdated_from.is_empty())
            || meet(&self.egress_tightened, &self.ingress_loosened)
            || !self.egress_tightened.is_disjoint(&self.loosened_from)
            || !self.tightened_to.is_disjoint(&self.ingress_loosened)
            || meet(&self.loosened_from, &self.tightened_to)
            || !self.egress_loosened.is_disjoint(&self.outdated_from)
            || meet(&self.outdated_from, &self.loosened_to)
    }
}
