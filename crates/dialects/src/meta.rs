//! What all Kubernetes objects share: metadata and label selectors, as written.

use palisade_model::cluster::Owner;
use palisade_model::label::{Labels, Operator, Requirement, Selector};
use smol_str::SmolStr;

use crate::apimachinery::field::{Path, Sink};
use crate::apimachinery::meta;
use crate::apimachinery::names::{self, NameRule};
use crate::decode::{MetaMap, StringMap, fields};

fields! {
    /// `metadata`.
    pub struct ObjectMeta {
        "name" => name: SmolStr,
        "generateName" => generate_name: SmolStr,
        "namespace" => namespace: SmolStr,
        "labels" => labels: MetaMap,
        "annotations" => annotations: MetaMap,
        "generation" => generation: i64,
        "resourceVersion" => resource_version: SmolStr,
        "ownerReferences" => owner_references: Vec<OwnerReference>,
        skip "uid" "creationTimestamp" "deletionTimestamp" "deletionGracePeriodSeconds" "finalizers" "managedFields"
             "selfLink" "clusterName" "initializers"
    }

    /// Who made an object.
    pub struct OwnerReference {
        "kind" => kind: SmolStr,
        "name" => name: SmolStr,
        "controller" => controller: bool,
        "apiVersion" => api_version: SmolStr,
        skip "uid" "blockOwnerDeletion"
    }

    /// A selector, as written.
    pub struct LabelSelector {
        "matchLabels" => match_labels: StringMap,
        "matchExpressions" => match_expressions: Vec<LabelSelectorRequirement>,
    }

    /// One requirement of a selector, as written.
    pub struct LabelSelectorRequirement {
        "key" => key: SmolStr,
        "operator" => operator: SmolStr,
        "values" => values: Vec<SmolStr>,
    }
}

// === impl ObjectMeta ===

impl ObjectMeta {
    /// The labels, sorted.
    pub fn labels(&self) -> Labels {
        Labels::new(self.labels.iter().flat_map(|labels| &labels.0).cloned())
    }

    /// Checks the name as the API server does for a new object.
    pub fn check_name(&self, path: &Path<'_>, sink: &mut Sink<'_>) {
        let text = |value: &Option<SmolStr>| value.clone().unwrap_or_default();
        meta::name(path, &text(&self.name), &text(&self.generate_name), NameRule::Subdomain, sink);
    }

    /// Checks labels and annotations as the API server does.
    pub fn check_maps(&self, path: &Path<'_>, sink: &mut Sink<'_>) {
        meta::labels(path, pairs(self.labels.iter().flat_map(|map| &map.0)), sink);
        meta::annotations(path, pairs(self.annotations.iter().flat_map(|map| &map.0)), sink);
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&SmolStr> {
        self.annotations.iter().flat_map(|map| &map.0).find(|(k, _)| k == key).map(|(_, value)| value)
    }

    /// The controller that made the object. A Node is none: it runs static pods that have nothing else in common, so each
    /// of these is a workload of its own.
    pub fn owner(&self) -> Option<Owner> {
        let owner = self.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
        let core = owner.api_version.as_deref().is_none_or(|version| !version.contains('/'));
        let kind = owner.kind.clone().filter(|kind| !(core && kind == "Node"))?;
        Some(Owner { kind, name: owner.name.clone()? })
    }
}

/// A mapping as the checks of apimachinery take it.
pub(crate) fn pairs<'m>(
    map: impl IntoIterator<Item = &'m (SmolStr, SmolStr)>,
) -> impl Iterator<Item = (&'m str, &'m str)> {
    map.into_iter().map(|(key, value)| (key.as_str(), value.as_str()))
}

// === impl LabelSelector ===

impl LabelSelector {
    /// What it selects; the words for what cannot be read when that cannot be said.
    pub fn lower(&self) -> Result<Selector, String> {
        if let Some(what) = &self.unreadable {
            return Err(what.clone());
        }
        let labels = self.match_labels.iter().flatten().map(|(key, value)| {
            legal(key, std::slice::from_ref(value))?;
            Ok(Requirement::equals(key, value))
        });
        let expressions = self.match_expressions.iter().flatten().map(LabelSelectorRequirement::lower);
        labels.chain(expressions).collect::<Result<Vec<_>, String>>().map(Selector::new)
    }
}

/// Labels that nobody can carry select nobody, and were not written for that: the selector cannot be read.
fn legal(key: &str, values: &[SmolStr]) -> Result<(), String> {
    if !names::qualified_name(key).is_empty() {
        return Err(format!("{key:?} is no label"));
    }
    match values.iter().find(|value| !names::label_value(value).is_empty()) {
        Some(value) => Err(format!("{value:?} is no value of a label")),
        None => Ok(()),
    }
}

impl LabelSelectorRequirement {
    fn lower(&self) -> Result<Requirement, String> {
        if let Some(what) = &self.unreadable {
            return Err(what.clone());
        }
        let key = self.key.clone().unwrap_or_default();
        let values = self.values.clone().unwrap_or_default();
        legal(&key, &values)?;
        let name = self.operator.as_deref().unwrap_or("");
        let operator = match (name, values.is_empty()) {
            ("In", false) => Operator::In(values),
            ("NotIn", false) => Operator::NotIn(values),
            ("Exists", true) => Operator::Exists,
            ("DoesNotExist", true) => Operator::DoesNotExist,
            ("In" | "NotIn", true) => return Err(format!("{name} without values on label {key}")),
            ("Exists" | "DoesNotExist", false) => return Err(format!("{name} with values on label {key}")),
            _ => return Err(format!("unknown operator {name:?} on label {key}")),
        };
        Ok(Requirement::new(key, operator))
    }
}
