//! The chains behind a list of rules: traffic by what becomes of it, and the outcomes.

use std::collections::BTreeMap;

use palisade_engine::delta::CompiledRule as ViewRule;
use palisade_engine::view::View;
use palisade_model::address::Family;
use palisade_model::policy::{Direction, IcmpMatch, Object};
use palisade_model::traffic::{PortRange, Protocol};

use super::decide::{Behaviour, Final, List, Outcome, PortOutcome, To};
use super::edit::Edit;
use super::names::{hashed, readable};
use super::{Counted, FAMILIES};
use crate::program::{
    Chain, Elements, Field, ICMP, ICMP6, IGMP, Match, Name, Rule, SCTP, Set, TCP, UDP, Value, Verdict,
};

/// More entries than this are looked up in a map.
const FEW: usize = 4;

/// Makes the chains for what lists of rules come to.
pub(crate) struct Chains<'a> {
    pub(crate) view: &'a View,
    pub(crate) edit: &'a mut Edit,
    pub(crate) counted: &'a mut BTreeMap<Name, Counted>,
    pub(crate) list: &'a List,
    /// What each chain that is made lets through, for whoever compares them.
    pub(crate) behaviours: &'a mut BTreeMap<Name, Behaviour>,
}

// === impl Chains ===

impl Chains<'_> {
    /// The chain of a behaviour.
    pub(crate) fn behaviour(&mut self, behaviour: &Behaviour) -> Name {
        let name = self.chain_of(behaviour);
        self.behaviours.entry(name.clone()).or_insert_with(|| behaviour.clone());
        name
    }

    fn chain_of(&mut self, behaviour: &Behaviour) -> Name {
        let mut rules = Vec::new();
        for family in FAMILIES {
            self.icmp(behaviour, family, &mut rules);
        }
        self.igmp(behaviour, &mut rules);
        self.ports(behaviour, &mut rules);
        if rules.is_empty() {
            return self.outcome(behaviour.rest);
        }
        rules.push(self.rule([], behaviour.rest));
        let name = hashed("pr", &format!("{rules:?}"));
        self.edit.chain(name.clone(), Chain { hook: None, rules });
        name
    }

    /// Ports by what becomes of them. A few are rules; of many, single ports are in a map that is looked up by its hash, because the kernel
    /// takes several times as long for one with ranges, and ranges are rules or, if they are many, a map of their own.
    fn ports(&mut self, behaviour: &Behaviour, rules: &mut Vec<Rule>) {
        let is_range = |(_, source, port, _): &&PortOutcome| !is_any(*source) || port.first != port.last;
        let (ranges, single): (Vec<&PortOutcome>, Vec<&PortOutcome>) =
            behaviour.ports.iter().partition(|entry| is_range(entry));
        let all_few = behaviour.ports.len() <= FEW;
        let ranges_few = ranges.len() <= FEW;
        for (entries, few) in [(single, all_few), (ranges, ranges_few)] {
            if few {
                for entry in entries {
                    rules.push(self.rule(conditions(entry), entry.3));
                }
            } else {
                self.port_map(&entries, rules);
            }
        }
    }

    fn port_map(&mut self, entries: &[&PortOutcome], rules: &mut Vec<Rule>) {
        let sources = entries.iter().any(|(_, source, ..)| !is_any(*source));
        let mut elements = Elements::new();
        for (protocol, source, port, outcome) in entries {
            let to = self.outcome(*outcome);
            let number = Value::Number(protocol_number(*protocol));
            let mut key = vec![(number, number)];
            if sources {
                key.push((Value::Number(source.first), Value::Number(source.last)));
            }
            key.push((Value::Number(port.first), Value::Number(port.last)));
            elements.insert(key, Some(Verdict::Goto(to)));
        }
        if elements.is_empty() {
            return;
        }
        let mut fields = vec![Field::Protocol];
        fields.extend(sources.then_some(Field::SourcePort));
        fields.push(Field::Port);
        let map = content_named(self.edit, &fields, elements, true, "ports");
        rules.push(Rule::new([], Verdict::Map(fields, map)));
    }

    fn icmp(&mut self, behaviour: &Behaviour, family: Family, rules: &mut Vec<Rule>) {
        let number = if family == Family::V4 { ICMP } else { ICMP6 };
        let protocol = Match::Is(Field::Protocol, Value::Number(number.into()));
        for (IcmpMatch { kind, code }, outcome) in &behaviour.icmp {
            let is = |field, value: u8| Match::Is(field, Value::Number(value.into()));
            let mut matches = vec![protocol.clone()];
            matches.extend(kind.map(|kind| is(Field::IcmpType(family), kind)));
            matches.extend(code.map(|code| is(Field::IcmpCode(family), code)));
            rules.push(self.rule(matches, *outcome));
        }
        if behaviour.other_icmp != behaviour.rest || !behaviour.icmp.is_empty() {
            rules.push(self.rule([protocol], behaviour.other_icmp));
        }
    }

    fn igmp(&mut self, behaviour: &Behaviour, rules: &mut Vec<Rule>) {
        let protocol = Match::Is(Field::Protocol, Value::Number(IGMP.into()));
        for (kind, to, outcome) in &behaviour.igmp {
            let mut matches = vec![protocol.clone()];
            matches.extend(kind.map(|kind| Match::Is(Field::IgmpType, Value::Number(kind.into()))));
            match to {
                To::Group(group) => {
                    matches.push(Match::Is(Field::Destination(Family::V4), Value::Address((*group).into())));
                }
                To::OtherGroup => matches.push(Match::Multicast),
                To::Host => {}
            }
            rules.push(self.rule(matches, *outcome));
        }
        if behaviour.igmp.is_empty() && behaviour.other_igmp != behaviour.rest {
            rules.push(self.rule([protocol], behaviour.other_igmp));
        }
    }

    /// The rule that ends with an outcome: it counts, and that is it.
    fn rule(&mut self, matches: impl IntoIterator<Item = Match>, outcome: Outcome) -> Rule {
        let (counted, verdict, log) = self.counted(outcome);
        // What takes more than one rule is a chain.
        if verdict == Verdict::Reject || log.is_some() {
            let to = self.outcome(outcome);
            return Rule::new(matches, Verdict::Goto(to));
        }
        let comment = Some(counted.to_string());
        let counter = Some(self.counter(outcome, counted));
        Rule { matches: matches.into_iter().collect(), counter, verdict, comment }
    }

    /// The chain of an outcome.
    fn outcome(&mut self, outcome: Outcome) -> Name {
        let (counted, verdict, log) = self.counted(outcome);
        let comment = Some(counted.to_string());
        let name = self.counter(outcome, counted);
        let rule = Rule { matches: Vec::new(), counter: Some(name.clone()), verdict, comment };
        let log = log.map(|text| Rule::new([], Verdict::Log(text)));
        self.edit.chain(name.clone(), Chain { hook: None, rules: log.into_iter().chain([rule]).collect() });
        name
    }

    /// What an outcome is, for a packet, for whoever counts it, and for the log.
    fn counted(&self, outcome: Outcome) -> (Counted, Verdict, Option<String>) {
        let direction = self.list.direction;
        let verdict = match (outcome.verdict, direction) {
            // What egress allows, ingress of whoever gets it may still refuse.
            (Final::Allow, Direction::Egress) => Verdict::Return,
            (Final::Allow, Direction::Ingress) => Verdict::Accept,
            (Final::Deny, _) => Verdict::Drop,
            (Final::Reject, _) => Verdict::Reject,
        };
        let rule = self.by(outcome);
        let counted = Counted {
            direction,
            verdict: outcome.verdict.into(),
            policy: self.object(outcome).map(ToString::to_string),
            rule: rule.and_then(|rule| rule.rule),
        };
        let log = rule.and_then(|rule| rule.log.as_ref()).map(|label| {
            let label = if label.is_empty() { String::new() } else { format!("{label} ") };
            format!("palisade {label}{counted}: ")
        });
        (counted, verdict, log)
    }

    /// The counter of an outcome, found or made. Its name is for people.
    fn counter(&mut self, outcome: Outcome, counted: Counted) -> Name {
        let way = counted.direction.to_string();
        let place = counted.rule.map(|rule| rule.to_string());
        let mut parts = vec![way.as_str(), counted.said()];
        match self.object(outcome) {
            Some(object) => {
                parts.extend(object.dialect.prefix());
                parts.push(&object.kind);
                parts.extend(object.namespace.as_deref());
                parts.extend([&*object.name, place.as_deref().unwrap_or("isolation")]);
            }
            None if outcome.verdict == Final::Allow => parts.push("no-policy"),
            None => parts.push("too-much"),
        }
        let name = readable(&parts);
        self.edit.counter(&name);
        self.counted.insert(name.clone(), counted);
        name
    }

    fn by(&self, outcome: Outcome) -> Option<&ViewRule> {
        Some(&**self.list.rules.get(outcome.by? as usize)?)
    }

    fn object(&self, outcome: Outcome) -> Option<&Object> {
        let origin = self.view.policies().get(&self.by(outcome)?.policy)?;
        Some(&origin.object)
    }
}

