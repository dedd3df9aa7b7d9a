//! What stands out in the objects: nothing is wrong with the index for it, and somebody should know.
//!
//! Asked for and not kept: to find it takes a walk over everything, once, and no event pays for it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::Engine;
use crate::delta::Member;
use crate::selection::{Content, Selection};

/// More labels than this on one pod are reported.
pub const MANY_LABELS: usize = 1000;
/// More ranges of addresses than this in one set are reported.
pub const MANY_RANGES: usize = 1000;
/// More numbers than this for one name of a port, in one set, are reported: there is a rule for each.
pub const MANY_NUMBERS: usize = 100;

/// Something that stands out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// Several pods say that an address is theirs. A data plane cannot tell them apart: it holds for the address what
    /// holds for any of them.
    SharedAddress(IpAddr, Vec<Arc<Member>>),
    /// A pod that runs on a node has no address. Selectors find it, and there is nothing to program for it yet.
    NoAddress(Arc<Member>),
    /// A pod has very many labels.
    ManyLabels(Arc<Member>, usize),
    /// A set of addresses has very many ranges.
    ManyRanges(Arc<Selection>, usize),
    /// In a set, a port's name stands for very many numbers.
    ManyNumbers(Arc<Selection>, String, usize),
}

impl Engine {
    /// What stands out, sorted.
    pub fn findings(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        let mut claims: BTreeMap<IpAddr, Vec<Arc<Member>>> = BTreeMap::new();
        for (pod, entry) in self.endpoints.pods.iter() {
            if !self.endpoints.is_selectable(pod) {
                continue;
            }
            for address in &entry.member.addresses {
                claims.entry(*address).or_default().push(Arc::clone(&entry.member));
            }
            if entry.member.addresses.is_empty() && entry.member.node.is_some() {
                found.push(Finding::NoAddress(Arc::clone(&entry.member)));
            }
            let labels = self.endpoints.labels(pod).len();
            if labels > MANY_LABELS {
                found.push(Finding::ManyLabels(Arc::clone(&entry.member), labels));
            }
        }
        for (address, mut members) in claims {
            members.sort();
            members.dedup();
            if members.len() > 1 {
                found.push(Finding::SharedAddress(address, members));
            }
        }
        for (_, set) in self.sets.sets.iter() {
            if let Content::Addresses(ranges) = &set.selection.content
                && ranges.len() > MANY_RANGES
            {
                found.push(Finding::ManyRanges(Arc::clone(&set.selection), ranges.len()));
            }
        }
        for (set, name, numbers) in self.splits.numbers().filter(|(.., numbers)| *numbers > MANY_NUMBERS) {
            let content = Arc::clone(&self.sets.sets[set].selection);
            found.push(Finding::ManyNumbers(content, name.to_string(), numbers));
        }
        found.sort();
        found
    }
}

// === impl Finding ===

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::SharedAddress(address, members) => {
                let names: Vec<String> =
                    members.iter().map(|member| format!("{}/{}", member.namespace, member.name)).collect();
                write!(f, "{address} is the address of {}", names.join(" and of "))
            }
            Finding::NoAddress(member) => write!(f, "{member} has no address"),
            Finding::ManyLabels(member, labels) => {
                write!(f, "{}/{} has {labels} labels", member.namespace, member.name)
            }
            Finding::ManyRanges(_, ranges) => write!(f, "a set of addresses has {ranges} ranges"),
            Finding::ManyNumbers(content, name, numbers) => {
                write!(f, "port {name} stands for {numbers} numbers among {content}")
            }
        }
    }
}
