//! What a list of rules says to a peer, for all traffic at once: the pipeline, run once for every piece of the traffic that
//! rules can tell apart.
//!
//! Stages, priorities and Pass end here. What comes out is a **behaviour**: pieces of traffic that do not overlap, each with
//! an outcome, and one outcome for all the rest.

use std::collections::{BTreeMap, BTreeSet};

use palisade_engine::delta::{Does, PolicyId, Rule, SetId};
use palisade_model::policy::{Action, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::Stage;
use palisade_model::traffic::{PortRange, Protocol};

/// What becomes of a connection, and which policy says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Outcome {
    pub(crate) verdict: Final,
    /// The policy, and the rule's place in it; none where nobody has a say.
    pub(crate) by: Option<(PolicyId, Option<u32>)>,
}

/// The end of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Final {
    Allow,
    Deny,
    Reject,
}

/// What a peer may do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Behaviour {
    /// Protocol, source ports, ports. Where source ports say nothing they are all.
    pub(crate) ports: Vec<(Protocol, PortRange, PortRange, Outcome)>,
    /// Type and code of ICMP; all codes if there is none.
    pub(crate) icmp: Vec<(u8, Option<u8>, Outcome)>,
    /// Any other ICMP, and IGMP.
    pub(crate) other_icmp: Outcome,
    pub(crate) igmp: Outcome,
    /// Whatever else there is.
    pub(crate) rest: Outcome,
}

/// A piece of traffic that no rule splits.
#[derive(Debug, Clone, Copy)]
enum Piece {
    Port(Protocol, u16, u16),
    /// A type and a code; none stands for those that no rule mentions.
    Icmp(Option<u8>, Option<u8>),
    Igmp,
    Rest,
}

/// Rules that apply to somebody in one direction, in their order.
pub(crate) struct List<'v> {
    pub(crate) rules: Vec<&'v Rule>,
}

const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

// === impl List ===

impl List<'_> {
    /// What they say to a peer who is in these sets, sorted.
    pub(crate) fn behaviour(&self, signature: &[SetId]) -> Behaviour {
        let rules: Vec<&Rule> = self.rules.iter().copied().filter(|rule| is_about(rule, signature)).collect();
        let rest = decide(&rules, Piece::Rest);
        let mut ports = Vec::new();
        for protocol in PROTOCOLS {
            let (sources, destinations) = cuts(&rules, protocol);
            for source in &sources {
                let mut open: Option<(PortRange, Outcome)> = None;
                for destination in &destinations {
                    let outcome = decide(&rules, Piece::Port(protocol, source.first, destination.first));
                    match &mut open {
                        Some((range, same)) if *same == outcome => range.last = destination.last,
                        _ => {
                            ports.extend(
                                open.take().map(|(range, outcome)| (protocol, *source, range, outcome)),
                            );
                            open = Some((*destination, outcome));
                        }
                    }
                }
                ports.extend(open.map(|(range, outcome)| (protocol, *source, range, outcome)));
            }
        }
        // Source ports that make no difference are not told apart.
        merge_sources(&mut ports);
        ports.retain(|(.., outcome)| *outcome != rest);
        let other_icmp = decide(&rules, Piece::Icmp(None, None));
        let mut icmp = Vec::new();
        for (kind, codes) in icmp_kinds(&rules) {
            let any = decide(&rules, Piece::Icmp(Some(kind), None));
            for code in codes {
                let outcome = decide(&rules, Piece::Icmp(Some(kind), Some(code)));
                if outcome != any {
                    icmp.push((kind, Some(code), outcome));
                }
            }
            if any != other_icmp || icmp.iter().any(|(other, ..)| *other == kind) {
                icmp.push((kind, None, any));
            }
        }
        Behaviour { ports, icmp, other_icmp, igmp: decide(&rules, Piece::Igmp), rest }
    }
}

/// Whether a rule is about a peer who is in these sets.
fn is_about(rule: &Rule, signature: &[SetId]) -> bool {
    let is_in = |set: &SetId| signature.binary_search(set).is_ok();
    let peers = rule.peers.as_ref().is_none_or(|sets| sets.iter().any(is_in));
    peers && (!rule.directions.egress || rule.destination.as_ref().is_none_or(is_in))
}

/// The pipeline, for one piece of traffic.
fn decide(rules: &[&Rule], piece: Piece) -> Outcome {
    let by = |rule: &Rule| Some((rule.policy, rule.rule));
    let first_match = |stage: Stage| -> Option<Outcome> {
        let rule = rules.iter().find(|rule| rule.order.stage == stage && carries(rule, piece))?;
        let verdict = match rule.does {
            Does::Act(Action::Allow) if !rule.layer7.is_empty() => Final::Deny,
            Does::Act(Action::Allow) => Final::Allow,
            Does::Act(Action::Deny) => Final::Deny,
            Does::Act(Action::Reject) => Final::Reject,
            // Passed on would be what the rule does not mean, too: what comes later might allow it.
            Does::Act(Action::Pass) if matches!(piece, Piece::Igmp) && is_about_some_igmp(rule) => {
                Final::Deny
            }
            Does::Act(Action::Pass) | Does::Isolate => return None,
        };
        Some(Outcome { verdict, by: by(rule) })
    };
    if let Some(outcome) = first_match(Stage::Tiers) {
        return outcome;
    }
    let union = || rules.iter().filter(|rule| rule.order.stage == Stage::NetworkPolicy);
    if let Some(isolation) = union().find(|rule| rule.does == Does::Isolate) {
        let mut allows = union().filter(|rule| rule.does != Does::Isolate && carries(rule, piece));
        return match allows.next() {
            Some(rule) => Outcome { verdict: Final::Allow, by: by(rule) },
            None => Outcome { verdict: Final::Deny, by: by(isolation) },
        };
    }
    first_match(Stage::Baseline).unwrap_or(Outcome { verdict: Final::Allow, by: None })
}

