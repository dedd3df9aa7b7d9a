//! An instance as Kubernetes NetworkPolicy objects: one for each policy in each of its groups, base policies in every
//! group. Evaluating them gives the same verdicts as the instance does.

use std::collections::BTreeSet;

use palisade_model::address::Block;
use palisade_model::cluster::NAMESPACE_NAME_LABEL;
use palisade_model::policy::Direction;
use smol_str::{SmolStr, format_smolstr};

use super::instance::Instance;
use super::lower::having;
use super::names::{object_name, object_name_of};
use super::policy::{Home, Meaning, Peer, Policy, Ports, Reading, STAGE_LABEL, Sort, TOOL_LABEL, Who};
use super::program;
use crate::decode::{IntOrString, MetaMap};
use crate::kubernetes::{
    IpBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicyRule, NetworkPolicySpec,
};
use crate::meta::{LabelSelector, LabelSelectorRequirement, ObjectMeta};

/// The annotation that says which policy an object comes from.
pub const ORIGIN: &str = "palisade/thorium-policy";

/// As many bytes of a policy's name are kept in it.
const LONGEST: usize = 1024;

/// The objects, by group, base policies first.
pub fn compile(instance: &Instance) -> Vec<NetworkPolicy> {
    let mut objects = Vec::new();
    let base = instance.base();
    for group in &instance.groups {
        let mut names: BTreeSet<SmolStr> = BTreeSet::new();
        let mut own: Vec<&Policy> = instance.policies().iter().filter(|policy| policy.is_in(group)).collect();
        own.sort_by(|a, b| a.name.cmp(&b.name));
        for policy in base.iter().copied().chain(own) {
            if !policy.in_force(instance.reading) {
                continue;
            }
            let name = distinct(object_name(policy), &mut names);
            let selector = selector(instance, policy, group, &name);
            objects.extend(object(policy, group, name, selector, instance.reading));
        }
    }
    // Also where the group is not one that exists.
    for (group, tool, image) in instance.images() {
        if image.kubernetes && image.unreadable.is_some() {
            objects.push(closed(group, tool, object_name_of("image", tool)));
        }
    }
    objects
}

/// The same name with a number where another object has it: only a name made for it can clash.
fn distinct(name: SmolStr, names: &mut BTreeSet<SmolStr>) -> SmolStr {
    let free = |name: &SmolStr| !names.contains(name);
    let numbered = (2..).map(|number| format_smolstr!("{name}-{number}"));
    let name = std::iter::once(name.clone()).chain(numbered).find(free).unwrap_or(name);
    names.insert(name.clone());
    name
}

/// One policy in one group; `None` when it says nothing about either direction.
fn object(
    policy: &Policy,
    group: &str,
    name: SmolStr,
    selector: LabelSelector,
    reading: Reading,
) -> Option<NetworkPolicy> {
    let rules = |direction| policy.rules(direction, reading);
    let side = |direction: Direction| -> Option<Vec<NetworkPolicyRule>> {
        let unreadable = policy.unreadable(reading).is_some();
        let readable =
            rules(direction)?.iter().filter(|rule| !unreadable && rule.unreadable(reading).is_none());
        let all: Vec<NetworkPolicyRule> =
            readable.filter_map(|rule| self::rule(rule.meaning(reading), direction)).collect();
        (!all.is_empty()).then_some(all)
    };
    let types: Vec<SmolStr> = [(Direction::Ingress, "Ingress"), (Direction::Egress, "Egress")]
        .into_iter()
        .filter(|(direction, _)| rules(*direction).is_some())
        .map(|(_, name)| name.into())
        .collect();
    if types.is_empty() {
        return None;
    }
    let spec = NetworkPolicySpec {
        pod_selector: Some(selector),
        ingress: side(Direction::Ingress),
        egress: side(Direction::Egress),
        policy_types: Some(types),
        unreadable: None,
    };
    Some(NetworkPolicy {
        metadata: Some(metadata(group, name, policy.sort, &policy.name)),
        spec: Some(spec),
        unreadable: None,
    })
}

/// An image that nobody can read is isolated.
fn closed(group: &str, tool: &str, name: SmolStr) -> NetworkPolicy {
    let selector = labels(&[(TOOL_LABEL.0.into(), TOOL_LABEL.1.into()), (STAGE_LABEL.into(), tool.into())]);
    let spec = NetworkPolicySpec {
        pod_selector: Some(selector),
        policy_types: Some(vec!["Ingress".into(), "Egress".into()]),
        ..NetworkPolicySpec::default()
    };
    let metadata = metadata(group, name, Sort::Regular, tool);
    NetworkPolicy { metadata: Some(metadata), spec: Some(spec), unreadable: None }
}

