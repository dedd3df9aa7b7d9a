//! The canonical encoding of a selection, version 1: what a digest is made from. `docs/dev/set-digest.md` specifies it.
//!
//! ```text
//!   selection  = version:u8=1  kind:u8  body
//!   pods (1)   = flags:u8  namespaces  selector  [account:text]  [port]
//!                flags: 1 external entities, 2 account follows, 4 port follows
//!   nodes (2)  = selector
//!   addresses (3) = collection of range;  range = family:u8 (4 or 6)  first  last     (4 or 16 bytes each)
//!   names (4)  = collection of name;      name = form:u8 (1 exact, 2 below, 3 pattern)  text
//!   service (5) = namespace:text  name:text
//!   namespaces = form:u8  1 name:text | 2 selector | 3 (the subject's own) | 4 / 5 collection of text (same / other labels)
//!   selector   = collection of requirement
//!   requirement = key:text  operator:u8  1 In values | 2 NotIn values | 3 Exists | 4 DoesNotExist;  values = collection of text
//!   port       = name:text  protocol:u8 (IANA number)  number:u16
//!   text       = length:u32  UTF-8 bytes
//!   collection = count:u32  elements in ascending order of their encodings, no two equal
//! ```
//!
//! Integers are big-endian. Every code is written out below rather than taken from an enum, and collections are sorted by
//! their encodings rather than by `Ord`, so that neither renaming nor reordering a Rust type can change a digest.

use std::net::IpAddr;

use palisade_model::label::{Operator, Requirement, Selector};
use palisade_model::policy::{DomainName, Namespaces, PodSet, ServiceName};
use palisade_model::ranges::Ranges;
use palisade_model::traffic::Protocol;
use smol_str::SmolStr;

use super::{Content, NamedPort, Selection};
use crate::endpoints::number;

/// The version that this release writes.
const VERSION: u8 = 1;

const EXTERNAL: u8 = 1;
const ACCOUNT: u8 = 2;
const PORT: u8 = 4;

// === impl Selection ===

impl Selection {
    /// Returns the canonical encoding.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        match &self.content {
            Content::Pods(set, port) => {
                out.push(1);
                put_pods(&mut out, set, port.as_ref());
            }
            Content::Nodes(selector) => {
                out.push(2);
                put_selector(&mut out, selector);
            }
            Content::Addresses(ranges) => {
                out.push(3);
                put_collection(&mut out, ranges.iter(), put_range);
            }
            Content::Names(names) => {
                out.push(4);
                put_collection(&mut out, names, put_name);
            }
            Content::Service(service) => {
                out.push(5);
                put_text(&mut out, &service.namespace);
                put_text(&mut out, &service.name);
            }
        }
        out
    }

    /// Reads an encoding; `None` unless it is canonical and of this version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Selection> {
        let mut rest = Cursor(bytes);
        if rest.byte()? != VERSION {
            return None;
        }
        let content = match rest.byte()? {
            1 => rest.pods()?,
            2 => Content::Nodes(rest.selector()?),
            3 => Content::Addresses(Ranges::from_canonical(rest.collection(Cursor::range)?)?),
            4 => {
                let mut names = rest.collection(Cursor::name)?;
                names.sort();
                Content::Names(names)
            }
            5 => Content::Service(ServiceName { namespace: rest.text()?, name: rest.text()? }),
            _ => return None,
        };
        let selection = Selection::from(content);
        // Trailing bytes, elements out of order or twice, needless forms: whatever is not the one encoding.
        (selection.encode() == bytes).then_some(selection)
    }
}

/// The rest of an encoding.
struct Cursor<'a>(&'a [u8]);

// === impl Cursor ===

