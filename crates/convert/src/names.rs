//! Names for emitted objects and rules: unique, and within the length that an API server accepts.

use std::collections::{BTreeMap, BTreeSet};

use smol_str::{SmolStr, format_smolstr};

/// Longest name of an object, in bytes: that of a DNS subdomain.
const MAX_NAME_LENGTH: usize = 253;

/// Names in use, by namespace; `None` is the cluster.
#[derive(Debug, Default)]
pub(super) struct TakenNames {
    names: BTreeSet<(Option<SmolStr>, SmolStr)>,
    /// For names that were claimed more than once the number to try next: lower ones are taken.
    next: BTreeMap<(Option<SmolStr>, SmolStr), usize>,
}

// === impl TakenNames ===

impl TakenNames {
    /// Claims the name, or the name with the lowest free number behind it, and returns what was claimed.
    pub fn claim(&mut self, namespace: Option<&SmolStr>, name: &str) -> SmolStr {
        let wanted = (namespace.cloned(), SmolStr::from(name));
        if self.names.insert(wanted.clone()) {
            return wanted.1;
        }
        let next = self.next.entry(wanted).or_insert(2);
        loop {
            let numbered = suffixed(name, &format!("-{next}"));
            *next += 1;
            if self.names.insert((namespace.cloned(), numbered.clone())) {
                return numbered;
            }
        }
    }
}

impl FromIterator<(Option<SmolStr>, SmolStr)> for TakenNames {
    fn from_iter<I: IntoIterator<Item = (Option<SmolStr>, SmolStr)>>(names: I) -> Self {
        TakenNames { names: names.into_iter().collect(), next: BTreeMap::new() }
    }
}

/// Appends a suffix, and truncates the name before it to the longest that is valid.
pub(super) fn suffixed(name: &str, suffix: &str) -> SmolStr {
    let room = MAX_NAME_LENGTH.saturating_sub(suffix.len());
    let cut = (0..=room.min(name.len())).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    // A truncated name must not end in a dot or a dash: the suffix brings its own.
    let kept = if cut < name.len() { name[..cut].trim_end_matches(['-', '.']) } else { name };
    format_smolstr!("{kept}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_before_the_number() {
        let long = "a".repeat(252) + "b";
        let mut taken = TakenNames::default();
        assert_eq!(taken.claim(None, &long), long);
        let second = taken.claim(None, &long);
        assert_eq!((second.len(), &second[250..]), (253, "a-2"));
        assert_eq!(taken.claim(None, &long), second.replace("-2", "-3"));
        assert_eq!(suffixed(&("a".repeat(242) + "-bcdefghij"), "-isolation").len(), 252);
    }
}
