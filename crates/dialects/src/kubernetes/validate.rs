//! The API server's validation of a NetworkPolicy, for creation and for update, with its texts.
//!
//! Order and texts follow the API server, so that what is reported here reads like what `kubectl apply` would say. One
//! thing more than there: a rule with the other direction's peers (`to` under `ingress`) is an unknown field.

use palisade_model::diagnostic::Code;

use super::types::{
    IpBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicyRule, NetworkPolicySpec,
};
use crate::apimachinery::field::{self, Path, Value};
use crate::apimachinery::names;
use crate::apimachinery::{cidr, meta, selector};
use crate::codes;
use crate::decode::{IntOrString, Reader};
use crate::meta::{LabelSelector, ObjectMeta, pairs};

/// The checks of one object: where findings go, and what an update may keep.
pub(crate) struct Checks<'r, 'a> {
    pub reader: &'r mut Reader<'a>,
    /// An update of an object whose selector was not valid may keep label values that are not.
    pub allow_invalid_values: bool,
    /// CIDRs of the old object may stay as they are.
    pub stored_cidrs: Vec<String>,
}

pub(super) fn create(policy: &NetworkPolicy, reader: &mut Reader<'_>) {
    let mut checks = Checks { reader, allow_invalid_values: false, stored_cidrs: Vec::new() };
    metadata(policy.metadata.as_ref(), true, &codes::METADATA, checks.reader);
    if let Some(spec) = &policy.spec {
        checks.spec(spec);
    }
}

pub(super) fn update(new: &NetworkPolicy, old: &NetworkPolicy, reader: &mut Reader<'_>) {
    metadata_update(new.metadata.as_ref(), old.metadata.as_ref(), reader);
    let old_spec = old.spec.clone().unwrap_or_default();
    let mut invalid = false;
    if let Some(old) = &old_spec.pod_selector {
        walk_selector(&Path::root(), old, false, &mut |_, _| invalid = true);
    }
    let mut stored_cidrs = Vec::new();
    for rule in old_spec.ingress.iter().flatten().chain(old_spec.egress.iter().flatten()) {
        for peer in rule.from.iter().flatten().chain(rule.to.iter().flatten()) {
            if let Some(block) = &peer.ip_block {
                stored_cidrs
                    .extend(block.cidr.iter().chain(block.except.iter().flatten()).map(ToString::to_string));
            }
        }
    }
    if let Some(spec) = &new.spec {
        Checks { reader, allow_invalid_values: invalid, stored_cidrs }.spec(spec);
    }
}

/// Checks `metadata` as the API server does when an object is created.
pub(crate) fn metadata(
    meta: Option<&ObjectMeta>,
    namespaced: bool,
    code: &'static Code,
    reader: &mut Reader<'_>,
) {
    let empty = ObjectMeta::default();
    let written = meta.unwrap_or(&empty);
    let path = Path::new("metadata");
    let sink = &mut reader.sink(code);
    written.check_name(&path, sink);
    // A namespace that is not given is the request's: kubectl's `default`.
    if !namespaced || written.namespace.is_some() {
        meta::namespace(&path, written.namespace.as_deref().unwrap_or(""), namespaced, sink);
    }
    written.check_maps(&path, sink);
}

/// Checks `metadata` as the API server does when an object is updated.
pub(crate) fn metadata_update(new: Option<&ObjectMeta>, old: Option<&ObjectMeta>, reader: &mut Reader<'_>) {
    let empty = ObjectMeta::default();
    let (new, old) = (new.unwrap_or(&empty), old.unwrap_or(&empty));
    let path = Path::new("metadata");
    for (field, new, old) in [("name", &new.name, &old.name), ("namespace", &new.namespace, &old.namespace)] {
        let (new, old) = (new.as_deref().unwrap_or(""), old.as_deref().unwrap_or(""));
        meta::immutable(&path.child(field), new, old, &mut reader.sink(&codes::IMMUTABLE));
    }
    new.check_maps(&path, &mut reader.sink(&codes::METADATA));
}

fn walk_selector(
    path: &Path<'_>,
    written: &LabelSelector,
    allow_invalid_values: bool,
    sink: &mut field::Sink<'_>,
) {
    let requirements = written.match_expressions.iter().flatten().map(|requirement| selector::Requirement {
        key: requirement.key.as_deref().unwrap_or(""),
        operator: requirement.operator.as_deref().unwrap_or(""),
        values: requirement.values.as_deref().unwrap_or(&[]),
    });
    let options = selector::Options { allow_invalid_values };
    selector::label_selector(path, pairs(written.match_labels.iter().flatten()), requirements, options, sink);
}

