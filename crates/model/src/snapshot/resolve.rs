//! From a question as written to the concrete connections it asks about.

use std::net::IpAddr;

use smol_str::SmolStr;
use thiserror::Error;

use super::Snapshot;
use crate::address::Family;
use crate::cluster::Pod;
use crate::flow::{EndpointPattern, Flow, FlowPattern, Glob, Party, Who};
use crate::nearest::nearest;
use crate::traffic::Traffic;

/// A question about somebody who is not there. Not retryable: the question or the world must change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ResolveError {
    /// No such pod or workload.
    #[error("no pod or workload {name}")]
    Pod {
        /// As asked.
        name: String,
        /// Names that exist.
        nearest: Vec<String>,
    },
    /// No such namespace.
    #[error("no namespace {name}")]
    Namespace {
        /// As asked.
        name: String,
        /// Names that exist.
        nearest: Vec<String>,
    },
    /// The pod is over.
    #[error("pod {0} has terminated: it has no network any more")]
    Terminated(String),
    /// No such node.
    #[error("no node {name}")]
    Node {
        /// As asked.
        name: String,
        /// Names that exist.
        nearest: Vec<String>,
    },
    /// No such service.
    #[error("no service {name}")]
    Service {
        /// As asked.
        name: String,
        /// Names that exist.
        nearest: Vec<String>,
    },
    /// The service has no such port.
    #[error("service {service} has no port {traffic}: it has {ports}")]
    ServicePort {
        /// The service.
        service: String,
        /// As asked.
        traffic: Traffic,
        /// What it has.
        ports: String,
    },
    /// Nobody is behind the service.
    #[error("service {0} has no ready backend")]
    NoBackend(String),
    /// The service is an alias of a DNS name, and leads to no endpoint of the cluster.
    #[error("service {service} has no endpoints: it is an ExternalName{}", leads_to(target))]
    ExternalName {
        /// The service.
        service: String,
        /// The DNS name; empty where the manifest names none.
        target: String,
    },
    /// A wildcard that stands for nobody.
    #[error("{0} matches no pod")]
    Nobody(String),
    /// More connections than a question can be about.
    #[error("{0} stands for more than {MOST_FLOWS} flows: ask about fewer pods")]
    TooMany(String),
    /// The ends have no address family in common.
    #[error("{0}: the two ends have no address family in common, so there is no such connection")]
    NoCommonFamily(String),
    /// All that is left is a pod and itself.
    #[error("{0} matches no flow: a wildcard never stands for a pod and itself")]
    OnlySelf(String),
}

// === impl ResolveError ===

impl ResolveError {
    /// Returns what to ask instead: names that exist and are similar to the missing one, or another form of the question; a
    /// caller prints it on a line of its own.
    pub fn help(&self) -> Option<String> {
        match self {
            ResolveError::Pod { nearest, .. }
            | ResolveError::Namespace { nearest, .. }
            | ResolveError::Node { nearest, .. }
            | ResolveError::Service { nearest, .. } => {
                (!nearest.is_empty()).then(|| format!("did you mean {}?", nearest.join(", ")))
            }
            ResolveError::ExternalName { target, .. } => {
                let name = if target.is_empty() { "the name it is for" } else { target };
                Some(format!("ask about an address of {name}: ip:ADDRESS"))
            }
            _ => None,
        }
    }
}

/// Says which DNS name an ExternalName Service leads to, if its manifest does.
fn leads_to(target: &str) -> String {
    if target.is_empty() { String::new() } else { format!(" for the DNS name {target}") }
}

/// The most connections that one question stands for: every pair of two thousand pods.
const MOST_FLOWS: usize = 4_000_000;

/// An end that was found: who it is and, where the question named one, the address.
pub(super) type Found = (Who, Option<IpAddr>);

