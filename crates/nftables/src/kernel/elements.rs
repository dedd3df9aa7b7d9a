//! Elements of sets and maps as netlink attributes, written and read.

use rustix::io::Errno;

use crate::kernel::message::{Attributes, Message, Messages};
use crate::kernel::netlink::Socket;
use crate::kernel::shape::{Raw, Shape, Shapes, fields};
use crate::kernel::tables::{self, INET, NEW_TABLE, OF_TABLE};
use crate::program::{Elements, Name, Verdict};
use crate::text::TABLE;

const GET_SET: u16 = NEW_TABLE | 10;
pub(crate) const NEW_ELEMENTS: u16 = NEW_TABLE | 12;
const GET_ELEMENTS: u16 = NEW_TABLE | 13;
pub(crate) const DELETE_ELEMENTS: u16 = NEW_TABLE | 14;

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
const USERDATA: u16 = 6;
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

/// The user data by which nft marks an interval without an end: a type, a length, and a number in the byte order of this machine.
const OPEN: [u8; 6] = if cfg!(target_endian = "little") { [1, 4, 1, 0, 0, 0] } else { [1, 4, 0, 0, 0, 1] };

/// Verdicts.
const DROP: i32 = 0;
const ACCEPT: i32 = 1;
const JUMP: i32 = -3;
const GOTO: i32 = -4;
const RETURN: i32 = -5;

/// No message is longer than this: an attribute must be shorter than 64 KiB, and an error sends it back whole.
const LONGEST: usize = 32 * 1024;

/// Writes elements of one set into messages that `begin` begins, as many as it takes. Nothing is begun for no elements. `None` if an
/// element does not fit the set; what was written so far is then of no use.
pub(crate) fn write(
    messages: &mut Messages,
    is_new: bool,
    shape: &Shape,
    elements: &Elements,
    mut begin: impl FnMut(&mut Messages),
) -> Option<()> {
    let mut list = None;
    for (key, verdict) in elements {
        if !shape.fits(key, verdict.as_ref()) {
            return None;
        }
        if list.is_none() || messages.length() > LONGEST {
            if let Some(list) = list.take() {
                messages.close(list);
            }
            begin(messages);
            list = Some(messages.open_nested(LIST));
        }
        let first = shape.bytes(key.iter().map(|(first, _)| *first))?;
        let verdict = verdict.as_ref().filter(|_| is_new);
        if shape.in_pairs() {
            let after = shape.after(key);
            write_element(messages, &first, None, verdict, after.is_none().then_some(Mark::Open));
            if let Some(after) = after {
                write_element(messages, &after, None, None, Some(Mark::End));
            }
        } else if shape.interval {
            let last = shape.bytes(key.iter().map(|(_, last)| *last))?;
            write_element(messages, &first, Some(&last), verdict, None);
        } else {
            write_element(messages, &first, None, verdict, None);
        }
    }
    if let Some(list) = list {
        messages.close(list);
    }
    Some(())
}

/// What marks an element of a set of intervals of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// The first value after an interval.
    End,
    /// The first value of an interval that has no end, because it reaches to the last value of all.
    Open,
}

fn write_element(
    messages: &mut Messages,
    key: &[u8],
    key_end: Option<&[u8]>,
    verdict: Option<&Verdict>,
    mark: Option<Mark>,
) {
    messages.nested(ELEMENT, |element| {
        if mark == Some(Mark::End) {
            element.number(ELEMENT_FLAGS, IS_END);
        }
        element.nested(KEY, |data| data.attribute(VALUE, key));
        if let Some(key_end) = key_end {
            element.nested(KEY_END, |data| data.attribute(VALUE, key_end));
        }
        if let Some((code, chain)) = verdict.and_then(code) {
            element.nested(DATA, |data| write_verdict(data, code, chain));
        }
        if mark == Some(Mark::Open) {
            element.attribute(USERDATA, &OPEN);
        }
    });
}

/// Writes a verdict as a constant.
pub(crate) fn write_verdict(data: &mut Messages, code: i32, chain: Option<&Name>) {
    data.nested(VERDICT, |verdict| {
        verdict.attribute(CODE, &code.to_be_bytes());
        if let Some(chain) = chain {
            verdict.name(CHAIN, chain);
        }
    });
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

/// Returns the number of a verdict, and the chain it leads to; `None` for what is no verdict in the kernel.
pub(crate) fn code(verdict: &Verdict) -> Option<(i32, Option<&Name>)> {
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
        let mut messages = Messages::default();
        messages.begin(NEW_ELEMENTS, 0, 1, INET, 0);
        let list = messages.open_nested(LIST);
        write_element(&mut messages, &[1, 2], Some(&[3, 4]), Some(&verdict), Some(Mark::End));
        messages.close(list);
        let whole = messages.finish().unwrap();
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
