//! The pieces that the rules of a list cut traffic into.
//!
//! Ports are swept from the lowest to the highest with the rules that are about each of them, so that a list of ten thousand rules is not
//! asked ten thousand times. Types of ICMP and IGMP are few: each that a rule mentions is asked about.

use std::collections::{BTreeMap, BTreeSet};

use palisade_model::policy::{IcmpMatch, PortMatch, TrafficMatch, TrafficMatches};
use palisade_model::traffic::{PortRange, Protocol};

use super::{ABOUT, Asked, Behaviour, List, MOST_PIECES, Outcome, PortOutcome, To};
use crate::compile::budget::Budget;

/// A piece of traffic that no rule splits, but for ports.
#[derive(Debug, Clone, Copy)]
pub(super) enum Piece {
    /// Messages of a type and a code. `None` stands for the types, or codes, that no rule mentions: unlike in an [`IcmpMatch`]
    /// it is one of them and not all.
    Icmp {
        kind: Option<u8>,
        code: Option<u8>,
    },
    Igmp(Option<u8>, To),
    Rest,
}

/// Steps to look at a match, for a protocol and a range of source ports.
const MATCH: u64 = 30;
/// Steps for a port where something changes: rules begin and end there, and the first of the others decides.
const TURN: u64 = 200;

/// Those with ports.
pub(super) const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

// === impl List ===

impl List {
    /// The pieces that rules cut source ports of a protocol into.
    pub(super) fn sources(&self, rules: &BTreeSet<u32>, protocol: Protocol) -> Vec<PortRange> {
        let mut starts: BTreeSet<u16> = BTreeSet::from([0]);
        for rule in rules {
            if let TrafficMatches::Of(all) = &self.rules[*rule as usize].traffic {
                for one in all {
                    cut_sources(one, protocol, &mut starts);
                }
            }
        }
        let ends = starts.iter().skip(1).map(|next| next - 1).chain([u16::MAX]);
        starts.iter().zip(ends).map(|(first, last)| PortRange { first: *first, last }).collect()
    }

    /// Destination ports from the lowest to the highest, of connections from these source ports.
    pub(super) fn sweep(
        &self,
        rules: &BTreeSet<u32>,
        protocol: Protocol,
        source: PortRange,
        ports: &mut Vec<PortOutcome>,
        budget: &mut Budget,
    ) {
        // For each port where something changes: the rules that begin there to be about it, and those that end before it.
        let mut turns: BTreeMap<u16, (Vec<u32>, Vec<u32>)> = BTreeMap::from([(0, Default::default())]);
        for at in rules {
            let mut ranges = Vec::new();
            match &self.rules[*at as usize].traffic {
                TrafficMatches::Any => ranges.push(PortRange::ALL),
                TrafficMatches::Of(all) => {
                    budget.take(MATCH * all.len() as u64);
                    all.iter().for_each(|one| destinations(one, protocol, source.first, &mut ranges));
                }
            }
            for range in joined(ranges) {
                turns.entry(range.first).or_default().0.push(*at);
                if let Some(after) = range.last.checked_add(1) {
                    turns.entry(after).or_default().1.push(*at);
                }
            }
        }
        budget.take(ABOUT * rules.len() as u64 + TURN * turns.len() as u64);
        if budget.is_spent() {
            return;
        }
        let mut now: BTreeSet<u32> = BTreeSet::new();
        let mut open: Option<(PortRange, Outcome)> = None;
        for (port, (begin, end)) in turns {
            for at in &end {
                now.remove(at);
            }
            now.extend(begin);
            let outcome = self.first(|from| now.range(from..).next().copied());
            if let Some((range, before)) = &mut open {
                if *before == outcome {
                    continue;
                }
                range.last = port - 1;
                ports.push((protocol, source, *range, *before));
            }
            open = Some((PortRange { first: port, last: u16::MAX }, outcome));
        }
        ports.extend(open.map(|(range, outcome)| (protocol, source, range, outcome)));
    }

