//! A cluster of any size with the policies that a real one has.
//!
//! The figures are those that npinaeva/k8s-netpol-scale counted in a cluster of 604 namespaces, 5,413 pods and 13,678
//! NetworkPolicies: a quarter of them do nothing, one in thirty only denies; half apply to six pods or fewer, the
//! largest to 154; rules name a CIDR in two of five cases, else one selector, mostly of two pods (whoever serves
//! ingress), and now and then two thirds of the cluster; most rules with a CIDR have one port, most others none.
//! What that cluster does not have, and others do, is mixed in: named ports, exceptions, tiers of Antrea with labels that
//! namespaces share, admin and baseline policies.

use palisade_model::cluster::Namespace;
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::policy::{
    Action, Direction, Namespaces, Peer, Peers, PodSet, Policy, TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::Objects;
use palisade_model::traffic::{PortRange, Protocol};
use serde::{Deserialize, Serialize};
use smol_str::{SmolStr, format_smolstr};

use super::make::{
    App, End, anything, block, host_pod, namespace, network_policy, node, pod, ports, tier_policy,
};
use crate::random::Random;

/// How large a cluster is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Namespaces.
    pub namespaces: usize,
    /// Pods.
    pub pods: usize,
    /// Policies.
    pub policies: usize,
}

/// What policies are drawn from.
struct Cluster {
    random: Random,
    apps: Vec<Vec<App>>,
    /// CIDRs with their exceptions: several policies name the same.
    blocks: Vec<Peer>,
}

/// How many pods an application has, and how often of a hundred.
const REPLICAS: &[(usize, usize)] =
    &[(1, 18), (2, 7), (4, 3), (5, 29), (6, 7), (7, 12), (9, 5), (11, 7), (12, 6), (20, 2), (25, 4)];
const PORTS: &[(&str, u16)] = &[
    ("http", 8080),
    ("https", 8443),
    ("grpc", 9090),
    ("metrics", 9091),
    ("postgres", 5432),
    ("redis", 6379),
    ("kafka", 9092),
    ("amqp", 5672),
];
const ROLES: &[&str] = &["edge", "service", "worker", "data"];
const TENANTS: usize = 20;
/// A namespace with more pods than this has no policy for all of them.
const MOST_LOCAL: usize = 154;
/// Who serves ingress, in the first namespace.
const ROUTERS: usize = 2;

// === impl Size ===

impl Size {
    /// The sizes that the figures in docs/performance.md are about, and the cluster that was counted.
    pub const ALL: [Size; 4] = [
        Size::new(10_000, 2_000),
        Size::new(100_000, 4_000),
        Size::new(100_000, 10_000),
        Size { namespaces: 604, pods: 5_413, policies: 13_678 },
    ];

    /// With as many policies for each namespace as were counted.
    pub const fn new(pods: usize, policies: usize) -> Self {
        let namespaces = policies * 604 / 13_678;
        Size { namespaces: if namespaces < 4 { 4 } else { namespaces }, pods, policies }
    }
}

/// The objects of a cluster, the same for a seed in every run.
pub fn objects(size: Size, seed: u64) -> Objects {
    let mut random = Random::new(seed);
    let count = size.namespaces.max(2);
    let namespaces: Vec<Namespace> = (0..count).map(|at| own_namespace(at, &mut random)).collect();
    let nodes = size.pods / 100 + 3;
    let mut cluster =
        Cluster { blocks: blocks(size.policies / 5 + 3, &mut random), apps: Vec::new(), random };
    let mut objects = Objects { nodes: (0..nodes).map(node).collect(), ..Objects::default() };
    let shares = cluster.shares(size.pods, count);
    for (own, share) in namespaces.iter().zip(shares) {
        cluster.fill(own, share, nodes, &mut objects);
    }
    let tiers = cluster.tiers(size.policies);
    for at in 0..size.policies.saturating_sub(tiers.len()) {
        objects.policies.push(cluster.policy(at, &namespaces));
    }
    objects.policies.extend(tiers);
    objects.namespaces = namespaces;
    objects
}

