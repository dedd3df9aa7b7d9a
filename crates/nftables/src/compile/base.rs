//! Base chains, and the maps that dispatch packets to the lists of the node's endpoints.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::policy::Direction;

use super::FAMILIES;
use super::compiler::Compiler;
use super::index::address_key;
use crate::program::{Chain, Elements, Field, FieldType, Hook, Match, Name, Rule, Set, Value, Verdict};

/// The counter of packets with an address that may not come by their interface.
pub const FORGED: &str = "forged";

/// The set of interfaces that lead to pods.
pub(crate) const WIRES: &str = "wires";

/// Comment of the rules that drop TCP packets which neither open a connection nor belong to one.
pub(super) const REST: &str = "what is left of a connection that was cut";

impl Compiler {
    /// Adds the maps and sets that every program has.
    pub(super) fn base_sets(&mut self) {
        let mut add = |name: Name, key: Vec<FieldType>, is_map: bool, comment: &str| {
            let comment = comment.to_owned();
            self.edit.set(&name, || Set { key, elements: Elements::new(), is_map, interval: false, comment });
        };
        for family in FAMILIES {
            let address = FieldType::Address(family);
            for direction in Direction::BOTH {
                let comment = match direction {
                    Direction::Egress => "pods of this node, by whose packets are judged",
                    Direction::Ingress => "pods of this node, by who gets them",
                };
                add(dispatch(direction, family), vec![address], true, comment);
            }
            if !self.wiring.is_empty() {
                let comment = "what may come by which interface";
                add(wired(family), vec![FieldType::Interface, address], false, comment);
            }
        }
        if !self.wiring.is_empty() {
            add(WIRES.into(), vec![FieldType::Interface], false, "interfaces that lead to pods");
        }
    }

    /// Writes the base chains.
    pub(super) fn base_chains(&mut self) {
        let always = [
            Rule::new([Match::Established], Verdict::Accept).comment("connections that are known"),
            Rule::new([Match::NeighbourDiscovery], Verdict::Accept).comment("neighbour discovery"),
        ];
        let pods = |direction: Direction| {
            FAMILIES.map(|family| {
                let field = match direction {
                    Direction::Egress => Field::Source(family),
                    Direction::Ingress => Field::Destination(family),
                };
                Rule::new([], Verdict::Map(vec![field], dispatch(direction, family)))
            })
        };
        let mut forged = Vec::new();
        if !self.wiring.is_empty() {
            self.edit.counter(&FORGED.into());
            // A pod looks for duplicates of its address before it uses it.
            forged.push(always[1].clone());
            for family in FAMILIES {
                let (wire, source) = (Field::InterfaceIn, Field::Source(family));
                forged.push(Rule {
                    matches: vec![
                        Match::In(vec![wire], WIRES.into()),
                        Match::NotIn(vec![wire, source], wired(family)),
                    ],
                    counter: Some(FORGED.into()),
                    verdict: Verdict::Drop,
                    comment: Some("not the address of the pod behind this interface".to_owned()),
                });
            }
        }
        // Neighbour discovery is accepted before the check for forged addresses, if there is one.
        let known = if forged.is_empty() { &always[..] } else { &always[..1] };
        let mut forward = forged.clone();
        forward.extend(known.to_vec());
        forward.extend(pods(Direction::Egress));
        forward.extend(pods(Direction::Ingress));
        let mut input =
            vec![Rule::new([Match::LoopbackIn], Verdict::Accept).comment("this machine with itself")];
        input.extend(forged);
        input.extend(known.to_vec());
        input.extend(pods(Direction::Egress));
        // A pod's own node always reaches it.
        let mut output =
            vec![Rule::new([Match::LoopbackOut], Verdict::Accept).comment("this machine with itself")];
        output.extend(always);
        let rest = Rule::new([Match::LooseTcp], Verdict::Drop).comment(REST);
        for direction in Direction::BOTH {
            let mut rules = vec![rest.clone()];
            rules.extend((direction == Direction::Ingress).then(|| Rule::new([], Verdict::Accept)));
            self.edit.chain(loose(direction), Chain { hook: None, rules });
        }
        for (direction, chain, rules) in
            [(Direction::Ingress, "in_node", &mut input), (Direction::Egress, "eg_node", &mut output)]
        {
            rules.extend((!self.node_lists.is_empty()).then(|| rest.clone()));
            if let Some(list) = self.node_lists.get(&direction) {
                let to = Rule::new([], Verdict::Goto(list.clone()));
                self.edit.chain(chain.into(), Chain { hook: None, rules: vec![to] });
                rules.push(Rule::new([], Verdict::Goto(chain.into())));
            }
        }
        for (name, hook, rules) in [
            ("forward", Hook::Forward, forward),
            ("input", Hook::Input, input),
            ("output", Hook::Output, output),
        ] {
            self.edit.chain(name.into(), Chain { hook: Some(hook), rules });
        }
    }

