//! What rules say about pods: each distinct selection once, with the classes it holds and the rules it is the subject of.

use std::cmp::Ordering;
use std::sync::Arc;

use palisade_model::label::Labels;
use palisade_model::policy::{Direction, Namespaces, Object, PodSet, Priority};
use palisade_model::snapshot::Stage;
use slab::Slab;
use smol_str::SmolStr;

use crate::change::SetId;
use crate::endpoints::{Class, Endpoints};
use crate::table::{Index, Table};

/// All sets.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    pub(crate) sets: Slab<Set>,
    by_content: Table,
    /// By the namespace that they are of, if it is one, and a label that they ask for, if they do.
    by_need: Index,
}

/// A selection of pods.
#[derive(Debug)]
pub(crate) struct Set {
    pub(crate) content: PodSet,
    pub(crate) classes: Vec<usize>,
    /// The rules that apply to it, by direction, stage and rank.
    pub(crate) rules: Vec<Held>,
    /// The policies that isolate it, and in which direction.
    pub(crate) isolations: Vec<(Direction, usize)>,
    /// The policies that apply to it.
    pub(crate) policies: Vec<usize>,
    /// How often rules name it, as subject or as peer.
    uses: usize,
    /// How often as peer.
    pub(crate) peer_uses: usize,
}

/// A rule of a set.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) direction: Direction,
    pub(crate) stage: Stage,
    pub(crate) rank: Rank,
    /// The policy, and the rule's place in it.
    pub(crate) policy: usize,
    pub(crate) rule: usize,
}

/// The place of a rule among all of its stage.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rank {
    pub(crate) placed: bool,
    pub(crate) tier: u8,
    pub(crate) priority: Priority,
    pub(crate) index: u32,
    pub(crate) object: Arc<Object>,
}

// === impl Sets ===

impl Sets {
    /// The set with this content, one use more; and whether it is new, and the classes have to be asked.
    pub(crate) fn take(&mut self, content: &PodSet) -> (SetId, bool) {
        if let Some(id) = self.by_content.find(content, |id| self.sets[id].content == *content) {
            self.sets[id].uses += 1;
            return (id, false);
        }
        let id = self.sets.insert(Set {
            content: content.clone(),
            classes: Vec::new(),
            rules: Vec::new(),
            isolations: Vec::new(),
            policies: Vec::new(),
            uses: 1,
            peer_uses: 0,
        });
        let hash = self.by_content.hash(content);
        self.by_content.insert(hash, id);
        self.by_need.add(&need(content), id);
        (id, true)
    }

    /// One use less; whether it was the last.
    pub(crate) fn give_back(&mut self, id: SetId) -> bool {
        let set = &mut self.sets[id];
        set.uses -= 1;
        set.uses == 0
    }

    /// Removes a set that nobody uses and that holds no class any more.
    pub(crate) fn remove(&mut self, id: SetId) {
        let set = self.sets.remove(id);
        self.by_content.remove(&set.content, id);
        self.by_need.take(&need(&set.content), id);
    }

    /// The sets that may hold pods of this namespace with these labels, and perhaps others.
    pub(crate) fn candidates(&self, namespace: &SmolStr, labels: &Labels) -> Vec<SetId> {
        let mut all = Vec::new();
        for label in std::iter::once(None).chain(labels.iter().map(Some)) {
            all.extend(self.by_need.get(&(None::<&str>, label)));
            all.extend(self.by_need.get(&(Some(namespace.as_str()), label)));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The sets that depend on the labels of namespaces.
    pub(crate) fn by_namespace_labels(&self) -> Vec<SetId> {
        let depends = |(_, set): &(usize, &Set)| matches!(set.content.namespaces, Namespaces::Matching(_));
        self.sets.iter().filter(depends).map(|(id, _)| id).collect()
    }
}

/// What a set asks of a class at least: a namespace, a label.
fn need(content: &PodSet) -> (Option<&str>, Option<(&str, &str)>) {
    let namespace = match &content.namespaces {
        Namespaces::Named(name) => Some(name.as_str()),
        _ => None,
    };
    (namespace, content.pods.required_label())
}

// === impl Set ===

impl Set {
    /// Whether it holds a class.
    pub(crate) fn holds(&self, class: &Class, endpoints: &Endpoints) -> bool {
        let content = &self.content;
        let namespace = &endpoints.namespaces[class.namespace].namespace;
        class.external == content.external
            && match &content.namespaces {
                Namespaces::Named(name) => namespace.name == *name,
                Namespaces::Matching(selector) => selector.matches(&namespace.labels),
                _ => false,
            }
            && content.pods.matches(&class.labels)
            && content.account.as_ref().is_none_or(|account| class.account == *account)
    }

    /// Adds a rule in its order.
    pub(crate) fn add(&mut self, held: Held) {
        let at = self.rules.partition_point(|other| other.cmp(&held) == Ordering::Less);
        self.rules.insert(at, held);
    }

    /// The rules of a direction and stage, in their order.
    pub(crate) fn rules_of(&self, direction: Direction, stage: Stage) -> &[Held] {
        let before = |held: &Held| (held.direction, held.stage) < (direction, stage);
        let first = self.rules.partition_point(before);
        let count =
            self.rules[first..].partition_point(|held| (held.direction, held.stage) == (direction, stage));
        &self.rules[first..first + count]
    }
}

// === impl Held ===

impl Held {
    pub(crate) fn cmp(&self, other: &Held) -> Ordering {
        let coarse = |held: &Held| {
            (
                held.direction,
                held.stage,
                held.rank.placed,
                held.rank.tier,
                held.rank.priority,
                held.rank.index,
            )
        };
        coarse(self)
            .cmp(&coarse(other))
            .then_with(|| self.rank.object.cmp(&other.rank.object))
            .then_with(|| self.rule.cmp(&other.rule))
    }
}
