//! Rules as the kernel executes them: a list of expressions that load fields into registers and compare them.
//!
//! ```text
//!   ip saddr @pods4 drop      meta load nfproto → reg 1, cmp eq 2      only IPv4 has the field
//!                             payload load 4 bytes @ network + 12 → reg 1
//!                             lookup reg 1 in pods4
//!                             immediate verdict drop
//! ```
//!
//! The expressions are those that `nft` emits for the text of the same rule ([`crate::text`]), so that a table lists identically
//! whichever of the two loaded it; `tests/kernel_structure.rs` compares them.

use palisade_model::address::Family;

use crate::kernel::elements;
use crate::kernel::message::Messages;
use crate::kernel::shape;
use crate::program::{
    Field, FieldType, ICMP, ICMP6, IGMP, Interface, Match, Name, Rule, TCP, Value, Verdict,
};
use crate::text::{LOG_BURST, LOG_PER_SECOND, label};

/// Attributes of a list and of one expression in it.
const LIST_ELEMENT: u16 = 1;
const EXPRESSION_NAME: u16 = 1;
const EXPRESSION_DATA: u16 = 2;
/// The attribute of a constant that is no verdict.
const DATA_VALUE: u16 = 1;

/// The register that a verdict is written to, and the first of 16 and of 4 bytes for values.
const VERDICT_REGISTER: u32 = 0;
const FIRST_REGISTER: u32 = 1;
const FIRST_REGISTER_OF_4: u32 = 8;

/// Keys of `meta`.
const META_IIFNAME: u32 = 6;
const META_OIFNAME: u32 = 7;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
/// Keys of `ct`.
const CT_STATE: u32 = 0;
const CT_DST_IP: u32 = 20;
const CT_DST_IP6: u32 = 22;
/// States of connections, as bits.
const STATE_ESTABLISHED_OR_RELATED: u32 = 0x2 | 0x4;
const STATE_NEW: u32 = 0x8;
/// Headers that `payload` counts offsets from.
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
/// Comparisons.
const EQUAL: u32 = 0;
const NOT_EQUAL: u32 = 1;
const AT_MOST: u32 = 3;
const AT_LEAST: u32 = 5;
/// The flag of a lookup that matches what is not in the set.
const LOOKUP_INVERTED: u32 = 1;
/// The object type of a named counter.
const COUNTER: u32 = 1;
/// Ways of rejecting: a TCP reset; ICMP of the packet's family, "administratively prohibited".
const REJECT_TCP_RESET: u32 = 1;
const REJECT_ICMPX: u32 = 2;
const ADMIN_PROHIBITED: u8 = 3;

/// Writes the expressions of one rule.
struct Expressions<'a> {
    messages: &'a mut Messages,
    /// What earlier expressions of the rule have compared, so that it is not compared again.
    family: Option<Family>,
    protocol: Option<u8>,
}

/// Where a field is found.
enum Source {
    Payload { header: u32, offset: u32 },
    Meta(u32),
    ConntrackOriginal(u32),
}

/// Writes the lists of expressions of a rule, each as an attribute of the kind `attribute` in a message of its own that `begin`
/// begins. A rule that rejects is two in the kernel: TCP is answered by a reset. `None` if a value does not fit its field; what was
/// written so far is then of no use.
pub(crate) fn write(
    messages: &mut Messages,
    rule: &Rule,
    attribute: u16,
    mut begin: impl FnMut(&mut Messages),
) -> Option<()> {
    let is_reject = rule.verdict == Verdict::Reject;
    for is_tcp_reset in [true, false].into_iter().filter(|is_tcp_reset| is_reject || !is_tcp_reset) {
        begin(messages);
        let list = messages.open_nested(attribute);
        let mut expressions = Expressions { messages, family: None, protocol: None };
        expressions.conditions(&rule.matches)?;
        if is_tcp_reset {
            expressions.is(Field::Protocol, Value::Number(TCP.into()))?;
        }
        if let Some(counter) = &rule.counter {
            expressions.counter(counter);
        }
        match &rule.verdict {
            Verdict::Reject if is_tcp_reset => expressions.reject(REJECT_TCP_RESET, 0),
            Verdict::Reject => expressions.reject(REJECT_ICMPX, ADMIN_PROHIBITED),
            Verdict::Log(prefix) => expressions.log(prefix),
            Verdict::Map(fields, map) => expressions.lookup(fields, map, Lookup::Verdict),
            other => expressions.verdict(other)?,
        }
        messages.close(list);
    }
    Some(())
}

/// What a lookup does with its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lookup {
    /// Matches what is in the set.
    In,
    /// Matches what is not in the set.
    NotIn,
    /// Takes the verdict of the element, if there is one.
    Verdict,
}

// === impl Expressions ===

