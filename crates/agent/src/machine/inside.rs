//! Pods in network namespaces: what is in there, and which of it is theirs.
//!
//! Whoever is in a network namespace may give itself any address, and may be looked at in a moment in which it cannot be read. So an
//! address that is somebody else's is not taken, and one that was found before is kept until it is known to be gone.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::cluster::{Machine, MachinePod};
use smol_str::SmolStr;

use super::network::{Link, Network, NetworkError, Scope};
use super::{Finder, Placement};

/// What is known of a network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inside {
    /// Its interfaces.
    Links(Vec<Link>),
    /// There is none of that name.
    Nothing,
    /// It cannot be read, and why; and what was read last: for a moment it has not lost its addresses.
    Unreadable(String, Option<Vec<Link>>),
}

/// What a network namespace has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) addresses: Vec<IpAddr>,
    /// Interfaces of this machine that lead there.
    pub(super) interfaces: Vec<SmolStr>,
}

// === impl Finder ===

impl<N: Network> Finder<N> {
    /// Where a pod of a machine is.
    pub(super) fn found(
        &mut self,
        pod: &MachinePod,
        here: bool,
        links: &[Link],
        placement: &mut Placement,
    ) -> Found {
        let who = format!("{}/{}", pod.namespace, pod.name);
        let is_there = |name: &str| links.iter().any(|link| link.name == name);
        if let Some(interface) = pod.interface.as_ref().filter(|name| here && !is_there(name)) {
            placement.notes.push(format!("{who}: there is no interface {interface} yet"));
        }
        let Some(name) = &pod.network_namespace else {
            let interfaces = pod.interface.iter().cloned().collect();
            return Found { addresses: pod.addresses.clone(), interfaces };
        };
        if !here {
            return Found { addresses: pod.addresses.clone(), interfaces: Vec::new() };
        }
        let network = &self.network;
        let inside = self.inside.entry(name.clone()).or_insert_with(|| Inside::read(network, name, None));
        let mut found = match inside.links() {
            Some(inside) => Found::of(inside, links, pod.interface.as_ref()),
            // What cannot be looked into, or has lost its name while its interface is there, has not lost its addresses.
            None => match self.known.get(&who) {
                Some(known)
                    if !matches!(inside, Inside::Nothing)
                        || known.interface.as_deref().is_some_and(is_there) =>
                {
                    let interfaces = known.interface.iter().map(SmolStr::from).collect();
                    Found { addresses: known.addresses.clone(), interfaces }
                }
                _ => Found::default(),
            },
        };
        let bridge = inside.links().into_iter().flatten().find_map(|link| {
            let near = links.iter().find(|near| {
                link.peer == Some(near.index) && near.peer == Some(link.index) && near.bridge.is_some()
            });
            near.and_then(|near| near.bridge.clone())
        });
        if let Some(bridge) = bridge.filter(|_| !self.network.sees_bridged()) {
            let gap = format!(
                "{who}: it is behind the bridge {bridge}, and the kernel does not show bridged packets to nftables: between pods of \
                 that bridge no rule is in force (modprobe br_netfilter; sysctl net.bridge.bridge-nf-call-iptables=1 \
                 net.bridge.bridge-nf-call-ip6tables=1)"
            );
            placement.notes.push(gap.clone());
            placement.gaps.push(gap);
        }
        let kept = inside.links().is_none() && !found.addresses.is_empty();
        let notes = &mut placement.notes;
        if !pod.addresses.is_empty() {
            found.addresses.clone_from(&pod.addresses);
        }
        match inside {
            Inside::Links(_) if found.addresses.is_empty() => {
                notes.push(format!("{who}: network namespace {name} has no address yet"));
            }
            Inside::Links(_) => {}
            Inside::Nothing if kept => {
                notes.push(format!(
                    "{who}: network namespace {name} has lost its name, and its interface is there: the addresses it had are kept"
                ));
            }
            Inside::Nothing => {
                notes.push(format!("{who}: there is no network namespace {name} yet, so it has no address"));
            }
            Inside::Unreadable(why, _) if !found.addresses.is_empty() => {
                notes.push(format!("{who}: {why}; the addresses it had are kept"));
            }
            Inside::Unreadable(why, _) => {
                let gap = format!("{who}: {why}; nobody knows its address, so no rule is in force for it");
                notes.push(gap.clone());
                placement.gaps.push(gap);
            }
        }
        found
    }

    /// Leaves a pod only those of the addresses in its network namespace that are nobody else's: whoever is in there may give itself any.
    pub(super) fn claim(
        &self,
        entry: &MachinePod,
        found: &mut Found,
        written: &BTreeMap<IpAddr, String>,
        machines: &[Machine],
        owners: &mut BTreeMap<IpAddr, SmolStr>,
        notes: &mut Vec<String>,
    ) {
        let who: SmolStr = format!("{}/{}", entry.namespace, entry.name).into();
        let has_still = |owner: &str, address: IpAddr| {
            let entries = machines.iter().flat_map(|machine| &machine.pods);
            let mut own = entries.filter(|pod| format!("{}/{}", pod.namespace, pod.name) == owner);
            own.any(|pod| {
                let inside = pod.network_namespace.as_ref().and_then(|name| self.inside.get(name)?.links());
                inside.is_some_and(|links| Found::of(links, &[], None).addresses.contains(&address))
            })
        };
        found.addresses.retain(|address| {
            let before = self.owners.get(address).filter(|owner| has_still(owner, *address));
            let owner = written.get(address).map(String::as_str).or(before.map(SmolStr::as_str));
            match owner.or(owners.get(address).map(SmolStr::as_str)).filter(|owner| *owner != who) {
                Some(owner) => {
                    notes.push(format!(
                        "{who}: its network namespace has {address}, which is {owner}'s: it does not get it, and what comes \
                         from there with it is forged"
                    ));
                    false
                }
                None => {
                    owners.insert(*address, who.clone());
                    true
                }
            }
        });
    }
}

// === impl Inside ===

impl Inside {
    pub(super) fn read(network: &impl Network, name: &str, before: Option<&Inside>) -> Inside {
        match network.links(Some(name)) {
            Ok(links) => Inside::Links(links),
            Err(NetworkError::NoNamespace(_)) => Inside::Nothing,
            Err(error) => {
                let before = before.and_then(Inside::links).map(<[Link]>::to_vec);
                Inside::Unreadable(error.to_string(), before)
            }
        }
    }

    /// What is known of its interfaces.
    fn links(&self) -> Option<&[Link]> {
        match self {
            Inside::Links(links) | Inside::Unreadable(_, Some(links)) => Some(links),
            _ => None,
        }
    }
}

// === impl Found ===

impl Found {
    /// From the links inside of a namespace and those of this machine.
    fn of(inside: &[Link], here: &[Link], named: Option<&SmolStr>) -> Found {
        let mut found = Found::default();
        found.interfaces.extend(named.cloned());
        for link in inside.iter().filter(|link| !link.loopback) {
            let global = link.addresses.iter().filter(|(_, scope)| *scope == Scope::Global);
            found.addresses.extend(global.map(|(address, _)| *address));
            // The two ends of a veth pair name each other.
            let other = here.iter().find(|other| {
                link.peer == Some(other.index) && other.peer == Some(link.index) && other.bridge.is_none()
            });
            if named.is_none() {
                found.interfaces.extend(other.map(|other| other.name.clone()));
            }
        }
        found
    }
}
