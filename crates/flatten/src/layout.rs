//! How traffic is laid out while a list is flattened: columns of places, cut into atoms that no rule splits.
//!
//! ```text
//!   column        places 0 … 65,535: ports, ICMP type and code, IGMP type
//!   rest          ├──────────────────────────────────────────────────────┤   protocols that no rule names
//!   tcp           ├──────────┼80┼──────────────┼443┼─────────────────────┤
//!   udp from 53   ├──┼53┼────────────────────────────────────────────────┤   one column for each range of source ports
//!   udp, others   ├──┼53┼────────────────────────────────────────────────┤
//! ```
//!
//! An offset is the index of a column and a place in it. What a rule covers comes from [`TrafficMatch::regions`] alone.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Range;

use palisade_model::policy::{TrafficMatch, TrafficMatches};
use palisade_model::traffic::{PortRange, Protocol};
use palisade_model::traffic_set::{Addressing, Receiver, Region, Unresolved};

use crate::budget::Budget;
use crate::rule_list::RuleList;
use crate::verdicts::{MOST_PIECES, Scope};

/// Columns and atoms for the rules that apply to one class of peers.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Scopes of the columns behind that of the rest, ordered by protocol and source ports.
    scopes: Vec<Scope>,
    /// Offset of the first place of each atom, sorted.
    atoms: Vec<u32>,
}

/// The receiver of IGMP messages of one column.
struct Addressed(Addressing);

/// Places of a column.
const WIDTH: u32 = 1 << 16;

/// Steps for an interval that a rule covers in a column: it is cut out, sorted and painted.
const INTERVAL: u64 = 60;
/// Steps for a match of a rule that is searched for source ports or groups.
const MATCH: u64 = 10;

// === impl Layout ===

impl Layout {
    /// Returns the layout for these rules of a list; `None` if they distinguish more than fits in a table, or than the budget
    /// allows.
    pub(crate) fn new(list: &RuleList, rules: &[u32], budget: &mut Budget) -> Option<Layout> {
        let mut layout = Layout { scopes: scopes(list, rules, budget), atoms: Vec::new() };
        if layout.scopes.len() > MOST_PIECES {
            return None;
        }
        let columns = u32::try_from(layout.scopes.len()).ok()?;
        let mut atoms: Vec<u32> = (0..=columns).map(|column| column * WIDTH).collect();
        for rule in rules {
            let TrafficMatches::Of(all) = &list.rules()[*rule as usize].traffic else { continue };
            let mut intervals = 0;
            layout.for_each_interval(all, |_, places| {
                intervals += 1;
                atoms.push(places.start);
                if places.end % WIDTH != 0 {
                    atoms.push(places.end);
                }
            });
            budget.take(INTERVAL * intervals);
            if budget.is_spent() {
                return None;
            }
        }
        atoms.sort_unstable();
        atoms.dedup();
        layout.atoms = atoms;
        Some(layout)
    }

    /// Returns the number of atoms.
    pub(crate) fn len(&self) -> usize {
        self.atoms.len()
    }

    /// Returns the index of the atom that begins at an offset, or of the next one.
    pub(crate) fn atom(&self, offset: u32) -> usize {
        self.atoms.partition_point(|start| *start < offset)
    }

    /// Returns the index of the atom that begins at an offset behind the beginning of the atom `from`.
    pub(crate) fn atom_after(&self, from: usize, offset: u32) -> usize {
        // Most intervals are single atoms.
        match self.atoms.get(from + 1) {
            Some(start) if *start < offset => {
                from + 1 + self.atoms[from + 1..].partition_point(|start| *start < offset)
            }
            _ => from + 1,
        }
    }

    /// Returns the offsets of all columns of a protocol.
    pub(crate) fn protocol(&self, protocol: Protocol) -> Range<u32> {
        let columns = self.columns(protocol);
        start(columns.start)..start(columns.end)
    }

    /// Returns the columns behind that of the rest, each with the indices of its atoms.
    pub(crate) fn columns_with_atoms(&self) -> impl Iterator<Item = (Scope, Range<usize>)> {
        self.scopes.iter().enumerate().map(|(column, scope)| {
            let atoms = self.atom(start(column))..self.atom(start(column + 1));
            (*scope, atoms)
        })
    }

    /// Returns the first place of an atom in its column.
    pub(crate) fn place(&self, atom: usize) -> u16 {
        let place = self.atoms.get(atom).map_or(0, |start| start % WIDTH);
        u16::try_from(place).unwrap_or(u16::MAX)
    }

