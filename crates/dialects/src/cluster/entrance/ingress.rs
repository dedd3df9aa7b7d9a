//! Ingress: `networking.k8s.io/v1`, and as it was until Kubernetes 1.21, in two groups.

use palisade_model::cluster::TargetPort;
use palisade_model::entrance::{Backend, BackendPort};
use palisade_model::traffic::Protocol;
use smol_str::SmolStr;

use super::super::metadata;
use super::{
    backend, entrance, kind, namespace, no_port, number, number_or_name, part, parts, refuse, service,
    written,
};
use crate::apimachinery::field::Path;
use crate::decode::{Decode, Reader};
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::Node;

/// The kind.
pub const INGRESS: Kind = kind("networking.k8s.io", &["v1", "v1beta1"], "Ingress", read);
/// The kind, in its old group.
pub const INGRESS_EXTENSIONS: Kind = kind("extensions", &["v1beta1"], "Ingress", read);

/// How a version writes a backend.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `service: {name: web, port: {number: 80}}`, by default `defaultBackend`.
    Stable,
    /// `serviceName: web` and `servicePort: 80`, by default `backend`.
    Beta,
}

/// What the backends of one Ingress have in common.
struct Reading<'h> {
    form: Form,
    header: &'h Header,
}

fn read(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    metadata(node, &Path::root(), reader);
    let form = if header.version == "v1" { Form::Stable } else { Form::Beta };
    let reading = Reading { form, header };
    let mut backends = Vec::new();
    if let Some(spec) = part(node, "spec", &Path::root(), reader) {
        let path = Path::new("spec");
        reading.default_backend(spec, &path, reader, &mut backends);
        for (index, rule) in parts(spec, "rules", &path, reader) {
            let path = path.child("rules");
            reading.rule(rule, &path.index(index), reader, &mut backends);
        }
    }
    Some(entrance(header, Protocol::Tcp, backends))
}

// === impl Form ===

impl Form {
    /// What the default backend is called, and what it is called in the other version.
    fn default_backend(self) -> (&'static str, &'static str) {
        match self {
            Form::Stable => ("defaultBackend", "backend"),
            Form::Beta => ("backend", "defaultBackend"),
        }
    }

    /// How to write a backend.
    fn example(self) -> &'static str {
        match self {
            Form::Stable => "write service: {name: …, port: {number: …}}",
            Form::Beta => "write serviceName: … and servicePort: …",
        }
    }
}

// === impl Reading ===

impl Reading<'_> {
    fn default_backend(
        &self,
        spec: &Node<'_>,
        path: &Path<'_>,
        reader: &mut Reader<'_>,
        backends: &mut Vec<Backend>,
    ) {
        let (here, elsewhere) = self.form.default_backend();
        if let Some(default) = part(spec, here, path, reader) {
            backends.extend(self.backend(default, &path.child(here), reader));
        }
        if written(spec, elsewhere).is_some() {
            let (group, version) = (&self.header.group, &self.header.version);
            let message = format!("there is no {elsewhere} in {group}/{version}: it is left out");
            refuse(reader, &path.child(elsewhere), &message, &format!("here it is {here}"));
        }
    }

    /// The backends of a rule's paths. A rule without paths sends everything to the default backend.
    fn rule(&self, rule: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>, backends: &mut Vec<Backend>) {
        let Some(http) = part(rule, "http", path, reader) else { return };
        let path = path.child("http");
        for (index, item) in parts(http, "paths", &path, reader) {
            let path = path.child("paths");
            let path = path.index(index);
            match part(item, "backend", &path, reader) {
                Some(node) => backends.extend(self.backend(node, &path.child("backend"), reader)),
                None if written(item, "backend").is_none() => {
                    refuse(reader, &path, "a path without a backend leads nowhere", self.form.example());
                }
                None => {}
            }
        }
    }

    fn backend(&self, node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Backend> {
        let key = match self.form {
            Form::Stable => "service",
            Form::Beta => "serviceName",
        };
        // A bucket or the like is nothing that policies know.
        if written(node, key).is_none() && written(node, "resource").is_some() {
            return None;
        }
        match (self.form, written(node, key)) {
            (Form::Beta, _) => self.beta(node, path, reader),
            (Form::Stable, Some(_)) => {
                let service = part(node, key, path, reader)?;
                self.stable(service, &path.child(key), reader)
            }
            (Form::Stable, None) => {
                refuse(reader, path, "a backend without a Service is left out", self.form.example());
                None
            }
        }
    }

    fn beta(&self, node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Backend> {
        let help = self.form.example();
        let service = service(namespace(self.header), (node, "serviceName"), path, help, reader)?;
        let port_path = path.child("servicePort");
        let port = match written(node, "servicePort") {
            Some(port) => number_or_name(port, &port_path, reader),
            None => no_port(&port_path, help, reader),
        };
        let port = match port {
            Some(TargetPort::Number(number)) => BackendPort::Number(number),
            Some(TargetPort::Name(name)) => BackendPort::Name(name),
            None => BackendPort::All,
        };
        Some(backend((service, &path.child("serviceName")), (port, &port_path), reader))
    }

    /// What is below `service`.
    fn stable(&self, node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<Backend> {
        let service = service(namespace(self.header), (node, "name"), path, self.form.example(), reader)?;
        let port = match written(node, "port") {
            Some(_) => {
                part(node, "port", path, reader).and_then(|port| self.port(port, &path.child("port"), reader))
            }
            None => no_port(&path.child("port"), self.form.example(), reader),
        };
        let port = port.unwrap_or(BackendPort::All);
        Some(backend((service, &path.child("name")), (port, &path.child("port")), reader))
    }

    /// What is below `port`.
    fn port(&self, node: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<BackendPort> {
        let name = written(node, "name").filter(|name| name.as_str() != Some(""));
        match (written(node, "number"), name) {
            (Some(field), None) => number(field, &path.child("number"), reader).map(BackendPort::Number),
            (None, Some(field)) => SmolStr::decode(field, &path.child("name"), reader).map(BackendPort::Name),
            (Some(_), Some(_)) => {
                let message =
                    "a port has a number or a name, not both: every port of the Service counts as named";
                refuse(reader, path, message, "leave one of them out");
                None
            }
            (None, None) => no_port(path, self.form.example(), reader),
        }
    }
}
