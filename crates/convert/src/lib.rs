//! Conversion of policies to another dialect, proven equivalent.
//!
//! ```text
//!   lowered policies ──► policies to convert, policies that stay ──► target: rules as written there, priorities
//!   + objects as written             (conversion)             (network_policy, cluster_network_policy, admin_network_policy,
//!                                                              antrea)
//!                                                                        │ objects, or what the target cannot express
//!   printed ◄── equal verdicts ◄── proof ◄── read back by the dialect's own reader ◄┘
//! ```
//!
//! A conversion never widens. A rule that the target cannot express is reported with the reason, and its policy is not
//! converted; without [`ConversionRequest::partial`] nothing is printed then, because half of a set of policies is another
//! set. Printed objects have been read back and compared with the policies they replace ([`diff::proven`]): a difference is
//! a bug of this program, and nothing is printed.
//!
//! Targets work on the rule language, not on pairs of dialects. Policies of tiers keep their order by new priorities
//! ([`slots`], [`priorities`]); NetworkPolicies become rules that allow, before rules that deny ([`union`]).

mod admin_network_policy;
mod antrea;
mod changes;
mod cluster_network_policy;
pub mod codes;
mod conversion;
mod inexpressible;
mod names;
mod network_policy;
mod network_policy_api;
mod normalize;
mod originals;
mod output;
mod precedence;
mod priorities;
mod rule_lists;
mod slots;
mod union;

use std::collections::BTreeSet;
use std::sync::Arc;

use palisade_analysis::diff::{self, Counterexample, Proof};
use palisade_dialects::load::load;
use palisade_dialects::object::{Key, dialect_of};
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_dialects::written::{self, Written};
use palisade_model::diagnostic::Diagnostic;
use palisade_model::policy::{Dialect, Object};
use palisade_model::snapshot::Objects;
use thiserror::Error;

pub use originals::Originals;

use conversion::{Attempt, Conversion};
use output::DiagnosticSink;

/// Dialect and version to convert to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetDialect {
    /// `networking.k8s.io/v1` NetworkPolicy.
    NetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha2` ClusterNetworkPolicy.
    ClusterNetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha1` AdminNetworkPolicy and BaselineAdminNetworkPolicy.
    AdminNetworkPolicy,
    /// `crd.antrea.io/v1beta1` ClusterNetworkPolicy and NetworkPolicy.
    Antrea,
}

/// What to convert, and to what.
#[derive(Debug, Clone)]
pub struct ConversionRequest {
    /// The dialect to convert to.
    pub to: TargetDialect,
    /// The dialects to convert; all when empty. Policies of other dialects stay.
    pub from: Vec<Dialect>,
    /// Whether convertible policies are converted although others, which stay, are not.
    pub partial: bool,
}

/// Objects emitted by a conversion, with its diagnostics and its proof.
#[derive(Debug)]
pub struct Converted {
    /// Objects of the target dialect: those of the input first, then the emitted ones.
    pub objects: Vec<Written>,
    /// Number of `objects` that are of the input.
    pub kept: usize,
    /// Objects that the emitted ones replace, the last evaluated first: deleted in that order, the remaining ones never
    /// decide what they did not decide before.
    pub replaced: Vec<Arc<Object>>,
    /// What the target cannot express (errors), and what it expresses in another way.
    pub diagnostics: Vec<Diagnostic>,
    /// Extent of the comparison; `None` where nothing is printed.
    pub proof: Option<Proof>,
}

/// A conversion that must not be printed. Not retryable; all but [`ConversionError::Unproven`] are bugs of this program.
#[derive(Debug, Error)]
pub enum ConversionError {
    /// The dialect's own reader refuses the objects.
    #[error("the converted objects would be refused: {}", .0.message)]
    Refused(Box<Diagnostic>),
    /// The objects change a verdict.
    #[error("the converted policies mean something else: {0}")]
    Differs(Box<Counterexample>),
    /// The comparison exceeds its limit: fewer policies at once may be convertible.
    #[error(
        "comparing the converted policies with what they stand for takes too much work: {0} sorts of endpoints were not compared"
    )]
    Unproven(usize),
}

