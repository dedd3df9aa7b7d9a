use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::client::PATIENCE;
use super::*;

/// An enforcer that answers until the test is over.
struct Enforcer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Enforcer {
    fn new(text: &str) -> Self {
        let mut scrapes = Scrapes::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let (address, stop, text) = (scrapes.address, Arc::new(AtomicBool::new(false)), text.to_owned());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                scrapes.answer(|| text.clone());
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Enforcer { address, stop, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        client
    }

    fn ask(&self, request: &str) -> String {
        let mut client = self.connect();
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Scrapes, and fails if that takes longer than a client may be waited for.
    fn scrape(&self, what: &str) {
        let begun = Instant::now();
        let answer = self.ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{what}: {answer}");
        assert!(answer.ends_with("\r\n\r\npalisade_in_force 1\n"), "{what}: {answer}");
        assert!(begun.elapsed() < PATIENCE, "{what}: {:?}", begun.elapsed());
    }
}

impl Drop for Enforcer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

const TEXT: &str = "palisade_in_force 1\n";

#[test]
fn requests_get_the_text_or_the_reason_why_not() {
    let enforcer = Enforcer::new(TEXT);
    enforcer.scrape("the first");
    let head = enforcer.ask("HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.contains("Content-Length: 20\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    for (request, status) in [
        ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", "200 OK"),
        ("GET / HTTP/1.1\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405 Method Not Allowed"),
        ("nonsense\r\n\r\n", "400 Bad Request"),
        (&"x".repeat(100_000), "400 Bad Request"),
    ] {
        let answer = enforcer.ask(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{answer}");
    }
}

#[test]
fn addresses_that_other_machines_reach_are_refused() {
    let refused = Scrapes::listen("0.0.0.0:0".parse().unwrap());
    assert!(matches!(refused, Err(ServeError::Public(_))), "{refused:?}");
}

#[test]
fn idle_clients_keep_nobody_out() {
    let enforcer = Enforcer::new(TEXT);
    let mut idle: Vec<TcpStream> = Vec::new();
    for round in 0..4 {
        idle.extend((0..60).map(|_| enforcer.connect()));
        enforcer.scrape(&format!("round {round}"));
    }
    // Each of them is answered, and sent away.
    let begun = Instant::now();
    for mut client in idle {
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    }
    assert!(begun.elapsed() < 2 * PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn clients_that_send_a_byte_now_and_then_are_sent_away() {
    let enforcer = Enforcer::new(TEXT);
    let mut slow: Vec<TcpStream> = (0..120).map(|_| enforcer.connect()).collect();
    let begun = Instant::now();
    let mut gone = 0;
    while begun.elapsed() < 2 * PATIENCE {
        slow.retain_mut(|client| client.write_all(b"G").is_ok());
        gone = 120 - slow.len();
        enforcer.scrape("beside slow clients");
        if gone == 120 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(gone, 120);
}

#[test]
fn clients_that_do_not_read_are_sent_away() {
    // More than a socket takes without a reader.
    let enforcer = Enforcer::new(&"palisade_x 1\n".repeat(2_000_000));
    let mut deaf: Vec<TcpStream> = (0..3).map(|_| enforcer.connect()).collect();
    for client in &mut deaf {
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    }
    let begun = Instant::now();
    let answer = enforcer.ask("GET /metrics HTTP/1.1\r\n\r\n");
    assert!(answer.len() > 26_000_000, "{}", answer.len());
    assert!(begun.elapsed() < 5 * PATIENCE, "{:?}", begun.elapsed());
    std::thread::sleep(PATIENCE + PATIENCE / 2);
    for mut client in deaf {
        let mut part = Vec::new();
        // What was in the socket, and then the end.
        let _ = client.read_to_end(&mut part);
        assert!(part.len() < 26_000_000, "{}", part.len());
    }
}

#[test]
fn without_an_answer_of_the_enforcer_clients_are_told() {
    let scrapes = Scrapes::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let ask = || {
        let mut client = TcpStream::connect(scrapes.address).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask().starts_with("HTTP/1.1 503"));
    assert!(ask().starts_with("HTTP/1.1 503"));
}

#[test]
fn the_port_is_free_when_nobody_serves_any_more() {
    let scrapes = Scrapes::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = scrapes.address;
    drop(scrapes);
    let begun = Instant::now();
    while Scrapes::listen(address).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(5));
    }
}
