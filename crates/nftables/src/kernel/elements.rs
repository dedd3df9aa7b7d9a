//! Elements into messages and out of them: what comes and goes as one transaction, and what is in a set.
//!
//! This is the way that most changes take, without a process. What it cannot say, nft says ([`Shape::can_tell`]).

use rustix::io::Errno;

use crate::kernel::message::{ACK, Attributes, CREATE, EXCLUSIVE, Message, Messages, REQUEST};
use crate::kernel::netlink::Socket;
use crate::kernel::shape::{Raw, Shape, Shapes, fields};
use crate::kernel::tables::{self, INET, NEW_TABLE, OF_TABLE};
use crate::patch::Patch;
use crate::program::{Elements, Name, Verdict};
use crate::text::TABLE;

const GET_SET: u16 = NEW_TABLE | 10;
const NEW_ELEMENTS: u16 = NEW_TABLE | 12;
const GET_ELEMENTS: u16 = NEW_TABLE | 13;
const DELETE_ELEMENTS: u16 = NEW_TABLE | 14;

/// Beside the table's name, the set's.
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
        let first = tables::begin(socket, &mut writer.messages);
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
        tables::end(socket, &mut writer.messages);
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

/// The sets of our table. Those that a rule has for itself are a part of that rule.
pub(crate) fn shapes(socket: &mut Socket) -> Result<Shapes, Errno> {
    let all = socket.dump(
        GET_SET,
        INET,
        |request| request.name(OF_TABLE, TABLE),
        |message, all| {
            let attributes = message.attributes();
            let flags = attributes.number(SET_FLAGS).unwrap_or(0);
            if tables::is_ours(message) && flags & ANONYMOUS == 0 {
                let name = attributes.name(OF_SET).ok_or(Errno::BADMSG)?;
                let key = attributes.number(SET_KEY_TYPE).and_then(fields).filter(|_| flags & OTHER == 0);
                let shape =
                    key.map(|key| Shape { key, interval: flags & INTERVALS != 0, is_map: flags & MAP != 0 });
                all.push((Name::new(name), shape));
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
    message.attributes().list(LIST).map(raw_element).collect()
}

fn raw_element(element: Attributes<'_>) -> Option<Raw> {
    let flags = element.number(ELEMENT_FLAGS).unwrap_or(0);
    if flags & IS_REST != 0 {
        return None;
    }
    let value = |kind| element.inside(kind).and_then(|data| data.get(VALUE));
    let verdict = match element.inside(DATA) {
        None => None,
        Some(data) => Some(verdict(data.inside(VERDICT)?)?),
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
        Verdict::Reject | Verdict::Log(_) | Verdict::Map(..) => return None,
    })
}

fn verdict(attributes: Attributes<'_>) -> Option<Verdict> {
    let chain = || Some(Name::new(attributes.name(CHAIN)?));
    Some(match attributes.number(CODE)?.cast_signed() {
        ACCEPT => Verdict::Accept,
        DROP => Verdict::Drop,
        RETURN => Verdict::Return,
        JUMP => Verdict::Jump(chain()?),
        GOTO => Verdict::Goto(chain()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::message;

    #[test]
    fn broken_elements_are_none() {
        let verdict = Verdict::Jump("chain".into());
        let mut writer = Writer { messages: Messages::default(), list: None, last: 0 };
        writer.messages.begin(NEW_ELEMENTS, 0, 1, INET, 0);
        let list = writer.messages.open_nested(LIST);
        writer.element(&[1, 2], Some(&[3, 4]), Some(&verdict), IS_END);
        writer.messages.close(list);
        let whole = writer.messages.finish().unwrap();
        let wanted = Raw { key: vec![1, 2], begins: false, end: Some(vec![3, 4]), verdict: Some(verdict) };
        for at in 16..whole.len() {
            for other in [0, 1, 3, 4, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = other;
                let read: Vec<Option<Raw>> =
                    message::read(&bytes).flatten().flat_map(|message| raw_elements(&message)).collect();
                assert!(read.len() < 9, "{read:?}");
            }
        }
        let read: Vec<Option<Raw>> =
            message::read(&whole).flatten().flat_map(|message| raw_elements(&message)).collect();
        assert_eq!(read, [Some(wanted)]);
    }
}
