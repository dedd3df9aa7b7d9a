//! The ends of rules and what they carry, as far as targets say them alike: groups written out, selectors, address
//! blocks, names.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Subnets, Ipv6Subnets};
use palisade_dialects::written::Written;
use palisade_model::address::Block;
use palisade_model::cluster::NAMESPACE_NAME_LABEL;
use palisade_model::group::GroupName;
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::policy::{
    Direction, Namespaces, Peer, Peers, PodSet, Rule, Subject, TrafficMatch, TrafficMatches,
};
use palisade_model::ranges::Ranges;
use palisade_model::resolve::GroupMember;
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::Protocol;
use smol_str::SmolStr;

use super::codes;
use super::conversion::{Conversion, FOLLOWS_NOT};
use super::speech::Speech;

/// Values that are written, in all: some hundred bytes each, with all copies.
const MOST_WRITTEN: usize = 1_000_000;

/// The protocols that have ports.
pub(super) const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// The peers of a rule with groups written out; `None` when it is anybody. Groups that are missing have been refused.
pub(super) fn peers(
    conversion: &Conversion<'_>,
    origin: usize,
    rule: &Rule,
    speech: &mut Speech,
) -> Option<Vec<Peer>> {
    let Peers::Of(peers) = &rule.peers else { return None };
    let mut all = Vec::new();
    for peer in peers {
        match peer {
            Peer::Group(group) => {
                let members = members(&conversion.snapshot, group);
                if !affords(conversion, members.len()) {
                    let why = format!("group {group} is too much to write out, with all others");
                    speech.cannot(&codes::TOO_MUCH, conversion, origin, Some(rule), "", why);
                    continue;
                }
                written_out(conversion, origin, rule, group, speech);
                all.extend(members.iter().flat_map(member));
            }
            peer => all.push(peer.clone()),
        }
    }
    // A block of which everything is excepted holds nobody.
    all.retain(|peer| !matches!(peer, Peer::Addresses(block) if block.example().is_none()));
    Some(everybody(all))
}

/// The one namespace that all subjects of a rule are in: who is relative to it can be said by its name.
pub(super) fn only_namespace(conversion: &Conversion<'_>, rule: &Rule) -> Option<SmolStr> {
    let mut only: Option<SmolStr> = None;
    for subject in subjects(conversion, &rule.subjects) {
        let Subject::Pods(set) = &subject else { return None };
        let [name] = &named(&set.namespaces)?[..] else { return None };
        if only.as_ref().is_some_and(|other| other != name) {
            return None;
        }
        only = Some(name.clone());
    }
    only
}

/// Whom a rule applies to, with groups written out.
pub(super) fn subjects(conversion: &Conversion<'_>, subjects: &[Subject]) -> Vec<Subject> {
    let mut all: Vec<Subject> = Vec::new();
    for subject in subjects {
        match subject {
            Subject::Group { group, within } => {
                let within = within.as_ref();
                let one = |members: &GroupMember| match members {
                    GroupMember::Pods(set) => Some(Subject::Pods(inside(set, within)?)),
                    // Nodes belong to no namespace, and addresses are never whom a policy applies to.
                    GroupMember::Nodes(selector) if within.is_none() => {
                        Some(Subject::Nodes(selector.clone()))
                    }
                    _ => None,
                };
                all.extend(members(&conversion.snapshot, group).iter().filter_map(one));
            }
            other => all.push(other.clone()),
        }
    }
    let mut known: BTreeSet<Subject> = BTreeSet::new();
    all.retain(|subject| known.insert(subject.clone()));
    all
}

/// Whether so many values more may be written. Few words can stand for many: groups, every port of every peer.
pub(super) fn affords(conversion: &Conversion<'_>, values: usize) -> bool {
    conversion.written.set(conversion.written.get().saturating_add(values));
    conversion.written.get() <= MOST_WRITTEN
}

/// How many values there are in one.
pub(super) fn weight(value: &Written) -> usize {
    match value {
        Written::List(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Written::Map(fields) => 1 + fields.iter().map(|(_, value)| 1 + weight(value)).sum::<usize>(),
        _ => 1,
    }
}

/// Says that a group is written out.
fn written_out(
    conversion: &Conversion<'_>,
    origin: usize,
    rule: &Rule,
    group: &GroupName,
    speech: &mut Speech,
) {
    let part = match rule.direction {
        Direction::Ingress => ".from",
        Direction::Egress => ".to",
    };
    let message = format!("group {group} is written out: {FOLLOWS_NOT}");
    speech.note(&codes::GROUP, conversion, origin, Some(rule), part, message);
}

fn members<'s>(snapshot: &'s Snapshot, group: &GroupName) -> &'s [GroupMember] {
    snapshot.group(group).unwrap_or_default()
}

fn member(members: &GroupMember) -> Vec<Peer> {
    match members {
        GroupMember::Pods(set) => vec![Peer::Pods(set.clone())],
        GroupMember::Nodes(selector) => vec![Peer::Nodes(selector.clone())],
        GroupMember::Addresses(blocks) => blocks.iter().cloned().map(Peer::Addresses).collect(),
    }
}

