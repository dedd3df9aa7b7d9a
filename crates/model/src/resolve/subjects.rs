//! The endpoints that a rule or an isolation applies to, groups expanded and namespaces absolute.

use std::borrow::Cow;

use smallvec::SmallVec;
use smol_str::SmolStr;

use super::{GroupMember, References};
use crate::cluster::NAMESPACE_NAME_LABEL;
use crate::label::{Operator, Requirement, Selector};
use crate::policy::{Namespaces, PodSet, ServiceName, Subject};

/// One alternative for the subject of a resolved rule. Namespaces of pods are never relative: every endpoint is in its own
/// namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResolvedSubject<'r> {
    /// Pods, or external entities.
    Pods(Cow<'r, PodSet>),
    /// Nodes, by their labels.
    Nodes(Cow<'r, Selector>),
    /// Connections from outside the cluster to a service.
    Service(&'r ServiceName),
}

/// Resolves subjects, each once and sorted. A group that cannot be read stands for every endpoint it could have meant: rules that apply
/// to it fail closed.
pub fn subjects<'r>(
    subjects: &'r [Subject],
    references: &impl References<'r>,
) -> SmallVec<[ResolvedSubject<'r>; 2]> {
    let mut all: SmallVec<[ResolvedSubject<'r>; 2]> = SmallVec::new();
    let mut add = |one: ResolvedSubject<'r>| all.push(one);
    for subject in subjects {
        match subject {
            Subject::Pods(set) => absolute(set).map(ResolvedSubject::Pods).into_iter().for_each(&mut add),
            Subject::Nodes(selector) => add(ResolvedSubject::Nodes(Cow::Borrowed(selector))),
            Subject::Service(name) => add(ResolvedSubject::Service(name)),
            Subject::Group { group, within } => match references.group(group) {
                None => {}
                Some(Ok(members)) => {
                    let selected = members.iter().filter_map(|member| of_member(member, within.as_ref()));
                    selected.for_each(&mut add);
                }
                Some(Err(_)) => unreadable_group(within.as_ref()).into_iter().for_each(&mut add),
            },
        }
    }
    if all.len() > 1 {
        all.sort_unstable();
        all.dedup();
    }
    all
}

/// Addresses are never the subject of a policy, and a namespaced policy does not apply to nodes.
fn of_member<'r>(member: &'r GroupMember, within: Option<&SmolStr>) -> Option<ResolvedSubject<'r>> {
    match member {
        GroupMember::Pods(set) => {
            let set = absolute(set)?;
            Some(ResolvedSubject::Pods(match within {
                Some(namespace) => Cow::Owned(set.in_namespace(namespace)),
                None => set,
            }))
        }
        GroupMember::Nodes(selector) if within.is_none() => {
            Some(ResolvedSubject::Nodes(Cow::Borrowed(selector)))
        }
        GroupMember::Nodes(_) | GroupMember::Addresses(_) => None,
    }
}

fn unreadable_group<'r>(within: Option<&SmolStr>) -> Vec<ResolvedSubject<'r>> {
    let pods = within.map_or_else(PodSet::everything, |namespace| PodSet::all_of(namespace));
    let external = PodSet { external: true, ..pods.clone() };
    let mut all = vec![ResolvedSubject::Pods(Cow::Owned(external)), ResolvedSubject::Pods(Cow::Owned(pods))];
    if within.is_none() {
        all.push(ResolvedSubject::Nodes(Cow::Owned(Selector::everything())));
    }
    all
}

/// Returns a set of subjects without relative namespaces: every pod is in its own namespace, and shares the labels of itself
/// if it has them at all. `None` if no pod can be in it.
fn absolute(set: &PodSet) -> Option<Cow<'_, PodSet>> {
    let namespaces = match &set.namespaces {
        Namespaces::Named(_) | Namespaces::Matching(_) => return Some(set.canonical()),
        Namespaces::Own => Selector::everything(),
        Namespaces::SameLabels(keys) if !keys.is_empty() => {
            Selector::new(keys.iter().map(|key| Requirement::new(key.clone(), Operator::Exists)))
        }
        Namespaces::SameLabels(_) | Namespaces::NotSameLabels(_) => return None,
    };
    Some(Cow::Owned(PodSet { namespaces: Namespaces::Matching(namespaces), ..set.clone() }))
}

// === impl PodSet ===

impl PodSet {
    /// Returns whether the set is the same for every subject.
    pub fn is_absolute(&self) -> bool {
        matches!(self.namespaces, Namespaces::Named(_) | Namespaces::Matching(_))
    }

    /// Returns the part of the set that is in one namespace. Requirements on the labels of namespaces stay: the name of a
    /// namespace is a label of it.
    #[must_use]
    pub fn in_namespace(&self, namespace: &SmolStr) -> PodSet {
        let namespaces = match &self.namespaces {
            Namespaces::Named(name) if name == namespace => Namespaces::Named(name.clone()),
            Namespaces::Matching(selector) if selector.is_everything() => {
                Namespaces::Named(namespace.clone())
            }
            namespaces => Namespaces::Matching(
                namespaces.narrowed([Requirement::equals(NAMESPACE_NAME_LABEL, namespace)]),
            ),
        };
        PodSet { namespaces, ..self.clone() }
    }

    /// Returns the set in one form: a namespace that is selected by the label with its name is named.
    pub fn canonical(&self) -> Cow<'_, PodSet> {
        let Namespaces::Matching(selector) = &self.namespaces else { return Cow::Borrowed(self) };
        match selector.requirements() {
            [Requirement { key, operator: Operator::In(names) }]
                if key == NAMESPACE_NAME_LABEL && names.len() == 1 =>
            {
                Cow::Owned(PodSet { namespaces: Namespaces::Named(names[0].clone()), ..self.clone() })
            }
            _ => Cow::Borrowed(self),
        }
    }
}

// === impl Namespaces ===

impl Namespaces {
    /// Returns the selector for those of these namespaces that meet further requirements. Relative namespaces count as all.
    pub fn narrowed(&self, more: impl IntoIterator<Item = Requirement>) -> Selector {
        let own: Vec<Requirement> = match self {
            Namespaces::Named(name) => vec![Requirement::equals(NAMESPACE_NAME_LABEL, name)],
            Namespaces::Matching(selector) => selector.requirements().to_vec(),
            Namespaces::Own | Namespaces::SameLabels(_) | Namespaces::NotSameLabels(_) => Vec::new(),
        };
        Selector::new(own.into_iter().chain(more))
    }
}
