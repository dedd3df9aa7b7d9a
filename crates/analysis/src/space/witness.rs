//! Witnesses: examples of pods that could exist.

use std::fmt;

use palisade_model::cluster::{NAMESPACE_NAME_LABEL, Namespace, Pod};
use palisade_model::label::Labels;
use smol_str::SmolStr;

use super::region::{PodField, PodRegion};
use super::{NamespaceIndex, Space};

/// A pod that could exist, with the fewest labels that the query requires.
#[derive(Debug, Clone)]
pub struct Witness {
    /// Its namespace, with all labels including that of its name.
    pub namespace: Namespace,
    /// Index of the namespace in the space; `None` for a new one.
    pub place: Option<NamespaceIndex>,
    /// Labels of the pod.
    pub labels: Labels,
    /// Its service account.
    pub account: SmolStr,
    /// Whether it is an external entity.
    pub external: bool,
}

// === impl Witness ===

impl Witness {
    /// Creates a pod of a region, in an existing namespace or in a new one that the region describes.
    pub(super) fn of(space: &Space, region: &PodRegion, place: Option<NamespaceIndex>) -> Self {
        let mut labels = Labels::default();
        let mut account: Option<SmolStr> = None;
        let (mut name, mut home) = (None, Labels::default());
        for (field, values) in region.iter() {
            match field {
                PodField::Account => {
                    let default = Some("default").filter(|name| values.has(Some(name))).map(SmolStr::from);
                    account = default.or_else(|| values.simplest_present(|_| true));
                }
                PodField::Label(key) => {
                    let value = values.simplest(|_| true).flatten();
                    value.into_iter().for_each(|value| labels.set(key.clone(), value));
                }
                PodField::NamespaceLabel(key) if key == NAMESPACE_NAME_LABEL => {
                    name = values.simplest_present(|name| space.namespace(name).is_none());
                }
                PodField::NamespaceLabel(key) => {
                    let value = values.simplest(|_| true).flatten();
                    value.into_iter().for_each(|value| home.set(key.clone(), value));
                }
            }
        }
        let namespace = match place {
            Some(place) => space.namespaces[place.0].clone(),
            None => {
                let name = name.unwrap_or_else(|| space.new_name());
                home.set(NAMESPACE_NAME_LABEL.into(), name.clone());
                Namespace { name, labels: home, at: None }
            }
        };
        let account = account.unwrap_or_else(|| "default".into());
        Witness { namespace, place, labels, account, external: space.external }
    }

    /// Whether its namespace is new.
    pub fn is_namespace_new(&self) -> bool {
        self.place.is_none()
    }

    /// Converts it to a pod with this name, without an address.
    pub fn pod(&self, name: &str) -> Pod {
        Pod {
            namespace: self.namespace.name.clone(),
            name: name.into(),
            labels: self.labels.clone(),
            account: self.account.clone(),
            external: self.external,
            ready: true,
            ..Pod::default()
        }
    }

    /// Whether it is in a region, including the labels of its namespace.
    pub(super) fn is_in(&self, region: &PodRegion) -> bool {
        region.iter().all(|(field, values)| {
            values.has(match field {
                PodField::Account => Some(self.account.as_str()),
                PodField::Label(key) => self.labels.get(key),
                PodField::NamespaceLabel(key) => self.namespace.labels.get(key),
            })
        })
    }
}

impl fmt::Display for Witness {
    /// `a pod with app=web of namespace shop`, `a pod without labels of a new namespace with team=a`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |labels: &Labels, but: Option<&str>| -> Option<String> {
            let shown = labels.iter().filter(|(key, _)| Some(*key) != but);
            let shown: Vec<String> = shown.map(|(key, value)| format!("{key}={value}")).collect();
            (!shown.is_empty()).then(|| shown.join(","))
        };
        f.write_str(if self.external { "an external entity" } else { "a pod" })?;
        match list(&self.labels, None) {
            Some(labels) => write!(f, " with {labels}")?,
            None => f.write_str(" without labels")?,
        }
        if self.account != "default" {
            write!(f, " under service account {}", self.account)?;
        }
        if !self.is_namespace_new() {
            return write!(f, " of namespace {}", self.namespace.name);
        }
        write!(f, " of a new namespace {}", self.namespace.name)?;
        match list(&self.namespace.labels, Some(NAMESPACE_NAME_LABEL)) {
            Some(labels) => write!(f, " with {labels}"),
            None => Ok(()),
        }
    }
}
