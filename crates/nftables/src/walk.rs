//! Packets through a program, in memory: what the kernel does with it, as far as our programs go.
//!
//! This is how a program is compared with the plain evaluator, for every connection of a small universe, without a kernel. It
//! is kept honest by the tests that send the same packets through the real one.

use std::net::IpAddr;

use palisade_model::address::Family;
use thiserror::Error;

use crate::program::{
    Elements, Field, Hook, ICMP, ICMP6, IGMP, Interface, Key, Match, Name, Program, Set, TCP, Value, Verdict,
};

/// A packet, as far as programs look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Where it comes from.
    pub source: IpAddr,
    /// Where it goes, after translation.
    pub destination: IpAddr,
    /// Where it went before.
    pub original: IpAddr,
    /// The number of its protocol.
    pub protocol: u8,
    /// Source and destination port, for protocols that have some.
    pub ports: Option<(u16, u16)>,
    /// Type and code, for ICMP; the type, for IGMP.
    pub icmp: Option<(u8, u8)>,
    /// Whether its connection is known.
    pub established: bool,
    /// Whether it may open one, for TCP.
    pub syn: bool,
    /// Whether it is from this machine to itself.
    pub loopback: bool,
    /// The interface by which it came, if that is known.
    pub interface: Option<Interface>,
}

/// What became of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Walked {
    /// Accept, drop or reject.
    pub verdict: Verdict,
    /// The counters that counted it.
    pub counters: Vec<Name>,
    /// How many rules were looked at, and how many lookups in sets that took.
    pub cost: (usize, usize),
}

/// A program that the kernel would not take. Not retryable: the program is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WalkError {
    /// A chain that is not there.
    #[error("there is no chain {0}")]
    Chain(Name),
    /// A set that is not there, or is of another sort.
    #[error("there is no set or map {0} for this")]
    Set(Name),
    /// Chains that call each other too deep: the kernel allows 16.
    #[error("jumps more than 16 deep at {0}")]
    Depth(Name),
}

/// The kernel's limit of chains inside of chains, the base chain included.
const DEEPEST: usize = 16;

// === impl Program ===

impl Program {
    /// What becomes of a packet at a hook: it passes every base chain there unless one stops it.
    pub fn walk(&self, hook: Hook, packet: &Packet) -> Result<Walked, WalkError> {
        Walk { program: self, next: &[], packet, counters: Vec::new(), cost: (0, 0) }.hook(hook)
    }

    /// What becomes of a packet during the change to the next program: it has made so many lookups when that is committed, and
    /// makes the others afterwards. It began before, so that its rules are those of this program.
    pub fn walk_into(
        &self,
        next: &Program,
        lookups: usize,
        hook: Hook,
        packet: &Packet,
    ) -> Result<Walked, WalkError> {
        self.walk_through(&[(next, lookups)], hook, packet)
    }

    /// Returns what becomes of a packet during several changes: each program is committed when the packet has made that number of
    /// lookups. They are in order. The packet began before all of them, so that its rules are those of this program.
    pub fn walk_through(
        &self,
        next: &[(&Program, usize)],
        hook: Hook,
        packet: &Packet,
    ) -> Result<Walked, WalkError> {
        Walk { program: self, next, packet, counters: Vec::new(), cost: (0, 0) }.hook(hook)
    }
}

struct Walk<'a> {
    program: &'a Program,
    /// The programs that take its place, in order, and after how many lookups.
    next: &'a [(&'a Program, usize)],
    packet: &'a Packet,
    counters: Vec<Name>,
    cost: (usize, usize),
}

// === impl Walk ===

