//! From a rule as it is written to rows: whom it applies to and whom it names, looked up and split.
//!
//! ```text
//!   a rule ──► its subjects, groups looked up ──► each, and the peers ──► a row for the traffic that has numbers,
//!                                                 │                       and one for each number that a port's
//!                                                 │                       name stands for (ports.rs)
//!                                                 └─ where peers are relative to the subject's namespace, once for
//!                                                    each class of namespaces (relative.rs)
//! ```

use std::borrow::Cow;

use palisade_model::address::Block;
use palisade_model::cluster::NAMESPACE_NAME_LABEL;
use palisade_model::group::Members;
use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::policy::{Namespaces, Peer, Peers, PodSet, ServiceName, Subject};
use palisade_model::ranges::Ranges;
use smol_str::SmolStr;

use crate::Engine;
use crate::delta::{Content, SetId, Wanted};
use crate::ports::Where;
use crate::rows::{PeerSets, Row};
use crate::shapes::Few;

/// What has been made of a policy, or of a part of it.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Rows that are there as long as the policy says the same.
    pub(crate) rows: Few,
    /// What makes more rows, as ports and namespaces come and go.
    pub(crate) more: Option<Box<More>>,
}

/// What makes rows.
#[derive(Debug, Default)]
pub(crate) struct More {
    pub(crate) ports: Vec<u32>,
    pub(crate) relatives: Vec<u32>,
}

/// Whom a rule applies to.
enum Applies<'a> {
    Pods(Cow<'a, PodSet>),
    Nodes(Cow<'a, Selector>),
    Service(&'a ServiceName),
}

impl Engine {
    /// Makes the rows of a rule, after the pattern of one of them. The sets of its subjects may be known.
    pub(crate) fn make(
        &mut self,
        row: &Row,
        subjects: &[Subject],
        known: Option<Few>,
        peers: &Peers,
        made: &mut Made,
    ) {
        let (fixed, relative) = self.peer_sets(peers);
        let only_pods = subjects.iter().all(|subject| matches!(subject, Subject::Pods(_)));
        if relative.is_empty()
            && only_pods
            && let Some(known) = known
        {
            for subject in known {
                self.make_rows(Row { subject, peers: fixed.clone(), ..row.clone() }, made);
            }
            return;
        }
        for subject in self.applies_to(subjects) {
            match subject {
                Applies::Pods(set) if !relative.is_empty() => {
                    let pattern = Row { peers: fixed.clone(), ..row.clone() };
                    let id = self.make_relative(pattern, set.into_owned(), relative.clone());
                    made.more.get_or_insert_default().relatives.push(id);
                }
                other => {
                    // Nodes and services have no namespace for others to be the same as.
                    let subject = self.take_set(match &other {
                        Applies::Pods(set) => Wanted::Pods(set, None),
                        Applies::Nodes(selector) => Wanted::Nodes(selector),
                        Applies::Service(name) => Wanted::Service(name),
                    });
                    self.make_rows(Row { subject, peers: fixed.clone(), ..row.clone() }, made);
                }
            }
        }
    }

    /// Makes the rows for one subject.
    pub(crate) fn make_rows(&mut self, row: Row, made: &mut Made) {
        if matches!(&row.peers, PeerSets::Of(none) if none.is_empty()) {
            return;
        }
        let carried = self.policies.carried(&row);
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
        let is_pods =
            |engine: &Engine, set: SetId| matches!(&*engine.sets.sets[set].content, Content::Pods(..));
        if row.directions.ingress && is_pods(self, row.subject) {
            return self.make_port(row, row.subject, Where::Subject, named, made);
        }
        let pods = row.peers.as_slice().iter().copied().filter(|set| is_pods(self, *set));
        let pods: Few = if row.directions.egress { pods.collect() } else { Few::new() };
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
        let receives =
            row.directions.egress || matches!(&*self.sets.sets[row.subject].content, Content::Service(_));
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

    /// The sets of pods that subjects mean.
    pub(crate) fn pod_subjects(&mut self, subjects: &[Subject]) -> Few {
        let mut sets = Few::new();
        for subject in self.applies_to(subjects) {
            if let Applies::Pods(set) = subject {
                sets.push(self.take_set(Wanted::Pods(&set, None)));
            }
        }
        sets
    }

    /// Whom subjects mean, each once.
    fn applies_to<'a>(&self, subjects: &'a [Subject]) -> Vec<Applies<'a>> {
        let mut all: Vec<Applies<'a>> = Vec::new();
        let mut add = |one: Applies<'a>| {
            if !all.contains(&one) {
                all.push(one);
            }
        };
        for subject in subjects {
            match subject {
                Subject::Pods(set) => {
                    if let Some(set) = absolute(set) {
                        add(Applies::Pods(set));
                    }
                }
                Subject::Nodes(selector) => add(Applies::Nodes(Cow::Borrowed(selector))),
                Subject::Service(name) => add(Applies::Service(name)),
                Subject::Group { group, within } => match self.groups.get(group) {
                    Ok(members) => {
                        for member in members {
                            match member {
                                Members::Pods(set) => {
                                    if let Some(set) = absolute(set) {
                                        add(Applies::Pods(Cow::Owned(inside(&set, within.as_ref()))));
                                    }
                                }
                                Members::Nodes(selector) if within.is_none() => {
                                    add(Applies::Nodes(Cow::Owned(selector.clone())));
                                }
                                _ => {}
                            }
                        }
                    }
                    // Whoever it could have meant: rules that apply to it fail closed.
                    Err(_) => {
                        let pods = inside(&PodSet::everything(), within.as_ref());
                        add(Applies::Pods(Cow::Owned(PodSet { external: true, ..pods.clone() })));
                        add(Applies::Pods(Cow::Owned(pods)));
                        if within.is_none() {
                            add(Applies::Nodes(Cow::Owned(Selector::everything())));
                        }
                    }
                },
            }
        }
        all
    }

    /// The sets at the other end of a rule, and those that are relative to its subject.
    fn peer_sets(&mut self, peers: &Peers) -> (PeerSets, Vec<PodSet>) {
        let Peers::Of(peers) = peers else { return (PeerSets::Any, Vec::new()) };
        let mut sets = Few::new();
        let mut relative = Vec::new();
        let mut blocks: Vec<Cow<'_, Block>> = Vec::new();
        for peer in peers {
            match peer {
                Peer::Pods(set) if is_absolute(set) => {
                    sets.push(self.take_set(Wanted::Pods(&canonical(set), None)));
                }
                Peer::Pods(set) => relative.push(set.clone()),
                Peer::Addresses(block) => blocks.push(Cow::Borrowed(block)),
                Peer::Nodes(selector) => sets.push(self.take_set(Wanted::Nodes(selector))),
                Peer::Names(names) => {
                    let mut names = names.clone();
                    names.sort();
                    names.dedup();
                    sets.push(self.take_set(Wanted::Names(&names)));
                }
                Peer::Service(name) => sets.push(self.take_set(Wanted::Service(name))),
                Peer::Group(group) => {
                    for member in self.groups.get(group).unwrap_or_default().to_vec() {
                        match member {
                            Members::Pods(set) if is_absolute(&set) => {
                                sets.push(self.take_set(Wanted::Pods(&canonical(&set), None)));
                            }
                            Members::Pods(set) => relative.push(set),
                            Members::Nodes(selector) => sets.push(self.take_set(Wanted::Nodes(&selector))),
                            Members::Addresses(own) => blocks.extend(own.into_iter().map(Cow::Owned)),
                            _ => {}
                        }
                    }
                }
                Peer::Unknown(_) => {}
            }
        }
        if !blocks.is_empty() {
            // However many blocks there are, to a data plane they are one set.
            let ranges = Ranges::of(blocks.iter().map(|block| &**block));
            sets.push(self.take_set(Wanted::Addresses(&ranges)));
        }
        (sets.into_iter().collect(), relative)
    }
}

