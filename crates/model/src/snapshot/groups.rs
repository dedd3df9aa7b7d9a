//! The groups of a snapshot, with their children and services looked up once.
//!
//! A group may hold other groups, one level deep: that is Antrea's limit, and it makes circles impossible. A group that
//! does not exist has no members, as subject, as peer and as child: a policy may come before its groups. A group that
//! nests deeper, or that cannot be read, is broken as a whole: rules that name it fail closed.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use crate::cluster::Service;
use crate::group::{Group, GroupName, Members};
use crate::policy::{Namespaces, PodSet, ServiceName};

/// What a group comes to: pods, nodes and addresses; or why nobody can say.
pub type Resolved = Result<Vec<Members>, String>;

/// Members of a group by what its name was looked up to: none if there is no such group, else those it resolved to, or
/// what in it cannot be read.
pub fn members(found: Option<&Resolved>) -> Result<&[Members], &str> {
    match found {
        Some(Ok(members)) => Ok(members),
        Some(Err(what)) => Err(what),
        None => Ok(&[]),
    }
}

/// What these groups come to, each by its name.
pub fn resolve<'s>(
    groups: &BTreeMap<GroupName, Group>,
    service: impl Fn(&ServiceName) -> Option<&'s Service>,
) -> BTreeMap<GroupName, Resolved> {
    let members = |name: &GroupName| groups.get(name).map(|group| &group.members);
    groups
        .iter()
        .map(|(name, group)| (name.clone(), resolve_one(name, &group.members, members, &service)))
        .collect()
}

/// What a group comes to, given the other groups and the services.
pub fn resolve_one<'g, 's>(
    name: &GroupName,
    members: &Members,
    group: impl Fn(&GroupName) -> Option<&'g Members>,
    service: impl Fn(&ServiceName) -> Option<&'s Service>,
) -> Resolved {
    let own = |members: &Members| -> Resolved {
        match members {
            Members::Service(name) => Ok(behind(name, service(name)).into_iter().collect()),
            Members::Unknown(what) => Err(what.clone()),
            Members::Nobody | Members::Children(_) => Ok(Vec::new()),
            other => Ok(vec![other.clone()]),
        }
    };
    let Members::Children(children) = members else { return own(members) };
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

/// Another group of the same scope.
pub fn sibling(group: &GroupName, name: &SmolStr) -> GroupName {
    GroupName { namespace: group.namespace.clone(), name: name.clone() }
}

/// The pods that a service selects. One without a selector, as every ExternalName is, has none that a policy could know.
fn behind(name: &ServiceName, service: Option<&Service>) -> Option<Members> {
    let pods = service?.selector()?.clone();
    Some(Members::Pods(PodSet::new(Namespaces::Named(name.namespace.clone()), pods)))
}
