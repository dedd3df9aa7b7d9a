//! iperf3 over a wire: one stream of TCP. Its packets are large and few, so rules hardly show; it is what people compare.

use std::io;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use palisade_lab::namespace;
use serde_json::Value;

use super::cluster::STREAM;
use super::wire::{Wire, refused};

/// How long a stream lasts, in seconds.
const SECONDS: &str = "1";
/// How often the client tries until the server listens.
const TRIES: usize = 50;

/// A server that ends with us, whatever happens.
struct Server(Child);

/// Why there can be no stream.
pub fn missing() -> Option<String> {
    let asked = Command::new("iperf3").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.err().map(|_| "iperf3 is not there (on Debian or Ubuntu, as root: scripts/setup bench)".to_owned())
}

/// Bits in a second, as the server received them.
pub fn run(wire: &Wire) -> io::Result<f64> {
    let address = wire.ends.server.to_string();
    let port = STREAM.to_string();
    let _server = namespace::inside(&wire.server, || {
        let mut command = Command::new("iperf3");
        command.args(["-s", "-1", "-B", &address, "-p", &port]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(Server)
    })
    .map_err(refused)??;
    let mut said = String::new();
    for _ in 0..TRIES {
        let output = namespace::inside(&wire.client, || {
            Command::new("iperf3").args(["-c", &address, "-p", &port, "-t", SECONDS, "-J"]).output()
        })
        .map_err(refused)??;
        let result: Value = serde_json::from_slice(&output.stdout)?;
        if let Some(rate) = result.pointer("/end/sum_received/bits_per_second").and_then(Value::as_f64) {
            return Ok(rate);
        }
        said = result["error"].as_str().unwrap_or_default().to_owned();
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(io::Error::other(format!("iperf3: {said}")))
}

// === impl Server ===

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