/// Maximum number of attempts, each without the policies that the ones before could not convert.
const MAX_ATTEMPTS: usize = 20;

/// Name of the source that emitted objects are read back from.
const READ_BACK: &str = "<converted>";
/// Name of the source of kept objects. Diagnostics about them are their author's and no mistake of the conversion.
const KEPT: &str = "<kept>";

// === impl TargetDialect ===

impl TargetDialect {
    /// Returns the dialect whose policies need no conversion.
    fn dialect(self) -> Dialect {
        match self {
            TargetDialect::NetworkPolicy => Dialect::NetworkPolicy,
            TargetDialect::ClusterNetworkPolicy => Dialect::ClusterNetworkPolicy,
            TargetDialect::AdminNetworkPolicy => Dialect::AdminNetworkPolicy,
            TargetDialect::Antrea => Dialect::Antrea,
        }
    }
}

// === impl ConversionRequest ===

impl ConversionRequest {
    /// Whether a finding is about an object that is neither converted nor printed.
    pub fn leaves_alone(&self, world: &World, finding: &Diagnostic) -> bool {
        let (Some(subject), Some(at)) = (&finding.subject, &finding.location) else { return false };
        if self.from.is_empty() {
            return false;
        }
        let is_it = |key: &Key| {
            key.kind == subject.kind && key.name == subject.name && key.namespace == subject.namespace
        };
        let found = world.iter().filter(|loaded| is_it(&loaded.key) && loaded.at.file == at.file);
        let mut dialects: Vec<Option<Dialect>> =
            found.map(|loaded| dialect_of(&loaded.key.group, &loaded.key.kind)).collect();
        // An object without a name is not in the world: it may be of every dialect that has its kind.
        if dialects.is_empty() {
            let kinds = palisade_dialects::object::KINDS.iter().filter(|kind| kind.kind == subject.kind);
            dialects.extend(kinds.map(|kind| dialect_of(kind.group, kind.kind)));
        }
        let stays = |dialect: &Option<Dialect>| {
            dialect.is_some_and(|dialect| !self.from.contains(&dialect) && dialect != self.to.dialect())
        };
        !dialects.is_empty() && dialects.iter().all(stays)
    }
}

// === impl Converted ===

impl Converted {
    /// Returns the objects to delete from a cluster once the printed ones are enforced, in order. Namespaces stay, without
    /// their annotation, and objects that a printed one of the same name overwrites need no deletion.
    pub fn left_to_delete(&self) -> impl Iterator<Item = &Object> {
        let printed: BTreeSet<Key> = self.objects.iter().filter_map(key_of).collect();
        let is_printed = move |object: &Object| {
            let own = originals::key(object);
            let today =
                (own.group == "extensions").then(|| Key { group: "networking.k8s.io".into(), ..own.clone() });
            printed.contains(&own) || today.is_some_and(|today| printed.contains(&today))
        };
        let own = self.replaced.iter().map(|object| &**object).filter(|object| !object.group.is_empty());
        own.filter(move |object| !is_printed(object))
    }
}

