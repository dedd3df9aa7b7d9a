//! The same policies in another dialect, where it can say them.
//!
//! ```text
//!   policies in the rule language ──► what to convert, what stays ──► one target: rules in its words, places in its order
//!        + objects as written                (conversion)                   (cluster, admin, antrea, networkpolicy)
//!                                                                                 │ objects, or what cannot be said
//!   printed ◄── equal verdicts ◄── proof ◄── read back, by the dialect's own reader ◄┘
//! ```
//!
//! A conversion never widens. A rule that the other dialect cannot say is named, with the reason, and the policy that
//! holds it is not converted; unless told otherwise nothing is printed then, because half of a set of policies is
//! another set. What is printed has been read back and compared with what it stands for ([`diff::proven`]): a difference is a
//! mistake of this program and nothing is printed.
//!
//! Targets work on the rule language, not on pairs of dialects: however a policy was written, its rules are said in the
//! target's words. What stands in tiers keeps its order by new priorities ([`order`]); what adds up as NetworkPolicies
//! do becomes rules that allow, before rules that deny.

mod admin;
mod antrea;
mod changes;
mod cluster;
pub mod codes;
mod conversion;
mod ends;
mod lists;
mod networkpolicy;
mod numbers;
mod order;
mod originals;
mod speech;
mod union;
mod upstream;

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
use speech::Findings;

/// The dialect to say it in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// `networking.k8s.io/v1` NetworkPolicy.
    NetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha2` ClusterNetworkPolicy.
    ClusterNetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha1` AdminNetworkPolicy and BaselineAdminNetworkPolicy.
    AdminNetworkPolicy,
    /// `crd.antrea.io/v1beta1` ClusterNetworkPolicy and NetworkPolicy.
    Antrea,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The dialect to say it in.
    pub to: Target,
    /// The dialects to convert; all that there are when empty. Policies of others stay as they are.
    pub from: Vec<Dialect>,
    /// Whether policies that can be said are converted although others cannot. Those stay as they are.
    pub partial: bool,
}

/// The objects a conversion emitted, and what was found on the way.
#[derive(Debug)]
pub struct Converted {
    /// The objects to print: those that were in that dialect already, then converted ones.
    pub objects: Vec<Written>,
    /// So many of them were there already.
    pub there: usize,
    /// The objects that the printed ones take the place of: those that are asked last come first. Deleted in that order, what
    /// is left of them never decides what it did not decide before.
    pub replaced: Vec<Arc<Object>>,
    /// What cannot be said (errors), and what is said in another way.
    pub found: Vec<Diagnostic>,
    /// What the objects were compared on; none where nothing is printed.
    pub proof: Option<Proof>,
}

/// A conversion that must not be printed. Unless said otherwise, a mistake of this program, not of its user.
#[derive(Debug, Error)]
pub enum Failure {
    /// The dialect's own reader refuses the objects.
    #[error("the converted objects would be refused: {}", .0.message)]
    Refused(Box<Diagnostic>),
    /// The objects mean something else.
    #[error("the converted policies mean something else: {0}")]
    Differs(Box<Counterexample>),
    /// Whether they mean the same for the pods that are there is not known. No mistake of anybody.
    #[error(
        "comparing the converted policies with what they stand for takes too much work: {0} sorts of endpoints were not compared"
    )]
    Unproven(usize),
}

/// As often what can be said is looked for, without what stays.
const MOST_ROUNDS: usize = 20;

/// The name of the text that objects are read back from.
const READ_BACK: &str = "<converted>";
/// The same for those that were in the right dialect before: what their author wrote, whatever an API says to it.
const AT_HOME: &str = "<kept>";

// === impl Target ===

impl Target {
    /// Returns the dialect whose policies need no conversion.
    fn dialect(self) -> Dialect {
        match self {
            Target::NetworkPolicy => Dialect::NetworkPolicy,
            Target::ClusterNetworkPolicy => Dialect::ClusterNetworkPolicy,
            Target::AdminNetworkPolicy => Dialect::AdminNetworkPolicy,
            Target::Antrea => Dialect::Antrea,
        }
    }
}

// === impl Request ===