/// Those of a set that are in a namespace; `None` when that is nobody.
fn inside(set: &PodSet, namespace: Option<&SmolStr>) -> Option<PodSet> {
    let Some(namespace) = namespace else { return Some(set.clone()) };
    let namespaces = match &set.namespaces {
        Namespaces::Named(name) if name == namespace => set.namespaces.clone(),
        Namespaces::Matching(selector) if selector.is_everything() => Namespaces::Named(namespace.clone()),
        Namespaces::Matching(selector) => {
            let name = Requirement::equals(NAMESPACE_NAME_LABEL, namespace);
            Namespaces::Matching(Selector::new(selector.requirements().iter().cloned().chain([name])))
        }
        _ => return None,
    };
    Some(PodSet { namespaces, ..set.clone() })
}

/// Duplicates gone; the order is as written.
fn everybody(mut peers: Vec<Peer>) -> Vec<Peer> {
    let mut known: HashSet<Peer> = HashSet::new();
    peers.retain(|peer| known.insert(peer.clone()));
    peers
}

/// Whether these peers are everybody: every pod, and every address of both families.
pub(super) fn are_everybody(peers: &[Peer]) -> bool {
    let every = |family: &str| {
        peers.iter().any(|peer| match peer {
            Peer::Addresses(block) => block.except().is_empty() && block.cidr().to_string() == family,
            _ => false,
        })
    };
    peers.contains(&Peer::Pods(PodSet::everything())) && every("0.0.0.0/0") && every("::/0")
}

/// Why a set of pods cannot be said where only namespaces and labels can; `None` when it can.
pub(super) fn beyond_labels(set: &PodSet) -> Option<String> {
    if set.external {
        return Some(format!("{set}: there are no external entities there"));
    }
    if set.account.is_some() {
        return Some(format!("{set}: service accounts cannot be selected there"));
    }
    match &set.namespaces {
        Namespaces::Named(_) | Namespaces::Matching(_) => None,
        _ => Some(format!("{set}: namespaces cannot be compared with the subject's there")),
    }
}

/// The only namespace that is meant, or the few, where they are named.
pub(super) fn named(namespaces: &Namespaces) -> Option<Vec<SmolStr>> {
    match namespaces {
        Namespaces::Named(name) => Some(vec![name.clone()]),
        Namespaces::Matching(selector) => match selector.requirements() {
            [Requirement { key, operator: Operator::In(names) }] if key == NAMESPACE_NAME_LABEL => {
                Some(names.clone())
            }
            _ => None,
        },
        _ => None,
    }
}

/// A block without exceptions: the fewest blocks that hold the same addresses.
pub(super) fn whole_blocks(block: &Block) -> Vec<IpNet> {
    let mut all = Vec::new();
    for (first, last) in Ranges::of([block]).iter() {
        match (first, last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                all.extend(Ipv4Subnets::new(first, last, 0).map(IpNet::V4));
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                all.extend(Ipv6Subnets::new(first, last, 0).map(IpNet::V6));
            }
            _ => {}
        }
    }
    all
}

/// Traffic without what is said twice; `None` when it is any.
pub(super) fn traffic(rule: &Rule) -> Option<Vec<TrafficMatch>> {
    let TrafficMatches::Of(all) = &rule.traffic else { return None };
    let mut known: HashSet<&TrafficMatch> = HashSet::with_capacity(all.len());
    Some(all.iter().filter(|one| known.insert(one)).cloned().collect())
}

/// Names of ports in all protocols as one, for dialects whose names have none; and those in some protocols only.
pub(super) fn names_of_any_protocol(all: &mut Vec<TrafficMatch>) {
    let mut protocols: BTreeMap<SmolStr, BTreeSet<Protocol>> = BTreeMap::new();
    let mut names: Vec<SmolStr> = Vec::new();
    for one in all.iter() {
        if let TrafficMatch::Named(Some(protocol), name) = one {
            let known = protocols.entry(name.clone()).or_insert_with(|| {
                names.push(name.clone());
                BTreeSet::new()
            });
            known.insert(*protocol);
        }
    }
    let of_any = |name: &SmolStr| {
        protocols.get(name).is_some_and(|own| PROTOCOLS.iter().all(|protocol| own.contains(protocol)))
    };
    all.retain(|one| !matches!(one, TrafficMatch::Named(Some(_), own) if of_any(own)));
    all.extend(names.into_iter().filter(of_any).map(|name| TrafficMatch::Named(None, name)));
}

/// Names of ports in each protocol, for dialects that cannot leave it open.
pub(super) fn names_by_protocol(all: &[TrafficMatch]) -> Vec<TrafficMatch> {
    let each = |one: &TrafficMatch| match one {
        TrafficMatch::Named(None, name) => {
            PROTOCOLS.iter().map(|protocol| TrafficMatch::Named(Some(*protocol), name.clone())).collect()
        }
        other => vec![other.clone()],
    };
    all.iter().flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_become_the_blocks_around_them() {
        let block = Block::new("10.0.0.0/24".parse().unwrap(), ["10.0.0.64/26".parse().unwrap()]);
        let texts: Vec<String> = whole_blocks(&block).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.0.0.0/26", "10.0.0.128/25"]);
        let everything = Block::new("::/0".parse().unwrap(), []);
        assert_eq!(whole_blocks(&everything), ["::/0".parse().unwrap()]);
    }
}
