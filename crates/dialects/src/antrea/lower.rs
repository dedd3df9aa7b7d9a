//! Antrea's objects in the rule language.

use std::sync::Arc;

use palisade_model::address::Block;
use palisade_model::group::{Group, Members, TierObject};
use palisade_model::label::Selector;
use palisade_model::policy::{Namespaces, Placement, PodSet, Policy, Priority, Tier};

use super::tiers::tier_name;
use super::types;
use crate::apimachinery::cidr;
use crate::decode::Reader;
use crate::definition::selector::LabelSelector;
use crate::object::{Header, Lowered};

/// A tier.
pub fn tier(written: &types::Tier, header: &Header) -> TierObject {
    let spec = written.spec.as_deref();
    let priority = spec.and_then(|spec| spec.priority).and_then(|priority| u8::try_from(priority.0).ok());
    TierObject { object: header.origin(), priority }
}

/// A policy: its place, and none of its rules yet.
pub fn policy(written: &types::Policy, header: &Header, _: &Reader<'_>) -> Option<Policy> {
    let spec = written.spec.as_deref().cloned().unwrap_or_default();
    let tier = Tier::Named(tier_name(spec.tier.as_ref().map_or("", |tier| tier.as_str())));
    let priority = Priority(spec.priority.map_or(0.0, |priority| priority.0));
    let placement = Placement::Tier { tier, priority };
    Some(Policy {
        object: header.origin(),
        placement,
        isolations: Vec::new(),
        rules: Vec::new(),
        unreadable: written.unreadable.clone().or(spec.unreadable),
    })
}

/// A group.
pub fn group(written: &types::Group, header: &Header) -> Group {
    let members = match (&written.unreadable, &written.spec) {
        (Some(why), _) => Members::Unknown(why.clone()),
        (None, Some(spec)) => members(spec, header).unwrap_or_else(Members::Unknown),
        (None, None) => Members::Nobody,
    };
    Group { object: Arc::clone(&header.origin()), members }
}

fn members(spec: &types::GroupSpec, header: &Header) -> Result<Members, String> {
    if let Some(why) = &spec.unreadable {
        return Err(why.clone());
    }
    let select =
        |selector: &LabelSelector, name: &str| selector.lower().map_err(|why| format!("{name}: {why}"));
    let mut sources = Vec::new();
    if spec.pod_selector.is_some()
        || spec.namespace_selector.is_some() && spec.external_entity_selector.is_none()
    {
        let namespaces = match (&spec.namespace_selector, &header.namespace) {
            (Some(selector), _) => Namespaces::Matching(select(selector, "namespaceSelector")?),
            (None, Some(own)) => Namespaces::Named(own.clone()),
            (None, None) => Namespaces::Matching(Selector::everything()),
        };
        let pods = match &spec.pod_selector {
            Some(selector) => select(selector, "podSelector")?,
            None => Selector::everything(),
        };
        sources.push(Members::Pods(PodSet { namespaces, pods }));
    }
    if spec.external_entity_selector.is_some() {
        sources.push(Members::Unknown("externalEntitySelector".to_owned()));
    }
    if let Some(selector) = &spec.node_selector {
        sources.push(Members::Nodes(select(selector, "nodeSelector")?));
    }
    if let Some(blocks) = spec.ip_blocks.as_ref().filter(|blocks| !blocks.is_empty()) {
        let blocks = blocks.iter().map(|one| block(one)).collect::<Result<_, String>>()?;
        sources.push(Members::Addresses(blocks));
    }
    if let Some(service) = &spec.service_reference {
        let name = service.name.as_ref().ok_or("a service without a name")?;
        let own = header.namespace.clone();
        let namespace = service.namespace.clone().map(|namespace| namespace.0).or(own);
        let namespace = namespace.ok_or("a service without a namespace")?;
        sources.push(Members::Service { namespace, name: name.0.clone() });
    }
    if let Some(children) = spec.child_groups.as_ref().filter(|children| !children.0.is_empty()) {
        sources.push(Members::Children(children.0.clone()));
    }
    match (sources.pop(), sources.is_empty()) {
        (None, _) => Ok(Members::Nobody),
        (Some(one), true) => Ok(one),
        (Some(_), false) => Err("a group with more than one source".to_owned()),
    }
}

fn block(written: &types::IpBlock) -> Result<Block, String> {
    if let Some(why) = &written.unreadable {
        return Err(why.clone());
    }
    let network = |text: &str| cidr::network(text).ok_or_else(|| format!("{text:?} is no CIDR"));
    let except = written.except.iter().flat_map(|except| &except.0).map(|one| network(one));
    let except = except.collect::<Result<Vec<_>, String>>()?;
    Ok(Block::new(network(written.cidr.as_ref().map_or("", |cidr| cidr.as_str()))?, except))
}

/// An external entity: nothing yet.
pub fn external_entity(_: &types::ExternalEntity, _: &Header, _: &Reader<'_>) -> Option<Lowered> {
    None
}
