//! Probes: packets that are sent, and what comes of them.
//!
//! Many are under way at once. What times out is tried again, with more time, before it is called denied: a machine under load must
//! not make denials of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use palisade_model::traffic::{Protocol, Traffic};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect, ipproto, recv, send,
    socket_with, sockopt,
};

use crate::error::LabError;
use crate::listen::{Listeners, open_socket};
use crate::{namespace, raw};

/// A packet to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The namespace it is sent from.
    pub from: String,
    /// The address it is sent from.
    pub source: IpAddr,
    /// The address it is sent to: a service's, if it goes through one.
    pub destination: IpAddr,
    /// What it carries; the port is the one it is sent to.
    pub traffic: Traffic,
    /// Which backend of the service shall get it; 0 where there is none.
    pub choice: u8,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The other end answered.
    Answered,
    /// Nobody did.
    Silence,
    /// Somebody on the way refused, and said so.
    Refused,
    /// It could not be sent, or the other end was not there to answer.
    Failed(String),
}

/// How long to wait: at first, and for what timed out.
const PATIENCE: [Duration; 2] = [Duration::from_millis(250), Duration::from_millis(900)];
/// How many are under way at once.
const WAVE: usize = 600;
/// How long to wait before looking at what arrived elsewhere.
const TICK: Duration = Duration::from_millis(15);
/// Where source ports begin that the protocol's socket does not choose.
const FIRST_PORT: u16 = 33000;

/// Sends all of them. `progress` hears how many are done.
pub fn run(
    probes: &[Probe],
    listeners: &Listeners,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(usize),
) -> Result<Vec<Answer>, LabError> {
    let mut answers: Vec<Option<Answer>> = vec![None; probes.len()];
    let mut waiting: Vec<usize> = (0..probes.len()).collect();
    for patience in PATIENCE {
        let mut silent = Vec::new();
        while !waiting.is_empty() {
            let (wave, rest) = choose(probes, &waiting);
            waiting = rest;
            for (at, answer) in send_wave(probes, &wave, patience, listeners, stop)? {
                if answer == Answer::Silence {
                    silent.push(at);
                }
                answers[at] = Some(answer);
            }
            progress(answers.iter().flatten().count() - silent.len());
        }
        waiting = silent;
    }
    progress(probes.len());
    Ok(answers.into_iter().map(|answer| answer.unwrap_or(Answer::Silence)).collect())
}

/// The next ones to send. Raw sockets hear of errors by address only: of two between the same ends the second must wait. So must
/// one from a port that another one uses.
fn choose(probes: &[Probe], waiting: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut busy = BTreeSet::new();
    let mut ports = BTreeSet::new();
    let (mut wave, mut rest) = (Vec::new(), Vec::new());
    for at in waiting {
        let probe = &probes[*at];
        let free = wave.len() < WAVE
            && (!is_raw(probe)
                || busy.insert((&probe.from, probe.source, probe.destination, probe.traffic.protocol)))
            && probe.traffic.source_port.is_none_or(|port| {
                ports.insert((&probe.from, probe.source, probe.traffic.protocol, port, probe.destination))
            });
        if free { wave.push(*at) } else { rest.push(*at) }
    }
    (wave, rest)
}

/// Whether it needs a raw socket: it is no ping, and of no protocol that has sockets everywhere.
fn is_raw(probe: &Probe) -> bool {
    match probe.traffic.protocol {
        Protocol::Tcp | Protocol::Udp => false,
        Protocol::Icmp => !is_ping(probe),
        Protocol::Sctp | Protocol::Igmp => true,
    }
}

fn is_ping(probe: &Probe) -> bool {
    let ping = if probe.source.is_ipv4() { 8 } else { 128 };
    probe.traffic.protocol == Protocol::Icmp
        && probe.traffic.icmp.is_none_or(|(kind, code)| kind == ping && code.unwrap_or(0) == 0)
}

/// A probe on its way.
struct Sent {
    at: usize,
    socket: OwnedFd,
    /// Whether it is a connection of TCP, which is there when it can be written to.
    tcp: bool,
    /// The port it came from, for SCTP.
    port: u16,
    /// The number in it, for what is only noted on arrival.
    number: Option<u64>,
}

fn send_wave(
    probes: &[Probe],
    wave: &[usize],
    patience: Duration,
    listeners: &Listeners,
    stop: &AtomicBool,
) -> Result<Vec<(usize, Answer)>, LabError> {
    let mut answers = Vec::with_capacity(wave.len());
    let mut sent = Vec::with_capacity(wave.len());
    let mut places: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for at in wave {
        places.entry(&probes[*at].from).or_default().push(*at);
    }
    for (name, here) in places {
        let opened = namespace::inside(name, || {
            here.iter().map(|at| (*at, open(*at, &probes[*at]))).collect::<Vec<_>>()
        })?;
        for (at, opened) in opened {
            match opened {
                Ok(one) => sent.push(one),
                Err(error) => answers.push((at, meaning(&probes[at], error))),
            }
        }
    }
    let end = Instant::now() + patience;
    while !sent.is_empty() {
        if stop.load(Ordering::Relaxed) {
            return Err(LabError::Interrupted);
        }
        let left = end.saturating_duration_since(Instant::now());
        let ready = wait(&sent, left.min(TICK))?;
        let over = left.is_zero();
        let mut index = 0;
        sent.retain(|one| {
            let heard = ready[index];
            index += 1;
            let probe = &probes[one.at];
            let noted = one.number.is_some_and(|number| listeners.has_arrived(number));
            let answer = match heard.then(|| hear(one, probe)).flatten() {
                _ if noted => Some(Answer::Answered),
                None if over => Some(Answer::Silence),
                answer => answer,
            };
            let waits = answer.is_none();
            answers.extend(answer.map(|answer| (one.at, answer)));
            waits
        });
    }
    Ok(answers)
}