fn own_namespace(at: usize, random: &mut Random) -> Namespace {
    let environment = *random.choose(&["production", "production", "staging"]);
    let tenant = format_smolstr!("tenant-{}", random.below(TENANTS));
    let name = if at == 0 { "ingress".into() } else { format_smolstr!("team-{at:04}") };
    let group = if at == 0 { "ingress" } else { "user" };
    namespace(name, &[("environment", environment), ("tenant", &tenant), ("policy-group", group)])
}

fn blocks(count: usize, random: &mut Random) -> Vec<Peer> {
    let one = |random: &mut Random| {
        let (a, b, c) = (1 + random.below(200), random.below(256), random.below(256));
        match random.below(10) {
            0 => block("0.0.0.0/0", &["10.0.0.0/8".to_owned(), "192.168.0.0/16".to_owned()]),
            1 => block(&format!("{a}.{b}.0.0/16"), &[format!("{a}.{b}.{c}.0/24")]),
            2..=4 => block(&format!("{a}.{b}.{c}.0/24"), &[]),
            _ => block(&format!("{a}.{b}.{c}.{}/32", random.below(256)), &[]),
        }
    };
    (0..count).filter_map(|_| one(random)).map(Peer::Addresses).collect()
}

// === impl Cluster ===

impl Cluster {
    /// How many pods each namespace has: one in forty has many times as many as the others.
    fn shares(&mut self, pods: usize, count: usize) -> Vec<usize> {
        let weight = |at: usize| match at {
            0 => 0,
            _ if at % 40 == 39 => 140 + self.random.below(60),
            _ => 3 + self.random.below(20),
        };
        let weights: Vec<usize> = (0..count).map(weight).collect();
        let all = weights.iter().sum::<usize>().max(1);
        weights.iter().map(|weight| (pods * weight / all).max(ROUTERS)).collect()
    }

    /// The pods of a namespace, application by application.
    fn fill(&mut self, own: &Namespace, share: usize, nodes: usize, objects: &mut Objects) {
        let mut apps = Vec::new();
        let end = objects.pods.len() + share;
        while objects.pods.len() < end {
            let name = format_smolstr!("app-{}", apps.len());
            let labels = vec![
                ("app", name.clone()),
                ("role", SmolStr::new_static(self.random.choose::<&str>(ROLES))),
                // Of every application another one, and no policy asks for it.
                ("pod-template-hash", SmolStr::from(self.random.word(9))),
            ];
            let app = App { namespace: own.name.clone(), name, labels, port: *self.random.choose(PORTS) };
            let replicas = weighted(REPLICAS, &mut self.random).min(end - objects.pods.len());
            let on_host = self.random.below(50) == 0;
            for _ in 0..replicas {
                let at = objects.pods.len();
                objects.pods.push(if on_host { host_pod(&app, at, nodes) } else { pod(&app, at, nodes) });
            }
            apps.push(app);
        }
        self.apps.push(apps);
    }

    fn policy(&mut self, at: usize, namespaces: &[Namespace]) -> Policy {
        let own = 1 + at % (namespaces.len() - 1);
        let namespace = &namespaces[own].name;
        let name = format_smolstr!("policy-{at}");
        let subjects = self.subjects(own, namespace);
        match self.random.below(1000) {
            // A quarter does nothing: nobody is selected, or nobody is let in who is there.
            0..130 => {
                let nobody = named(namespace, Selector::label("app", "gone"));
                network_policy(
                    namespace,
                    name,
                    nobody,
                    &Direction::BOTH,
                    vec![(Direction::Ingress, anything())],
                )
            }
            130..260 => {
                let gone = Peers::Of(vec![Peer::Pods(named(namespace, Selector::label("app", "gone")))]);
                let rule = (Direction::Ingress, (gone, TrafficMatches::Any));
                network_policy(namespace, name, subjects, &[], vec![rule])
            }
            260..296 => network_policy(namespace, name, subjects, &Direction::BOTH, Vec::new()),
            _ => {
                let count = weighted(&[(1, 60), (2, 25), (3, 12), (5, 3)], &mut self.random);
                let rules: Vec<(Direction, End)> = (0..count).map(|_| self.rule(own, namespaces)).collect();
                let mut isolated: Vec<Direction> = rules.iter().map(|(direction, _)| *direction).collect();
                isolated.sort_unstable();
                isolated.dedup();
                network_policy(namespace, name, subjects, &isolated, rules)
            }
        }
    }

