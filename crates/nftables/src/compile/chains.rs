//! Chains behind a list: verdicts by traffic, and the chain of each decision.

use std::collections::BTreeMap;

use palisade_engine::delta::CompiledRule as ViewRule;
use palisade_engine::view::View;
use palisade_flatten::{Decision, FlatVerdicts, PortVerdict, RuleList};
use palisade_model::address::Family;
use palisade_model::policy::{Direction, IcmpMatch, Object};
use palisade_model::trace::Verdict as Decided;
use palisade_model::traffic::{PortRange, Protocol};
use palisade_model::traffic_set::Addressing;

use super::edit::Edit;
use super::names::{self, readable};
use super::{Counted, FAMILIES};
use crate::program::{
    Chain, Elements, Field, ICMP, ICMP6, IGMP, Match, Name, Rule, SCTP, Set, TCP, UDP, Value, Verdict,
};

/// Maximum number of entries that become rules; more are looked up in a map.
const FEW: usize = 4;

/// Writes the chains behind a list.
pub(crate) struct Chains<'a> {
    pub(crate) view: &'a View,
    pub(crate) edit: &'a mut Edit,
    pub(crate) counted: &'a mut BTreeMap<Name, Counted>,
    pub(crate) list: &'a RuleList,
    /// The verdicts of each chain that is written, for comparisons.
    pub(crate) verdicts: &'a mut BTreeMap<Name, FlatVerdicts>,
}

// === impl Chains ===

