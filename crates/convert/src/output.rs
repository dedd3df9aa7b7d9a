//! Result of an attempt while a target fills it in: emitted objects, diagnostics, policies that cannot be converted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use palisade_dialects::written::Written;
use palisade_model::diagnostic::{Code, Diagnostic, Subject};
use palisade_model::policy::{Object, Rule};

use super::conversion::Conversion;
use super::precedence::Precedence;

/// An object emitted for a policy or a part of it, with the precedence it was given.
#[derive(Debug)]
pub(super) struct EmittedObject {
    /// `None` where an object emitted earlier holds these rules too.
    pub object: Option<Written>,
    /// Index of the policy in [`Conversion::origins`].
    pub origin: usize,
    pub precedence: Precedence,
}

/// Diagnostics without duplicates, at most [`MAX_PER_OBJECT`] errors and as many others for one object.
#[derive(Debug, Default)]
pub(super) struct DiagnosticSink {
    pub list: Vec<Diagnostic>,
    /// Code, message, field and object of the diagnostics in `list`.
    known: BTreeSet<(&'static str, String, String, Option<Subject>)>,
    /// Number of errors (`true`) and of others for an object.
    counts: BTreeMap<(bool, Option<Subject>), usize>,
}

/// Longest list of diagnostics of one object that a person still reads.
const MAX_PER_OBJECT: usize = 100;

/// Everything that a target emits and reports in one attempt.
#[derive(Debug, Default)]
pub(super) struct ConversionOutput {
    pub emitted: Vec<EmittedObject>,
    pub diagnostics: DiagnosticSink,
    /// Indices of the policies that the target cannot express, wholly or in part.
    pub failed: BTreeSet<usize>,
    /// Objects beside the emitted policies: tiers, and NetworkPolicies that Thorium compiles to.
    pub companions: Vec<Written>,
    /// Objects beside the policies that the converted ones do not need.
    pub obsolete: Vec<Arc<Object>>,
}

/// The output of an attempt for one policy: reports are attributed to it.
pub(super) struct PolicyScope<'a, 'w> {
    pub conversion: &'a Conversion<'w>,
    /// Index of the policy in [`Conversion::origins`].
    pub origin: usize,
    output: &'a mut ConversionOutput,
}

// === impl ConversionOutput ===

impl ConversionOutput {
    pub fn scope<'a, 'w>(&'a mut self, conversion: &'a Conversion<'w>, origin: usize) -> PolicyScope<'a, 'w> {
        PolicyScope { conversion, origin, output: self }
    }
}

// === impl PolicyScope ===

impl PolicyScope<'_, '_> {
    /// Reports what the target cannot express, and marks the policy as failed.
    ///
    /// `field` is the path below the rule, or below `spec` where there is no rule.
    pub fn refuse(&mut self, code: &'static Code, rule: Option<&Rule>, field: &str, reason: String) {
        self.report(code, rule, field, reason);
        self.output.failed.insert(self.origin);
    }

    /// Reports what the target expresses in another way. The path `field` is that of [`PolicyScope::refuse`].
    pub fn report(&mut self, code: &'static Code, rule: Option<&Rule>, field: &str, message: String) {
        let policy = &self.conversion.origins[self.origin].policy;
        let finding = diagnostic(code, &policy.object, message);
        let finding = match rule {
            Some(rule) => {
                let at = rule.at.clone().or_else(|| policy.object.at.clone());
                finding.field(format!("spec.{}[{}]{field}", rule.direction, rule.index)).at(at)
            }
            None if field.is_empty() => finding,
            None => finding.field(format!("spec{field}")),
        };
        self.output.diagnostics.add(finding);
    }

    /// Whether something of the policy was refused.
    pub fn has_failed(&self) -> bool {
        self.output.failed.contains(&self.origin)
    }
}

// === impl DiagnosticSink ===

impl DiagnosticSink {
    /// Adds a diagnostic unless it is a duplicate or its object has reached the limit.
    pub fn add(&mut self, finding: Diagnostic) {
        let Diagnostic { code, message, field, subject, .. } = &finding;
        let of_its_object = self.counts.entry((finding.is_error(), subject.clone())).or_default();
        if *of_its_object < MAX_PER_OBJECT
            && self.known.insert((code.id, message.clone(), field.clone(), subject.clone()))
        {
            *of_its_object += 1;
            let more = (*of_its_object == MAX_PER_OBJECT).then(|| {
                let message =
                    format!("there is more than {MAX_PER_OBJECT} to say about it, which is not listed");
                Diagnostic { message, ..finding.clone() }
            });
            self.list.push(finding);
            self.list.extend(more);
        }
    }
}

/// Creates a diagnostic about a policy, located where the policy is written.
pub(super) fn diagnostic(code: &'static Code, object: &Object, message: String) -> Diagnostic {
    let subject =
        Subject { kind: object.kind.clone(), namespace: object.namespace.clone(), name: object.name.clone() };
    Diagnostic::new(code, message).about(subject).at(object.at.clone())
}
