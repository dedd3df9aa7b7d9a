//! Rules for all of IPv4 that forget IPv6.

use palisade_model::address::Family;
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::policy::{Action, Peer, Peers};
use palisade_model::snapshot::Snapshot;

use super::about_rule;

/// The code.
pub static ONE_FAMILY: Code = Code {
    id: "L0105",
    severity: Severity::Warning,
    title: "0.0.0.0/0 without ::/0",
    explanation: "`0.0.0.0/0` is every IPv4 address and no IPv6 address. In a dual-stack cluster a rule that allows it leaves IPv6 closed, and one that denies it leaves IPv6 **open**. Add a peer with `::/0`, or, where everybody is meant, leave the peers out.",
};

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    for policy in snapshot.policies() {
        for rule in &policy.rules {
            let Peers::Of(peers) = &rule.peers else { continue };
            let all_of = |family| {
                let whole = move |peer: &Peer| matches!(peer, Peer::Addresses(block) if block.family() == family && block.cidr().prefix_len() == 0);
                peers.iter().any(whole)
            };
            if all_of(Family::V4) && !all_of(Family::V6) {
                let effect = match rule.action {
                    Action::Allow => "IPv6 stays closed",
                    Action::Deny | Action::Reject => "IPv6 is not denied",
                    Action::Pass => "IPv6 is not passed",
                };
                let message = format!("0.0.0.0/0 is IPv4 only: {effect}");
                found.push(about_rule(&ONE_FAMILY, policy, rule, "", message).help("add a peer with ::/0"));
            }
        }
    }
}
