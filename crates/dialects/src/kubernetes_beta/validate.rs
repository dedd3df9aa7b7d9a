//! What the text of the proposal demands: exactly one selector a peer, TCP or UDP ports, selectors that can be read.

use super::types::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort};
use crate::apimachinery::field::{self, Path};
use crate::codes;
use crate::decode::Reader;
use crate::kubernetes::{Checks, metadata};

pub(super) fn validate(policy: &NetworkPolicy, reader: &mut Reader<'_>) {
    metadata(policy.metadata.as_ref(), true, &codes::METADATA, reader);
    let Some(spec) = &policy.spec else { return };
    let path = Path::new("spec");
    let mut checks = Checks { reader, allow_invalid_values: false, stored_cidrs: Vec::new() };
    if let Some(selector) = &spec.pod_selector {
        checks.selector(&path.child("podSelector"), selector, &codes::BETA_FIELD);
    }
    for (index, rule) in spec.ingress.iter().flatten().enumerate() {
        let path = path.child("ingress");
        let path = path.index(index);
        for (field, empty) in [("ports", is_empty(&rule.ports)), ("from", is_empty(&rule.from))] {
            if empty {
                let message = format!("{field} is empty, so this rule matches nothing");
                checks.reader.report(&codes::BETA_EMPTY, &path.child(field), message).help =
                    Some(format!("leave out {field} to mean any"));
            }
        }
        for (index, port) in rule.ports.iter().flatten().enumerate() {
            let path = path.child("ports");
            let path = path.index(index);
            // "The protocol (TCP or UDP) which traffic must match": SCTP came to Kubernetes years later.
            if port.protocol.as_deref() == Some("SCTP") {
                let body = field::not_supported(field::Value::Named("SCTP"), &["TCP", "UDP"]);
                checks.reader.report(&codes::BETA_FIELD, &path.child("protocol"), body);
            }
            checks.port(&path, &port.as_v1());
        }
        for (index, one) in rule.from.iter().flatten().enumerate() {
            let path = path.child("from");
            peer(&path.index(index), one, &mut checks);
        }
    }
}

fn is_empty<T>(list: &Option<Vec<T>>) -> bool {
    list.as_ref().is_some_and(Vec::is_empty)
}

fn peer(path: &Path<'_>, peer: &NetworkPolicyPeer, checks: &mut Checks<'_, '_>) {
    for (name, selector) in
        [("podSelector", &peer.pod_selector), ("namespaceSelector", &peer.namespace_selector)]
    {
        if let Some(selector) = selector {
            checks.selector(&path.child(name), selector, &codes::BETA_FIELD);
        }
    }
    let body = match (&peer.pod_selector, &peer.namespace_selector) {
        (Some(_), Some(_)) => field::forbidden("may not specify both podSelector and namespaceSelector"),
        (None, None) => field::required("must specify a peer"),
        _ => return,
    };
    checks.reader.report(&codes::BETA_PEER, path, body);
}

impl NetworkPolicyPort {
    /// The same port in the shape of the later API, whose checks and meaning hold for it too.
    pub(super) fn as_v1(&self) -> crate::kubernetes::NetworkPolicyPort {
        crate::kubernetes::NetworkPolicyPort {
            protocol: self.protocol.clone(),
            port: self.port.clone(),
            end_port: None,
            unreadable: self.unreadable.clone(),
        }
    }
}
