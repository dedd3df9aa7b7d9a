//! Elements of sets and maps, as the kernel has them.
//!
//! A key is its fields one after the other, each filled up to four bytes if there are several. What an element that is more
//! than one value looks like depends on the set:
//!
//! ```text
//!   one field, no intervals        key
//!   one field, intervals           key = first value, and another element: key = the value after the last, flag "end"
//!   several fields, intervals      key = first values, key end = last values
//! ```
//!
//! An interval that reaches to the last value of all has no end; nft marks it in a way of its own, so that such changes are left to
//! nft ([`Shape::can_tell`]).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_model::address::Family;
use rustix::io::Errno;

use crate::kernel::netlink::{self, ACK, CREATE, EXCLUSIVE, Message, Messages, REQUEST, Socket};
use crate::patch::Patch;
use crate::program::{Elements, FieldType, Interface, Key, Name, Set, Value, Verdict};
use crate::text::TABLE;

/// The family `inet`.
pub(crate) const INET: u8 = 1;
/// The subsystem of nftables, and messages of it.
pub(crate) const SUBSYSTEM: u16 = 10;
pub(crate) const NEW_TABLE: u16 = SUBSYSTEM << 8;
pub(crate) const GET_TABLE: u16 = NEW_TABLE | 1;
pub(crate) const DELETE_TABLE: u16 = NEW_TABLE | 2;
const GET_SET: u16 = NEW_TABLE | 10;
const NEW_ELEMENTS: u16 = NEW_TABLE | 12;
const GET_ELEMENTS: u16 = NEW_TABLE | 13;
const DELETE_ELEMENTS: u16 = NEW_TABLE | 14;
/// What begins and ends a transaction.
const BEGIN: u16 = 0x10;
const END: u16 = 0x11;

/// In every message, the table's name; in those about sets and elements, the set's.
pub(crate) const OF_TABLE: u16 = 1;
const OF_SET: u16 = 2;
/// In messages about sets.
const SET_FLAGS: u16 = 3;
const SET_KEY_TYPE: u16 = 4;
/// In messages about elements.
const LIST: u16 = 3;
const ELEMENT: u16 = 1;
const KEY: u16 = 1;
const DATA: u16 = 2;
const ELEMENT_FLAGS: u16 = 3;
const KEY_END: u16 = 10;
const VALUE: u16 = 1;
const VERDICT: u16 = 2;
const CODE: u16 = 1;
const CHAIN: u16 = 2;

/// Flags of sets: made for one rule, of intervals, with something for each key.
const ANONYMOUS: u32 = 1;
const INTERVALS: u32 = 4;
const MAP: u32 = 8;
/// Flags of sets that we never make: constant, with timeouts, filled by packets, of objects.
const OTHER: u32 = 0x72;
/// Flags of elements: what ends an interval, and what stands for all that is not there.
const IS_END: u32 = 1;
const IS_REST: u32 = 2;

/// Verdicts.
const DROP: i32 = 0;
const ACCEPT: i32 = 1;
const JUMP: i32 = -3;
const GOTO: i32 = -4;
const RETURN: i32 = -5;

/// No message is longer than this: an attribute must be shorter than 64 KiB, and an error sends it back whole.
const LONGEST: usize = 32 * 1024;

/// How a set keeps what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// What a key is made of.
    pub(crate) key: Vec<FieldType>,
    pub(crate) interval: bool,
    pub(crate) is_map: bool,
}

/// The shapes of sets; nothing for one that we would never make.
pub(crate) type Shapes = BTreeMap<Name, Option<Shape>>;

/// An element as it comes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Raw {
    key: Vec<u8>,
    /// Before what begins with the same key.
    begins: bool,
    end: Option<Vec<u8>>,
    verdict: Option<Verdict>,
}

// === impl Shape ===

impl Shape {
    pub(crate) fn of(set: &Set) -> Shape {
        Shape { key: set.key.clone(), interval: set.interval, is_map: set.is_map }
    }

    /// Whether elements of this set are pairs of elements in the kernel.
    fn in_pairs(&self) -> bool {
        self.interval && self.key.len() == 1
    }

    /// Whether we can say this element ourselves; whatever we cannot, nft says or refuses.
    fn can_tell(&self, key: &Key, verdict: Option<&Verdict>) -> bool {
        let fits = |(field, (first, last)): (&FieldType, &(Value, Value))| {
            is_of(*field, *first) && is_of(*field, *last) && first <= last && (self.interval || first == last)
        };
        let verdict_fits = match verdict {
            None => !self.is_map,
            Some(Verdict::Reject | Verdict::Map(..)) => false,
            Some(_) => self.is_map,
        };
        key.len() == self.key.len()
            && self.key.iter().zip(key).all(fits)
            && verdict_fits
            && (!self.in_pairs() || self.after(key).is_some())
    }

