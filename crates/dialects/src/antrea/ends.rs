//! Whom a policy applies to, and who is at the other end.
//!
//! An entry is alternatives: a group, nodes, a service, a service account or addresses stand alone; selectors of pods
//! and namespaces may be combined. Upstream lets some of the other combinations through and then takes the one it looks
//! at first; here an entry that says two things cannot be read.

use std::sync::Arc;

use palisade_model::address::Block;
use palisade_model::group::GroupName;
use palisade_model::label::Selector;
use palisade_model::policy::{DomainName, Namespaces, Peer, PodSet, ServiceName, Subject};
use smol_str::SmolStr;

use super::types;
use super::types::{AppliedTo, IpBlock, NamespacedName, PeerNamespaces, PeerService};
use crate::apimachinery::cidr;
use crate::definition::selector::LabelSelector;
use crate::definition::typed::{Object, Text};

/// Where a policy or group lives; cluster-wide ones live nowhere.
#[derive(Debug, Clone)]
pub struct Scope {
    /// The namespace.
    pub namespace: Option<SmolStr>,
}

/// Selectors of pods or of external entities, as they stand together in an entry.
pub struct Selectors<'w> {
    /// Of pods.
    pub pods: Option<&'w LabelSelector>,
    /// Of namespaces.
    pub namespaces: Option<&'w LabelSelector>,
    /// Of external entities.
    pub entities: Option<&'w LabelSelector>,
}

/// The selectors of an entry of any kind: they are called the same everywhere.
macro_rules! selectors {
    ($entry:expr) => {
        $crate::antrea::ends::Selectors {
            pods: $entry.pod_selector.as_deref(),
            namespaces: $entry.namespace_selector.as_deref(),
            entities: $entry.external_entity_selector.as_deref(),
        }
    };
}
pub(super) use selectors;

/// `appliedTo`.
pub fn subjects(written: &[Object<AppliedTo>], scope: &Scope) -> Result<Arc<[Subject]>, String> {
    written.iter().map(|entry| subject(entry, scope)).collect()
}

fn subject(entry: &AppliedTo, scope: &Scope) -> Result<Subject, String> {
    if let Some(why) = &entry.unreadable {
        return Err(why.clone());
    }
    let selectors = selectors!(entry);
    let alternatives = [
        entry
            .group
            .as_ref()
            .map(|name| scope.group(name))
            .map(|group| Ok(Subject::Group { group, within: scope.namespace.clone() })),
        entry.node_selector.as_deref().map(|nodes| Ok(Subject::Nodes(selector(nodes, "nodeSelector")?))),
        entry.service.as_deref().map(|name| Ok(Subject::Service(service(name, None)?))),
        entry.service_account.as_deref().map(|name| Ok(account(name)?.into())),
        selectors.set(scope).map(|set| Ok(set?.into())),
    ];
    // `{}` is every pod, in Antrea as in its own tests.
    if alternatives.iter().all(Option::is_none) {
        return selectors.together(scope).map(Subject::from);
    }
    only("an appliedTo", alternatives)
}

/// `from` and `to`; everybody when there is none.
pub fn peers(written: Option<&[Object<types::Peer>]>, scope: &Scope) -> Result<Vec<Peer>, String> {
    written.unwrap_or_default().iter().map(|entry| peer(entry, scope)).collect()
}

fn peer(entry: &types::Peer, scope: &Scope) -> Result<Peer, String> {
    if let Some(why) = &entry.unreadable {
        return Err(why.clone());
    }
    let selectors = selectors!(entry);
    let pods = match entry.namespaces.as_deref() {
        Some(relative) => Some(same_as_subject(relative, &selectors)),
        None => selectors.set(scope),
    };
    let alternatives = [
        entry.ip_block.as_deref().map(|written| Ok(Peer::Addresses(block(written)?))),
        entry.group.as_ref().map(|name| Ok(Peer::Group(scope.group(name)))),
        entry.fqdn.as_ref().map(names),
        entry.service_account.as_deref().map(|name| Ok(Peer::Pods(account(name)?))),
        entry.node_selector.as_deref().map(|nodes| Ok(Peer::Nodes(selector(nodes, "nodeSelector")?))),
        pods.map(|set| Ok(Peer::Pods(set?))),
    ];
    // `{}` is every pod, and nobody else.
    if alternatives.iter().all(Option::is_none) {
        return selectors.together(scope).map(Peer::Pods);
    }
    only("a peer", alternatives)
}

/// `toServices`.
pub fn services(written: Option<&[Object<PeerService>]>, scope: &Scope) -> Result<Vec<Peer>, String> {
    let one = |entry: &Object<PeerService>| -> Result<Peer, String> {
        if let Some(why) = &entry.unreadable {
            return Err(why.clone());
        }
        let name =
            NamespacedName { name: entry.name.clone(), namespace: entry.namespace.clone(), unreadable: None };
        service(&name, scope.namespace.as_ref()).map(Peer::Service)
    };
    written.unwrap_or_default().iter().map(one).collect()
}

/// Addresses with exceptions.
pub fn block(written: &IpBlock) -> Result<Block, String> {
    if let Some(why) = &written.unreadable {
        return Err(why.clone());
    }
    let network = |text: &str| cidr::network(text).ok_or_else(|| format!("{text:?} is no CIDR"));
    let cidr = network(written.cidr.as_ref().map_or("", |text| text.as_str()))?;
    let except = written.except.iter().flat_map(|texts| &texts.0);
    let except = except.map(|text| network(text)).collect::<Result<Vec<_>, _>>()?;
    match except.iter().find(|net| !cidr.contains(*net) || **net == cidr) {
        Some(outside) => Err(format!("{outside} is no part of {cidr}")),
        None => Ok(Block::new(cidr, except)),
    }
}

