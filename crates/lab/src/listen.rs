//! Listeners: for every address, protocol and port that a probe goes to, somebody who answers.
//!
//! All are sockets of this process, served by one thread: TCP answers one byte, UDP what it got, SCTP opens with an INIT ACK, and of
//! ICMP and IGMP is noted what arrives.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use palisade_model::traffic::Protocol;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, ipproto, listen,
    recvfrom, send, sendto, socket_with, sockopt,
};

use crate::error::LabError;
use crate::{namespace, raw};

/// Somebody who answers: in which namespace, to which protocol, at which address and port (0 where there are none).
pub type Door = (String, Protocol, IpAddr, u16);

/// All listeners.
#[derive(Debug)]
pub struct Listeners {
    shared: Arc<Shared>,
    doors: BTreeMap<Door, u64>,
    next: u64,
    server: Option<JoinHandle<()>>,
}

/// What the thread that serves has in common with everybody else.
#[derive(Debug)]
struct Shared {
    poll: OwnedFd,
    sockets: Mutex<BTreeMap<u64, Listener>>,
    /// The numbers of messages that arrived.
    arrived: Mutex<BTreeSet<u64>>,
    over: AtomicBool,
}

#[derive(Debug)]
struct Listener {
    socket: OwnedFd,
    protocol: Protocol,
    four: bool,
}

/// How long the thread that serves sleeps before it looks whether it is over.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How many connections may wait to be taken.
const BACKLOG: i32 = 1024;

// === impl Listeners ===

impl Listeners {
    /// Nobody yet.
    pub fn new() -> Result<Listeners, LabError> {
        let failed = |error: Errno| LabError::system("cannot wait for packets", error);
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed)?;
        let shared = Arc::new(Shared {
            poll,
            sockets: Mutex::default(),
            arrived: Mutex::default(),
            over: AtomicBool::new(false),
        });
        let served = Arc::clone(&shared);
        let server = std::thread::Builder::new().name("listeners".to_owned()).spawn(move || served.serve());
        let server = server.map_err(|error| LabError::system("cannot start a thread", error))?;
        Ok(Listeners { shared, doors: BTreeMap::new(), next: 0, server: Some(server) })
    }

    /// Makes sure that somebody answers at these doors. Says where nobody can, and why.
    pub fn ensure(&mut self, wanted: BTreeSet<Door>) -> Result<BTreeMap<Door, String>, LabError> {
        let mut missing: BTreeMap<String, Vec<Door>> = BTreeMap::new();
        for door in wanted {
            if !self.doors.contains_key(&door) {
                missing.entry(door.0.clone()).or_default().push(door);
            }
        }
        let mut refused = BTreeMap::new();
        for (name, doors) in missing {
            let opened = namespace::inside(&name, || {
                let open = |door: Door| (open(door.1, SocketAddr::new(door.2, door.3)), door);
                doors.into_iter().map(open).collect::<Vec<_>>()
            })?;
            for (socket, door) in opened {
                match socket.and_then(|socket| self.serve(socket, &door)) {
                    Ok(()) => {}
                    Err(error) => drop(refused.insert(door, std::io::Error::from(error).to_string())),
                }
            }
        }
        Ok(refused)
    }

    fn serve(&mut self, socket: OwnedFd, door: &Door) -> Result<(), Errno> {
        self.next += 1;
        let listener = Listener { socket, protocol: door.1, four: door.2.is_ipv4() };
        let mut sockets = self.shared.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        let data = epoll::EventData::new_u64(self.next);
        epoll::add(&self.shared.poll, &listener.socket, data, epoll::EventFlags::IN)?;
        sockets.insert(self.next, listener);
        self.doors.insert(door.clone(), self.next);
        Ok(())
    }

    /// Ends all listeners in these namespaces.
    pub fn leave(&mut self, namespaces: &[String]) {
        let mut sockets = self.shared.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        self.doors.retain(|door, number| {
            let stays = !namespaces.contains(&door.0);
            if !stays {
                sockets.remove(number);
            }
            stays
        });
    }

    /// Whether a message with this number arrived somewhere.
    pub fn has_arrived(&self, number: u64) -> bool {
        self.shared.arrived.lock().unwrap_or_else(PoisonError::into_inner).contains(&number)
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

// === impl Shared ===

impl Shared {
    fn serve(&self) {
        let mut events = Vec::with_capacity(256);
        while !self.over.load(Ordering::Relaxed) {
            events.clear();
            let waited = epoll::wait(&self.poll, rustix::buffer::spare_capacity(&mut events), Some(&NAP));
            if waited.is_err_and(|error| error != Errno::INTR) {
                // Without it nobody answers, which every probe will show; it must not spin.
                std::thread::sleep(Duration::from_millis(50));
            }
            let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
            for event in &events {
                if let Some(listener) = sockets.get(&event.data.u64()) {
                    // Whoever cannot be answered now tries again, or is measured as not answered.
                    while self.answer(listener).is_ok() {}
                }
            }
        }
    }

    /// Answers one connection or packet; an error when there is none left.
    fn answer(&self, listener: &Listener) -> Result<(), Errno> {
        let socket = &listener.socket;
        if listener.protocol == Protocol::Tcp {
            let connection = accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
            let _ = send(&connection, b"!", SendFlags::NOSIGNAL);
            return Ok(());
        }
        let mut packet = [0u8; 2048];
        let (_, length, from) = recvfrom(socket, &mut packet, RecvFlags::empty())?;
        let packet = raw::behind_header(
            packet.get(..length).unwrap_or_default(),
            listener.four && listener.protocol != Protocol::Udp,
        );
        let answer = match listener.protocol {
            Protocol::Sctp => raw::sctp_answer(packet),
            Protocol::Udp => Some(packet.to_vec()),
            _ => {
                let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
                arrived.extend(raw::number(packet));
                None
            }
        };
        if let (Some(answer), Some(from)) = (answer, from) {
            let from = SocketAddr::try_from(from).map(|from| match listener.protocol {
                // The port of a raw socket's address is no port.
                Protocol::Sctp => SocketAddr::new(from.ip(), 0),
                _ => from,
            });
            if let Ok(from) = from {
                let _ = sendto(socket, &answer, SendFlags::empty(), &from);
            }
        }
        Ok(())
    }
}

fn open(protocol: Protocol, at: SocketAddr) -> Result<OwnedFd, Errno> {
    let socket = open_socket(protocol, at.ip())?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &at)?;
    if protocol == Protocol::Tcp {
        listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

/// A socket for a protocol, in the namespace of this thread: a raw one where the protocol has no other.
pub fn open_socket(protocol: Protocol, at: IpAddr) -> Result<OwnedFd, Errno> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let (kind, number): (SocketType, Option<net::Protocol>) = match protocol {
        Protocol::Tcp => (SocketType::STREAM, Some(ipproto::TCP)),
        Protocol::Udp => (SocketType::DGRAM, Some(ipproto::UDP)),
        Protocol::Sctp => (SocketType::RAW, Some(ipproto::SCTP)),
        Protocol::Icmp if at.is_ipv4() => (SocketType::RAW, Some(ipproto::ICMP)),
        Protocol::Icmp => (SocketType::RAW, Some(ipproto::ICMPV6)),
        Protocol::Igmp => (SocketType::RAW, Some(ipproto::IGMP)),
    };
    socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, number)
}
