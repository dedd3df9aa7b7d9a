//! What rules say about pods: each distinct selection once, with the classes it holds and the rules it is the subject of.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use palisade_model::label::Labels;
use palisade_model::policy::{Direction, Namespaces, Object, PodSet, Priority};
use palisade_model::snapshot::Stage;
use slab::Slab;
use smol_str::SmolStr;

use crate::change::SetId;
use crate::endpoints::{Class, Endpoints};

/// All sets.
#[derive(Debug, Default)]
pub(crate) struct Sets {
    pub(crate) sets: Slab<Set>,
    by_content: HashMap<PodSet, SetId>,
    /// Those of one namespace, by a label that they ask for, if they do.
    named: HashMap<(SmolStr, Option<Label>), Vec<SetId>>,
    /// Those of several.
    anywhere: HashMap<Option<Label>, Vec<SetId>>,
}

/// Key and value.
type Label = (SmolStr, SmolStr);

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
        if let Some(id) = self.by_content.get(content) {
            self.sets[*id].uses += 1;
            return (*id, false);
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
        self.by_content.insert(content.clone(), id);
        self.place(content).push(id);
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
        self.by_content.remove(&set.content);
        let place = self.place(&set.content);
        place.retain(|other| *other != id);
    }

    fn place(&mut self, content: &PodSet) -> &mut Vec<SetId> {
        let label = content.pods.required_label().map(|(key, value)| (key.into(), value.into()));
        match &content.namespaces {
            Namespaces::Named(name) => self.named.entry((name.clone(), label)).or_default(),
            _ => self.anywhere.entry(label).or_default(),
        }
    }

    /// The sets that may hold pods of this namespace with these labels.
    pub(crate) fn candidates(&self, namespace: &SmolStr, labels: &Labels) -> Vec<SetId> {
        let mut all = Vec::new();
        let own = labels.iter().map(|(key, value)| (SmolStr::from(key), SmolStr::from(value)));
        for label in std::iter::once(None).chain(own.map(Some)) {
            all.extend(self.anywhere.get(&label).into_iter().flatten());
            all.extend(self.named.get(&(namespace.clone(), label)).into_iter().flatten());
        }
        all.sort_unstable();
        all
    }

    /// The sets that depend on the labels of namespaces.
    pub(crate) fn by_namespace_labels(&self) -> Vec<SetId> {
        let depends = |(_, set): &(usize, &Set)| matches!(set.content.namespaces, Namespaces::Matching(_));
        self.sets.iter().filter(depends).map(|(id, _)| id).collect()
    }
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
