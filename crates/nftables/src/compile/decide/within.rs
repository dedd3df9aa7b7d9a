//! Whether everything that one behaviour lets through another lets through as well.
//!
//! Both are cut into the pieces of traffic that neither splits, and each piece is compared. What would be too many pieces is
//! answered with no: whoever asks takes the safe way then.

use std::collections::BTreeSet;

use palisade_model::policy::IcmpMatch;
use palisade_model::traffic::{PortRange, Protocol};

use super::pieces::PROTOCOLS;
use super::{Behaviour, Final, To};

/// More looks at an entry than this are not worth it: about a millisecond.
const MOST: usize = 1 << 18;

// === impl Behaviour ===

impl Behaviour {
    /// Returns whether all that this lets through the other lets through. False if that takes too long to find out.
    pub(crate) fn is_within(&self, other: &Behaviour) -> bool {
        if self.lets_nothing_through() {
            return true;
        }
        let fine = |own: Final, theirs: Final| own != Final::Allow || theirs == Final::Allow;
        fine(self.rest.verdict, other.rest.verdict)
            && self.is_icmp_within(other, fine)
            && self.is_igmp_within(other, fine)
            && PROTOCOLS.into_iter().all(|protocol| self.are_ports_within(other, protocol, fine))
    }

    fn lets_nothing_through(&self) -> bool {
        let outcomes = [self.other_icmp, self.other_igmp, self.rest];
        let ports = self.ports.iter().map(|port| port.3);
        let types = self.icmp.iter().map(|icmp| icmp.1).chain(self.igmp.iter().map(|igmp| igmp.2));
        let mut all = outcomes.into_iter().chain(ports).chain(types);
        all.all(|outcome| outcome.verdict != Final::Allow)
    }

    fn are_ports_within(
        &self,
        other: &Behaviour,
        protocol: Protocol,
        fine: impl Fn(Final, Final) -> bool,
    ) -> bool {
        let (mut sources, mut ports) = (BTreeSet::from([0]), BTreeSet::from([0]));
        let cut = |starts: &mut BTreeSet<u16>, range: &PortRange| {
            starts.insert(range.first);
            starts.extend(range.last.checked_add(1));
        };
        for (_, source, port, _) in self.ports.iter().chain(&other.ports).filter(|entry| entry.0 == protocol)
        {
            cut(&mut sources, source);
            cut(&mut ports, port);
        }
        let entries = self.ports.len() + other.ports.len();
        if sources.len().saturating_mul(ports.len()).saturating_mul(entries) > MOST {
            return false;
        }
        sources.iter().all(|source| {
            ports
                .iter()
                .all(|port| fine(self.port(protocol, *source, *port), other.port(protocol, *source, *port)))
        })
    }

    fn port(&self, protocol: Protocol, source: u16, port: u16) -> Final {
        let own = self.ports.iter().find(|(own, sources, ports, _)| {
            *own == protocol && sources.contains(source) && ports.contains(port)
        });
        own.map_or(self.rest, |entry| entry.3).verdict
    }

    fn is_icmp_within(&self, other: &Behaviour, fine: impl Fn(Final, Final) -> bool) -> bool {
        let both = || self.icmp.iter().chain(&other.icmp).map(|(matched, _)| matched);
        // None stands for the types, and the codes, that neither mentions.
        let kinds: BTreeSet<Option<u8>> = both().map(|matched| matched.kind).chain([None]).collect();
        let codes: BTreeSet<Option<u8>> = both().map(|matched| matched.code).chain([None]).collect();
        let entries = self.icmp.len() + other.icmp.len();
        if kinds.len().saturating_mul(codes.len()).saturating_mul(entries) > MOST {
            return false;
        }
        kinds.iter().all(|kind| {
            codes.iter().all(|code| fine(self.icmp_of(*kind, *code), other.icmp_of(*kind, *code)))
        })
    }

    fn icmp_of(&self, kind: Option<u8>, code: Option<u8>) -> Final {
        let own = self.icmp.iter().find(|(IcmpMatch { kind: own_kind, code: own_code }, _)| {
            (own_kind.is_none() || *own_kind == kind) && (own_code.is_none() || *own_code == code)
        });
        own.map_or(self.other_icmp, |entry| entry.1).verdict
    }

    fn is_igmp_within(&self, other: &Behaviour, fine: impl Fn(Final, Final) -> bool) -> bool {
        let both = || self.igmp.iter().chain(&other.igmp);
        let kinds: BTreeSet<Option<u8>> = both().map(|(kind, ..)| *kind).chain([None]).collect();
        let to: BTreeSet<To> = both().map(|(_, to, _)| *to).chain([To::OtherGroup, To::Host]).collect();
        kinds.iter().all(|kind| to.iter().all(|to| fine(self.igmp_of(*kind, *to), other.igmp_of(*kind, *to))))
    }

    fn igmp_of(&self, kind: Option<u8>, to: To) -> Final {
        let own = self.igmp.iter().find(|(own, wanted, _)| {
            (own.is_none() || *own == kind)
                && match wanted {
                    To::Group(_) => *wanted == to,
                    To::OtherGroup => to != To::Host,
                    To::Host => true,
                }
        });
        own.map_or(self.other_igmp, |entry| entry.2).verdict
    }
}
