//! A small cluster in which every form of a rule finds something that it matches and something that it does not.
//!
//! Five namespaces, one of them known by its pods only; pods of both families, of IPv4 alone and without an address; a pod in its
//! node's network, an external entity, two nodes, services, a group of every kind, DNS names, and addresses outside.

use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::address::Family;
use palisade_model::cluster::{ContainerPort, Namespace, Node, Pod, Service, ServiceKind};
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::group::{Group, GroupName, Members};
use palisade_model::label::{Labels, Selector};
use palisade_model::options::{HostNetworkPods, Options, SelfTraffic};
use palisade_model::policy::{Dialect, Object, PodSet, Policy, ServiceName};
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::traffic::{Protocol, Traffic};

use crate::forms;

/// The nodes of the cluster.
pub const NODES: [&str; 2] = ["n0", "n1"];

/// A multicast group that rules name, and that flows go to.
pub const MULTICAST: &str = "225.1.2.3";

/// Labels from pairs.
pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::new(pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())))
}

/// An address from its text.
pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The identity of an object of these tests.
pub fn object(kind: &str, name: &str) -> Arc<Object> {
    Arc::new(Object {
        kind: kind.into(),
        namespace: None,
        name: name.into(),
        group: "test".into(),
        version: "v1".into(),
        generation: 0,
        at: None,
        dialect: Dialect::NetworkPolicy,
    })
}

/// The service that rules name.
pub fn web_service() -> ServiceName {
    ServiceName { namespace: "x".into(), name: "web".into() }
}

fn namespace(name: &str, pairs: &[(&str, &str)]) -> Namespace {
    Namespace { name: name.into(), labels: labels(pairs), at: None }
}

/// A pod on n0 if it is called `a`, else on n1, with the ports `web` (TCP) and `dns` (UDP, TCP and SCTP).
fn pod(namespace: &str, name: &str, pairs: &[(&str, &str)], addresses: &[&str], web: u16) -> Pod {
    let port = |name: &str, protocol, number| ContainerPort { name: Some(name.into()), protocol, number };
    Pod {
        namespace: namespace.into(),
        name: name.into(),
        labels: labels(pairs),
        addresses: addresses.iter().map(|text| address(text)).collect(),
        node: Some(if name == "a" { "n0" } else { "n1" }.into()),
        ready: true,
        ports: vec![
            port("web", Protocol::Tcp, web),
            port("dns", Protocol::Udp, 53),
            port("dns", Protocol::Tcp, 81),
            port("dns", Protocol::Sctp, 80),
        ],
        account: "default".into(),
        ..Pod::default()
    }
}

/// The cluster with these policies.
pub fn objects(policies: impl IntoIterator<Item = Policy>) -> Objects {
    let (a, b) = ([("app", "a"), ("tier", "front")], [("app", "b")]);
    let host = Pod { host_network: true, ..pod("x", "host", &a, &["172.18.0.2", "fd18::2"], 80) };
    let robot = Pod { account: "robot".into(), ..pod("y", "b", &b, &["10.0.1.2"], 81) };
    let entity = Pod { external: true, node: None, ..pod("x", "vm", &a, &["198.51.100.9"], 80) };
    let node = |name: &str, pairs: &[(&str, &str)], addresses: [&str; 2]| Node {
        name: name.into(),
        labels: labels(pairs),
        addresses: addresses.map(address).into(),
        at: None,
    };
    let service = |name: &str, addresses: &[&str]| {
        let selector = Some(Selector::label("app", "a"));
        Service {
            namespace: "x".into(),
            name: name.into(),
            kind: match addresses {
                [] => ServiceKind::Headless { selector },
                _ => ServiceKind::ClusterAddress { selector },
            },
            addresses: addresses.iter().map(|text| address(text)).collect(),
            ..Service::default()
        }
    };
    let mut objects = Objects {
        namespaces: vec![
            namespace("x", &[("team", "red"), ("zone", "a")]),
            namespace("y", &[("team", "red"), ("zone", "b")]),
            namespace("z", &[("team", "blue"), ("zone", "a")]),
            namespace("v", &[("app", "a"), ("tier", "front")]),
        ],
        pods: vec![
            pod("x", "a", &a, &["10.0.0.1", "fd00::1"], 80),
            pod("x", "b", &b, &["10.0.0.2", "fd00::2"], 81),
            pod("y", "a", &a, &["10.0.1.1"], 80),
            robot,
            pod("z", "a", &[("app", "c")], &["10.0.2.1"], 81),
            pod("z", "new", &b, &[], 80),
            pod("v", "a", &a, &["10.0.4.1"], 80),
            // The namespace w is known by this pod only, which has no labels and no ports.
            Pod { ports: Vec::new(), ..pod("w", "bare", &[], &["10.0.3.1"], 80) },
            Pod { terminated: true, ..pod("w", "done", &a, &["10.0.3.9"], 80) },
            Pod { node: Some("n0".into()), ..host },
            entity,
        ],
        nodes: vec![
            node("n0", &[("app", "a"), ("tier", "front")], ["172.18.0.2", "fd18::2"]),
            node("n1", &[("role", "edge")], ["172.18.0.3", "fd18::3"]),
        ],
        services: vec![service("web", &["10.96.0.1", "fd96::1"]), service("all", &[])],
        policies: policies.into_iter().collect(),
        groups: groups(),
        ..Objects::default()
    };
    objects.tiers.insert("mine".into(), 10);
    for (name, text) in [("api.example.com", "203.0.113.7"), ("www.example.com", "2001:db8::7")] {
        objects.names.insert(name.to_owned(), vec![address(text)]);
    }
    objects
}

