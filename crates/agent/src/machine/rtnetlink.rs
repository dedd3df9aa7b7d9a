//! Interfaces and addresses by rtnetlink.
//!
//! Messages are those of `netlink-packet-route`; the socket is `rustix`'s, which this crate has anyway. The crate `rtnetlink` would do
//! the sending and receiving as well, but only on an async runtime, and two requests that are answered at once are no reason to bring
//! one into every node: the agent waits in one poll loop.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::link::{LinkAttribute, LinkExtentMask, LinkFlags, LinkMessage};
use rustix::fd::OwnedFd;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};
use smol_str::SmolStr;

use super::network::{Link, Scope};

/// A socket of the network namespace of the thread that opened it.
struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

/// The largest datagram of a dump: the kernel fills at most 32 KiB.
const MAX_DATAGRAM: usize = 64 << 10;
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum number of attempts at a dump that is interrupted by changes.
const MAX_ATTEMPTS: usize = 10;

/// Lists the interfaces of the calling thread's network namespace, by index.
pub(super) fn links() -> io::Result<Vec<Link>> {
    let mut socket = Socket::open()?;
    let mut request = LinkMessage::default();
    // Counters are the larger part of an answer, and change with every packet.
    request.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
    let listed = socket.dump(&RouteNetlinkMessage::GetLink(request))?;
    let listed: Vec<LinkMessage> = listed
        .into_iter()
        .filter_map(|message| match message {
            RouteNetlinkMessage::NewLink(link) => Some(link),
            _ => None,
        })
        .collect();
    let mut addresses: BTreeMap<u32, Vec<(IpAddr, Scope)>> = BTreeMap::new();
    for message in socket.dump(&RouteNetlinkMessage::GetAddress(AddressMessage::default()))? {
        if let RouteNetlinkMessage::NewAddress(message) = message
            && let Some(address) = address(&message)
        {
            let scope = scope(message.header.scope);
            addresses.entry(message.header.index).or_default().push((address, scope));
        }
    }
    let names: BTreeMap<u32, SmolStr> =
        listed.iter().filter_map(|link| Some((link.header.index, name(link)?))).collect();
    let mut links: Vec<Link> = listed
        .iter()
        .filter_map(|message| {
            let index = message.header.index;
            let mut link = Link {
                index,
                name: names.get(&index)?.clone(),
                loopback: message.header.flags.contains(LinkFlags::Loopback),
                addresses: addresses.remove(&index).unwrap_or_default(),
                ..Link::default()
            };
            let mut elsewhere = false;
            for attribute in &message.attributes {
                match attribute {
                    LinkAttribute::Link(peer) => link.peer = Some(*peer),
                    // Only then is the other end in another namespace, and its index one of there.
                    LinkAttribute::LinkNetNsId(_) => elsewhere = true,
                    LinkAttribute::Controller(bridge) => link.bridge = names.get(bridge).cloned(),
                    _ => {}
                }
            }
            link.peer = link.peer.filter(|_| elsewhere);
            Some(link)
        })
        .collect();
    links.sort_by_key(|link| link.index);
    Ok(links)
}

// === impl Socket ===

impl Socket {
    fn open() -> io::Result<Socket> {
        // Without a number it is the protocol of links and routes, whose number is zero.
        let fd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&fd, Timeout::Recv, Some(PATIENCE))?;
        Ok(Socket { fd, sequence: 0 })
    }

    /// Returns all messages of a dump, of one moment: one that is interrupted by a change begins again.
    fn dump(&mut self, request: &RouteNetlinkMessage) -> io::Result<Vec<RouteNetlinkMessage>> {
        for _ in 0..MAX_ATTEMPTS {
            self.send(request.clone())?;
            if let Some(messages) = self.receive()? {
                return Ok(messages);
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "interfaces change faster than they can be listed"))
    }

    fn send(&mut self, request: RouteNetlinkMessage) -> io::Result<()> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        header.sequence_number = self.sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.fd, &bytes, SendFlags::empty(), &kernel)?;
        Ok(())
    }

    /// Receives the answer to the last request; `None` if it is not of one moment.
    fn receive(&self) -> io::Result<Option<Vec<RouteNetlinkMessage>>> {
        let mut messages = Vec::new();
        let mut consistent = true;
        let mut buffer = vec![0; MAX_DATAGRAM];
        loop {
            let length = match recv(&self.fd, &mut *buffer, RecvFlags::TRUNC) {
                Ok((_, length)) => length,
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let mut rest = buffer.get(..length).ok_or_else(|| malformed("a datagram is too long"))?;
            while !rest.is_empty() {
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| malformed(error.to_string()))?;
                // Lengths are padded to four bytes.
                let length = (message.header.length as usize).next_multiple_of(4);
                rest = rest.get(length.max(4)..).unwrap_or_default();
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                consistent &= message.header.flags & NLM_F_DUMP_INTR == 0;
                match message.payload {
                    NetlinkPayload::Done(_) => return Ok(consistent.then_some(messages)),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(message) => messages.push(message),
                    _ => {}
                }
            }
        }
    }
}

fn malformed(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn name(link: &LinkMessage) -> Option<SmolStr> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => Some(name.into()),
        _ => None,
    })
}

/// Returns the address of this end: on a point-to-point link `Address` is the other one.
fn address(message: &AddressMessage) -> Option<IpAddr> {
    let local = message.attributes.iter().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    local.or_else(|| {
        message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

fn scope(scope: AddressScope) -> Scope {
    match scope {
        AddressScope::Universe => Scope::Global,
        AddressScope::Link => Scope::Link,
        AddressScope::Host => Scope::Host,
        _ => Scope::Other,
    }
}
