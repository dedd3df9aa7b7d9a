//! What there shall be: nodes, pods on them, and the addresses outside. Pure data; cluster.rs makes it so.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_model::flow::{Party, Who};
use smol_str::SmolStr;

use crate::cluster::PEER4;
use crate::world::LabWorld;

/// A pod's namespace, name and, for what could not become a pod, the workload's kind.
pub type PodKey = (SmolStr, SmolStr, Option<SmolStr>);

/// What there shall be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Nodes, and the addresses of each.
    pub nodes: BTreeMap<SmolStr, Vec<IpAddr>>,
    /// Pods with a network of their own.
    pub pods: BTreeMap<PodKey, PodPlan>,
    /// Addresses outside.
    pub outside: BTreeSet<IpAddr>,
    /// Addresses of services, which are nobody's: they are translated before anything gets there.
    pub services: BTreeSet<IpAddr>,
}

/// A pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPlan {
    /// The node it is on.
    pub node: SmolStr,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// Where somebody is: which namespace to open a socket in.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Spot {
    /// In a pod.
    Pod(PodKey),
    /// In a node's network.
    Node(SmolStr),
    /// Outside.
    Outside,
}

// === impl Plan ===

impl Plan {
    /// The plan of a world, with these addresses outside.
    pub fn of(placed: &LabWorld, outside: &BTreeSet<IpAddr>) -> Plan {
        let mut plan = Plan::default();
        let mut owned: BTreeSet<IpAddr> = BTreeSet::new();
        // An address that several claim is the first one's; nothing is sent to or from it.
        let mut own = |addresses: &[IpAddr]| -> Vec<IpAddr> {
            addresses
                .iter()
                .copied()
                .filter(|address| is_usable(*address) && owned.insert(*address))
                .collect()
        };
        for (name, addresses) in &placed.nodes {
            plan.nodes.insert(name.clone(), own(addresses));
        }
        for pod in placed.snapshot.pods() {
            let Some(node) = &pod.node else { continue };
            let alive = !pod.terminated && !pod.host_network && !pod.external && pod.stand_in.is_none();
            if alive {
                let key = (pod.namespace.clone(), pod.name.clone(), pod.stand_in.clone());
                plan.pods.insert(key, PodPlan { node: node.clone(), addresses: own(&pod.addresses) });
            }
        }
        for pod in placed.snapshot.pods().iter().filter(|pod| pod.external && !pod.terminated) {
            plan.outside.extend(own(&pod.addresses));
        }
        let services = placed.snapshot.services().iter();
        let services =
            services.flat_map(|service| service.addresses.iter().chain(&service.external_addresses));
        plan.services = own(&services.copied().collect::<Vec<_>>()).into_iter().collect();
        // Endpoints of services may be outside, too.
        for address in placed.objects.endpoints.iter().flat_map(|endpoints| &endpoints.ready).chain(outside) {
            plan.outside.extend(own(&[*address]));
        }
        plan
    }

    /// Where a party is.
    pub fn spot(&self, placed: &LabWorld, party: Party) -> Option<Spot> {
        match party.who {
            Who::Pod(at) => {
                let pod = &placed.snapshot.pods()[at];
                if pod.external {
                    return Some(Spot::Outside);
                }
                if pod.host_network {
                    return pod.node.clone().map(Spot::Node);
                }
                let key = (pod.namespace.clone(), pod.name.clone(), pod.stand_in.clone());
                self.pods.contains_key(&key).then_some(Spot::Pod(key))
            }
            Who::Node(at) => Some(Spot::Node(placed.snapshot.nodes()[at].name.clone())),
            Who::Outside => {
                let address = party.address?;
                let node = self.nodes.iter().find(|(_, own)| own.contains(&address));
                Some(node.map_or(Spot::Outside, |(name, _)| Spot::Node(name.clone())))
            }
        }
    }
}

/// Whether an address can be somebody's: not everybody's, nobody's, one's own, or what every link's other end is called here.
pub fn is_usable(address: IpAddr) -> bool {
    let special = match address {
        IpAddr::V4(four) => four.is_broadcast() || four.to_string() == PEER4,
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    !special && !address.is_loopback() && !address.is_multicast() && !address.is_unspecified()
}