impl<'a> Cursor<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    fn length(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(bytes)).ok()
    }

    fn text(&mut self) -> Option<SmolStr> {
        let length = self.length()?;
        std::str::from_utf8(self.take(length)?).ok().map(SmolStr::from)
    }

    /// Reads elements one by one: a false count runs out of bytes before it takes memory.
    fn collection<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.length()?;
        let mut elements = Vec::new();
        for _ in 0..count {
            elements.push(read(self)?);
        }
        Some(elements)
    }

    fn pods(&mut self) -> Option<Content> {
        let flags = self.byte()?;
        let namespaces = match self.byte()? {
            1 => Namespaces::Named(self.text()?),
            2 => Namespaces::Matching(self.selector()?),
            3 => Namespaces::Own,
            4 => Namespaces::SameLabels(self.collection(Cursor::text)?),
            5 => Namespaces::NotSameLabels(self.collection(Cursor::text)?),
            _ => return None,
        };
        let pods = self.selector()?;
        let account = if flags & ACCOUNT != 0 { Some(self.text()?) } else { None };
        let port = if flags & PORT != 0 { Some(self.port()?) } else { None };
        let external = flags & EXTERNAL != 0;
        Some(Content::Pods(PodSet { namespaces, pods, account, external }, port))
    }

    fn port(&mut self) -> Option<NamedPort> {
        let name = self.text()?;
        let protocol = match self.byte()? {
            1 => Protocol::Icmp,
            2 => Protocol::Igmp,
            6 => Protocol::Tcp,
            17 => Protocol::Udp,
            132 => Protocol::Sctp,
            _ => return None,
        };
        let number = u16::from_be_bytes(self.take(2)?.try_into().ok()?);
        Some(NamedPort { name, protocol, number })
    }

    fn selector(&mut self) -> Option<Selector> {
        self.collection(Cursor::requirement).map(Selector::new)
    }

    fn requirement(&mut self) -> Option<Requirement> {
        let key = self.text()?;
        let operator = match self.byte()? {
            1 => Operator::In(self.collection(Cursor::text)?),
            2 => Operator::NotIn(self.collection(Cursor::text)?),
            3 => Operator::Exists,
            4 => Operator::DoesNotExist,
            _ => return None,
        };
        Some(Requirement::new(key, operator))
    }

    fn range(&mut self) -> Option<(IpAddr, IpAddr)> {
        match self.byte()? {
            4 => Some((self.address::<4>()?, self.address::<4>()?)),
            6 => Some((self.address::<16>()?, self.address::<16>()?)),
            _ => None,
        }
    }

    fn address<const N: usize>(&mut self) -> Option<IpAddr>
    where
        IpAddr: From<[u8; N]>,
    {
        let bytes: [u8; N] = self.take(N)?.try_into().ok()?;
        Some(bytes.into())
    }

    fn name(&mut self) -> Option<DomainName> {
        match self.byte()? {
            1 => self.text().map(DomainName::Exact),
            2 => self.text().map(DomainName::Below),
            3 => self.text().map(DomainName::Form),
            _ => None,
        }
    }
}

fn put_pods(out: &mut Vec<u8>, set: &PodSet, port: Option<&NamedPort>) {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    out.push(
        flag(set.external, EXTERNAL) | flag(set.account.is_some(), ACCOUNT) | flag(port.is_some(), PORT),
    );
    match &set.namespaces {
        Namespaces::Named(name) => {
            out.push(1);
            put_text(out, name);
        }
        Namespaces::Matching(selector) => {
            out.push(2);
            put_selector(out, selector);
        }
        Namespaces::Own => out.push(3),
        Namespaces::SameLabels(keys) => {
            out.push(4);
            put_texts(out, keys);
        }
        Namespaces::NotSameLabels(keys) => {
            out.push(5);
            put_texts(out, keys);
        }
    }
    put_selector(out, &set.pods);
    if let Some(account) = &set.account {
        put_text(out, account);
    }
    if let Some(NamedPort { name, protocol, number }) = port {
        put_text(out, name);
        out.push(protocol_number(*protocol));
        out.extend(number.to_be_bytes());
    }
}

fn put_selector(out: &mut Vec<u8>, selector: &Selector) {
    put_collection(out, selector.requirements(), put_requirement);
}

fn put_requirement(out: &mut Vec<u8>, Requirement { key, operator }: &Requirement) {
    put_text(out, key);
    match operator {
        Operator::In(values) => {
            out.push(1);
            put_texts(out, values);
        }
        Operator::NotIn(values) => {
            out.push(2);
            put_texts(out, values);
        }
        Operator::Exists => out.push(3),
        Operator::DoesNotExist => out.push(4),
    }
}

fn put_range(out: &mut Vec<u8>, (first, last): (IpAddr, IpAddr)) {
    out.push(if first.is_ipv4() { 4 } else { 6 });
    for end in [first, last] {
        match end {
            IpAddr::V4(address) => out.extend(address.octets()),
            IpAddr::V6(address) => out.extend(address.octets()),
        }
    }
}

fn put_name(out: &mut Vec<u8>, name: &DomainName) {
    let (form, text) = match name {
        DomainName::Exact(name) => (1, name),
        DomainName::Below(parent) => (2, parent),
        DomainName::Form(pattern) => (3, pattern),
    };
    out.push(form);
    put_text(out, text);
}

fn put_texts(out: &mut Vec<u8>, texts: &[SmolStr]) {
    put_collection(out, texts, |out, text| put_text(out, text));
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend(number(text.len()).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn put_collection<T>(
    out: &mut Vec<u8>,
    elements: impl IntoIterator<Item = T>,
    put: impl Fn(&mut Vec<u8>, T),
) {
    let encode = |element| {
        let mut encoded = Vec::new();
        put(&mut encoded, element);
        encoded
    };
    let mut encoded: Vec<Vec<u8>> = elements.into_iter().map(encode).collect();
    encoded.sort_unstable();
    encoded.dedup();
    out.extend(number(encoded.len()).to_be_bytes());
    encoded.into_iter().for_each(|element| out.extend(element));
}

/// The protocol's number at IANA.
fn protocol_number(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Icmp => 1,
        Protocol::Igmp => 2,
        Protocol::Tcp => 6,
        Protocol::Udp => 17,
        Protocol::Sctp => 132,
    }
}
