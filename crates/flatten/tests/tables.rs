//! Tables of lists without a cluster: each place gets what the pipeline decides for a single connection, the forms that data
//! planes read agree with the table, and tables compare as their connections do.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod lists;

use std::net::IpAddr;
use std::sync::Arc;

use palisade_engine::delta::{CompiledRule, RuleEffect};
use palisade_flatten::{Budget, Decision, FlatVerdicts, Layer7Support, RuleList};
use palisade_model::pipeline::{Effect, Stages, verdict};
use palisade_model::policy::{Direction, IcmpMatch, PortMatch, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::Stage;
use palisade_model::trace::Verdict;
use palisade_model::traffic::{PortRange, Protocol};
use palisade_model::traffic_set::{Addressing, Point, Receiver};
use palisade_testing::dice::Dice;

use lists::{check, rule, tier_rule};

const EFFECTS: [Effect; 5] = [Effect::Allow, Effect::Deny, Effect::Reject, Effect::Pass, Effect::AllowTcp];

/// A receiver without named ports.
struct At(Addressing);

impl Receiver for At {
    fn port_named(&self, _: &str, _: Protocol) -> Option<u16> {
        None
    }

    fn addressing(&self) -> Addressing {
        self.0
    }
}

fn group(last: u8) -> IpAddr {
    IpAddr::from([225, 0, 0, last])
}

/// Traffic that overlaps in many ways: few ports, source ports, types, codes and groups.
fn traffic(dice: &mut Dice) -> TrafficMatches {
    let range = |dice: &mut Dice| {
        let first = u16::try_from(dice.roll(6)).unwrap();
        PortRange { first, last: [first, first + 2, u16::MAX][dice.roll(3)] }
    };
    let number = |dice: &mut Dice| [None, Some(0), Some(3), Some(255)][dice.roll(4)];
    let mut all = Vec::new();
    for _ in 0..dice.roll(4) {
        let protocol = dice.one(&[Protocol::Tcp, Protocol::Udp, Protocol::Sctp, Protocol::Icmp]);
        all.push(match dice.roll(6) {
            0 => return TrafficMatches::Any,
            1 | 2 => TrafficMatch::Ports(protocol, range(dice)),
            3 => TrafficMatch::From(range(dice), Box::new(PortMatch::Numbers(protocol, range(dice)))),
            4 => TrafficMatch::Icmp(IcmpMatch { kind: number(dice), code: number(dice) }),
            _ => {
                let groups = [None, Some(group(1)), Some(group(2)), Some("ff02::1".parse().unwrap())];
                TrafficMatch::Igmp(number(dice), dice.one(&groups))
            }
        });
    }
    TrafficMatches::Of(all)
}

fn rules(dice: &mut Dice) -> Vec<Arc<CompiledRule>> {
    let mut rules: Vec<(Stage, RuleEffect)> = Vec::new();
    for stage in [Stage::Tiers, Stage::NetworkPolicy, Stage::Baseline] {
        for _ in 0..dice.roll(5) {
            rules.push(match (stage, dice.roll(4)) {
                (Stage::NetworkPolicy, 0) => (stage, RuleEffect::Isolate),
                (Stage::NetworkPolicy, _) => (stage, RuleEffect::Decide(Effect::Allow)),
                _ => (stage, RuleEffect::Decide(dice.one(&EFFECTS))),
            });
        }
    }
    let rules = (0..).zip(rules).map(|(index, (stage, effect))| {
        let traffic = if effect == RuleEffect::Isolate { TrafficMatches::Any } else { traffic(dice) };
        rule(index, stage, effect, traffic)
    });
    rules.collect()
}

/// Every place where something can change, and its neighbours.
fn points() -> Vec<(Point, Addressing)> {
    let ports = [0, 1, 2, 3, 4, 5, 6, 7, 8, u16::MAX];
    let mut points = Vec::new();
    for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
        for source in ports {
            let sources = PortRange::single(source);
            points.extend(ports.map(|place| (Point { protocol, place, sources }, Addressing::Host)));
        }
    }
    for kind in [0, 1, 3, 4, 255] {
        let codes = [0, 1, 3, 4, 254, 255].map(|code| u16::from_be_bytes([kind, code]));
        let sources = PortRange::ALL;
        points.extend(
            codes.map(|place| (Point { protocol: Protocol::Icmp, place, sources }, Addressing::Host)),
        );
    }
    let to =
        [Addressing::Host, Addressing::OtherGroup, Addressing::Group(group(1)), Addressing::Group(group(2))];
    for addressing in to.into_iter().chain([Addressing::Group(group(3))]) {
        let places = [0, 1, 3, 255, 256];
        let sources = PortRange::ALL;
        points.extend(places.map(|place| (Point { protocol: Protocol::Igmp, place, sources }, addressing)));
    }
    points
}

