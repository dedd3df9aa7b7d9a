//! Whether a packet that meets half of a change could pass although neither policy, the old nor the new, lets it.
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
//! It meets the rules of the generation it began with, and elements as they are at each lookup: those before the commit are
//! old, those after it new. A packet that began after the commit finds everything new. One that began before it has old rules,
//! a prefix of old lookups and a suffix of new ones:
//!
//! * In one list, such a mixture finds a peer in a place where it never was, or in none. That is harmless if what it finds
//!   lets through no more than what the peer may do before, or after ([`Shift::is_sound`]).
//! * In two lists, it combines what the egress was with what the ingress becomes. That is harmless unless the change takes
//!   something from the egress and gives something to the ingress of one connection.
//! * A list whose rules change stays what it was for the packet, whatever elements it finds before: what the egress becomes
//!   meets what the ingress was. That is harmless unless the ingress loses something and the egress gains something.
//! * Old interfaces meet new lists. That is harmless unless an address may no longer come by an interface and gains something.
//!
//! All answers here err to one side: what cannot be told, or takes long to find out, needs a guard ([`crate::guard`]).

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

/// What becomes of a peer in a list, by the chain it is sent to.
struct Shift<'a> {
    before: &'a Name,
    /// None if the list is gone.
    after: Option<&'a Name>,
    /// All that a packet can find that meets half of the change; first what it finds if all lookups are new.
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
    /// Returns what a guard has to decide about while the edited program takes the place of the one in force. None if no mixture
    /// of the two passes a packet that both refuse.
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
        // This machine is led to its lists by rules, which a packet on its way has old.
        for (name, before) in &rewritten {
            if *name == "in_node" || *name == "eg_node" {
                effects.left.extend(lists_behind(before).cloned());
            }
        }
        self.add_service_lists(&mut effects.left);
        self.add_service_lists(&mut effects.joined);
        // An endpoint that joins a list meets it with the old rules, which were never about it.
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

    /// What a guard decides about: packets between two endpoints that the change concerns, unless rules apply to this machine
    /// itself, whose addresses are not known here.
    fn scope(&self) -> Scope {
        let node_lists = ["in_node".into(), "eg_node".into()];
        let of_node = |name: &Name| {
            self.edit.chain_before(name).is_some() || self.edit.program().chains.contains_key(name)
        };
        if node_lists.iter().any(of_node) { Scope::Everything } else { Scope::Between(self.here()) }
    }

    /// Looks at every list that has moved peers, and notes what that does to connections of this machine's endpoints.
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
                // An endpoint that leaves a list is judged by its old state only: what it becomes is for others.
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

    /// Notes what lists with other rules do to connections of this machine's endpoints.
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

    /// Where a list sends a peer, before, after and in between; nothing if the list is new, or no list.
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

    /// What each lookup of a list finds for a peer, before and now, and where it goes if none finds anything.
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

    /// The list that an element of a dispatch map leads to; none if that lets everything through.
    fn list_of(&self, element: Option<&Option<Verdict>>, direction: Direction) -> Option<Name> {
        let list = element?.as_ref()?.chain()?;
        (*list != loose(direction)).then(|| list.clone())
    }

    /// Whether an address is, or was before the change, one of this machine's pods or its own. Without knowing which are its own,
    /// any may be, where rules apply to the machine itself.
    fn is_here(&self, address: IpAddr) -> bool {
        let family = Family::of(address);
        self.index.claims.contains_key(&address)
            || Direction::BOTH.iter().any(|way| self.edit.held(&dispatch(*way, family), address).0.is_some())
            || self.edit.chain_before(&"in_node".into()).is_some()
            || !self.node_lists.is_empty()
    }

    /// The addresses of this machine's pods, and those that move.
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

    /// Notes which lists look into which sets.
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

    /// Adds the lists that these go to for connections through services.
    fn add_service_lists(&self, lists: &mut BTreeSet<Name>) {
        let chains = lists.iter().flat_map(|list| {
            [self.edit.chain_before(list), self.edit.program().chains.get(list)].into_iter().flatten()
        });
        let behind: Vec<Name> = chains.flat_map(lists_behind).cloned().collect();
        lists.extend(behind);
    }
}

/// The lists that a chain leads to.
fn lists_behind(chain: &Chain) -> impl Iterator<Item = &Name> {
    let to = chain.rules.iter().filter_map(|rule| rule.verdict.chain());
    to.filter(|name| name.starts_with("eg_") || name.starts_with("in_"))
}

/// Answers whether one chain lets through no more than another, each pair once, and counts how often it is asked.
struct Comparisons<'a> {
    compiler: &'a Compiler,
    known: RefCell<BTreeMap<(Name, Name), bool>>,
    left: Cell<usize>,
}

/// The number of lookups of a peer in a list after which a guard costs less than finding out whether one is needed: about 10 ms.
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

/// The rules about the address that a connection was opened to, before translation.
fn services(chain: &Chain) -> impl Iterator<Item = &Rule> {
    let of_services = |condition: &Match| matches!(condition, Match::In(fields, _) if matches!(fields.as_slice(), [Field::OriginalDestination(_)]));
    chain.rules.iter().filter(move |rule| rule.matches.iter().any(of_services))
}

// === impl Shift ===

impl Shift<'_> {
    /// Whether whatever a packet finds in between lets through no more than before, or no more than after.
    fn is_sound(&self, compared: &Comparisons<'_>) -> bool {
        let allowed = |found: &&Name| {
            compared.is_within(found, self.before)
                || self.after.is_some_and(|after| compared.is_within(found, after))
        };
        self.mixed.iter().all(allowed)
    }

    /// Whether no packet on its way finds more than before.
    fn is_tightening(&self, compared: &Comparisons<'_>) -> bool {
        self.mixed.iter().all(|found| compared.is_within(found, self.before))
    }

    /// Whether neither what was there nor what a packet on its way finds is more than afterwards.
    fn is_loosening(&self, compared: &Comparisons<'_>) -> bool {
        let mut through = [self.before].into_iter().chain(self.mixed.iter().copied());
        self.after.is_some_and(|after| through.all(|found| compared.is_within(found, after)))
    }

    /// Whether a packet that has the old rules finds more than afterwards, though all its lookups are new.
    fn is_outdated(&self, compared: &Comparisons<'_>) -> bool {
        let found = self.mixed.first().copied().unwrap_or(self.before);
        self.after.is_some_and(|after| !compared.is_within(found, after))
    }
}

// === impl Effects ===

impl Effects {
    /// Notes that an address leaves a list, if it had one, and joins another, if it gets one.
    fn dispatched(&mut self, address: IpAddr, direction: Direction, before: Option<Name>, now: Option<Name>) {
        // From nothing it only gets less, and to nothing only more.
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

    /// Notes that a list sends a peer elsewhere.
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

    /// Whether an address may no longer come by some interface by which it passed before.
    fn is_forged(&self, address: IpAddr, compiler: &Compiler) -> bool {
        let allows = |wire: &Interface| compiler.wiring.get(wire).is_some_and(|own| own.contains(&address));
        self.unwired.contains(&address) || self.joined_wires.iter().any(|wire| !allows(wire))
    }

    /// Whether some connection may lose something where its packets look first and gain something where they look next, or gain
    /// something first and lose something next that packets on their way do not see.
    fn are_mixed(&self) -> bool {
        let meet = |senders: &BTreeSet<IpAddr>, receivers: &BTreeSet<IpAddr>| {
            // A pod does not reach itself through here.
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
