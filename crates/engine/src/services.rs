//! Services, what is behind them, and what the names of headless ones stand for.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::cluster::{Endpoints as Backends, Service};
use palisade_model::policy::ServiceName;
use smol_str::SmolStr;

use crate::Engine;
use crate::arena::Arena;
use crate::delta::{Member, MemberKind};
use crate::endpoints::PodEntry;
use crate::id::{Id, SetId};
use crate::pending::Place;
use crate::selection::Wanted;
use crate::shapes::Few;
use crate::spans::Location;
use crate::table::Map;

/// All services.
#[derive(Debug, Default)]
pub(crate) struct Services {
    services: Arena<ServiceEntry>,
    by_name: Map<ServiceName, Id<ServiceEntry>>,
    /// The headless ones of each namespace.
    headless: Map<SmolStr, Few<Id<ServiceEntry>>>,
    /// By namespace, service and name.
    backends: BTreeMap<(SmolStr, SmolStr, SmolStr), Backends>,
}

/// A service.
#[derive(Debug)]
pub(crate) struct ServiceEntry {
    service: Service,
    member: Arc<Member>,
    /// The sets that hold it: one, or none. A service without a cluster address is in none.
    sets: Few<SetId>,
}

// === impl Services ===

impl Services {
    pub(crate) fn is_empty(&self) -> bool {
        self.services.len() == 0
            && self.by_name.is_empty()
            && self.headless.is_empty()
            && self.backends.is_empty()
    }

    pub(crate) fn find(&self, name: &ServiceName) -> Option<Id<ServiceEntry>> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn service(&self, name: &ServiceName) -> Option<&Service> {
        Some(&self.services.get(self.find(name)?)?.service)
    }

    pub(crate) fn sets(&self, at: Id<ServiceEntry>) -> &[SetId] {
        self.services.get(at).map(|entry| entry.sets.as_slice()).unwrap_or_default()
    }

    pub(crate) fn member(&self, at: Id<ServiceEntry>) -> Option<&Arc<Member>> {
        self.services.get(at).map(|entry| &entry.member)
    }

    /// The service of this name, if connections can go through it.
    pub(crate) fn reachable(&self, name: &ServiceName) -> Option<Id<ServiceEntry>> {
        self.find(name).filter(|at| self.services[*at].service.has_cluster_address())
    }

    /// A new set is about a service.
    pub(crate) fn select(&mut self, set: SetId, name: &ServiceName) {
        if let Some(at) = self.reachable(name) {
            self.services[at].sets.push(set);
        }
    }

    /// A set is gone.
    pub(crate) fn unselect(&mut self, set: SetId, name: &ServiceName) {
        if let Some(at) = self.find(name) {
            self.services[at].sets.retain(|other| *other != set);
        }
    }

    /// Notes a headless service with its namespace, or forgets it.
    fn list_headless(&mut self, at: Id<ServiceEntry>, there: bool) {
        let service = &self.services[at].service;
        if !service.is_headless() {
            return;
        }
        let own = self.headless.entry(service.namespace.clone()).or_default();
        own.retain(|other| *other != at);
        if there {
            own.push(at);
        } else if own.is_empty() {
            self.headless.remove(&service.namespace);
        }
    }

    fn listed(&self, service: &Service) -> Vec<IpAddr> {
        let first = (service.namespace.clone(), service.name.clone(), SmolStr::default());
        let own = |key: &(SmolStr, SmolStr, SmolStr)| key.0 == service.namespace && key.1 == service.name;
        let listed = self.backends.range(first..).take_while(|(key, _)| own(key));
        listed.flat_map(|(_, backends)| backends.ready.iter().copied()).collect()
    }
}

impl Engine {
    /// A service is there, or has changed, or is gone.
    pub(crate) fn set_service(&mut self, name: &ServiceName, service: Option<Service>) {
        let found = self.services.find(name);
        if let Some(at) = found {
            self.say_headless(at, false);
            self.services.list_headless(at, false);
        }
        let at = match (found, service) {
            (None, None) => return,
            (Some(at), None) => {
                let gone = self.services.services.remove(at);
                self.services.by_name.remove(name);
                for set in &gone.sets {
                    self.count_member(*set, Location::Everywhere, -1);
                }
                self.pending.touch(Some((gone.member, gone.sets)), Place::Nowhere);
                None
            }
            (Some(at), Some(service)) => {
                let sets = self.sets_with(name, &service);
                let entry = &mut self.services.services[at];
                let member = std::mem::replace(&mut entry.member, Arc::new(Member::from(&service)));
                let before = std::mem::replace(&mut entry.sets, sets.clone());
                entry.service = service;
                for set in before.iter().filter(|set| !sets.contains(*set)) {
                    self.count_member(*set, Location::Everywhere, -1);
                }
                for set in sets.iter().filter(|set| !before.contains(*set)) {
                    self.count_member(*set, Location::Everywhere, 1);
                }
                self.pending.touch(Some((member, before)), Place::Service(at));
                Some(at)
            }
            (None, Some(service)) => {
                let sets = self.sets_with(name, &service);
                let member = Arc::new(Member::from(&service));
                let entry = ServiceEntry { service, member, sets: sets.clone() };
                let at = self.services.services.insert(entry);
                self.services.by_name.insert(name.clone(), at);
                for set in sets {
                    self.count_member(set, Location::Everywhere, 1);
                }
                self.pending.touch(None, Place::Service(at));
                Some(at)
            }
        };
        if let Some(at) = at {
            self.services.list_headless(at, true);
            self.say_headless(at, true);
        }
        self.service_changed(name);
    }

