//! Every form that the parts of a rule can have, over the cluster of [`crate::universe`]. Whether these are all of them
//! `tests/coverage.rs` checks.

use palisade_model::address::Block;
use palisade_model::group::Members;
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::policy::{
    Action, DomainName, IcmpMatch, Layer7, Namespaces, Peer, Peers, Placement, PodSet, PortMatch, Priority,
    Subject, Tier, TrafficMatch, TrafficMatches,
};
use palisade_model::traffic::{PortRange, Protocol};
use smol_str::SmolStr;

use crate::universe::{MULTICAST, address, group_name, groups, web_service};

/// All actions.
pub const ACTIONS: [Action; 4] = [Action::Allow, Action::Deny, Action::Reject, Action::Pass];

const PROTOCOLS: [Protocol; 5] =
    [Protocol::Tcp, Protocol::Udp, Protocol::Sctp, Protocol::Icmp, Protocol::Igmp];

/// A place in each stage of the pipeline: tiers by name and by number, before and behind NetworkPolicies, one that does not
/// exist; and among the NetworkPolicies.
pub fn placements() -> Vec<Placement> {
    let tier = |tier| Placement::Tier { tier, priority: Priority(5.0) };
    vec![
        tier(Tier::Named("mine".into())),
        tier(Tier::Fixed(251, "last")),
        Placement::Union,
        tier(Tier::Fixed(253, "baseline")),
        tier(Tier::Named("gone".into())),
        tier(Tier::Fixed(254, "default")),
    ]
}

/// Every form of a selector. The labels `app` and `tier` are on pods, namespaces and nodes.
pub fn selectors() -> Vec<Selector> {
    let values = |values: &[&str]| values.iter().map(|value| SmolStr::from(*value)).collect::<Vec<_>>();
    let app = |operator| Requirement::new("app", operator);
    let one = |operator| Selector::new([app(operator)]);
    vec![
        Selector::everything(),
        one(Operator::In(values(&["a"]))),
        one(Operator::In(values(&["a", "c"]))),
        one(Operator::NotIn(values(&["a"]))),
        one(Operator::NotIn(values(&["a", "c"]))),
        one(Operator::Exists),
        one(Operator::DoesNotExist),
        Selector::new([app(Operator::In(values(&["a", "b"]))), Requirement::equals("tier", "front")]),
    ]
}

/// Every form of a set of pods.
pub fn pod_sets() -> Vec<PodSet> {
    let keys = |keys: &[&str]| keys.iter().map(|key| SmolStr::from(*key)).collect::<Vec<_>>();
    let mut namespaces = vec![Namespaces::Named("x".into()), Namespaces::Own];
    for list in [keys(&[]), keys(&["team"]), keys(&["team", "zone"])] {
        namespaces.extend([Namespaces::SameLabels(list.clone()), Namespaces::NotSameLabels(list)]);
    }
    namespaces.extend(selectors().into_iter().map(Namespaces::Matching));
    let of_namespaces = namespaces.into_iter().map(|set| PodSet::new(set, Selector::everything()));
    let anywhere = || Namespaces::Matching(Selector::everything());
    let labelled = selectors().into_iter().map(|pods| PodSet::new(anywhere(), pods));
    let mut sets: Vec<PodSet> = of_namespaces.chain(labelled).collect();
    sets.push(PodSet { account: Some("robot".into()), ..PodSet::everything() });
    sets.push(PodSet { external: true, ..PodSet::everything() });
    sets
}

/// Blocks of both families, with and without exceptions.
pub fn blocks() -> Vec<Block> {
    let block = |cidr: &str, except: &[&str]| {
        Block::new(cidr.parse().unwrap(), except.iter().map(|net| net.parse().unwrap()))
    };
    vec![
        block("10.0.0.0/24", &[]),
        block("0.0.0.0/0", &["10.0.0.0/30", "203.0.113.7/32"]),
        block("fd00::/64", &[]),
        block("::/0", &["fd00::1/128"]),
    ]
}

/// Every form of a group's members.
pub fn members() -> Vec<Members> {
    let names = |names: &[&str]| Members::Children(names.iter().map(|name| (*name).into()).collect());
    // Groups that others have as children come first: `g0` and `g1` are pods, `g2` and `g3` blocks.
    let mut members = vec![
        Members::Pods(PodSet::all_of("x")),
        Members::Pods(PodSet::new(Namespaces::Named("y".into()), Selector::label("app", "b"))),
        Members::Addresses(blocks()),
        Members::Addresses(Vec::new()),
        names(&[]),
        names(&["g1"]),
        names(&["g0", "g2", "gone"]),
        // Deeper than groups may nest.
        names(&["g5", "g0"]),
        Members::Service(web_service()),
        Members::Nobody,
        Members::Unknown("a selector of another time".to_owned()),
    ];
    members.extend(blocks().into_iter().map(|block| Members::Addresses(vec![block])));
    members.extend(pod_sets().into_iter().map(Members::Pods));
    members.extend(selectors().into_iter().map(Members::Nodes));
    members
}