impl PartialEq for Applies<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Applies::Pods(one), Applies::Pods(other)) => one == other,
            (Applies::Nodes(one), Applies::Nodes(other)) => one == other,
            (Applies::Service(one), Applies::Service(other)) => one == other,
            _ => false,
        }
    }
}

fn is_absolute(set: &PodSet) -> bool {
    matches!(set.namespaces, Namespaces::Named(_) | Namespaces::Matching(_))
}

/// A set of subjects with nothing relative in it: everybody is in its own namespace, and has the same labels as itself if
/// it has them at all.
fn absolute(set: &PodSet) -> Option<Cow<'_, PodSet>> {
    let namespaces = match &set.namespaces {
        Namespaces::Named(_) | Namespaces::Matching(_) => return Some(canonical(set)),
        Namespaces::Own => Selector::everything(),
        Namespaces::SameLabels(keys) if !keys.is_empty() => {
            Selector::new(keys.iter().map(|key| Requirement::new(key.clone(), Operator::Exists)))
        }
        Namespaces::SameLabels(_) | Namespaces::NotSameLabels(_) => return None,
    };
    Some(Cow::Owned(PodSet { namespaces: Namespaces::Matching(namespaces), ..set.clone() }))
}

/// The same set in the one way to write it: a namespace that is selected by the label with its name is named.
fn canonical(set: &PodSet) -> Cow<'_, PodSet> {
    let Namespaces::Matching(selector) = &set.namespaces else { return Cow::Borrowed(set) };
    match selector.requirements() {
        [Requirement { key, operator: Operator::In(names) }]
            if key == NAMESPACE_NAME_LABEL && names.len() == 1 =>
        {
            Cow::Owned(PodSet { namespaces: Namespaces::Named(names[0].clone()), ..set.clone() })
        }
        _ => Cow::Borrowed(set),
    }
}

/// A set, only in one namespace. Where both say something about namespaces, what is asked of labels stays: the name of a
/// namespace is a label of it.
pub(crate) fn inside(set: &PodSet, within: Option<&SmolStr>) -> PodSet {
    let Some(namespace) = within else { return set.clone() };
    let namespaces = match &set.namespaces {
        Namespaces::Named(name) if name == namespace => Namespaces::Named(name.clone()),
        Namespaces::Matching(selector) if selector.is_everything() => Namespaces::Named(namespace.clone()),
        namespaces => {
            Namespaces::Matching(narrowed(namespaces, [Requirement::equals(NAMESPACE_NAME_LABEL, namespace)]))
        }
    };
    PodSet { namespaces, ..set.clone() }
}

/// What is asked of the labels of namespaces, and more.
pub(crate) fn narrowed(namespaces: &Namespaces, more: impl IntoIterator<Item = Requirement>) -> Selector {
    let own: Vec<Requirement> = match namespaces {
        Namespaces::Named(name) => vec![Requirement::equals(NAMESPACE_NAME_LABEL, name)],
        Namespaces::Matching(selector) => selector.requirements().to_vec(),
        _ => Vec::new(),
    };
    Selector::new(own.into_iter().chain(more))
}
