//! What Antrea's mutating webhook fills in: the tier of a policy that names none, and the name of a rule without one.

mod json;
mod sha1;

use palisade_model::policy::Direction;
use smol_str::SmolStr;

use super::types::Rule;

/// The tier of a policy that names none.
pub const DEFAULT_TIER: &str = "application";

/// So many digits of the hash are in a generated name.
const DIGITS: usize = 7;

/// The name of a rule: its own, or the one that Antrea makes of its direction, its action and its content. `None` if
/// that cannot be read.
pub fn rule_name(direction: Direction, rule: &Rule) -> Option<SmolStr> {
    if let Some(name) = rule.name.as_ref().filter(|name| !name.is_empty()) {
        return Some(name.0.clone());
    }
    let action = rule.action.as_ref()?.to_ascii_lowercase();
    let hash = sha1::hex(json::rule(rule)?.as_bytes());
    Some(format!("{direction}-{action}-{}", &hash[..DIGITS]).into())
}

#[cfg(test)]
mod tests;
