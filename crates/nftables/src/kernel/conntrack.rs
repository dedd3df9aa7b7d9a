//! The connections that the kernel knows: told, and forgotten one by one.
//!
//! A policy decides when a connection is opened; what is open goes on until the kernel forgets it. A connection is named by how it
//! was opened (its original direction) and its zone, which is what the kernel finds it by.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_model::address::Family;
use rustix::io::Errno;

use crate::kernel::message::{ACK, Attributes, Messages, REQUEST};
use crate::kernel::netlink::Socket;
use crate::kernel::{Connection, End, KernelError};
use crate::program::{ICMP, ICMP6};

/// The subsystem of conntrack, and messages of it.
const SUBSYSTEM: u16 = 1;
const GET: u16 = SUBSYSTEM << 8 | 1;
const DELETE: u16 = SUBSYSTEM << 8 | 2;
const GET_STATISTICS: u16 = SUBSYSTEM << 8 | 5;

/// The two directions, and the zone.
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ZONE: u16 = 18;
/// In a direction: addresses, what is of the protocol, and a zone of its own.
const ADDRESSES: u16 = 1;
const PROTOCOL: u16 = 2;
const OWN_ZONE: u16 = 3;
/// Source and destination of a family.
const FOUR: (u16, u16) = (1, 2);
const SIX: (u16, u16) = (3, 4);
/// Of the protocol: its number, its ports; identifier, type and code of ICMP.
const NUMBER: u16 = 1;
const PORTS: (u16, u16) = (2, 3);
const ICMP_OF_FOUR: [u16; 3] = [4, 5, 6];
const ICMP_OF_SIX: [u16; 3] = [7, 8, 9];
/// The families, as the kernel numbers them.
const INET: u8 = 2;
const INET6: u8 = 10;

/// How many are cut with one message: an answer for each must fit where answers wait.
pub(crate) const AT_ONCE: usize = 256;

/// A direction of a connection.
struct Direction {
    protocol: u8,
    source: End,
    destination: End,
    icmp: Option<(u8, u8)>,
    zone: Option<u16>,
}

/// All of them, of both families.
pub(crate) fn list(socket: &mut Socket) -> Result<Vec<Connection>, Errno> {
    socket.dump(
        GET,
        0,
        |_| {},
        |message, all| {
            // Families and protocols that no policy is about are left out.
            all.extend(connection(message.attributes()));
            Ok(())
        },
    )
}

/// Forgets some, and says how many were known.
pub(crate) fn cut(socket: &mut Socket, connections: &[Connection]) -> Result<usize, Errno> {
    let mut messages = Messages::default();
    let mut first = None;
    for connection in connections {
        let sequence = socket.next();
        first = first.or(Some(sequence));
        let family = if connection.source.address.is_ipv4() { INET } else { INET6 };
        messages.begin(DELETE, REQUEST | ACK, sequence, family, 0);
        write(&mut messages, connection);
    }
    let Some(first) = first else { return Ok(0) };
    let mut known = 0;
    for answer in socket.ask_each(messages, first, connections.len())? {
        match answer {
            None => known += 1,
            // It ended by itself.
            Some(Errno::NOENT) => {}
            Some(error) => return Err(error),
        }
    }
    Ok(known)
}

/// Forgets all of them.
pub(crate) fn forget(socket: &mut Socket) -> Result<(), Errno> {
    let mut messages = Messages::default();
    let only = socket.next();
    // Without a connection it means every one.
    messages.begin(DELETE, REQUEST | ACK, only, 0, 0);
    socket.ask(messages, only, only)
}

/// Whether the kernel tells about connections at all.
pub(crate) fn works(socket: &mut Socket) -> Result<(), Errno> {
    socket.get(GET_STATISTICS, 0, |_| {}, |_| Some(()))
}

/// A kernel that has no such subsystem calls any message to it invalid.
pub(crate) fn without(error: KernelError) -> KernelError {
    match error {
        KernelError::Refused(said) => KernelError::Missing(format!(
            "the kernel does not tell about connections, for which it needs nf_conntrack_netlink: {said}"
        )),
        other => other,
    }
}

fn connection(attributes: Attributes<'_>) -> Option<Connection> {
    let original = direction(attributes.inside(ORIGINAL)?)?;
    let reply = direction(attributes.inside(REPLY)?)?;
    Some(Connection {
        protocol: original.protocol,
        source: original.source,
        original: original.destination,
        destination: reply.source,
        seen: reply.destination,
        icmp: original.icmp,
        // A zone of the other direction alone is no part of what it is found by.
        zone: attributes.short(ZONE).or(original.zone).unwrap_or(0),
    })
}

fn direction(attributes: Attributes<'_>) -> Option<Direction> {
    let addresses = attributes.inside(ADDRESSES)?;
    let four = |kind| Some(IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(addresses.get(kind)?).ok()?)));
    let six = |kind| Some(IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(addresses.get(kind)?).ok()?)));
    let source = four(FOUR.0).or_else(|| six(SIX.0))?;
    let destination = four(FOUR.1).or_else(|| six(SIX.1))?;
    let of_protocol = attributes.inside(PROTOCOL)?;
    let byte = |kind| of_protocol.get(kind)?.first().copied();
    let protocol = byte(NUMBER)?;
    let (ports, icmp) = match icmp_of(protocol) {
        Some([identifier, kind, code]) => {
            let identifier = of_protocol.short(identifier).unwrap_or(0);
            ((identifier, identifier), Some((byte(kind)?, byte(code)?)))
        }
        None => {
            let port = |kind| of_protocol.short(kind).unwrap_or(0);
            ((port(PORTS.0), port(PORTS.1)), None)
        }
    };
    Some(Direction {
        protocol,
        source: End { address: source, port: ports.0 },
        destination: End { address: destination, port: ports.1 },
        icmp,
        zone: attributes.short(OWN_ZONE),
    })
}

fn write(messages: &mut Messages, connection: &Connection) {
    let (source, destination) = (connection.source, connection.original);
    messages.nested(ORIGINAL, |direction| {
        direction.nested(ADDRESSES, |addresses| {
            let kinds = if Family::of(source.address) == Family::V4 { FOUR } else { SIX };
            for (kind, end) in [(kinds.0, source), (kinds.1, destination)] {
                match end.address {
                    IpAddr::V4(address) => addresses.attribute(kind, &address.octets()),
                    IpAddr::V6(address) => addresses.attribute(kind, &address.octets()),
                }
            }
        });
        direction.nested(PROTOCOL, |of_protocol| {
            of_protocol.attribute(NUMBER, &[connection.protocol]);
            match (icmp_of(connection.protocol), connection.icmp) {
                (Some([identifier, kind, code]), Some((is_kind, is_code))) => {
                    of_protocol.attribute(identifier, &source.port.to_be_bytes());
                    of_protocol.attribute(kind, &[is_kind]);
                    of_protocol.attribute(code, &[is_code]);
                }
                _ => {
                    of_protocol.attribute(PORTS.0, &source.port.to_be_bytes());
                    of_protocol.attribute(PORTS.1, &destination.port.to_be_bytes());
                }
            }
        });
    });
    if connection.zone != 0 {
        messages.attribute(ZONE, &connection.zone.to_be_bytes());
    }
}

fn icmp_of(protocol: u8) -> Option<[u16; 3]> {
    match protocol {
        ICMP => Some(ICMP_OF_FOUR),
        ICMP6 => Some(ICMP_OF_SIX),
        _ => None,
    }
}
