//! Digests stay what they are: kernel objects are named by them, and an update of the program must not rename them.
//!
//! The encodings are specified in `src/digest.rs`. A test that fails here means that the encoding has changed: give it a new
//! version if that is intended, and new digests.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod lists;

use std::sync::Arc;

use palisade_engine::Engine;
use palisade_engine::delta::{CompiledRule, RuleEffect};
use palisade_flatten::digest::Encoder;
use palisade_flatten::{Budget, Digest, FlatVerdicts, Layer7Support, RuleDigests, RuleList};
use palisade_model::event::{Event, Item};
use palisade_model::pipeline::Effect;
use palisade_model::policy::{Direction, IcmpMatch, PortMatch, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::Stage;
use palisade_model::traffic::{PortRange, Protocol};
use palisade_testing::cases::cases;
use palisade_testing::universe::{items, objects};

use lists::{rule, tier_rule};

fn traffic() -> TrafficMatches {
    let range = PortRange { first: 80, last: 90 };
    TrafficMatches::Of(vec![
        TrafficMatch::Ports(Protocol::Tcp, range),
        TrafficMatch::From(PortRange::single(53), Box::new(PortMatch::Numbers(Protocol::Udp, range))),
        TrafficMatch::Icmp(IcmpMatch { kind: Some(8), code: None }),
        TrafficMatch::Igmp(Some(0x16), Some("225.1.2.3".parse().unwrap())),
    ])
}

fn flat(rules: Vec<Arc<CompiledRule>>) -> FlatVerdicts {
    let list = RuleList::new(rules, Direction::Ingress, Layer7Support::None);
    list.flatten(&[], &mut Budget::unlimited())
}

/// The digest of a text, written out as the module of the digests specifies it.
fn written(lines: &[&str]) -> Digest {
    let mut encoder = Encoder::new(lines[0]);
    lines[1..].iter().for_each(|line| encoder.line(format_args!("{line}")));
    encoder.finish()
}

#[test]
fn encodings_are_those_that_are_specified() {
    let isolate = rule(1, Stage::NetworkPolicy, RuleEffect::Isolate, TrafficMatches::Any);
    let table = flat(vec![tier_rule(0, Effect::Allow, traffic()), isolate]);
    let lines = [
        "flat-verdicts 1",
        "rest deny by 1",
        "tcp 0-65535",
        "0 deny by 1",
        "80 allow by 0",
        "91 deny by 1",
        "udp 0-52",
        "0 deny by 1",
        "udp 53-53",
        "0 deny by 1",
        "80 allow by 0",
        "91 deny by 1",
        "udp 54-65535",
        "0 deny by 1",
        "icmp",
        "0 deny by 1",
        "2048 allow by 0",
        "2304 deny by 1",
        "igmp 225.1.2.3",
        "0 deny by 1",
        "22 allow by 0",
        "23 deny by 1",
        "igmp other-group",
        "0 deny by 1",
        "igmp host",
        "0 deny by 1",
        "22 allow by 0",
        "23 deny by 1",
    ];
    assert_eq!(table.digest(), written(&lines), "{table:#?}");
    assert_eq!(FlatVerdicts::closed().digest(), written(&["flat-verdicts 1", "closed"]));

    let view = Engine::default().view();
    let digests = RuleDigests::new(&tier_rule(3, Effect::AllowTcp, traffic()), &view);
    let shape = [
        "rule-shape 1",
        "stage tiers",
        "effect allow-tcp",
        "peers any",
        "destination any",
        "traffic 4",
        "tcp 80-90",
        "from 53-53",
        "udp 80-90",
        "icmp 8 none",
        "igmp 22 225.1.2.3",
        "layer7 no",
    ];
    assert_eq!(digests.shape, written(&shape));
    let shape = format!("shape {}", digests.shape);
    let rank = "rank tiers true 10 3ff0000000000000 3";
    assert_eq!(digests.whole, written(&["rule 1", rank, "object none", "rule 3", "log none", &shape]));
}

/// Worked out without this program: SHA-256 of the text, the first 24 digits.
#[test]
fn digests_are_pinned() {
    assert_eq!(FlatVerdicts::closed().digest().to_string(), "6b95803b25fa8b4b27f74104");
    let view = Engine::default().view();
    let rule = RuleDigests::new(&tier_rule(0, Effect::Deny, traffic()), &view);
    assert_eq!(rule.shape.to_string(), "19c0f948c7815aa1e07b67f3");
    assert_eq!(rule.whole.to_string(), "d9706cb3736db44daa3b4827");
    assert_eq!(
        flat(vec![tier_rule(0, Effect::Deny, traffic())]).digest().to_string(),
        "f483410a951e373788ee9ee1"
    );
    assert_eq!(Digest::of_list([rule.whole, rule.shape]).to_string(), "412439bb4a357f0b4ac8646a");
}

/// Rules of every form: equal digests only for rules that match and do the same.
#[test]
fn different_rules_have_different_shapes() {
    let mut engine = Engine::default();
    for item in items(objects([])) {
        engine.apply(Event::Apply(item));
    }
    let mut seen: Vec<(Digest, Arc<CompiledRule>)> = Vec::new();
    for case in cases(1) {
        let item = Item::Policy(case.policy.clone());
        let key = item.key();
        engine.apply(Event::Apply(item));
        let view = engine.view();
        seen.extend(
            view.rules().values().map(|rule| (RuleDigests::new(rule, &view).shape, Arc::clone(rule))),
        );
        engine.apply(Event::Delete(key));
    }
    assert!(seen.len() > 300, "{}", seen.len());
    seen.sort_by_key(|(digest, _)| *digest);
    let mut different = 0;
    for pair in seen.windows(2) {
        let [(digest, one), (next, other)] = pair else { continue };
        let same = |one: &CompiledRule, other: &CompiledRule| {
            let parts = |rule: &CompiledRule| {
                (rule.rank.stage, rule.effect, rule.peers.is_some(), rule.destination.is_some())
            };
            parts(one) == parts(other)
                && one.traffic == other.traffic
                && one.layer7.is_empty() == other.layer7.is_empty()
        };
        match digest == next {
            true => assert!(same(one, other), "{one:#?}\n{other:#?}"),
            false => different += 1,
        }
    }
    assert!(different > 100, "{different}");
}