/// Which of them have something to say.
fn wait(sent: &[Sent], patience: Duration) -> Result<Vec<bool>, LabError> {
    let mut asked: Vec<PollFd<'_>> = sent
        .iter()
        .map(|one| PollFd::new(&one.socket, if one.tcp { PollFlags::OUT } else { PollFlags::IN }))
        .collect();
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
    match poll(&mut asked, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(LabError::system("cannot wait for answers", error)),
    }
    Ok(asked.iter().map(|one| !one.revents().is_empty()).collect())
}

/// What one has to say; nothing if that is not about this probe.
fn hear(one: &Sent, probe: &Probe) -> Option<Answer> {
    if let Ok(Err(error)) = sockopt::socket_error(&one.socket) {
        return Some(meaning(probe, error));
    }
    if probe.traffic.protocol == Protocol::Tcp {
        // Without an error and with a peer, it is connected.
        return match rustix::net::getpeername(&one.socket) {
            Ok(Some(_)) => Some(Answer::Answered),
            _ => None,
        };
    }
    let mut packet = [0u8; 2048];
    match recv(&one.socket, &mut packet, RecvFlags::DONTWAIT) {
        Ok((_, length)) => {
            let packet = packet.get(..length).unwrap_or_default();
            match probe.traffic.protocol {
                Protocol::Sctp => {
                    let packet = raw::behind_header(packet, probe.source.is_ipv4());
                    let own = raw::is_sctp_answer(packet, one.port, probe.traffic.port);
                    own.then_some(Answer::Answered)
                }
                Protocol::Udp => Some(Answer::Answered),
                Protocol::Icmp if one.number.is_none() => Some(Answer::Answered),
                _ => None,
            }
        }
        Err(Errno::AGAIN | Errno::INTR) => None,
        Err(error) => Some(meaning(probe, error)),
    }
}

/// What an error says about the way.
fn meaning(probe: &Probe, error: Errno) -> Answer {
    match error {
        // Our own kernel dropped it on the way out.
        Errno::PERM => Answer::Silence,
        // Administratively prohibited, of IPv4 and of IPv6.
        Errno::HOSTUNREACH | Errno::ACCESS => Answer::Refused,
        // Reset: somebody listens at the other end, so it was somebody on the way.
        Errno::CONNREFUSED if probe.traffic.protocol == Protocol::Tcp => Answer::Refused,
        Errno::CONNREFUSED => Answer::Failed("nobody listens at the other end".to_owned()),
        other => Answer::Failed(format!("cannot send: {}", std::io::Error::from(other))),
    }
}

/// Numbers of messages: no two are alike in this process.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// Opens a socket in the namespace of this thread, and sends.
fn open(at: usize, probe: &Probe) -> Result<Sent, Errno> {
    let protocol = probe.traffic.protocol;
    let socket =
        if is_ping(probe) { ping_socket(probe.source)? } else { open_socket(protocol, probe.source)? };
    choose_backend(&socket, probe)?;
    let source_port = if is_raw(probe) { 0 } else { probe.traffic.source_port.unwrap_or(0) };
    if source_port != 0 {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    bind(&socket, &SocketAddr::new(probe.source, source_port))?;
    let ported = matches!(protocol, Protocol::Tcp | Protocol::Udp);
    let to = SocketAddr::new(probe.destination, if ported { probe.traffic.port } else { 0 });
    if protocol == Protocol::Tcp {
        // It ends with a reset, so that the next one may use the same ports.
        sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
    }
    match connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(error) => return Err(error),
    }
    let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
    let mut sent = Sent { at, socket, tcp: protocol == Protocol::Tcp, port: 0, number: None };
    let icmp = probe.traffic.icmp.map(|(kind, code)| (kind, code.unwrap_or(0)));
    let packet = match protocol {
        Protocol::Tcp => return Ok(sent),
        Protocol::Udp => b"?".to_vec(),
        Protocol::Icmp if is_ping(probe) => {
            raw::icmp(if probe.source.is_ipv4() { 8 } else { 128 }, 0, number)
        }
        Protocol::Sctp => {
            let spread = u16::try_from(number % 20000).unwrap_or(0);
            sent.port = probe.traffic.source_port.unwrap_or(FIRST_PORT + spread);
            raw::sctp_init(
                sent.port,
                probe.traffic.port,
                u32::try_from(number & 0x7fff_ffff).unwrap_or(1).max(1),
            )
        }
        Protocol::Icmp => {
            sent.number = Some(number);
            raw::icmp(icmp.map_or(8, |(kind, _)| kind), icmp.map_or(0, |(_, code)| code), number)
        }
        Protocol::Igmp => {
            sent.number = Some(number);
            raw::igmp(icmp.map_or(0x16, |(kind, _)| kind), number)
        }
    };
    match send(&sent.socket, &packet, SendFlags::NOSIGNAL) {
        // Our own kernel stopped it on the way out. Whether it says more than that, is heard next.
        Ok(_) | Err(Errno::PERM) => Ok(sent),
        Err(error) => Err(error),
    }
}

fn ping_socket(source: IpAddr) -> Result<OwnedFd, Errno> {
    let (family, protocol) = match source {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6),
    };
    socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, Some(protocol))
}

/// Marks packets for the backend that shall get them (services.rs).
fn choose_backend(socket: &OwnedFd, probe: &Probe) -> Result<(), Errno> {
    if probe.choice == 0 {
        return Ok(());
    }
    match probe.source {
        IpAddr::V4(_) => sockopt::set_ip_tos(socket, probe.choice << 2),
        IpAddr::V6(_) => sockopt::set_ipv6_tclass(socket, u32::from(probe.choice) << 2),
    }
}
