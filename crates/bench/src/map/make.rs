//! Objects of the rule language, made directly: a map begins where reading has ended.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use palisade_model::address::Block;
use palisade_model::cluster::{ContainerPort, Namespace, Node, Owner, Pod};
use palisade_model::label::Labels;
use palisade_model::policy::{
    Action, Dialect, Direction, Isolation, Object, Peers, Placement, PodSet, Policy, Priority, Rule, Subject,
    Tier, TrafficMatch, TrafficMatches,
};
use palisade_model::traffic::{PortRange, Protocol};
use smol_str::{SmolStr, format_smolstr};

/// Pods of an application.
#[derive(Debug, Clone)]
pub struct App {
    /// Its namespace.
    pub namespace: SmolStr,
    /// Its name, which is the name of its ReplicaSet too.
    pub name: SmolStr,
    /// The labels of its pods.
    pub labels: Vec<(&'static str, SmolStr)>,
    /// The port they serve, with its name.
    pub port: (&'static str, u16),
}

/// The other end of a rule, and what it is about.
pub type End = (Peers, TrafficMatches);

/// A namespace.
pub fn namespace(name: SmolStr, labels: &[(&str, &str)]) -> Namespace {
    let labels = Labels::new(labels.iter().map(|(key, value)| ((*key).into(), (*value).into())));
    Namespace { name, labels, at: None }
}

/// A node.
pub fn node(at: usize) -> Node {
    let zone = format_smolstr!("zone-{}", at % 3);
    Node {
        name: node_name(at),
        labels: Labels::new([("topology.kubernetes.io/zone".into(), zone)]),
        addresses: vec![numbered(Ipv4Addr::new(192, 168, 0, 0), at + 10)],
        at: None,
    }
}

/// The name of a node.
pub fn node_name(at: usize) -> SmolStr {
    format_smolstr!("worker-{at:04}")
}

/// The pod of a number; its address has the same number.
pub fn pod(app: &App, at: usize, nodes: usize) -> Pod {
    Pod {
        namespace: app.namespace.clone(),
        name: format_smolstr!("{}-{at}", app.name),
        labels: Labels::new(app.labels.iter().map(|(key, value)| ((*key).into(), value.clone()))),
        addresses: vec![numbered(Ipv4Addr::new(10, 128, 0, 0), at)],
        node: Some(node_name(at % nodes.max(1))),
        ready: true,
        ports: vec![ContainerPort {
            name: Some(app.port.0.into()),
            protocol: Protocol::Tcp,
            number: app.port.1,
        }],
        account: app.name.clone(),
        owner: Some(Owner { kind: "ReplicaSet".into(), name: app.name.clone() }),
        ..Pod::default()
    }
}

/// A pod that is its node, as far as policies can see it.
pub fn host_pod(app: &App, at: usize, nodes: usize) -> Pod {
    let on = at % nodes.max(1);
    Pod { host_network: true, addresses: node(on).addresses, ..pod(app, at, nodes) }
}

/// The address of a number in a block.
pub fn numbered(first: Ipv4Addr, at: usize) -> IpAddr {
    Ipv4Addr::from_bits(first.to_bits().wrapping_add(u32::try_from(at).unwrap_or(0))).into()
}

/// A block without parts of it, as they are written.
pub fn block(cidr: &str, except: &[String]) -> Option<Block> {
    Some(Block::new(cidr.parse().ok()?, except.iter().filter_map(|net| net.parse().ok())))
}

/// Everything.
pub fn anything() -> End {
    (Peers::Any, TrafficMatches::Any)
}

/// Ports of TCP, each a range.
pub fn ports(ranges: impl IntoIterator<Item = (u16, u16)>) -> TrafficMatches {
    let one = |(first, last)| TrafficMatch::Ports(Protocol::Tcp, PortRange { first, last });
    TrafficMatches::Of(ranges.into_iter().map(one).collect())
}

/// A NetworkPolicy: pods of its own namespace, isolated in these directions, and what they may do all the same.
pub fn network_policy(
    namespace: &SmolStr,
    name: SmolStr,
    subjects: PodSet,
    isolated: &[Direction],
    rules: Vec<(Direction, End)>,
) -> Policy {
    let subjects: Arc<[Subject]> = Arc::new([subjects.into()]);
    let isolation =
        |direction: &Direction| Isolation { subjects: Arc::clone(&subjects), direction: *direction };
    let rules = rules.into_iter().map(|(direction, end)| (direction, Action::Allow, end));
    Policy {
        object: object("NetworkPolicy", ("networking.k8s.io", Dialect::NetworkPolicy), Some(namespace), name),
        placement: Placement::Union,
        isolations: isolated.iter().map(isolation).collect(),
        rules: numbered_rules(&subjects, rules),
        unreadable: None,
    }
}

/// A policy in a tier.
pub fn tier_policy(
    (tier, tier_name): (u8, &'static str),
    priority: usize,
    subjects: PodSet,
    rules: Vec<(Direction, Action, End)>,
) -> Policy {
    let subjects: Arc<[Subject]> = Arc::new([subjects.into()]);
    let name = format_smolstr!("{tier_name}-{priority}");
    #[expect(clippy::cast_precision_loss, reason = "they are small")]
    let priority = Priority(priority as f64);
    Policy {
        object: object("ClusterNetworkPolicy", ("crd.antrea.io", Dialect::Antrea), None, name),
        placement: Placement::Tier { tier: Tier::Fixed(tier, tier_name), priority },
        isolations: Vec::new(),
        rules: numbered_rules(&subjects, rules.into_iter()),
        unreadable: None,
    }
}

fn numbered_rules(
    subjects: &Arc<[Subject]>,
    rules: impl Iterator<Item = (Direction, Action, End)>,
) -> Vec<Rule> {
    let mut next = [0; 2];
    let rule = |(direction, action, (peers, traffic)): (Direction, Action, End)| {
        let index = next[direction as usize];
        next[direction as usize] += 1;
        let subjects = Arc::clone(subjects);
        Rule {
            direction,
            index,
            name: None,
            subjects,
            action,
            peers,
            traffic,
            layer7: Vec::new(),
            log: None,
            at: None,
        }
    };
    rules.map(rule).collect()
}

fn object(
    kind: &'static str,
    (group, dialect): (&'static str, Dialect),
    namespace: Option<&SmolStr>,
    name: SmolStr,
) -> Arc<Object> {
    Arc::new(Object {
        kind: SmolStr::new_static(kind),
        namespace: namespace.cloned(),
        name,
        group: SmolStr::new_static(group),
        version: SmolStr::new_static("v1"),
        generation: 1,
        at: None,
        dialect,
    })
}
