//! Verdicts about all traffic between a subject and a class of peers, as a table without overlaps.

use std::ops::{Range, RangeInclusive};

use palisade_model::trace::Verdict;
use palisade_model::traffic::{PortRange, Protocol};
use palisade_model::traffic_set::{Addressing, Point};

use crate::layout::Layout;

mod canonical;
mod icmp;
mod within;

pub use icmp::IcmpVerdicts;

/// Verdicts about all traffic between a subject and a class of peers.
///
/// The table is canonical: it depends on what becomes of each connection and on the rule that decides it, not on how rules are
/// written. Equal tables mean peers that no data plane needs to distinguish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlatVerdicts {
    /// Ordered by protocol, then source ports or addressing. The columns of a protocol cover all of its traffic; a protocol
    /// without columns gets `rest`.
    columns: Vec<Column>,
    rest: Decision,
    /// Number of entries that a data plane needs for the table.
    len: usize,
    closed: bool,
}

/// Traffic of one scope by place: a destination port, ICMP type and code (`type << 8 | code`), or an IGMP type. IGMP places
/// from 256 on stand for all types that no rule names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// The traffic that the column decides.
    pub scope: Scope,
    /// Runs of places with one decision, sorted. The first begins at place 0, each ends before the next, and neighbours differ.
    pub runs: Vec<Run>,
}

/// Neighbouring places with one decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run {
    /// The first place; the run ends before the next one, or at 65,535.
    pub first: u16,
    /// What becomes of the traffic.
    pub decision: Decision,
}

/// What becomes of traffic, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Decision {
    /// The verdict.
    pub verdict: Verdict,
    /// Index of the rule or isolation that decides, in [`RuleList::rules`](crate::RuleList::rules). `None` where no rule does:
    /// traffic that is allowed by default, and everything in a closed table.
    pub rule: Option<u32>,
}

/// The traffic of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Connections of a protocol with ports, from these source ports.
    Ports {
        /// TCP, UDP or SCTP.
        protocol: Protocol,
        /// Source ports; ranges of one protocol do not overlap.
        sources: PortRange,
    },
    /// ICMP messages, and ICMPv6 messages on IPv6.
    Icmp,
    /// IGMP messages: all of them, or those that are addressed so. [`Addressing::OtherGroup`] stands for the groups that have
    /// no column in the table.
    Igmp(Option<Addressing>),
}

/// A part of a table with one decision. Pieces of a table do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The column that the piece is in.
    pub scope: Scope,
    /// First and last place.
    pub places: (u16, u16),
    /// What becomes of the traffic.
    pub decision: Decision,
}

/// Destination ports with one decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortVerdict {
    /// TCP, UDP or SCTP.
    pub protocol: Protocol,
    /// Source ports.
    pub sources: PortRange,
    /// Destination ports.
    pub ports: PortRange,
    /// What becomes of the connections.
    pub decision: Decision,
}

/// IGMP messages with one decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IgmpVerdict {
    /// The type; `None` for every type.
    pub kind: Option<u8>,
    /// Where the message is sent to; `None` for everywhere.
    pub to: Option<Addressing>,
    /// What becomes of the messages.
    pub decision: Decision,
}

/// Maximum number of entries of a table. A class of peers that needs more is denied everything.
pub(crate) const MOST_PIECES: usize = 20_000;

/// IGMP place that stands for the types which no rule names.
const OTHER_IGMP: u16 = 256;

// === impl FlatVerdicts ===

impl FlatVerdicts {
    /// Returns the table that denies everything, because the actual one has too many entries or takes too much work.
    pub fn closed() -> Self {
        let rest = Decision { verdict: Verdict::Deny, rule: None };
        FlatVerdicts { columns: Vec::new(), rest, len: 1, closed: true }
    }

    /// Returns the table of a layout whose atoms have these decisions.
    pub(crate) fn new(layout: &Layout, decisions: &[Decision]) -> Self {
        let Some(rest) = decisions.first().copied() else { return FlatVerdicts::closed() };
        let columns = layout.columns_with_atoms().map(|(scope, atoms)| {
            let mut runs: Vec<Run> = Vec::new();
            for atom in atoms {
                let decision = decisions[atom];
                if runs.last().is_none_or(|last| last.decision != decision) {
                    runs.push(Run { first: layout.place(atom), decision });
                }
            }
            Column { scope, runs }
        });
        let columns = columns.collect();
        let mut table = FlatVerdicts { columns, rest, len: 1, closed: false };
        if table.columns.iter().map(|column| column.runs.len()).sum::<usize>() > MOST_PIECES {
            return FlatVerdicts::closed();
        }
        table.make_canonical();
        table.len =
            1 + table.ports().count() + table.igmp().len() + table.icmp().map_or(0, |icmp| icmp.len());
        if table.len > MOST_PIECES { FlatVerdicts::closed() } else { table }
    }

    /// Returns the decision about traffic that no column covers, of other protocols too.
    pub fn rest(&self) -> Decision {
        self.rest
    }