/// What a packet must carry for an entry.
fn conditions((protocol, source, port, _): &PortOutcome) -> Vec<Match> {
    let number = protocol_number(*protocol);
    let within = |field, range: PortRange| match range.first == range.last {
        true => Match::Is(field, Value::Number(range.first)),
        false => Match::Between(field, Value::Number(range.first), Value::Number(range.last)),
    };
    let mut conditions = vec![Match::Is(Field::Protocol, Value::Number(number))];
    conditions.extend((!is_any(*source)).then(|| within(Field::SourcePort, *source)));
    if !is_any(*port) {
        conditions.push(within(Field::Port, *port));
    }
    conditions
}

fn is_any(range: PortRange) -> bool {
    range == PortRange::ALL
}

/// A set or map named by its content, found or made.
pub(crate) fn content_named(
    edit: &mut Edit,
    fields: &[Field],
    elements: Elements,
    is_map: bool,
    comment: &str,
) -> Name {
    let key: Vec<_> = fields.iter().map(|field| field.is_of()).collect();
    let name = hashed(if is_map { "m" } else { "s" }, &format!("{key:?} {elements:?}"));
    let interval = elements.keys().flatten().any(|(first, last)| first != last);
    edit.set(&name, || Set { key, elements, is_map, interval, comment: comment.to_owned() });
    name
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