/// A group for every form of members, called `g0`, `g1` and so on; and groups of the namespace x that have the names of others
/// and not their members. `gone` is none of them.
pub fn groups() -> Vec<Group> {
    let group =
        |(at, members): (usize, Members)| Group { object: object("Group", &format!("g{at}")), members };
    let in_namespace = |(at, members): (usize, Members)| {
        let object = Object { namespace: Some("x".into()), ..(*object("Group", &format!("g{at}"))).clone() };
        Group { object: Arc::new(object), members }
    };
    let own = [Members::Pods(PodSet::all_of("y")), Members::Children(vec!["g0".into()])];
    let cluster_wide = forms::members().into_iter().enumerate().map(group);
    cluster_wide.chain(own.into_iter().enumerate().map(in_namespace)).collect()
}

/// The name of a group of the whole cluster.
pub fn group_name(name: &str) -> GroupName {
    GroupName { namespace: None, name: name.into() }
}

/// All combinations of the options, by number, over and over.
pub fn options(index: usize) -> Options {
    Options {
        ip_block_matches_pods: index & 1 == 0,
        host_network_pods: [HostNetworkPods::Node, HostNetworkPods::Ignore][(index >> 1) & 1],
        self_traffic: [SelfTraffic::Allow, SelfTraffic::Evaluate][(index >> 2) & 1],
    }
}

/// Traffic of every protocol, with what distinguishes the forms of matches: ports, source ports, types and codes.
pub fn traffic() -> Vec<Traffic> {
    let new = Traffic::new;
    let from = |port, traffic| Traffic { source_port: Some(port), ..traffic };
    let typed = |protocol, kind, code| Traffic { icmp: Some((kind, code)), ..new(protocol, 0) };
    let ports = [(Protocol::Tcp, 80), (Protocol::Tcp, 81), (Protocol::Tcp, 443), (Protocol::Udp, 53)];
    let mut all: Vec<Traffic> = ports.map(|(protocol, port)| new(protocol, port)).into();
    all.extend(
        [(Protocol::Udp, 80), (Protocol::Sctp, 80), (Protocol::Sctp, 81)].map(|(p, port)| new(p, port)),
    );
    for (protocol, port) in
        [(Protocol::Tcp, 80), (Protocol::Tcp, 81), (Protocol::Udp, 53), (Protocol::Sctp, 80)]
    {
        all.extend([4000, 5000].map(|source| from(source, new(protocol, port))));
    }
    all.push(new(Protocol::Icmp, 0));
    for kind in [3, 8, 13] {
        all.extend([None, Some(1), Some(255)].map(|code| typed(Protocol::Icmp, kind, code)));
    }
    all.push(new(Protocol::Igmp, 0));
    all.extend([0x11, 0x16].map(|kind| typed(Protocol::Igmp, kind, None)));
    all
}

