//! The same policies as they are often done: one plain rule for every pod, peer and port, one after the other.
//!
//! It says what the compiled program says about pods of NetworkPolicies, which only allow and isolate. There is a chain for each
//! direction: egress rules return, so that ingress is asked too, ingress rules accept, and whoever is isolated and not
//! named is dropped at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use palisade_engine::delta::{CompiledRule as Rule, Member, MemberKind, RuleEffect, SetId};
use palisade_engine::view::View;
use palisade_model::pipeline::Effect;
use palisade_model::policy::{Direction, TrafficMatch, TrafficMatches};
use palisade_model::traffic::{PortRange, Protocol};

use super::cluster::{Ends, NODE, PORT};

/// A linear program.
#[derive(Debug)]
pub struct Naive {
    /// As nft reads it.
    pub text: String,
    /// How many rules it has.
    pub rules: usize,
    /// How many rules a packet from the client to the server meets before the one that lets it pass.
    pub before: usize,
}

/// The table it is in.
pub const TABLE: &str = "naive";
/// The counter of the rule that decides about the packets.
pub const COUNTER: &str = "probe";

/// The program for these rules, with a counter where the packets between these ends are allowed.
pub fn program(part: &View, ends: Ends) -> Naive {
    let mut pods: BTreeMap<IpAddr, BTreeSet<SetId>> = BTreeMap::new();
    for (id, set) in part.sets().iter().filter(|(id, _)| part.rules_of(**id).next().is_some()) {
        for member in set.members.iter().filter(|member| is_here(member)) {
            for address in &member.addresses {
                pods.entry(*address).or_default().insert(*id);
            }
        }
    }
    let mut text = format!("add table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n");
    let _ = writeln!(text, "\tcounter {COUNTER} {{\n\t}}");
    let (mut rules, mut before) = (0, 0);
    for direction in [Direction::Egress, Direction::Ingress] {
        let (name, pass) = match direction {
            Direction::Egress => ("egress", "return"),
            Direction::Ingress => ("ingress", "accept"),
        };
        let _ = writeln!(text, "\tchain {name} {{");
        let mut isolated = BTreeSet::new();
        let mut counted = false;
        for (pod, subjects) in &pods {
            let mut lines = BTreeSet::new();
            for rule in subjects.iter().flat_map(|set| part.rules_of(*set)) {
                if rule.directions.contains(direction) {
                    match rule.effect {
                        RuleEffect::Isolate => drop(isolated.insert(*pod)),
                        RuleEffect::Decide(Effect::Allow) => lines.extend(conditions(part, rule, direction)),
                        RuleEffect::Decide(_) => {}
                    }
                }
            }
            for (peer, carried) in lines {
                let (from, to) = match direction {
                    Direction::Egress => (pod.to_string(), peer.text()),
                    Direction::Ingress => (peer.text(), pod.to_string()),
                };
                // The first that lets the packets pass, and how far down it is.
                let own = !counted
                    && direction == Direction::Ingress
                    && *pod == IpAddr::from(ends.server)
                    && peer.holds(ends.client.into())
                    && carried.holds(Protocol::Udp, PORT);
                if own {
                    (counted, before) = (true, rules);
                }
                let counter = if own { format!("counter name {COUNTER} ") } else { String::new() };
                let family = if pod.is_ipv4() { "ip" } else { "ip6" };
                let source = condition(family, "saddr", &from);
                let destination = condition(family, "daddr", &to);
                let _ = writeln!(text, "\t\t{source}{destination}{}{counter}{pass}", carried.text());
                rules += 1;
            }
        }
        let end = if direction == Direction::Egress { "saddr" } else { "daddr" };
        for pod in isolated {
            let family = if pod.is_ipv4() { "ip" } else { "ip6" };
            let _ = writeln!(text, "\t\t{family} {end} {pod} drop");
            rules += 1;
        }
        text.push_str("\t}\n");
    }
    text.push_str("\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n");
    text.push_str("\t\tct state established,related accept\n\t\tjump egress\n\t\tjump ingress\n\t}\n}\n");
    Naive { text, rules, before }
}

/// Addresses at the other end; anybody if there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Peer(Option<(IpAddr, IpAddr)>);

/// A protocol and ports; anything if there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Carried(Option<(Protocol, PortRange)>);

/// All combinations that a rule allows.
fn conditions(part: &View, rule: &Rule, direction: Direction) -> Vec<(Peer, Carried)> {
    let mut peers = match &rule.peers {
        None => vec![Peer(None)],
        Some(sets) => sets.iter().flat_map(|set| addresses(part, *set)).collect(),
    };
    if let Some(destination) = rule.destination.filter(|_| direction == Direction::Egress) {
        let receivers: BTreeSet<Peer> = addresses(part, destination).into_iter().collect();
        match rule.peers {
            None => peers = receivers.into_iter().collect(),
            Some(_) => peers.retain(|peer| receivers.contains(peer)),
        }
    }
    let carried: Vec<Carried> = match &rule.traffic {
        TrafficMatches::Any => vec![Carried(None)],
        TrafficMatches::Of(all) => {
            let ports = all.iter().filter_map(|one| match one {
                TrafficMatch::Ports(protocol, range) => Some((*protocol, *range)),
                _ => None,
            });
            ports.map(|ports| Carried(Some(ports))).collect()
        }
    };
    peers.iter().flat_map(|peer| carried.iter().map(|carried| (*peer, *carried))).collect()
}

fn addresses(part: &View, set: SetId) -> Vec<Peer> {
    let Some(set) = part.sets().get(&set) else { return Vec::new() };
    match set.selection.ranges() {
        Some(ranges) => ranges.iter().map(|range| Peer(Some(range))).collect(),
        None => {
            let all = set.members.iter().flat_map(|member| &member.addresses);
            all.map(|address| Peer(Some((*address, *address)))).collect()
        }
    }
}

fn is_here(member: &Member) -> bool {
    member.is_on(NODE) && matches!(member.kind, MemberKind::Pod)
}

fn condition(family: &str, end: &str, address: &str) -> String {
    if address.is_empty() { String::new() } else { format!("{family} {end} {address} ") }
}

// === impl Peer ===

impl Peer {
    fn text(self) -> String {
        match self.0 {
            None => String::new(),
            Some((first, last)) if first == last => first.to_string(),
            Some((first, last)) => format!("{first}-{last}"),
        }
    }

    fn holds(self, address: IpAddr) -> bool {
        self.0.is_none_or(|(first, last)| first <= address && address <= last)
    }
}

// === impl Carried ===

impl Carried {
    fn text(self) -> String {
        self.0.map(|(protocol, ports)| format!("{protocol} dport {ports} ")).unwrap_or_default()
    }

    fn holds(self, protocol: Protocol, port: u16) -> bool {
        self.0.is_none_or(|(own, ports)| own == protocol && ports.contains(port))
    }
}
