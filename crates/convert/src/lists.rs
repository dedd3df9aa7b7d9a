//! What NetworkPolicy and Antrea say alike: peers and ports of a rule as lists, of which an empty one is everything.

use palisade_dialects::kubernetes::write::rules as write;
use palisade_dialects::written::Written;
use palisade_model::policy::{Direction, Peer, Rule, TrafficMatch};

use super::conversion::Conversion;
use super::speech::Speech;
use super::{codes, ends};

/// Words for each; none is everything.
type List = Option<Vec<Written>>;

/// The peers and the ports of a rule in a dialect in which both are lists, and no list is everybody, or every port. None where it
/// matches nothing, for which an empty list would be no word.
pub(super) fn said(
    conversion: &Conversion<'_>,
    origin: usize,
    rule: &Rule,
    peer: impl Fn(&Peer) -> Result<Vec<Written>, String>,
    speech: &mut Speech,
) -> Option<(List, List)> {
    let field = if rule.direction == Direction::Ingress { ".from" } else { ".to" };
    let outward = ends::peers(conversion, origin, rule, speech).filter(|peers| !ends::are_everybody(peers));
    let peers = outward.map(|all| {
        let mut said = Vec::new();
        for one in &all {
            match peer(one) {
                Ok(words) => said.extend(words),
                Err(why) => speech.cannot(&codes::PEER, conversion, origin, Some(rule), field, why),
            }
        }
        said
    });
    let ports = ends::traffic(rule).map(|all| {
        let mut said = Vec::new();
        for one in ends::names_by_protocol(&all) {
            match write::port(&one) {
                Some(words) => said.push(words),
                None => not_a_port(conversion, origin, rule, &one, speech),
            }
        }
        said
    });
    if [&peers, &ports].into_iter().flatten().any(Vec::is_empty) {
        if !speech.failed.contains(&origin) {
            let message = "the rule matches nothing and is left out".to_owned();
            speech.note(&codes::NO_EFFECT, conversion, origin, Some(rule), "", message);
        }
        return None;
    }
    Some((peers, ports))
}

/// Says that traffic is no port.
fn not_a_port(
    conversion: &Conversion<'_>,
    origin: usize,
    rule: &Rule,
    one: &TrafficMatch,
    speech: &mut Speech,
) {
    let part = match one {
        TrafficMatch::Icmp(..) | TrafficMatch::Igmp(..) => ".protocols",
        _ => ".ports",
    };
    let why = format!("{one}: there are no words for it there");
    speech.cannot(&codes::TRAFFIC, conversion, origin, Some(rule), part, why);
}
