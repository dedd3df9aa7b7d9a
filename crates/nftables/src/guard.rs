//! The guard of a change: the new policy as a second table, for the endpoints that the change concerns.
//!
//! Both tables see every packet, the guard first, and a packet passes only if both accept it. Since the guard comes first, it
//! can be removed as soon as the patch is committed: a packet that meets no guard any more looks everything up after the commit.
//!
//! Only packets between two endpoints of this machine pass two lists of rules here, so the sets of a guard hold this machine's
//! addresses and those that the change moves, and it accepts whatever goes elsewhere. It is small, however large the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::address::Family;

use crate::compile::base::WIRES;
use crate::program::{Elements, Field, FieldType, Key, Match, Name, Program, Rule, Set, Value, Verdict};

/// What a program leads to, from its base chains on.
#[derive(Debug, Default)]
pub(crate) struct Reachable<'a> {
    pub(crate) chains: BTreeSet<&'a Name>,
    pub(crate) sets: BTreeSet<&'a Name>,
    pub(crate) counters: BTreeSet<&'a Name>,
}

/// Which packets a guard decides about; it accepts all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Every packet.
    Everything,
    /// Packets between two of these addresses, and those that come by an interface with an address that is not there.
    Between(BTreeSet<IpAddr>),
}

// === impl Program ===

impl Program {
    /// Returns the guard for a change to this program. It decides like the program about the packets of its scope.
    pub fn guard(&self, scope: &Scope) -> Program {
        let mut guard = Program { counters: BTreeSet::new(), ..self.clone() };
        for chain in guard.chains.values_mut() {
            // The table beside it counts and logs.
            chain.rules.retain(|rule| !matches!(rule.verdict, Verdict::Log(_)));
            chain.rules.iter_mut().for_each(|rule| rule.counter = None);
        }
        if let Scope::Between(addresses) = scope {
            guard.restrict(addresses);
        }
        let reachable = guard.reachable(&[]);
        let chains: BTreeSet<Name> = reachable.chains.into_iter().cloned().collect();
        let sets: BTreeSet<Name> = reachable.sets.into_iter().cloned().collect();
        guard.chains.retain(|name, _| chains.contains(name));
        guard.sets.retain(|name, _| sets.contains(name));
        guard
    }

    /// Splits a guard into what is loaded first and what is added after that. The kernel fills sets of ranges a moment after the rules
    /// that look into them are active, so the base chains that lead to them come last: a guard must not refuse what it allows.
    pub(crate) fn guard_steps(&self) -> (Program, Option<Program>) {
        let mut first = self.clone();
        if !self.sets.values().any(|set| set.interval) {
            return (first, None);
        }
        let mut bases = Program::default();
        first.chains.retain(|name, chain| {
            if chain.hook.is_some() {
                bases.chains.insert(name.clone(), chain.clone());
            }
            chain.hook.is_none()
        });
        (first, Some(bases))
    }

    fn restrict(&mut self, addresses: &BTreeSet<IpAddr>) {
        for name in self.peer_sets() {
            if let Some(set) = self.sets.get_mut(&name) {
                set.elements.retain(|key, _| holds_any(key, addresses));
            }
        }
        for family in [Family::V4, Family::V6] {
            let own = addresses.iter().filter(|address| Family::of(**address) == family);
            let elements: Elements = own
                .map(|address| (vec![(Value::Address(*address), Value::Address(*address))], None))
                .collect();
            let set = Set {
                key: vec![FieldType::Address(family)],
                elements,
                is_map: false,
                interval: false,
                comment: "endpoints that the change concerns".to_owned(),
            };
            self.sets.insert(guarded(family), set);
        }
        let elsewhere = |field: fn(Family) -> Field| {
            [Family::V4, Family::V6].map(|family| {
                Rule::new([Match::NotIn(vec![field(family)], guarded(family))], Verdict::Accept)
            })
        };
        for chain in self.chains.values_mut() {
            if chain.hook.is_none() {
                continue;
            }
            // What is forged is so wherever it goes to.
            let is_forged = |rule: &Rule| rule.sets().any(|set| set == WIRES);
            let first = chain.rules.iter().rposition(is_forged).map_or(0, |last| last + 1);
            let rules = elsewhere(Field::Source).into_iter().chain(elsewhere(Field::Destination));
            chain.rules.splice(first..first, rules);
        }
    }

    /// The sets and maps that are looked up by nothing but the address of a packet's source or destination.
    fn peer_sets(&self) -> BTreeSet<Name> {
        let mut by_address: BTreeMap<&Name, bool> = BTreeMap::new();
        for rule in self.chains.values().flat_map(|chain| &chain.rules) {
            let looked_up = rule.matches.iter().filter_map(|condition| match condition {
                Match::In(fields, set) | Match::NotIn(fields, set) => Some((fields, set)),
                _ => None,
            });
            let map = match &rule.verdict {
                Verdict::Map(fields, map) => Some((fields, map)),
                _ => None,
            };
            for (fields, set) in looked_up.chain(map) {
                let is_peer = matches!(fields.as_slice(), [Field::Source(_) | Field::Destination(_)]);
                *by_address.entry(set).or_insert(true) &= is_peer;
            }
        }
        by_address.into_iter().filter(|(_, is_peer)| *is_peer).map(|(set, _)| set.clone()).collect()
    }

    /// Returns what base chains, and these chains besides, lead to.
    pub(crate) fn reachable(&self, kept: &[Name]) -> Reachable<'_> {
        let roots = self.chains.iter().filter(|(name, chain)| chain.hook.is_some() || kept.contains(name));
        let mut open: Vec<&Name> = roots.map(|(name, _)| name).collect();
        let mut reachable = Reachable { chains: open.iter().copied().collect(), ..Reachable::default() };
        while let Some(chain) = open.pop().and_then(|name| self.chains.get(name)) {
            for rule in &chain.rules {
                reachable.counters.extend(&rule.counter);
                let mut lead = |to| {
                    if reachable.chains.insert(to) {
                        open.push(to);
                    }
                };
                rule.verdict.chain().into_iter().for_each(&mut lead);
                for set in rule.sets() {
                    if reachable.sets.insert(set) {
                        let elements = self.sets.get(set).into_iter().flat_map(|set| set.elements.values());
                        elements.flatten().filter_map(Verdict::chain).for_each(&mut lead);
                    }
                }
            }
        }
        reachable
    }
}

/// The set of a guard's addresses.
fn guarded(family: Family) -> Name {
    match family {
        Family::V4 => "guarded4".into(),
        Family::V6 => "guarded6".into(),
    }
}

fn holds_any(key: &Key, addresses: &BTreeSet<IpAddr>) -> bool {
    match key.as_slice() {
        [(Value::Address(first), Value::Address(last))] => addresses.range(first..=last).next().is_some(),
        _ => true,
    }
}
