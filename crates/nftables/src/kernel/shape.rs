//! What sets are made of: keys as bytes, and elements from what the kernel has of them.
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
//! An interval of one field that reaches to the last value of all has no end; nft marks its first element as open.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_model::address::Family;

use crate::kernel::message;
use crate::program::{Elements, FieldType, Interface, Key, Name, Set, Value, Verdict};

/// How a set keeps what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// What a key is made of.
    pub(crate) key: Vec<FieldType>,
    pub(crate) interval: bool,
    pub(crate) is_map: bool,
}

/// The numbers that nft has for types of fields.
const FIELD_NUMBERS: [(FieldType, u32); 10] = [
    (FieldType::Address(Family::V4), 7),
    (FieldType::Address(Family::V6), 8),
    (FieldType::Protocol, 12),
    (FieldType::Port, 13),
    (FieldType::IcmpType(Family::V4), 14),
    (FieldType::IcmpType(Family::V6), 29),
    (FieldType::IcmpCode(Family::V4), 32),
    (FieldType::IcmpCode(Family::V6), 33),
    (FieldType::Interface, 41),
    (FieldType::IgmpType, 42),
];

/// The shapes of sets; nothing for one that we would never make.
pub(crate) type Shapes = BTreeMap<Name, Option<Shape>>;

/// An element as it comes from the kernel.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Raw {
    pub(crate) key: Vec<u8>,
    /// Before what begins with the same key.
    pub(crate) begins: bool,
    pub(crate) end: Option<Vec<u8>>,
    pub(crate) verdict: Option<Verdict>,
}

// === impl Shape ===

impl Shape {
    pub(crate) fn of(set: &Set) -> Shape {
        Shape { key: set.key.clone(), interval: set.interval, is_map: set.is_map }
    }

    /// Whether elements of this set are pairs of elements in the kernel.
    pub(crate) fn in_pairs(&self) -> bool {
        self.interval && self.key.len() == 1
    }

    /// Returns whether an element can be in such a set. Others are left to nft, which reports what is wrong with them.
    pub(crate) fn fits(&self, key: &Key, verdict: Option<&Verdict>) -> bool {
        let fits = |(field, (first, last)): (&FieldType, &(Value, Value))| {
            is_of(*field, *first) && is_of(*field, *last) && first <= last && (self.interval || first == last)
        };
        let verdict_fits = match verdict {
            None => !self.is_map,
            Some(Verdict::Reject | Verdict::Map(..)) => false,
            Some(_) => self.is_map,
        };
        key.len() == self.key.len() && self.key.iter().zip(key).all(fits) && verdict_fits
    }

    /// The first value after an interval of one field, as bytes; none after the last of all.
    pub(crate) fn after(&self, key: &Key) -> Option<Vec<u8>> {
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
    pub(crate) fn bytes(&self, values: impl Iterator<Item = Value>) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(self.width());
        for (field, value) in self.key.iter().zip(values) {
            push_value(&mut bytes, *field, value)?;
            if self.key.len() > 1 {
                bytes.resize(bytes.len().next_multiple_of(4), 0);
            }
        }
        Some(bytes)
    }

    /// Returns the length of a key in bytes.
    pub(crate) fn width(&self) -> usize {
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
                FieldType::Interface => Value::Interface(Interface::new(message::name(part)?)?),
                FieldType::Protocol
                | FieldType::IcmpType(_)
                | FieldType::IcmpCode(_)
                | FieldType::IgmpType => Value::Number(u16::from(*part.first()?)),
            });
            at += width.next_multiple_of(4);
        }
        Some(values)
    }

    /// The elements that these say.
    pub(crate) fn elements(&self, mut raw: Vec<Raw>) -> Option<Elements> {
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

/// Returns the fields of a key from the number that nft keeps for itself: six bits a field, the first in the highest.
pub(crate) fn fields(number: u32) -> Option<Vec<FieldType>> {
    let mut fields = Vec::new();
    let mut rest = number;
    while rest != 0 {
        let (field, _) = FIELD_NUMBERS.iter().find(|(_, number)| *number == rest & 0x3f)?;
        fields.push(*field);
        rest >>= 6;
    }
    fields.reverse();
    (!fields.is_empty()).then_some(fields)
}

/// Returns the number that nft keeps for a key: the inverse of [`fields`].
pub(crate) fn number(fields: &[FieldType]) -> u32 {
    fields.iter().fold(0, |all, field| {
        let number = FIELD_NUMBERS.iter().find(|(known, _)| known == field).map_or(0, |(_, number)| *number);
        all << 6 | number
    })
}

/// Returns a value of a field as the kernel compares it; `None` if the field cannot have it.
pub(crate) fn value_bytes(field: FieldType, value: Value) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(width(field));
    push_value(&mut bytes, field, value)?;
    Some(bytes)
}