    /// ICMP by type and code. Rules name types, codes of a type, and codes of every type; a type is listed with all of its codes
    /// as soon as one of them differs from what the type would get without being listed.
    pub(super) fn icmp(&self, rules: &Asked<'_>, behaviour: &mut Behaviour, budget: &mut Budget) {
        let mut kinds: BTreeMap<u8, BTreeSet<u8>> = BTreeMap::new();
        let mut of_every_kind: BTreeSet<u8> = BTreeSet::new();
        for one in rules.traffic() {
            if let TrafficMatch::Icmp(IcmpMatch { kind, code }) = one {
                let codes = kind.map_or(&mut of_every_kind, |kind| kinds.entry(kind).or_default());
                codes.extend(code);
            }
        }
        let decide = |kind, code, budget: &mut Budget| self.decide(rules, Piece::Icmp { kind, code }, budget);
        let other = behaviour.other_icmp;
        let unlisted: BTreeMap<u8, Outcome> =
            of_every_kind.iter().map(|code| (*code, decide(None, Some(*code), budget))).collect();
        let (mut listed, mut asked) = (Vec::new(), 0);
        for (kind, own) in kinds {
            // Beyond the limit the behaviour is closed: what is decided here counts no more.
            asked += own.len() + of_every_kind.len();
            if asked > MOST_PIECES || budget.is_spent() {
                break;
            }
            let any = decide(Some(kind), None, budget);
            let codes =
                own.union(&of_every_kind).map(|code| (*code, decide(Some(kind), Some(*code), budget)));
            let codes: Vec<(u8, Outcome)> = codes.collect();
            let differs = |(code, outcome): &(u8, Outcome)| unlisted.get(code).unwrap_or(&other) != outcome;
            if any == other && !codes.iter().any(differs) {
                continue;
            }
            let kind = Some(kind);
            let codes = codes.into_iter().filter(|(_, outcome)| *outcome != any);
            listed.extend(codes.map(|(code, outcome)| (IcmpMatch { kind, code: Some(code) }, outcome)));
            listed.push((IcmpMatch { kind, code: None }, any));
        }
        let codes = unlisted.into_iter().filter(|(_, outcome)| *outcome != other);
        listed.extend(codes.map(|(code, outcome)| (IcmpMatch { kind: None, code: Some(code) }, outcome)));
        behaviour.icmp = listed;
        behaviour.closed |= asked > MOST_PIECES;
    }

    pub(super) fn igmp(&self, rules: &Asked<'_>, behaviour: &mut Behaviour, budget: &mut Budget) {
        let (mut kinds, mut groups) = (BTreeSet::new(), BTreeSet::new());
        let mut splits = false;
        for one in rules.traffic() {
            if let TrafficMatch::Igmp(kind, group) = one {
                splits |= kind.is_some() || group.is_some();
                kinds.extend(kind);
                // No packet of IGMP goes to a group of IPv6; one to a host may be about it.
                groups.extend(group.and_then(|group| match group {
                    std::net::IpAddr::V4(group) => Some(group),
                    std::net::IpAddr::V6(_) => None,
                }));
            }
        }
        if !splits {
            return;
        }
        let kinds: Vec<Option<u8>> = kinds.into_iter().map(Some).chain([None]).collect();
        let to: Vec<To> = groups.into_iter().map(To::Group).chain([To::OtherGroup, To::Host]).collect();
        if kinds.len() * to.len() > MOST_PIECES {
            behaviour.closed = true;
            return;
        }
        for kind in kinds {
            for to in &to {
                if budget.is_spent() {
                    return;
                }
                behaviour.igmp.push((kind, *to, self.decide(rules, Piece::Igmp(kind, *to), budget)));
            }
        }
    }
}

// === impl Asked ===

impl Asked<'_> {
    fn traffic(&self) -> impl Iterator<Item = &TrafficMatch> {
        self.0.iter().filter_map(|(_, matches)| *matches).flatten()
    }
}