    fn subjects(&mut self, own: usize, namespace: &SmolStr) -> PodSet {
        let apps = &self.apps[own];
        let app = self.random.choose(apps);
        let small = apps.len() * 7 < MOST_LOCAL;
        let selector = match self.random.below(100) {
            0..50 if small => Selector::everything(),
            0..60 if small => Selector::label("role", self.random.choose::<&str>(ROLES)),
            0..20 => {
                let values = (0..3).map(|_| self.random.choose(apps).name.clone()).collect();
                Selector::new([Requirement::new("app", Operator::In(values))])
            }
            _ => Selector::label("app", &app.name),
        };
        named(namespace, selector)
    }

    fn rule(&mut self, own: usize, namespaces: &[Namespace]) -> (Direction, End) {
        if self.random.below(5) < 2 {
            let count = weighted(&[(1, 89), (2, 1), (3, 6), (6, 4)], &mut self.random);
            let blocks = (0..count).map(|_| self.random.choose(&self.blocks).clone()).collect();
            let direction = *self.random.choose(&[Direction::Egress, Direction::Egress, Direction::Ingress]);
            let traffic = self.traffic(&[(0, 18), (1, 76), (2, 6)]);
            return (direction, (Peers::Of(blocks), traffic));
        }
        let count = weighted(&[(1, 95), (2, 5)], &mut self.random);
        let peers = (0..count).map(|_| Peer::Pods(self.peer(own, namespaces))).collect();
        let direction = *self.random.choose(&[Direction::Ingress, Direction::Ingress, Direction::Egress]);
        (direction, (Peers::Of(peers), self.traffic(&[(0, 69), (1, 26), (2, 5)])))
    }

    fn peer(&mut self, own: usize, namespaces: &[Namespace]) -> PodSet {
        let namespace = &namespaces[own].name;
        let every = Selector::everything;
        match self.random.below(1000) {
            0..500 => PodSet::new(Namespaces::Matching(Selector::label("policy-group", "ingress")), every()),
            500..650 => named(namespace, every()),
            650..850 => named(namespace, Selector::label("app", &self.random.choose(&self.apps[own]).name)),
            850..992 => {
                let other = 1 + self.random.below(namespaces.len() - 1);
                let app = self.random.choose(&self.apps[other]).name.clone();
                let by_name = Selector::label("kubernetes.io/metadata.name", &namespaces[other].name);
                PodSet::new(Namespaces::Matching(by_name), Selector::label("app", &app))
            }
            _ => PodSet::new(Namespaces::Matching(Selector::label("environment", "production")), every()),
        }
    }

    fn traffic(&mut self, counts: &[(usize, usize)]) -> TrafficMatches {
        let one = |random: &mut Random| {
            let (name, number) = *random.choose(PORTS);
            match random.below(100) {
                0 => TrafficMatch::Ports(Protocol::Tcp, PortRange { first: number, last: number + 99 }),
                1..=8 => TrafficMatch::Named(Some(Protocol::Tcp), name.into()),
                9..=14 => TrafficMatch::Ports(Protocol::Udp, PortRange::single(53)),
                // A port that nobody else has.
                15..=19 => {
                    let own = u16::try_from(20_000 + random.below(10_000)).unwrap_or(20_000);
                    TrafficMatch::Ports(Protocol::Tcp, PortRange::single(own))
                }
                _ => TrafficMatch::Ports(Protocol::Tcp, PortRange::single(number)),
            }
        };
        match weighted(counts, &mut self.random) {
            0 => TrafficMatches::Any,
            count => TrafficMatches::Of((0..count).map(|_| one(&mut self.random)).collect()),
        }
    }