impl Expressions<'_> {
    fn conditions(&mut self, mut conditions: &[Match]) -> Option<()> {
        loop {
            conditions = match conditions {
                [] => return Some(()),
                // Type and code of ICMP are beside each other: one comparison.
                [
                    Match::Is(kind @ Field::IcmpType(family), one),
                    Match::Is(Field::IcmpCode(other), two),
                    rest @ ..,
                ] if family == other => {
                    let mut bytes = shape::value_bytes(FieldType::IcmpType(*family), *one)?;
                    bytes.extend(shape::value_bytes(FieldType::IcmpCode(*family), *two)?);
                    self.require(*kind);
                    self.payload(TRANSPORT_HEADER, 0, bytes.len(), FIRST_REGISTER);
                    self.compare(EQUAL, &bytes);
                    rest
                }
                [condition, rest @ ..] => {
                    self.condition(condition)?;
                    rest
                }
            };
        }
    }

    fn condition(&mut self, condition: &Match) -> Option<()> {
        match condition {
            Match::In(fields, set) => self.lookup(fields, set, Lookup::In),
            Match::NotIn(fields, set) => self.lookup(fields, set, Lookup::NotIn),
            Match::Is(field, value) => self.is(*field, *value)?,
            Match::Between(field, first, last) => {
                self.load_single(*field);
                self.compare(AT_LEAST, &shape::value_bytes(field.is_of(), *first)?);
                self.compare(AT_MOST, &shape::value_bytes(field.is_of(), *last)?);
            }
            Match::Established => self.state(STATE_ESTABLISHED_OR_RELATED),
            Match::LooseTcp => {
                self.state(STATE_NEW);
                self.require_protocol(TCP);
                self.payload(TRANSPORT_HEADER, 13, 1, FIRST_REGISTER);
                // FIN, SYN, RST and ACK; SYN alone opens a connection.
                self.mask(&[0x17]);
                self.compare(NOT_EQUAL, &[0x02]);
            }
            Match::LoopbackIn => self.interface(META_IIFNAME, Interface::new("lo")?),
            Match::LoopbackOut => self.interface(META_OIFNAME, Interface::new("lo")?),
            Match::Multicast => {
                self.load_single(Field::Destination(Family::V4));
                self.mask(&[0xf0, 0, 0, 0]);
                self.compare(EQUAL, &[224, 0, 0, 0]);
            }
            Match::NeighbourDiscovery => {
                self.require_family(Family::V6);
                // The hop limit.
                self.payload(NETWORK_HEADER, 7, 1, FIRST_REGISTER);
                self.compare(EQUAL, &[255]);
                self.load_single(Field::IcmpType(Family::V6));
                self.compare(AT_LEAST, &[133]);
                self.compare(AT_MOST, &[137]);
            }
        }
        Some(())
    }

    fn is(&mut self, field: Field, value: Value) -> Option<()> {
        let bytes = shape::value_bytes(field.is_of(), value)?;
        self.load_single(field);
        self.compare(EQUAL, &bytes);
        if field == Field::Protocol {
            self.protocol = bytes.first().copied();
        }
        Some(())
    }

    fn interface(&mut self, key: u32, interface: Interface) {
        self.meta(key, FIRST_REGISTER);
        self.compare(EQUAL, &interface.bytes());
    }

    fn state(&mut self, bits: u32) {
        self.conntrack(CT_STATE, None, FIRST_REGISTER);
        self.mask(&bits.to_ne_bytes());
        self.compare(NOT_EQUAL, &0u32.to_ne_bytes());
    }

    fn lookup(&mut self, fields: &[Field], set: &Name, lookup: Lookup) {
        fields.iter().for_each(|field| self.require(*field));
        let mut words = 0;
        for field in fields {
            self.load(*field, register(words));
            words += shape::width(field.is_of()).div_ceil(4);
        }
        self.expression("lookup", |data| {
            data.number(2, FIRST_REGISTER);
            if lookup == Lookup::Verdict {
                data.number(3, VERDICT_REGISTER);
            }
            data.name(1, set);
            if lookup == Lookup::NotIn {
                data.number(5, LOOKUP_INVERTED);
            }
        });
    }

    fn load_single(&mut self, field: Field) {
        self.require(field);
        self.load(field, FIRST_REGISTER);
    }

    /// Compares what a packet must be for the field to be where it is loaded from.
    fn require(&mut self, field: Field) {
        match field {
            Field::Source(family) | Field::Destination(family) => self.require_family(family),
            Field::IcmpType(family) | Field::IcmpCode(family) => {
                let protocol = if family == Family::V4 { ICMP } else { ICMP6 };
                if self.protocol != Some(protocol) {
                    self.require_family(family);
                }
                self.require_protocol(protocol);
            }
            Field::IgmpType => {
                if self.protocol != Some(IGMP) {
                    self.require_family(Family::V4);
                }
                self.require_protocol(IGMP);
            }
            Field::OriginalDestination(_)
            | Field::Protocol
            | Field::SourcePort
            | Field::Port
            | Field::InterfaceIn => {}
        }
    }

    fn require_family(&mut self, family: Family) {
        if self.family != Some(family) {
            self.meta(META_NFPROTO, FIRST_REGISTER);
            self.compare(EQUAL, &[if family == Family::V4 { 2 } else { 10 }]);
            self.family = Some(family);
        }
    }

    fn require_protocol(&mut self, protocol: u8) {
        if self.protocol != Some(protocol) {
            self.meta(META_L4PROTO, FIRST_REGISTER);
            self.compare(EQUAL, &[protocol]);
            self.protocol = Some(protocol);
        }
    }

    fn load(&mut self, field: Field, register: u32) {
        match source(field) {
            Source::Payload { header, offset } => {
                self.payload(header, offset, shape::width(field.is_of()), register);
            }
            Source::Meta(key) => self.meta(key, register),
            Source::ConntrackOriginal(key) => self.conntrack(key, Some(0), register),
        }
    }

    fn payload(&mut self, header: u32, offset: u32, length: usize, register: u32) {
        self.expression("payload", |data| {
            data.number(1, register);
            data.number(2, header);
            data.number(3, offset);
            data.length_of(4, length);
        });
    }

    fn meta(&mut self, key: u32, register: u32) {
        self.expression("meta", |data| {
            data.number(2, key);
            data.number(1, register);
        });
    }

    fn conntrack(&mut self, key: u32, direction: Option<u8>, register: u32) {
        self.expression("ct", |data| {
            data.number(2, key);
            data.number(1, register);
            if let Some(direction) = direction {
                data.attribute(3, &[direction]);
            }
        });
    }

    fn compare(&mut self, comparison: u32, value: &[u8]) {
        self.expression("cmp", |data| {
            data.number(1, FIRST_REGISTER);
            data.number(2, comparison);
            data.nested(3, |constant| constant.attribute(DATA_VALUE, value));
        });
    }

    fn mask(&mut self, mask: &[u8]) {
        self.expression("bitwise", |data| {
            data.number(1, FIRST_REGISTER);
            data.number(2, FIRST_REGISTER);
            data.length_of(3, mask.len());
            data.nested(4, |constant| constant.attribute(DATA_VALUE, mask));
            data.nested(5, |constant| constant.attribute(DATA_VALUE, &vec![0; mask.len()]));
        });
    }

    fn counter(&mut self, name: &Name) {
        self.expression("objref", |data| {
            data.number(1, COUNTER);
            data.name(2, name);
        });
    }

    fn reject(&mut self, kind: u32, code: u8) {
        self.expression("reject", |data| {
            data.number(1, kind);
            data.attribute(2, &[code]);
        });
    }

    fn log(&mut self, prefix: &str) {
        self.expression("limit", |data| {
            data.attribute(1, &LOG_PER_SECOND.to_be_bytes());
            data.attribute(2, &1u64.to_be_bytes());
            data.number(3, LOG_BURST);
            data.number(4, 0);
            data.number(5, 0);
        });
        self.expression("log", |data| data.name(2, &label(prefix)));
    }

    fn verdict(&mut self, verdict: &Verdict) -> Option<()> {
        let (code, chain) = elements::code(verdict)?;
        self.expression("immediate", |data| {
            data.number(1, VERDICT_REGISTER);
            data.nested(2, |constant| elements::write_verdict(constant, code, chain));
        });
        Some(())
    }

    fn expression(&mut self, name: &str, data: impl FnOnce(&mut Messages)) {
        self.messages.nested(LIST_ELEMENT, |expression| {
            expression.name(EXPRESSION_NAME, name);
            expression.nested(EXPRESSION_DATA, data);
        });
    }
}

