//! A table of nftables as data: what is compiled, printed and walked is this.
//!
//! It has what our programs need of the language and no more. Everything is kept in order, so that the same policies are
//! the same text.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use palisade_model::address::Family;
use smol_str::SmolStr;

/// The name of a chain, set, map or counter.
pub type Name = SmolStr;

/// The number of ICMP.
pub const ICMP: u8 = 1;
/// Of IGMP.
pub const IGMP: u8 = 2;
/// Of TCP.
pub const TCP: u8 = 6;
/// Of UDP.
pub const UDP: u8 = 17;
/// Of ICMPv6.
pub const ICMP6: u8 = 58;
/// Of SCTP.
pub const SCTP: u8 = 132;

/// One table of the family `inet`, which is ours alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Chains, by name.
    pub chains: BTreeMap<Name, Chain>,
    /// Sets and verdict maps, by name.
    pub sets: BTreeMap<Name, Set>,
    /// Counters, by name.
    pub counters: BTreeSet<Name>,
}

/// A chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// Where packets come in, for a base chain; its policy is to accept.
    pub hook: Option<Hook>,
    /// In order.
    pub rules: Vec<Rule>,
}

/// Where packets meet a base chain. All of ours come after the translation of destinations and before that of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// To this machine.
    Input,
    /// Through it.
    Forward,
    /// From it.
    Output,
}

/// A set, or a verdict map: what it is looked up by, and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// What a key is made of.
    pub key: Vec<FieldType>,
    /// What is in it. For a set there are no verdicts, for a map each has one.
    pub elements: Elements,
    /// Whether it is a verdict map.
    pub is_map: bool,
    /// Whether elements may be more than one value: the kernel keeps such sets in another way.
    pub interval: bool,
    /// What it stands for, for people.
    pub comment: String,
}

/// The key of an element: for each field the first and the last value.
pub type Key = Vec<(Value, Value)>;

/// What is in a set or map.
pub type Elements = BTreeMap<Key, Option<Verdict>>;

/// The name of an interface, which is never longer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interface([u8; 16]);

/// What can be in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FieldType {
    /// `ipv4_addr` or `ipv6_addr`.
    Address(Family),
    /// `inet_proto`.
    Protocol,
    /// `inet_service`.
    Port,
    /// `icmp_type` or `icmpv6_type`.
    IcmpType(Family),
    /// `icmp_code` or `icmpv6_code`.
    IcmpCode(Family),
    /// `igmp_type`.
    IgmpType,
    /// `ifname`.
    Interface,
}

/// A value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// An address.
    Address(IpAddr),
    /// A protocol, a port, a type or a code.
    Number(u16),
    /// An interface.
    Interface(Interface),
}

/// Something of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// The source's address.
    Source(Family),
    /// The destination's address.
    Destination(Family),
    /// The destination's address before it was translated.
    OriginalDestination(Family),
    /// The protocol.
    Protocol,
    /// The source's port.
    SourcePort,
    /// The destination's port.
    Port,
    /// The type of ICMP.
    IcmpType(Family),
    /// Its code.
    IcmpCode(Family),
    /// The type of IGMP.
    IgmpType,
    /// The interface by which it came in.
    InterfaceIn,
}

/// A rule: if all of this holds, count, and do that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What must hold.
    pub matches: Vec<Match>,
    /// The counter to count with.
    pub counter: Option<Name>,
    /// What to do.
    pub verdict: Verdict,
    /// Why it is there, for people.
    pub comment: Option<String>,
}

/// A condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// These fields together are in a set.
    In(Vec<Field>, Name),
    /// The packet has all of these fields, and together they are not in a set.
    NotIn(Vec<Field>, Name),
    /// A field has this value.
    Is(Field, Value),
    /// A field has one of these, from the first to the last.
    Between(Field, Value, Value),
    /// The connection is known, or belongs to one that is.
    Established,
    /// A packet of TCP that opens no connection and belongs to none: the rest of one that was cut.
    LooseTcp,
    /// From this machine to itself, coming in.
    LoopbackIn,
    /// From this machine to itself, going out.
    LoopbackOut,
    /// To a group of IPv4, not to somebody.
    Multicast,
    /// Neighbour discovery of IPv6, without which no address is ever found.
    NeighbourDiscovery,
}

/// What happens to a packet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It passes this table.
    Accept,
    /// It is gone.
    Drop,
    /// It is refused, with an answer.
    Reject,
    /// Back to whoever jumped here.
    Return,
    /// Through another chain, and back if that does not decide.
    Jump(Name),
    /// To another chain, and not back here.
    Goto(Name),
    /// On with the next rule, after writing this to the kernel's log: not for every packet, if there are many.
    Log(String),
    /// What a verdict map says about these fields; on with the next rule if it says nothing.
    Map(Vec<Field>, Name),
}

// === impl Field ===

impl Field {
    /// The family of the address in it, if there is one.
    pub fn family(self) -> Option<Family> {
        match self.is_of() {
            FieldType::Address(family) => Some(family),
            _ => None,
        }
    }

    /// What can be in it.
    pub fn is_of(self) -> FieldType {
        match self {
            Field::Source(family) | Field::Destination(family) | Field::OriginalDestination(family) => {
                FieldType::Address(family)
            }
            Field::Protocol => FieldType::Protocol,
            Field::SourcePort | Field::Port => FieldType::Port,
            Field::IcmpType(family) => FieldType::IcmpType(family),
            Field::IcmpCode(family) => FieldType::IcmpCode(family),
            Field::IgmpType => FieldType::IgmpType,
            Field::InterfaceIn => FieldType::Interface,
        }
    }
}

// === impl Interface ===

impl Interface {
    /// One that is after every other.
    pub(crate) const LAST: Interface = Interface([u8::MAX; 16]);

    /// By its name; nothing if the kernel would not take it.
    pub fn new(name: &str) -> Option<Interface> {
        let mut bytes = [0; 16];
        let usable = !name.is_empty() && name.len() < 16 && !name.bytes().any(|byte| byte == 0);
        bytes.get_mut(..name.len()).filter(|_| usable)?.copy_from_slice(name.as_bytes());
        Some(Interface(bytes))
    }

    /// As the kernel keeps it: filled up with zeros.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.split(|byte| *byte == 0).next().unwrap_or_default();
        f.write_str(&String::from_utf8_lossy(name))
    }
}

// === impl Verdict ===

impl Verdict {
    /// The chain it leads to.
    pub fn chain(&self) -> Option<&Name> {
        match self {
            Verdict::Jump(to) | Verdict::Goto(to) => Some(to),
            _ => None,
        }
    }
}

// === impl Rule ===

impl Rule {
    /// A rule without a counter.
    pub fn new(matches: impl IntoIterator<Item = Match>, verdict: Verdict) -> Self {
        Rule { matches: matches.into_iter().collect(), counter: None, verdict, comment: None }
    }

    /// With a word about why.
    #[must_use]
    pub fn comment(self, comment: impl Into<String>) -> Self {
        Rule { comment: Some(comment.into()), ..self }
    }

    /// The sets and maps it looks into.
    pub fn sets(&self) -> impl Iterator<Item = &Name> {
        let conditions = self.matches.iter().filter_map(|condition| match condition {
            Match::In(_, set) | Match::NotIn(_, set) => Some(set),
            _ => None,
        });
        let map = match &self.verdict {
            Verdict::Map(_, map) => Some(map),
            _ => None,
        };
        conditions.chain(map)
    }
}
