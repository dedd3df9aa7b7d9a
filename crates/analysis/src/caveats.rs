//! What an answer about all connections cannot tell, because a rule depends on more than addresses, protocols and ports:
//! DNS names whose addresses nobody gave, and what a connection carries (layer 7).
//!
//! Only the facts are here: how they are said is the printers' business.

use std::collections::BTreeSet;

use palisade_model::policy::{Action, DomainName, Peer, Peers, Rule};
use palisade_model::snapshot::Snapshot;

use crate::reach::RuleAt;

/// A rule that an answer depends on more than it can tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caveat {
    /// It is about names, and none of these is known to stand for any address: it matches nothing of what they stand for.
    Names {
        /// Which rule.
        rule: RuleAt,
        /// The names.
        names: Vec<DomainName>,
    },
    /// It allows on condition: what it lets through depends on what a connection carries.
    Layer7 {
        /// Which rule.
        rule: RuleAt,
    },
}

// === impl Caveat ===

impl Caveat {
    /// Which rule.
    pub fn rule(&self) -> RuleAt {
        match self {
            Caveat::Names { rule, .. } | Caveat::Layer7 { rule } => *rule,
        }
    }
}

/// Those of some rules, each once, in the order of the policies.
pub fn of(snapshot: &Snapshot, rules: impl IntoIterator<Item = RuleAt>) -> Vec<Caveat> {
    let rules: BTreeSet<RuleAt> = rules.into_iter().collect();
    let mut found = Vec::new();
    for at in rules {
        let rule = &snapshot.policies()[at.policy].rules[at.rule];
        // What cannot be read fails closed, whatever else it says.
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

/// Whether what a rule allows it allows on condition.
pub fn is_conditional(rule: &Rule) -> bool {
    rule.action == Action::Allow && !rule.layer7.is_empty()
}

/// The names of a rule that no known name is meant by.
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