    /// Returns the columns, which do not overlap.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns whether the table denies everything because the actual one has too many entries or takes too much work.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Returns the number of entries that a data plane needs for the table.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the pieces of all columns: with [`rest`](Self::rest) they cover all traffic, and none overlaps another. An
    /// allow-only data plane takes those with [`Verdict::Allow`].
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        self.columns.iter().flat_map(|column| {
            let pieces = column.ranges();
            pieces.map(|(places, decision)| Piece {
                scope: column.scope,
                places: places.into_inner(),
                decision,
            })
        })
    }

    /// Returns the destination ports whose decision differs from that of the rest.
    pub fn ports(&self) -> impl Iterator<Item = PortVerdict> {
        self.columns.iter().filter_map(|column| Some((column, column.scope.as_ports()?))).flat_map(
            |(column, (protocol, sources))| {
                let differing = column.ranges().filter(|(_, decision)| *decision != self.rest);
                differing.map(move |(places, decision)| {
                    let ports = PortRange { first: *places.start(), last: *places.end() };
                    PortVerdict { protocol, sources, ports, decision }
                })
            },
        )
    }

    /// Returns the verdicts about ICMP; `None` if all of it gets the decision of the rest.
    pub fn icmp(&self) -> Option<IcmpVerdicts> {
        let column = self.columns.iter().find(|column| column.scope == Scope::Icmp)?;
        Some(IcmpVerdicts::new(column))
    }

    /// Returns the verdicts about IGMP, of which the first that matches decides and the last matches everything; none if all of
    /// it gets the decision of the rest.
    pub fn igmp(&self) -> Vec<IgmpVerdict> {
        let mut verdicts = Vec::new();
        for column in self.of(Protocol::Igmp) {
            let Scope::Igmp(to) = column.scope else { continue };
            let other = column.at(OTHER_IGMP);
            for (places, decision) in column.ranges().filter(|(_, decision)| *decision != other) {
                let kinds = places.filter_map(|place| u8::try_from(place).ok());
                verdicts.extend(kinds.map(|kind| IgmpVerdict { kind: Some(kind), to, decision }));
            }
            verdicts.push(IgmpVerdict { kind: None, to, decision: other });
        }
        verdicts
    }

    /// Returns the decision about one connection. The first of its source ports counts.
    pub fn decision(&self, point: Point, addressing: Addressing) -> Decision {
        let column = self.of(point.protocol).iter().find(|column| match column.scope {
            Scope::Ports { sources, .. } => sources.contains(point.sources.first),
            Scope::Icmp | Scope::Igmp(None) => true,
            Scope::Igmp(Some(own)) => own == self.igmp_column(addressing),
        });
        column.map_or(self.rest, |column| column.at(point.place))
    }

    /// Returns the columns of a protocol.
    fn of(&self, protocol: Protocol) -> &[Column] {
        let range: Range<usize> = self.columns.partition_point(|column| column.scope.protocol() < protocol)
            ..self.columns.partition_point(|column| column.scope.protocol() <= protocol);
        &self.columns[range]
    }

    /// Returns the addressing of the IGMP column for messages that are addressed so, if IGMP has columns by addressing.
    fn igmp_column(&self, addressing: Addressing) -> Addressing {
        let is_listed =
            || self.of(Protocol::Igmp).iter().any(|own| own.scope == Scope::Igmp(Some(addressing)));
        match addressing {
            Addressing::Group(_) if !is_listed() => Addressing::OtherGroup,
            _ => addressing,
        }
    }
}

// === impl Column ===

impl Column {
    /// Returns the places of each run with its decision.
    pub fn ranges(&self) -> impl Iterator<Item = (RangeInclusive<u16>, Decision)> {
        let ends = self.runs.iter().skip(1).map(|next| next.first - 1).chain([u16::MAX]);
        self.runs.iter().zip(ends).map(|(run, last)| (run.first..=last, run.decision))
    }

    /// Returns the decision about a place.
    pub fn at(&self, place: u16) -> Decision {
        let after = self.runs.partition_point(|run| run.first <= place);
        // The first run begins at 0.
        self.runs[after.saturating_sub(1)].decision
    }
}

// === impl Scope ===

impl Scope {
    /// Returns the protocol.
    pub fn protocol(self) -> Protocol {
        match self {
            Scope::Ports { protocol, .. } => protocol,
            Scope::Icmp => Protocol::Icmp,
            Scope::Igmp(_) => Protocol::Igmp,
        }
    }

    /// Returns the source ports: all of them for protocols that have none.
    pub fn sources(self) -> PortRange {
        match self {
            Scope::Ports { sources, .. } => sources,
            Scope::Icmp | Scope::Igmp(_) => PortRange::ALL,
        }
    }

    fn as_ports(self) -> Option<(Protocol, PortRange)> {
        match self {
            Scope::Ports { protocol, sources } => Some((protocol, sources)),
            Scope::Icmp | Scope::Igmp(_) => None,
        }
    }
}