/// Every form of subjects.
pub fn subjects() -> Vec<Vec<Subject>> {
    let mut single: Vec<Subject> = pod_sets().into_iter().map(Subject::Pods).collect();
    single.extend(selectors().into_iter().map(Subject::Nodes));
    single.push(Subject::Service(web_service()));
    let groups: Vec<_> = groups().iter().map(|group| group.name()).chain([group_name("gone")]).collect();
    single.extend(groups.iter().cloned().map(|group| Subject::Group { group, within: None }));
    let within = |name: &str| Subject::Group { group: group_name(name), within: Some("x".into()) };
    single.extend(["g0", "g1", "g10"].map(within));
    let mut all = vec![Vec::new(), everybody()];
    all.extend(single.into_iter().map(|subject| vec![subject]));
    all
}

/// Everything that a rule can apply to but services.
pub fn everybody() -> Vec<Subject> {
    let entities = PodSet { external: true, ..PodSet::everything() };
    vec![PodSet::everything().into(), entities.into(), Subject::Nodes(Selector::everything())]
}

/// Every form of one peer.
pub fn single_peers() -> Vec<Peer> {
    let mut single: Vec<Peer> = pod_sets().into_iter().map(Peer::Pods).collect();
    single.extend(blocks().into_iter().map(Peer::Addresses));
    single.extend(selectors().into_iter().map(Peer::Nodes));
    let (exact, below) = (DomainName::new("api.example.com"), DomainName::new("*.example.com"));
    let form = DomainName::form("w*example.com");
    single.extend(
        [vec![], vec![exact.clone()], vec![below], vec![form.clone()], vec![exact, form]].map(Peer::Names),
    );
    single.push(Peer::Service(web_service()));
    single.extend(groups().iter().map(|group| Peer::Group(group.name())));
    single.push(Peer::Group(group_name("gone")));
    single.push(Peer::Unknown("a peer of another time".to_owned()));
    single
}

/// Every form of peers.
pub fn peers() -> Vec<Peers> {
    let two = vec![
        Peer::Pods(PodSet::new(Namespaces::Own, Selector::label("app", "b"))),
        Peer::Addresses(blocks().remove(1)),
    ];
    let mut all = vec![Peers::Any, Peers::Of(Vec::new()), Peers::Of(two)];
    all.extend(single_peers().into_iter().map(|peer| Peers::Of(vec![peer])));
    all
}

/// Every form of a port, by number and by name.
fn ports() -> Vec<PortMatch> {
    let mut all = Vec::new();
    for protocol in PROTOCOLS {
        let port = if protocol == Protocol::Udp { 53 } else { 80 };
        for range in [PortRange::single(port), PortRange { first: 80, last: 90 }, PortRange::ALL] {
            all.push(PortMatch::Numbers(protocol, range));
        }
    }
    let protocols = PROTOCOLS.into_iter().map(Some).chain([None]);
    all.extend(protocols.map(|protocol| PortMatch::Named(protocol, "dns".into())));
    all
}

/// Every form of one match of traffic.
pub fn single_traffic() -> Vec<TrafficMatch> {
    let sources = [PortRange::single(4000), PortRange { first: 4000, last: 61_000 }, PortRange::ALL];
    let mut all: Vec<TrafficMatch> = ports().into_iter().map(TrafficMatch::from).collect();
    for (at, port) in ports().into_iter().enumerate() {
        all.push(TrafficMatch::From(sources[at % 3], Box::new(port.clone())));
        all.push(TrafficMatch::From(sources[(at + 1) % 3], Box::new(port)));
    }
    for kind in [None, Some(8), Some(3), Some(128)] {
        all.extend(
            [None, Some(0), Some(1), Some(255)].map(|code| TrafficMatch::Icmp(IcmpMatch { kind, code })),
        );
    }
    for kind in [None, Some(0x11)] {
        let groups = [None, Some(address(MULTICAST)), Some(address("ff02::fb"))];
        all.extend(groups.map(|group| TrafficMatch::Igmp(kind, group)));
    }
    all.push(TrafficMatch::Unknown("traffic of another time".to_owned()));
    all
}

/// Every form of traffic.
pub fn traffic() -> Vec<TrafficMatches> {
    let icmp = |kind, code| TrafficMatch::Icmp(IcmpMatch { kind, code });
    let several = [
        vec![
            TrafficMatch::Ports(Protocol::Tcp, PortRange::single(81)),
            icmp(None, Some(1)),
            icmp(Some(3), None),
        ],
        vec![TrafficMatch::Named(None, "web".into()), TrafficMatch::Igmp(Some(0x16), None)],
        vec![TrafficMatch::Ports(Protocol::Udp, PortRange::ALL), TrafficMatch::Unknown("new".to_owned())],
    ];
    let mut all = vec![TrafficMatches::Any, TrafficMatches::Of(Vec::new())];
    all.extend(several.map(TrafficMatches::Of));
    all.extend(single_traffic().into_iter().map(|one| TrafficMatches::Of(vec![one])));
    all
}

/// Every form of conditions on layer 7.
pub fn layer7() -> Vec<Vec<Layer7>> {
    let some = |text: &str| Some(SmolStr::from(text));
    let http = |host, method, path| Layer7::Http { host, method, path };
    let full = http(some("*.example.com"), some("GET"), some("/api/*"));
    let tls = Layer7::Tls { sni: some("api.example.com") };
    vec![
        vec![],
        vec![http(None, None, None)],
        vec![full.clone()],
        vec![Layer7::Tls { sni: None }],
        vec![tls.clone()],
        vec![full, tls],
    ]
}
