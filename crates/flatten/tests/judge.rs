//! Flattened verdicts are those of the judge: for every form of a rule, one at a time in every stage, every pair of rules with
//! traffic that overlaps, and several policies by chance; for each subject, direction, peer class and traffic.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod lists;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::Engine;
use palisade_engine::delta::{CompiledRule, Member, MemberKind, SetId};
use palisade_engine::selection::SetKind;
use palisade_engine::view::View;
use palisade_flatten::{
    AddressIndex, Budget, Digest, FlatVerdicts, Layer7Support, PeerClasses, PeerSets, RuleList,
    has_peer_addresses, shared_conditions,
};
use palisade_model::evaluate::evaluate;
use palisade_model::event::{Event, Item, Key};
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::matching::Context;
use palisade_model::options::Options;
use palisade_model::policy::{
    Action, Direction, IcmpMatch, Placement, Policy, PortMatch, TrafficMatch, TrafficMatches,
};
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::{Because, Side};
use palisade_model::traffic::{PortRange, Protocol};
use palisade_model::traffic_set::{Addressing, Point};
use palisade_testing::cases::{About, Parts, cases, isolation, policy};
use palisade_testing::forms::{ACTIONS, everybody, placements};
use palisade_testing::random::Generator;
use palisade_testing::universe::{all_ends, all_traffic, items, objects, traffic};

use lists::check;

/// The cluster, with policies that change.
struct Cluster {
    engine: Engine,
    policies: Vec<Key>,
}

/// What is known about the peers of a subject, for connections through a service or none.
type PeersOf = BTreeMap<(Vec<SetId>, Direction, Option<SetId>), (Arc<RuleList>, PeerClasses)>;

impl Cluster {
    fn new() -> Self {
        let mut engine = Engine::default();
        for item in items(objects([])) {
            engine.apply(Event::Apply(item));
        }
        Cluster { engine, policies: Vec::new() }
    }

    fn view(&mut self, policies: &[Policy]) -> View {
        let now: Vec<Item> = policies.iter().cloned().map(Item::Policy).collect();
        for key in std::mem::take(&mut self.policies) {
            self.engine.apply(Event::Delete(key));
        }
        self.policies = now.iter().map(Item::key).collect();
        now.into_iter().for_each(|item| drop(self.engine.apply(Event::Apply(item))));
        self.engine.view()
    }

    /// Compares each side of each flow with the judge. Returns the number of comparisons.
    fn agrees(&mut self, policies: &[Policy], flows: impl Fn(&Snapshot) -> Vec<Flow>) -> usize {
        let view = self.view(policies);
        let mut index = AddressIndex::default();
        for (id, set) in view.sets() {
            if has_peer_addresses(&set.selection) {
                set.members.iter().for_each(|member| index.join(*id, member));
            }
        }
        let (snapshot, options) = (Snapshot::new(objects(policies.iter().cloned())), Options::default());
        let context = Context { snapshot: &snapshot, options };
        let (mut peers, mut checked) = (PeersOf::new(), 0);
        let mut tables: BTreeMap<(Vec<SetId>, Direction, Digest), FlatVerdicts> = BTreeMap::new();
        for flow in flows(&snapshot) {
            // A connection of a pod to its own address does not pass a data plane.
            let is_own = flow.source.who == flow.destination.who && flow.via.is_none();
            let (Some(from), Some(to)) = (flow.source.address, flow.destination.address) else { continue };
            if is_own || from.is_ipv4() != to.is_ipv4() {
                continue;
            }
            let plain = evaluate(&snapshot, &flow, &options);
            for (direction, side) in Direction::BOTH.into_iter().zip([&plain.egress, &plain.ingress]) {
                // Services as subjects decide at the entrance of the cluster.
                let gated = direction == Direction::Ingress && context.entrance(&flow).is_some();
                if gated || is_skipped(side) {
                    continue;
                }
                let (own, other) = Context::ends(&flow, direction);
                let subjects = subjects(&view, &snapshot, own);
                let via = flow.via.and_then(|via| service(&view, &snapshot, via));
                let key = (subjects.clone(), direction, via);
                let (list, classes) =
                    peers.entry(key).or_insert_with(|| classes(&view, &index, &subjects, direction, via));
                let class = classes.get(classes.class_at(other.address.unwrap(), &index)).unwrap();
                let table = tables
                    .entry((subjects, direction, class.digest))
                    .or_insert_with(|| list.flatten(&class.met, &mut Budget::unlimited()));
                check(table);
                let addressing = if to.is_multicast() { Addressing::Group(to) } else { Addressing::Host };
                let decision = table.decision(point(&flow, to), addressing);
                assert_eq!(
                    decision.verdict,
                    side.verdict,
                    "{direction}: {flow:?}\n{side:#?}\n{table:#?}\n{policies:#?}\n{:#?}",
                    list.rules()
                );
                let isolates = |rule: u32| list.rules()[rule as usize].rule.is_none();
                match &side.because {
                    Because::Default => assert_eq!(decision.rule, None),
                    Because::Isolation { .. } => assert!(decision.rule.is_some_and(isolates)),
                    Because::Rule(_) => {
                        assert!(
                            decision.rule.is_some_and(|rule| !isolates(rule)),
                            "{decision:?} {side:#?}\n{:#?}",
                            list.rules()
                        );
                    }
                    Because::Exempt(_) => {}
                }
                checked += 1;
            }
        }
        checked
    }
}

