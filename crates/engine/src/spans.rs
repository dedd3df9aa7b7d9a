//! Spans: what each node needs, by counting.
//!
//! A node needs the rules of a subject as soon as one member of it is there, and the addresses that those rules name. So a
//! subject counts its members by node, and a set counts, by node, the subjects there that name it. A pod that starts
//! changes one number for each subject it is in, and more only if it is the first one there.

use crate::Engine;
use crate::delta::{Part, SetId};
use crate::endpoints::NONE;
use crate::selection::Content;
use crate::sets::{Counts, count};
use crate::shapes::Few;

/// Every node, where some rule holds wherever a connection comes in.
pub(crate) const EVERYWHERE: u32 = NONE - 1;

impl Engine {
    /// The first row applies to a set: its members are counted from now on.
    pub(crate) fn start_span(&mut self, subject: SetId) {
        let mut hosts = Few::new();
        match &self.sets.sets[subject].selection.content {
            Content::Pods(..) => {
                for class in &self.sets.sets[subject].classes {
                    let pods = self.endpoints.classes[*class].pods.iter();
                    hosts.extend(pods.map(|pod| self.endpoints.pods[*pod].host).filter(|host| *host != NONE));
                }
            }
            Content::Nodes(_) => hosts.extend(self.hosts.holding(subject)),
            // Whoever comes from outside may come in anywhere; to a service that is not there nobody comes.
            Content::Service(name) => hosts.extend(self.services.reachable(name).map(|_| EVERYWHERE)),
            Content::Addresses(_) | Content::Names(_) => {}
        }
        hosts.sort_unstable();
        let mut nodes = Counts::new();
        for host in hosts {
            match nodes.last_mut() {
                Some((last, members)) if *last == host => *members += 1,
                _ => nodes.push((host, 1)),
            }
        }
        for (host, _) in &nodes {
            self.pending.need(subject, Part::Subject, *host, 1);
        }
        self.sets.sets[subject].nodes = nodes;
    }

    /// No row applies to a set any more.
    pub(crate) fn end_span(&mut self, subject: SetId) {
        for (host, _) in std::mem::take(&mut self.sets.sets[subject].nodes) {
            self.pending.need(subject, Part::Subject, host, -1);
        }
    }

    /// A member of a set is on a node, or is not any more.
    pub(crate) fn count_member(&mut self, set: SetId, host: u32, by: i32) {
        if host == NONE || self.sets.sets[set].applied == 0 {
            return;
        }
        let (before, after) = count(&mut self.sets.sets[set].nodes, host, by);
        if (before == 0) == (after == 0) {
            return;
        }
        self.pending.need(set, Part::Subject, host, by);
        for at in 0..self.sets.sets[set].named.len() {
            let (named, _) = self.sets.sets[set].named[at];
            self.need_addresses(named, host, by);
        }
    }

    /// One more subject on a node names a set, or one less.
    pub(crate) fn need_addresses(&mut self, set: SetId, host: u32, by: i32) {
        let by = by.signum();
        let (before, after) = count(&mut self.sets.sets[set].needed, host, by);
        if (before == 0) != (after == 0) {
            self.pending.need(set, Part::Addresses, host, by);
        }
    }
}