impl Request {
    /// Whether a finding is about an object that is not converted, and not printed.
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
        // One without a name is none of those: it may be of every dialect that has its kind.
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
    /// The objects of a cluster that are to be deleted when the printed ones are in force, in order. A namespace stays
    /// without its annotation, and what is printed under the same name takes the place by itself.
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

/// Says the policies of a world in another dialect.
pub fn convert(world: &World, originals: &Originals, request: &Request) -> Result<Converted, Failure> {
    let before = world.objects();
    let mut kept: BTreeSet<Arc<Object>> = BTreeSet::new();
    let mut found = Findings::default();
    let mut rounds = 0;
    let attempt = loop {
        rounds += 1;
        let conversion = Conversion::new(world, originals, &before, request, &kept);
        let attempt = conversion.attempt(request.to);
        let failed = attempt.failed(&conversion);
        let wrong = attempt.found.iter().any(Diagnostic::is_error);
        if failed.is_empty() && (request.partial || !wrong) {
            attempt.found.iter().for_each(|one| found.add(one.clone()));
            break Some(attempt);
        }
        attempt.found.iter().filter(|one| one.is_error()).for_each(|one| found.add(one.clone()));
        if !request.partial {
            break None;
        }
        // What cannot be said stays, and the others have to get along with that.
        kept.extend(failed);
        if rounds >= MOST_ROUNDS {
            kept.extend(before.policies.iter().map(|policy| Arc::clone(&policy.object)));
            let message = "what stays keeps others from being converted, and that again others: \
                           finding all of them takes too much work, so all policies stay as they are";
            found.add(Diagnostic::new(&codes::TOO_MUCH, message));
        }
    };
    let found = found.list;
    let Some(attempt) = attempt else {
        let (objects, replaced) = (Vec::new(), Vec::new());
        return Ok(Converted { objects, there: 0, replaced, found, proof: None });
    };
    let after = read_back(world, &attempt)?;
    let proof = diff::proven(&before, &after).map_err(Failure::Differs)?;
    // What nothing became of, because it was in the right dialect already, needs no proof.
    let converted = !attempt.objects.is_empty() || !attempt.replaced.is_empty();
    if !proof.is_complete() && converted {
        return Err(Failure::Unproven(proof.left_out + proof.left_out_made_up));
    }
    let Attempt { at_home, objects, replaced, .. } = attempt;
    let there = at_home.len();
    let objects = at_home.into_iter().chain(objects).collect();
    Ok(Converted { objects, there, replaced, found, proof: Some(proof) })
}

/// The world with the printed objects, read from their text, in place of what they stand for.
fn read_back(world: &World, attempt: &Attempt) -> Result<Objects, Failure> {
    let mut after = world.clone();
    let delete = |world: &mut World, key: &Key| {
        world.remove(Some(&key.group), &key.kind, key.namespace.as_deref(), &key.name);
    };
    let gone: Vec<Key> = attempt.replaced.iter().map(|object| originals::key(object)).collect();
    // A namespace is more than its annotation, and Thorium's documents describe tools too: their policies alone go.
    for key in gone.iter().filter(|key| !key.group.is_empty()) {
        delete(&mut after, key);
    }
    for key in attempt.at_home.iter().chain(&attempt.objects).filter_map(key_of) {
        delete(&mut after, &key);
    }
    let mut found = Vec::new();
    for (name, objects) in [(AT_HOME, &attempt.at_home), (READ_BACK, &attempt.objects)] {
        load(&Source::new(name, written::yaml(objects)), &Limits::default(), &mut after, &mut found);
    }
    found.extend(after.review());
    let own = |one: &Diagnostic| one.location.as_ref().is_some_and(|at| &*at.file == READ_BACK);
    if let Some(refusal) = found.into_iter().find(|one| one.is_error() && own(one)) {
        return Err(Failure::Refused(Box::new(refusal)));
    }
    let mut after = after.into_objects();
    let replaced: BTreeSet<&Arc<Object>> = attempt.replaced.iter().collect();
    after.policies.retain(|policy| !replaced.contains(&policy.object));
    Ok(after)
}

/// The identity of an object to print.
fn key_of(object: &Written) -> Option<Key> {
    let text = |value: Option<&Written>| match value {
        Some(Written::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let api = text(object.get("apiVersion"))?;
    let metadata = object.get("metadata")?;
    let namespaced = palisade_dialects::object::KINDS.iter().find(|kind| {
        api.split_once('/') == Some((kind.group, kind.versions.first().copied().unwrap_or("")))
            && text(object.get("kind")).as_deref() == Some(kind.kind)
    })?;
    let home = text(metadata.get("namespace"))
        .unwrap_or_else(|| palisade_dialects::object::DEFAULT_NAMESPACE.to_owned());
    Some(Key {
        group: namespaced.group.into(),
        kind: namespaced.kind.into(),
        namespace: namespaced.namespaced.then(|| home.into()),
        name: text(metadata.get("name"))?.into(),
    })
}
