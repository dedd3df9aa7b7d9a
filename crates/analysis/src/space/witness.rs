//! A pod that could exist, in full: what a question about all of them is answered with.

use std::fmt;

use palisade_model::cluster::{NAMESPACE_NAME_LABEL, Namespace, Pod};
use palisade_model::label::Labels;
use smol_str::SmolStr;

use super::region::{Field, Region};
use super::{Place, Space};

/// A pod that could exist, as plain as it can be: it has no label that the question does not make it have.
#[derive(Debug, Clone)]
pub struct Witness {
    /// Its namespace, with all labels, also that of its name.
    pub namespace: Namespace,
    /// Where that is in the space; `None` when it is one to come.
    pub place: Option<Place>,
    /// Its labels.
    pub labels: Labels,
    /// The service account it runs under.
    pub account: SmolStr,
    /// Whether it is an external entity.
    pub external: bool,
}

// === impl Witness ===

impl Witness {
    /// Some pod of a region, in a namespace that exists or in one that the region describes.
    pub(super) fn of(space: &Space, region: &Region, place: Option<Place>) -> Self {
        let mut labels = Labels::default();
        let mut account: Option<SmolStr> = None;
        let (mut name, mut home) = (None, Labels::default());
        for (field, values) in region.iter() {
            match field {
                Field::Account => {
                    let default = Some("default").filter(|name| values.has(Some(name))).map(SmolStr::from);
                    account = default.or_else(|| values.plainest_present(|_| true));
                }
                Field::Label(key) => {
                    let value = values.plainest(|_| true).flatten();
                    value.into_iter().for_each(|value| labels.set(key.clone(), value));
                }
                Field::Home(key) if key == NAMESPACE_NAME_LABEL => {
                    name = values.plainest_present(|name| space.place(name).is_none());
                }
                Field::Home(key) => {
                    let value = values.plainest(|_| true).flatten();
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

    /// Whether its namespace is one to come.
    pub fn is_namespace_new(&self) -> bool {
        self.place.is_none()
    }

    /// As a pod under this name, without an address.
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

    /// Whether it is in a region: the labels of its namespace count, too.
    pub(super) fn is_in(&self, region: &Region) -> bool {
        region.iter().all(|(field, values)| {
            values.has(match field {
                Field::Account => Some(self.account.as_str()),
                Field::Label(key) => self.labels.get(key),
                Field::Home(key) => self.namespace.labels.get(key),
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
