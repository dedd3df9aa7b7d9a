//! A machine to enforce on: a network namespace, pods behind it in namespaces of their own, manifests, and whoever enforces there.

use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use palisade_lab::namespace::inside;
use serde_json::Value;

/// The pod that listens, on ports 80 to 82.
const DB: &str = "10.77.0.2";

/// Lets `web` reach port 80 of `db`, and nobody else.
pub const POLICY: &str = "\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: db}
spec:
  podSelector: {matchLabels: {app: db}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: web}}}]
    ports: [{port: 80}]
";

static MACHINES: AtomicU32 = AtomicU32::new(0);

/// A machine with the pods web, job and db. Everything goes with it.
pub struct Machine {
    pub node: String,
    root: PathBuf,
    pods: Mutex<Vec<String>>,
}

/// What a command said.
#[derive(Debug)]
pub struct Output {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Somebody who enforces until told otherwise. Is ended when it goes.
pub struct Enforcer {
    child: Child,
    folder: PathBuf,
    /// How much of what it said has been listened to.
    heard: RefCell<usize>,
}

/// Somebody who listens to what happens to tables.
pub struct Monitor {
    child: Child,
    file: PathBuf,
}

// === impl Machine ===

impl Machine {
    pub fn new() -> Machine {
        let number = MACHINES.fetch_add(1, Ordering::Relaxed);
        let node = format!("enf{}-{number}", std::process::id());
        let root = std::env::temp_dir().join(&node);
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("etc")).unwrap();
        let machine = Machine { node, root, pods: Mutex::default() };
        ip(&["netns", "add", &machine.node]);
        let node = &machine.node;
        ip(&["-n", node, "link", "set", "lo", "up"]);
        ip(&["-n", node, "address", "add", "10.77.255.1/32", "dev", "lo"]);
        inside(node, || fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap().unwrap();
        for (pod, address) in [("web", "10.77.0.1"), ("db", DB), ("job", "10.77.0.3")] {
            machine.pod(pod, address);
        }
        for port in [80, 81, 82] {
            machine.listen(port);
        }
        machine.write("world.yaml", &machine.world(&[]));
        machine.write("policy.yaml", POLICY);
        machine
    }

