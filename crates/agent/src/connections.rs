//! Which connections a change denies.
//!
//! The kernel lets every packet of a connection pass that it knows. So whatever a change denies is looked for among those: each is
//! walked through the program as the packet that would open it now.

use std::collections::BTreeSet;
use std::net::IpAddr;

use palisade_nftables::kernel::Connection;
use palisade_nftables::patch::Patch;
use palisade_nftables::program::{Hook, Program, SCTP, TCP, UDP, Value, Verdict};
use palisade_nftables::walk::{Packet, WalkError};

/// Which connections a patch can mean another verdict for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Touched {
    /// None: only things come or go that nothing leads to.
    #[default]
    Nothing,
    /// Those of these addresses, each from the first to the last.
    Addresses(BTreeSet<(IpAddr, IpAddr)>),
    /// Any.
    Anything,
}

/// The protocols with ports where a program looks for them: TCP, UDP, SCTP, DCCP and UDP-Lite.
const WITH_PORTS: [u8; 5] = [TCP, UDP, SCTP, 33, 136];

/// More addresses than this are not worth looking for one by one.
const MANY: usize = 256;

// === impl Touched ===

impl Touched {
    /// What a patch touches.
    pub fn by(patch: &Patch) -> Touched {
        // Chains and sets that come are reached through those that were there: by a rule, which makes it another chain, or
        // by an element. Only a base chain is reached by itself.
        if !patch.changed.is_empty() || patch.chains.values().any(|chain| chain.hook.is_some()) {
            return Touched::Anything;
        }
        let mut addresses = BTreeSet::new();
        for key in patch.leave.values().chain(patch.join.values()).flat_map(|elements| elements.keys()) {
            let own = key.iter().find_map(|value| match value {
                (Value::Address(first), Value::Address(last)) => Some((*first, *last)),
                _ => None,
            });
            let Some(own) = own else { return Touched::Anything };
            addresses.insert(own);
        }
        match addresses.len() {
            0 => Touched::Nothing,
            count if count > MANY => Touched::Anything,
            _ => Touched::Addresses(addresses),
        }
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Touched) -> Touched {
        match (self, other) {
            (Touched::Nothing, one) | (one, Touched::Nothing) => one,
            (Touched::Addresses(mut one), Touched::Addresses(other)) => {
                one.extend(other);
                Touched::Addresses(one)
            }
            _ => Touched::Anything,
        }
    }

    /// Whether a connection is among them.
    pub fn holds(&self, connection: &Connection) -> bool {
        match self {
            Touched::Nothing => false,
            Touched::Anything => true,
            Touched::Addresses(all) => {
                let own = [connection.source, connection.original, connection.destination];
                own.iter()
                    .any(|end| all.iter().any(|(first, last)| *first <= end.address && end.address <= *last))
            }
        }
    }
}

