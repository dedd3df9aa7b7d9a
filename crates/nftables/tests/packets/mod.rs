//! Connections as the packets that open them: which one, where on which node it meets the program, and what the program should say.
//! Whoever holds the program against the plain evaluator asks by these.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::net::IpAddr;

use palisade_model::flow::{Flow, Party, Who};
use palisade_model::matching::Context;
use palisade_model::policy::Direction;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::traffic::Protocol;
use palisade_nftables::program::{Hook, ICMP, ICMP6, IGMP, Program, SCTP, TCP, UDP, Verdict as Said};
use palisade_nftables::walk::Packet;

/// One that opens a connection of TCP.
pub fn tcp(source: &str, destination: &str, port: u16) -> Packet {
    let destination: IpAddr = destination.parse().unwrap();
    Packet {
        source: source.parse().unwrap(),
        destination,
        original: destination,
        protocol: TCP,
        ports: Some((40000, port)),
        icmp: None,
        established: false,
        syn: true,
        loopback: false,
        interface: None,
    }
}

/// The one that opens this connection; none if its ends have no addresses of one family.
pub fn packet(snapshot: &Snapshot, flow: &Flow) -> Option<Packet> {
    let (source, destination) = (flow.source.address?, flow.destination.address?);
    if source.is_ipv4() != destination.is_ipv4() {
        return None;
    }
    let original = match flow.via {
        None => destination,
        Some(via) => {
            let addresses = &snapshot.services()[via].addresses;
            *addresses.iter().find(|address| address.is_ipv4() == destination.is_ipv4())?
        }
    };
    let traffic = flow.traffic;
    let ports = traffic.protocol.has_ports().then_some((traffic.source_port.unwrap_or(40000), traffic.port));
    let ping = if source.is_ipv4() { 8 } else { 128 };
    let icmp = match traffic.protocol {
        Protocol::Icmp => Some(traffic.icmp.map_or((ping, 0), |(kind, code)| (kind, code.unwrap_or(0)))),
        // A kind that no rule names, where the question names none.
        Protocol::Igmp => Some(traffic.icmp.map_or((99, 0), |(kind, _)| (kind, 0))),
        _ => None,
    };
    let protocol = match traffic.protocol {
        Protocol::Tcp => TCP,
        Protocol::Udp => UDP,
        Protocol::Sctp => SCTP,
        Protocol::Icmp if source.is_ipv4() => ICMP,
        Protocol::Icmp => ICMP6,
        Protocol::Igmp => IGMP,
    };
    Some(Packet {
        source,
        destination,
        original,
        protocol,
        ports,
        icmp,
        established: false,
        syn: true,
        loopback: false,
        interface: None,
    })
}

/// The node that somebody is on, or is.
pub fn home(snapshot: &Snapshot, party: Party, nodes: &[&str]) -> Option<usize> {
    let name = match party.who {
        Who::Pod(pod) => snapshot.pods()[pod].node.clone()?,
        Who::Node(node) => snapshot.nodes()[node].name.clone(),
        Who::Outside => return None,
    };
    nodes.iter().position(|node| *node == name)
}

/// Where a packet meets the program of a node, of the two ends' nodes.
pub fn hook(context: &Context<'_>, flow: &Flow, direction: Direction, node: &str) -> Option<Hook> {
    let is_node = |party: Party| {
        context.node_of(party).is_some_and(|at| context.snapshot.nodes()[at].name == node)
            || matches!(party.who, Who::Pod(pod) if {
                let pod = &context.snapshot.pods()[pod];
                pod.host_network && pod.node.as_deref() == Some(node)
            })
    };
    let (own, other) = Context::ends(flow, direction);
    let from_node = is_node(flow.source)
        || (direction == Direction::Ingress
            && matches!(own.who, Who::Pod(pod) if context.is_own_node(other, pod)));
    match (from_node, is_node(flow.destination)) {
        (true, true) => None,
        (true, false) => Some(Hook::Output),
        (false, true) => Some(Hook::Input),
        (false, false) => Some(Hook::Forward),
    }
}

/// The program without what it says about the other direction.
pub fn one_way(program: &Program, direction: Direction) -> Program {
    let (maps, chain) = match direction {
        Direction::Egress => (["to_pod4", "to_pod6"], "in_node"),
        Direction::Ingress => (["from_pod4", "from_pod6"], "eg_node"),
    };
    let mut program = program.clone();
    for map in maps {
        program.sets.get_mut(map).unwrap().elements.clear();
    }
    if let Some(chain) = program.chains.get_mut(chain) {
        chain.rules.clear();
    }
    program
}

/// What the program says where the evaluator says this.
pub fn said(verdict: Verdict) -> Said {
    match verdict {
        Verdict::Allow => Said::Accept,
        Verdict::Deny => Said::Drop,
        Verdict::Reject => Said::Reject,
    }
}
