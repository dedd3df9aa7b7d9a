//! Changes that follow each other while a packet is on its way.
//!
//! One change is made so that a packet that combines lookups from before and after it passes nothing that both policies refuse
//! ([`crate::transition`]). A packet that is held up between two lookups could combine more than two policies: those before the first and
//! after the second of two changes. So a change that could be combined with an earlier one waits until every packet that began before
//! that one is through.
//!
//! Two changes cannot be combined if each only moves addresses of other machines in sets of peers, and none of the second is one of
//! the first: a packet has at most one such address, so that it sees at most one of the changes. That is what pods of a cluster that
//! come and go are to a node, so that they do not wait for each other.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::patch::Patch;
use crate::program::{Elements, Key, Name, Program, Value};

/// Number of a commit, counted from 1.
pub type CommitNumber = u64;

/// Maps that lead packets to the lists of this machine's endpoints, by address.
const DISPATCH: [&str; 4] = ["from_pod4", "from_pod6", "to_pod4", "to_pod6"];
/// Chains for packets of the machine itself.
const NODE_CHAINS: [&str; 2] = ["in_node", "eg_node"];

/// Elements that are compared one by one; a change of more waits for those before it.
const MOST_COMPARED: usize = 1000;

/// The commits that packets on their way may not have seen.
#[derive(Debug, Default)]
pub struct Settling {
    last: CommitNumber,
    /// Addresses of other machines with the last commit that moved them.
    moved: BTreeMap<IpAddr, CommitNumber>,
    /// The last commit that did anything else.
    other: CommitNumber,
    /// Addresses of this machine's endpoints; `None` while they are not known.
    endpoints: Option<BTreeSet<IpAddr>>,
    /// Chains for packets of the machine itself. Which addresses are its own is not known, so with any of these all may be.
    node_chains: BTreeSet<Name>,
}

/// Which packets a change concerns.
enum Footprint {
    /// Those from or to these addresses, which are none of this machine.
    Peers(BTreeSet<IpAddr>),
    /// Any.
    Any,
}

// === impl Settling ===

impl Settling {
    /// Takes over which endpoints a program has.
    pub fn observe(&mut self, program: &Program) {
        let elements = program.sets.iter().map(|(name, set)| (name, &set.elements));
        self.observe_parts(elements, program.chains.keys());
    }

    /// Forgets which endpoints there are: every change concerns any packet until they are observed again.
    pub(crate) fn forget(&mut self) {
        self.endpoints = None;
    }

    /// Takes over which endpoints a table has.
    pub(crate) fn observe_parts<'a>(
        &mut self,
        elements: impl Iterator<Item = (&'a Name, &'a Elements)>,
        chains: impl Iterator<Item = &'a Name>,
    ) {
        let dispatched =
            elements.filter(|(name, _)| is_dispatch(name)).flat_map(|(_, elements)| elements.keys());
        self.endpoints = Some(dispatched.filter_map(address).collect());
        self.node_chains = chains.filter(|name| is_node_chain(name)).cloned().collect();
    }

    /// Returns the commit that must be settled before `patch` is committed, if commits up to `settled` are: every packet that began
    /// before them is through.
    pub fn awaited(&self, patch: &Patch, settled: CommitNumber) -> Option<CommitNumber> {
        if self.last <= settled {
            return None;
        }
        let awaited = match self.footprint(patch) {
            Footprint::Any => self.last,
            Footprint::Peers(addresses) => {
                let moved = addresses.iter().filter_map(|address| self.moved.get(address));
                moved.copied().fold(self.other, CommitNumber::max)
            }
        };
        (awaited > settled).then_some(awaited)
    }

    /// Notes that `patch` was committed, or may have been. Returns its number.
    pub fn committed(&mut self, patch: &Patch, settled: CommitNumber) -> CommitNumber {
        let footprint = self.footprint(patch);
        self.last += 1;
        match footprint {
            Footprint::Any => {
                self.other = self.last;
                self.moved.clear();
            }
            Footprint::Peers(addresses) => {
                if self.moved.len() > MOST_COMPARED {
                    self.moved.retain(|_, commit| *commit > settled);
                }
                self.moved.extend(addresses.into_iter().map(|address| (address, self.last)));
            }
        }
        self.follow(patch);
        self.last
    }

    /// Notes that a program took the place of the table. Returns the number of that commit.
    pub(crate) fn replaced(&mut self, program: &Program) -> CommitNumber {
        self.last += 1;
        self.other = self.last;
        self.moved.clear();
        self.observe(program);
        self.last
    }

    /// Returns the number of the last commit.
    pub fn last(&self) -> CommitNumber {
        self.last
    }

    fn follow(&mut self, patch: &Patch) {
        let created = patch.chains.keys().filter(|name| is_node_chain(name));
        self.node_chains.extend(created.cloned());
        let Some(endpoints) = &mut self.endpoints else { return };
        let sets = patch.sets.iter().map(|(name, set)| (name, &set.elements));
        for (_, elements) in sets.chain(&patch.join).filter(|(name, _)| is_dispatch(name)) {
            endpoints.extend(elements.keys().filter_map(address));
        }
        // An endpoint that leaves one of its maps may still be in the other: it is kept, and at worst waited for.
    }

    fn footprint(&self, patch: &Patch) -> Footprint {
        let is_elements_alone =
            patch.changed.is_empty() && patch.chains.values().all(|chain| chain.hook.is_none());
        let (Some(endpoints), true, true) = (
            &self.endpoints,
            is_elements_alone && self.node_chains.is_empty(),
            patch.moves() <= MOST_COMPARED,
        ) else {
            return Footprint::Any;
        };
        let mut addresses = BTreeSet::new();
        for (name, elements) in patch.leave.iter().chain(&patch.join) {
            for key in elements.keys() {
                match address(key) {
                    Some(address) if !is_dispatch(name) && !endpoints.contains(&address) => {
                        addresses.insert(address);
                    }
                    _ => return Footprint::Any,
                }
            }
        }
        Footprint::Peers(addresses)
    }
}

