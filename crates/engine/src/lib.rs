//! The live index: takes object changes in any order, and knows at any moment what they mean together.
//!
//! ```text
//!              endpoints                                         policies
//!              ─────────                                         ────────
//!   pods ──► shapes ──► classes ◄──── matched once ────► sets ◄── rows ◄── rules, groups and tiers looked up,
//!                       pods that                        who      one for   ports' names split by number,
//!   namespaces ───────► no rule                          a row    each      relative peers by class of namespaces
//!                       tells apart                      names    subject
//!                          │                               │        │
//!                          │                               ▼        ▼
//!                          └────────────────────────────► spans: what each node needs, by counting
//!                                                          │
//!                          questions (ask.rs) ◄────────────┴──────────────► a delta for each event (delta.rs)
//! ```
//!
//! Pods of one namespace that no rule tells apart are one **class** (shapes.rs, endpoints.rs). What rules say about
//! endpoints, as subjects and as peers, is a **set**: equal selectors are one set whatever the dialect and whoever wrote
//! them (sets.rs). A class is matched against a set once, when the later of the two appears, and only if the set asks for
//! what the class has (classes.rs). A pod that starts then joins a class, and with it every set that names the class;
//! nothing else is looked at.
//!
//! State, not history: what the index says depends on the objects that are there, not on the order they came in.
//! References that lead nowhere, objects that come twice and deletions of what never was are all fine.
//!
//! Nothing here does IO, waits, reads a clock or knows an API. [`Engine::apply`] takes an event and says what it changed;
//! [`Engine::verdict`] and [`Engine::policies_of`] answer; a [`view::View`] is a copy that follows the deltas, and a
//! [`feed::Feed`] hands them to any number of readers that never wait for the writer, nor it for them.

mod apply;
mod arena;
pub mod ask;
mod carried;
mod classes;
pub mod delta;
mod endpoints;
mod expand;
pub mod feed;
mod groups;
mod hosts;
mod id;
mod names;
mod namespaces;
mod parts;
mod pending;
mod policies;
mod ports;
mod relative;
pub mod report;
mod rows;
pub mod selection;
mod services;
mod sets;
mod shapes;
mod spans;
mod table;
pub mod view;
mod whole;
pub mod wire;

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_model::cluster::Node;
use palisade_model::matching::{Parties, PodFacts};
use smol_str::SmolStr;

pub use self::delta::{Change, Delta};

use self::endpoints::Endpoints;
use self::groups::Groups;
use self::hosts::Hosts;
use self::id::{ArenaIndex, Id, RuleId};
use self::names::Names;
use self::pending::Pending;
use self::policies::Policies;
use self::ports::Splits;
use self::relative::Relatives;
use self::rows::{Row, Rows};
use self::services::Services;
use self::sets::Sets;

/// A cluster, indexed.
#[derive(Debug, Default)]
pub struct Engine {
    endpoints: Endpoints,
    hosts: Hosts,
    services: Services,
    names: Names,
    /// The names that somebody resolved, and to what.
    given_names: BTreeMap<SmolStr, Vec<IpAddr>>,
    tiers: BTreeMap<SmolStr, u8>,
    groups: Groups,
    policies: Policies,
    sets: Sets,
    rows: Rows,
    /// Those that may be made twice, by what they are.
    shared_rows: BTreeMap<Row, RuleId>,
    splits: Splits,
    relatives: Relatives,
    /// What the event at hand has changed so far.
    pending: Pending,
    epoch: u64,
}

// === impl Parties ===

impl Parties for Engine {
    fn pod(&self, at: usize) -> PodFacts<'_> {
        // Positions are those of a flow, which `Engine::verdict` has looked up.
        let Some(pod) = Id::at(at) else { unreachable!("a flow names a pod that does not exist") };
        let facts = self.endpoints.facts(pod);
        if facts.host_network && facts.node.is_none() {
            // A pod in its node's network without the node's name: its address is the node's.
            let node = self.hosts.with_address(&self.endpoints.pods[pod].member.addresses);
            return PodFacts { node, ..facts };
        }
        facts
    }

    fn node(&self, at: usize) -> &Node {
        match Id::at(at).and_then(|at| self.hosts.node(at)) {
            Some(node) => node,
            // Positions are either those of a flow, which `Engine::verdict` has looked up, or from `node_named` just before.
            None => unreachable!("a flow names a node that does not exist"),
        }
    }

    fn node_named(&self, name: &str) -> Option<usize> {
        self.hosts.declared(name).map(ArenaIndex::position)
    }
}
