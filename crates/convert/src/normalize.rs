//! Subjects, peers and traffic of a rule in the form that writers of all targets share: groups expanded, duplicates removed,
//! named ports by protocol or without one, blocks without exceptions.

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
use super::conversion::{Conversion, NOT_FOLLOWED};
use super::inexpressible::Inexpressible;
use super::output::PolicyScope;

/// Protocols that have ports.
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];

/// Returns the peers of a rule with groups expanded, in the order written, without duplicates; `None` when it matches any
/// peer. Missing groups have been refused before ([`Conversion::attempt`]).
pub(super) fn peers(scope: &mut PolicyScope<'_, '_>, rule: &Rule) -> Option<Vec<Peer>> {
    let Peers::Of(peers) = &rule.peers else { return None };
    let mut all = Vec::new();
    for peer in peers {
        match peer {
            Peer::Group(group) => {
                let members = group_members(&scope.conversion.snapshot, group);
                if !scope.conversion.affords(members.len()) {
                    let reason = format!("group {group} is too much to write out, with all others");
                    scope.refuse(&codes::TOO_MUCH, Some(rule), "", reason);
                    continue;
                }
                let message = format!("group {group} is written out: {NOT_FOLLOWED}");
                scope.report(&codes::GROUP, Some(rule), peer_field(rule.direction), message);
                all.extend(members.iter().flat_map(peers_of));
            }
            peer => all.push(peer.clone()),
        }
    }
    // A block whose exceptions cover it holds no address.
    all.retain(|peer| !matches!(peer, Peer::Addresses(block) if block.example().is_none()));
    let mut known: HashSet<Peer> = HashSet::new();
    all.retain(|peer| known.insert(peer.clone()));
    Some(all)
}

/// Returns the field below a rule that holds its peers.
pub(super) fn peer_field(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => ".from",
        Direction::Egress => ".to",
    }
}

/// Returns the field below a rule that holds such an entry of its traffic.
pub(super) fn traffic_field(traffic: &TrafficMatch) -> &'static str {
    match traffic {
        TrafficMatch::Icmp(..) | TrafficMatch::Igmp(..) => ".protocols",
        _ => ".ports",
    }
}

/// Returns the namespace that all subjects of a rule are in, if it is one: peers relative to it can be written by its name.
pub(super) fn only_namespace(conversion: &Conversion<'_>, rule: &Rule) -> Option<SmolStr> {
    let mut only: Option<SmolStr> = None;
    for subject in subjects(conversion, &rule.subjects) {
        let Subject::Pods(set) = &subject else { return None };
        let [name] = &namespace_names(&set.namespaces)?[..] else { return None };
        if only.as_ref().is_some_and(|other| other != name) {
            return None;
        }
        only = Some(name.clone());
    }
    only
}

/// Returns subjects with groups expanded, in the order written, without duplicates.
pub(super) fn subjects(conversion: &Conversion<'_>, subjects: &[Subject]) -> Vec<Subject> {
    let mut all: Vec<Subject> = Vec::new();
    for subject in subjects {
        match subject {
            Subject::Group { group, within } => {
                let within = within.as_ref();
                let one = |member: &GroupMember| match member {
                    GroupMember::Pods(set) => Some(Subject::Pods(restricted(set, within)?)),
                    // Nodes belong to no namespace, and addresses are no subjects.
                    GroupMember::Nodes(selector) if within.is_none() => {
                        Some(Subject::Nodes(selector.clone()))
                    }
                    _ => None,
                };
                all.extend(group_members(&conversion.snapshot, group).iter().filter_map(one));
            }
            other => all.push(other.clone()),
        }
    }
    let mut known: BTreeSet<Subject> = BTreeSet::new();
    all.retain(|subject| known.insert(subject.clone()));
    all
}

/// Returns the number of values in one, including itself and the keys of mappings.
pub(super) fn weight(value: &Written) -> usize {
    match value {
        Written::List(items) => 1 + items.iter().map(weight).sum::<usize>(),
        Written::Map(fields) => 1 + fields.iter().map(|(_, value)| 1 + weight(value)).sum::<usize>(),
        _ => 1,
    }
}

fn group_members<'s>(snapshot: &'s Snapshot, group: &GroupName) -> &'s [GroupMember] {
    snapshot.group(group).unwrap_or_default()
}

fn peers_of(member: &GroupMember) -> Vec<Peer> {
    match member {
        GroupMember::Pods(set) => vec![Peer::Pods(set.clone())],
        GroupMember::Nodes(selector) => vec![Peer::Nodes(selector.clone())],
        GroupMember::Addresses(blocks) => blocks.iter().cloned().map(Peer::Addresses).collect(),
    }
}

/// Restricts a set of pods to a namespace; `None` when no pod can be left.
fn restricted(set: &PodSet, namespace: Option<&SmolStr>) -> Option<PodSet> {
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

/// Whether these peers cover all: every pod, and every address of both families.
pub(super) fn are_everything(peers: &[Peer]) -> bool {
    let every = |family: &str| {
        peers.iter().any(|peer| match peer {
            Peer::Addresses(block) => block.except().is_empty() && block.cidr().to_string() == family,
            _ => false,
        })
    };
    peers.contains(&Peer::Pods(PodSet::everything())) && every("0.0.0.0/0") && every("::/0")
}

/// Checks that labels of pods and of namespaces alone select a set of pods.
pub(super) fn by_labels_alone(set: &PodSet) -> Result<(), Inexpressible> {
    if set.external {
        return Err(Inexpressible::ExternalEntities(set.clone()));
    }
    if set.account.is_some() {
        return Err(Inexpressible::ServiceAccount(set.clone()));
    }
    match &set.namespaces {
        Namespaces::Named(_) | Namespaces::Matching(_) => Ok(()),
        _ => Err(Inexpressible::RelativeNamespaces(set.clone())),
    }
}

/// Returns the names of the selected namespaces, where they are selected by name.
pub(super) fn namespace_names(namespaces: &Namespaces) -> Option<Vec<SmolStr>> {
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

/// Returns the fewest networks that hold the addresses of a block outside its exceptions.
pub(super) fn without_exceptions(block: &Block) -> Vec<IpNet> {
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

/// Returns the traffic of a rule without duplicates; `None` when it matches any.
pub(super) fn traffic(rule: &Rule) -> Option<Vec<TrafficMatch>> {
    let TrafficMatches::Of(all) = &rule.traffic else { return None };
    let mut known: HashSet<&TrafficMatch> = HashSet::with_capacity(all.len());
    Some(all.iter().filter(|one| known.insert(one)).cloned().collect())
}

/// Merges named ports that are listed for all protocols into one without a protocol, for dialects whose named ports have
/// none. Those listed for some protocols only stay as they are.
pub(super) fn merge_named_ports(all: &mut Vec<TrafficMatch>) {
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

/// Splits named ports without a protocol into one for each, for dialects whose named ports have one.
pub(super) fn split_named_ports(all: &[TrafficMatch]) -> Vec<TrafficMatch> {
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
        let texts: Vec<String> = without_exceptions(&block).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.0.0.0/26", "10.0.0.128/25"]);
        let everything = Block::new("::/0".parse().unwrap(), []);
        assert_eq!(without_exceptions(&everything), ["::/0".parse().unwrap()]);
    }
}
