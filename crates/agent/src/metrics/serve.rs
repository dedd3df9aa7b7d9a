//! Hands out the metrics, over HTTP/1.1, to this machine alone.
//!
//! One thread answers one after the other; the text is made by whoever enforces, when it is asked for: only there is the kernel. A
//! client that is slow, talks too much or means something else is sent away, so that nobody can hold the others up for long.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use thiserror::Error;

/// Who asks for metrics.
#[derive(Debug)]
pub struct Scrapes {
    asked: Receiver<SyncSender<String>>,
    /// Something to read where somebody asks.
    bell: UnixStream,
    /// Where it listens.
    pub address: SocketAddr,
}

/// Why nobody can ask. Not retryable.
#[derive(Debug, Error)]
pub enum ServeError {
    /// Not for everybody.
    #[error(
        "metrics are for this machine alone: {0} is not a loopback address (use 127.0.0.1, and a proxy in front of it)"
    )]
    Public(SocketAddr),
    /// The system says no.
    #[error("cannot listen on {address}: {source}")]
    System {
        /// Where.
        address: SocketAddr,
        /// What came back.
        #[source]
        source: io::Error,
    },
}

/// How long a client may take, to ask and to be answered.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest question.
const MOST_BYTES: usize = 8 << 10;
/// How many may wait for an answer of the enforcer: one, as there is one thread.
const WAITING: usize = 1;

// === impl Scrapes ===

impl Scrapes {
    /// Begins to listen on an address of this machine.
    pub fn listen(address: SocketAddr) -> Result<Scrapes, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::Public(address));
        }
        let failed = |source| ServeError::System { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (bell, mut rope) = UnixStream::pair().map_err(failed)?;
        bell.set_nonblocking(true).map_err(failed)?;
        rope.set_nonblocking(true).map_err(failed)?;
        let (ask, asked) = sync_channel(WAITING);
        let thread = std::thread::Builder::new().name("metrics".to_owned());
        let serve = move || {
            for client in listener.incoming() {
                // A client that is gone before it is greeted is no reason to stop; neither are too many open files.
                match client {
                    Ok(client) => drop(answer(client, &ask, &mut rope)),
                    Err(_) => std::thread::sleep(Duration::from_millis(50)),
                }
            }
        };
        thread.spawn(serve).map_err(failed)?;
        Ok(Scrapes { asked, bell, address })
    }

    /// Answers everybody who asked with what this says.
    pub fn answer(&mut self, text: impl FnOnce() -> String) {
        let mut bells = [0; 64];
        let _ = self.bell.read(&mut bells);
        let waiting: Vec<SyncSender<String>> = self.asked.try_iter().collect();
        if !waiting.is_empty() {
            let text = text();
            for one in waiting {
                let _ = one.try_send(text.clone());
            }
        }
    }
}

impl AsFd for Scrapes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

fn answer(
    mut client: TcpStream,
    ask: &SyncSender<SyncSender<String>>,
    rope: &mut UnixStream,
) -> io::Result<()> {
    client.set_write_timeout(Some(PATIENCE))?;
    let (status, kind, body) = match question(&mut client)? {
        Some((method, _)) if method != "GET" && method != "HEAD" => {
            ("405 Method Not Allowed", PLAIN, "only GET\n".to_owned())
        }
        Some((_, path)) if path == "/metrics" => match fresh(ask, rope) {
            Some(text) => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", text),
            None => ("503 Service Unavailable", PLAIN, "busy: ask again\n".to_owned()),
        },
        Some(_) => ("404 Not Found", PLAIN, "here is /metrics\n".to_owned()),
        None => ("400 Bad Request", PLAIN, "that is no HTTP\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    client.write_all(head.as_bytes())?;
    client.write_all(body.as_bytes())?;
    client.flush()
}

const PLAIN: &str = "text/plain; charset=utf-8";

/// The method and the path that a client asks for; nothing if it is no question. Its headers do not matter.
fn question(client: &mut TcpStream) -> io::Result<Option<(String, String)>> {
    let begun = Instant::now();
    let mut text = Vec::new();
    let mut part = [0; 1024];
    while !text.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = PATIENCE.checked_sub(begun.elapsed()).filter(|left| !left.is_zero());
        let Some(left) = left.filter(|_| text.len() < MOST_BYTES) else { return Ok(None) };
        client.set_read_timeout(Some(left))?;
        match client.read(&mut part)? {
            0 => return Ok(None),
            length => text.extend(part.get(..length).unwrap_or_default()),
        }
    }
    let text = String::from_utf8_lossy(&text);
    let mut words = text.lines().next().unwrap_or_default().split(' ');
    Ok(match (words.next(), words.next(), words.next()) {
        (Some(method), Some(path), Some(version)) if version.starts_with("HTTP/1") => {
            let path = path.split('?').next().unwrap_or_default();
            Some((method.to_owned(), path.to_owned()))
        }
        _ => None,
    })
}

/// The text of this moment, if the enforcer has the time.
fn fresh(ask: &SyncSender<SyncSender<String>>, rope: &mut UnixStream) -> Option<String> {
    let (send, receive) = sync_channel(1);
    ask.try_send(send).ok()?;
    // A full pipe has rung enough.
    let _ = rope.write(&[1]);
    receive.recv_timeout(PATIENCE).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, question: &str) -> String {
        let mut client = TcpStream::connect(address).unwrap();
        client.write_all(question.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn whoever_asks_gets_what_is_so_now() {
        let mut scrapes = Scrapes::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = scrapes.address;
        let asker = std::thread::spawn(move || ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"));
        while !asker.is_finished() {
            scrapes.answer(|| "palisade_in_force 1\n".to_owned());
            std::thread::sleep(Duration::from_millis(1));
        }
        let answer = asker.join().unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\npalisade_in_force 1\n"),
            "{answer}"
        );
        assert!(ask(address, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask(address, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(ask(address, "nonsense\r\n\r\n").starts_with("HTTP/1.1 400"));
    }

    #[test]
    fn nobody_outside_is_told() {
        let refused = Scrapes::listen("0.0.0.0:0".parse().unwrap());
        assert!(matches!(refused, Err(ServeError::Public(_))), "{refused:?}");
    }
}
