//! What a rule wants a connection to carry, kept once for all of its rows: the traffic that has numbers, and the ports that have
//! only names, for which ports.rs makes rows.

use palisade_model::pipeline::Effect;
use palisade_model::policy::{Layer7, PortMatch, Rule, TrafficMatch, TrafficMatches};
use palisade_model::resolve::ResolvedRule;
use palisade_model::traffic::{PortRange, Protocol, Traffic};
use smol_str::SmolStr;

/// What of a rule is the same in all of its rows.
#[derive(Debug, PartialEq)]
pub(crate) struct Carried {
    /// The traffic that needs no port's name to be looked up.
    traffic: TrafficMatches,
    pub(crate) named: Box<[Named]>,
    layer7: Vec<Layer7>,
    pub(crate) log: Option<SmolStr>,
    /// Rows of another edition are others, even if they name the same sets.
    edition: u32,
}

/// A port by name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Named {
    source: Option<PortRange>,
    pub(crate) protocol: Option<Protocol>,
    pub(crate) name: SmolStr,
}

// === impl Carried ===

impl Carried {
    /// Returns the traffic of a rule, with another edition if it differs from before. A rule without effect has no rows; its
    /// traffic is kept for when it gets some.
    pub(crate) fn new(rule: &Rule, resolved: Option<&ResolvedRule<'_>>, before: Option<&Carried>) -> Self {
        let mut carried = Carried::of(rule, resolved);
        if let Some(before) = before {
            carried.edition = before.edition;
            carried.edition += u32::from(carried != *before);
        }
        carried
    }

    fn of(rule: &Rule, resolved: Option<&ResolvedRule<'_>>) -> Self {
        let conditional = resolved.is_some_and(|resolved| resolved.effect == Effect::AllowTcp);
        let layer7 = if conditional { rule.layer7.clone() } else { Vec::new() };
        let all = match resolved.map(|resolved| resolved.traffic) {
            Some(TrafficMatches::Of(all)) => all,
            Some(TrafficMatches::Any) | None => {
                return Carried {
                    traffic: TrafficMatches::Any,
                    named: Box::default(),
                    layer7,
                    log: rule.log.clone(),
                    edition: 0,
                };
            }
        };
        let named = |one: &TrafficMatch| match one {
            TrafficMatch::Named(protocol, name) => {
                Some(Named { source: None, protocol: *protocol, name: name.clone() })
            }
            TrafficMatch::From(range, port) => match &**port {
                PortMatch::Named(protocol, name) => {
                    Some(Named { source: Some(*range), protocol: *protocol, name: name.clone() })
                }
                PortMatch::Numbers(..) => None,
            },
            TrafficMatch::Ports(..)
            | TrafficMatch::Icmp(_)
            | TrafficMatch::Igmp(..)
            | TrafficMatch::Unknown(_) => None,
        };
        // A name twice, or once for all protocols and once for one, is one.
        let mut names: Vec<Named> = Vec::new();
        for one in all.iter().filter_map(named) {
            let covers = |other: &Named| {
                (&other.name, other.source) == (&one.name, one.source)
                    && (other.protocol.is_none() || other.protocol == one.protocol)
            };
            if !names.iter().any(covers) {
                let redundant = |other: &Named| {
                    (&other.name, other.source) == (&one.name, one.source) && one.protocol.is_none()
                };
                names.retain(|other| !redundant(other));
                names.push(one);
            }
        }
        let plain = all.iter().filter(|one| named(one).is_none()).cloned().collect();
        Carried {
            traffic: TrafficMatches::Of(plain),
            named: names.into(),
            layer7,
            log: rule.log.clone(),
            edition: 0,
        }
    }

    /// Whether it matches something without looking up a port's name.
    pub(crate) fn has_plain(&self) -> bool {
        !matches!(&self.traffic, TrafficMatches::Of(all) if all.is_empty())
    }

    /// What a row is about: the traffic that has numbers, or what one of the names stands for.
    pub(crate) fn traffic_of(&self, port: Option<(u32, Protocol, u16)>) -> TrafficMatches {
        let Some((named, protocol, number)) = port else { return self.traffic.clone() };
        let port = PortMatch::Numbers(protocol, PortRange::single(number));
        TrafficMatches::Of(vec![match self.named[named as usize].source {
            Some(source) => TrafficMatch::From(source, Box::new(port)),
            None => port.into(),
        }])
    }

    pub(crate) fn traffic(&self) -> &TrafficMatches {
        &self.traffic
    }

    pub(crate) fn conditions(&self) -> &[Layer7] {
        &self.layer7
    }

    pub(crate) fn edition(&self) -> u32 {
        self.edition
    }
}

// === impl Named ===

impl Named {
    /// Whether a connection comes from a source port that is meant. One that says nothing may come from any of those
    /// that hosts use.
    pub(crate) fn may_come_from(&self, traffic: Traffic) -> bool {
        let asked = traffic.source_port.map_or(PortRange::EPHEMERAL, PortRange::single);
        self.source.is_none_or(|range| range.contains(asked.first) && range.contains(asked.last))
    }
}
