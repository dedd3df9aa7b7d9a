//! What targets fill in: objects, and what they cannot say.

use std::collections::BTreeSet;
use std::sync::Arc;

use palisade_dialects::written::Written;
use palisade_model::diagnostic::{Code, Diagnostic, Subject};
use palisade_model::policy::{Object, Rule};
use smol_str::{SmolStr, format_smolstr};

use super::order::Place;
use super::scene::Scene;

/// An object that says (a part of) a policy, and where it comes to stand.
#[derive(Debug)]
pub(super) struct Said {
    /// None where an object before says it too.
    pub object: Option<Written>,
    /// The policy, by its place among the origins.
    pub origin: usize,
    pub place: Place,
}

/// What targets fill in.
#[derive(Debug, Default)]
pub(super) struct Speech {
    pub said: Vec<Said>,
    pub found: Vec<Diagnostic>,
    /// The policies of which something cannot be said.
    pub failed: BTreeSet<usize>,
    /// Objects that are in force beside those said: tiers, and what Thorium compiles to.
    pub beside: Vec<Written>,
    /// Objects beside the policies that are not needed any more.
    pub gone: Vec<Arc<Object>>,
}

/// So many characters a name of an object may have.
pub(super) const LONGEST_NAME: usize = 253;

// === impl Speech ===

impl Speech {
    /// Notes what cannot be said.
    pub fn cannot(
        &mut self,
        code: &'static Code,
        scene: &Scene<'_>,
        origin: usize,
        rule: Option<&Rule>,
        part: &str,
        why: String,
    ) {
        self.note(code, scene, origin, rule, part, why);
        self.failed.insert(origin);
    }

    /// Notes what is said in another way.
    pub fn note(
        &mut self,
        code: &'static Code,
        scene: &Scene<'_>,
        origin: usize,
        rule: Option<&Rule>,
        part: &str,
        message: String,
    ) {
        let policy = &scene.origins[origin].policy;
        let finding = about(code, &policy.object, message);
        let finding = match rule {
            Some(rule) => {
                let at = rule.at.clone().or_else(|| policy.object.at.clone());
                finding.field(format!("spec.{}[{}]{part}", rule.direction, rule.index)).at(at)
            }
            None if part.is_empty() => finding,
            None => finding.field(format!("spec{part}")),
        };
        if !self.found.iter().any(|other| other.says_the_same(&finding)) {
            self.found.push(finding);
        }
    }
}

/// A finding about a policy.
pub(super) fn about(code: &'static Code, object: &Object, message: String) -> Diagnostic {
    let subject =
        Subject { kind: object.kind.clone(), namespace: object.namespace.clone(), name: object.name.clone() };
    Diagnostic::new(code, message).about(subject).at(object.at.clone())
}

/// A name with something behind it, cut so that it is one.
pub(super) fn suffixed(name: &str, suffix: &str) -> SmolStr {
    let room = LONGEST_NAME.saturating_sub(suffix.len());
    let cut = (0..=room.min(name.len())).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    // What is cut inside must not leave a dot or a dash before the suffix's own.
    let kept = if cut < name.len() { name[..cut].trim_end_matches(['-', '.']) } else { name };
    format_smolstr!("{kept}{suffix}")
}

/// The name if it is free, else with a number; and it is taken from then on.
pub(super) fn distinct(
    namespace: Option<&SmolStr>,
    name: &str,
    taken: &mut BTreeSet<(Option<SmolStr>, SmolStr)>,
) -> SmolStr {
    let numbered = (2..).map(|number: usize| suffixed(name, &format!("-{number}")));
    let free = |name: &SmolStr| !taken.contains(&(namespace.cloned(), name.clone()));
    let name = std::iter::once(SmolStr::from(name)).chain(numbered).find(free).unwrap_or_default();
    taken.insert((namespace.cloned(), name.clone()));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_before_the_number() {
        let long = "a".repeat(252) + "b";
        let mut taken = BTreeSet::new();
        assert_eq!(distinct(None, &long, &mut taken), long);
        let second = distinct(None, &long, &mut taken);
        assert_eq!((second.len(), &second[250..]), (253, "a-2"));
        assert_eq!(distinct(None, &long, &mut taken), second.replace("-2", "-3"));
        assert_eq!(suffixed(&("a".repeat(242) + "-bcdefghij"), "-isolation").len(), 252);
    }
}