/// Connections between all ends, in each family that both have and through each service, that carry one thing.
pub fn all_ends(snapshot: &Snapshot, traffic: Traffic) -> Vec<Flow> {
    let living = |pod: &usize| !snapshot.pods()[*pod].terminated;
    let pods = (0..snapshot.pods().len()).filter(living).map(Who::Pod);
    let nodes = (0..snapshot.nodes().len()).map(Who::Node);
    let mut ends: Vec<End> = pods.chain(nodes).map(|who| end(snapshot, who)).collect();
    ends.extend(["203.0.113.7", "192.0.2.1", "2001:db8::7"].map(outside));
    let mut flows = Vec::new();
    for source in &ends {
        for destination in &ends {
            let direct = between(source, destination, traffic);
            if let Who::Pod(_) = destination.0 {
                let through = |via| direct.iter().map(move |flow| Flow { via: Some(via), ..*flow });
                flows.extend((0..snapshot.services().len()).flat_map(through));
            }
            flows.extend(direct);
        }
    }
    flows
}

/// Connections of every traffic between a few ends: two pods of both families, a node, addresses outside, multicast groups.
pub fn all_traffic(snapshot: &Snapshot) -> Vec<Flow> {
    let pod = |namespace, name| end(snapshot, Who::Pod(snapshot.pod(namespace, name).unwrap()));
    let (one, other, node) = (pod("x", "a"), pod("x", "b"), end(snapshot, Who::Node(1)));
    let pairs = [
        (one.clone(), other.clone()),
        (other, one.clone()),
        (one.clone(), pod("y", "b")),
        (one.clone(), node),
        (one.clone(), outside("203.0.113.7")),
        (outside("2001:db8::7"), one.clone()),
        (one.clone(), outside(MULTICAST)),
        (one, outside("225.1.2.4")),
    ];
    let mut flows = Vec::new();
    for (source, destination) in &pairs {
        for traffic in traffic() {
            // Multicast is what IGMP is about.
            let multicast = destination.1.iter().any(IpAddr::is_multicast);
            if !multicast || traffic.protocol == Protocol::Igmp {
                flows.extend(between(source, destination, traffic));
            }
        }
    }
    flows
}

/// An end, with the addresses it may use.
type End = (Who, Vec<IpAddr>);

fn end(snapshot: &Snapshot, who: Who) -> End {
    let addresses = match who {
        Who::Pod(pod) => snapshot.pods()[pod].addresses.clone(),
        Who::Node(node) => snapshot.nodes()[node].addresses.clone(),
        Who::Outside => Vec::new(),
    };
    (who, addresses)
}

fn outside(text: &str) -> End {
    (Who::Outside, vec![address(text)])
}

fn between((from, sources): &End, (to, destinations): &End, traffic: Traffic) -> Vec<Flow> {
    let flow = |source, destination| Flow {
        source: Party { who: *from, address: source },
        destination: Party { who: *to, address: destination },
        traffic,
        via: None,
    };
    // A pod that has not started may get an address of either family.
    if sources.is_empty() || destinations.is_empty() {
        return vec![flow(sources.first().copied(), destinations.first().copied())];
    }
    let of = |family, all: &[IpAddr]| all.iter().copied().find(|address| Family::of(*address) == family);
    let both = [Family::V4, Family::V6].map(|family| of(family, sources).zip(of(family, destinations)));
    // IGMP is a protocol of IPv4 alone.
    let exists = |source: &IpAddr| traffic.protocol != Protocol::Igmp || source.is_ipv4();
    let both = both.into_iter().flatten().filter(|(source, _)| exists(source));
    both.map(|(source, destination)| flow(Some(source), Some(destination))).collect()
}

/// Returns the objects that events exist for: all but workloads and entrances.
pub fn items(objects: Objects) -> Vec<palisade_model::event::Item> {
    use palisade_model::event::Item;
    let Objects {
        namespaces,
        pods,
        // Workloads and entrances decide nothing, and the cluster has none.
        workloads: _,
        nodes,
        services,
        endpoints,
        entrances: _,
        policies,
        tiers,
        groups,
        names,
    } = objects;
    let endpoints = endpoints.into_iter().map(|one| Item::Endpoints(one.service.clone(), one));
    let names = names.into_iter().map(|(name, addresses)| Item::Name(name.into(), addresses));
    let mut items: Vec<Item> = namespaces.into_iter().map(Item::Namespace).collect();
    items.extend(pods.into_iter().map(Item::Pod));
    items.extend(nodes.into_iter().map(Item::Node));
    items.extend(services.into_iter().map(Item::Service));
    items.extend(endpoints);
    items.extend(tiers.into_iter().map(|(name, priority)| Item::Tier(name, priority)));
    items.extend(groups.into_iter().map(Item::Group));
    items.extend(names);
    items.extend(policies.into_iter().map(Item::Policy));
    items
}
