//! What rules say about endpoints: each distinct selection once, with the classes it holds and the rows that apply to it.

use std::sync::Arc;

use palisade_model::label::{Labels, Operator, Requirement, Selector};
use palisade_model::policy::{Direction, Namespaces, PodSet};
use palisade_model::snapshot::Stage;
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::arena::Arena;
use crate::delta::Directions;
use crate::endpoints::{Class, Endpoints};
use crate::id::{Id, PolicyId, RuleId, SetId};
use crate::ports::Split;
use crate::rows::Rows;
use crate::selection::{Content, Selection, Wanted};
use crate::shapes::Few;
use crate::spans::Location;
use crate::table::{Index, Table};

/// All sets.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    pub(crate) sets: Arena<Set, SetId>,
    by_content: Table<SetId>,
    /// Sets of pods by what they ask of a class at least: a port, or a namespace and a label.
    by_port: Index<SetId>,
    by_need: Index<SetId>,
    /// Sets of pods by what they ask of the labels of a namespace: a label, or whatever is under a key.
    by_namespace_label: Index<SetId>,
    /// How many entries of the first ask for a label of the namespace.
    by_namespace_labels: usize,
    /// Sets of nodes, and of names.
    pub(crate) of_nodes: Few<SetId>,
    pub(crate) of_names: Few<SetId>,
}

/// A selection.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) selection: Arc<Selection>,
    pub(crate) classes: Few<Id<Class>>,
    /// How often rows, and whatever makes rows, name it.
    pub(crate) uses: u32,
    /// How often rows name it, so that others see it.
    pub(crate) seen: u32,
    /// How many rows apply to it.
    pub(crate) applied: u32,
    /// How many isolate it, by direction.
    pub(crate) isolated: [u32; 2],
    /// The rows of the NetworkPolicy stage that apply to it, in any order.
    pub(crate) allows: Few<RuleId>,
    /// Those of the other stages, by direction and order.
    pub(crate) ranked: Vec<RuleId>,
    /// The policies that apply to it.
    pub(crate) policies: Few<PolicyId>,
    /// The nodes its members are on, and how many; kept while rows apply to it.
    pub(crate) nodes: Counts<Location>,
    /// The sets that rows which apply to it name, and how many rows.
    pub(crate) named: Counts<SetId>,
    /// The nodes that need it for its addresses, and how many subjects there name it.
    pub(crate) needed: Counts<Location>,
    /// The names of ports by which rules split it.
    pub(crate) splits: Option<Box<Few<Id<Split>>>>,
}

/// How many of what, sorted.
pub(crate) type Counts<T> = SmallVec<[(T, u32); 2]>;

// === impl Sets ===

impl Sets {
    pub(crate) fn is_empty(&self) -> bool {
        self.sets.len() + self.by_namespace_labels + self.of_nodes.len() + self.of_names.len() == 0
            && self.by_need.is_empty()
            && self.by_port.is_empty()
            && self.by_namespace_label.is_empty()
    }

    /// The set with this content, if there is one.
    pub(crate) fn find(&self, wanted: Wanted<'_>) -> (u64, Option<SetId>) {
        let hash = self.by_content.hash(&wanted);
        (hash, self.by_content.find(hash, |id| self.sets[id].selection.content.as_wanted() == wanted))
    }

    /// A new set, which holds nobody yet.
    pub(crate) fn insert(&mut self, hash: u64, wanted: Wanted<'_>) -> SetId {
        let id = self.sets.insert(Set {
            selection: Arc::new(wanted.to_content().into()),
            classes: Few::new(),
            uses: 0,
            seen: 0,
            applied: 0,
            isolated: [0, 0],
            allows: Few::new(),
            ranked: Vec::new(),
            policies: Few::new(),
            nodes: Counts::new(),
            named: Counts::new(),
            needed: Counts::new(),
            splits: None,
        });
        self.by_content.insert(hash, id);
        match wanted {
            Wanted::Pods(set, port) => {
                if let Some(port) = port {
                    self.by_port.add(port, id);
                } else {
                    for need in needs(set) {
                        self.by_need.add(&need, id);
                        self.by_namespace_labels += usize::from(matches!(need.0, NamespaceNeed::Label(..)));
                    }
                }
                for asked in asked_of_namespaces(set) {
                    self.by_namespace_label.add(&asked, id);
                }
            }
            Wanted::Nodes(_) => self.of_nodes.push(id),
            Wanted::Names(_) => self.of_names.push(id),
            Wanted::Addresses(_) | Wanted::Service(_) => {}
        }
        id
    }