fn push_value(bytes: &mut Vec<u8>, field: FieldType, value: Value) -> Option<()> {
    match (field, value) {
        (FieldType::Address(Family::V4), Value::Address(IpAddr::V4(address))) => {
            bytes.extend(address.octets());
        }
        (FieldType::Address(Family::V6), Value::Address(IpAddr::V6(address))) => {
            bytes.extend(address.octets());
        }
        (FieldType::Port, Value::Number(number)) => bytes.extend(number.to_be_bytes()),
        (FieldType::Interface, Value::Interface(interface)) => bytes.extend(interface.bytes()),
        (
            FieldType::Protocol | FieldType::IcmpType(_) | FieldType::IcmpCode(_) | FieldType::IgmpType,
            Value::Number(number),
        ) => bytes.push(u8::try_from(number).ok()?),
        _ => return None,
    }
    Some(())
}

/// Returns the length of a field in bytes.
pub(crate) fn width(field: FieldType) -> usize {
    match field {
        FieldType::Address(Family::V4) => 4,
        FieldType::Address(Family::V6) | FieldType::Interface => 16,
        FieldType::Port => 2,
        FieldType::Protocol | FieldType::IcmpType(_) | FieldType::IcmpCode(_) | FieldType::IgmpType => 1,
    }
}

/// Whether a field can have a value. A wildcard in the name of an interface means nothing to a set of ours.
pub(crate) fn is_of(field: FieldType, value: Value) -> bool {
    match (field, value) {
        (FieldType::Address(family), Value::Address(address)) => Family::of(address) == family,
        (FieldType::Port, Value::Number(_)) | (FieldType::Interface, Value::Interface(_)) => true,
        (
            FieldType::Protocol | FieldType::IcmpType(_) | FieldType::IcmpCode(_) | FieldType::IgmpType,
            Value::Number(number),
        ) => number <= u8::MAX.into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(shape: &Shape, elements: &[(&[u8], bool)]) -> Option<Elements> {
        let raw = elements.iter().map(|(key, begins)| Raw {
            key: key.to_vec(),
            begins: *begins,
            end: None,
            verdict: None,
        });
        shape.elements(raw.collect())
    }

    #[test]
    fn intervals_are_put_together_from_their_ends() {
        let shape = Shape { key: vec![FieldType::Port], interval: true, is_map: false };
        let port = |first, last| vec![(Value::Number(first), Value::Number(last))];
        let told: &[(&[u8], bool)] = &[
            // As the kernel tells them: backwards, and the end that ends nothing.
            (&[255, 0], true),
            (&[0, 101], false),
            (&[0, 91], true),
            (&[0, 91], false),
            (&[0, 80], true),
            (&[0, 0], false),
        ];
        let wanted = [port(80, 90), port(91, 100), port(0xff00, 0xffff)].map(|key| (key, None)).into();
        assert_eq!(pairs(&shape, told), Some(wanted));
        // Two that begin at the same place cannot be.
        assert_eq!(pairs(&shape, &[(&[0, 0], true), (&[0, 0], true)]), None);
        assert_eq!(pairs(&shape, &[(&[0], true)]), None);
    }

    #[test]
    fn keys_are_written_and_read() {
        let shape = Shape {
            key: vec![FieldType::Interface, FieldType::Protocol, FieldType::Address(Family::V4)],
            interval: false,
            is_map: false,
        };
        let interface = Value::Interface(Interface::new("eth0").unwrap());
        let values = [interface, Value::Number(6), Value::Address("192.0.2.1".parse().unwrap())];
        let bytes = shape.bytes(values.into_iter()).unwrap();
        assert_eq!(bytes, b"eth0\0\0\0\0\0\0\0\0\0\0\0\0\x06\0\0\0\xc0\0\x02\x01");
        assert_eq!(shape.values(&bytes), Some(values.to_vec()));
        assert_eq!(shape.values(&bytes[1..]), None);
        assert_eq!(shape.bytes([Value::Number(6); 3].into_iter()), None);
        assert_eq!(fields(41 << 12 | 12 << 6 | 7), Some(shape.key));
        assert_eq!((fields(0), fields(63)), (None, None));
    }
}
