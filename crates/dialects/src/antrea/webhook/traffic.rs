//! What a rule's traffic carries: ports, IGMP, layer 7.

use std::net::IpAddr;

use super::{count, text};
use crate::antrea::codes;
use crate::apimachinery::field::{self, Path};
use crate::apimachinery::names;
use crate::definition::findings::Findings;
use crate::definition::schema::{items, written};
use crate::definition::typed::whole;
use crate::source::tree::{Node, Value};

/// Checks a rule about IGMP.
pub fn igmp(rule: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let protocols = items(rule, "protocols");
    let Some(first) = protocols.iter().position(|protocol| written(protocol, "igmp").is_some()) else {
        return;
    };
    if matches!(text(rule, "action"), Some("Pass" | "Reject")) {
        let message = "protocol IGMP does not support Pass or Reject";
        findings.say(&codes::IGMP, &path.child("action"), message);
    }
    let path_of_list = path.child("protocols");
    for (index, protocol) in protocols.iter().enumerate() {
        let address = written(protocol, "igmp").and_then(|igmp| text(igmp, "groupAddress"));
        let address = address.and_then(|address| address.parse::<IpAddr>().ok());
        if let Some(address) = address.filter(|address| !address.to_canonical().is_multicast()) {
            let path = path_of_list.index(index);
            let path = path.child("igmp");
            let message = format!("groupAddress {address} is not multicast address");
            findings.say(&codes::IGMP, &path.child("groupAddress"), message);
        }
    }
    let lists = ["ports", "toServices", "from", "to"];
    let others = lists.iter().any(|list| !items(rule, list).is_empty());
    if others || protocols.iter().any(|protocol| written(protocol, "icmp").is_some()) {
        let message = "protocol IGMP can not be used with other protocols or other properties like from, to";
        findings.say(&codes::IGMP, &path_of_list.index(first).child("igmp"), message);
    }
}

/// Checks a rule with layer 7 protocols.
pub fn layer7(rule: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let protocols = items(rule, "l7Protocols");
    if protocols.is_empty() {
        return;
    }
    if text(rule, "action").is_some_and(|action| action != "Allow") {
        findings.say(&codes::LAYER7, &path.child("action"), "layer 7 protocols only support Allow");
    }
    if !items(rule, "toServices").is_empty() {
        let message = "layer 7 protocols can not be used with toServices";
        findings.say(&codes::LAYER7, &path.child("l7Protocols"), message);
    }
    let has = |name| protocols.iter().any(|protocol| written(protocol, name).is_some());
    let ports = path.child("ports");
    for (index, port) in items(rule, "ports").iter().enumerate() {
        if text(port, "protocol").is_none_or(|protocol| protocol == "TCP") {
            continue;
        }
        let path = ports.index(index);
        if has("http") {
            let message = "HTTP protocol can only be used when layer 4 protocol is TCP or unset";
            findings.say(&codes::LAYER7, &path.child("protocol"), message);
        } else if has("tls") {
            let message = "TLS runs over TCP: what this port carries will be dropped";
            findings.say(&codes::TLS_TRANSPORT, &path.child("protocol"), message);
        }
    }
    let path = path.child("protocols");
    for (index, protocol) in items(rule, "protocols").iter().enumerate() {
        if has("http") && count(protocol, &["icmp", "igmp"]) > 0 {
            let message = "HTTP protocol can not be used with protocol IGMP or ICMP";
            findings.say(&codes::LAYER7, &path.index(index), message);
        }
    }
}

/// Checks the ports of a rule.
pub fn ports(rule: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let path = path.child("ports");
    for (index, port) in items(rule, "ports").iter().enumerate() {
        let path = path.index(index);
        let number = |key| written(port, key).and_then(|value| whole(&value.value));
        if written(port, "endPort").is_some() {
            let message = match written(port, "port").map(|port| &port.value) {
                None => Some("if `endPort` is specified `port` must be specified"),
                Some(Value::String(_)) => Some("if `port` is a string `endPort` cannot be specified"),
                Some(_) => (number("endPort") < number("port"))
                    .then_some("`endPort` should be greater than or equal to `port`"),
            };
            if let Some(message) = message {
                findings.say(&codes::PORT, &path.child("endPort"), message);
            }
        }
        if written(port, "sourceEndPort").is_some() {
            let message = match number("sourcePort") {
                None => Some("if `sourceEndPort` is specified `sourcePort` must be specified"),
                start => (number("sourceEndPort") < start)
                    .then_some("`sourceEndPort` should be greater than or equal to `sourcePort`"),
            };
            if let Some(message) = message {
                findings.say(&codes::PORT, &path.child("sourceEndPort"), message);
            }
        }
        for key in ["port", "endPort", "sourcePort", "sourceEndPort"] {
            let wrong = number(key).map(|number| (number, names::port_number(number)));
            for (number, message) in
                wrong.iter().flat_map(|(number, all)| all.iter().map(|one| (*number, one)))
            {
                findings.say(&codes::PORT, &path.child(key), field::invalid(number, message));
            }
        }
        if let Some(name) = text(port, "port") {
            for message in names::port_name(name) {
                findings.say(&codes::PORT, &path.child("port"), field::invalid(name, &message));
            }
        }
    }
}