impl Snapshot {
    /// The concrete connections that a question asks about, in a fixed order, at least one.
    pub fn flows(&self, pattern: &FlowPattern) -> Result<Vec<Flow>, ResolveError> {
        let sources = self.endpoints_of(&pattern.source)?;
        let (via, traffic) = self.service_of(&pattern.destination, pattern.traffic)?;
        let destinations: Vec<(Found, u16)> = match via {
            Some(via) => {
                let mut backends = self.backends(&self.services[via], traffic)?;
                // A cluster address leads to endpoints of its own family.
                if let EndpointPattern::Address(address) = pattern.destination {
                    self.keep_family(&mut backends, Family::of(address));
                }
                if backends.is_empty() {
                    return Err(ResolveError::NoBackend(pattern.destination.to_string()));
                }
                backends
            }
            None => {
                let port = pattern.traffic.port;
                self.endpoints_of(&pattern.destination)?.into_iter().map(|found| (found, port)).collect()
            }
        };
        if sources.len().saturating_mul(destinations.len()) > MOST_FLOWS {
            return Err(ResolveError::TooMany(pattern.to_string()));
        }
        // A name that stands for several pods (a wildcard, a workload) never stands for a pod and itself.
        let stands_for_several = |pattern: &EndpointPattern, count: usize| match pattern {
            EndpointPattern::Pods { .. } => pattern.is_open() || count > 1,
            _ => false,
        };
        let several = stands_for_several(&pattern.source, sources.len())
            || stands_for_several(&pattern.destination, destinations.len());
        // The name of a headless Service resolves to its pods: the connection goes to one of them, through nothing.
        let via = via.filter(|via| self.services[*via].has_cluster_address());
        let mut flows = Vec::with_capacity(sources.len() * destinations.len());
        for source in &sources {
            for (destination, port) in &destinations {
                if several && source.0 == destination.0 && matches!(source.0, Who::Pod(_)) {
                    continue;
                }
                let traffic = Traffic { port: *port, ..pattern.traffic };
                flows.push(Flow { via, ..self.flow(*source, *destination, traffic) });
            }
        }
        if flows.is_empty() {
            return Err(ResolveError::OnlySelf(pattern.to_string()));
        }
        // Nobody connects from one family to the other; of a service's backends, or a wildcard's pods, those are left
        // out that the other end cannot reach.
        flows.retain(|flow| match (flow.source.address, flow.destination.address) {
            (Some(source), Some(destination)) => Family::of(source) == Family::of(destination),
            _ => true,
        });
        if flows.is_empty() { Err(ResolveError::NoCommonFamily(pattern.to_string())) } else { Ok(flows) }
    }

    /// Leaves only the backends that have an address of the family, each with that address.
    fn keep_family(&self, backends: &mut Vec<(Found, u16)>, family: Family) {
        backends.retain_mut(|((who, address), _)| {
            let own = self.addresses(*who).iter().copied();
            let given = *address;
            let of_family = given.into_iter().chain(own).find(|address| Family::of(*address) == family);
            let unaddressed = address.is_none() && self.addresses(*who).is_empty();
            *address = of_family;
            of_family.is_some() || unaddressed
        });
        backends.sort();
        backends.dedup();
    }

    /// One connection. Where no address is given, both ends use the first family that both have.
    pub fn flow(&self, source: Found, destination: Found, traffic: Traffic) -> Flow {
        let family = self.families(source, destination).first().copied();
        let party = |(who, given): Found| {
            let own = self.addresses(who);
            let address = match family {
                Some(family) => own.iter().find(|address| Family::of(**address) == family),
                None => own.first(),
            };
            Party { who, address: given.or(address.copied()) }
        };
        Flow { source: party(source), destination: party(destination), traffic, via: None }
    }

    /// The families two ends can use with each other, the preferred one first. An end without any address goes along
    /// with the other.
    pub fn families(&self, source: Found, destination: Found) -> Vec<Family> {
        let of = |(who, given): Found| -> Vec<Family> {
            let mut families: Vec<Family> = Vec::new();
            let addresses: &[IpAddr] = match &given {
                Some(address) => std::slice::from_ref(address),
                None => self.addresses(who),
            };
            for family in addresses.iter().map(|address| Family::of(*address)) {
                if !families.contains(&family) {
                    families.push(family);
                }
            }
            families
        };
        let (source, destination) = (of(source), of(destination));
        if source.is_empty() {
            return destination;
        }
        if destination.is_empty() {
            return source;
        }
        source.into_iter().filter(|family| destination.contains(family)).collect()
    }

    /// The same connection over the family that it does not use, where both ends have that one.
    pub fn over_the_other_family(&self, flow: &Flow) -> Option<(Flow, Family)> {
        let family = Family::of(flow.source.address.or(flow.destination.address)?).other();
        let party = |party: Party| {
            let own = self.addresses(party.who);
            let address = own.iter().find(|address| Family::of(**address) == family).copied();
            let unaddressed = own.is_empty() && party.who != Who::Outside;
            (address.is_some() || unaddressed).then_some(Party { address, ..party })
        };
        let flow = Flow { source: party(flow.source)?, destination: party(flow.destination)?, ..*flow };
        Some((flow, family)).filter(|(flow, _)| flow.source.address.or(flow.destination.address).is_some())
    }

    fn addresses(&self, who: Who) -> &[IpAddr] {
        match who {
            Who::Pod(pod) => &self.pods[pod].addresses,
            Who::Node(node) => &self.nodes[node].addresses,
            Who::Outside => &[],
        }
    }