/// Conditions on layer 7 deny here, and allow for the judge, which cannot check them either.
fn is_skipped(side: &Side) -> bool {
    match &side.because {
        Because::Exempt(_) => true,
        Because::Rule(decision) => !decision.conditions.is_empty(),
        Because::Isolation { .. } | Because::Default => false,
    }
}

/// The sets that an endpoint is in.
fn subjects(view: &View, snapshot: &Snapshot, own: Party) -> Vec<SetId> {
    let is_node = |member: &Member, node: &str| member.kind == MemberKind::Node && member.name == node;
    let is_own = |member: &Member| match own.who {
        // A pod in its node's network has the rules of the node.
        Who::Pod(pod) if snapshot.pods()[pod].host_network => {
            snapshot.pods()[pod].node.as_ref().is_some_and(|node| is_node(member, node))
        }
        Who::Pod(pod) => {
            let pod = &snapshot.pods()[pod];
            let kinds = matches!(member.kind, MemberKind::Pod | MemberKind::Entity);
            kinds && member.namespace == pod.namespace && member.name == pod.name
        }
        Who::Node(node) => is_node(member, &snapshot.nodes()[node].name),
        Who::Outside => false,
    };
    let sets = view.sets().iter().filter(|(_, set)| set.members.iter().any(|member| is_own(member)));
    sets.map(|(id, _)| *id).collect()
}

/// The set of a service, if some rule names it.
fn service(view: &View, snapshot: &Snapshot, via: usize) -> Option<SetId> {
    let service = &snapshot.services()[via];
    let is_member = |member: &Member| member.namespace == service.namespace && member.name == service.name;
    let mut sets = view.sets().iter().filter(|(_, set)| set.selection.kind() == SetKind::Service);
    sets.find(|(_, set)| set.members.iter().any(|member| is_member(member))).map(|(id, _)| *id)
}

fn classes(
    view: &View,
    index: &AddressIndex,
    subjects: &[SetId],
    direction: Direction,
    via: Option<SetId>,
) -> (Arc<RuleList>, PeerClasses) {
    let rules = subjects.iter().flat_map(|set| view.rule_ids_of(*set)).map(|id| &view.rules()[&id]);
    let mut rules: Vec<Arc<CompiledRule>> =
        rules.filter(|rule| rule.directions.contains(direction)).cloned().collect();
    rules.sort_by(|one, other| view.compare(one, other));
    let list = Arc::new(RuleList::new(rules, direction, Layer7Support::None));
    let via = via.filter(|via| list.sets().any(|set| set == *via));
    let shared = shared_conditions(&list, view);
    let sets = PeerSets::new(Arc::clone(&list), shared, view);
    let classes = PeerClasses::new(&sets, via, view, index, &mut Budget::unlimited());
    assert!(!classes.is_closed());
    (list, classes)
}

/// The point of a flow; a source port that the question leaves open is an ephemeral one.
fn point(flow: &Flow, to: IpAddr) -> Point {
    let mut point = Point::new(flow.traffic, !to.is_ipv4());
    if flow.traffic.source_port.is_none() && flow.traffic.protocol.has_ports() {
        point.sources = PortRange::single(40_000);
    }
    point
}

