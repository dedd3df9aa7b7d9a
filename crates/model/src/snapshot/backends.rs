//! Through services: which one a destination leads to, and who answers behind it.

use smol_str::SmolStr;

use super::Snapshot;
use super::resolve::{Found, ResolveError};
use crate::cluster::{Endpoints, Service, ServiceKind, ServicePort, TargetPort};
use crate::flow::{EndpointPattern, Who};
use crate::nearest::nearest;
use crate::traffic::{Protocol, Traffic};

// === impl Snapshot ===

impl Snapshot {
    /// The service that a destination leads to: by its name, one of its addresses, or its port on a node. The traffic is
    /// as a client of the service would write it.
    pub(super) fn service_of(
        &self,
        destination: &EndpointPattern,
        traffic: Traffic,
    ) -> Result<(Option<usize>, Traffic), ResolveError> {
        match destination {
            EndpointPattern::Service { namespace, name } => {
                let found = self.services.iter().position(|s| s.namespace == *namespace && s.name == *name);
                let found = found.ok_or_else(|| {
                    let here = self.services.iter().filter(|service| service.namespace == *namespace);
                    let near = nearest(name, here.map(|service| service.name.as_str()));
                    let nearest = near.into_iter().map(|name| format!("svc:{namespace}/{name}")).collect();
                    ResolveError::Service { name: format!("{namespace}/{name}"), nearest }
                })?;
                Ok((Some(found), traffic))
            }
            EndpointPattern::Address(address) => {
                let own = |s: &Service| {
                    let mut addresses = s.addresses.iter().chain(&s.external_addresses);
                    s.has_cluster_address() && addresses.any(|own| own == address)
                };
                match self.services.iter().position(own) {
                    Some(found) => Ok((Some(found), traffic)),
                    None if matches!(self.who_has(*address), Who::Node(_)) => Ok(self.on_nodes(traffic)),
                    None => Ok((None, traffic)),
                }
            }
            EndpointPattern::Node(_) => Ok(self.on_nodes(traffic)),
            EndpointPattern::Pods { .. } => Ok((None, traffic)),
        }
    }

    /// The service that has this port on every node, if there is one.
    fn on_nodes(&self, traffic: Traffic) -> (Option<usize>, Traffic) {
        let here =
            |port: &&ServicePort| port.node_port == Some(traffic.port) && port.protocol == traffic.protocol;
        let found = self
            .services
            .iter()
            .enumerate()
            .filter(|(_, service)| service.has_cluster_address())
            .find_map(|(index, service)| service.ports.iter().find(here).map(|port| (index, port.port)));
        match found {
            Some((index, port)) => (Some(index), Traffic { port, ..traffic }),
            None => (None, traffic),
        }
    }

    /// Returns where connections to a service's name arrive: its ready endpoints, each with the port there.
    pub(super) fn backends(
        &self,
        service: &Service,
        traffic: Traffic,
    ) -> Result<Vec<(Found, u16)>, ResolveError> {
        let full = format!("{}/{}", service.namespace, service.name);
        let backends = match &service.kind {
            ServiceKind::ClusterAddress { .. } => self.translated(service, &full, traffic)?,
            ServiceKind::Headless { .. } => {
                self.named_endpoints(service).into_iter().map(|found| (found, traffic.port)).collect()
            }
            ServiceKind::ExternalName(target) => {
                return Err(ResolveError::ExternalName { service: full, target: target.to_string() });
            }
        };
        if backends.is_empty() { Err(ResolveError::NoBackend(full)) } else { Ok(backends) }
    }

    /// The ready backends of the service's port that a connection names, after translation.
    fn translated(
        &self,
        service: &Service,
        full: &str,
        traffic: Traffic,
    ) -> Result<Vec<(Found, u16)>, ResolveError> {
        let Some(port) =
            service.ports.iter().find(|p| p.protocol == traffic.protocol && p.port == traffic.port)
        else {
            let ports: Vec<String> =
                service.ports.iter().map(|p| format!("{}/{}", p.protocol, p.port)).collect();
            let ports = if ports.is_empty() { "none".to_owned() } else { ports.join(", ") };
            return Err(ResolveError::ServicePort { service: full.to_owned(), traffic, ports });
        };
        Ok(self.backends_of(service, port))
    }

    /// The endpoints that the name of a headless service resolves to. Its ports play no part: DNS knows addresses only, and
    /// the client connects to the port that it names.
    fn named_endpoints(&self, service: &Service) -> Vec<Found> {
        let listed = self.endpoints_of_service(service);
        let addresses = listed.clone().flat_map(|endpoints| &endpoints.ready);
        let mut found: Vec<Found> = match listed.clone().next() {
            Some(_) => addresses.map(|address| (self.who_has(*address), Some(*address))).collect(),
            None => self.pods_behind(service).map(|pod| (Who::Pod(pod), None)).collect(),
        };
        found.sort();
        found.dedup();
        found
    }

    /// The ready backends of a service's port, each with the port it serves there.
    pub(super) fn backends_of(&self, service: &Service, port: &ServicePort) -> Vec<(Found, u16)> {
        let listed: Vec<_> = self.endpoints_of_service(service).collect();
        let mut backends: Vec<(Found, u16)> = Vec::new();
        if listed.is_empty() {
            self.selected_backends(service, port, &mut backends);
        } else {
            for endpoints in listed {
                let served = |(name, protocol, _): &&(SmolStr, Protocol, u16)| {
                    *protocol == port.protocol && *name == port.name
                };
                if let Some((_, _, number)) = endpoints.ports.iter().find(served) {
                    let ready = endpoints.ready.iter();
                    backends.extend(ready.map(|address| ((self.who_has(*address), Some(*address)), *number)));
                }
            }
        }
        backends.sort();
        backends.dedup();
        backends
    }

    /// The endpoint objects of a service.
    pub(super) fn endpoints_of_service<'s>(
        &'s self,
        service: &'s Service,
    ) -> impl Iterator<Item = &'s Endpoints> + Clone {
        let own = (&service.namespace, &service.name);
        let first = self.endpoints.partition_point(|e| (&e.namespace, &e.service) < own);
        self.endpoints[first..].iter().take_while(move |e| (&e.namespace, &e.service) == own)
    }

    /// The ready pods that a service selects.
    pub(super) fn pods_behind<'s>(&'s self, service: &'s Service) -> impl Iterator<Item = usize> + 's {
        self.pods_in(&service.namespace).filter(move |pod| {
            let pod = &self.pods[*pod];
            !pod.terminated && !pod.external && service.is_served_by(pod.ready, &pod.labels)
        })
    }

    /// Without endpoint objects, the backends are the ready pods the service selects.
    fn selected_backends(&self, service: &Service, port: &ServicePort, backends: &mut Vec<(Found, u16)>) {
        for index in self.pods_behind(service) {
            let number = match &port.target {
                TargetPort::Number(number) => Some(*number),
                TargetPort::Name(name) => self.pods[index].named_port(name, port.protocol),
            };
            backends.extend(number.map(|number| ((Who::Pod(index), None), number)));
        }
    }
}
