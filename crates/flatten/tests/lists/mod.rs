//! Rules and lists without a cluster.

#![allow(dead_code)]

use std::num::NonZeroU32;
use std::sync::Arc;

use palisade_engine::delta::{CompiledRule, Directions, PolicyId, RuleEffect, SetId};
use palisade_flatten::{FlatVerdicts, Scope};
use palisade_model::pipeline::Effect;
use palisade_model::policy::{Direction, Priority, TrafficMatches};
use palisade_model::resolve::Rank;
use palisade_model::snapshot::Stage;
use palisade_model::traffic::{PortRange, Protocol};
use palisade_model::traffic_set::Addressing;

/// A rule about every peer.
pub fn rule(index: u32, stage: Stage, effect: RuleEffect, traffic: TrafficMatches) -> Arc<CompiledRule> {
    Arc::new(CompiledRule {
        policy: PolicyId::new(NonZeroU32::MIN),
        rule: Some(index),
        directions: Directions::from(Direction::Ingress),
        rank: Rank { stage, placed: true, tier: 10, priority: Priority(1.0), index },
        effect,
        subject: SetId::new(NonZeroU32::MIN),
        peers: None,
        destination: None,
        traffic,
        layer7: Vec::new(),
        log: None,
    })
}

/// A rule of the tiers about every peer.
pub fn tier_rule(index: u32, effect: Effect, traffic: TrafficMatches) -> Arc<CompiledRule> {
    rule(index, Stage::Tiers, RuleEffect::Decide(effect), traffic)
}

/// Fails unless the table is one: columns that do not overlap and cover their protocol, runs that cover their column and differ
/// from their neighbours, pieces that hold each place once.
pub fn check(table: &FlatVerdicts) {
    for column in table.columns() {
        assert_eq!(column.runs[0].first, 0, "{table:#?}");
        for pair in column.runs.windows(2) {
            assert!(pair[0].first < pair[1].first && pair[0].decision != pair[1].decision, "{table:#?}");
        }
    }
    for protocol in [Protocol::Tcp, Protocol::Udp, Protocol::Sctp] {
        let columns = table.columns().iter().filter(|column| column.scope.protocol() == protocol);
        let sources: Vec<PortRange> = columns.map(|column| column.scope.sources()).collect();
        let Some(last) = sources.last() else { continue };
        assert_eq!((sources[0].first, last.last), (0, u16::MAX), "{table:#?}");
        assert!(sources.windows(2).all(|pair| pair[0].last + 1 == pair[1].first), "{table:#?}");
    }
    let igmp = table.columns().iter().filter(|column| column.scope.protocol() == Protocol::Igmp);
    let igmp: Vec<Scope> = igmp.map(|column| column.scope).collect();
    let by_addressing = [Addressing::OtherGroup, Addressing::Host].map(|to| Scope::Igmp(Some(to)));
    match &igmp[..] {
        [] => {}
        [one] => assert_eq!(*one, Scope::Igmp(None), "{table:#?}"),
        many => {
            assert!(many.ends_with(&by_addressing), "{table:#?}");
            assert!((1..many.len()).all(|index| !many[..index].contains(&many[index])), "{table:#?}");
        }
    }
    let pieces: Vec<_> = table.pieces().collect();
    let places: usize = pieces.iter().map(|piece| usize::from(piece.places.1 - piece.places.0) + 1).sum();
    assert_eq!(places, table.columns().len() << 16, "{table:#?}");
}
