//! Groups with their children and services looked up.
//!
//! A group may hold other groups, one level deep: that is Antrea's limit, and it makes cycles impossible. A group that does not
//! exist has no members, as subject, as peer and as child: a policy may come before its groups. A group that nests deeper,
//! or that cannot be read, is broken as a whole: rules that name it fail closed.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::ResolvedPeer;
use crate::address::Block;
use crate::cluster::Service;
use crate::group::{Group, GroupName, Members};
use crate::label::Selector;
use crate::policy::{Namespaces, PodSet, ServiceName};

/// The members of a group, or what in it cannot be read.
pub type Expansion = Result<Vec<GroupMember>, String>;

/// Members of a group with nothing left to look up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupMember {
    /// Pods.
    Pods(PodSet),
    /// Nodes, by their labels.
    Nodes(Selector),
    /// Addresses in any of these blocks.
    Addresses(Vec<Block>),
}

/// Expands each of these groups.
pub fn expand_all<'s>(
    groups: &BTreeMap<GroupName, Group>,
    service: impl Fn(&ServiceName) -> Option<&'s Service>,
) -> BTreeMap<GroupName, Expansion> {
    let members = |name: &GroupName| groups.get(name).map(|group| &group.members);
    groups
        .iter()
        .map(|(name, group)| (name.clone(), expand(name, &group.members, members, &service)))
        .collect()
}

/// Expands a group, given the other groups and the services.
pub fn expand<'g, 's>(
    name: &GroupName,
    members: &Members,
    group: impl Fn(&GroupName) -> Option<&'g Members>,
    service: impl Fn(&ServiceName) -> Option<&'s Service>,
) -> Expansion {
    let own = |members: &Members| -> Result<Option<GroupMember>, String> {
        Ok(match members {
            Members::Pods(set) => Some(GroupMember::Pods(set.clone())),
            Members::Nodes(selector) => Some(GroupMember::Nodes(selector.clone())),
            Members::Addresses(blocks) => Some(GroupMember::Addresses(blocks.clone())),
            Members::Service(name) => selected_by(name, service(name)).map(GroupMember::Pods),
            Members::Nobody | Members::Children(_) => None,
            Members::Unknown(what) => return Err(what.clone()),
        })
    };
    let Members::Children(children) = members else { return Ok(own(members)?.into_iter().collect()) };
    let mut all = Vec::new();
    let mut children: Vec<&SmolStr> = children.iter().collect();
    children.sort_unstable();
    children.dedup();
    for child in children {
        match group(&sibling(name, child)) {
            None => {}
            Some(Members::Children(_)) => {
                return Err(format!("group {name} nests deeper than one level: {child} has children"));
            }
            Some(members) => {
                all.extend(own(members).map_err(|what| format!("child group {child}: {what}"))?);
            }
        }
    }
    Ok(all)
}

/// Returns the name of another group of the same scope.
pub fn sibling(group: &GroupName, name: &SmolStr) -> GroupName {
    GroupName { namespace: group.namespace.clone(), name: name.clone() }
}

/// The pods that a service selects. One without a selector, as every ExternalName is, has none that a policy could know.
fn selected_by(name: &ServiceName, service: Option<&Service>) -> Option<PodSet> {
    let pods = service?.selector()?.clone();
    Some(PodSet::new(Namespaces::Named(name.namespace.clone()), pods))
}

// === impl ResolvedPeer ===

impl<'r> From<&'r GroupMember> for ResolvedPeer<'r> {
    fn from(member: &'r GroupMember) -> Self {
        match member {
            GroupMember::Pods(set) => ResolvedPeer::Pods(set),
            GroupMember::Nodes(selector) => ResolvedPeer::Nodes(selector),
            GroupMember::Addresses(blocks) => ResolvedPeer::Addresses(blocks),
        }
    }
}
