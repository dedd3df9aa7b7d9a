//! Verdicts without reasons must be the plain evaluator's, on every flow: for every rule shape there is, one and two at
//! a time, and for random worlds of several policies under all options.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod builders;
mod dice;

use builders::*;
use dice::Dice;
use palisade_model::address::Block;
use palisade_model::cluster::{Pod, Service};
use palisade_model::evaluate::evaluate;
use palisade_model::flow::{Flow, Who};
use palisade_model::group::{Group, GroupName, Members};
use palisade_model::options::{HostNetworkPods, Options, SelfTraffic};
use palisade_model::policy::{
    Action, Direction, DomainName, Layer7, Namespaces, Peer, Peers, Placement, PodSet, Policy, Rule,
    ServiceName, Subject, Tier, TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::traffic::{PortRange, Protocol, Traffic};
use palisade_model::verdicts::Verdicts;

/// The world of the builders with a host-network, a terminated and an address-less pod.
fn objects(policies: Vec<Policy>) -> Objects {
    let mut objects = world();
    objects.pods.push(Pod { host_network: true, ..pod("x", "host", "app=a", "172.18.0.2") });
    objects.pods.push(Pod { terminated: true, ..pod("y", "done", "app=a", "10.0.9.9") });
    objects.pods.push(pod("z", "new", "app=b", ""));
    objects.pods.push(Pod { external: true, ..pod("x", "vm", "app=a", "198.51.100.9") });
    objects.pods.push(Pod { account: "robot".into(), ..pod("x", "c", "app=a", "10.0.7.7") });
    objects.services = vec![service("x", "web", "app=a"), service("z", "web", "app=b")];
    objects.groups = groups();
    objects.names.insert("api.example.com".to_owned(), vec!["203.0.113.7".parse().unwrap()]);
    objects.policies = policies;
    objects
}

fn all_flows(snapshot: &Snapshot) -> Vec<Flow> {
    let mut ends: Vec<(Who, Option<std::net::IpAddr>)> = Vec::new();
    let living = |index: &usize| !snapshot.pods()[*index].terminated;
    ends.extend((0..snapshot.pods().len()).filter(living).map(|pod| (Who::Pod(pod), None)));
    ends.extend((0..snapshot.nodes().len()).map(|node| (Who::Node(node), None)));
    ends.extend(["203.0.113.7", "2001:db8::7"].map(|address| (Who::Outside, Some(address.parse().unwrap()))));
    let traffic = [
        Traffic::new(Protocol::Tcp, 80),
        Traffic::new(Protocol::Tcp, 81),
        Traffic::new(Protocol::Udp, 53),
        Traffic { source_port: Some(4000), ..Traffic::new(Protocol::Tcp, 80) },
        Traffic { icmp: Some((8, None)), ..Traffic::new(Protocol::Icmp, 0) },
        Traffic { icmp: Some((17, None)), ..Traffic::new(Protocol::Igmp, 0) },
    ];
    let mut flows = Vec::new();
    for source in &ends {
        for destination in &ends {
            flows.extend(traffic.iter().map(|traffic| snapshot.flow(*source, *destination, *traffic)));
        }
        for (index, service) in snapshot.services().iter().enumerate() {
            let behind = ends.iter().filter(|(who, _)| match who {
                Who::Pod(pod) => snapshot.pods()[*pod].namespace == service.namespace,
                _ => false,
            });
            let flow = |end: &_| snapshot.flow(*source, *end, traffic[0]);
            flows.extend(behind.map(|pod| Flow { via: Some(index), ..flow(pod) }));
        }
    }
    flows
}

fn agree(policies: Vec<Policy>, options: &Options) -> usize {
    let snapshot = Snapshot::new(objects(policies));
    let verdicts = Verdicts::new(&snapshot, options);
    let flows = all_flows(&snapshot);
    for flow in &flows {
        let plain = evaluate(&snapshot, flow, options);
        assert_eq!(verdicts.verdict(flow), plain.verdict, "{plain:#?}\n{:#?}", snapshot.policies());
    }
    flows.len()
}

fn subjects() -> Vec<PodSet> {
    vec![PodSet::everything(), PodSet::all_of("x"), pods("team=red", "app=a")]
}

/// What only rules of tiers apply to.
fn other_subjects() -> Vec<Subject> {
    let group = |name: &str, within: Option<&str>| Subject::Group {
        group: GroupName { namespace: None, name: name.into() },
        within: within.map(Into::into),
    };
    vec![
        PodSet { account: Some("robot".into()), ..PodSet::all_of("x") }.into(),
        PodSet { external: true, ..PodSet::everything() }.into(),
        Subject::Nodes(selector("kind=node")),
        Subject::Service(ServiceName { namespace: "x".into(), name: "web".into() }),
        group("family", None),
        group("family", Some("y")),
        group("missing", None),
        group("broken", None),
        group("deep", Some("x")),
    ]
}

fn groups() -> Vec<Group> {
    let group = |name: &str, members| Group { object: object("ClusterGroup", None, name), members };
    let block = Block::new("203.0.113.0/24".parse().unwrap(), []);
    vec![
        group("red", Members::Pods(pods("team=red", ""))),
        group("outside", Members::Addresses(vec![block])),
        group("nodes", Members::Nodes(selector("kind=node"))),
        group("web", Members::Service(ServiceName { namespace: "x".into(), name: "web".into() })),
        group("family", Members::Children(["red", "nodes", "gone"].map(Into::into).to_vec())),
        group("deep", Members::Children(vec!["family".into()])),
        group("broken", Members::Unknown("new".to_owned())),
    ]
}

fn service(namespace: &str, name: &str, text: &str) -> Service {
    Service {
        namespace: namespace.into(),
        name: name.into(),
        headless: true,
        selector: Some(selector(text)),
        ..Service::default()
    }
}

fn peer_lists() -> Vec<Peers> {
    let group = |name: &str| Peer::Group(GroupName { namespace: None, name: name.into() });
    let relative = |namespaces| Peer::Pods(PodSet::new(namespaces, Default::default()));
    vec![
        Peers::Any,
        peers([]),
        peers([Peer::Pods(pods("ns=x", "")), Peer::Pods(pods("", "app=b"))]),
        peers([relative(Namespaces::Own)]),
        peers([relative(Namespaces::SameLabels(vec!["team".into()]))]),
        peers([Peer::Addresses(Block::new("10.0.0.0/8".parse().unwrap(), ["10.0.1.0/24".parse().unwrap()]))]),
        peers([Peer::Nodes(selector(""))]),
        peers([Peer::Unknown("new".to_owned()), Peer::Pods(pods("ns=y", ""))]),
        peers([group("family"), group("outside")]),
        peers([group("web")]),
        peers([group("missing")]),
        peers([group("deep")]),
        peers([group("broken")]),
        peers([Peer::Service(ServiceName { namespace: "x".into(), name: "web".into() })]),
        peers([Peer::Names(vec![DomainName::form("*example.com"), DomainName::form("web.z.svc*")])]),
    ]
}

fn traffics() -> Vec<TrafficMatches> {
    vec![
        TrafficMatches::Any,
        TrafficMatches::Of(vec![]),
        tcp(80, 80),
        TrafficMatches::Of(vec![
            TrafficMatch::Named(None, "web".into()),
            TrafficMatch::Unknown("new".to_owned()),
        ]),
        TrafficMatches::Of(vec![
            TrafficMatch::From(
                PortRange { first: 4000, last: 5000 },
                Box::new(TrafficMatch::Named(Some(Protocol::Tcp), "web".into())),
            ),
            TrafficMatch::Icmp(Some(8), Some(0)),
            TrafficMatch::Igmp(Some(17), None),
        ]),
    ]
}

const ACTIONS: [Action; 4] = [Action::Allow, Action::Deny, Action::Reject, Action::Pass];

#[test]
fn for_every_shape_of_rule_alone() {
    let mut flows = 0;
    for direction in Direction::BOTH {
        for subject in subjects() {
            for peers in peer_lists() {
                for traffic in traffics() {
                    let shape =
                        |action| rule(direction, action, subject.clone(), peers.clone(), traffic.clone());
                    for action in ACTIONS {
                        flows += agree(vec![tiered("t", 100, 1.0, [shape(action)])], &Options::default());
                    }
                    for isolates in [&[][..], &[Direction::Ingress], &Direction::BOTH] {
                        let union = network_policy("np", &subject, isolates, [shape(Action::Allow)]);
                        flows += agree(vec![union], &Options::default());
                    }
                }
            }
        }
    }
    assert!(flows > 500_000, "{flows}");
}

impl Dice {
    fn rule(&mut self, subject: &PodSet, action: Action) -> Rule {
        let (peers, traffic) = (self.one(&peer_lists()), self.one(&traffics()));
        let mut rule = rule(self.one(&Direction::BOTH), action, subject.clone(), peers, traffic);
        if self.roll(4) == 0 {
            rule.layer7.push(Layer7::Tls { sni: None });
        }
        rule
    }

    fn policy(&mut self, name: &str) -> Policy {
        let subject = self.one(&subjects());
        let count = self.roll(4);
        if self.roll(4) == 0 {
            let subject = self.one(&other_subjects());
            let action = self.one(&ACTIONS);
            let (peers, traffic) = (self.one(&peer_lists()), self.one(&traffics()));
            let mut rule = rule(self.one(&Direction::BOTH), action, subject, peers, traffic);
            if self.roll(4) == 0 {
                rule.layer7.push(Layer7::Tls { sni: None });
            }
            let mut policy = tiered(name, self.one(&[100, 253]), 1.0, [rule]);
            if let Placement::Tier { tier, .. } = &mut policy.placement
                && self.roll(4) == 0
            {
                *tier = Tier::Named("missing".into());
            }
            return policy;
        }
        if self.roll(3) == 0 {
            let isolates: &[Direction] =
                self.one(&[&[][..], &[Direction::Ingress], &[Direction::Egress], &Direction::BOTH]);
            let rules: Vec<Rule> = (0..count).map(|_| self.rule(&subject, Action::Allow)).collect();
            return network_policy(name, &subject, isolates, rules);
        }
        let rules: Vec<Rule> = (0..count)
            .map(|_| {
                let action = self.one(&ACTIONS);
                self.rule(&subject, action)
            })
            .collect();
        // Few tiers and priorities, so that ties and interleaving happen.
        let priority = self.one(&[1.0, 1.5]);
        tiered(name, self.one(&[100, 220, 251, 253, 254]), priority, rules)
    }
}

#[test]
fn for_random_worlds_under_all_options() {
    let mut dice = Dice(7);
    let mut flows = 0;
    for _ in 0..250 {
        let policies: Vec<Policy> =
            (0..dice.roll(9)).map(|index| dice.policy(&format!("p{index}"))).collect();
        let options = Options {
            ip_block_matches_pods: dice.roll(2) == 0,
            host_network_pods: dice.one(&[HostNetworkPods::Node, HostNetworkPods::Ignore]),
            self_traffic: dice.one(&[SelfTraffic::Allow, SelfTraffic::Evaluate]),
        };
        flows += agree(policies, &options);
    }
    assert!(flows > 100_000, "{flows}");
}

#[test]
fn for_every_subject_that_is_no_plain_pod_set() {
    let mut flows = 0;
    for direction in Direction::BOTH {
        for subject in other_subjects() {
            for peers in peer_lists() {
                for action in ACTIONS {
                    let shape = rule(direction, action, subject.clone(), peers.clone(), TrafficMatches::Any);
                    flows += agree(vec![tiered("t", 100, 1.0, [shape])], &Options::default());
                }
            }
        }
    }
    assert!(flows > 100_000, "{flows}");
}

#[test]
fn the_order_in_which_objects_come_does_not_matter() {
    let mut dice = Dice(11);
    for _ in 0..20 {
        let policies: Vec<Policy> = (0..6).map(|index| dice.policy(&format!("p{index}"))).collect();
        let mut turned = objects(policies.iter().rev().cloned().collect());
        turned.pods.reverse();
        turned.nodes.reverse();
        turned.namespaces.reverse();
        let (one, other) = (Snapshot::new(objects(policies)), Snapshot::new(turned));
        for (a, b) in all_flows(&one).iter().zip(all_flows(&other)) {
            let options = Options::default();
            let (a, b) = (evaluate(&one, a, &options), evaluate(&other, &b, &options));
            assert_eq!(format!("{a:?}"), format!("{b:?}"));
        }
    }
}