impl Chains<'_> {
    /// Writes the chain of some verdicts. Returns its name.
    pub(crate) fn write(&mut self, verdicts: &FlatVerdicts) -> Name {
        let name = self.write_verdicts(verdicts);
        self.verdicts.entry(name.clone()).or_insert_with(|| verdicts.clone());
        name
    }

    fn write_verdicts(&mut self, verdicts: &FlatVerdicts) -> Name {
        let mut rules = Vec::new();
        for family in FAMILIES {
            self.icmp(verdicts, family, &mut rules);
        }
        self.igmp(verdicts, &mut rules);
        self.ports(verdicts, &mut rules);
        if rules.is_empty() {
            return self.decision_chain(verdicts.rest());
        }
        rules.push(self.rule([], verdicts.rest()));
        let name = names::verdict_chain(&rules);
        self.edit.chain(name.clone(), Chain { hook: None, rules });
        name
    }

    /// Adds verdicts by port. A few are rules. Of many, single ports are in a map that is looked up by its hash, because a map
    /// with ranges takes the kernel several times as long; ranges are rules or, if they are many, a map of their own.
    fn ports(&mut self, verdicts: &FlatVerdicts, rules: &mut Vec<Rule>) {
        let is_range = |entry: &PortVerdict| !is_any(entry.sources) || entry.ports.first != entry.ports.last;
        let (ranges, single): (Vec<PortVerdict>, Vec<PortVerdict>) = verdicts.ports().partition(is_range);
        let all_few = ranges.len() + single.len() <= FEW;
        let ranges_few = ranges.len() <= FEW;
        for (entries, few) in [(single, all_few), (ranges, ranges_few)] {
            if few {
                for entry in entries {
                    rules.push(self.rule(conditions(&entry), entry.decision));
                }
            } else {
                self.port_map(&entries, rules);
            }
        }
    }

    fn port_map(&mut self, entries: &[PortVerdict], rules: &mut Vec<Rule>) {
        let by_source = entries.iter().any(|entry| !is_any(entry.sources));
        let mut elements = Elements::new();
        for PortVerdict { protocol, sources, ports, decision } in entries {
            let to = self.decision_chain(*decision);
            let number = Value::Number(protocol_number(*protocol));
            let mut key = vec![(number, number)];
            if by_source {
                key.push((Value::Number(sources.first), Value::Number(sources.last)));
            }
            key.push((Value::Number(ports.first), Value::Number(ports.last)));
            elements.insert(key, Some(Verdict::Goto(to)));
        }
        if elements.is_empty() {
            return;
        }
        let mut fields = vec![Field::Protocol];
        fields.extend(by_source.then_some(Field::SourcePort));
        fields.push(Field::Port);
        let map = content_named(self.edit, &fields, elements, true, "ports");
        rules.push(Rule::new([], Verdict::Map(fields, map)));
    }

    fn icmp(&mut self, verdicts: &FlatVerdicts, family: Family, rules: &mut Vec<Rule>) {
        let Some(icmp) = verdicts.icmp() else { return };
        let number = if family == Family::V4 { ICMP } else { ICMP6 };
        let protocol = Match::Is(Field::Protocol, Value::Number(number.into()));
        for (IcmpMatch { kind, code }, decision) in icmp.listed {
            let is = |field, value: u8| Match::Is(field, Value::Number(value.into()));
            let mut matches = vec![protocol.clone()];
            matches.extend(kind.map(|kind| is(Field::IcmpType(family), kind)));
            matches.extend(code.map(|code| is(Field::IcmpCode(family), code)));
            rules.push(self.rule(matches, decision));
        }
        rules.push(self.rule([protocol], icmp.other));
    }

    fn igmp(&mut self, verdicts: &FlatVerdicts, rules: &mut Vec<Rule>) {
        let protocol = Match::Is(Field::Protocol, Value::Number(IGMP.into()));
        for entry in verdicts.igmp() {
            let mut matches = vec![protocol.clone()];
            matches.extend(entry.kind.map(|kind| Match::Is(Field::IgmpType, Value::Number(kind.into()))));
            match entry.to {
                Some(Addressing::Group(group)) => {
                    matches.push(Match::Is(Field::Destination(Family::V4), Value::Address(group)));
                }
                Some(Addressing::OtherGroup) => matches.push(Match::Multicast),
                // Groups come first.
                Some(Addressing::Host) | None => {}
            }
            rules.push(self.rule(matches, entry.decision));
        }
    }

    /// Returns the rule that ends with a decision, and counts it.
    fn rule(&mut self, matches: impl IntoIterator<Item = Match>, decision: Decision) -> Rule {
        let (counted, verdict, log) = self.counted(decision);
        // What takes more than one rule is a chain.
        if verdict == Verdict::Reject || log.is_some() {
            let to = self.decision_chain(decision);
            return Rule::new(matches, Verdict::Goto(to));
        }
        let comment = Some(counted.to_string());
        let counter = Some(self.counter(decision, counted));
        Rule { matches: matches.into_iter().collect(), counter, verdict, comment }
    }

    /// Writes the chain of a decision. Returns its name.
    fn decision_chain(&mut self, decision: Decision) -> Name {
        let (counted, verdict, log) = self.counted(decision);
        let comment = Some(counted.to_string());
        let name = self.counter(decision, counted);
        let rule = Rule { matches: Vec::new(), counter: Some(name.clone()), verdict, comment };
        let log = log.map(|text| Rule::new([], Verdict::Log(text)));
        self.edit.chain(name.clone(), Chain { hook: None, rules: log.into_iter().chain([rule]).collect() });
        name
    }

    /// Returns what a counter counts for a decision, what becomes of the packet, and what is logged.
    fn counted(&self, decision: Decision) -> (Counted, Verdict, Option<String>) {
        let direction = self.list.direction();
        let verdict = match (decision.verdict, direction) {
            // The receiver's ingress may still refuse what egress allows.
            (Decided::Allow, Direction::Egress) => Verdict::Return,
            (Decided::Allow, Direction::Ingress) => Verdict::Accept,
            (Decided::Deny, _) => Verdict::Drop,
            (Decided::Reject, _) => Verdict::Reject,
        };
        let rule = self.decider(decision);
        let counted = Counted {
            direction,
            verdict: decision.verdict,
            policy: self.object(decision).map(ToString::to_string),
            rule: rule.and_then(|rule| rule.rule),
        };
        let log = rule.and_then(|rule| rule.log.as_ref()).map(|label| {
            let label = if label.is_empty() { String::new() } else { format!("{label} ") };
            format!("palisade {label}{counted}: ")
        });
        (counted, verdict, log)
    }

    /// Adds the counter of a decision. Returns its name, which is for people.
    fn counter(&mut self, decision: Decision, counted: Counted) -> Name {
        let direction = counted.direction.to_string();
        let rule = counted.rule.map(|rule| rule.to_string());
        let mut parts = vec![direction.as_str(), counted.verdict_name()];
        match self.object(decision) {
            Some(object) => {
                parts.extend(object.dialect.prefix());
                parts.push(&object.kind);
                parts.extend(object.namespace.as_deref());
                parts.extend([&*object.name, rule.as_deref().unwrap_or("isolation")]);
            }
            None if decision.verdict == Decided::Allow => parts.push("no-policy"),
            None => parts.push("too-much"),
        }
        let name = readable(&parts);
        self.edit.counter(&name);
        self.counted.insert(name.clone(), counted);
        name
    }

    /// Returns the rule that decides.
    fn decider(&self, decision: Decision) -> Option<&ViewRule> {
        Some(&**self.list.rules().get(decision.rule? as usize)?)
    }

    /// Returns the object of the policy that decides.
    fn object(&self, decision: Decision) -> Option<&Object> {
        let origin = self.view.policies().get(&self.decider(decision)?.policy)?;
        Some(&origin.object)
    }
}

/// Returns the conditions of a rule for an entry.
fn conditions(PortVerdict { protocol, sources, ports, .. }: &PortVerdict) -> Vec<Match> {
    let number = protocol_number(*protocol);
    let within = |field, range: PortRange| match range.first == range.last {
        true => Match::Is(field, Value::Number(range.first)),
        false => Match::Between(field, Value::Number(range.first), Value::Number(range.last)),
    };
    let mut conditions = vec![Match::Is(Field::Protocol, Value::Number(number))];
    conditions.extend((!is_any(*sources)).then(|| within(Field::SourcePort, *sources)));
    if !is_any(*ports) {
        conditions.push(within(Field::Port, *ports));
    }
    conditions
}

fn is_any(range: PortRange) -> bool {
    range == PortRange::ALL
}

/// Adds a set or map that is named by its content. Returns its name.
pub(crate) fn content_named(
    edit: &mut Edit,
    fields: &[Field],
    elements: Elements,
    is_map: bool,
    comment: &str,
) -> Name {
    let key: Vec<_> = fields.iter().map(|field| field.is_of()).collect();
    let name = names::content(&key, &elements, is_map);
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