    /// Manifests of the machine and its pods, and of some more that are network namespaces.
    pub fn world(&self, more: &[(&str, &str)]) -> String {
        let mut text = String::new();
        for pod in ["web", "db", "job"] {
            text.push_str(&format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{namespace: shop, name: {pod}, labels: {{app: {pod}}}}}\n---\n"
            ));
        }
        text.push_str(
            "apiVersion: palisade.dev/v1alpha1\nkind: Machine\nmetadata: {name: worker-1}\npods:\n",
        );
        let all = [("web", "web"), ("db", "db"), ("job", "job")];
        for (pod, namespace) in all.iter().chain(more) {
            text.push_str(&format!("- {{pod: shop/{pod}, networkNamespace: {}-{namespace}}}\n", self.node));
        }
        text
    }

    /// Builds a pod: a namespace with an address, routed.
    pub fn pod(&self, name: &str, address: &str) {
        let (node, pod) = (&self.node, format!("{}-{name}", self.node));
        let near = format!("v{name}");
        ip(&["netns", "add", &pod]);
        self.pods.lock().unwrap().push(pod.clone());
        ip(&["-n", node, "link", "add", &near, "type", "veth", "peer", "name", "eth0", "netns", &pod]);
        ip(&["-n", &pod, "address", "add", &format!("{address}/32"), "dev", "eth0"]);
        ip(&["-n", &pod, "link", "set", "eth0", "up"]);
        ip(&["-n", &pod, "link", "set", "lo", "up"]);
        ip(&["-n", node, "link", "set", &near, "up"]);
        ip(&["-n", node, "route", "add", &format!("{address}/32"), "dev", &near]);
        ip(&["-n", &pod, "route", "add", "10.77.255.1/32", "dev", "eth0"]);
        ip(&["-n", &pod, "route", "add", "default", "via", "10.77.255.1", "dev", "eth0"]);
    }

    /// Somebody in db who says back whatever is said.
    fn listen(&self, port: u16) {
        let listener =
            inside(&format!("{}-db", self.node), || TcpListener::bind((DB, port))).unwrap().unwrap();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut client: TcpStream = client;
                    let mut buffer = [0; 64];
                    while let Ok(length) = client.read(&mut buffer) {
                        if length == 0 || client.write_all(&buffer[..length]).is_err() {
                            break;
                        }
                    }
                });
            }
        });
    }

    fn try_connect(&self, pod: &str, port: u16, time: Duration) -> Option<TcpStream> {
        let to: SocketAddr = format!("{DB}:{port}").parse().unwrap();
        inside(&format!("{}-{pod}", self.node), || TcpStream::connect_timeout(&to, time)).unwrap().ok()
    }

    /// Whether a pod reaches a port of db.
    pub fn connects(&self, pod: &str, port: u16) -> bool {
        self.try_connect(pod, port, Duration::from_millis(300)).is_some()
    }

    /// The same with the time that a machine under load may take.
    pub fn connects_patiently(&self, pod: &str, port: u16) -> bool {
        self.try_connect(pod, port, Duration::from_secs(5)).is_some()
    }

    /// How many packets come to db on a port.
    pub fn count_udp(&self, port: u16, stopped: &(dyn Fn() -> bool + Sync)) -> u64 {
        let socket = inside(&format!("{}-db", self.node), || UdpSocket::bind((DB, port))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (mut count, mut buffer) = (0, [0; 16]);
        while !stopped() {
            count += u64::from(socket.recv(&mut buffer).is_ok());
        }
        count
    }

    /// Sends packets to db on a port, and says how many.
    pub fn send_udp(&self, pod: &str, port: u16, stopped: &(dyn Fn() -> bool + Sync)) -> u64 {
        let pod = format!("{}-{pod}", self.node);
        let socket = inside(&pod, || UdpSocket::bind("0.0.0.0:0")).unwrap().unwrap();
        let mut count = 0;
        while !stopped() {
            count += u64::from(socket.send_to(b"x", (DB, port)).is_ok());
            std::thread::sleep(Duration::from_micros(300));
        }
        count
    }

    /// A connection to a port of db.
    pub fn connect(&self, pod: &str, port: u16) -> TcpStream {
        self.try_connect(pod, port, Duration::from_secs(3)).expect("a connection")
    }

    /// Whether what is said on a connection is said back.
    pub fn echoes(&self, client: &mut TcpStream) -> bool {
        client.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
        let mut buffer = [0; 4];
        client.write_all(b"echo").is_ok() && client.read_exact(&mut buffer).is_ok() && &buffer == b"echo"
    }

    pub fn folder(&self) -> PathBuf {
        self.root.join("etc")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub fn beside(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub fn state(&self) -> String {
        self.beside("state").display().to_string()
    }

    fn inside(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.node, program]);
        command
    }

    /// Runs the binary on the machine.
    pub fn run(&self, arguments: &[&str]) -> Output {
        let output =
            self.inside(env!("CARGO_BIN_EXE_palisade")).args(arguments).stdin(Stdio::null()).output();
        let output = output.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Output { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let folder = self.folder().display().to_string();
        let mut all: Vec<String> =
            ["enforce", "-f", &folder, "--state", &self.state()].iter().map(ToString::to_string).collect();
        all.extend(more.iter().map(ToString::to_string));
        all
    }

    /// `palisade enforce` on the machine, to its end.
    pub fn palisade(&self, more: &[&str]) -> Output {
        let arguments = self.arguments(more);
        self.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// `palisade enforce` on the machine, which stays.
    pub fn enforce(&self, more: &[&str]) -> Enforcer {
        let file = |name: &str| fs::File::create(self.beside(name)).unwrap();
        let child = self
            .inside(env!("CARGO_BIN_EXE_palisade"))
            .args(self.arguments(more))
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .unwrap();
        Enforcer { child, folder: self.root.clone(), heard: RefCell::new(0) }
    }

    pub fn status(&self) -> Value {
        let output = self.run(&["enforce", "status", "--output", "json", "--state", &self.state()]);
        serde_json::from_str(&output.out).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    /// What nft says to a command.
    pub fn nft(&self, command: &str) -> String {
        let output = self.inside("nft").args(command.split(' ')).output().unwrap();
        assert!(output.status.success(), "nft {command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A transaction for nft.
    pub fn nft_file(&self, text: &str) {
        let path = self.beside("transaction.nft");
        fs::write(&path, text).unwrap();
        self.nft(&format!("-f {}", path.display()));
    }

    /// Listens to what happens to tables from now on.
    pub fn monitor(&self) -> Monitor {
        let file = self.beside("monitor");
        let output = fs::File::create(&file).unwrap();
        let child = self.inside("nft").arg("monitor").stdout(output).stderr(Stdio::null()).spawn().unwrap();
        let monitor = Monitor { child, file };
        // It listens when it hears.
        until("the monitor", || {
            self.nft("add table inet listening");
            self.nft("delete table inet listening");
            !monitor.text().is_empty()
        });
        monitor
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for name in self.pods.lock().unwrap().iter().chain([&self.node]) {
            let _ = Command::new("ip").args(["netns", "delete", name]).status();
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

// === impl Enforcer ===

impl Enforcer {
    /// Waits until it has said this, after what was waited for before.
    pub fn says(&self, text: &str) {
        let read = || fs::read_to_string(self.folder.join("out")).unwrap_or_default();
        let at = |out: &str| out.get(*self.heard.borrow()..).and_then(|rest| rest.find(text));
        wait(|| at(&read()).is_some(), || format!("{text:?} is not said: {}", self.said()));
        let out = read();
        let found = at(&out).unwrap();
        *self.heard.borrow_mut() += found + text.len();
    }

    /// Waits until it has complained about this.
    pub fn complains(&self, text: &str) {
        let read = || fs::read_to_string(self.folder.join("err")).unwrap_or_default();
        wait(|| read().contains(text), || format!("nobody complains about {text:?}: {}", self.said()));
    }

    fn said(&self) -> String {
        let read = |name: &str| fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        format!("{}\n{}", read("out"), read("err"))
    }

    pub fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &process]).status().unwrap().success());
    }

    /// How it ended.
    pub fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Enforcer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Monitor ===

impl Monitor {
    fn text(&self) -> String {
        fs::read_to_string(&self.file).unwrap_or_default()
    }

    /// What happened to our table.
    pub fn heard(&self) -> String {
        // Whatever was told is written by now, or never.
        std::thread::sleep(Duration::from_millis(200));
        let text = self.text();
        let ours = text.lines().filter(|line| line.contains("palisade"));
        ours.collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("these tests need root and ip: {error}"));
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {err}", arguments.join(" "));
}

pub fn until(what: &str, holds: impl Fn() -> bool) {
    wait(holds, || format!("{what} takes too long"));
}

fn wait(holds: impl Fn() -> bool, otherwise: impl Fn() -> String) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{}", otherwise());
        std::thread::sleep(Duration::from_millis(10));
    }
}
