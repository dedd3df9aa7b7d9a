//! Names made of what a thing says: the same in every run, and no other thing's.
//!
//! Whoever writes policies chooses what is hashed, so the hash is one for which nobody can find two texts.

use std::collections::BTreeMap;
use std::fmt::Write;

use palisade_engine::delta::{CompiledRule, RuleId, SetId};
use palisade_engine::view::View;
use sha2::{Digest, Sha256};

use crate::program::Name;

/// What sets and rules say, digested; kept because it is asked again and again.
#[derive(Debug, Default)]
pub(crate) struct Names {
    sets: BTreeMap<SetId, Name>,
    rules: BTreeMap<RuleId, Said>,
}

/// What a rule says.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    /// All of it.
    pub(crate) whole: Name,
    /// Without whose rule it is: what peers are told apart by.
    pub(crate) shape: Name,
}

// === impl Names ===

impl Names {
    /// These may say something else from now on.
    pub(crate) fn forget_set(&mut self, set: SetId) {
        self.sets.remove(&set);
    }

    pub(crate) fn forget_rule(&mut self, rule: RuleId) {
        self.rules.remove(&rule);
    }

    /// A set, by what it selects.
    pub(crate) fn set(&mut self, view: &View, id: SetId) -> Name {
        // The 24 digits that all names here have, of the 64 of a digest.
        let named = || view.sets().get(&id).map(|set| format!("{:.12}", set.selection.digest()).into());
        self.sets.entry(id).or_insert_with(|| named().unwrap_or_default()).clone()
    }

    /// A rule, by what it says.
    pub(crate) fn rule(&mut self, view: &View, id: RuleId, rule: &CompiledRule) -> Said {
        if let Some(said) = self.rules.get(&id) {
            return said.clone();
        }
        let peers = rule.peers.as_ref().map(|sets| {
            let mut names: Vec<Name> = sets.iter().map(|set| self.set(view, *set)).collect();
            names.sort();
            names
        });
        let destination = rule.destination.map(|set| self.set(view, set));
        let shape = format!(
            "{:?} {:?} {peers:?} {destination:?} {:?} {}",
            rule.rank.stage,
            rule.effect,
            rule.traffic,
            rule.layer7.is_empty()
        );
        let object = view.policies().get(&rule.policy).map(|origin| origin.object.to_string());
        let whole =
            format!("{:?} {object:?} {:?} {:?} {:?} {shape}", rule.rank, rule.rule, rule.layer7, rule.log);
        let said = Said { whole: digest(&whole), shape: digest(&shape) };
        self.rules.insert(id, said.clone());
        said
    }
}

/// A name with a digest of a text.
pub(crate) fn hashed(prefix: &str, text: &str) -> Name {
    format!("{prefix}_{}", digest(text)).into()
}

/// 96 bits of SHA-256.
pub(crate) fn digest(text: &str) -> Name {
    let mut name = String::with_capacity(24);
    for byte in Sha256::digest(text.as_bytes()).iter().take(12) {
        let _ = write!(name, "{byte:02x}");
    }
    name.into()
}

/// A name that people can read, made of what may have any characters: where some had to go, or it is too long, a digest tells
/// it from others.
pub(crate) fn readable(parts: &[&str]) -> Name {
    let text = parts.join("/");
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    let mut name: String = text.chars().map(|c| if usable(c) { c } else { '_' }).collect();
    if name != text || name.len() > LONGEST || parts.iter().any(|part| part.contains('/')) {
        name.truncate(LONGEST - 25);
        name = format!("{name}_{}", digest(&format!("{parts:?}")));
    }
    name.into()
}

/// Longer names than this the kernel does not take everywhere.
const LONGEST: usize = 120;
