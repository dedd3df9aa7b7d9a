//! What targets fill in: objects, and what they cannot say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_dialects::written::Written;
use palisade_model::diagnostic::{Code, Diagnostic, Subject};
use palisade_model::policy::{Object, Rule};
use smol_str::{SmolStr, format_smolstr};

use super::conversion::Conversion;
use super::order::Place;

/// An object that says (a part of) a policy, and where it comes to stand.
#[derive(Debug)]
pub(super) struct Said {
    /// None where an object before says it too.
    pub object: Option<Written>,
    /// The policy, by its place among the origins.
    pub origin: usize,
    pub place: Place,
}

/// Findings, each once, and of one object not more than anybody reads.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub list: Vec<Diagnostic>,
    /// What says the same, and how many there are of each object.
    known: BTreeSet<(&'static str, String, String, Option<Subject>)>,
    counts: BTreeMap<(bool, Option<Subject>), usize>,
}

/// Findings of one object that are listed, of errors and of others.
const MOST_FOUND: usize = 100;

/// What targets fill in.
#[derive(Debug, Default)]
pub(super) struct Speech {
    pub said: Vec<Said>,
    pub found: Findings,
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
        conversion: &Conversion<'_>,
        origin: usize,
        rule: Option<&Rule>,
        part: &str,
        why: String,
    ) {
        self.note(code, conversion, origin, rule, part, why);
        self.failed.insert(origin);
    }

    /// Notes what is said in another way.
    pub fn note(
        &mut self,
        code: &'static Code,
        conversion: &Conversion<'_>,
        origin: usize,
        rule: Option<&Rule>,
        part: &str,
        message: String,
    ) {
        let policy = &conversion.origins[origin].policy;
        let finding = about(code, &policy.object, message);
        let finding = match rule {
            Some(rule) => {
                let at = rule.at.clone().or_else(|| policy.object.at.clone());
                finding.field(format!("spec.{}[{}]{part}", rule.direction, rule.index)).at(at)
            }
            None if part.is_empty() => finding,
            None => finding.field(format!("spec{part}")),
        };
        self.found.add(finding);
    }
}

// === impl Findings ===

impl Findings {
    /// Adds one, unless it has been said.
    pub fn add(&mut self, finding: Diagnostic) {
        let Diagnostic { code, message, field, subject, .. } = &finding;
        let of_its_object = self.counts.entry((finding.is_error(), subject.clone())).or_default();
        if *of_its_object < MOST_FOUND
            && self.known.insert((code.id, message.clone(), field.clone(), subject.clone()))
        {
            *of_its_object += 1;
            let more = (*of_its_object == MOST_FOUND).then(|| {
                let message = format!("there is more than {MOST_FOUND} to say about it, which is not listed");
                Diagnostic { message, ..finding.clone() }
            });
            self.list.push(finding);
            self.list.extend(more);
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

/// Names that are taken, in a namespace or in the cluster.
#[derive(Debug, Default)]
pub(super) struct Taken {
    names: BTreeSet<(Option<SmolStr>, SmolStr)>,
    /// For names that were wanted again the number to try next: those before it are taken.
    next: BTreeMap<(Option<SmolStr>, SmolStr), usize>,
}

// === impl Taken ===

impl FromIterator<(Option<SmolStr>, SmolStr)> for Taken {
    fn from_iter<I: IntoIterator<Item = (Option<SmolStr>, SmolStr)>>(names: I) -> Self {
        Taken { names: names.into_iter().collect(), next: BTreeMap::new() }
    }
}

/// The name if it is free, else with a number; and it is taken from then on.
pub(super) fn distinct(namespace: Option<&SmolStr>, name: &str, taken: &mut Taken) -> SmolStr {
    let wanted = (namespace.cloned(), SmolStr::from(name));
    if taken.names.insert(wanted.clone()) {
        return wanted.1;
    }
    let next = taken.next.entry(wanted).or_insert(2);
    loop {
        let numbered = suffixed(name, &format!("-{next}"));
        *next += 1;
        if taken.names.insert((namespace.cloned(), numbered.clone())) {
            return numbered;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_before_the_number() {
        let long = "a".repeat(252) + "b";
        let mut taken = Taken::default();
        assert_eq!(distinct(None, &long, &mut taken), long);
        let second = distinct(None, &long, &mut taken);
        assert_eq!((second.len(), &second[250..]), (253, "a-2"));
        assert_eq!(distinct(None, &long, &mut taken), second.replace("-2", "-3"));
        assert_eq!(suffixed(&("a".repeat(242) + "-bcdefghij"), "-isolation").len(), 252);
    }
}
