//! Lint for Ingresses and routes with dangling backends.

use std::collections::BTreeMap;

use palisade_model::cluster::{Service, ServicePort, TargetPort};
use palisade_model::diagnostic::{Code, Diagnostic, Severity, Subject};
use palisade_model::entrance::{Backend, BackendPort, Entrance, Place};
use palisade_model::nearest::nearest;
use palisade_model::policy::ServiceName;
use palisade_model::snapshot::{Dangling, Snapshot};
use palisade_model::traffic::Protocol;

/// The Service does not exist.
pub static MISSING_BACKEND: Code = Code {
    id: "L0115",
    severity: Severity::Warning,
    title: "an Ingress or a route names a Service that does not exist",
    explanation: "An Ingress, a Route or a route of the Gateway API leads to Services by name, those of its own namespace unless a backend of the Gateway API says another. There is none of this name, so whoever calls gets an error. Not reported when no Service of that namespace is among the input.",
};

/// The Service does not have the port.
pub static MISSING_PORT: Code = Code {
    id: "L0116",
    severity: Severity::Warning,
    title: "an Ingress or a route names a port that the Service does not have",
    explanation: "An Ingress and a route of the Gateway API name a port of the Service: its number (`port`, not `targetPort`) or, in an Ingress, its name. A Route names the port behind it: `targetPort`, as a number, or the name that the Service gives the port. All but UDPRoute are about TCP.",
};

/// No ready pod is behind the Service's port.
pub static NOBODY_BEHIND: Code = Code {
    id: "L0117",
    severity: Severity::Warning,
    title: "an Ingress or a route leads to a Service with nobody behind",
    explanation: "The Service and its port exist, and no pod is behind them: none that is ready has the labels of its selector, or none of those declares the container port that `targetPort` names. Not reported when no pod of the namespace is among the input, or when the Service has no selector and no endpoints.",
};

/// Maximum number of suggestions; each compares with all Services of a namespace, or all ports of one.
const MAX_GUESSES: usize = 50;
/// Maximum number of a Service's ports listed in a message.
const MAX_PORTS: usize = 8;

/// What determines the pods behind a backend.
type BackendKey<'s> = (&'s ServiceName, &'s BackendPort, Protocol);

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    // Many entrances name the same few Services, and each lookup scans the pods of a namespace.
    let mut known: BTreeMap<BackendKey<'_>, Option<Dangling>> = BTreeMap::new();
    let mut guesses = 0;
    for entrance in snapshot.entrances() {
        for backend in &entrance.backends {
            let key = (&backend.service, &backend.port, entrance.protocol);
            let dangling = *known.entry(key).or_insert_with(|| snapshot.openings(key.0, key.1, key.2).err());
            found.extend(match dangling {
                None => None,
                Some(Dangling::NoService) => no_service(snapshot, entrance, backend, &mut guesses),
                Some(Dangling::NoPort) => no_port(snapshot, entrance, backend, &mut guesses),
                Some(Dangling::Nobody) => nobody(snapshot, entrance, backend),
            });
        }
    }
}

fn no_service(
    snapshot: &Snapshot,
    entrance: &Entrance,
    backend: &Backend,
    guesses: &mut usize,
) -> Option<Diagnostic> {
    let ServiceName { namespace, name } = &backend.service;
    // Services are sorted by namespace.
    let services = snapshot.services();
    let first = services.partition_point(|service| service.namespace < *namespace);
    let here = services[first..].iter().take_while(|service| service.namespace == *namespace);
    here.clone().next()?;
    let message = format!("{entrance} names service {}, which does not exist", backend.service);
    let mut finding = about(&MISSING_BACKEND, entrance, &backend.service_place, message);
    *guesses += 1;
    if *guesses <= MAX_GUESSES {
        let near = nearest(name, here.map(|service| service.name.as_str()));
        finding.help = near.first().map(|near| format!("did you mean {near}?"));
    }
    Some(finding)
}

fn no_port(
    snapshot: &Snapshot,
    entrance: &Entrance,
    backend: &Backend,
    guesses: &mut usize,
) -> Option<Diagnostic> {
    let service = &snapshot.services()[snapshot.service(&backend.service)?];
    let protocol = entrance.protocol;
    let mut ports: Vec<String> = service.ports.iter().take(MAX_PORTS).map(describe).collect();
    match service.ports.len() {
        0 => ports.push("none".to_owned()),
        count if count > MAX_PORTS => ports.push("…".to_owned()),
        _ => {}
    }
    let ports = ports.join(", ");
    let wanted = match &backend.port {
        BackendPort::All => format!("{protocol} ports"),
        port => port.to_string(),
    };
    let message = format!("{entrance} names {wanted} of service {}, which has {ports}", backend.service);
    let mut finding = about(&MISSING_PORT, entrance, &backend.port_place, message);
    *guesses += 1;
    if *guesses <= MAX_GUESSES {
        finding.help = suggestion(service, &backend.port, protocol);
    }
    Some(finding)
}

fn nobody(snapshot: &Snapshot, entrance: &Entrance, backend: &Backend) -> Option<Diagnostic> {
    // Without any pod of the namespace the input does not include its pods.
    if snapshot.pods_in(&backend.service.namespace).is_empty() {
        return None;
    }
    let Backend { service, port, .. } = backend;
    let message = format!("{entrance} leads to {port} of service {service}, and no ready pod is behind it");
    Some(about(&NOBODY_BEHIND, entrance, &backend.service_place, message))
}

fn about(code: &'static Code, entrance: &Entrance, place: &Place, message: String) -> Diagnostic {
    let Entrance { kind, namespace, name, .. } = entrance;
    let subject = Subject { kind: kind.clone(), namespace: Some(namespace.clone()), name: name.clone() };
    let at = place.at.clone().or_else(|| entrance.at.clone());
    Diagnostic::new(code, message).about(subject).field(place.field.clone()).at(at)
}

/// Describes a port of a Service: `http tcp/80 to 8080`.
fn describe(port: &ServicePort) -> String {
    let name = if port.name.is_empty() { String::new() } else { format!("{} ", port.name) };
    let target = match &port.target {
        TargetPort::Number(number) if *number == port.port => String::new(),
        TargetPort::Number(number) => format!(" to {number}"),
        TargetPort::Name(name) => format!(" to {name}"),
    };
    format!("{name}{}/{}{target}", port.protocol, port.port)
}

/// Suggests a port: `port` and `targetPort` are easily confused, and names misspelled.
fn suggestion(service: &Service, wanted: &BackendPort, protocol: Protocol) -> Option<String> {
    let mut ports = service.ports.iter().filter(|port| port.protocol == protocol);
    match wanted {
        BackendPort::Number(number) => {
            let behind = ports.find(|port| port.target == TargetPort::Number(*number))?;
            Some(format!("{number} is the port on the pods: write the Service's own, {}", behind.port))
        }
        BackendPort::Target(TargetPort::Number(number)) => {
            let before = ports.find(|port| port.port == *number)?;
            let target = match &before.target {
                TargetPort::Number(target) => target.to_string(),
                TargetPort::Name(target) => target.to_string(),
            };
            Some(format!("{number} is the Service's own port: write the one on the pods, {target}"))
        }
        BackendPort::Name(name) | BackendPort::Target(TargetPort::Name(name)) => {
            let near = nearest(name, ports.map(|port| port.name.as_str()).filter(|name| !name.is_empty()));
            near.first().map(|near| format!("did you mean {near}?"))
        }
        BackendPort::All => None,
    }
}
