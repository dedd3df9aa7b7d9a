//! The chains behind a list of rules: peers by what they may do, traffic by what becomes of it, and the outcomes.

use std::collections::BTreeMap;

use palisade_engine::delta::{PolicyId, SetId};
use palisade_model::address::{Family, next};
use palisade_model::policy::Direction;
use palisade_model::traffic::{PortRange, Protocol};

use super::decide::{Behaviour, Final, List, Outcome};
use super::peers::Peers;
use super::{Compiler, names, single};
use crate::program::{
    Chain, Elements, Field, FieldType, ICMP, ICMP6, IGMP, Key, Match, Name, Rule, SCTP, Set, TCP, UDP, Value,
    Verdict,
};

/// More kinds of peers than this are looked up in a map, not in one set after the other.
const FEW: usize = 4;

impl Compiler<'_> {
    /// Tells peers apart by what they may do.
    pub(super) fn tell_apart(
        &mut self,
        list: &List<'_>,
        peers: &Peers,
        default: &Behaviour,
        direction: Direction,
        chain: &mut Chain,
    ) {
        let mut known: BTreeMap<&[SetId], Behaviour> = BTreeMap::new();
        let signatures = peers.exact.values().chain(peers.ranges.iter().map(|(.., own)| own));
        for signature in signatures {
            known.entry(signature).or_insert_with(|| list.behaviour(signature));
        }
        let others = |behaviour: &Behaviour| behaviour != default;
        let has_ranges = peers.ranges.iter().any(|(.., own)| others(&known[own.as_slice()]));
        for family in [Family::V4, Family::V6] {
            let field = match direction {
                Direction::Egress => Field::Destination(family),
                Direction::Ingress => Field::Source(family),
            };
            // An address that some range holds must not fall through to the range, even if it may do what anybody may.
            let exact = peers.exact.iter().filter(|(address, _)| Family::of(**address) == family);
            let exact =
                exact.map(|(address, own)| (vec![single(Value::Address(*address))], &known[own.as_slice()]));
            let exact: Vec<(Key, &Behaviour)> = exact.filter(|(_, own)| has_ranges || others(own)).collect();
            self.look_up(field, exact, direction, chain);
            let ranges = peers.ranges.iter().filter(|(first, ..)| Family::of(*first) == family);
            let ranges = ranges.map(|(first, last, own)| {
                (vec![(Value::Address(*first), Value::Address(*last))], &known[own.as_slice()])
            });
            let ranges: Vec<(Key, &Behaviour)> = ranges.filter(|(_, own)| others(own)).collect();
            self.look_up(field, ranges, direction, chain);
        }
    }

    /// Sends peers to what they may do: a set for each way of it, or a map if there are many.
    fn look_up(
        &mut self,
        field: Field,
        peers: Vec<(Key, &Behaviour)>,
        direction: Direction,
        chain: &mut Chain,
    ) {
        let mut alike: BTreeMap<&Behaviour, Vec<Key>> = BTreeMap::new();
        for (key, behaviour) in peers {
            alike.entry(behaviour).or_default().push(key);
        }
        // By the name of the chain, which is the same in every run.
        let ways: BTreeMap<Name, Vec<Key>> =
            alike.into_iter().map(|(behaviour, keys)| (self.behaviour(behaviour, direction), keys)).collect();
        if ways.len() <= FEW {
            for (to, keys) in ways {
                let set = self.set(vec![field.is_of()], joined(keys), "peers that may do the same");
                chain.rules.push(Rule::new([Match::In(vec![field], set)], Verdict::Goto(to)));
            }
            return;
        }
        let mut elements = BTreeMap::new();
        for (to, keys) in ways {
            elements.extend(joined(keys).into_iter().map(|key| (key, Some(Verdict::Goto(to.clone())))));
        }
        let map = self.map(vec![field.is_of()], elements, "peers by what they may do");
        chain.rules.push(Rule::new([], Verdict::Map(vec![field], map)));
    }

    /// The chain of a behaviour.
    pub(super) fn behaviour(&mut self, behaviour: &Behaviour, direction: Direction) -> Name {
        let mut chain = Chain::default();
        for family in [Family::V4, Family::V6] {
            self.icmp(behaviour, family, direction, &mut chain);
        }
        if behaviour.igmp != behaviour.rest {
            let to = self.outcome(behaviour.igmp, direction);
            chain
                .rules
                .push(Rule::new([Match::Is(Field::Protocol, Value::Number(IGMP.into()))], Verdict::Goto(to)));
        }
        let sources = behaviour.ports.iter().any(|(_, source, ..)| *source != PortRange::ALL);
        let mut elements = BTreeMap::new();
        for (protocol, source, port, outcome) in &behaviour.ports {
            let to = self.outcome(*outcome, direction);
            let mut key = vec![single(Value::Number(protocol_number(*protocol)))];
            if sources {
                key.push((Value::Number(source.first), Value::Number(source.last)));
            }
            key.push((Value::Number(port.first), Value::Number(port.last)));
            elements.insert(key, Some(Verdict::Goto(to)));
        }
        if !elements.is_empty() {
            let mut fields = vec![Field::Protocol];
            fields.extend(sources.then_some(Field::SourcePort));
            fields.push(Field::Port);
            let key = fields.iter().map(|field| field.is_of()).collect();
            let map = self.map(key, elements, "ports");
            chain.rules.push(Rule::new([], Verdict::Map(fields, map)));
        }
        let to = self.outcome(behaviour.rest, direction);
        chain.rules.push(Rule::new([], Verdict::Goto(to)));
        let name = names::hashed("pr", &format!("{:?}", chain.rules));
        self.program.chains.insert(name.clone(), chain);
        name
    }

    fn icmp(&mut self, behaviour: &Behaviour, family: Family, direction: Direction, chain: &mut Chain) {
        let number = if family == Family::V4 { ICMP } else { ICMP6 };
        let protocol = Match::Is(Field::Protocol, Value::Number(number.into()));
        for (kind, code, outcome) in &behaviour.icmp {
            let to = self.outcome(*outcome, direction);
            let mut matches =
                vec![protocol.clone(), Match::Is(Field::IcmpType(family), Value::Number((*kind).into()))];
            matches.extend(code.map(|code| Match::Is(Field::IcmpCode(family), Value::Number(code.into()))));
            chain.rules.push(Rule::new(matches, Verdict::Goto(to)));
        }
        if behaviour.other_icmp != behaviour.rest {
            let to = self.outcome(behaviour.other_icmp, direction);
            chain.rules.push(Rule::new([protocol], Verdict::Goto(to)));
        }
    }

    /// The chain of an outcome: it counts, and that is it.
    fn outcome(&mut self, outcome: Outcome, direction: Direction) -> Name {
        let way = if direction == Direction::Egress { "egress" } else { "ingress" };
        let verdict = match (outcome.verdict, direction) {
            // What egress allows, ingress of whoever gets it may still refuse.
            (Final::Allow, Direction::Egress) => Verdict::Return,
            (Final::Allow, Direction::Ingress) => Verdict::Accept,
            (Final::Deny, _) => Verdict::Drop,
            (Final::Reject, _) => Verdict::Reject,
        };
        let who = self.who(outcome.by);
        let said = match outcome.verdict {
            Final::Allow => "allowed",
            Final::Deny => "denied",
            Final::Reject => "rejected",
        };
        let comment = format!("{way} {said} by {who}");
        let prefix = if outcome.verdict == Final::Allow { "ok" } else { "no" };
        let name = names::hashed(prefix, &comment);
        let counter = names::hashed("ct", &comment);
        self.program.counters.insert(counter.clone());
        let rule = Rule { matches: Vec::new(), counter: Some(counter), verdict, comment: Some(comment) };
        self.program.chains.insert(name.clone(), Chain { hook: None, rules: vec![rule] });
        name
    }

    pub(super) fn who(&self, by: Option<(PolicyId, Option<u32>)>) -> String {
        let Some((policy, rule)) = by else { return "no policy".to_owned() };
        let Some(origin) = self.view.policies().get(&policy) else { return "no policy".to_owned() };
        match rule {
            Some(rule) => format!("{}, rule {rule}", origin.object),
            None => format!("{}, which isolates", origin.object),
        }
    }

    /// A set with this content, found or made.
    pub(super) fn set(&mut self, key: Vec<FieldType>, elements: Vec<Key>, comment: &str) -> Name {
        let name = names::hashed("s", &format!("{key:?} {elements:?}"));
        let elements: Elements = elements.into_iter().map(|key| (key, None)).collect();
        let interval = has_ranges(&elements);
        let set = Set { key, elements, is_map: false, interval, comment: comment.to_owned() };
        self.program.sets.entry(name.clone()).or_insert(set);
        name
    }

    fn map(&mut self, key: Vec<FieldType>, elements: Elements, comment: &str) -> Name {
        let name = names::hashed("m", &format!("{key:?} {elements:?}"));
        let interval = has_ranges(&elements);
        let map = Set { key, elements, is_map: true, interval, comment: comment.to_owned() };
        self.program.sets.entry(name.clone()).or_insert(map);
        name
    }
}

/// Ranges of addresses that touch each other become one.
fn joined(mut keys: Vec<Key>) -> Vec<Key> {
    keys.sort();
    let mut all: Vec<Key> = Vec::with_capacity(keys.len());
    for key in keys {
        if let (Some([(_, last)]), [(first, end)]) = (all.last_mut().map(Vec::as_mut_slice), key.as_slice())
            && let (Value::Address(before), Value::Address(after)) = (*last, *first)
            && first != end
            && next(before) == Some(after)
        {
            *last = *end;
            continue;
        }
        all.push(key);
    }
    all
}

fn has_ranges(elements: &Elements) -> bool {
    elements.keys().flatten().any(|(first, last)| first != last)
}

fn protocol_number(protocol: Protocol) -> u16 {
    match protocol {
        Protocol::Tcp => TCP.into(),
        Protocol::Udp => UDP.into(),
        Protocol::Sctp => SCTP.into(),
        Protocol::Icmp => ICMP.into(),
        Protocol::Igmp => IGMP.into(),
    }
}
