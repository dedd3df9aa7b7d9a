//! Peers and ports of a rule as NetworkPolicy and Antrea write them: two lists, of which an absent one matches everything.

use palisade_dialects::kubernetes::write::rules as write;
use palisade_dialects::written::Written;
use palisade_model::policy::{Peer, Rule, TrafficMatch};

use super::inexpressible::Inexpressible;
use super::output::PolicyScope;
use super::{codes, normalize};

/// Entries of a list; `None` matches everything.
type Entries = Option<Vec<Written>>;

/// Writes the peers and the ports of a rule. `None` where the rule matches nothing: an empty list would match everything.
pub(super) fn peers_and_ports(
    scope: &mut PolicyScope<'_, '_>,
    rule: &Rule,
    peer: impl Fn(&Peer) -> Result<Vec<Written>, Inexpressible>,
) -> Option<(Entries, Entries)> {
    let peers = normalize::peers(scope, rule).filter(|peers| !normalize::are_everything(peers));
    let peers = peers.map(|all| {
        let mut written = Vec::new();
        for one in &all {
            match peer(one) {
                Ok(entries) => written.extend(entries),
                Err(reason) => {
                    let field = normalize::peer_field(rule.direction);
                    scope.refuse(&codes::PEER, Some(rule), field, reason.to_string());
                }
            }
        }
        written
    });
    let ports = normalize::traffic(rule).map(|all| {
        let mut written = Vec::new();
        for one in normalize::split_named_ports(&all) {
            match write::port(&one) {
                Some(entry) => written.push(entry),
                None => refuse_traffic(scope, rule, &one),
            }
        }
        written
    });
    if [&peers, &ports].into_iter().flatten().any(Vec::is_empty) {
        if !scope.has_failed() {
            let message = "the rule matches nothing and is left out".to_owned();
            scope.report(&codes::NO_EFFECT, Some(rule), "", message);
        }
        return None;
    }
    Some((peers, ports))
}

fn refuse_traffic(scope: &mut PolicyScope<'_, '_>, rule: &Rule, traffic: &TrafficMatch) {
    let reason = format!("{traffic}: there are no words for it there");
    scope.refuse(&codes::TRAFFIC, Some(rule), normalize::traffic_field(traffic), reason);
}