    /// Removes a set that nobody uses and that holds no class any more.
    pub(crate) fn remove(&mut self, id: SetId) {
        let gone = self.sets.remove(id);
        let wanted = gone.selection.content.as_wanted();
        self.by_content.remove(self.by_content.hash(&wanted), id);
        match wanted {
            Wanted::Pods(set, port) => {
                if let Some(port) = port {
                    self.by_port.take(port, id);
                } else {
                    for need in needs(set) {
                        self.by_need.take(&need, id);
                        self.by_namespace_labels -= usize::from(matches!(need.0, NamespaceNeed::Label(..)));
                    }
                }
                for asked in asked_of_namespaces(set) {
                    self.by_namespace_label.take(&asked, id);
                }
            }
            Wanted::Nodes(_) => self.of_nodes.retain(|other| *other != id),
            Wanted::Names(_) => self.of_names.retain(|other| *other != id),
            Wanted::Addresses(_) | Wanted::Service(_) => {}
        }
    }

    /// The sets that hold a class, sorted.
    pub(crate) fn holding(&self, class: &Class, endpoints: &Endpoints) -> Few<SetId> {
        let namespace = &endpoints.namespaces[class.namespace].namespace;
        let kind = endpoints.kind(class);
        let labels = &kind.labels;
        let mut found: Few<SetId> =
            kind.ports.iter().flat_map(|port| self.by_port.get(port)).copied().collect();
        let mut look = |namespace: NamespaceNeed<'_>| {
            found.extend_from_slice(self.by_need.get(&(namespace, None::<LabelNeed<'_>>)));
            for (key, value) in labels.iter() {
                found.extend_from_slice(self.by_need.get(&(namespace, Some((key, Some(value))))));
                found.extend_from_slice(self.by_need.get(&(namespace, Some((key, None::<&str>)))));
            }
        };
        look(NamespaceNeed::Any);
        look(NamespaceNeed::Named(&namespace.name));
        if self.by_namespace_labels > 0 {
            for (key, value) in namespace.labels.iter() {
                look(NamespaceNeed::Label((key, Some(value))));
                look(NamespaceNeed::Label((key, None)));
            }
        }
        found.sort_unstable();
        found.dedup();
        found.retain(|set| self.sets[*set].holds(class, endpoints));
        found
    }

    /// The sets that may hold other classes of a namespace when its labels change, sorted.
    pub(crate) fn minding(&self, before: &Labels, after: &Labels) -> Vec<SetId> {
        let mut found = Vec::new();
        let mut look = |key: &str, value: &str, other: &Labels| {
            if other.get(key) != Some(value) {
                found.extend_from_slice(self.by_namespace_label.get(&(key, Some(value))));
                found.extend_from_slice(self.by_namespace_label.get(&(key, None::<&str>)));
            }
        };
        before.iter().for_each(|(key, value)| look(key, value, after));
        after.iter().for_each(|(key, value)| look(key, value, before));
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// What a set asks of a namespace at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum NamespaceNeed<'a> {
    Any,
    Named(&'a str),
    Label(LabelNeed<'a>),
}

/// A label that a set asks for: with this value, or with any.
type LabelNeed<'a> = (&'a str, Option<&'a str>);

/// More namespaces' labels than this are not worth an entry each, beside the pods' labels.
const NAMESPACE_VALUES: usize = 16;

/// What a set asks of a class at least, one of these: a namespace, a label.
fn needs(set: &PodSet) -> impl Iterator<Item = (NamespaceNeed<'_>, Option<LabelNeed<'_>>)> {
    let namespaces: SmallVec<[NamespaceNeed<'_>; 1]> = match &set.namespaces {
        Namespaces::Named(name) => SmallVec::from_buf([NamespaceNeed::Named(name)]),
        Namespaces::Matching(selector) => match clues(selector) {
            Some(clues) if clues.len() <= NAMESPACE_VALUES => {
                clues.into_iter().map(NamespaceNeed::Label).collect()
            }
            _ => SmallVec::from_buf([NamespaceNeed::Any]),
        },
        _ => SmallVec::new(),
    };
    let labels: SmallVec<[Option<LabelNeed<'_>>; 1]> = match clues(&set.pods) {
        Some(clues) => clues.into_iter().map(Some).collect(),
        None => SmallVec::from_buf([None]),
    };
    namespaces
        .into_iter()
        .flat_map(move |namespace| labels.clone().into_iter().map(move |label| (namespace, label)))
}

/// Labels of which whatever matches a selector has one: the values of the requirement with the fewest, or else a key that
/// must be there. `None` when there is nothing to go by.
pub(crate) fn clues(selector: &Selector) -> Option<SmallVec<[LabelNeed<'_>; 1]>> {
    let values = selector.requirements().iter().filter_map(|requirement| match &requirement.operator {
        Operator::In(values) => Some((requirement.key.as_str(), values)),
        _ => None,
    });
    if let Some((key, values)) = values.min_by_key(|(_, values)| values.len()) {
        return Some(values.iter().map(|value| (key, Some(value.as_str()))).collect());
    }
    let mut keys = selector.requirements().iter();
    let exists = keys.find(|requirement| requirement.operator == Operator::Exists)?;
    Some(SmallVec::from_buf([(exists.key.as_str(), None)]))
}

/// The labels, or keys, of namespaces whose change may matter to a set.
fn asked_of_namespaces(set: &PodSet) -> impl Iterator<Item = LabelNeed<'_>> {
    let selector: &[Requirement] = match &set.namespaces {
        Namespaces::Matching(selector) => selector.requirements(),
        _ => &[],
    };
    let mut asked: SmallVec<[LabelNeed<'_>; 4]> = selector
        .iter()
        .map(|requirement| match &requirement.operator {
            Operator::In(values) if values.len() == 1 => (requirement.key.as_str(), Some(values[0].as_str())),
            _ => (requirement.key.as_str(), None),
        })
        .collect();
    asked.sort_unstable();
    asked.dedup();
    asked.into_iter()
}

/// A set of namespaces that is relative to nobody.
pub(crate) fn matches(namespaces: &Namespaces, name: &SmolStr, labels: &Labels) -> bool {
    match namespaces {
        Namespaces::Named(own) => own == name,
        Namespaces::Matching(selector) => selector.matches(labels),
        Namespaces::Own | Namespaces::SameLabels(_) | Namespaces::NotSameLabels(_) => false,
    }
}

// === impl Set ===

impl Set {
    /// Whether it holds a class of pods.
    pub(crate) fn holds(&self, class: &Class, endpoints: &Endpoints) -> bool {
        let Content::Pods(set, port) = &self.selection.content else { return false };
        let kind = endpoints.kind(class);
        let namespace = &endpoints.namespaces[class.namespace].namespace;
        kind.external == set.external
            && matches(&set.namespaces, &namespace.name, &namespace.labels)
            && set.pods.matches(&kind.labels)
            && set.account.as_ref().is_none_or(|account| kind.account.as_ref() == Some(account))
            && port.as_ref().is_none_or(|port| kind.has_port(port))
    }

    /// Whether it holds a node with these labels.
    pub(crate) fn selects_nodes(&self) -> Option<&Selector> {
        match &self.selection.content {
            Content::Nodes(selector) => Some(selector),
            _ => None,
        }
    }

    /// One isolation more, or less.
    pub(crate) fn isolate(&mut self, directions: Directions, by: i32) {
        for direction in Direction::BOTH.into_iter().filter(|direction| directions.contains(*direction)) {
            let isolated = &mut self.isolated[direction as usize];
            *isolated = isolated.saturating_add_signed(by);
        }
    }

    /// The rows of a direction and stage, in their order.
    pub(crate) fn ranked_of(&self, rows: &Rows, direction: Direction, stage: Stage) -> &[RuleId] {
        let direction = Directions::from(direction);
        let place = |row: &RuleId| (rows[*row].row.directions, rows[*row].row.rank.stage);
        let first = self.ranked.partition_point(|row| place(row) < (direction, stage));
        let count = self.ranked[first..].partition_point(|row| place(row) == (direction, stage));
        &self.ranked[first..first + count]
    }
}

/// One more or less of something; the number before and after.
pub(crate) fn count<T: Copy + Ord>(counts: &mut Counts<T>, what: T, by: i32) -> (u32, u32) {
    match counts.binary_search_by_key(&what, |(other, _)| *other) {
        Ok(at) => {
            let before = counts[at].1;
            let after = before.saturating_add_signed(by);
            if after == 0 {
                counts.remove(at);
            } else {
                counts[at].1 = after;
            }
            (before, after)
        }
        Err(at) => {
            let after = 0u32.saturating_add_signed(by);
            if after > 0 {
                counts.insert(at, (what, after));
            }
            (0, after)
        }
    }
}
