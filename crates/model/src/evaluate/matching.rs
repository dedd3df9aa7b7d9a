//! How the judge matches one rule with one connection: as the rule is written, looked up in the snapshot each time.
//!
//! Independent of [`crate::resolve`], [`crate::pipeline`] and [`crate::traffic_set`], which it judges: groups are expanded,
//! unknown parts found and traffic compared here once more.

use std::borrow::Cow;

use crate::address::Family;
use crate::flow::{Flow, Party};
use crate::group::{GroupName, Members};
use crate::matching::{Context, Endpoint, family};
use crate::policy::{
    Namespaces, Peer, Peers, PodSet, PortMatch, Rule, ServiceName, Subject, TrafficMatch, TrafficMatches,
};
use crate::traffic::{PortRange, Protocol, Traffic};

/// Whether a rule matches a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Match {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// The rule holds something that cannot be read, which may have widened or narrowed it: it fails closed, and what that
    /// means depends on its action.
    Unknown,
}

/// The judge's view of a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judge<'s> {
    pub(crate) context: Context<'s>,
}

/// Members of a group, or what in it cannot be read.
type Found<'s> = Result<Vec<Cow<'s, Members>>, Cow<'s, str>>;

// === impl Judge ===

impl<'s> Judge<'s> {
    /// Returns whether a rule matches a connection, seen from its subject.
    pub(crate) fn rule(&self, rule: &Rule, subject: Endpoint, peer: Party, flow: &Flow) -> Match {
        match self.unknown(rule) {
            Some(_) => Match::Unknown,
            None if self.traffics(&rule.traffic, flow) && self.peers(&rule.peers, peer, subject, flow) => {
                Match::Yes
            }
            None => Match::No,
        }
    }