impl Checks<'_, '_> {
    fn spec(&mut self, spec: &NetworkPolicySpec) {
        let path = Path::new("spec");
        if let Some(selector) = &spec.pod_selector {
            self.selector(&path.child("podSelector"), selector, &codes::SELECTOR);
        }
        for (name, rules) in [("ingress", &spec.ingress), ("egress", &spec.egress)] {
            let path = path.child(name);
            for (index, rule) in rules.iter().flatten().enumerate() {
                self.rule(&path.index(index), rule, name == "ingress");
            }
        }
        self.policy_types(&path.child("policyTypes"), spec);
        self.directions(&path, spec);
    }

    /// What the API server accepts and hardly anybody means.
    fn directions(&mut self, path: &Path<'_>, spec: &NetworkPolicySpec) {
        let written = spec.policy_types.as_deref().is_some_and(|types| !types.is_empty());
        if !written && spec.egress.as_ref().is_some_and(Vec::is_empty) {
            let message = "egress: [] without policyTypes does not restrict egress";
            self.reader.report(&codes::EMPTY_EGRESS, &path.child("egress"), message).help = Some(
                "to deny all egress, add policyTypes: [Ingress, Egress]; otherwise remove it".to_owned(),
            );
        }
        let (ingress, egress) = spec.types();
        for (field, counts, rules) in [("ingress", ingress, &spec.ingress), ("egress", egress, &spec.egress)]
        {
            if written && !counts && rules.as_ref().is_some_and(|rules| !rules.is_empty()) {
                let message =
                    format!("policyTypes leaves out this direction: these {field} rules are ignored");
                self.reader.report(&codes::IGNORED_RULES, &path.child(field), message);
            }
        }
    }

    fn rule(&mut self, path: &Path<'_>, rule: &NetworkPolicyRule, ingress: bool) {
        for (index, port) in rule.ports.iter().flatten().enumerate() {
            self.port(&path.child("ports").index(index), port);
        }
        let (peers, misplaced) = rule.peers(ingress);
        let field = if ingress { "from" } else { "to" };
        for (index, peer) in peers.iter().flatten().enumerate() {
            self.peer(&path.child(field).index(index), peer);
        }
        if let Some(misplaced) = misplaced {
            let path = path.child(misplaced);
            let message = format!("unknown field \"{path}\"");
            self.reader.report(&codes::UNKNOWN_FIELD, &path, message).help =
                Some(format!("did you mean {field}?"));
        }
    }

    /// Checks one entry of `ports`.
    pub fn port(&mut self, path: &Path<'_>, port: &NetworkPolicyPort) {
        let (port_path, end_path) = (path.child("port"), path.child("endPort"));
        if let Some(protocol) = &port.protocol
            && !["TCP", "UDP", "SCTP"].contains(&protocol.as_str())
        {
            let body = field::not_supported(Value::Named(protocol), &["TCP", "UDP", "SCTP"]);
            self.reader.report(&codes::PORT, &path.child("protocol"), body);
        }
        let end = port.end_port;
        match (&port.port, end) {
            (Some(IntOrString::Int(number)), end) => {
                for message in names::port_number(*number) {
                    self.reader.report(&codes::PORT, &port_path, field::invalid(*number, &message));
                }
                if let Some(end) = end {
                    if end < *number {
                        let body = field::invalid(end, "must be greater than or equal to `port`");
                        self.reader.report(&codes::END_PORT, &end_path, body).label =
                            Some(format!("port is {number}"));
                    }
                    for message in names::port_number(end) {
                        self.reader.report(&codes::END_PORT, &end_path, field::invalid(end, &message));
                    }
                }
            }
            (Some(IntOrString::String(name)), end) => {
                if let Some(end) = end {
                    let body = field::invalid(end, "may not be specified when `port` is non-numeric");
                    self.reader.report(&codes::END_PORT, &end_path, body);
                }
                for message in names::port_name(name) {
                    let diagnostic =
                        self.reader.report(&codes::PORT, &port_path, field::invalid(name.as_str(), &message));
                    if name.parse::<u16>().is_ok() {
                        diagnostic.help =
                            Some(format!("in quotes it is a name; write the number {name} without them"));
                    }
                }
            }
            (None, Some(end)) => {
                let body = field::invalid(end, "may not be specified when `port` is not specified");
                self.reader.report(&codes::END_PORT, &end_path, body);
            }
            (None, None) => {}
        }
    }

