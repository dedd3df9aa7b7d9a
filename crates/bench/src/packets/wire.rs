//! Three namespaces, client, node and server, and the sockets at both ends.
//!
//! ```text
//!   client eth0 ──veth── c  node  s ──veth── eth0 server      the node forwards, and has the rules
//! ```
//!
//! Each program has a wire of its own, and all of them are there at once: so one can go from one to the next within milliseconds,
//! and whatever else the machine does disturbs all alike. A wire goes when it is dropped; what a crash leaves is recognised by its name
//! and taken away by the next run, also of the lab.

use std::fmt::Write;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use palisade_lab::namespace::{self, Run};
use palisade_lab::{LabError, tool};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use serde_json::Value;

use super::cluster::{CLOSED, Ends, PORT};

/// A client, a node and a server.
#[derive(Debug)]
pub struct Wire {
    /// The client's namespace.
    pub client: String,
    /// The node's.
    pub node: String,
    /// The server's.
    pub server: String,
    /// Who is at the ends.
    pub ends: Ends,
}

/// What is open at the ends. It must be closed before the wire goes.
#[derive(Debug)]
pub struct Sockets {
    /// The client's, of UDP, to the server's port.
    pub out: UdpSocket,
    /// The server's, of UDP.
    pub into: UdpSocket,
    /// The server's of a port that is closed by policies.
    pub closed: UdpSocket,
    /// The client's, of whole packets: so each can come from a port of its own.
    pub raw: OwnedFd,
    /// The server's, of TCP.
    pub listener: TcpListener,
}

/// How long a packet is waited for that must arrive.
const PATIENCE: Duration = Duration::from_secs(5);
/// The address of a node's end, the same on every link.
const NEXT: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);

/// The hardware addresses of a link's end at the node, and of its other end.
const NEAR: &str = "02:00:00:00:00:01";
const END: &str = "02:00:00:00:00:02";

const EVERYWHERE: [(&str, &str); 2] =
    [("ipv6/conf/all/disable_ipv6", "1"), ("ipv6/conf/default/disable_ipv6", "1")];
const ROUTER: [(&str, &str); 5] = [
    ("ipv4/ip_forward", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
];

// === impl Wire ===

impl Wire {
    /// The wire of this number.
    pub fn new(number: u32, ends: Ends) -> io::Result<Wire> {
        let run = Run::own(number).map_err(refused)?;
        let wire =
            Wire { client: run.name("client"), node: run.name("node"), server: run.name("server"), ends };
        // From here on it takes away what it made, however far it came.
        wire.build().map_err(refused)?;
        Ok(wire)
    }

    fn build(&self) -> Result<(), LabError> {
        let Wire { client, node, server, ends } = self;
        for name in [client, node, server] {
            tool::ip(None, &format!("netns add {name}\n"))?;
            namespace::set(name, &EVERYWHERE)?;
        }
        namespace::set(node, &ROUTER)?;
        let mut inside = String::from("link set lo up\n");
        for (name, device, address) in [(client, "c", ends.client), (server, "s", ends.server)] {
            // Neighbours are told, and never asked again: whoever has to be asked from time to time costs more until then.
            tool::ip(
                None,
                &format!(
                    "link add eth0 address {END} netns {name} type veth peer name {device} address {NEAR} netns {node}\n"
                ),
            )?;
            tool::ip(
                Some(name),
                &format!(
                    "link set lo up\nlink set eth0 up\naddress add {address}/32 dev eth0\n\
                     neighbour replace {NEXT} dev eth0 lladdr {NEAR} nud permanent\n\
                     route add {NEXT} dev eth0\nroute add default via {NEXT}\n"
                ),
            )?;
            let _ = write!(
                inside,
                "link set {device} up\naddress add {NEXT}/32 dev {device}\n\
                 neighbour replace {address} dev {device} lladdr {END} nud permanent\n\
                 route add {address}/32 dev {device}\n"
            );
        }
        tool::ip(Some(node), &inside)
    }

    /// Opens the sockets at both ends.
    pub fn sockets(&self) -> io::Result<Sockets> {
        let Ends { client, server } = self.ends;
        let at = |port| SocketAddr::from((server, port));
        let (out, raw) = namespace::inside(&self.client, || -> io::Result<_> {
            let out = UdpSocket::bind((client, 0))?;
            out.connect(at(PORT))?;
            out.set_read_timeout(Some(PATIENCE))?;
            let (family, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
            Ok((out, socket_with(family, SocketType::RAW, flags, Some(ipproto::RAW))?))
        })
        .map_err(refused)??;
        let (into, closed, listener) = namespace::inside(&self.server, || -> io::Result<_> {
            Ok((UdpSocket::bind(at(PORT))?, UdpSocket::bind(at(CLOSED))?, TcpListener::bind(at(PORT))?))
        })
        .map_err(refused)??;
        into.set_read_timeout(Some(PATIENCE))?;
        closed.set_read_timeout(Some(Duration::from_millis(50)))?;
        set_socket_timeout(&listener, Timeout::Recv, Some(PATIENCE))?;
        Ok(Sockets { out, into, closed, raw, listener })
    }

    /// Puts rules into the node.
    pub fn enforce(&self, text: &str) -> io::Result<()> {
        tool::nft(&self.node, text).map_err(refused)
    }

    /// Packets counted so far, of all counters of all tables.
    pub fn counted(&self) -> io::Result<Vec<(String, u64)>> {
        let mut command = Command::new("nft");
        command.args(["-j", "list", "counters"]).stdin(Stdio::null());
        let output = namespace::inside(&self.node, || command.output()).map_err(refused)??;
        let listed: Value = serde_json::from_slice(&output.stdout)?;
        let all = listed["nftables"].as_array().into_iter().flatten().filter_map(|object| {
            let counter = object.get("counter")?;
            Some((counter["name"].as_str()?.to_owned(), counter["packets"].as_u64()?))
        });
        Ok(all.collect())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // There is nobody left to tell; the next run cleans up what is left.
        for name in [&self.client, &self.node, &self.server] {
            if Path::new(namespace::FOLDER).join(name).exists() {
                let _ = tool::ip(None, &format!("netns delete {name}\n"));
            }
        }
    }
}

/// What a lab refuses is an error like any other here.
pub fn refused(error: LabError) -> io::Error {
    io::Error::other(error)
}
