//! What has been counted, by the rule that decided.

use std::collections::BTreeMap;

use palisade_model::policy::Direction;
use palisade_nftables::compile::Compiler;
use palisade_nftables::compile::{self, Counted};
use palisade_nftables::kernel::{Count, Counts};
use palisade_nftables::program::Name;
use serde::{Deserialize, Serialize};

/// Stands for a policy where none decides.
pub const NO_POLICY: &str = "no policy";
/// Stands for a policy where a pod sends with an address that is not its own.
pub const FORGED: &str = "forged source addresses";

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
pub fn deciders(live: &Compiler) -> BTreeMap<Name, Decider> {
    let counted = live.counted().iter().map(|(name, counted)| (name.clone(), Decider::of(counted)));
    let forged = live.program().counters.get(compile::FORGED).map(|name| (name.clone(), Decider::forged()));
    counted.chain(forged).collect()
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
    fn of(counted: &Counted) -> Decider {
        Decider {
            policy: counted.policy.clone().unwrap_or_else(|| NO_POLICY.to_owned()),
            direction: counted.direction.to_string(),
            rule: counted.rule,
            verdict: counted.verdict_name().to_owned(),
        }
    }

    /// No policy: a pod sends with an address that is not its own.
    fn forged() -> Decider {
        Decider {
            policy: FORGED.to_owned(),
            direction: Direction::Egress.to_string(),
            rule: None,
            verdict: "denied".to_owned(),
        }
    }
}