    /// Returns what in a rule cannot be read: something as it is written, or a group that it names.
    pub(crate) fn unknown<'r>(&self, rule: &'r Rule) -> Option<Cow<'r, str>>
    where
        's: 'r,
    {
        let peers = match &rule.peers {
            Peers::Any => &[],
            Peers::Of(peers) => peers.as_slice(),
        };
        let of_peer = |peer: &Peer| match peer {
            Peer::Group(group) => self.members(group).err(),
            _ => None,
        };
        let of_subject = |subject: &Subject| match subject {
            Subject::Group { group, .. } => self.members(group).err(),
            _ => None,
        };
        rule.unknown()
            .map(Cow::Borrowed)
            .or_else(|| peers.iter().find_map(of_peer))
            .or_else(|| rule.subjects.iter().find_map(of_subject))
    }

    /// Returns whether any of the subjects selects the endpoint.
    pub(crate) fn applies(&self, subjects: &[Subject], endpoint: Endpoint) -> bool {
        let context = &self.context;
        subjects.iter().any(|subject| match subject {
            Subject::Pods(set) => context.is_pod_in(set, endpoint),
            Subject::Nodes(selector) => context.is_labelled(selector, endpoint),
            Subject::Service(name) => context.is_service(name, endpoint),
            // A namespaced policy reaches the members in its own namespace. A group that cannot be read may have meant any
            // endpoint: rules that apply to it fail closed.
            Subject::Group { group, within } => {
                context.is_within(within.as_deref(), endpoint)
                    && self.members(group).map_or(true, |members| {
                        members.iter().any(|member| match &**member {
                            Members::Pods(set) => context.is_pod_in(set, endpoint),
                            Members::Nodes(selector) => context.is_labelled(selector, endpoint),
                            // Addresses are never the subject of a policy.
                            _ => false,
                        })
                    })
            }
        })
    }

    /// Returns whether the other end is one of the peers.
    pub(crate) fn peers(&self, peers: &Peers, party: Party, subject: Endpoint, flow: &Flow) -> bool {
        match peers {
            Peers::Any => true,
            Peers::Of(peers) => peers.iter().any(|peer| self.peer(peer, party, subject, flow)),
        }
    }

    fn peer(&self, peer: &Peer, party: Party, subject: Endpoint, flow: &Flow) -> bool {
        let context = &self.context;
        match peer {
            Peer::Pods(set) => context.is_among(set, party, subject),
            Peer::Addresses(block) => context.is_in(std::slice::from_ref(block), party),
            Peer::Nodes(selector) => context.is_node(selector, party),
            Peer::Names(names) => context.is_named(names, party),
            Peer::Service(name) => context.is_through(name, flow),
            Peer::Group(group) => self.members(group).is_ok_and(|members| {
                members.iter().any(|member| match &**member {
                    Members::Pods(set) => context.is_among(set, party, subject),
                    Members::Nodes(selector) => context.is_node(selector, party),
                    Members::Addresses(blocks) => context.is_in(blocks, party),
                    _ => false,
                })
            }),
            Peer::Unknown(_) => false,
        }
    }

    /// A group that does not exist has no members. One may have children of the same scope, but these none of their own.
    fn members(&self, name: &GroupName) -> Found<'s> {
        let Some(group) = self.context.snapshot.written_group(name) else { return Ok(Vec::new()) };
        let Members::Children(children) = &group.members else { return self.own_members(&group.members) };
        let mut all = Vec::new();
        let mut children: Vec<_> = children.iter().collect();
        children.sort_unstable();
        children.dedup();
        for child in children {
            let sibling = GroupName { namespace: name.namespace.clone(), name: child.clone() };
            match self.context.snapshot.written_group(&sibling).map(|group| &group.members) {
                None => {}
                Some(Members::Children(_)) => {
                    let what = format!("group {name} nests deeper than one level: {child} has children");
                    return Err(what.into());
                }
                Some(members) => {
                    let found = self.own_members(members);
                    all.extend(found.map_err(|what| format!("child group {child}: {what}"))?);
                }
            }
        }
        Ok(all)
    }

    fn own_members(&self, members: &'s Members) -> Found<'s> {
        Ok(match members {
            Members::Unknown(what) => return Err(Cow::Borrowed(what)),
            Members::Nobody => Vec::new(),
            Members::Service(name) => self.selected_by(name).map(Cow::Owned).into_iter().collect(),
            other => vec![Cow::Borrowed(other)],
        })
    }

    /// The pods that a service selects. One without a selector, as every ExternalName is, has none that a policy could know.
    fn selected_by(&self, name: &ServiceName) -> Option<Members> {
        let at = self.context.snapshot.service(name)?;
        let pods = self.context.snapshot.services()[at].selector()?.clone();
        Some(Members::Pods(PodSet::new(Namespaces::Named(name.namespace.clone()), pods)))
    }

    /// Returns whether the connection's traffic is one of these.
    pub(crate) fn traffics(&self, matches: &TrafficMatches, flow: &Flow) -> bool {
        match matches {
            TrafficMatches::Any => true,
            TrafficMatches::Of(matches) => matches.iter().any(|one| self.traffic(one, flow)),
        }
    }

    /// A port's name stands for the destination pod's port of that name.
    fn traffic(&self, wanted: &TrafficMatch, flow: &Flow) -> bool {
        let traffic = flow.traffic;
        match wanted {
            TrafficMatch::Ports(protocol, range) => is_to_port(*protocol, *range, traffic),
            TrafficMatch::Named(protocol, name) => self.is_to_name(*protocol, name, flow),
            // A connection comes from some ephemeral port: a question that names none is matched by a rule for all of them.
            TrafficMatch::From(range, port) => {
                let asked = traffic.source_port.map_or(PortRange::EPHEMERAL, PortRange::single);
                range.contains(asked.first)
                    && range.contains(asked.last)
                    && match &**port {
                        PortMatch::Numbers(protocol, range) => is_to_port(*protocol, *range, traffic),
                        PortMatch::Named(protocol, name) => self.is_to_name(*protocol, name, flow),
                    }
            }
            TrafficMatch::Icmp(wanted) => {
                let (kind, code) = icmp(flow);
                traffic.protocol == Protocol::Icmp && wanted.contains(kind, code)
            }
            TrafficMatch::Igmp(kind, group) => {
                traffic.protocol == Protocol::Igmp
                    && kind.is_none_or(|kind| traffic.icmp.is_some_and(|(asked, _)| asked == kind))
                    && group.is_none_or(|group| match flow.destination.address {
                        Some(address) if address.is_multicast() => address == group,
                        // A message to a host may be about any group.
                        _ => true,
                    })
            }
            TrafficMatch::Unknown(_) => false,
        }
    }

    fn is_to_name(&self, protocol: Option<Protocol>, name: &str, flow: &Flow) -> bool {
        let traffic = flow.traffic;
        protocol.is_none_or(|protocol| protocol == traffic.protocol)
            && traffic.protocol.has_ports()
            && self.context.named_port(flow.destination, name, traffic.protocol) == Some(traffic.port)
    }
}

fn is_to_port(protocol: Protocol, range: PortRange, traffic: Traffic) -> bool {
    protocol == traffic.protocol && protocol.has_ports() && range.contains(traffic.port)
}

/// Type and code of a connection: without a type it is an echo request, without a code code 0.
fn icmp(flow: &Flow) -> (u8, u8) {
    let echo_request = if family(flow) == Some(Family::V6) { 128 } else { 8 };
    flow.traffic.icmp.map_or((echo_request, 0), |(kind, code)| (kind, code.unwrap_or(0)))
}