/// The verdict about one connection, by the pipeline for single ones.
fn single(
    rules: &[Arc<CompiledRule>],
    layer7: Layer7Support,
    point: Point,
    addressing: Addressing,
) -> Verdict {
    let of = |stage: Stage| {
        rules.iter().filter(move |rule| rule.rank.stage == stage).filter_map(move |rule| match rule.effect {
            RuleEffect::Isolate => None,
            RuleEffect::Decide(Effect::AllowTcp) if layer7 == Layer7Support::None => {
                Some((rule, Effect::Deny))
            }
            RuleEffect::Decide(effect) => Some((rule, effect)),
        })
    };
    let stages = Stages {
        tiers: of(Stage::Tiers),
        isolated: rules.iter().any(|rule| rule.effect == RuleEffect::Isolate),
        allows: of(Stage::NetworkPolicy).map(|(rule, _)| rule),
        baseline: of(Stage::Baseline),
    };
    let receiver = At(addressing);
    verdict(point.protocol == Protocol::Tcp, stages, |rule| rule.traffic.covers(point, &receiver))
}

fn flat(rules: &[Arc<CompiledRule>], layer7: Layer7Support) -> FlatVerdicts {
    RuleList::new(rules.to_vec(), Direction::Ingress, layer7).flatten(&[], &mut Budget::unlimited())
}

#[test]
fn each_place_gets_what_a_single_connection_gets() {
    let mut dice = Dice(3);
    let points = points();
    for _ in 0..3_000 {
        let rules = rules(&mut dice);
        for layer7 in [Layer7Support::None, Layer7Support::Proxy] {
            let list = RuleList::new(rules.clone(), Direction::Ingress, layer7);
            let table = list.flatten(&[], &mut Budget::unlimited());
            check(&table);
            for (point, addressing) in &points {
                let expected = single(&rules, layer7, *point, *addressing);
                let decision = table.decision(*point, *addressing);
                assert_eq!(decision.verdict, expected, "{point:?} {addressing:?}\n{table:#?}\n{rules:#?}");
                if let Some(decider) = decision.rule {
                    let decider = &list.rules()[decider as usize];
                    let isolates = decider.effect == RuleEffect::Isolate;
                    assert!(
                        isolates || decider.traffic.covers(*point, &At(*addressing)),
                        "{point:?}\n{rules:#?}"
                    );
                }
            }
        }
    }
}

#[test]
fn icmp_and_igmp_lists_say_what_the_table_says() {
    let mut dice = Dice(4);
    let mut listed = 0;
    for _ in 0..1_000 {
        let table = flat(&rules(&mut dice), Layer7Support::None);
        if let Some(icmp) = table.icmp() {
            listed += icmp.listed.len();
            for place in 0..=u16::MAX {
                let [kind, code] = place.to_be_bytes();
                let first = icmp.listed.iter().find(|(matched, _)| matched.contains(kind, code));
                let decision = first.map_or(icmp.other, |(_, decision)| *decision);
                let point = Point { protocol: Protocol::Icmp, place, sources: PortRange::ALL };
                assert_eq!(decision, table.decision(point, Addressing::Host), "{kind} {code}\n{table:#?}");
            }
        }
        for (point, addressing) in points() {
            if point.protocol != Protocol::Igmp || point.place > 255 {
                continue;
            }
            let is_group = addressing != Addressing::Host;
            let first = table.igmp().into_iter().find(|entry| {
                let kind = entry.kind.is_none_or(|kind| u16::from(kind) == point.place);
                kind && match entry.to {
                    None | Some(Addressing::Host) => true,
                    Some(Addressing::OtherGroup) => is_group,
                    Some(own) => own == addressing,
                }
            });
            let decision = first.map_or(table.rest(), |entry| entry.decision);
            assert_eq!(decision, table.decision(point, addressing), "{point:?} {addressing:?}\n{table:#?}");
        }
    }
    assert!(listed > 500, "{listed}");
}