/// Whether a match contains a piece. Ports are no pieces: the sweep decides them.
pub(super) fn contains(wanted: &TrafficMatch, piece: Piece) -> bool {
    match wanted {
        TrafficMatch::Icmp(IcmpMatch { kind, code }) => match piece {
            Piece::Icmp { kind: own_kind, code: own_code } => {
                kind.is_none_or(|kind| own_kind == Some(kind))
                    && code.is_none_or(|code| own_code == Some(code))
            }
            Piece::Igmp(..) | Piece::Rest => false,
        },
        TrafficMatch::Igmp(kind, group) => match piece {
            Piece::Igmp(own, to) => {
                kind.is_none_or(|kind| own == Some(kind))
                    && group.is_none_or(|group| match to {
                        To::Group(own) => group == own,
                        To::OtherGroup => false,
                        To::Host => true,
                    })
            }
            Piece::Icmp { .. } | Piece::Rest => false,
        },
        // Names have been resolved by the engine, and what cannot be read has become all traffic or none.
        TrafficMatch::Ports(..)
        | TrafficMatch::Named(..)
        | TrafficMatch::From(..)
        | TrafficMatch::Unknown(_) => false,
    }
}

/// The destination ports that a match is about, of connections from this source port.
fn destinations(one: &TrafficMatch, protocol: Protocol, source: u16, ranges: &mut Vec<PortRange>) {
    let mut add = |own: Protocol, range: PortRange| ranges.extend((own == protocol).then_some(range));
    match one {
        TrafficMatch::Ports(own, range) => add(*own, *range),
        TrafficMatch::From(from, port) => match &**port {
            PortMatch::Numbers(own, range) if from.contains(source) => add(*own, *range),
            PortMatch::Numbers(..) | PortMatch::Named(..) => {}
        },
        TrafficMatch::Named(..)
        | TrafficMatch::Icmp(_)
        | TrafficMatch::Igmp(..)
        | TrafficMatch::Unknown(_) => {}
    }
}

/// Whether traffic of a rule is about ports of a protocol in particular.
pub(super) fn names(traffic: &TrafficMatches, protocol: Protocol) -> bool {
    let TrafficMatches::Of(all) = traffic else { return false };
    all.iter().any(|one| match one {
        TrafficMatch::Ports(own, _) => *own == protocol,
        TrafficMatch::From(_, port) => port.is_about(protocol),
        TrafficMatch::Named(..)
        | TrafficMatch::Icmp(_)
        | TrafficMatch::Igmp(..)
        | TrafficMatch::Unknown(_) => false,
    })
}

fn cut_sources(one: &TrafficMatch, protocol: Protocol, starts: &mut BTreeSet<u16>) {
    if let TrafficMatch::From(range, port) = one
        && port.is_about(protocol)
    {
        starts.insert(range.first);
        starts.extend(range.last.checked_add(1));
    }
}

/// Ranges that overlap or touch become one.
fn joined(mut ranges: Vec<PortRange>) -> Vec<PortRange> {
    ranges.sort_by_key(|range| range.first);
    let mut all: Vec<PortRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(last) if u32::from(range.first) <= u32::from(last.last) + 1 => {
                last.last = last.last.max(range.last);
            }
            _ => all.push(range),
        }
    }
    all
}

/// Where all source ports have the same outcomes, they are one.
pub(super) fn merge_sources(ports: &mut Vec<PortOutcome>) {
    for protocol in PROTOCOLS {
        let mut by_source: BTreeMap<u16, Vec<(PortRange, Outcome)>> = BTreeMap::new();
        for (_, source, range, outcome) in ports.iter().filter(|entry| entry.0 == protocol) {
            by_source.entry(source.first).or_default().push((*range, *outcome));
        }
        let Some((_, first)) = by_source.pop_first() else { continue };
        if by_source.values().all(|other| *other == first) {
            ports.retain(|entry| entry.0 != protocol);
            ports
                .extend(first.into_iter().map(|(range, outcome)| (protocol, PortRange::ALL, range, outcome)));
        }
    }
}
