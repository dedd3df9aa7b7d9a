//! Names made of what a thing says: the same in every run, and short enough for the kernel.

use std::collections::BTreeMap;

use palisade_engine::delta::{Rule, SetId};
use palisade_engine::view::View;
use palisade_model::policy::TrafficMatches;

use crate::program::Name;

/// What sets and rules say, in words.
#[derive(Debug, Default)]
pub(crate) struct Names {
    sets: BTreeMap<SetId, String>,
}

// === impl Names ===

impl Names {
    pub(crate) fn new(view: &View) -> Self {
        let sets = view.sets().iter().map(|(id, set)| (*id, format!("{:?}", set.content)));
        Names { sets: sets.collect() }
    }

    /// A set in words that are no other set's.
    pub(crate) fn set(&self, id: SetId) -> String {
        self.sets.get(&id).cloned().unwrap_or_default()
    }

    /// A rule in words: whatever its chain depends on.
    pub(crate) fn rule(&self, view: &View, rule: &Rule) -> String {
        let object = view.policies().get(&rule.policy).map(|origin| origin.object.to_string());
        let peers = rule.peers.as_ref().map(|sets| {
            let mut names: Vec<String> = sets.iter().map(|set| self.set(*set)).collect();
            names.sort();
            names
        });
        let destination = rule.destination.map(|set| self.set(set));
        let traffic = match &rule.traffic {
            TrafficMatches::Any => "any".to_owned(),
            TrafficMatches::Of(all) => format!("{all:?}"),
        };
        format!(
            "{:?} {:?} {object:?} {:?} {peers:?} {destination:?} {traffic} {:?}",
            rule.order, rule.does, rule.rule, rule.layer7
        )
    }
}

/// A name with a hash of a text: FNV-1a, which is the same everywhere.
pub(crate) fn hashed(prefix: &str, text: &str) -> Name {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{prefix}_{hash:016x}").into()
}