/// Whether a program would not let a connection be opened now, on a machine with these addresses.
pub fn is_denied(
    program: &Program,
    own: &BTreeSet<IpAddr>,
    connection: &Connection,
) -> Result<bool, WalkError> {
    let is_own = |address: IpAddr| address.is_loopback() || own.contains(&address);
    let (source, destination) = (connection.source.address, connection.destination.address);
    let hook = match (is_own(source), is_own(destination)) {
        (true, true) => return Ok(false),
        (_, true) => Hook::Input,
        (true, _) => Hook::Output,
        _ => Hook::Forward,
    };
    let packet = Packet {
        source,
        destination,
        original: connection.original.address,
        protocol: connection.protocol,
        ports: WITH_PORTS
            .contains(&connection.protocol)
            .then_some((connection.source.port, connection.destination.port)),
        icmp: connection.icmp,
        established: false,
        syn: true,
        loopback: false,
        // By which interface it came nobody remembers; what is forged does not get so far as to be known.
        interface: None,
    };
    Ok(matches!(program.walk(hook, &packet)?.verdict, Verdict::Drop | Verdict::Reject))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use palisade_nftables::kernel::End;
    use palisade_nftables::program::{Chain, Match, Name, Rule, Set};

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn connection(source: &str, original: &str, destination: &str) -> Connection {
        let end = |text: &str, port| End { address: address(text), port };
        Connection {
            protocol: TCP,
            source: end(source, 40_000),
            original: end(original, 80),
            destination: end(destination, 8080),
            seen: end(source, 40_000),
            icmp: None,
            zone: 0,
        }
    }

    fn element(text: &str) -> BTreeMap<Name, palisade_nftables::program::Elements> {
        let value = Value::Address(address(text));
        BTreeMap::from([("set".into(), BTreeMap::from([(vec![(value, value)], None)]))])
    }

    #[test]
    fn a_patch_touches_what_its_elements_are_about() {
        let touched = Touched::by(&Patch { join: element("10.0.0.1"), ..Patch::default() });
        assert!(touched.holds(&connection("10.0.0.1", "10.0.0.9", "10.0.0.9")));
        assert!(touched.holds(&connection("10.0.0.8", "10.0.0.1", "10.0.0.9")));
        assert!(touched.holds(&connection("10.0.0.8", "10.0.0.9", "10.0.0.1")));
        assert!(!touched.holds(&connection("10.0.0.8", "10.0.0.9", "10.0.0.9")));
        let ports = (Value::Number(80), Value::Number(80));
        let ports = BTreeMap::from([("m".into(), BTreeMap::from([(vec![ports], None)]))]);
        assert_eq!(Touched::by(&Patch { leave: ports, ..Patch::default() }), Touched::Anything);
    }

    #[test]
    fn what_nothing_leads_to_touches_nothing() {
        let patch = Patch {
            chains: BTreeMap::from([("new".into(), Chain::default())]),
            no_chains: BTreeSet::from(["old".into()]),
            counters: BTreeSet::from(["ct".into()]),
            ..Patch::default()
        };
        assert_eq!(Touched::by(&patch), Touched::Nothing);
        let base = Chain { hook: Some(Hook::Output), rules: Vec::new() };
        let hooked = Patch { chains: BTreeMap::from([("output".into(), base)]), ..patch.clone() };
        assert_eq!(Touched::by(&hooked), Touched::Anything);
        let changed = Patch { changed: BTreeMap::from([("forward".into(), Chain::default())]), ..patch };
        assert_eq!(Touched::by(&changed), Touched::Anything);
    }

    #[test]
    fn each_connection_is_asked_about_at_its_hook() {
        let drop_at = |hook| {
            let chain = Chain { hook: Some(hook), rules: vec![Rule::new([], Verdict::Drop)] };
            Program { chains: BTreeMap::from([("base".into(), chain)]), ..Program::default() }
        };
        let own = BTreeSet::from([address("192.0.2.1")]);
        let cases = [
            (Hook::Input, connection("10.0.0.1", "192.0.2.1", "192.0.2.1")),
            (Hook::Output, connection("192.0.2.1", "10.0.0.1", "10.0.0.1")),
            (Hook::Forward, connection("10.0.0.1", "10.0.0.2", "10.0.0.2")),
            // To the machine, which hands it on: a service.
            (Hook::Forward, connection("10.0.0.1", "192.0.2.1", "10.0.0.2")),
        ];
        for (hook, connection) in cases {
            for at in [Hook::Input, Hook::Forward, Hook::Output] {
                let denied = is_denied(&drop_at(at), &own, &connection).unwrap();
                assert_eq!(denied, at == hook, "{connection:?} at {at:?}");
            }
        }
        for itself in ["192.0.2.1", "127.0.0.1"] {
            let connection = connection("192.0.2.1", itself, itself);
            assert!(!is_denied(&drop_at(Hook::Output), &own, &connection).unwrap());
        }
    }

    #[test]
    fn a_service_is_asked_about_by_the_address_before_translation() {
        use palisade_model::address::Family;
        use palisade_nftables::program::{Field, FieldType};
        let value = Value::Address(address("10.96.0.1"));
        let set = Set {
            key: vec![FieldType::Address(Family::V4)],
            elements: BTreeMap::from([(vec![(value, value)], None)]),
            is_map: false,
            interval: false,
            comment: String::new(),
        };
        let rule =
            Rule::new([Match::In(vec![Field::OriginalDestination(Family::V4)], "s".into())], Verdict::Reject);
        let program = Program {
            chains: BTreeMap::from([("f".into(), Chain { hook: Some(Hook::Forward), rules: vec![rule] })]),
            sets: BTreeMap::from([("s".into(), set)]),
            ..Program::default()
        };
        let own = BTreeSet::new();
        assert!(is_denied(&program, &own, &connection("10.0.0.1", "10.96.0.1", "10.0.0.2")).unwrap());
        assert!(!is_denied(&program, &own, &connection("10.0.0.1", "10.0.0.2", "10.0.0.2")).unwrap());
    }
}