    /// The first value after an interval of one field, as bytes; none after the last of all.
    fn after(&self, key: &Key) -> Option<Vec<u8>> {
        let mut bytes = self.bytes(key.iter().map(|(_, last)| *last))?;
        for byte in bytes.iter_mut().rev() {
            let (next, overflowed) = byte.overflowing_add(1);
            *byte = next;
            if !overflowed {
                return Some(bytes);
            }
        }
        None
    }

    /// A key as bytes; nothing if it does not fit.
    fn bytes(&self, values: impl Iterator<Item = Value>) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.width());
        for (field, value) in self.key.iter().zip(values) {
            match (field, value) {
                (FieldType::Address(Family::V4), Value::Address(IpAddr::V4(address))) => {
                    bytes.extend(address.octets());
                }
                (FieldType::Address(Family::V6), Value::Address(IpAddr::V6(address))) => {
                    bytes.extend(address.octets());
                }
                (FieldType::Port, Value::Number(number)) => bytes.extend(number.to_be_bytes()),
                (FieldType::Interface, Value::Interface(interface)) => bytes.extend(interface.bytes()),
                (_, Value::Number(number)) => bytes.push(u8::try_from(number).ok()?),
                _ => return None,
            }
            if self.key.len() > 1 {
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
        }
        Some(bytes)
    }

    /// How many bytes a key has.
    fn width(&self) -> usize {
        match self.key.as_slice() {
            [one] => width(*one),
            several => several.iter().map(|field| width(*field).next_multiple_of(4)).sum(),
        }
    }

    /// The values of a key.
    fn values(&self, bytes: &[u8]) -> Option<Vec<Value>> {
        if bytes.len() != self.width() {
            return None;
        }
        let mut values = Vec::with_capacity(self.key.len());
        let mut at = 0;
        for field in &self.key {
            let width = width(*field);
            let part = bytes.get(at..at + width)?;
            values.push(match field {
                FieldType::Address(Family::V4) => {
                    Value::Address(Ipv4Addr::from(<[u8; 4]>::try_from(part).ok()?).into())
                }
                FieldType::Address(Family::V6) => {
                    Value::Address(Ipv6Addr::from(<[u8; 16]>::try_from(part).ok()?).into())
                }
                FieldType::Port => Value::Number(u16::from_be_bytes(part.try_into().ok()?)),
                FieldType::Interface => Value::Interface(Interface::new(netlink::name(part)?)?),
                FieldType::Protocol | FieldType::IcmpType(_) | FieldType::IcmpCode(_) => {
                    Value::Number(u16::from(*part.first()?))
                }
            });
            at += width.next_multiple_of(4);
        }
        Some(values)
    }

    /// The elements that these say.
    fn elements(&self, mut raw: Vec<Raw>) -> Option<Elements> {
        let mut elements = Elements::new();
        if !self.in_pairs() {
            for element in raw {
                let first = self.values(&element.key)?;
                let last = element.end.map_or_else(|| Some(first.clone()), |end| self.values(&end))?;
                elements.insert(first.into_iter().zip(last).collect(), element.verdict);
            }
            return Some(elements);
        }
        raw.sort();
        let mut raw = raw.into_iter().peekable();
        while let Some(element) = raw.next() {
            // An end that ends nothing only says where the first interval does not begin.
            if !element.begins {
                continue;
            }
            let last = match raw.peek() {
                Some(next) => before(&next.key)?,
                None => vec![u8::MAX; self.width()],
            };
            let (first, last) = (self.values(&element.key)?, self.values(&last)?);
            elements.insert(first.into_iter().zip(last).collect(), element.verdict);
        }
        Some(elements)
    }
}

// === impl Patch ===

impl Patch {
    /// The transaction that moves these elements, with the numbers of its first message and of the last that is acknowledged;
    /// nothing if only nft can say it, or a set is not known.
    pub(crate) fn messages(&self, socket: &mut Socket, shapes: &Shapes) -> Option<(Messages, u32, u32)> {
        let known = self.leave.iter().chain(&self.join).all(|(name, elements)| {
            let shape = shapes.get(name).and_then(Option::as_ref);
            shape.is_some_and(|shape| {
                elements.iter().all(|(key, verdict)| shape.can_tell(key, verdict.as_ref()))
            })
        });
        if !known || !self.is_elements_only() {
            return None;
        }
        let mut writer = Writer { messages: Messages::default(), list: None, last: 0 };
        let first = socket.next();
        writer.messages.begin(BEGIN, REQUEST, first, 0, SUBSYSTEM);
        writer.last = first;
        for (kind, flags, sets) in
            [(DELETE_ELEMENTS, 0, &self.leave), (NEW_ELEMENTS, CREATE | EXCLUSIVE, &self.join)]
        {
            for (name, elements) in sets {
                let shape = shapes.get(name).and_then(Option::as_ref)?;
                writer.elements(socket, (kind, flags), name, shape, elements)?;
            }
        }
        writer.end();
        writer.messages.begin(END, REQUEST, socket.next(), 0, SUBSYSTEM);
        Some((writer.messages, first, writer.last))
    }
}

