//! Packets over a wire, timed in small batches.
//!
//! One thread, on one CPU, sends a batch and then takes it at the other end. A veth hands a packet on in the sender's own
//! time, through the node's rules and up to the receiver's socket, so what passes meanwhile is the CPU time of the whole stack, with the
//! softirqs (which not every kernel counts as the thread's). A batch is short, a small part of the scheduler's tick: whatever else runs
//! on the machine, and what the hypervisor takes, disturbs few of them, and the median of the batches does not see those.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use palisade_lab::{conntrack, namespace};
use rustix::net::{SendFlags, sendto};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use super::cluster::{CLOSED, PORT};
use super::wire::{Sockets, Wire, refused};

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Packets of one flow of UDP, which the server has answered: the connection is known.
    Established,
    /// Packets of UDP, each from another port: each is the first of its flow, and rules have to decide.
    New,
    /// Connections of TCP, opened and closed.
    Connect,
}

/// What a UDP packet carries.
const PAYLOAD: [u8; 64] = [0x70; 64];
/// Packets that are sent before they are taken.
const BATCH: u16 = 32;
/// Connections that are timed together.
const CONNECTIONS: u16 = 4;
/// The ports that new flows come from; each once between two times that connections are forgotten.
const PORTS: std::ops::Range<u16> = 10_000..60_000;

// === impl Load ===

impl Load {
    /// All of them.
    pub const ALL: [Load; 3] = [Load::Established, Load::New, Load::Connect];

    /// In words, with what is counted.
    pub fn title(self) -> (&'static str, &'static str) {
        match self {
            Load::Established => ("established flow", "packet"),
            Load::New => ("new flows", "packet"),
            Load::Connect => ("TCP connect + close", "connection"),
        }
    }

    /// How many are timed together.
    pub fn batch(self) -> u16 {
        match self {
            Load::Established | Load::New => BATCH,
            Load::Connect => CONNECTIONS,
        }
    }

    /// Sends for a while, at least one batch. Says the median of the batches, in nanoseconds for each packet or connection.
    pub fn run(self, wire: &Wire, sockets: &Sockets, slice: Duration, stop: &AtomicBool) -> io::Result<f64> {
        let times = namespace::inside(&wire.client, || {
            settle()?;
            match self {
                Load::Established => established(sockets, slice, stop),
                Load::New => new(wire, sockets, slice, stop),
                Load::Connect => connect(wire, sockets, slice, stop),
            }
        })
        .map_err(refused)??;
        if self != Load::Established {
            conntrack::forget(&wire.node).map_err(refused)?;
        }
        median(times).ok_or_else(|| io::Error::from(io::ErrorKind::Interrupted))
    }
}

/// On the last CPU that we may use: interrupts mostly go to the first.
fn settle() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    if let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)) {
        let mut one = CpuSet::new();
        one.set(last);
        sched_setaffinity(None, &one)?;
    }
    Ok(())
}

/// Batches until the time is over; each says how many it was.
fn batches(
    slice: Duration,
    stop: &AtomicBool,
    mut batch: impl FnMut() -> io::Result<Option<u16>>,
) -> io::Result<Vec<f64>> {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while (times.is_empty() || begun.elapsed() < slice) && !stop.load(Ordering::Relaxed) {
        let start = Instant::now();
        let Some(count) = batch()? else { break };
        times.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(count));
    }
    Ok(times)
}

fn established(sockets: &Sockets, slice: Duration, stop: &AtomicBool) -> io::Result<Vec<f64>> {
    let mut packet = [0; 128];
    // A flow of UDP is known when it has been answered.
    sockets.out.send(&PAYLOAD)?;
    let (length, from) = sockets.into.recv_from(&mut packet)?;
    sockets.into.send_to(packet.get(..length).unwrap_or_default(), from)?;
    sockets.out.recv(&mut packet)?;
    batches(slice, stop, || {
        for _ in 0..BATCH {
            sockets.out.send(&PAYLOAD)?;
        }
        take(sockets, BATCH)
    })
}