/// A service; one without a namespace is of the policy's own.
pub fn service(written: &NamespacedName, own: Option<&SmolStr>) -> Result<ServiceName, String> {
    let (name, namespace) = both(written, own, "service")?;
    Ok(ServiceName { namespace, name })
}

/// A selector of an entry.
pub fn selector(written: &LabelSelector, name: &str) -> Result<Selector, String> {
    written.lower().map_err(|why| format!("{name}: {why}"))
}

fn account(written: &NamespacedName) -> Result<PodSet, String> {
    let (name, namespace) = both(written, None, "serviceAccount")?;
    Ok(PodSet { account: Some(name), ..PodSet::all_of(&namespace) })
}

fn both(written: &NamespacedName, own: Option<&SmolStr>, what: &str) -> Result<(SmolStr, SmolStr), String> {
    if let Some(why) = &written.unreadable {
        return Err(why.clone());
    }
    let text = |text: &Option<Text>| text.as_ref().map(|text| text.0.clone()).filter(|text| !text.is_empty());
    let name = text(&written.name).ok_or_else(|| format!("{what} without a name"))?;
    let namespace = text(&written.namespace).or_else(|| own.cloned());
    Ok((name, namespace.ok_or_else(|| format!("{what} without a namespace"))?))
}

/// Whether a text has no character that a name, or a form of names, cannot have.
pub fn is_fqdn(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'*'))
}

fn names(written: &Text) -> Result<Peer, String> {
    if written.is_empty() || !is_fqdn(written) {
        return Err(format!("{:?} is no DNS name", written.as_str()));
    }
    Ok(Peer::Names(vec![DomainName::form(written)]))
}

/// `namespaces`: those that are the subject's own, or like it.
fn same_as_subject(written: &PeerNamespaces, selectors: &Selectors<'_>) -> Result<PodSet, String> {
    if let Some(why) = &written.unreadable {
        return Err(why.clone());
    }
    if selectors.namespaces.is_some() {
        return Err("namespaces together with namespaceSelector".to_owned());
    }
    if selectors.entities.is_some() {
        return Err("namespaces together with externalEntitySelector".to_owned());
    }
    let labels = written.same_labels.as_ref().map(|keys| &keys.0).filter(|keys| !keys.is_empty());
    let word = written.matching.as_ref().map(|text| text.as_str()).filter(|word| !word.is_empty());
    let namespaces = match (word, labels) {
        (Some("Self"), None) => Namespaces::Own,
        (None, Some(keys)) => Namespaces::SameLabels(keys.clone()),
        (Some(_), Some(_)) => return Err("namespaces with both match and sameLabels".to_owned()),
        (Some(other), None) => return Err(format!("namespaces match {other:?}")),
        (None, None) => return Err("namespaces without match or sameLabels".to_owned()),
    };
    let pods = selectors.pods.map_or(Ok(Selector::everything()), |pods| selector(pods, "podSelector"))?;
    Ok(PodSet::new(namespaces, pods))
}

/// The one alternative that is written; the words for it when there is none, or more than one.
pub fn only<T, const N: usize>(
    what: &str,
    alternatives: [Option<Result<T, String>>; N],
) -> Result<T, String> {
    let mut written = alternatives.into_iter().flatten();
    match (written.next(), written.next()) {
        (Some(one), None) => one,
        (None, _) => Err(format!("{what} without any field")),
        (Some(_), Some(_)) => Err(format!("{what} that says two things")),
    }
}

// === impl Scope ===

impl Scope {
    /// A group by name, of the same scope.
    pub fn group(&self, name: &Text) -> GroupName {
        GroupName { namespace: self.namespace.clone(), name: name.0.clone() }
    }
}

// === impl Selectors ===

impl Selectors<'_> {
    /// What they select together; `None` when there is none. Without a selector of namespaces, pods are of the policy's
    /// own namespace, or of all when it has none.
    pub fn set(&self, scope: &Scope) -> Option<Result<PodSet, String>> {
        let Selectors { pods, namespaces, entities } = self;
        if pods.is_none() && namespaces.is_none() && entities.is_none() {
            return None;
        }
        Some(self.together(scope))
    }

    fn together(&self, scope: &Scope) -> Result<PodSet, String> {
        let namespaces = match (self.namespaces, &scope.namespace) {
            (Some(written), _) => Namespaces::Matching(selector(written, "namespaceSelector")?),
            (None, Some(own)) => Namespaces::Named(own.clone()),
            (None, None) => Namespaces::Matching(Selector::everything()),
        };
        let everything = || Ok(Selector::everything());
        match (self.pods, self.entities) {
            (Some(_), Some(_)) => Err("podSelector together with externalEntitySelector".to_owned()),
            (None, Some(entities)) => {
                let labels = selector(entities, "externalEntitySelector")?;
                Ok(PodSet { external: true, ..PodSet::new(namespaces, labels) })
            }
            (pods, None) => {
                let labels = pods.map_or_else(everything, |pods| selector(pods, "podSelector"))?;
                Ok(PodSet::new(namespaces, labels))
            }
        }
    }
}
