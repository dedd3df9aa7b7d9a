//! Ports by name: a rule that names one becomes a row for each number that the name stands for, among those the rule is
//! about and nobody else.
//!
//! For each set and name there is one **split**, which counts the classes of the set by what the name stands for there.
//! The first class with another number adds rows for it, to the rules that split the set; the last one takes them away.

use std::collections::BTreeMap;

use palisade_model::traffic::Protocol;
use smol_str::SmolStr;

use crate::Engine;
use crate::arena::Arena;
use crate::endpoints::{Class, number};
use crate::expand::Made;
use crate::id::{Id, RuleId, SetId};
use crate::rows::{PeerSets, Row};
use crate::selection::{Content, NamedPort, Wanted};
use crate::table::Map;

/// All splits.
#[derive(Debug, Default)]
pub(crate) struct Splits {
    splits: Arena<Split>,
    by_name: Map<(SetId, SmolStr, Option<Protocol>), Id<Split>>,
    users: Arena<User>,
}

/// A set, by what a name stands for.
#[derive(Debug)]
pub(crate) struct Split {
    set: SetId,
    name: SmolStr,
    protocol: Option<Protocol>,
    /// By how many classes.
    numbers: BTreeMap<Port, u32>,
    users: Vec<Id<User>>,
}

type Port = (Protocol, u16);

/// A rule that splits a set.
#[derive(Debug)]
pub(crate) struct User {
    split: Id<Split>,
    pattern: Row,
    named: u32,
    place: Where,
    rows: BTreeMap<Port, RuleId>,
}

/// Where in a row the split set stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Where {
    Subject,
    Peer,
    Destination,
}

impl Engine {
    /// Makes rows of a pattern, for each number that a name stands for in a set.
    pub(crate) fn make_port(
        &mut self,
        pattern: &Row,
        set: SetId,
        place: Where,
        named: usize,
        made: &mut Made,
    ) {
        let Some(carried) = self.policies.carried(pattern) else { return };
        let wanted = &carried.named[named];
        let (name, protocol) = (wanted.name.clone(), wanted.protocol);
        let split = self.split(set, name, protocol);
        let named = number(named);
        let user = self.splits.users.insert(User {
            split,
            pattern: pattern.clone(),
            named,
            place,
            rows: BTreeMap::new(),
        });
        self.splits.splits[split].users.push(user);
        self.hold(pattern, set, 1);
        let numbers: Vec<Port> = self.splits.splits[split].numbers.keys().copied().collect();
        for port in numbers {
            self.add_port(user, port);
        }
        made.more.get_or_insert_default().ports.push(user);
    }

    /// Takes them back.
    pub(crate) fn unmake_port(&mut self, id: Id<User>) {
        let user = self.splits.users.remove(id);
        for row in user.rows.into_values() {
            self.condemn_row(row);
        }
        let split = &mut self.splits.splits[user.split];
        split.users.retain(|other| *other != id);
        let set = split.set;
        if split.users.is_empty() {
            let gone = self.splits.splits.remove(user.split);
            self.endpoints.shapes.ask_no_more_for_port(&gone.name);
            self.splits.by_name.remove(&(gone.set, gone.name, gone.protocol));
            let splits = &mut self.sets.sets[set].splits;
            if let Some(own) = splits {
                own.retain(|other| *other != user.split);
                if own.is_empty() {
                    *splits = None;
                }
            }
        }
        self.hold(&user.pattern, set, -1);
    }

    /// Keeps the sets of a pattern, which may have no rows at times.
    fn hold(&mut self, pattern: &Row, set: SetId, by: i32) {
        self.use_set(set, by);
        self.use_set(pattern.subject, by);
        for named in pattern.peers.as_slice() {
            self.use_set(*named, by);
        }
    }

    fn split(&mut self, set: SetId, name: SmolStr, protocol: Option<Protocol>) -> Id<Split> {
        let key = (set, name, protocol);
        if let Some(split) = self.splits.by_name.get(&key) {
            return *split;
        }
        let shapes = self.endpoints.shapes.ask_for_port(&key.1);
        self.reclass(&shapes);
        let mut numbers = BTreeMap::new();
        for class in &self.sets.sets[set].classes {
            let kind = self.endpoints.kind(&self.endpoints.classes[*class]);
            for port in kind.ports_named(&key.1).filter(|port| is_meant(protocol, port)) {
                *numbers.entry((port.protocol, port.number)).or_insert(0) += 1;
            }
        }
        let name = key.1.clone();
        let id = self.splits.splits.insert(Split { set, name, protocol, numbers, users: Vec::new() });
        self.splits.by_name.insert(key, id);
        self.sets.sets[set].splits.get_or_insert_default().push(id);
        id
    }

    /// A class is in a set, or is not any more: what the names stand for there may be more, or less.
    pub(crate) fn split_class(&mut self, set: SetId, class: Id<Class>, by: i32) {
        let Some(splits) = self.sets.sets[set].splits.clone() else { return };
        for id in *splits {
            let split = &mut self.splits.splits[id];
            let kind = self.endpoints.kind(&self.endpoints.classes[class]);
            let mut changed: Vec<Port> = Vec::new();
            for port in kind.ports_named(&split.name).filter(|port| is_meant(split.protocol, port)) {
                let port = (port.protocol, port.number);
                let classes = split.numbers.entry(port).or_insert(0);
                let before = *classes;
                *classes = before.saturating_add_signed(by);
                if *classes == 0 {
                    split.numbers.remove(&port);
                }
                if before == 0 || (before == 1 && by < 0) {
                    changed.push(port);
                }
            }
            let users = if changed.is_empty() { Vec::new() } else { split.users.clone() };
            for port in changed {
                for user in &users {
                    if by > 0 {
                        self.add_port(*user, port);
                    } else if let Some(row) = self.splits.users[*user].rows.remove(&port) {
                        self.condemn_row(row);
                    }
                }
            }
        }
    }

    fn add_port(&mut self, user: Id<User>, (protocol, port): Port) {
        let User { split, pattern, named, place, .. } = &self.splits.users[user];
        let (pattern, named, place) = (pattern.clone(), *named, *place);
        let Split { set, name, .. } = &self.splits.splits[*split];
        let name = name.clone();
        let selection = std::sync::Arc::clone(&self.sets.sets[*set].selection);
        let Content::Pods(pods, _) = &selection.content else { return };
        let set = self.take_set(Wanted::Pods(pods, Some(&NamedPort { name, protocol, number: port })));
        let mut row = Row { port: Some((named, protocol, port)), ..pattern };
        match place {
            Where::Subject => row.subject = set,
            Where::Peer => row.peers = PeerSets::One(set),
            Where::Destination => row.destination = Some(set),
        }
        let id = self.add_row(row);
        self.splits.users[user].rows.insert((protocol, port), id);
    }
}

fn is_meant(protocol: Option<Protocol>, port: &NamedPort) -> bool {
    protocol.is_none_or(|protocol| protocol == port.protocol)
}

// === impl Splits ===

impl Splits {
    /// Which sets are split by which names, and into how many numbers.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (SetId, &SmolStr, usize)> {
        self.splits.iter().map(|(_, split)| (split.set, &split.name, split.numbers.len()))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.splits.len() + self.users.len() + self.by_name.len() == 0
    }

    /// How many there are.
    pub(crate) fn len(&self) -> u32 {
        number(self.splits.len())
    }
}