    /// The sets that hold a service of this name.
    fn sets_with(&self, name: &ServiceName, service: &Service) -> Few<SetId> {
        let (_, set) = self.sets.find(Wanted::Service(name));
        set.filter(|_| service.has_cluster_address()).into_iter().collect()
    }

    /// What is behind a service has changed.
    pub(crate) fn set_backends(&mut self, key: &(SmolStr, SmolStr, SmolStr), backends: Option<Backends>) {
        let service = self.services.service(&ServiceName { namespace: key.0.clone(), name: key.1.clone() });
        let name = service.filter(|service| service.is_headless()).map(Service::dns_name);
        let backends = backends.map(|mut backends| {
            backends.ready.sort_unstable();
            backends.ready.dedup();
            backends
        });
        let after = backends.as_ref().map(|backends| backends.ready.clone()).unwrap_or_default();
        let before = match backends {
            Some(backends) => self.services.backends.insert(key.clone(), backends),
            None => self.services.backends.remove(key),
        };
        let before = before.map(|backends| backends.ready).unwrap_or_default();
        let Some(name) = name else { return };
        let (old, new): (BTreeSet<IpAddr>, BTreeSet<IpAddr>) =
            (before.iter().copied().collect(), after.iter().copied().collect());
        for address in after.iter().filter(|address| !old.contains(address)) {
            self.say(&name, *address, true);
        }
        for address in before.iter().filter(|address| !new.contains(address)) {
            self.say(&name, *address, false);
        }
    }

    /// A pod gives its addresses to the names of headless services, or takes them back.
    pub(crate) fn say_pod(&mut self, pod: Id<PodEntry>, there: bool) {
        if self.services.headless.is_empty() {
            return;
        }
        let namespace = &self.endpoints.pods[pod].member.namespace;
        let Some(headless) = self.services.headless.get(namespace) else { return };
        for at in headless.clone() {
            let service = &self.services.services[at].service;
            if self.serves(service, pod) {
                let name = service.dns_name();
                for address in self.addresses_of(pod) {
                    self.say(&name, address, there);
                }
            }
        }
    }

    /// The addresses of a pod: its own, or in its node's network, if it tells none, the node's.
    fn addresses_of(&self, pod: Id<PodEntry>) -> Vec<IpAddr> {
        let entry = &self.endpoints.pods[pod];
        match entry.host.and_then(|host| self.hosts.node(host)) {
            Some(node) if entry.host_network && entry.member.addresses.is_empty() => node.addresses.clone(),
            _ => entry.member.addresses.to_vec(),
        }
    }

    fn serves(&self, service: &Service, pod: Id<PodEntry>) -> bool {
        let entry = &self.endpoints.pods[pod];
        !entry.terminated
            && !self.endpoints.facts(pod).external
            && service.is_served_by(entry.ready, self.endpoints.labels(pod))
    }

    fn say_headless(&mut self, at: Id<ServiceEntry>, there: bool) {
        let service = &self.services.services[at].service;
        if !service.is_headless() {
            return;
        }
        let name = service.dns_name();
        let mut addresses = self.services.listed(service);
        if let Some(namespace) = self.endpoints.namespace(&service.namespace) {
            for pod in self.endpoints.pods_in(namespace).filter(|pod| self.serves(service, *pod)) {
                addresses.extend(self.addresses_of(pod));
            }
        }
        for address in addresses {
            self.say(&name, address, there);
        }
    }

    pub(crate) fn say(&mut self, name: &SmolStr, address: IpAddr, there: bool) {
        match there {
            true => self.names.say(name, address, &mut self.pending),
            false => self.names.unsay(name, address, &mut self.pending),
        }
    }
}

// === impl Member ===

impl From<&Service> for Member {
    fn from(service: &Service) -> Self {
        let addresses = service.addresses.iter().chain(&service.external_addresses);
        Member {
            kind: MemberKind::Service,
            namespace: service.namespace.clone(),
            name: service.name.clone(),
            addresses: addresses.copied().collect(),
            node: None,
        }
    }
}