    fn peer(&mut self, path: &Path<'_>, peer: &NetworkPolicyPeer) {
        let selectors =
            [("podSelector", &peer.pod_selector), ("namespaceSelector", &peer.namespace_selector)];
        for (name, selector) in selectors {
            if let Some(selector) = selector {
                self.selector(&path.child(name), selector, &codes::SELECTOR);
            }
        }
        if let Some(block) = &peer.ip_block {
            self.ip_block(&path.child("ipBlock"), block);
        }
        let selected = peer.pod_selector.is_some() || peer.namespace_selector.is_some();
        match (selected, peer.ip_block.is_some()) {
            (false, false) => {
                // Where something is written that cannot be read, other ways to write nothing would only lead astray.
                let help = "to mean everybody, leave out the list of peers; to mean every pod, write namespaceSelector: {}";
                self.reader.report(&codes::PEER, path, field::required("must specify a peer")).help =
                    peer.unreadable.is_none().then(|| help.to_owned());
            }
            (true, true) => {
                let body = field::forbidden("may not specify both ipBlock and another peer");
                self.reader.report(&codes::PEER, path, body).help =
                    Some("write them as two peers".to_owned());
            }
            _ => {}
        }
    }

    fn ip_block(&mut self, path: &Path<'_>, block: &IpBlock) {
        let cidr_path = path.child("cidr");
        let cidr = block.cidr.as_deref().unwrap_or("");
        if cidr.is_empty() {
            self.reader.report(&codes::CIDR, &cidr_path, field::required(""));
            return;
        }
        self.cidr(&cidr_path, cidr);
        if cidr::network(cidr).is_none() {
            return;
        }
        for (index, except) in block.except.iter().flatten().enumerate() {
            let path = path.child("except");
            let path = path.index(index);
            self.cidr(&path, except);
            if cidr::is_strict_subset(except, cidr) == Some(false) {
                let body = field::invalid(except.as_str(), "must be a strict subset of `cidr`");
                let diagnostic = self.reader.report(&codes::EXCEPT, &path, body);
                diagnostic.label = Some(format!("not inside {cidr}"));
            }
        }
    }

    fn cidr(&mut self, path: &Path<'_>, value: &str) {
        if self.stored_cidrs.iter().any(|stored| stored == value) {
            return;
        }
        let errors = cidr::validate_cidr(value, true);
        for message in &errors {
            let diagnostic = self.reader.report(&codes::CIDR, path, field::invalid(value, message));
            diagnostic.help = suggestion(value);
        }
        if errors.is_empty() {
            for message in cidr::warnings(value) {
                self.reader.report(&codes::CIDR_FORM, path, message);
            }
        }
    }

    /// Checks a selector.
    pub fn selector(&mut self, path: &Path<'_>, written: &LabelSelector, code: &'static Code) {
        walk_selector(path, written, self.allow_invalid_values, &mut self.reader.sink(code));
    }

    fn policy_types(&mut self, path: &Path<'_>, spec: &NetworkPolicySpec) {
        let types: Vec<&str> = spec.policy_types.iter().flatten().map(|t| t.as_str()).collect();
        if types.len() > 2 {
            let body = field::invalid(Value::Names(&types), "may not specify more than two policyTypes");
            self.reader.report(&codes::POLICY_TYPES, path, body);
            return;
        }
        for (index, name) in types.iter().enumerate() {
            if !["Ingress", "Egress"].contains(name) {
                let body = field::not_supported(Value::Named(name), &["Ingress", "Egress"]);
                self.reader.report(&codes::POLICY_TYPES, &path.index(index), body);
            }
        }
    }
}

/// What a CIDR that is refused was probably meant to be.
fn suggestion(value: &str) -> Option<String> {
    if let Ok(address) = value.parse::<std::net::IpAddr>() {
        let length = if address.is_ipv4() { 32 } else { 128 };
        return Some(format!("for this one address write {address}/{length}"));
    }
    let network = cidr::network(value)?;
    Some(format!("write {network}"))
}
