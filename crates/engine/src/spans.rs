//! Spans: what each node needs, by counting.
//!
//! A node needs the rules of a subject as soon as one member of it is there, and the addresses that those rules name. So a
//! subject counts its members by node, and a set counts, by node, the subjects there that name it. A pod that starts
//! changes one number for each subject it is in, and more only if it is the first one there.

use crate::Engine;
use crate::delta::Part;
use crate::hosts::HostId;
use crate::id::SetId;
use crate::selection::Content;
use crate::sets::{Counts, count};
use crate::shapes::Few;

/// Where a member of a subject is, so that its rules are needed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Location {
    Node(HostId),
    /// On every node: connections to a service from outside may enter anywhere.
    Everywhere,
}

impl Engine {
    /// The first row applies to a set: its members are counted from now on.
    pub(crate) fn start_span(&mut self, subject: SetId) {
        let mut locations: Few<Location> = Few::new();
        match &self.sets.sets[subject].selection.content {
            Content::Pods(..) => {
                for class in &self.sets.sets[subject].classes {
                    let pods = self.endpoints.classes[*class].pods.iter();
                    let hosts = pods.filter_map(|pod| self.endpoints.pods[*pod].host);
                    locations.extend(hosts.map(Location::Node));
                }
            }
            Content::Nodes(_) => locations.extend(self.hosts.holding(subject).map(Location::Node)),
            // No connection reaches a service that does not exist.
            Content::Service(name) => {
                locations.extend(self.services.reachable(name).map(|_| Location::Everywhere));
            }
            Content::Addresses(_) | Content::Names(_) => {}
        }
        locations.sort_unstable();
        let mut nodes = Counts::new();
        for location in locations {
            match nodes.last_mut() {
                Some((last, members)) if *last == location => *members += 1,
                _ => nodes.push((location, 1)),
            }
        }
        for (location, _) in &nodes {
            self.pending.need(subject, Part::Subject, *location, 1);
        }
        self.sets.sets[subject].nodes = nodes;
    }

    /// No row applies to a set any more.
    pub(crate) fn end_span(&mut self, subject: SetId) {
        for (location, _) in std::mem::take(&mut self.sets.sets[subject].nodes) {
            self.pending.need(subject, Part::Subject, location, -1);
        }
    }

    /// A member of a set is on a node, or is not any more.
    pub(crate) fn count_member(&mut self, set: SetId, location: Location, by: i32) {
        if self.sets.sets[set].applied == 0 {
            return;
        }
        let (before, after) = count(&mut self.sets.sets[set].nodes, location, by);
        if (before == 0) == (after == 0) {
            return;
        }
        self.pending.need(set, Part::Subject, location, by);
        for at in 0..self.sets.sets[set].named.len() {
            let (named, _) = self.sets.sets[set].named[at];
            self.need_addresses(named, location, by);
        }
    }

    /// One more subject on a node names a set, or one less.
    pub(crate) fn need_addresses(&mut self, set: SetId, location: Location, by: i32) {
        let by = by.signum();
        let (before, after) = count(&mut self.sets.sets[set].needed, location, by);
        if (before == 0) != (after == 0) {
            self.pending.need(set, Part::Addresses, location, by);
        }
    }
}
