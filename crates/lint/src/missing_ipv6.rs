//! Lint for rules with all of IPv4 and none of IPv6.

use palisade_model::address::Family;
use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::policy::{Action, Peer, Peers, Rule};
use palisade_model::snapshot::Snapshot;

use super::about_rule;

/// A rule with `0.0.0.0/0` and without `::/0`.
pub static ONE_FAMILY: Code = Code {
    id: "L0105",
    severity: Severity::Warning,
    title: "0.0.0.0/0 without ::/0",
    explanation: "`0.0.0.0/0` is every IPv4 address and no IPv6 address. In a dual-stack cluster a rule that allows it leaves IPv6 closed, and one that denies it leaves IPv6 **open**. Add a peer with `::/0`, or, where everybody is meant, leave the peers out.",
};

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    for policy in snapshot.policies() {
        for rule in policy.rules.iter().filter(|rule| has_whole_family(rule, Family::V4)) {
            // The other family may well have a rule of its own.
            let beside =
                policy.rules.iter().filter(|r| r.direction == rule.direction && r.action == rule.action);
            if beside.into_iter().any(|rule| has_whole_family(rule, Family::V6)) {
                continue;
            }
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

/// Whether a peer of the rule is a block of every address of a family.
fn has_whole_family(rule: &Rule, family: Family) -> bool {
    let all = |peer: &Peer| match peer {
        Peer::Addresses(block) => block.family() == family && block.cidr().prefix_len() == 0,
        _ => false,
    };
    matches!(&rule.peers, Peers::Of(peers) if peers.iter().any(all))
}