    /// Emits the protocol and the offsets of what matches cover in each column.
    pub(crate) fn for_each_interval(
        &self,
        matches: &[TrafficMatch],
        mut emit: impl FnMut(Protocol, Range<u32>),
    ) {
        let mut emit = |column: usize, region: Region| {
            let base = start(column);
            emit(region.protocol, base + u32::from(region.first)..base + u32::from(region.last) + 1);
        };
        for one in matches {
            if one.group().is_none() {
                one.regions(&Unresolved, |region| {
                    self.covered(region).for_each(|column| emit(column, region));
                });
                continue;
            }
            for column in self.columns(Protocol::Igmp) {
                if let Scope::Igmp(Some(addressing)) = self.scopes[column] {
                    one.regions(&Addressed(addressing), |region| emit(column, region));
                }
            }
        }
    }

    /// Returns the columns of a region's protocol from whose source ports it covers connections.
    fn covered(&self, region: Region) -> Range<usize> {
        let columns = self.columns(region.protocol);
        if region.sources == PortRange::ALL {
            return columns;
        }
        let own = &self.scopes[columns.clone()];
        let first = own.partition_point(|scope| scope.sources().first < region.sources.first);
        let last = own.partition_point(|scope| scope.sources().last <= region.sources.last);
        columns.start + first..columns.start + last.max(first)
    }

    /// Returns the columns of a protocol.
    fn columns(&self, protocol: Protocol) -> Range<usize> {
        let first = self.scopes.partition_point(|scope| scope.protocol() < protocol);
        let last = self.scopes.partition_point(|scope| scope.protocol() <= protocol);
        first..last
    }
}

/// Offset of the first place of a column. Column 0 of the offsets is that of the rest, which has no scope.
fn start(column: usize) -> u32 {
    // At most MOST_PIECES columns exist.
    u32::try_from(column + 1).unwrap_or(u32::MAX).saturating_mul(WIDTH)
}

/// Returns the columns that some rules need.
fn scopes(list: &RuleList, rules: &[u32], budget: &mut Budget) -> Vec<Scope> {
    let names = &list.names;
    let mut boundaries: BTreeSet<(Protocol, u16)> = BTreeSet::new();
    let (mut groups, mut has_groups) = (BTreeSet::new(), false);
    if names.sources || names.groups {
        for rule in rules {
            let TrafficMatches::Of(all) = &list.rules()[*rule as usize].traffic else { continue };
            budget.take(MATCH * all.len() as u64);
            for one in all {
                if let TrafficMatch::From(..) = one {
                    one.regions(&Unresolved, |region| {
                        boundaries.insert((region.protocol, region.sources.first));
                        boundaries
                            .extend(region.sources.last.checked_add(1).map(|next| (region.protocol, next)));
                    });
                }
                has_groups |= one.group().is_some();
                // No IGMP message is sent to a group of IPv6; one to a host may be about it.
                if let Some(IpAddr::V4(group)) = one.group() {
                    groups.insert(group);
                }
            }
        }
    }
    let mut scopes = Vec::new();
    for protocol in names.protocols.iter().copied() {
        match protocol {
            Protocol::Icmp => scopes.push(Scope::Icmp),
            Protocol::Igmp if has_groups => {
                let named = groups.iter().map(|group| Addressing::Group((*group).into()));
                let all = named.chain([Addressing::OtherGroup, Addressing::Host]);
                scopes.extend(all.map(|addressing| Scope::Igmp(Some(addressing))));
            }
            Protocol::Igmp => scopes.push(Scope::Igmp(None)),
            Protocol::Tcp | Protocol::Udp | Protocol::Sctp => {
                let own = boundaries.range((protocol, 1)..=(protocol, u16::MAX)).map(|(_, first)| *first);
                let mut first = 0;
                for next in own {
                    scopes.push(Scope::Ports { protocol, sources: PortRange { first, last: next - 1 } });
                    first = next;
                }
                scopes.push(Scope::Ports { protocol, sources: PortRange { first, last: u16::MAX } });
            }
        }
    }
    scopes.sort_by_key(|scope| scope.protocol());
    scopes
}

// === impl Addressed ===

impl Receiver for Addressed {
    fn port_named(&self, _: &str, _: Protocol) -> Option<u16> {
        None
    }

    fn addressing(&self) -> Addressing {
        self.0
    }
}