/// Converts the policies of a world to another dialect.
pub fn convert(
    world: &World,
    originals: &Originals,
    request: &ConversionRequest,
) -> Result<Converted, ConversionError> {
    let before = world.objects();
    let mut not_convertible: BTreeSet<Arc<Object>> = BTreeSet::new();
    let mut diagnostics = DiagnosticSink::default();
    let mut attempts = 0;
    let attempt = loop {
        attempts += 1;
        let conversion = Conversion::new(world, originals, &before, request, &not_convertible);
        let attempt = conversion.attempt(request.to);
        let failed = attempt.failed(&conversion);
        let wrong = attempt.diagnostics.iter().any(Diagnostic::is_error);
        if failed.is_empty() && (request.partial || !wrong) {
            attempt.diagnostics.iter().for_each(|one| diagnostics.add(one.clone()));
            break Some(attempt);
        }
        let errors = attempt.diagnostics.iter().filter(|one| one.is_error());
        errors.for_each(|one| diagnostics.add(one.clone()));
        if !request.partial {
            break None;
        }
        // Policies that stay can keep others from being converted: another attempt finds those.
        not_convertible.extend(failed);
        if attempts >= MAX_ATTEMPTS {
            not_convertible.extend(before.policies.iter().map(|policy| Arc::clone(&policy.object)));
            let message = "what stays keeps others from being converted, and that again others: \
                           finding all of them takes too much work, so all policies stay as they are";
            diagnostics.add(Diagnostic::new(&codes::TOO_MUCH, message));
        }
    };
    let diagnostics = diagnostics.list;
    let Some(attempt) = attempt else {
        let (objects, replaced) = (Vec::new(), Vec::new());
        return Ok(Converted { objects, kept: 0, replaced, diagnostics, proof: None });
    };
    let after = read_back(world, &attempt)?;
    let proof = diff::proven(&before, &after).map_err(ConversionError::Differs)?;
    // Where nothing was converted nothing needs a proof.
    let converted = !attempt.objects.is_empty() || !attempt.replaced.is_empty();
    if !proof.is_complete() && converted {
        return Err(ConversionError::Unproven(proof.left_out + proof.left_out_made_up));
    }
    let Attempt { kept, objects, replaced, .. } = attempt;
    let count = kept.len();
    let objects = kept.into_iter().chain(objects).collect();
    Ok(Converted { objects, kept: count, replaced, diagnostics, proof: Some(proof) })
}

/// Returns the objects of the world with the printed ones, read from their text, instead of those they replace.
fn read_back(world: &World, attempt: &Attempt) -> Result<Objects, ConversionError> {
    let mut after = world.clone();
    let delete = |world: &mut World, key: &Key| {
        world.remove(Some(&key.group), &key.kind, key.namespace.as_deref(), &key.name);
    };
    let replaced: Vec<Key> = attempt.replaced.iter().map(|object| originals::key(object)).collect();
    // Namespaces and Thorium's documents hold more than policies: of these the policies alone are removed, below.
    for key in replaced.iter().filter(|key| !key.group.is_empty()) {
        delete(&mut after, key);
    }
    for key in attempt.kept.iter().chain(&attempt.objects).filter_map(key_of) {
        delete(&mut after, &key);
    }
    let mut found = Vec::new();
    for (name, objects) in [(KEPT, &attempt.kept), (READ_BACK, &attempt.objects)] {
        load(&Source::new(name, written::yaml(objects)), &Limits::default(), &mut after, &mut found);
    }
    found.extend(after.review());
    let own = |one: &Diagnostic| one.location.as_ref().is_some_and(|at| &*at.file == READ_BACK);
    if let Some(refusal) = found.into_iter().find(|one| one.is_error() && own(one)) {
        return Err(ConversionError::Refused(Box::new(refusal)));
    }
    let mut after = after.into_objects();
    let replaced: BTreeSet<&Arc<Object>> = attempt.replaced.iter().collect();
    after.policies.retain(|policy| !replaced.contains(&policy.object));
    Ok(after)
}

/// Returns the identity of an object to print; `None` for a kind that is not read.
fn key_of(object: &Written) -> Option<Key> {
    let text = |value: Option<&Written>| match value {
        Some(Written::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let api = text(object.get("apiVersion"))?;
    let metadata = object.get("metadata")?;
    let kind = palisade_dialects::object::KINDS.iter().find(|kind| {
        api.split_once('/') == Some((kind.group, kind.versions.first().copied().unwrap_or("")))
            && text(object.get("kind")).as_deref() == Some(kind.kind)
    })?;
    let namespace = text(metadata.get("namespace"))
        .unwrap_or_else(|| palisade_dialects::object::DEFAULT_NAMESPACE.to_owned());
    Some(Key {
        group: kind.group.into(),
        kind: kind.kind.into(),
        namespace: kind.namespaced.then(|| namespace.into()),
        name: text(metadata.get("name"))?.into(),
    })
}
