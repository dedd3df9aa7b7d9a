//! What has been counted, by the rule that decided.

use std::collections::BTreeMap;

use palisade_nftables::kernel::{Count, Counts};
use palisade_nftables::program::{Name, Program};
use serde::{Deserialize, Serialize};

/// Who decides, where a counter counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decider {
    /// The policy, e.g. `NetworkPolicy shop/db`; `no policy` where none decides.
    pub policy: String,
    /// `egress` or `ingress`.
    pub direction: String,
    /// The rule's index in its direction; none where a policy's isolation decides.
    pub rule: Option<u32>,
    /// `allowed`, `denied` or `rejected`.
    pub verdict: String,
}

/// Who decides at each counter of a program.
pub fn deciders(program: &Program) -> BTreeMap<Name, Decider> {
    let rules = program.chains.values().flat_map(|chain| &chain.rules);
    let counted = rules.filter_map(|rule| {
        let (counter, comment) = (rule.counter.as_ref()?, rule.comment.as_ref()?);
        Some((counter.clone(), Decider::of(comment)?))
    });
    counted.collect()
}

/// What has been counted by each decider; zero where nothing was.
pub fn by_decider(deciders: &BTreeMap<Name, Decider>, counts: &Counts) -> BTreeMap<Decider, Count> {
    let mut all: BTreeMap<Decider, Count> = BTreeMap::new();
    for (counter, decider) in deciders {
        let count = counts.get(counter).copied().unwrap_or_default();
        let sum = all.entry(decider.clone()).or_default();
        sum.packets = sum.packets.saturating_add(count.packets);
        sum.bytes = sum.bytes.saturating_add(count.bytes);
    }
    all
}

// === impl Decider ===

impl Decider {
    /// From what a program's rule says about itself: `ingress denied by NetworkPolicy shop/db, rule 0`.
    fn of(comment: &str) -> Option<Decider> {
        let (what, by) = comment.split_once(" by ")?;
        let (direction, verdict) = what.split_once(' ')?;
        let (policy, rule) = match by.rsplit_once(", rule ") {
            Some((policy, rule)) => (policy, rule.parse().ok()),
            None => (by.strip_suffix(", which isolates").unwrap_or(by), None),
        };
        Some(Decider {
            policy: policy.to_owned(),
            direction: direction.to_owned(),
            rule,
            verdict: verdict.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_who_decides() {
        let of = |text: &str| Decider::of(text).map(|d| (d.policy, d.direction, d.rule, d.verdict)).unwrap();
        let expected = |policy: &str, direction: &str, rule, verdict: &str| {
            (policy.to_owned(), direction.to_owned(), rule, verdict.to_owned())
        };
        assert_eq!(
            of("ingress allowed by NetworkPolicy shop/db, rule 0"),
            expected("NetworkPolicy shop/db", "ingress", Some(0), "allowed")
        );
        assert_eq!(
            of("egress denied by NetworkPolicy shop/db, which isolates"),
            expected("NetworkPolicy shop/db", "egress", None, "denied")
        );
        assert_eq!(of("ingress allowed by no policy"), expected("no policy", "ingress", None, "allowed"));
        assert_eq!(Decider::of("something else"), None);
    }
}
