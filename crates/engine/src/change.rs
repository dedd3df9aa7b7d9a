//! What changed: the sets and rules of the index, one step at a time, in an order in which a copy can follow.
//!
//! A set comes before its members, members before the rules that name the set; what goes, goes the other way round. So a
//! copy that applies the changes in order never has a rule whose sets are not there, nor a rule that lets in somebody
//! who was not meant.

use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::policy::{Object, PodSet};
use smol_str::SmolStr;

/// The number of a set. It is given again once the set is gone.
pub type SetId = usize;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A set is there; it has no members yet.
    Set(SetId, PodSet),
    /// A pod is in the set.
    Join(SetId, Member),
    /// It is not any more.
    Leave(SetId, Member),
    /// The set is gone; it has no members any more.
    Unset(SetId),
    /// A policy's rules hold: whom they apply to and whom they name are sets that are there.
    Policy(Arc<Object>),
    /// They do not hold any more.
    NoPolicy(Arc<Object>),
}

/// A member of a set, as a data plane needs it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The pod's namespace.
    pub namespace: SmolStr,
    /// The pod's name.
    pub name: SmolStr,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The node it runs on.
    pub node: Option<SmolStr>,
}