/// Whether a rule is about some of IGMP, by type or group, which the kernel is not asked to tell apart.
pub(crate) fn is_about_some_igmp(rule: &Rule) -> bool {
    match &rule.traffic {
        TrafficMatches::Any => false,
        TrafficMatches::Of(all) => {
            all.iter().any(|one| matches!(one, TrafficMatch::Igmp(..)))
                && !all.iter().any(|one| matches!(one, TrafficMatch::Igmp(None, None)))
        }
    }
}

fn carries(rule: &Rule, piece: Piece) -> bool {
    match &rule.traffic {
        TrafficMatches::Any => true,
        TrafficMatches::Of(all) => all.iter().any(|one| is_meant(one, piece, rule.does)),
    }
}

fn is_meant(wanted: &TrafficMatch, piece: Piece, does: Does) -> bool {
    match (wanted, piece) {
        (TrafficMatch::Ports(protocol, range), Piece::Port(own, _, port)) => {
            *protocol == own && range.contains(port)
        }
        (TrafficMatch::From(range, of), Piece::Port(_, source, _)) => {
            range.contains(source) && is_meant(of, piece, does)
        }
        (TrafficMatch::Icmp(None, _), Piece::Icmp(..)) => true,
        (TrafficMatch::Icmp(Some(kind), None), Piece::Icmp(own, _)) => own == Some(*kind),
        (TrafficMatch::Icmp(Some(kind), Some(code)), Piece::Icmp(own, own_code)) => {
            own == Some(*kind) && own_code == Some(*code)
        }
        // What of IGMP a rule is about the kernel cannot tell: what allows some of it allows none.
        (TrafficMatch::Igmp(None, None), Piece::Igmp) => true,
        (TrafficMatch::Igmp(..), Piece::Igmp) => does != Does::Act(Action::Allow),
        _ => false,
    }
}

/// The pieces that rules cut source and destination ports of a protocol into.
fn cuts(rules: &[&Rule], protocol: Protocol) -> (Vec<PortRange>, Vec<PortRange>) {
    let (mut sources, mut destinations) = (Vec::new(), Vec::new());
    for rule in rules {
        if let TrafficMatches::Of(all) = &rule.traffic {
            for one in all {
                note(one, protocol, &mut sources, &mut destinations);
            }
        }
    }
    (pieces(&sources), pieces(&destinations))
}

fn note(
    one: &TrafficMatch,
    protocol: Protocol,
    sources: &mut Vec<PortRange>,
    destinations: &mut Vec<PortRange>,
) {
    match one {
        TrafficMatch::Ports(own, range) if *own == protocol => destinations.push(*range),
        TrafficMatch::From(range, of) if of.is_about(protocol) => {
            sources.push(*range);
            note(of, protocol, sources, destinations);
        }
        _ => {}
    }
}

/// All ports, cut where a range begins or ends.
fn pieces(ranges: &[PortRange]) -> Vec<PortRange> {
    let mut starts: Vec<u16> = vec![0];
    for range in ranges {
        starts.push(range.first);
        starts.extend(range.last.checked_add(1));
    }
    starts.sort_unstable();
    starts.dedup();
    let ends = starts.iter().skip(1).map(|next| next - 1).chain([u16::MAX]);
    starts.iter().zip(ends).map(|(first, last)| PortRange { first: *first, last }).collect()
}

/// The types of ICMP that rules mention, each with the codes they mention.
fn icmp_kinds(rules: &[&Rule]) -> BTreeMap<u8, BTreeSet<u8>> {
    let mut kinds = BTreeMap::new();
    for rule in rules {
        if let TrafficMatches::Of(all) = &rule.traffic {
            for one in all {
                if let TrafficMatch::Icmp(Some(kind), code) = one {
                    let codes: &mut BTreeSet<u8> = kinds.entry(*kind).or_default();
                    codes.extend(code);
                }
            }
        }
    }
    kinds
}

/// Where all source ports have the same outcomes, they are one.
fn merge_sources(ports: &mut Vec<(Protocol, PortRange, PortRange, Outcome)>) {
    for protocol in PROTOCOLS {
        let own = |entry: &&(Protocol, PortRange, PortRange, Outcome)| entry.0 == protocol;
        let mut sources: Vec<PortRange> = ports.iter().filter(own).map(|entry| entry.1).collect();
        sources.dedup();
        let of = |source: PortRange| -> Vec<(PortRange, Outcome)> {
            let same = ports.iter().filter(own).filter(|entry| entry.1 == source);
            same.map(|entry| (entry.2, entry.3)).collect()
        };
        let Some(first) = sources.first().copied() else { continue };
        if sources.iter().all(|source| of(*source) == of(first)) {
            let merged = of(first);
            ports.retain(|entry| entry.0 != protocol);
            ports.extend(
                merged.into_iter().map(|(range, outcome)| (protocol, PortRange::ALL, range, outcome)),
            );
        }
    }
}
