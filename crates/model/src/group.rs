//! Groups and tiers: objects that policies refer to by name.
//!
//! A rule holds the name, and the snapshot looks it up when a question is asked, so that a group may come before or
//! after the policies that use it, change without them, or be missing.

use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::address::Block;
use crate::label::Selector;
use crate::policy::{Object, PodSet, ServiceName};

/// A tier that is written as an object.
#[derive(Debug, Clone, PartialEq)]
pub struct TierObject {
    /// Which object; its name is the tier's.
    pub object: Arc<Object>,
    /// Its priority; `None` when that cannot be read.
    pub priority: Option<u8>,
}

/// The name of a group: in a namespace, or of the whole cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupName {
    /// The namespace; `None` for cluster-wide groups.
    pub namespace: Option<SmolStr>,
    /// The name.
    pub name: SmolStr,
}

/// A group of endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Which object.
    pub object: Arc<Object>,
    /// Who is in it.
    pub members: Members,
}

/// Who is in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Members {
    /// Pods.
    Pods(PodSet),
    /// Nodes, by their labels.
    Nodes(Selector),
    /// Addresses: any of these blocks.
    Addresses(Vec<Block>),
    /// The pods that a service selects.
    Service(ServiceName),
    /// Everybody in these groups, which are of the same scope.
    Children(Vec<SmolStr>),
    /// Nobody: nothing is said.
    Nobody,
    /// Something we cannot read, in the words for a trace.
    Unknown(String),
}

// === impl GroupName ===

impl fmt::Display for GroupName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

// === impl Group ===

impl Group {
    /// Its name.
    pub fn name(&self) -> GroupName {
        GroupName { namespace: self.object.namespace.clone(), name: self.object.name.clone() }
    }
}