    /// One in two hundred policies is in a tier: for everybody, or for a tenant.
    fn tiers(&mut self, policies: usize) -> Vec<Policy> {
        const TIERS: [(u8, &str); 5] = [
            (50, "securityops"),
            (100, "networkops"),
            (220, "admin"),
            (250, "application"),
            (254, "baseline"),
        ];
        let mut found = Vec::new();
        for at in 0..(policies / 200).max(TIERS.len()) {
            let tier = TIERS[at % TIERS.len()];
            let tenant = Selector::label("tenant", &format!("tenant-{}", self.random.below(TENANTS)));
            let everybody = at < TIERS.len();
            let subjects =
                if everybody { PodSet::everything() } else { of_namespaces(Namespaces::Matching(tenant)) };
            let production = Namespaces::Matching(Selector::label("environment", "production"));
            let pods = |namespaces| Peers::Of(vec![Peer::Pods(of_namespaces(namespaces))]);
            let same = pods(Namespaces::SameLabels(vec!["tenant".into()]));
            let own = u16::try_from(2_000 + at).unwrap_or(u16::MAX);
            let web = u16::try_from(at % 50 + 30_000).unwrap_or(u16::MAX);
            let rules = match tier.0 {
                50 => vec![(Direction::Ingress, Action::Reject, (Peers::Any, ports([(23, 23), (own, own)])))],
                100 => vec![(Direction::Egress, Action::Deny, (Peers::Any, ports([(25, 25), (web, web)])))],
                220 => vec![
                    (Direction::Ingress, Action::Pass, (same, TrafficMatches::Any)),
                    (Direction::Ingress, Action::Deny, (pods(production), ports([(own, own + 9)]))),
                ],
                250 => vec![(Direction::Ingress, Action::Allow, (same, ports([(9091, 9091)])))],
                _ => vec![(Direction::Ingress, Action::Deny, (Peers::Any, ports([(22, 22)])))],
            };
            found.push(tier_policy(tier, at, subjects, rules));
        }
        found
    }
}

fn named(namespace: &SmolStr, pods: Selector) -> PodSet {
    PodSet::new(Namespaces::Named(namespace.clone()), pods)
}

fn of_namespaces(namespaces: Namespaces) -> PodSet {
    PodSet::new(namespaces, Selector::everything())
}

/// One of these, each as often as its weight says.
fn weighted(choices: &[(usize, usize)], random: &mut Random) -> usize {
    let all = choices.iter().map(|(_, weight)| weight).sum::<usize>().max(1);
    let mut at = random.below(all);
    for (value, weight) in choices {
        if at < *weight {
            return *value;
        }
        at -= weight;
    }
    0
}

#[cfg(test)]
mod tests {
    use palisade_model::matching::{Context, Endpoint};
    use palisade_model::options::Options;
    use palisade_model::policy::Placement;
    use palisade_model::snapshot::Snapshot;

    use super::*;

    #[test]
    fn policies_are_as_they_were_counted() {
        let size = Size { namespaces: 604, pods: 5_413, policies: 13_678 };
        let snapshot = Snapshot::new(objects(size, 1));
        let context = Context { snapshot: &snapshot, options: Options::default() };
        assert_eq!(snapshot.policies().len(), size.policies);
        assert!(snapshot.pods().len().abs_diff(size.pods) < size.pods / 10, "{}", snapshot.pods().len());
        let mut local = Vec::new();
        let union = snapshot.policies().iter().filter(|policy| policy.placement == Placement::Union);
        for policy in union.step_by(7) {
            let own = policy.object.namespace.clone().unwrap_or_default();
            if let Some(subjects) = policy.isolations.first().map(|isolation| &isolation.subjects) {
                let applies = |pod: &usize| context.applies(subjects, Endpoint::Pod(*pod));
                local.push(snapshot.pods_in(&own).filter(applies).count());
            }
        }
        local.retain(|count| *count > 0);
        local.sort_unstable();
        let (median, most) = (local[local.len() / 2], local[local.len() - 1]);
        assert!((5..=7).contains(&median), "{median}");
        assert!(most <= MOST_LOCAL, "{most}");
    }

    #[test]
    fn a_seed_is_a_cluster() {
        let size = Size::new(300, 100);
        let text = |seed| format!("{:?}", objects(size, seed));
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
    }
}
