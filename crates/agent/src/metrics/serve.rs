//! Serves the metrics over HTTP/1.1, to this machine alone.
//!
//! ```text
//!   clients ──► thread "metrics": one poll loop ──asked──► enforcer, which alone has the kernel
//!                            ▲──────────────────text──────────┘
//! ```
//!
//! One thread serves all clients without ever blocking on one of them. There are at most [`MOST_CLIENTS`]; each has a deadline for every
//! phase (client.rs), and a new one is always let in: the client that is answered, or has not asked for the longest time, makes room. So
//! connections that are opened and left idle, or fed byte by byte, keep nobody out, and cost a bounded number of descriptors.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::{Duration, Instant};
use std::{io, mem};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;

use super::client::{Client, Step};

/// Requests for metrics.
#[derive(Debug)]
pub struct Scrapes {
    /// Where to send the text that is asked for.
    asked: Receiver<SyncSender<String>>,
    /// Readable when metrics are asked for; written to when they were sent.
    bell: UnixStream,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Why metrics cannot be served. Not retryable.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The address can be reached from other machines.
    #[error(
        "metrics are for this machine alone: {0} is not a loopback address (use 127.0.0.1, and a proxy in front of it)"
    )]
    Public(SocketAddr),
    /// The system refuses a socket or a thread.
    #[error("cannot listen on {address}: {source}")]
    System {
        /// Where metrics were to be served.
        address: SocketAddr,
        /// What the system answered.
        #[source]
        source: io::Error,
    },
}

/// The poll loop: who is connected, and whether the enforcer owes a text.
struct Server {
    listener: TcpListener,
    clients: Vec<Client>,
    ask: SyncSender<SyncSender<String>>,
    rope: UnixStream,
    /// The text that the enforcer was asked for.
    owed: Option<Receiver<String>>,
}

/// How many clients are connected at most.
const MOST_CLIENTS: usize = 64;
/// How long to wait when a client cannot be accepted, e.g. because too many files are open.
const PAUSE: Duration = Duration::from_millis(50);

// === impl Scrapes ===

impl Scrapes {
    /// Begins to listen on an address of this machine, and stops when this is dropped.
    pub fn listen(address: SocketAddr) -> Result<Scrapes, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::Public(address));
        }
        let failed = |source| ServeError::System { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (bell, rope) = UnixStream::pair().map_err(failed)?;
        bell.set_nonblocking(true).map_err(failed)?;
        rope.set_nonblocking(true).map_err(failed)?;
        // One text is asked for at a time, for all clients that wait.
        let (ask, asked) = sync_channel(1);
        let mut server = Server { listener, clients: Vec::new(), ask, rope, owed: None };
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        thread.spawn(move || while server.round().is_some() {}).map_err(failed)?;
        Ok(Scrapes { asked, bell, address })
    }

    /// Answers every request there is with this text.
    pub fn answer(&mut self, text: impl FnOnce() -> String) {
        let mut bells = [0; 64];
        let _ = self.bell.read(&mut bells);
        let waiting: Vec<SyncSender<String>> = self.asked.try_iter().collect();
        if !waiting.is_empty() {
            let text = text();
            for one in waiting {
                let _ = one.try_send(text.clone());
            }
            let _ = self.bell.write(&[1]);
        }
    }
}

impl AsFd for Scrapes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

// === impl Server ===

impl Server {
    /// Waits until something can be done, and does it. Nothing when the enforcer is gone.
    fn round(&mut self) -> Option<()> {
        let (rope, accept, ready) = self.wait();
        if rope {
            self.listen_to_enforcer()?;
        }
        let mut ready = ready.into_iter();
        self.clients.retain_mut(|client| match ready.next().filter(|ready| !ready.is_empty()) {
            Some(ready) => client.step(ready) == Step::Open,
            None => true,
        });
        if accept {
            self.accept();
        }
        self.send_away(Instant::now());
        self.ask()
    }

    /// Polls the enforcer, the listener and the clients, in this order, until the first deadline.
    fn wait(&self) -> (bool, bool, Vec<PollFlags>) {
        let mut all = vec![
            PollFd::from_borrowed_fd(self.rope.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN),
        ];
        all.extend(self.clients.iter().map(|client| PollFd::new(client, client.interest())));
        let first = self.clients.iter().map(Client::deadline).min();
        let time = first.map(|first| first.saturating_duration_since(Instant::now()));
        let time = time.map(|time| Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        if poll(&mut all, time.as_ref()).is_err() {
            // Interrupted, or no memory: what was to be done is found the next time.
            std::thread::sleep(Duration::from_millis(1));
            return (false, false, Vec::new());
        }
        let mut ready = all.iter().map(PollFd::revents);
        let is = |flags: Option<PollFlags>| flags.is_some_and(|flags| !flags.is_empty());
        (is(ready.next()), is(ready.next()), ready.collect())
    }

    /// Takes the text that was asked for. Nothing when the enforcer is gone.
    fn listen_to_enforcer(&mut self) -> Option<()> {
        let mut bells = [0; 64];
        match self.rope.read(&mut bells) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
        match self.owed.as_ref().map(Receiver::try_recv) {
            Some(Ok(text)) => {
                self.owed = None;
                let text: Arc<[u8]> = text.into_bytes().into();
                self.clients.retain_mut(|client| client.serve(&text) == Step::Open);
            }
            Some(Err(TryRecvError::Disconnected)) => self.owed = None,
            Some(Err(TryRecvError::Empty)) | None => {}
        }
        Some(())
    }

    /// Lets new clients in, no more at once than there may be: those that are here are served in between.
    fn accept(&mut self) {
        for _ in 0..MOST_CLIENTS {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    let Ok(mut client) = Client::new(stream) else { continue };
                    // Most clients send their request with the first packet.
                    if client.step(PollFlags::IN) == Step::Open {
                        self.make_room();
                        self.clients.push(client);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A client that is gone already is no reason to stop; without descriptors, one client less helps.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.evict();
                    std::thread::sleep(PAUSE);
                    return;
                }
            }
        }
    }

    fn make_room(&mut self) {
        if self.clients.len() >= MOST_CLIENTS {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let first = self.clients.iter().enumerate().min_by_key(|(_, client)| client.rank());
        if let Some(at) = first.map(|(at, _)| at) {
            self.clients.remove(at).refuse();
        }
    }

    /// Ends the connections of clients that took too long.
    fn send_away(&mut self, now: Instant) {
        if self.clients.iter().all(|client| client.deadline() > now) {
            return;
        }
        for client in mem::take(&mut self.clients) {
            if client.deadline() > now {
                self.clients.push(client);
            } else {
                client.refuse();
            }
        }
    }

    /// Asks the enforcer for a text, if a client waits for one and none is owed. Nothing when the enforcer is gone.
    fn ask(&mut self) -> Option<()> {
        if self.owed.is_some() || !self.clients.iter().any(Client::is_unrequested) {
            return Some(());
        }
        let (send, receive) = sync_channel(1);
        match self.ask.try_send(send) {
            Ok(()) => {
                for client in &mut self.clients {
                    client.request();
                }
                self.owed = Some(receive);
                // A full pipe has rung enough.
                let _ = self.rope.write(&[1]);
                Some(())
            }
            Err(TrySendError::Full(_)) => Some(()),
            Err(TrySendError::Disconnected(_)) => None,
        }
    }
}

#[cfg(test)]
mod tests;