/// The register for the field of a key that begins after so many words of 4 bytes.
fn register(words: usize) -> u32 {
    // A key has at most 64 bytes.
    let words = u32::try_from(words).unwrap_or(u32::MAX);
    if words.is_multiple_of(4) { FIRST_REGISTER + words / 4 } else { FIRST_REGISTER_OF_4 + words }
}

fn source(field: Field) -> Source {
    let network = |offset| Source::Payload { header: NETWORK_HEADER, offset };
    let transport = |offset| Source::Payload { header: TRANSPORT_HEADER, offset };
    match field {
        Field::Source(Family::V4) => network(12),
        Field::Destination(Family::V4) => network(16),
        Field::Source(Family::V6) => network(8),
        Field::Destination(Family::V6) => network(24),
        Field::OriginalDestination(Family::V4) => Source::ConntrackOriginal(CT_DST_IP),
        Field::OriginalDestination(Family::V6) => Source::ConntrackOriginal(CT_DST_IP6),
        Field::Protocol => Source::Meta(META_L4PROTO),
        Field::InterfaceIn => Source::Meta(META_IIFNAME),
        Field::SourcePort | Field::IcmpType(_) | Field::IgmpType => transport(0),
        Field::Port => transport(2),
        Field::IcmpCode(_) => transport(1),
    }
}
