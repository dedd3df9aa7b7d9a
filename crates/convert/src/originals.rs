//! Policies as written: labels, annotations and formatting that lowering drops and a conversion keeps.
//!
//! The rule language has no labels and no annotations, and an object of the target dialect is printed as its author wrote
//! it. So sources are parsed a second time, for their trees.

use std::collections::BTreeMap;

use palisade_dialects::load::each;
use palisade_dialects::object::{Key, recognise};
use palisade_dialects::source::tree::{Node, Source};
use palisade_dialects::source::{Limits, documents};
use palisade_dialects::written::Written;
use palisade_model::policy::Object;

/// Objects as written, by identity, without the fields that a cluster adds.
#[derive(Debug, Clone, Default)]
pub struct Originals(BTreeMap<Key, Written>);

/// API groups of policies, tiers and groups.
const GROUPS: &[&str] = &[
    "networking.k8s.io",
    "extensions",
    "policy.networking.k8s.io",
    palisade_dialects::antrea::GROUP,
    palisade_dialects::antrea::GROUP_2020,
];

/// Fields of `metadata` that the API server sets.
const SERVER_FIELDS: &[&str] = &[
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// Annotation of `kubectl apply` with the object before its conversion.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

// === impl Originals ===

impl Originals {
    /// Parses the policies of these sources.
    pub fn read<'s>(sources: impl IntoIterator<Item = &'s Source>) -> Self {
        let mut all = Originals::default();
        let limits = Limits::default();
        for source in sources {
            for node in documents(source, &limits).flatten() {
                all.add(source, &node);
            }
        }
        all
    }

    /// Adds an object, or the items of a list. An object replaces an earlier one of the same identity, as in a world.
    pub fn add(&mut self, source: &Source, node: &Node<'_>) {
        each(source, node, &mut |item| {
            // Its diagnostics were reported when the world was loaded.
            if let Some((_, header)) = recognise(source, item, &mut Vec::new())
                && GROUPS.contains(&&*header.group)
            {
                self.0.insert(header.key(), without_server_fields(Written::from(item)));
            }
        });
    }

    /// Returns an object as written.
    pub fn get(&self, object: &Object) -> Option<&Written> {
        self.0.get(&key(object))
    }

    /// Returns an object as written, by its identity.
    pub fn by_key(&self, key: &Key) -> Option<&Written> {
        self.0.get(key)
    }

    /// Returns the labels or the annotations of an object, if it has any.
    pub fn map(&self, object: &Object, name: &str) -> Option<Written> {
        let map = self.get(object)?.get("metadata")?.get(name)?.clone();
        matches!(&map, Written::Map(entries) if !entries.is_empty()).then_some(map)
    }
}

/// Returns the identity of an object.
pub fn key(object: &Object) -> Key {
    Key {
        group: object.group.clone(),
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}

fn without_server_fields(object: Written) -> Written {
    let Written::Map(fields) = object else { return object };
    let field = |(key, value): (String, Written)| match (key.as_str(), value) {
        ("status", _) => None,
        ("metadata", Written::Map(fields)) => {
            let kept = fields.into_iter().filter(|(key, _)| !SERVER_FIELDS.contains(&key.as_str()));
            Some((key, Written::Map(kept.filter_map(annotations).collect())))
        }
        (_, value) => Some((key, value)),
    };
    Written::Map(fields.into_iter().filter_map(field).collect())
}

fn annotations((key, value): (String, Written)) -> Option<(String, Written)> {
    match (key.as_str(), value) {
        ("annotations", Written::Map(entries)) => {
            let kept: Vec<_> = entries.into_iter().filter(|(key, _)| key != LAST_APPLIED).collect();
            (!kept.is_empty()).then_some((key, Written::Map(kept)))
        }
        (_, value) => Some((key, value)),
    }
}