#[test]
fn a_table_is_within_another_if_its_connections_are() {
    let mut dice = Dice(5);
    let points = points();
    let (mut within, mut beyond) = (0, 0);
    for _ in 0..3_000 {
        let [one, other] = [0; 2].map(|_| {
            // Half of the tables deny by default: else nearly all allow something of the rest.
            let mut rules = rules(&mut dice);
            if dice.roll(2) == 0 {
                let last = rule(99, Stage::Baseline, RuleEffect::Decide(Effect::Deny), TrafficMatches::Any);
                rules.push(last);
            }
            flat(&rules, Layer7Support::None)
        });
        let allows = |table: &FlatVerdicts, (point, to): &(Point, Addressing)| {
            table.decision(*point, *to).verdict == Verdict::Allow
        };
        let fine = |decision: Decision, other: Decision| {
            decision.verdict != Verdict::Allow || other.verdict == Verdict::Allow
        };
        let expected = fine(one.rest(), other.rest())
            && points.iter().all(|point| !allows(&one, point) || allows(&other, point));
        assert_eq!(one.is_within(&other), expected, "{one:#?}\n{other:#?}");
        assert!(FlatVerdicts::closed().is_within(&one) && one.is_within(&one));
        within += usize::from(expected);
        beyond += usize::from(!expected);
    }
    assert!(within > 100 && beyond > 100, "{within} {beyond}");
}

/// Tables depend on verdicts and deciders, not on how traffic is written.
#[test]
fn equal_verdicts_are_equal_tables() {
    let ports = |ranges: &[(u16, u16)]| {
        let ports = ranges.iter().map(|(first, last)| PortRange { first: *first, last: *last });
        TrafficMatches::Of(ports.map(|range| TrafficMatch::Ports(Protocol::Tcp, range)).collect())
    };
    let from = |first, last| {
        let port = Box::new(PortMatch::Numbers(Protocol::Tcp, PortRange { first: 80, last: 90 }));
        TrafficMatch::From(PortRange { first, last }, port)
    };
    let all = [
        ports(&[(80, 90)]),
        ports(&[(85, 90), (80, 84)]),
        ports(&[(80, 90), (81, 81), (88, 90)]),
        TrafficMatches::Of(vec![from(0, 999), from(1000, u16::MAX)]),
    ];
    let tables = all.map(|traffic| flat(&[tier_rule(0, Effect::Deny, traffic)], Layer7Support::None));
    for table in &tables {
        assert_eq!(*table, tables[0]);
        assert_eq!(table.digest(), tables[0].digest());
    }
    let every = TrafficMatches::Of(
        (0..=255).map(|kind| TrafficMatch::Icmp(IcmpMatch { kind: Some(kind), code: None })).collect(),
    );
    let any = TrafficMatches::Of(vec![TrafficMatch::Icmp(IcmpMatch::ANY)]);
    let [every, any] =
        [every, any].map(|traffic| flat(&[tier_rule(0, Effect::Deny, traffic)], Layer7Support::None));
    assert_eq!(every, any);
}

/// A list of 10,000 rules with 100,000 port ranges is flattened in time that is nearly linear, and counted so.
#[test]
fn work_grows_with_intervals_and_not_with_their_product() {
    let steps = |rules: usize| {
        let rules: Vec<Arc<CompiledRule>> = (0..rules)
            .map(|index| {
                let ranges = (0..10).map(|nth| {
                    let first = u16::try_from((index * 7 + nth * 997) % 6000).unwrap();
                    TrafficMatch::Ports(Protocol::Tcp, PortRange { first, last: first + 500 })
                });
                let effect = [Effect::Allow, Effect::Deny, Effect::Pass][index % 3];
                tier_rule(u32::try_from(index).unwrap(), effect, TrafficMatches::Of(ranges.collect()))
            })
            .collect();
        let list = RuleList::new(rules, Direction::Ingress, Layer7Support::None);
        let mut budget = Budget::unlimited();
        let table = list.flatten(&[], &mut budget);
        assert!(!table.is_closed());
        check(&table);
        u64::MAX - budget.left()
    };
    let (small, large) = (steps(1_000), steps(10_000));
    assert!(large < small * 12, "{small} {large}");
}

#[test]
fn too_many_entries_deny_everything() {
    let ports = (0..25_000).map(|port| TrafficMatch::Ports(Protocol::Tcp, PortRange::single(port * 2)));
    let rules = [tier_rule(0, Effect::Allow, TrafficMatches::Of(ports.collect()))];
    let deny = tier_rule(1, Effect::Deny, TrafficMatches::Any);
    let table = flat(&[rules[0].clone(), deny.clone()], Layer7Support::None);
    assert!(table.is_closed() && table.rest().verdict == Verdict::Deny && table.columns().is_empty());
    let mut budget = palisade_flatten::Limit::fixed(1_000).left(0, 0);
    let list = RuleList::new(vec![rules[0].clone(), deny], Direction::Ingress, Layer7Support::None);
    assert!(list.flatten(&[], &mut budget).is_closed() && budget.is_spent());
}
