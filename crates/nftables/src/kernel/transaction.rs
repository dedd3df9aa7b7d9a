//! A transaction on one of our tables as netlink messages: what [`crate::text`] writes for `nft`, without a process.
//!
//! The messages of a transaction are sent at once and committed or refused as a whole. What cannot be expressed here (a value that
//! does not fit its field) is left to `nft`, which reports it in words.

use rustix::io::Errno;

use crate::kernel::elements::{DELETE_ELEMENTS, NEW_ELEMENTS};
use crate::kernel::message::{ACK, APPEND, CREATE, EXCLUSIVE, Messages, REQUEST};
use crate::kernel::netlink::Socket;
use crate::kernel::shape::{self, Shape, Shapes};
use crate::kernel::tables::{self, DELETE_TABLE, INET, NEW_TABLE, OF_TABLE};
use crate::kernel::{Count, Counts, elements, expressions};
use crate::patch::Patch;
use crate::program::{Chain, Elements, FieldType, Hook, Name, Program, Rule, Set};
use crate::text::{label, priority};

const NEW_CHAIN: u16 = NEW_TABLE | 3;
const DELETE_CHAIN: u16 = NEW_TABLE | 5;
const NEW_RULE: u16 = NEW_TABLE | 6;
const DELETE_RULE: u16 = NEW_TABLE | 8;
const NEW_SET: u16 = NEW_TABLE | 9;
const DELETE_SET: u16 = NEW_TABLE | 11;
const NEW_OBJECT: u16 = NEW_TABLE | 18;
const DELETE_OBJECT: u16 = NEW_TABLE | 20;

/// Attributes of chains.
const CHAIN_NAME: u16 = 3;
const CHAIN_HOOK: u16 = 4;
const CHAIN_POLICY: u16 = 5;
const CHAIN_TYPE: u16 = 7;
const HOOK_NUMBER: u16 = 1;
const HOOK_PRIORITY: u16 = 2;
/// Attributes of rules.
const RULE_CHAIN: u16 = 2;
const RULE_EXPRESSIONS: u16 = 4;
const RULE_USERDATA: u16 = 7;
/// Attributes of sets.
const SET_NAME: u16 = 2;
const SET_FLAGS: u16 = 3;
const SET_KEY_TYPE: u16 = 4;
const SET_KEY_LENGTH: u16 = 5;
const SET_DATA_TYPE: u16 = 6;
const SET_DATA_LENGTH: u16 = 7;
const SET_DESCRIPTION: u16 = 9;
const SET_ID: u16 = 10;
const SET_USERDATA: u16 = 13;
const DESCRIPTION_FIELDS: u16 = 2;
/// Attributes of objects, and the type of those that count.
const OBJECT_NAME: u16 = 2;
const OBJECT_TYPE: u16 = 3;
const OBJECT_DATA: u16 = 4;
const COUNTER: u32 = 1;
const COUNTER_BYTES: u16 = 1;
const COUNTER_PACKETS: u16 = 2;

/// Flags of sets: of intervals, with a verdict for each key, with fields of a key compared one by one.
const INTERVALS: u32 = 0x04;
const MAP: u32 = 0x08;
const FIELDS: u32 = 0x80;
/// The data type of verdicts.
const VERDICTS: u32 = 0xffff_ff00;
const POLICY_ACCEPT: u32 = 1;

/// Types in the user data that nft keeps with rules and sets, and the byte orders it knows.
const RULE_COMMENT: u8 = 0;
const SET_KEY_BYTE_ORDER: u8 = 0;
const SET_COMMENT: u8 = 7;
const NO_BYTE_ORDER: u32 = 0;
const HOST_BYTE_ORDER: u32 = 1;
const NETWORK_BYTE_ORDER: u32 = 2;

/// A transaction on one table that is being written.
#[derive(Debug)]
pub(crate) struct Transaction<'a> {
    socket: &'a mut Socket,
    messages: Messages,
    table: &'static str,
    /// Sequence numbers of the first and the last message.
    first: u32,
    last: u32,
    /// How many sets were created: within a transaction each has a number.
    sets: u32,
}

/// Whether something that is created may exist already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    /// The kernel refuses the transaction then.
    Refused,
    /// It is updated, or stays.
    Kept,
}

// === impl Transaction ===

