//! From a rule as it is written to rows: whom it applies to and whom it names, looked up and split.
//!
//! ```text
//!   a rule ──► its subjects, groups looked up ──► each, and the peers ──► a row for the traffic that has numbers,
//!                                                 │                       and one for each number that a port's
//!                                                 │                       name stands for (ports.rs)
//!                                                 └─ where peers are relative to the subject's namespace, once for
//!                                                    each class of namespaces (relative.rs)
//! ```

use palisade_model::address::Block;
use palisade_model::policy::{PodSet, Subject};
use palisade_model::ranges::Ranges;
use palisade_model::resolve::{self, ResolvedPeer, ResolvedPeers, ResolvedSubject};

use crate::Engine;
use crate::id::{Id, RuleId, SetId};
use crate::policies::Referenced;
use crate::ports::{User, Where};
use crate::relative::Relative;
use crate::rows::{Pattern, PeerSets, Row};
use crate::selection::{Content, Wanted};
use crate::shapes::Few;

/// What has been made of a policy, or of a part of it.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Rows that are there as long as the policy says the same.
    pub(crate) rows: Few<RuleId>,
    /// What makes more rows, as ports and namespaces come and go.
    pub(crate) more: Option<Box<More>>,
}

/// What makes rows.
#[derive(Debug, Default)]
pub(crate) struct More {
    pub(crate) ports: Vec<Id<User>>,
    pub(crate) relatives: Vec<Id<Relative>>,
}

impl Engine {
    /// Makes the rows of a rule after a pattern. The sets of its subjects may be known already.
    pub(crate) fn make(
        &mut self,
        pattern: Pattern,
        subjects: &[Subject],
        known: Option<Few<SetId>>,
        peers: &ResolvedPeers<'_>,
        names: &Referenced,
        made: &mut Made,
    ) {
        let (fixed, relative) = self.peer_sets(peers);
        let only_pods = subjects.iter().all(|subject| matches!(subject, Subject::Pods(_)));
        if relative.is_empty()
            && only_pods
            && let Some(known) = known
        {
            for subject in known {
                self.make_rows(pattern.row(subject, fixed.clone()), made);
            }
            return;
        }
        for subject in resolve::subjects(subjects, &names) {
            match subject {
                ResolvedSubject::Pods(set) if !relative.is_empty() => {
                    let peers = (fixed.clone(), relative.clone());
                    let id = self.make_relative(pattern, set.into_owned(), peers);
                    made.more.get_or_insert_default().relatives.push(id);
                }
                other => {
                    // Nodes and services have no namespace that peers could be relative to.
                    let subject = self.take_set(match &other {
                        ResolvedSubject::Pods(set) => Wanted::Pods(set, None),
                        ResolvedSubject::Nodes(selector) => Wanted::Nodes(selector),
                        ResolvedSubject::Service(name) => Wanted::Service(name),
                    });
                    self.make_rows(pattern.row(subject, fixed.clone()), made);
                }
            }
        }
    }

    /// Makes the rows for one subject.
    pub(crate) fn make_rows(&mut self, row: Row, made: &mut Made) {
        if matches!(&row.peers, PeerSets::Of(none) if none.is_empty()) {
            return;
        }
        let Some(carried) = self.policies.carried(&row) else { return };
        let (names, plain) = (carried.named.len(), carried.has_plain());
        for named in 0..names {
            self.make_named(&row, named, made);
        }
        if plain {
            made.rows.push(self.add_row(row));
        }
    }

    /// Makes the rows for one name of a port: whoever receives the connection has a port of that name.
    fn make_named(&mut self, row: &Row, named: usize, made: &mut Made) {
        let is_pods = |engine: &Engine, set: SetId| {
            matches!(&engine.sets.sets[set].selection.content, Content::Pods(..))
        };
        if row.directions.ingress && is_pods(self, row.subject) {
            return self.make_port(row, row.subject, Where::Subject, named, made);
        }
        let pods = row.peers.as_slice().iter().copied().filter(|set| is_pods(self, *set));
        let pods: Few<SetId> = if row.directions.egress { pods.collect() } else { Few::new() };
        for set in &pods {
            self.make_port(
                &Row { peers: PeerSets::One(*set), ..row.clone() },
                *set,
                Where::Peer,
                named,
                made,
            );
        }
        let others = match &row.peers {
            PeerSets::Any => PeerSets::Any,
            sets => sets.as_slice().iter().copied().filter(|set| !pods.contains(set)).collect(),
        };
        let anybody = !matches!(&others, PeerSets::Of(none) if none.is_empty());
        // A node has no names for its ports, and a service is its pods: the destination is somebody's pod.
        let receives = row.directions.egress
            || matches!(&self.sets.sets[row.subject].selection.content, Content::Service(_));
        if anybody && receives {
            for external in [false, true] {
                let everybody = PodSet { external, ..PodSet::everything() };
                let base = self.take_set(Wanted::Pods(&everybody, None));
                let row = Row { peers: others.clone(), ..row.clone() };
                self.make_port(&row, base, Where::Destination, named, made);
            }
        }
    }

    /// Takes back what has been made.
    pub(crate) fn unmake(&mut self, made: Made) {
        for row in made.rows {
            self.condemn_row(row);
        }
        if let Some(more) = made.more {
            for port in more.ports {
                self.unmake_port(port);
            }
            for relative in more.relatives {
                self.unmake_relative(relative);
            }
        }
    }

    /// Returns the sets of the pods among subjects.
    pub(crate) fn pod_subjects(&mut self, subjects: &[ResolvedSubject<'_>]) -> Few<SetId> {
        let pods = subjects.iter().filter_map(|subject| match subject {
            ResolvedSubject::Pods(set) => Some(set),
            ResolvedSubject::Nodes(_) | ResolvedSubject::Service(_) => None,
        });
        pods.map(|set| self.take_set(Wanted::Pods(set, None))).collect()
    }

    /// Returns the sets at the other end of a rule, and those that are relative to its subject.
    fn peer_sets(&mut self, peers: &ResolvedPeers<'_>) -> (PeerSets, Vec<PodSet>) {
        if matches!(peers, ResolvedPeers::Any) {
            return (PeerSets::Any, Vec::new());
        }
        let mut sets: Few<SetId> = Few::new();
        let mut relative = Vec::new();
        let mut blocks: Vec<&Block> = Vec::new();
        peers.for_each(|peer| match peer {
            ResolvedPeer::Pods(set) if set.is_absolute() => {
                sets.push(self.take_set(Wanted::Pods(&set.canonical(), None)));
            }
            ResolvedPeer::Pods(set) => relative.push(set.clone()),
            ResolvedPeer::Addresses(own) => blocks.extend(own),
            ResolvedPeer::Nodes(selector) => sets.push(self.take_set(Wanted::Nodes(selector))),
            ResolvedPeer::Names(names) => {
                let mut names = names.to_vec();
                names.sort();
                names.dedup();
                sets.push(self.take_set(Wanted::Names(&names)));
            }
            ResolvedPeer::Service(name) => sets.push(self.take_set(Wanted::Service(name))),
            ResolvedPeer::Group(_) => {}
        });
        if !blocks.is_empty() {
            // However many blocks there are, to a data plane they are one set.
            let ranges = Ranges::of(blocks);
            sets.push(self.take_set(Wanted::Addresses(&ranges)));
        }
        (sets.into_iter().collect(), relative)
    }
}