    /// Updates the lists of the packets from and to an address.
    pub(super) fn dispatch(&mut self, address: IpAddr) {
        let key = address_key(address);
        let family = Family::of(address);
        let claims: Vec<_> = self.index.claims.get(&address).into_iter().flatten().cloned().collect();
        for direction in Direction::BOTH {
            let map = dispatch(direction, family);
            // Of two pods that claim an address the last one with rules has it, in the order of members: not in that of events.
            let mut lists = claims.iter().rev().filter_map(|member| self.pod_lists.get(member));
            // A connection that was cut in one direction must not be resumed by a packet in the other.
            let loose = || {
                Some(loose(direction)).filter(|_| claims.iter().any(|own| self.pod_lists.contains_key(own)))
            };
            match lists.find_map(|lists| lists.get(&direction)).cloned().or_else(loose) {
                Some(list) => {
                    // While nothing led to it, its chain was removed.
                    if !self.edit.program().chains.contains_key(&list) {
                        self.stale.insert(list.clone());
                    }
                    let verdict = match direction {
                        Direction::Egress => Verdict::Jump(list),
                        Direction::Ingress => Verdict::Goto(list),
                    };
                    self.edit.put(&map, key.clone(), Some(verdict));
                }
                None => self.edit.take(&map, &key),
            }
        }
    }

    /// Updates the addresses that may come by each interface.
    pub(super) fn wire(&mut self) {
        let mut wires = Elements::new();
        let mut pairs: BTreeMap<Family, Elements> = FAMILIES.map(|family| (family, Elements::new())).into();
        for (interface, addresses) in &self.wiring {
            let wire = (Value::Interface(*interface), Value::Interface(*interface));
            wires.insert(vec![wire], None);
            for address in addresses {
                let value = Value::Address(*address);
                if let Some(pairs) = pairs.get_mut(&Family::of(*address)) {
                    pairs.insert(vec![wire, (value, value)], None);
                }
            }
        }
        self.edit.fill(&WIRES.into(), wires);
        for (family, pairs) in pairs {
            self.edit.fill(&wired(family), pairs);
        }
    }
}

/// Returns the map from the addresses of the node's pods to their lists.
pub(super) fn dispatch(direction: Direction, family: Family) -> Name {
    match direction {
        Direction::Egress => format!("from_pod{}", number(family)).into(),
        Direction::Ingress => format!("to_pod{}", number(family)).into(),
    }
}

/// Returns the chain for pods to which rules apply in the other direction only.
pub(super) fn loose(direction: Direction) -> Name {
    match direction {
        Direction::Egress => "eg_loose".into(),
        Direction::Ingress => "in_loose".into(),
    }
}

fn wired(family: Family) -> Name {
    format!("wired{}", number(family)).into()
}

fn number(family: Family) -> u8 {
    if family == Family::V4 { 4 } else { 6 }
}
