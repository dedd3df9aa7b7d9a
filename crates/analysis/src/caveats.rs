//! Caveats of answers about all connections: rules that depend on unresolved DNS names, or on layer 7.
//!
//! These are facts; printers describe them.

use std::collections::BTreeSet;

use palisade_model::policy::{Action, DomainName, Peer, Peers, Rule};
use palisade_model::snapshot::Snapshot;

use crate::reach::RuleAt;

/// A rule whose effect an answer cannot determine completely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caveat {
    /// Names of the rule are unresolved: here it does not match the addresses that they stand for.
    Names {
        /// The rule that has the caveat.
        rule: RuleAt,
        /// Names without known addresses.
        names: Vec<DomainName>,
    },
    /// The rule allows on a layer-7 condition, which depends on the content of a connection.
    Layer7 {
        /// The rule that has the caveat.
        rule: RuleAt,
    },
}

// === impl Caveat ===

impl Caveat {
    /// Returns the rule that has the caveat.
    pub fn rule(&self) -> RuleAt {
        match self {
            Caveat::Names { rule, .. } | Caveat::Layer7 { rule } => *rule,
        }
    }
}

/// Returns the caveats of rules, each once, in the order of the policies.
pub fn of(snapshot: &Snapshot, rules: impl IntoIterator<Item = RuleAt>) -> Vec<Caveat> {
    let rules: BTreeSet<RuleAt> = rules.into_iter().collect();
    let mut found = Vec::new();
    for at in rules {
        let rule = &snapshot.policies()[at.policy].rules[at.rule];
        // An unparsable rule fails closed, without caveats.
        if rule.unknown().is_some() {
            continue;
        }
        let names = unknown_names(snapshot, rule);
        if !names.is_empty() {
            found.push(Caveat::Names { rule: at, names });
        }
        if is_conditional(rule) {
            found.push(Caveat::Layer7 { rule: at });
        }
    }
    found
}

/// Whether a rule allows on a layer-7 condition.
pub fn is_conditional(rule: &Rule) -> bool {
    rule.action == Action::Allow && !rule.layer7.is_empty()
}

/// Returns the names of a rule that match no known name.
fn unknown_names(snapshot: &Snapshot, rule: &Rule) -> Vec<DomainName> {
    let Peers::Of(peers) = &rule.peers else { return Vec::new() };
    let is_known = |name: &DomainName| {
        let mut known = snapshot.named_addresses().flat_map(|address| snapshot.names_of(address));
        known.any(|known| name.matches(known))
    };
    let named = peers.iter().flat_map(|peer| match peer {
        Peer::Names(names) => names.as_slice(),
        _ => &[],
    });
    named.filter(|name| !is_known(name)).cloned().collect()
}