impl Walk<'_> {
    fn hook(mut self, hook: Hook) -> Result<Walked, WalkError> {
        let mut verdict = Verdict::Accept;
        for (name, chain) in &self.program.chains {
            if chain.hook == Some(hook)
                && let Some(decided) = self.chain(name, 0)?
                && decided != Verdict::Accept
            {
                verdict = decided;
                break;
            }
        }
        Ok(Walked { verdict, counters: self.counters, cost: self.cost })
    }

    /// What a chain decides; nothing if it comes to its end.
    fn chain(&mut self, name: &Name, depth: usize) -> Result<Option<Verdict>, WalkError> {
        if depth >= DEEPEST {
            return Err(WalkError::Depth(name.clone()));
        }
        // Chains and sets that are new are there before anything leads to them.
        let new = || self.next.iter().find_map(|(next, _)| next.chains.get(name));
        let chain =
            self.program.chains.get(name).or_else(new).ok_or_else(|| WalkError::Chain(name.clone()))?;
        for rule in &chain.rules {
            self.cost.0 += 1;
            let mut holds = true;
            for condition in &rule.matches {
                holds = holds && self.holds(condition)?;
            }
            if !holds {
                continue;
            }
            let verdict = match &rule.verdict {
                Verdict::Map(fields, map) => match self.look_up(fields, map, true)? {
                    Some(Some(verdict)) => verdict,
                    _ => continue,
                },
                other => other.clone(),
            };
            self.counters.extend(rule.counter.clone());
            match verdict {
                Verdict::Accept | Verdict::Drop | Verdict::Reject => return Ok(Some(verdict)),
                Verdict::Return => return Ok(None),
                Verdict::Goto(to) => return self.chain(&to, depth + 1),
                Verdict::Jump(to) => {
                    if let Some(decided) = self.chain(&to, depth + 1)? {
                        return Ok(Some(decided));
                    }
                }
                Verdict::Map(..) | Verdict::Log(_) => {}
            }
        }
        Ok(None)
    }

    fn holds(&mut self, condition: &Match) -> Result<bool, WalkError> {
        Ok(match condition {
            Match::In(fields, set) => self.look_up(fields, set, false)?.is_some(),
            Match::NotIn(fields, set) => {
                fields.iter().all(|field| self.field(*field).is_some())
                    && self.look_up(fields, set, false)?.is_none()
            }
            Match::Is(field, value) => self.field(*field) == Some(*value),
            Match::Between(field, first, last) => {
                self.field(*field).is_some_and(|value| *first <= value && value <= *last)
            }
            Match::LoopbackIn | Match::LoopbackOut => self.packet.loopback,
            Match::Established => self.packet.established,
            Match::LooseTcp => self.packet.protocol == TCP && !self.packet.established && !self.packet.syn,
            Match::Multicast => {
                matches!(self.packet.destination, IpAddr::V4(address) if address.is_multicast())
            }
            Match::NeighbourDiscovery => {
                self.packet.protocol == ICMP6 && matches!(self.packet.icmp, Some((133..=137, _)))
            }
        })
    }

    /// Whether the fields are in a set, and with which verdict; nothing either if the packet has no such field.
    fn look_up(
        &mut self,
        fields: &[Field],
        name: &Name,
        map: bool,
    ) -> Result<Option<Option<Verdict>>, WalkError> {
        let (committed, coming) =
            self.next.split_at(self.next.partition_point(|(_, lookups)| *lookups <= self.cost.1));
        // What is removed stays until the packet is through, what is created is there before.
        let mut programs = committed.iter().rev().map(|(next, _)| *next);
        let mut later = coming.iter().map(|(next, _)| *next);
        let set = programs
            .find_map(|program| program.sets.get(name))
            .or_else(|| self.program.sets.get(name))
            .or_else(|| later.find_map(|program| program.sets.get(name)))
            .filter(|set| set.is_map == map);
        let set = set.ok_or_else(|| WalkError::Set(name.clone()))?;
        if fields.iter().map(|field| field.is_of()).ne(set.key.iter().copied()) {
            return Err(WalkError::Set(name.clone()));
        }
        self.cost.1 += 1;
        let values: Option<Vec<Value>> = fields.iter().map(|field| self.field(*field)).collect();
        Ok(values.and_then(|values| set.find(&values)))
    }

    fn field(&self, field: Field) -> Option<Value> {
        let packet = self.packet;
        let address =
            |address: IpAddr, family| (Family::of(address) == family).then_some(Value::Address(address));
        let icmp = |family: Family| {
            let own = if family == Family::V4 { ICMP } else { ICMP6 };
            packet.icmp.filter(|_| packet.protocol == own)
        };
        match field {
            Field::Source(family) => address(packet.source, family),
            Field::Destination(family) => address(packet.destination, family),
            Field::OriginalDestination(family) => address(packet.original, family),
            Field::Protocol => Some(Value::Number(packet.protocol.into())),
            Field::SourcePort => packet.ports.map(|(source, _)| Value::Number(source)),
            Field::Port => packet.ports.map(|(_, destination)| Value::Number(destination)),
            Field::IcmpType(family) => icmp(family).map(|(kind, _)| Value::Number(kind.into())),
            Field::IcmpCode(family) => icmp(family).map(|(_, code)| Value::Number(code.into())),
            Field::IgmpType => {
                let kind = packet.icmp.filter(|_| packet.protocol == IGMP);
                kind.map(|(kind, _)| Value::Number(kind.into()))
            }
            Field::InterfaceIn => packet.interface.map(Value::Interface),
        }
    }
}

// === impl Set ===

impl Set {
    /// The element that holds these values, and its verdict.
    fn find(&self, values: &[Value]) -> Option<Option<Verdict>> {
        let exact: Key = values.iter().map(|value| (*value, *value)).collect();
        if let Some(verdict) = self.elements.get(&exact) {
            return Some(verdict.clone());
        }
        let holds =
            |key: &Key| key.iter().zip(values).all(|((first, last), value)| first <= value && value <= last);
        let elements: &Elements = &self.elements;
        if let [value] = values {
            // Ranges of one field do not overlap: only the last that begins before it can hold it.
            let last = vec![(*value, END)];
            let before = elements.range(..=last).next_back();
            return before.filter(|(key, _)| holds(key)).map(|(_, verdict)| verdict.clone());
        }
        elements.iter().find(|(key, _)| holds(key)).map(|(_, verdict)| verdict.clone())
    }
}

/// A value that is after every other.
pub(crate) const END: Value = Value::Interface(Interface::LAST);
