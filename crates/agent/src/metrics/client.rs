//! One HTTP/1.1 connection to the metrics server: a state machine over a non-blocking socket.
//!
//! ```text
//!   Reading ──► Waiting ──► Writing ──► Draining ──► closed
//!      └──── any other request ─┘
//! ```

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

/// A client of the metrics server.
#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
    phase: Phase,
    /// When the phase has to be over. A byte now and then does not move it.
    deadline: Instant,
    /// Whether the response has no body: the method is HEAD.
    head_only: bool,
}

/// What a client is waited for, or waits for.
#[derive(Debug)]
enum Phase {
    /// The request is incomplete: these are the bytes so far.
    Reading(Vec<u8>),
    /// Waits for the metrics. They are younger than the request: `requested` says whether they were requested since it came.
    Waiting { requested: bool },
    /// The response is being sent: head, body, and how many bytes of both are sent.
    Writing { head: Vec<u8>, body: Arc<[u8]>, sent: usize },
    /// The response is sent. What the client still sends is read until it closes: closing a socket with unread bytes resets the
    /// connection, and the client may lose the response.
    Draining,
}

/// Whether a connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Open,
    Closed,
}

/// How long a phase may take: reading a request, waiting for the metrics, sending the response.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// The longest request, with its headers.
const MOST_BYTES: usize = 8 << 10;

const PLAIN: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

// === impl Client ===

impl Client {
    /// Greets a client. Fails if its socket cannot be made non-blocking: it would hold up the others.
    pub fn new(stream: TcpStream) -> io::Result<Client> {
        stream.set_nonblocking(true)?;
        let deadline = Instant::now() + PATIENCE;
        Ok(Client { stream, phase: Phase::Reading(Vec::new()), deadline, head_only: false })
    }

    /// When the client is sent away unless something happens.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// What of the socket is of interest now. Errors are reported whatever this is.
    pub fn interest(&self) -> PollFlags {
        match self.phase {
            Phase::Reading(_) | Phase::Draining => PollFlags::IN,
            Phase::Writing { .. } => PollFlags::OUT,
            Phase::Waiting { .. } => PollFlags::empty(),
        }
    }

    /// Who makes room for a new client: the lowest, and of those the one with the earliest deadline. A client that was answered
    /// comes first, then one that has not asked yet.
    pub fn rank(&self) -> (u8, Instant) {
        let phase = match self.phase {
            Phase::Draining => 0,
            Phase::Reading(_) => 1,
            Phase::Writing { .. } => 2,
            Phase::Waiting { .. } => 3,
        };
        (phase, self.deadline)
    }

    /// Does what can be done without blocking: at most one read, so that a client that sends all the time does not hold up the others.
    pub fn step(&mut self, ready: PollFlags) -> Step {
        let broken = ready.intersects(PollFlags::ERR | PollFlags::NVAL);
        let step = match &mut self.phase {
            _ if broken => Ok(Step::Closed),
            Phase::Reading(_) => self.read(),
            Phase::Waiting { .. } if ready.contains(PollFlags::HUP) => Ok(Step::Closed),
            Phase::Waiting { .. } => Ok(Step::Open),
            Phase::Writing { .. } => self.write(),
            Phase::Draining => self.drain(),
        };
        match step {
            Ok(step) => step,
            Err(error) if is_retryable(&error) => Step::Open,
            Err(_) => Step::Closed,
        }
    }

    /// Notes that the metrics are requested now, if the client waits for them.
    pub fn request(&mut self) {
        if let Phase::Waiting { requested } = &mut self.phase {
            *requested = true;
        }
    }

    /// Whether the client waits for metrics that nobody has been asked for yet.
    pub fn is_unrequested(&self) -> bool {
        matches!(self.phase, Phase::Waiting { requested: false })
    }

    /// Sends the metrics, if the client waits for them.
    pub fn serve(&mut self, text: &Arc<[u8]>) -> Step {
        match self.phase {
            Phase::Waiting { requested: true } => self.respond("200 OK", OPEN_METRICS, Arc::clone(text)),
            _ => Step::Open,
        }
    }

    /// Says, as far as that works without blocking, that there is no time for the client.
    pub fn refuse(mut self) {
        let _ = match self.phase {
            Phase::Reading(_) => self.plain("408 Request Timeout", "send the request in one piece\n"),
            Phase::Waiting { .. } => self.plain("503 Service Unavailable", "busy: ask again\n"),
            Phase::Writing { .. } | Phase::Draining => Step::Closed,
        };
    }

    fn read(&mut self) -> io::Result<Step> {
        let Phase::Reading(text) = &mut self.phase else { return Ok(Step::Open) };
        let mut part = [0; 1024];
        let length = self.stream.read(&mut part)?;
        text.extend(part.get(..length).unwrap_or_default());
        let complete = text.windows(4).any(|end| end == b"\r\n\r\n");
        if !complete && length > 0 && text.len() < MOST_BYTES {
            return Ok(Step::Open);
        }
        let request = if complete { request(text) } else { None };
        self.head_only = request.as_ref().is_some_and(|(method, _)| method == "HEAD");
        Ok(match request {
            Some((method, _)) if method != "GET" && method != "HEAD" => {
                self.plain("405 Method Not Allowed", "only GET\n")
            }
            Some((_, path)) if path == "/metrics" => {
                self.phase = Phase::Waiting { requested: false };
                self.deadline = Instant::now() + PATIENCE;
                Step::Open
            }
            Some(_) => self.plain("404 Not Found", "here is /metrics\n"),
            None => self.plain("400 Bad Request", "that is no HTTP\n"),
        })
    }

    fn plain(&mut self, status: &str, body: &str) -> Step {
        self.respond(status, PLAIN, body.as_bytes().into())
    }

    fn respond(&mut self, status: &str, kind: &str, body: Arc<[u8]>) -> Step {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let body = if self.head_only { Arc::default() } else { body };
        self.phase = Phase::Writing { head: head.into_bytes(), body, sent: 0 };
        self.deadline = Instant::now() + PATIENCE;
        self.step(PollFlags::OUT)
    }

    fn write(&mut self) -> io::Result<Step> {
        let Phase::Writing { head, body, sent } = &mut self.phase else { return Ok(Step::Open) };
        loop {
            let rest = match head.get(*sent..).filter(|rest| !rest.is_empty()) {
                Some(rest) => rest,
                None => body.get(*sent - head.len()..).unwrap_or_default(),
            };
            if rest.is_empty() {
                break;
            }
            match self.stream.write(rest) {
                Ok(0) => return Ok(Step::Closed),
                Ok(length) => *sent += length,
                Err(error) => return Err(error),
            }
        }
        self.stream.shutdown(Shutdown::Write)?;
        self.phase = Phase::Draining;
        self.drain()
    }

    fn drain(&mut self) -> io::Result<Step> {
        let mut part = [0; 4096];
        Ok(if self.stream.read(&mut part)? == 0 { Step::Closed } else { Step::Open })
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

fn is_retryable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// The method and the path of a request, without the query; nothing if it is no HTTP/1. Headers do not matter.
fn request(text: &[u8]) -> Option<(String, String)> {
    let text = String::from_utf8_lossy(text);
    let mut words = text.lines().next()?.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    let path = path.split('?').next().unwrap_or_default();
    version.starts_with("HTTP/1").then(|| (method.to_owned(), path.to_owned()))
}
