//! What the definitions do not check, and an implementation cannot do without.
//!
//! They do not look inside selectors, know no list of protocols in v1alpha1 and do not compare the ends of a v1alpha1
//! range. An object that passes there may still mean nothing; it is refused here, with the texts that Kubernetes has for
//! the same mistakes elsewhere. Besides there are the warnings.

use palisade_model::traffic::Protocol;

use crate::apimachinery::field::{self, Path};
use crate::codes;
use crate::definition::findings::Findings;
use crate::definition::schema::{items, written};
use crate::definition::typed::whole;
use crate::source::tree::{Node, Value};

/// Checks a protocol's name.
pub fn protocol(node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    if let Some(name) = node.as_str().filter(|name| Protocol::from_kubernetes(name).is_none()) {
        findings.unsupported(path, name, &["TCP", "UDP", "SCTP"]);
    }
}

/// Checks that a range does not end before it begins. (A range of one port is fine: v1alpha1 does not forbid it.)
pub fn port_range(node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let port = |key| node.get(key).and_then(|port| whole(&port.value));
    if let (Some(start), Some(end)) = (port("start"), port("end"))
        && start > end
    {
        let body = field::invalid(field::Value::Omitted, "Start port must be less than End port");
        findings.say(&codes::ADMIN_RULE, path, body);
    }
}

/// Warns of DNS names in an egress rule that does not allow.
pub fn domain_names(node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let Some(action) = node.get("action").and_then(Node::as_str) else { return };
    if matches!(action, "Allow" | "Accept") {
        return;
    }
    let path = path.child("to");
    for (index, peer) in items(node, "to").iter().enumerate() {
        if written(peer, "domainNames").is_some() {
            let message = format!("what {action} means for domainNames is not defined");
            findings.say(&codes::ADMIN_NAMES, &path.index(index).child("domainNames"), message).help =
                Some("allow the names that are needed, and deny the rest in a later rule".to_owned());
        }
    }
}

/// Warns of a protocol without ports, which the definition refuses and the API's text explains.
pub fn protocol_ports(node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    if let Value::Map(entries) = &node.value
        && entries.iter().all(|entry| entry.value.is_null())
    {
        findings.say(&codes::ADMIN_EMPTY_PROTOCOL, path, "no destinationPort: read as all ports").help =
            Some("for all ports write destinationPort: {range: {start: 1, end: 65535}}".to_owned());
    }
}
