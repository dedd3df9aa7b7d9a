//! Policies as they were written: what lowering forgets and a converted object shall keep.
//!
//! The rule language has no labels and no annotations, and an object that is in the right dialect already is best printed
//! as its author wrote it. So texts are read a second time, for their trees.

use std::collections::BTreeMap;

use palisade_dialects::load::each;
use palisade_dialects::object::{Key, recognise};
use palisade_dialects::source::tree::{Node, Source};
use palisade_dialects::source::{Limits, documents};
use palisade_dialects::written::Written;
use palisade_model::policy::Object;

/// Objects by identity, as they were written.
#[derive(Debug, Clone, Default)]
pub struct Originals(BTreeMap<Key, Written>);

/// The API groups of policies, and of what policies name.
const GROUPS: &[&str] = &[
    "networking.k8s.io",
    "extensions",
    "policy.networking.k8s.io",
    palisade_dialects::antrea::GROUP,
    palisade_dialects::antrea::GROUP_2020,
];

/// Fields of `metadata` that belong to one object in one cluster.
const OF_THE_CLUSTER: &[&str] = &[
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// What `kubectl apply` notes: the object before it was converted.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

// === impl Originals ===

impl Originals {
    /// The policies of these texts.
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

    /// Adds an object, or those of a list. Of two with one identity the later one counts, as in a world.
    pub fn add(&mut self, source: &Source, node: &Node<'_>) {
        each(source, node, &mut |item| {
            // What is wrong with it has been said when it was read.
            if let Some((_, header)) = recognise(source, item, &mut Vec::new())
                && GROUPS.contains(&&*header.group)
            {
                self.0.insert(header.key(), without_cluster(Written::from(item)));
            }
        });
    }

    /// An object as it was written, without what a cluster added to it.
    pub fn get(&self, object: &Object) -> Option<&Written> {
        self.0.get(&key(object))
    }

    /// An object by its identity.
    pub fn by_key(&self, key: &Key) -> Option<&Written> {
        self.0.get(key)
    }

    /// Labels or annotations of an object, to be kept.
    pub fn map(&self, object: &Object, name: &str) -> Option<Written> {
        let map = self.get(object)?.get("metadata")?.get(name)?.clone();
        matches!(&map, Written::Map(entries) if !entries.is_empty()).then_some(map)
    }
}

/// The identity of an object.
pub fn key(object: &Object) -> Key {
    Key {
        group: object.group.clone(),
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    }
}

fn without_cluster(object: Written) -> Written {
    let Written::Map(fields) = object else { return object };
    let field = |(key, value): (String, Written)| match (key.as_str(), value) {
        ("status", _) => None,
        ("metadata", Written::Map(fields)) => {
            let kept = fields.into_iter().filter(|(key, _)| !OF_THE_CLUSTER.contains(&key.as_str()));
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
