//! Where connections come into a cluster by name: an Ingress, a Route of OpenShift, a route of the Gateway API.
//!
//! An entrance decides nothing. It says which ports of which Services whoever serves it opens connections to; whether
//! those are let through is the policies' business. So a record holds its backends and nothing of what happens on layer
//! 7 (hosts, paths, certificates, weights). Who serves it is not written in it, and not asked.
//!
//! Backends are names, as in the text: [`crate::snapshot::Snapshot::behind`] looks them up.

use std::fmt;

use smol_str::SmolStr;

use crate::cluster::TargetPort;
use crate::diagnostic::Location;
use crate::policy::ServiceName;
use crate::traffic::Protocol;

/// An object by which connections come in.
#[derive(Debug, Clone, PartialEq)]
pub struct Entrance {
    /// Its kind: `Ingress`, `Route`, `HTTPRoute` and so on.
    pub kind: SmolStr,
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// What it carries to its backends.
    pub protocol: Protocol,
    /// Where it leads, in the order written; one may be named any number of times.
    pub backends: Vec<Backend>,
    /// Where it is written.
    pub at: Option<Location>,
}

/// A Service that an entrance leads to.
#[derive(Debug, Clone, PartialEq)]
pub struct Backend {
    /// The Service.
    pub service: ServiceName,
    /// Which of its ports.
    pub port: BackendPort,
    /// Where the Service is named.
    pub service_place: Place,
    /// Where the port is named; where the Service is, if no port is written.
    pub port_place: Place,
}

/// The ports of a Service that are meant.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BackendPort {
    /// The one with this number.
    Number(u16),
    /// The one with this name.
    Name(SmolStr),
    /// The one that leads to this port on the pods. A name is that of the Service's port or of the container's: the
    /// router of OpenShift knows the first, others the second.
    Target(TargetPort),
    /// Every one of the entrance's protocol.
    All,
}

/// A field and where it stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Its path: `spec.rules[0].http.paths[1].backend.service.name`.
    pub field: String,
    /// Where it stands.
    pub at: Option<Location>,
}

// === impl Entrance ===

impl fmt::Display for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

// === impl BackendPort ===

impl fmt::Display for BackendPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackendPort::Number(number) => write!(f, "port {number}"),
            BackendPort::Name(name) => write!(f, "port {name}"),
            BackendPort::Target(TargetPort::Number(number)) => write!(f, "target port {number}"),
            BackendPort::Target(TargetPort::Name(name)) => write!(f, "target port {name}"),
            BackendPort::All => f.write_str("every port"),
        }
    }
}