/// Not Thorium's own labels: its scaler deletes objects that carry them and that it does not know.
fn metadata(group: &str, name: SmolStr, sort: Sort, origin: &str) -> ObjectMeta {
    // Annotations have room for 256 KiB, all of them together; names are any text.
    let end = origin.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= LONGEST).last();
    let origin = match end.filter(|end| *end < origin.len()) {
        Some(end) => format_smolstr!("{}…", &origin[..end]),
        None => origin.into(),
    };
    let origin = match sort {
        Sort::Base => format_smolstr!("base:{origin}"),
        Sort::Regular => origin,
    };
    ObjectMeta {
        name: Some(name),
        namespace: Some(group.into()),
        labels: Some(MetaMap(vec![("app.kubernetes.io/managed-by".into(), "palisade".into())])),
        annotations: Some(MetaMap(vec![(ORIGIN.into(), origin)])),
        ..ObjectMeta::default()
    }
}

/// The tools that have the policy, by name; where none has it, its own label, which nobody carries until one does.
fn selector(instance: &Instance, policy: &Policy, group: &str, name: &SmolStr) -> LabelSelector {
    let mut selector = labels(&[(TOOL_LABEL.0.into(), TOOL_LABEL.1.into())]);
    if policy.sort == Sort::Base || policy.is_forced(instance.reading) {
        return selector;
    }
    let tools = having(instance, policy, group);
    if tools.is_empty() || program::hides_stages(instance) {
        selector.match_labels.get_or_insert_default().push((name.clone(), "true".into()));
    } else {
        selector.match_expressions = Some(vec![one_of(STAGE_LABEL, tools)]);
    }
    selector
}

/// One rule; `None` when it allows nobody, because an empty list of peers would be everybody.
fn rule(meaning: &Meaning, direction: Direction) -> Option<NetworkPolicyRule> {
    let peers: Option<Vec<NetworkPolicyPeer>> = match &meaning.who {
        Who::Everybody => None,
        Who::Of(peers) if peers.is_empty() => return None,
        Who::Of(peers) => Some(peers.iter().map(peer).collect()),
    };
    let (from, to) = match direction {
        Direction::Ingress => (peers, None),
        Direction::Egress => (None, peers),
    };
    let ports = (!meaning.ports.is_empty()).then(|| meaning.ports.iter().map(port).collect());
    Some(NetworkPolicyRule { ports, from, to, unreadable: None })
}

fn peer(peer: &Peer) -> NetworkPolicyPeer {
    match peer {
        Peer::Group(spot) => NetworkPolicyPeer {
            namespace_selector: Some(labels(&[(NAMESPACE_NAME_LABEL.into(), spot.name.clone())])),
            ..NetworkPolicyPeer::default()
        },
        Peer::Tool(tool) => NetworkPolicyPeer {
            pod_selector: Some(labels(&[(STAGE_LABEL.into(), tool.clone())])),
            ..NetworkPolicyPeer::default()
        },
        Peer::Addresses(block) => {
            NetworkPolicyPeer { ip_block: Some(ip_block(block)), ..NetworkPolicyPeer::default() }
        }
        Peer::Labels { namespaces, pods } => NetworkPolicyPeer {
            pod_selector: (!pods.is_empty()).then(|| labels(pods)),
            namespace_selector: match namespaces {
                Home::Any => Some(LabelSelector::default()),
                Home::Own => None,
                Home::Labels(pairs) => Some(labels(pairs)),
            },
            ..NetworkPolicyPeer::default()
        },
    }
}

fn ip_block(block: &Block) -> IpBlock {
    let text = |net: &ipnet::IpNet| SmolStr::from(net.to_string());
    let except: Vec<SmolStr> = block.except().iter().map(text).collect();
    IpBlock {
        cidr: Some(text(&block.cidr())),
        except: (!except.is_empty()).then_some(except),
        unreadable: None,
    }
}

fn port(ports: &Ports) -> NetworkPolicyPort {
    let end = (ports.range.last != ports.range.first).then_some(i64::from(ports.range.last));
    NetworkPolicyPort {
        protocol: Some(ports.protocol.as_kubernetes().into()),
        port: Some(IntOrString::Int(i64::from(ports.range.first))),
        end_port: end,
        unreadable: None,
    }
}

/// All of these labels. One key with two values holds for nobody, which `matchLabels` cannot say.
fn labels(pairs: &[(SmolStr, SmolStr)]) -> LabelSelector {
    let twice = |key: &SmolStr, value: &SmolStr| pairs.iter().any(|(k, v)| k == key && v != value);
    let mut selector = LabelSelector::default();
    for (key, value) in pairs {
        if twice(key, value) {
            selector.match_expressions.get_or_insert_default().push(one_of(key, vec![value.clone()]));
        } else {
            let all = selector.match_labels.get_or_insert_default();
            if !all.iter().any(|(known, _)| known == key) {
                all.push((key.clone(), value.clone()));
            }
        }
    }
    selector
}

fn one_of(key: &str, values: Vec<SmolStr>) -> LabelSelectorRequirement {
    LabelSelectorRequirement {
        key: Some(key.into()),
        operator: Some("In".into()),
        values: Some(values),
        unreadable: None,
    }
}
