//! A NetworkPolicy as written.

use smol_str::SmolStr;

use crate::decode::{IntOrString, fields};
use crate::meta::{LabelSelector, ObjectMeta};

fields! {
    /// The object.
    pub struct NetworkPolicy {
        "metadata" => metadata: ObjectMeta,
        "spec" => spec: NetworkPolicySpec,
        skip "apiVersion" "kind" "status"
    }

    /// Whom it selects and what they may do.
    pub struct NetworkPolicySpec {
        "podSelector" => pod_selector: LabelSelector,
        "ingress" => ingress: Vec<NetworkPolicyRule>,
        "egress" => egress: Vec<NetworkPolicyRule>,
        "policyTypes" => policy_types: Vec<SmolStr>,
    }

    /// An ingress rule has `from`, an egress rule `to`: [`NetworkPolicyRule::peers`] knows which one counts.
    pub struct NetworkPolicyRule {
        "ports" => ports: Vec<NetworkPolicyPort>,
        "from" => from: Vec<NetworkPolicyPeer>,
        "to" => to: Vec<NetworkPolicyPeer>,
    }

    /// A port, a range of ports, or all ports of a protocol.
    pub struct NetworkPolicyPort {
        "protocol" => protocol: SmolStr,
        "port" => port: IntOrString,
        "endPort" => end_port: i64,
    }

    /// The other end.
    pub struct NetworkPolicyPeer {
        "podSelector" => pod_selector: LabelSelector,
        "namespaceSelector" => namespace_selector: LabelSelector,
        "ipBlock" => ip_block: IpBlock,
    }

    /// Addresses.
    pub struct IpBlock {
        "cidr" => cidr: SmolStr,
        "except" => except: Vec<SmolStr>,
    }
}

impl NetworkPolicyRule {
    /// The peers of a rule in this direction's list, and the field of the other direction if it is there by mistake.
    pub fn peers(&self, ingress: bool) -> (&Option<Vec<NetworkPolicyPeer>>, Option<&'static str>) {
        match ingress {
            true => (&self.from, self.to.is_some().then_some("to")),
            false => (&self.to, self.from.is_some().then_some("from")),
        }
    }
}

impl NetworkPolicySpec {
    /// Whether it is about ingress and about egress: `policyTypes` with the API server's default, which is Ingress, and
    /// Egress if there is an egress rule. What cannot be read may have named either, so it is about both.
    pub fn types(&self) -> (bool, bool) {
        match self.policy_types.as_deref() {
            None | Some([]) if self.unreadable.is_some() => (true, true),
            None | Some([]) => (true, self.egress.as_ref().is_some_and(|rules| !rules.is_empty())),
            Some(types) if types.iter().any(|t| t != "Ingress" && t != "Egress") => (true, true),
            Some(types) => (types.iter().any(|t| t == "Ingress"), types.iter().any(|t| t == "Egress")),
        }
    }
}
