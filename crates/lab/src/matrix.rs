//! Which flows a lab asks about: every pod with every other, and with what is outside, on every port that somebody declares or
//! mentions.

use std::collections::BTreeSet;
use std::net::IpAddr;

use palisade_model::address::next;
use palisade_model::flow::{Flow, Who};
use palisade_model::policy::{IcmpMatch, Peer, Peers, PortMatch, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::{PortRange, Protocol, Traffic};

use crate::plan::is_usable;
use crate::world::LabWorld;

/// Flows, and how many there would have been.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matrix {
    /// The flows, of the manifests' world.
    pub flows: Vec<Flow>,
    /// The addresses outside that they need.
    pub outside: BTreeSet<IpAddr>,
    /// How many flows there would be without a limit.
    pub all: usize,
}

/// The most addresses outside that are asked about.
const MOST_OUTSIDE: usize = 8;
/// How many addresses of a block are looked at to find one that is nobody's.
const LOOKED_AT: usize = 16;
/// The most ports that policies mention that are asked about everywhere.
const MOST_PORTS: usize = 8;

/// The type of an echo request of ICMP.
const PING: u8 = 8;

// === impl Matrix ===

impl Matrix {
    /// The flows of a world, evenly thinned out to at most so many.
    pub fn of(placed: &LabWorld, most: usize) -> Matrix {
        let snapshot = &placed.given;
        let (mentioned, outside) = (mentioned(snapshot), outside(snapshot));
        let pods: Vec<usize> = (0..snapshot.pods().len())
            .filter(|at| {
                let (given, here) = (&snapshot.pods()[*at], &placed.snapshot.pods()[*at]);
                !given.terminated && !given.external && here.stand_in.is_none()
            })
            .collect();
        let mut flows: Vec<Flow> = Vec::new();
        let mut ask =
            |source: (Who, Option<IpAddr>), destination: (Who, Option<IpAddr>), traffic: Traffic| {
                let flow = snapshot.flow(source, destination, traffic);
                let families = (flow.source.address, flow.destination.address);
                if let (Some(one), Some(other)) = families
                    && one.is_ipv4() != other.is_ipv4()
                {
                    return;
                }
                flows.push(flow);
                flows.extend(snapshot.over_the_other_family(&flow).map(|(flow, _)| flow));
            };
        for to in &pods {
            let ports = ports_of(snapshot, *to, &mentioned);
            for port in ports {
                for from in pods.iter().filter(|from| *from != to) {
                    ask((Who::Pod(*from), None), (Who::Pod(*to), None), port);
                }
                for address in &outside {
                    ask((Who::Outside, Some(*address)), (Who::Pod(*to), None), port);
                }
            }
        }
        let away: Vec<Traffic> =
            if mentioned.is_empty() { vec![Traffic::new(Protocol::Tcp, 443)] } else { mentioned };
        for from in &pods {
            for address in &outside {
                for port in &away {
                    ask((Who::Pod(*from), None), (Who::Outside, Some(*address)), *port);
                }
            }
        }
        flows.extend(through_services(snapshot, &pods));
        let all = flows.len();
        if all > most {
            let kept = (0..most).map(|at| flows[at * all / most]);
            flows = kept.collect();
        }
        Matrix { flows, outside, all }
    }
}

/// From every pod through every service.
fn through_services(snapshot: &Snapshot, pods: &[usize]) -> Vec<Flow> {
    let mut flows = Vec::new();
    for service in snapshot.services() {
        for port in &service.ports {
            for pod in pods {
                let pod = &snapshot.pods()[*pod];
                let text = format!(
                    "{}/{} -> svc:{}/{} {}/{}",
                    pod.namespace, pod.name, service.namespace, service.name, port.protocol, port.port
                );
                let pattern = text.parse().ok();
                flows.extend(pattern.and_then(|pattern| snapshot.flows(&pattern).ok()).into_iter().flatten());
            }
        }
    }
    flows.sort();
    flows.dedup();
    flows
}

fn ports_of(snapshot: &Snapshot, pod: usize, mentioned: &[Traffic]) -> BTreeSet<Traffic> {
    let declared = snapshot.pods()[pod].ports.iter().map(|port| Traffic::new(port.protocol, port.number));
    let mut ports: BTreeSet<Traffic> = declared.collect();
    ports.extend(mentioned);
    if ports.is_empty() {
        ports.insert(Traffic::new(Protocol::Tcp, 80));
    }
    ports
}

/// Ports, and ICMP, that policies mention.
fn mentioned(snapshot: &Snapshot) -> Vec<Traffic> {
    let mut found = BTreeSet::new();
    for rule in snapshot.policies().iter().flat_map(|policy| &policy.rules) {
        if let TrafficMatches::Of(all) = &rule.traffic {
            found.extend(all.iter().filter_map(traffic_of));
        }
    }
    found.into_iter().take(MOST_PORTS).collect()
}

fn traffic_of(wanted: &TrafficMatch) -> Option<Traffic> {
    match wanted {
        TrafficMatch::Ports(protocol, range) => to_port(*protocol, *range),
        TrafficMatch::From(_, port) => match &**port {
            PortMatch::Numbers(protocol, range) => to_port(*protocol, *range),
            PortMatch::Named(..) => None,
        },
        TrafficMatch::Icmp(IcmpMatch { kind, code }) => {
            // A code of every type is probed with the type of a ping, which hosts answer to if the code is 0.
            let icmp = match (*kind, *code) {
                (None, None) => None,
                (kind, code) => Some((kind.unwrap_or(PING), code)),
            };
            Some(Traffic { icmp, ..Traffic::new(Protocol::Icmp, 0) })
        }
        // Names depend on the destination, IGMP is for routers.
        TrafficMatch::Named(..) | TrafficMatch::Igmp(..) | TrafficMatch::Unknown(_) => None,
    }
}

fn to_port(protocol: Protocol, range: PortRange) -> Option<Traffic> {
    protocol.has_ports().then(|| Traffic::new(protocol, range.first.max(1)))
}

/// An address of each block that policies mention, and one that none does.
fn outside(snapshot: &Snapshot) -> BTreeSet<IpAddr> {
    let mut found = BTreeSet::new();
    for rule in snapshot.policies().iter().flat_map(|policy| &policy.rules) {
        if let Peers::Of(peers) = &rule.peers {
            for peer in peers {
                if let Peer::Addresses(block) = peer {
                    let all = std::iter::successors(block.example(), |address| next(*address));
                    // Rather not the first, which is the network's own; and nobody's who is somebody.
                    let mut usable = all.take(LOOKED_AT).filter(|address| {
                        block.contains(*address)
                            && is_usable(*address)
                            && snapshot.who_has(*address) == Who::Outside
                    });
                    let first = usable.next();
                    found.extend(usable.next().or(first));
                }
            }
        }
    }
    found.extend(snapshot.named_addresses());
    let services = snapshot.services().iter().flat_map(|s| s.addresses.iter().chain(&s.external_addresses));
    let services: BTreeSet<IpAddr> = services.copied().collect();
    found.retain(|address| {
        is_usable(*address) && snapshot.who_has(*address) == Who::Outside && !services.contains(address)
    });
    let mut found: BTreeSet<IpAddr> = found.into_iter().take(MOST_OUTSIDE - 2).collect();
    found.insert(IpAddr::from([203, 0, 113, 200]));
    found.insert(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xc8]));
    found
}
