//! What is behind the entrances of a snapshot: from a Service's name and port to ports of pods, or why there are none.

use std::collections::BTreeSet;

use smol_str::SmolStr;

use super::Snapshot;
use super::resolve::Found;
use crate::cluster::{Service, ServicePort, TargetPort};
use crate::entrance::{BackendPort, Entrance};
use crate::flow::Who;
use crate::policy::ServiceName;
use crate::traffic::Protocol;

/// A port of a pod that an entrance leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opening {
    /// The pod's place in the snapshot.
    pub pod: usize,
    /// The protocol.
    pub protocol: Protocol,
    /// The port on the pod.
    pub port: u16,
}

/// Why a backend leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dangling {
    /// There is no such Service.
    NoService,
    /// It has no such port.
    NoPort,
    /// Nobody is behind that port.
    Nobody,
}

// === impl Snapshot ===

impl Snapshot {
    /// All entrances, by kind, namespace and name.
    pub fn entrances(&self) -> &[Entrance] {
        &self.entrances
    }

    /// The place of a service by name.
    pub fn service(&self, name: &ServiceName) -> Option<usize> {
        let key =
            |service: &Service| (&*service.namespace, &*service.name).cmp(&(&*name.namespace, &*name.name));
        self.services.binary_search_by(key).ok()
    }

    /// The ports of pods that an entrance leads to, each once, by pod. Backends that lead nowhere add nothing:
    /// [`Snapshot::openings`] says why. Endpoints that are no pods (nodes, addresses outside) are not among them.
    pub fn behind(&self, entrance: &Entrance) -> Vec<Opening> {
        // A large Ingress names few Services, many times.
        let named: BTreeSet<(&ServiceName, &BackendPort)> =
            entrance.backends.iter().map(|backend| (&backend.service, &backend.port)).collect();
        let openings = |(service, port)| self.openings(service, port, entrance.protocol).unwrap_or_default();
        let all: BTreeSet<Opening> = named.into_iter().flat_map(openings).collect();
        all.into_iter().collect()
    }

    /// The ports of pods behind a Service's port, or why there are none. Empty where nobody can know: somebody else keeps
    /// the Service's endpoints, or they are no pods.
    pub fn openings(
        &self,
        name: &ServiceName,
        wanted: &BackendPort,
        protocol: Protocol,
    ) -> Result<Vec<Opening>, Dangling> {
        let service = &self.services[self.service(name).ok_or(Dangling::NoService)?];
        // An ingress controller resolves an ExternalName itself; whatever the Service lists, no pod is behind it.
        if service.is_external_name() || service.ports.is_empty() && service.selector().is_none() {
            return Ok(Vec::new());
        }
        let (mut has_port, mut somebody) = (false, false);
        let mut openings = BTreeSet::new();
        for port in service.ports.iter().filter(|port| port.protocol == protocol) {
            let backends = match wanted {
                BackendPort::Target(TargetPort::Number(number)) => self.backends_at(service, port, *number),
                _ => is_meant(port, wanted).then(|| self.backends_of(service, port)),
            };
            let Some(backends) = backends else { continue };
            has_port = true;
            somebody |= !backends.is_empty();
            openings.extend(backends.into_iter().filter_map(|((who, _), port)| match who {
                Who::Pod(pod) => Some(Opening { pod, protocol, port }),
                Who::Node(_) | Who::Outside => None,
            }));
        }
        let kept_elsewhere =
            service.selector().is_none() && self.endpoints_of_service(service).next().is_none();
        match (has_port, somebody || kept_elsewhere) {
            (false, _) => Err(Dangling::NoPort),
            (true, false) => Err(Dangling::Nobody),
            (true, true) => Ok(openings.into_iter().collect()),
        }
    }

    /// The backends of a service's port that are reached at this number; nothing if the port does not lead there.
    fn backends_at(&self, service: &Service, port: &ServicePort, number: u16) -> Option<Vec<(Found, u16)>> {
        // Without endpoint objects a number is what the Service says; this keeps a Service of many ports cheap.
        let listed = self.endpoints_of_service(service).next().is_some();
        if !listed && matches!(&port.target, TargetPort::Number(target) if *target != number) {
            return None;
        }
        let mut backends = self.backends_of(service, port);
        let is_meant = match &port.target {
            TargetPort::Number(target) => *target == number,
            // What a name stands for differs from pod to pod, and is open while there is none.
            TargetPort::Name(_) => backends.is_empty(),
        };
        backends.retain(|(_, port)| *port == number);
        (is_meant || !backends.is_empty()).then_some(backends)
    }
}

/// Whether a Service's port is the one that is wanted, as far as the Service says it.
fn is_meant(port: &ServicePort, wanted: &BackendPort) -> bool {
    let leads_to = |name: &SmolStr| matches!(&port.target, TargetPort::Name(target) if target == name);
    match wanted {
        BackendPort::All => true,
        BackendPort::Number(number) => port.port == *number,
        BackendPort::Name(name) => port.name == *name,
        BackendPort::Target(TargetPort::Name(name)) => port.name == *name || leads_to(name),
        BackendPort::Target(TargetPort::Number(number)) => port.target == TargetPort::Number(*number),
    }
}
