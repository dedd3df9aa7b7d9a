//! Tiers and groups in the rule language. ([`super::policy`] has the policies.)

use palisade_model::group::{Group, Members, TierObject};

use super::ends::{self, Scope, selectors};
use super::types;
use crate::definition::typed::Whole;
use crate::object::Header;

/// A tier. A priority that is missing is 0, as decoders have it; one that cannot be read is none.
pub fn tier(written: &types::Tier, header: &Header) -> TierObject {
    let spec = written.spec.as_deref();
    let unreadable = written.unreadable.is_some() || spec.is_some_and(|spec| spec.unreadable.is_some());
    let priority = match spec.and_then(|spec| spec.priority) {
        Some(Whole(number)) => u8::try_from(number).ok(),
        None => (!unreadable).then_some(0),
    };
    TierObject { object: header.origin(super::dialect(header)), priority }
}

/// A group. One that says nothing is empty; one that cannot be read, or says two things, is unknown.
pub fn group(written: &types::Group, header: &Header) -> Group {
    let members = match (&written.unreadable, written.spec.as_deref()) {
        (Some(why), _) => Members::Unknown(why.clone()),
        (None, Some(spec)) => members(spec, header).unwrap_or_else(Members::Unknown),
        (None, None) => Members::Nobody,
    };
    Group { object: header.origin(super::dialect(header)), members }
}

fn members(spec: &types::GroupSpec, header: &Header) -> Result<Members, String> {
    if let Some(why) = &spec.unreadable {
        return Err(why.clone());
    }
    let scope = Scope { namespace: header.namespace.clone() };
    let selectors = selectors!(spec);
    let blocks = spec.ip_blocks.as_deref().filter(|blocks| !blocks.is_empty());
    let children = spec.child_groups.as_ref().filter(|children| !children.0.is_empty());
    let alternatives = [
        selectors.set(&scope).map(|set| set.map(Members::Pods)),
        spec.node_selector.as_deref().map(|nodes| ends::selector(nodes, "nodeSelector").map(Members::Nodes)),
        blocks.map(|blocks| {
            let blocks: Result<_, String> = blocks.iter().map(|one| ends::block(one)).collect();
            blocks.map(Members::Addresses)
        }),
        spec.service_reference
            .as_deref()
            .map(|name| ends::service(name, scope.namespace.as_ref()).map(Members::Service)),
        children.map(|children| Ok(Members::Children(children.0.clone()))),
    ];
    if alternatives.iter().all(Option::is_none) {
        return Ok(Members::Nobody);
    }
    ends::only("a group", alternatives)
}