impl<'a> Transaction<'a> {
    pub(crate) fn begin(socket: &'a mut Socket, table: &'static str) -> Transaction<'a> {
        let mut messages = Messages::default();
        let first = tables::begin(socket, &mut messages);
        Transaction { socket, messages, table, first, last: first, sets: 0 }
    }

    /// Sends the messages and waits until they are committed or refused.
    pub(crate) fn commit(mut self) -> Result<(), Errno> {
        // The last message is acknowledged; an error about any other is reported unasked.
        self.messages.add_flags(ACK);
        tables::end(self.socket, &mut self.messages);
        self.socket.ask(self.messages, self.first, self.last)
    }

    /// Writes a patch of our table. New counters start with `counts`. `None` if only `nft` can express it, or `shapes` lacks a set
    /// whose elements change.
    pub(crate) fn patch(&mut self, patch: &Patch, counts: &Counts, shapes: &Shapes) -> Option<()> {
        for name in &patch.counters {
            self.counter(name, counts.get(name).copied().unwrap_or_default());
        }
        for (name, chain) in &patch.chains {
            self.chain(name, chain, Existing::Refused);
        }
        for (name, set) in &patch.sets {
            self.set(name, set)?;
        }
        for (name, chain) in &patch.changed {
            self.delete_rules(name);
            // The kernel refuses the transaction if the chain has another hook.
            if chain.hook.is_some() {
                self.chain(name, chain, Existing::Kept);
            }
        }
        for (name, chain) in patch.chains.iter().chain(&patch.changed) {
            chain.rules.iter().try_for_each(|rule| self.rule(name, rule))?;
        }
        for (kind, sets) in [(DELETE_ELEMENTS, &patch.leave), (NEW_ELEMENTS, &patch.join)] {
            for (name, elements) in sets {
                let shape = shapes.get(name).and_then(Option::as_ref)?;
                self.elements(kind, name, shape, elements)?;
            }
        }
        self.removals(patch);
        Some(())
    }

    /// Deletes sets before chains, because maps lead to chains.
    fn removals(&mut self, patch: &Patch) {
        for name in &patch.no_chains {
            self.delete_rules(name);
        }
        for name in &patch.no_sets {
            self.message(DELETE_SET, 0);
            self.messages.name(SET_NAME, name);
        }
        for name in &patch.no_chains {
            self.message(DELETE_CHAIN, 0);
            self.messages.name(CHAIN_NAME, name);
        }
        for name in &patch.no_counters {
            self.message(DELETE_OBJECT, 0);
            self.messages.name(OBJECT_NAME, name);
            self.messages.number(OBJECT_TYPE, COUNTER);
        }
    }

    /// Writes sets, chains and rules of a program without counters into the table. `None` if only `nft` can express it.
    pub(crate) fn program(&mut self, program: &Program) -> Option<()> {
        for (name, chain) in &program.chains {
            self.chain(name, chain, Existing::Refused);
        }
        for (name, set) in &program.sets {
            self.set(name, set)?;
        }
        for (name, chain) in &program.chains {
            chain.rules.iter().try_for_each(|rule| self.rule(name, rule))?;
        }
        Some(())
    }

    /// Creates the table, in the place of one that may exist.
    pub(crate) fn replace_table(&mut self) {
        for kind in [NEW_TABLE, DELETE_TABLE, NEW_TABLE] {
            self.message(kind, 0);
        }
    }

    fn counter(&mut self, name: &Name, count: Count) {
        self.message(NEW_OBJECT, CREATE | EXCLUSIVE);
        self.messages.name(OBJECT_NAME, name);
        self.messages.number(OBJECT_TYPE, COUNTER);
        self.messages.nested(OBJECT_DATA, |data| {
            data.attribute(COUNTER_BYTES, &count.bytes.to_be_bytes());
            data.attribute(COUNTER_PACKETS, &count.packets.to_be_bytes());
        });
    }

    fn chain(&mut self, name: &Name, chain: &Chain, existing: Existing) {
        self.message(NEW_CHAIN, create(existing));
        self.messages.name(CHAIN_NAME, name);
        let Some(hook) = chain.hook else { return };
        let number: u32 = match hook {
            Hook::Input => 1,
            Hook::Forward => 2,
            Hook::Output => 3,
        };
        let priority = priority(self.table);
        self.messages.name(CHAIN_TYPE, "filter");
        self.messages.number(CHAIN_POLICY, POLICY_ACCEPT);
        self.messages.nested(CHAIN_HOOK, |attributes| {
            attributes.number(HOOK_NUMBER, number);
            attributes.attribute(HOOK_PRIORITY, &priority.to_be_bytes());
        });
    }

    /// Deletes all rules of a chain.
    fn delete_rules(&mut self, chain: &Name) {
        self.message(DELETE_RULE, 0);
        self.messages.name(RULE_CHAIN, chain);
    }

    fn rule(&mut self, chain: &Name, rule: &Rule) -> Option<()> {
        let Transaction { socket, messages, table, last, .. } = self;
        let mut comment = Vec::new();
        if let Some(text) = &rule.comment {
            userdata(&mut comment, RULE_COMMENT, &terminated(&label(text)));
        }
        expressions::write(messages, rule, RULE_EXPRESSIONS, |messages| {
            *last = socket.next();
            messages.begin(NEW_RULE, REQUEST | CREATE | APPEND, *last, INET, 0);
            messages.name(OF_TABLE, table);
            messages.name(RULE_CHAIN, chain);
            if !comment.is_empty() {
                messages.attribute(RULE_USERDATA, &comment);
            }
        })
    }

    /// Creates a set with its elements.
    fn set(&mut self, name: &Name, set: &Set) -> Option<()> {
        let shape = Shape::of(set);
        self.message(NEW_SET, CREATE | EXCLUSIVE);
        self.sets += 1;
        let several = set.key.len() > 1;
        let mut flags = 0;
        for (flag, is_set) in
            [(INTERVALS, set.interval), (MAP, set.is_map), (FIELDS, set.interval && several)]
        {
            flags |= if is_set { flag } else { 0 };
        }
        let messages = &mut self.messages;
        messages.name(SET_NAME, name);
        messages.number(SET_FLAGS, flags);
        messages.number(SET_KEY_TYPE, shape::number(&set.key));
        messages.length_of(SET_KEY_LENGTH, shape.width());
        if set.is_map {
            messages.number(SET_DATA_TYPE, VERDICTS);
            messages.number(SET_DATA_LENGTH, 0);
        }
        messages.number(SET_ID, self.sets);
        if set.interval && several {
            messages.nested(SET_DESCRIPTION, |description| {
                description.nested(DESCRIPTION_FIELDS, |fields| {
                    for field in &set.key {
                        fields.nested(1, |one| one.length_of(1, shape::width(*field)));
                    }
                });
            });
        }
        let mut data = Vec::new();
        userdata(&mut data, SET_KEY_BYTE_ORDER, &byte_order(&set.key).to_ne_bytes());
        if !set.comment.is_empty() {
            userdata(&mut data, SET_COMMENT, &terminated(&label(&set.comment)));
        }
        messages.attribute(SET_USERDATA, &data);
        self.elements(NEW_ELEMENTS, name, &shape, &set.elements)
    }

    /// Creates or deletes elements of a set. `None` if a key or verdict does not fit the set.
    pub(crate) fn elements(
        &mut self,
        kind: u16,
        set: &Name,
        shape: &Shape,
        elements: &Elements,
    ) -> Option<()> {
        let Transaction { socket, messages, table, last, .. } = self;
        let flags = if kind == NEW_ELEMENTS { REQUEST | CREATE | EXCLUSIVE } else { REQUEST };
        elements::write(messages, kind == NEW_ELEMENTS, shape, elements, |messages| {
            *last = socket.next();
            messages.begin(kind, flags, *last, INET, 0);
            messages.name(OF_TABLE, table);
            messages.name(SET_NAME, set);
        })
    }

    fn message(&mut self, kind: u16, flags: u16) {
        self.last = self.socket.next();
        self.messages.begin(kind, REQUEST | flags, self.last, INET, 0);
        self.messages.name(OF_TABLE, self.table);
    }
}

fn create(existing: Existing) -> u16 {
    match existing {
        Existing::Refused => CREATE | EXCLUSIVE,
        Existing::Kept => CREATE,
    }
}

/// Appends one entry of user data. Comments are shorter than 128 bytes ([`label`]).
fn userdata(data: &mut Vec<u8>, kind: u8, value: &[u8]) {
    let length = u8::try_from(value.len()).unwrap_or(u8::MAX);
    data.extend([kind, length]);
    data.extend(value.iter().take(length.into()));
}

fn terminated(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

/// The byte order that nft records for a key.
fn byte_order(key: &[FieldType]) -> u32 {
    match key {
        [FieldType::Interface] => HOST_BYTE_ORDER,
        [_] => NETWORK_BYTE_ORDER,
        _ => NO_BYTE_ORDER,
    }
}
