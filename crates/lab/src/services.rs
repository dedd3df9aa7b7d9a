//! Services by DNAT, in a table of their own: [`TABLE`].
//!
//! A packet is translated where it begins: on the node of a pod, or outside. Who is behind a service, a probe can choose by the
//! DSCP of its packets (the first backend is 1), so that every one of them is asked; packets without it go to any.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::IpAddr;

use palisade_model::address::Family;
use palisade_model::cluster::ServicePort;
use palisade_model::flow::{EndpointPattern, Flow, FlowPattern};
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::{Protocol, Traffic};

/// The table of services.
pub const TABLE: &str = "palisade_lab";

/// DSCP has six bits.
const MOST_CHOICES: usize = 63;

/// Where to send a packet, so that it comes to a certain backend of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dial {
    /// The service's address.
    pub address: IpAddr,
    /// Its port there.
    pub port: u16,
    /// Which of its backends.
    pub choice: u8,
}

/// What leads where: for each address, protocol and port the backends.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Services {
    doors: BTreeMap<(IpAddr, Protocol, u16), Vec<(IpAddr, u16)>>,
}

// === impl Services ===

impl Services {
    /// The services of a world; nodes lead to their ports, too.
    pub fn of(snapshot: &Snapshot, nodes: &[IpAddr]) -> Services {
        let mut services = Services::default();
        // kube-proxy translates nothing for a Service without a cluster address, node ports included.
        let translated = snapshot.services().iter().enumerate().filter(|(_, one)| one.has_cluster_address());
        for (at, service) in translated {
            for port in &service.ports {
                for family in [Family::V4, Family::V6] {
                    let backends = backends(snapshot, at, port, family);
                    if backends.is_empty() {
                        continue;
                    }
                    let own = service.addresses.iter().chain(&service.external_addresses);
                    let own = own.map(|address| (*address, port.port));
                    let on_nodes = port.node_port.into_iter();
                    let on_nodes = on_nodes.flat_map(|port| nodes.iter().map(move |node| (*node, port)));
                    for (address, number) in own.chain(on_nodes) {
                        if Family::of(address) == family {
                            let door = (address, port.protocol, number);
                            services.doors.entry(door).or_insert_with(|| backends.clone());
                        }
                    }
                }
            }
        }
        services
    }

    /// How to reach the flow's destination through the service it goes through: by its own address, or one it has outside, or a
    /// node's.
    pub fn dial(&self, snapshot: &Snapshot, flow: &Flow) -> Option<Dial> {
        let service = snapshot.services().get(flow.via?)?;
        let backend = (flow.destination.address?, flow.traffic.port);
        let ports: BTreeSet<u16> =
            service.ports.iter().flat_map(|p| [Some(p.port), p.node_port]).flatten().collect();
        let own = |address: &IpAddr| {
            let at = service.addresses.iter().chain(&service.external_addresses).position(|a| a == address);
            at.unwrap_or(usize::MAX)
        };
        let doors = self.doors.iter().filter(|((_, protocol, port), backends)| {
            *protocol == flow.traffic.protocol && ports.contains(port) && backends.contains(&backend)
        });
        let (door, backends) = doors.min_by_key(|((address, ..), _)| own(address))?;
        let choice = backends.iter().position(|one| *one == backend).filter(|at| *at < MOST_CHOICES)?;
        Some(Dial { address: door.0, port: door.2, choice: u8::try_from(choice + 1).ok()? })
    }

    /// The transaction that puts them in place. `own` are the addresses that a pod reaches itself from, when it is its own
    /// backend: its answer would not pass here otherwise.
    pub fn replace(&self, own: &[IpAddr]) -> String {
        let mut text = format!("add table inet {TABLE}\ndelete table inet {TABLE}\ntable inet {TABLE} {{\n");
        text.push_str("\tchain translate {\n");
        for ((address, protocol, port), backends) in &self.doors {
            if !protocol.has_ports() {
                continue;
            }
            let ip = keyword(*address);
            let door = format!("{ip} daddr {address} meta l4proto {protocol} th dport {port}");
            for (at, (to, number)) in backends.iter().enumerate().take(MOST_CHOICES) {
                let to = target(*to, *number);
                let _ = writeln!(text, "\t\t{door} {ip} dscp {} dnat {ip} to {to}", at + 1);
            }
            for (at, (to, number)) in backends.iter().enumerate() {
                let (left, to) = (backends.len() - at, target(*to, *number));
                let _ = writeln!(text, "\t\t{door} numgen random mod {left} 0 dnat {ip} to {to}");
            }
        }
        text.push_str("\t}\n");
        for hook in ["prerouting", "output"] {
            let _ = writeln!(
                text,
                "\tchain {hook} {{\n\t\ttype nat hook {hook} priority -100; policy accept;\n\t\tjump translate\n\t}}"
            );
        }
        text.push_str("\tchain hairpin {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n");
        let ends: BTreeSet<IpAddr> = self.doors.values().flatten().map(|(address, _)| *address).collect();
        for end in ends {
            let ip = keyword(end);
            if let Some(own) = own.iter().find(|own| own.is_ipv4() == end.is_ipv4()) {
                let _ = writeln!(text, "\t\t{ip} saddr {end} {ip} daddr {end} snat {ip} to {own}");
            }
        }
        text.push_str("\t}\n}\n");
        text
    }
}

/// Who is behind a service's port, in one family.
fn backends(snapshot: &Snapshot, service: usize, port: &ServicePort, family: Family) -> Vec<(IpAddr, u16)> {
    let service = &snapshot.services()[service];
    // Asked as somebody of that family would: an address that documentation has for itself.
    let asker = match family {
        Family::V4 => IpAddr::from([192, 0, 2, 254]),
        Family::V6 => IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0xfffe]),
    };
    let pattern = FlowPattern {
        source: EndpointPattern::Address(asker),
        destination: EndpointPattern::Service {
            namespace: service.namespace.clone(),
            name: service.name.clone(),
        },
        traffic: Traffic::new(port.protocol, port.port),
    };
    let flows = snapshot.flows(&pattern).unwrap_or_default();
    let ends = flows.iter().filter_map(|flow| Some((flow.destination.address?, flow.traffic.port)));
    let ends: BTreeSet<(IpAddr, u16)> = ends.filter(|(address, _)| Family::of(*address) == family).collect();
    ends.into_iter().collect()
}

fn keyword(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "ip" } else { "ip6" }
}

fn target(address: IpAddr, port: u16) -> String {
    match address {
        IpAddr::V4(four) => format!("{four}:{port}"),
        IpAddr::V6(six) => format!("[{six}]:{port}"),
    }
}
