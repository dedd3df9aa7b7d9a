//! The other end of a rule.

use palisade_model::policy::Direction;

use super::{count, empty, ip_block, is_multicast, is_set, labels, strict_cidr, text};
use crate::antrea::codes;
use crate::antrea::ends::is_fqdn;
use crate::apimachinery::field::{self, Path};
use crate::apimachinery::names;
use crate::definition::findings::Findings;
use crate::definition::schema::{items, written};
use crate::source::tree::{Node, Value};

/// Every field of a peer.
pub const FIELDS: &[&str] = &[
    "ipBlock",
    "podSelector",
    "namespaceSelector",
    "namespaces",
    "externalEntitySelector",
    "group",
    "fqdn",
    "serviceAccount",
    "nodeSelector",
    "scope",
];

/// Those that stand alone in a peer, for Antrea.
const ALONE: &[&str] = &["group", "serviceAccount", "nodeSelector"];

/// Those of which Antrea takes one and forgets what stands beside it.
const ALONE_FOR_US: &[&str] = &["ipBlock", "fqdn"];

/// The key of the peers of a direction.
fn key(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    }
}

/// Checks the peers of a rule.
pub fn peers(rule: &Node<'_>, path: &Path<'_>, direction: Direction, findings: &mut Findings<'_, '_>) {
    let multicast = direction == Direction::Egress && has_multicast(rule);
    let path = path.child(key(direction));
    for (index, peer) in items(rule, key(direction)).iter().enumerate() {
        let path = path.index(index);
        if !matches!(peer.value, Value::Map(_)) {
            continue;
        }
        namespaces(peer, &path, findings);
        if let Some(block) = written(peer, "ipBlock") {
            ip_block(block, &path.child("ipBlock"), findings);
        }
        let set = count(peer, FIELDS);
        for name in ALONE.iter().filter(|name| set > 1 && is_set(peer, name)) {
            let message = format!("{name} cannot be set with other peers in rules");
            findings.say(&codes::PEER, &path.child(name), message);
        }
        combinations(peer, &path, multicast, findings);
        if let Some(name) = text(peer, "fqdn").filter(|name| !name.is_empty() && !is_fqdn(name)) {
            let message = format!("invalid characters in egress rule fqdn field: {name}");
            findings.say(&codes::FQDN, &path.child("fqdn"), message);
        }
        labels(peer, &path, findings);
    }
}

fn namespaces(peer: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    if is_set(peer, "namespaceSelector") && is_set(peer, "namespaces") {
        let message =
            "namespaces and namespaceSelector cannot be set at the same time for a single NetworkPolicyPeer";
        findings.say(&codes::PEER, path, message);
    }
    let Some(namespaces) = written(peer, "namespaces") else { return };
    let path = path.child("namespaces");
    if count(namespaces, &["match", "sameLabels"]) > 1 {
        let message = "only one matching criteria can be specified in a single peer namespaces field";
        findings.say(&codes::PEER, &path, message);
    }
    let path = path.child("sameLabels");
    let labels = items(namespaces, "sameLabels");
    if labels.is_empty() && is_set(namespaces, "sameLabels") {
        findings.say(&codes::PEER, &path, "sameLabels needs at least one label key");
    }
    for (index, label) in labels.iter().enumerate() {
        if let Some(label) = label.as_str().filter(|label| !names::qualified_name(label).is_empty()) {
            let message = format!("Invalid label key in sameLabels rule: {label}");
            findings.say(&codes::LABEL, &path.index(index), message);
        }
    }
}

/// What Antrea lets pass and does not mean what is written.
fn combinations(peer: &Node<'_>, path: &Path<'_>, multicast: bool, findings: &mut Findings<'_, '_>) {
    let others = count(peer, FIELDS) - count(peer, &["scope"]);
    // Where Antrea refuses the same peer, its own words are enough.
    let refused = count(peer, ALONE) > 0 || multicast;
    for name in ALONE_FOR_US.iter().filter(|name| others > 1 && !refused && is_set(peer, name)) {
        let message = format!("{name} cannot be set with other peers in rules");
        findings.say(&codes::PEER, &path.child(name), message).help =
            Some("Antrea would forget the rest of the peer: write two peers to mean either".to_owned());
    }
    if is_set(peer, "podSelector") && is_set(peer, "externalEntitySelector") {
        let message = "podSelector and externalEntitySelector cannot be set at the same time in a peer";
        findings.say(&codes::PEER, path, message);
    }
    if others == 0 {
        empty(path, findings);
    }
}

/// Checks that `toServices` is alone.
pub fn to_services(rule: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let beside = !items(rule, "to").is_empty() || count(rule, &["ports", "protocols"]) > 0;
    if is_set(rule, "toServices") && beside {
        let message = "`toServices` cannot be used with `to`, `ports` or `protocols`";
        findings.say(&codes::TO_SERVICES, &path.child("toServices"), message);
    }
}

/// Checks the multicast addresses that a rule is about.
pub fn multicast(rule: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    if !has_multicast(rule) {
        return;
    }
    if matches!(text(rule, "action"), Some("Pass" | "Reject")) {
        let message = "multicast does not support action Pass or Reject";
        findings.say(&codes::MULTICAST, &path.child("action"), message);
    }
    let path = path.child("to");
    if blocks(rule).any(|multicast| !multicast) {
        let message = "can not set multicast groupAddress and unicast ip address at the same time";
        findings.say(&codes::MULTICAST, &path, message);
    }
    for (index, peer) in items(rule, "to").iter().enumerate() {
        let others = count(peer, FIELDS) - count(peer, &["scope", "ipBlock"]);
        if is_set(peer, "ipBlock") && others > 0 {
            let message = "can not set multicast groupAddress and selectors at the same time";
            findings.say(&codes::MULTICAST, &path.index(index), message);
        }
    }
}

fn has_multicast(rule: &Node<'_>) -> bool {
    blocks(rule).any(|multicast| multicast)
}

/// For each address block that a rule goes to, whether it is multicast.
fn blocks(rule: &Node<'_>) -> impl Iterator<Item = bool> {
    items(rule, "to").iter().filter_map(|peer| is_multicast(text(written(peer, "ipBlock")?, "cidr")?))
}

/// Antrea's pattern for names.
/// Checks the peers of a rule of 2020.
pub fn peers_2020(rule: &Node<'_>, path: &Path<'_>, direction: Direction, findings: &mut Findings<'_, '_>) {
    let path = path.child(key(direction));
    for (index, peer) in items(rule, key(direction)).iter().enumerate() {
        let path = path.index(index);
        if let Some(block) = written(peer, "ipBlock") {
            let path = path.child("ipBlock");
            if !is_set(block, "cidr") {
                findings.say(&codes::IP_BLOCK, &path.child("cidr"), "field 'cidr' is required in an ipBlock");
            }
            strict_cidr(block, &path, findings);
            if is_set(block, "except") {
                let body = field::forbidden("ipBlock has no except in this API");
                findings.say(&codes::NOT_IN_2020, &path.child("except"), body).help =
                    Some("write a rule with the exception before this one".to_owned());
            }
        }
        if matches!(&peer.value, Value::Map(_)) {
            combinations(peer, &path, false, findings);
        }
        labels(peer, &path, findings);
    }
}