fn new(wire: &Wire, sockets: &Sockets, slice: Duration, stop: &AtomicBool) -> io::Result<Vec<f64>> {
    let mut ports = PORTS;
    let mut packet = datagram(wire, PORT);
    let to = SocketAddr::from((wire.ends.server, 0));
    batches(slice, stop, || {
        for _ in 0..BATCH {
            let Some(port) = ports.next() else { return Ok(None) };
            packet[20..22].copy_from_slice(&port.to_be_bytes());
            sendto(&sockets.raw, &packet, SendFlags::empty(), &to)?;
        }
        take(sockets, BATCH)
    })
}

fn take(sockets: &Sockets, count: u16) -> io::Result<Option<u16>> {
    let mut packet = [0; 128];
    for _ in 0..count {
        sockets.into.recv(&mut packet).map_err(lost)?;
    }
    Ok(Some(count))
}

fn connect(wire: &Wire, sockets: &Sockets, slice: Duration, stop: &AtomicBool) -> io::Result<Vec<f64>> {
    let to = SocketAddr::from((wire.ends.server, PORT));
    batches(slice, stop, || {
        for _ in 0..CONNECTIONS {
            let near = TcpStream::connect(to)?;
            // The server closes first: it is then the server that remembers the connection, and the client's port is free.
            drop(sockets.listener.accept().map_err(lost)?);
            drop(near);
        }
        Ok(Some(CONNECTIONS))
    })
}

fn lost(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::other("a packet that is allowed did not arrive")
        }
        _ => error,
    }
}

/// Makes sure that so many new flows arrive, and that one to the closed port does or does not. Says how many were sent.
pub fn verify(wire: &Wire, sockets: &Sockets, closed: bool) -> io::Result<u64> {
    let to = SocketAddr::from((wire.ends.server, 0));
    let mut packet = datagram(wire, PORT);
    for port in PORTS.take(BATCH.into()) {
        packet[20..22].copy_from_slice(&port.to_be_bytes());
        sendto(&sockets.raw, &packet, SendFlags::empty(), &to)?;
    }
    take(sockets, BATCH)?;
    sendto(&sockets.raw, &datagram(wire, CLOSED), SendFlags::empty(), &to)?;
    let arrived = sockets.closed.recv(&mut [0; 128]).is_ok();
    conntrack::forget(&wire.node).map_err(refused)?;
    if arrived == closed {
        let what = if arrived { "arrived" } else { "did not arrive" };
        return Err(io::Error::other(format!("a packet to port {CLOSED} {what}")));
    }
    Ok(BATCH.into())
}

/// A whole packet from the client to a port of the server. The kernel fills in lengths and the header's checksum; that of UDP
/// may be left out.
fn datagram(wire: &Wire, port: u16) -> [u8; 28 + PAYLOAD.len()] {
    #[expect(clippy::cast_possible_truncation, reason = "it is 72")]
    const LENGTH: u16 = 8 + PAYLOAD.len() as u16;
    let mut packet = [0x70; 28 + PAYLOAD.len()];
    let address = |address: Ipv4Addr| address.octets();
    packet[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0]);
    packet[12..16].copy_from_slice(&address(wire.ends.client));
    packet[16..20].copy_from_slice(&address(wire.ends.server));
    packet[20..22].copy_from_slice(&PORTS.start.to_be_bytes());
    packet[22..24].copy_from_slice(&port.to_be_bytes());
    packet[24..26].copy_from_slice(&LENGTH.to_be_bytes());
    packet[26..28].copy_from_slice(&[0, 0]);
    packet
}

/// The one in the middle.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    quantile(values, 2, 4)
}

/// So many of so many parts are below it.
pub fn quantile(values: impl IntoIterator<Item = f64>, part: usize, parts: usize) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let at = values.len().saturating_sub(1) * part / parts;
    values.get(at).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_has_as_many_below_it() {
        let values = || (0..101u8).map(f64::from);
        assert_eq!(median(values()), Some(50.0));
        assert_eq!(quantile(values(), 1, 4), Some(25.0));
        assert_eq!(median([]), None);
    }
}