/// Elements into messages, none of which is too long.
struct Writer {
    messages: Messages,
    list: Option<usize>,
    last: u32,
}

// === impl Writer ===

impl Writer {
    fn elements(
        &mut self,
        socket: &mut Socket,
        (kind, flags): (u16, u16),
        name: &Name,
        shape: &Shape,
        elements: &Elements,
    ) -> Option<()> {
        self.end();
        let is_new = kind == NEW_ELEMENTS;
        for (key, verdict) in elements {
            if self.list.is_none() || self.messages.length() > LONGEST {
                self.end();
                self.last = socket.next();
                // Every message is acknowledged: it costs little, and the last is always one of them.
                self.messages.begin(kind, REQUEST | ACK | flags, self.last, INET, 0);
                self.messages.name(OF_TABLE, TABLE);
                self.messages.name(OF_SET, name);
                self.list = Some(self.messages.open_nested(LIST));
            }
            let first = shape.bytes(key.iter().map(|(first, _)| *first))?;
            let verdict = verdict.as_ref().filter(|_| is_new);
            if shape.in_pairs() {
                self.element(&first, None, verdict, 0);
                self.element(&shape.after(key)?, None, None, IS_END);
            } else if shape.interval {
                let last = shape.bytes(key.iter().map(|(_, last)| *last))?;
                self.element(&first, Some(&last), verdict, 0);
            } else {
                self.element(&first, None, verdict, 0);
            }
        }
        self.end();
        Some(())
    }

    fn element(&mut self, key: &[u8], key_end: Option<&[u8]>, verdict: Option<&Verdict>, flags: u32) {
        self.messages.nested(ELEMENT, |element| {
            if flags != 0 {
                element.attribute(ELEMENT_FLAGS, &flags.to_be_bytes());
            }
            element.nested(KEY, |data| data.attribute(VALUE, key));
            if let Some(key_end) = key_end {
                element.nested(KEY_END, |data| data.attribute(VALUE, key_end));
            }
            if let Some((code, chain)) = verdict.and_then(code) {
                element.nested(DATA, |data| {
                    data.nested(VERDICT, |verdict| {
                        verdict.attribute(CODE, &code.to_be_bytes());
                        if let Some(chain) = chain {
                            verdict.name(CHAIN, chain);
                        }
                    });
                });
            }
        });
    }

    fn end(&mut self) {
        if let Some(at) = self.list.take() {
            self.messages.close(at);
        }
    }
}

/// A transaction of one message.
pub(crate) fn transaction(
    socket: &mut Socket,
    kind: u16,
    attributes: impl Fn(&mut Messages),
) -> Result<(), Errno> {
    let mut messages = Messages::default();
    let (first, last, end) = (socket.next(), socket.next(), socket.next());
    messages.begin(BEGIN, REQUEST, first, 0, SUBSYSTEM);
    messages.begin(kind, REQUEST | ACK, last, INET, 0);
    attributes(&mut messages);
    messages.begin(END, REQUEST, end, 0, SUBSYSTEM);
    socket.ask(messages, first, last)
}

/// The sets of our table. Those that a rule has for itself are a part of that rule.
pub(crate) fn shapes(socket: &mut Socket) -> Result<Shapes, Errno> {
    let all = socket.dump(
        GET_SET,
        INET,
        |request| request.name(OF_TABLE, TABLE),
        |message, all| {
            let attributes = message.attributes();
            let is_ours = netlink::attribute(attributes, OF_TABLE).and_then(netlink::name) == Some(TABLE);
            let flags = netlink::attribute(attributes, SET_FLAGS).and_then(netlink::number).unwrap_or(0);
            if is_ours && flags & ANONYMOUS == 0 {
                let name = netlink::attribute(attributes, OF_SET).and_then(netlink::name);
                let key = netlink::attribute(attributes, SET_KEY_TYPE).and_then(netlink::number);
                let key = key.and_then(fields).filter(|_| flags & OTHER == 0);
                let shape =
                    key.map(|key| Shape { key, interval: flags & INTERVALS != 0, is_map: flags & MAP != 0 });
                all.push((Name::new(name.ok_or(Errno::BADMSG)?), shape));
            }
            Ok(())
        },
    )?;
    Ok(all.into_iter().collect())
}