#[test]
fn one_rule_of_every_form_in_every_stage() {
    let (mut cluster, mut checked) = (Cluster::new(), 0);
    for case in cases(2) {
        let policies: Vec<Policy> = case.background.iter().chain([&case.policy]).cloned().collect();
        checked += cluster.agrees(&policies, |snapshot| match case.about {
            About::Ends => all_ends(snapshot, traffic()[0]),
            About::Traffic => all_traffic(snapshot),
        });
    }
    assert!(checked > 200_000, "{checked}");
}

#[test]
fn several_policies_of_any_form() {
    let (mut cluster, mut random, mut checked) = (Cluster::new(), Generator::new(6), 0);
    for _ in 0..200 {
        let policies = random.policies(8);
        let one = random.dice().one(&traffic());
        checked += cluster.agrees(&policies, |snapshot| {
            all_traffic(snapshot).into_iter().chain(all_ends(snapshot, one)).collect()
        });
    }
    assert!(checked > 50_000, "{checked}");
}

/// Every pair of rules over a small universe of traffic, in every pair of stages and with every pair of actions.
#[test]
fn every_pair_of_rules_over_few_kinds_of_traffic() {
    let tcp = |first, last| TrafficMatch::Ports(Protocol::Tcp, PortRange { first, last });
    let from = Box::new(PortMatch::Numbers(Protocol::Tcp, PortRange::single(80)));
    let matches = [
        vec![],
        vec![tcp(80, 80)],
        vec![tcp(0, 80), tcp(81, 90)],
        vec![TrafficMatch::From(PortRange { first: 4000, last: 4500 }, from)],
        vec![TrafficMatch::Icmp(IcmpMatch { kind: None, code: Some(1) })],
        vec![TrafficMatch::Icmp(IcmpMatch { kind: Some(3), code: None })],
        vec![TrafficMatch::Igmp(Some(0x16), Some("225.1.2.3".parse().unwrap()))],
    ];
    let traffic: Vec<TrafficMatches> =
        matches.into_iter().map(TrafficMatches::Of).chain([TrafficMatches::Any]).collect();
    let rules: Vec<(Placement, Action, &TrafficMatches)> = placements()
        .into_iter()
        .take(4)
        .flat_map(|placement| {
            let actions = if placement == Placement::Union { &ACTIONS[..1] } else { &ACTIONS[..] };
            actions.iter().map(move |action| (placement.clone(), *action))
        })
        .flat_map(|(placement, action)| {
            traffic.iter().map(move |traffic| (placement.clone(), action, traffic))
        })
        .collect();
    let flows = |snapshot: &Snapshot| -> Vec<Flow> {
        let to = |flow: &Flow| {
            let one = Who::Pod(snapshot.pod("x", "a").unwrap());
            let other = Who::Pod(snapshot.pod("x", "b").unwrap());
            let multicast = flow.destination.address.is_some_and(|to| to.is_multicast());
            flow.source.who == one && (flow.destination.who == other || multicast)
        };
        all_traffic(snapshot).into_iter().filter(to).collect()
    };
    let (mut cluster, mut checked) = (Cluster::new(), 0);
    for (at, (first, action, one)) in rules.iter().enumerate() {
        for (nth, (second, other_action, other)) in rules.iter().enumerate() {
            // Every pair of stages and actions, and every pair of traffic; of all combinations a fifth.
            if (at + 3 * nth) % 5 != 0 {
                continue;
            }
            let rule = |index, action, traffic: &TrafficMatches| {
                let parts = Parts { traffic: traffic.clone(), ..Parts::everything() };
                parts.rule(Direction::Egress, index, action)
            };
            let mut policies = vec![
                policy("one", first.clone(), vec![rule(0, *action, one)]),
                policy("other", second.clone(), vec![rule(1, *other_action, other)]),
            ];
            if at % 2 == 0 {
                policies.push(isolation("isolate", everybody(), Direction::Egress));
            }
            checked += cluster.agrees(&policies, flows);
        }
    }
    assert!(checked > 50_000, "{checked}");
}