    fn endpoints_of(&self, pattern: &EndpointPattern) -> Result<Vec<Found>, ResolveError> {
        match pattern {
            EndpointPattern::Address(address) => Ok(vec![(self.who_has(*address), Some(*address))]),
            EndpointPattern::Node(name) => match self.node(name) {
                Some(node) => Ok(vec![(Who::Node(node), None)]),
                None => {
                    let near = nearest(name, self.nodes.iter().map(|node| node.name.as_str()));
                    let nearest = near.into_iter().map(|name| format!("node:{name}")).collect();
                    Err(ResolveError::Node { name: name.to_string(), nearest })
                }
            },
            EndpointPattern::Pods { namespace, name } => {
                let pods = self.pods_of(namespace, name)?;
                Ok(pods.into_iter().map(|pod| (Who::Pod(pod), None)).collect())
            }
            // The destination side is resolved with its port by `backends`; a source is refused when parsed.
            EndpointPattern::Service { .. } => Err(ResolveError::Nobody(pattern.to_string())),
        }
    }

    fn pods_of(&self, namespace: &Glob, name: &Glob) -> Result<Vec<usize>, ResolveError> {
        // A wildcard stands for pods; an external entity is asked about by its name.
        let open = namespace.is_open() || name.is_open();
        let living = |(_, pod): &(usize, &Pod)| {
            !pod.terminated && namespace.matches(&pod.namespace) && !(open && pod.external)
        };
        // An exact name may be that of what made the pods; one name may be several endpoints'.
        let meant = |pod: &Pod| {
            name.matches(&pod.name)
                || name.exact().is_some_and(|exact| self.makers(pod).iter().any(|owner| owner.name == exact))
        };
        let found: Vec<usize> = self
            .pods
            .iter()
            .enumerate()
            .filter(living)
            .filter(|(_, pod)| meant(pod))
            .map(|(i, _)| i)
            .collect();
        match name.exact() {
            _ if !found.is_empty() => Ok(found),
            Some(exact) => Err(self.no_pod(namespace, exact)),
            None => Err(self.nobody(namespace, name)),
        }
    }

    /// A wildcard that stands for nobody, perhaps because its namespace does not exist.
    fn nobody(&self, namespace: &Glob, name: &Glob) -> ResolveError {
        match namespace.exact() {
            Some(exact) if self.namespace(exact).is_none() => {
                let near = nearest(exact, self.namespaces.iter().map(|ns| ns.name.as_str()));
                let nearest = near.into_iter().map(|near| format!("{near}/{name}")).collect();
                ResolveError::Namespace { name: exact.to_owned(), nearest }
            }
            _ => ResolveError::Nobody(format!("{namespace}/{name}")),
        }
    }

    /// The names of workloads and pods, in these namespaces, that are nearest to one.
    fn names_near(&self, name: &str, inside: &dyn Fn(&str) -> bool) -> Vec<String> {
        let here: Vec<&Pod> =
            self.pods.iter().filter(|pod| !pod.terminated && inside(&pod.namespace)).collect();
        let workloads: Vec<SmolStr> =
            here.iter().filter_map(|pod| pod.workload()).map(|owner| owner.name).collect();
        let candidates =
            workloads.iter().map(SmolStr::as_str).chain(here.iter().map(|pod| pod.name.as_str()));
        nearest(name, candidates).into_iter().map(ToOwned::to_owned).collect()
    }

    fn no_pod(&self, namespace: &Glob, name: &str) -> ResolveError {
        let full = format!("{namespace}/{name}");
        if let Some(namespace) = namespace.exact() {
            if self.pod(namespace, name).is_some() {
                return ResolveError::Terminated(full);
            }
            if self.namespace(namespace).is_none() {
                let near = nearest(namespace, self.namespaces.iter().map(|ns| ns.name.as_str()));
                let there = |ns: &str| {
                    let names = self.names_near(name, &|other: &str| other == ns);
                    format!("{ns}/{}", names.first().map_or(name, String::as_str))
                };
                let nearest = near.into_iter().map(there).collect();
                return ResolveError::Namespace { name: namespace.to_owned(), nearest };
            }
        }
        let here = self.names_near(name, &|other: &str| namespace.matches(other));
        let mut near: Vec<String> = here.into_iter().map(|n| format!("{namespace}/{n}")).collect();
        if near.is_empty() {
            // The right name in another namespace is the next best guess.
            let elsewhere = self.pods.iter().filter(|pod| {
                !pod.terminated
                    && (pod.name == name || pod.workload().is_some_and(|owner| owner.name == name))
            });
            near = elsewhere.map(|pod| format!("{}/{name}", pod.namespace)).collect();
            near.dedup();
            near.truncate(3);
        }
        ResolveError::Pod { name: full, nearest: near }
    }
}