/// What is in a set; nothing if there is something in it that we would never put there.
pub(crate) fn read(socket: &mut Socket, name: &Name, shape: &Shape) -> Result<Option<Elements>, Errno> {
    let raw = socket.dump(
        GET_ELEMENTS,
        INET,
        |request| {
            request.name(OF_TABLE, TABLE);
            request.name(OF_SET, name);
        },
        |message, all| {
            all.extend(raw_elements(message));
            Ok(())
        },
    )?;
    let raw: Option<Vec<Raw>> = raw.into_iter().collect();
    Ok(raw.and_then(|raw| shape.elements(raw)))
}

fn raw_elements(message: &Message<'_>) -> Vec<Option<Raw>> {
    let list = netlink::attribute(message.attributes(), LIST).unwrap_or_default();
    netlink::attributes(list).map(|(_, element)| raw_element(element)).collect()
}

fn raw_element(element: &[u8]) -> Option<Raw> {
    let flags = netlink::attribute(element, ELEMENT_FLAGS).and_then(netlink::number).unwrap_or(0);
    if flags & IS_REST != 0 {
        return None;
    }
    let value = |kind| netlink::attribute(element, kind).and_then(|data| netlink::attribute(data, VALUE));
    let verdict = match netlink::attribute(element, DATA) {
        None => None,
        Some(data) => Some(verdict(netlink::attribute(data, VERDICT)?)?),
    };
    Some(Raw {
        key: value(KEY)?.to_vec(),
        begins: flags & IS_END == 0,
        end: value(KEY_END).map(<[u8]>::to_vec),
        verdict,
    })
}

/// A verdict as its number, and the chain it leads to.
fn code(verdict: &Verdict) -> Option<(i32, Option<&Name>)> {
    Some(match verdict {
        Verdict::Accept => (ACCEPT, None),
        Verdict::Drop => (DROP, None),
        Verdict::Return => (RETURN, None),
        Verdict::Jump(to) => (JUMP, Some(to)),
        Verdict::Goto(to) => (GOTO, Some(to)),
        Verdict::Reject | Verdict::Map(..) => return None,
    })
}

fn verdict(attributes: &[u8]) -> Option<Verdict> {
    let chain = || Some(Name::new(netlink::attribute(attributes, CHAIN).and_then(netlink::name)?));
    let code = netlink::attribute(attributes, CODE)?;
    Some(match i32::from_be_bytes(code.try_into().ok()?) {
        ACCEPT => Verdict::Accept,
        DROP => Verdict::Drop,
        RETURN => Verdict::Return,
        JUMP => Verdict::Jump(chain()?),
        GOTO => Verdict::Goto(chain()?),
        _ => return None,
    })
}

/// What a key is made of, from the number that nft keeps for itself: six bits a field, the first in the highest.
fn fields(number: u32) -> Option<Vec<FieldType>> {
    let mut fields = Vec::new();
    let mut rest = number;
    while rest != 0 {
        fields.push(match rest & 0x3f {
            7 => FieldType::Address(Family::V4),
            8 => FieldType::Address(Family::V6),
            12 => FieldType::Protocol,
            13 => FieldType::Port,
            14 => FieldType::IcmpType(Family::V4),
            29 => FieldType::IcmpType(Family::V6),
            32 => FieldType::IcmpCode(Family::V4),
            33 => FieldType::IcmpCode(Family::V6),
            41 => FieldType::Interface,
            _ => return None,
        });
        rest >>= 6;
    }
    fields.reverse();
    (!fields.is_empty()).then_some(fields)
}

fn width(field: FieldType) -> usize {
    match field {
        FieldType::Address(Family::V4) => 4,
        FieldType::Address(Family::V6) | FieldType::Interface => 16,
        FieldType::Port => 2,
        FieldType::Protocol | FieldType::IcmpType(_) | FieldType::IcmpCode(_) => 1,
    }
}

/// Whether a field can have a value. A wildcard in the name of an interface means nothing to a set of ours.
fn is_of(field: FieldType, value: Value) -> bool {
    match (field, value) {
        (FieldType::Address(family), Value::Address(address)) => Family::of(address) == family,
        (FieldType::Port, Value::Number(_)) | (FieldType::Interface, Value::Interface(_)) => true,
        (FieldType::Protocol | FieldType::IcmpType(_) | FieldType::IcmpCode(_), Value::Number(number)) => {
            number <= u8::MAX.into()
        }
        _ => false,
    }
}

/// The value before one; nothing before the first.
fn before(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    for byte in bytes.iter_mut().rev() {
        let (next, overflowed) = byte.overflowing_sub(1);
        *byte = next;
        if !overflowed {
            return Some(bytes);
        }
    }
    None
}