fn is_dispatch(name: &Name) -> bool {
    DISPATCH.contains(&name.as_str())
}

fn is_node_chain(name: &Name) -> bool {
    NODE_CHAINS.contains(&name.as_str())
}

/// Returns the address in a key that has one, beside protocols and ports; `None` for ranges and for interfaces.
fn address(key: &Key) -> Option<IpAddr> {
    let mut found = None;
    for part in key {
        match part {
            (Value::Address(first), Value::Address(last)) if first == last && found.is_none() => {
                found = Some(*first);
            }
            (Value::Number(_), Value::Number(_)) => {}
            _ => return None,
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u8) -> (Value, Value) {
        let value = Value::Address(IpAddr::from([10, 0, 0, n]));
        (value, value)
    }

    fn joining(set: &str, key: Key) -> Patch {
        let elements = [(key, None)].into();
        Patch { join: [(Name::new(set), elements)].into(), ..Patch::default() }
    }

    #[test]
    fn changes_wait_for_those_that_a_packet_could_combine_them_with() {
        let peer = |n| joining("peers", vec![address(n)]);
        let port = (Value::Number(80), Value::Number(80));
        let mut settling = Settling::default();
        // While endpoints are not known, everything waits.
        assert_eq!(settling.awaited(&peer(1), 0), None);
        assert_eq!(settling.committed(&peer(1), 0), 1);
        assert_eq!(settling.awaited(&peer(2), 0), Some(1));
        assert_eq!(settling.awaited(&peer(2), 1), None);
        settling.observe(&Program::default());
        for n in 2..6 {
            assert_eq!(settling.awaited(&peer(n), 1), None);
            assert_eq!(settling.committed(&peer(n), 1), n.into());
        }
        // The same address again, in whatever set.
        assert_eq!(settling.awaited(&joining("others", vec![address(3), port]), 1), Some(3));
        assert_eq!(settling.awaited(&joining("others", vec![address(9), port]), 1), None);
        // An endpoint of this machine, a range, an interface.
        let dispatched = joining("to_pod4", vec![address(7)]);
        assert_eq!(settling.awaited(&dispatched, 1), Some(5));
        let range = (address(1).0, address(2).0);
        assert_eq!(settling.awaited(&joining("peers", vec![range]), 4), Some(5));
        assert_eq!(settling.committed(&dispatched, 5), 6);
        assert_eq!(settling.awaited(&peer(8), 5), Some(6));
        assert_eq!(settling.awaited(&peer(8), 6), None);
        assert_eq!(settling.committed(&peer(8), 6), 7);
        assert_eq!(settling.awaited(&peer(7), 6), Some(7));
        assert_eq!(settling.awaited(&peer(9), 6), None);
    }
}
