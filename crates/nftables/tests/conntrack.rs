//! Connections through the real kernel: told as they are, and cut so that nothing of them goes on.
//!
//! Three namespaces: a client, a server, and a node between them whose kernel follows the connections. It needs root, `nft` and
//! `ip`, so that `cargo test` leaves it out; `make kernel` runs it.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod kernel_rig;

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use palisade_nftables::kernel::{Connection, End, Fake, Kernel, Linux};
use palisade_nftables::program::{ICMP, ICMP6, TCP, UDP};

use rustix::net::{AddressFamily, Protocol, RawProtocol, SendFlags, SocketType, sendto, socket};

use kernel_rig::{Network, nft, run};

/// A client and a server with a node between them.
struct Net {
    client: Network,
    node: Network,
    server: Network,
}

const WAIT: Duration = Duration::from_millis(300);

impl Net {
    fn new() -> Net {
        let net = Net { client: Network::new(), node: Network::new(), server: Network::new() };
        for (n, end) in [(1, &net.client), (2, &net.server)] {
            let lines = format!(
                "link add pod{n} type veth peer name eth0 netns {end}\n\
                 link set pod{n} up\naddress add 192.0.{n}.1/24 dev pod{n}\naddress add fd00:{n}::1/64 dev pod{n} nodad\n",
                end = end.0,
            );
            net.node.inside(|| run("ip", &["-batch", "-"], &lines));
            let lines = format!(
                "link set lo up\nlink set eth0 up\naddress add 192.0.{n}.9/24 dev eth0\naddress add fd00:{n}::9/64 dev eth0 nodad\n\
                 route add default via 192.0.{n}.1\nroute add default via fd00:{n}::1\n"
            );
            end.inside(|| run("ip", &["-batch", "-"], &lines));
        }
        net.node.inside(|| {
            for path in ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"] {
                std::fs::write(path, "1").unwrap();
            }
            // The kernel follows connections where somebody asks for them.
            nft("table inet follow {\nchain f {\ntype filter hook forward priority filter; policy accept;\nct state new tcp flags & (fin | syn | rst | ack) != syn drop\nct state established,related accept\n}\n}");
        });
        net
    }

    fn connections(&self) -> Vec<Connection> {
        self.node.inside(|| Linux::new().connections().unwrap())
    }

    /// The connections, as soon as they are so: packets take their time on a machine that is busy.
    fn connections_when(&self, so: impl Fn(&[Connection]) -> bool) -> Vec<Connection> {
        let mut all = self.connections();
        for _ in 0..50 {
            if so(&all) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            all = self.connections();
        }
        all
    }

    fn cut(&self, connections: &[Connection]) -> usize {
        self.node.inside(|| Linux::new().cut(connections).unwrap())
    }
}

fn end(address: SocketAddr) -> End {
    End { address: address.ip(), port: address.port() }
}

fn plain(protocol: u8, from: SocketAddr, to: SocketAddr) -> Connection {
    let (from, to) = (end(from), end(to));
    Connection { protocol, source: from, original: to, destination: to, seen: from, icmp: None, zone: 0 }
}

fn servers() -> [IpAddr; 2] {
    ["192.0.2.9".parse().unwrap(), "fd00:2::9".parse().unwrap()]
}

fn any(server: IpAddr) -> SocketAddr {
    let any: IpAddr = if server.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    (any, 0).into()
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn connections_of_udp_are_told_and_cut() {
    let net = Net::new();
    for server in servers() {
        let there = net.server.inside(|| UdpSocket::bind((server, 7000)).unwrap());
        let here = net.client.inside(|| UdpSocket::bind(any(server)).unwrap());
        here.connect((server, 7000)).unwrap();
        here.send(b"hello").unwrap();
        let mut piece = [0; 16];
        let (_, from) = there.recv_from(&mut piece).unwrap();
        there.send_to(b"answer", from).unwrap();
        here.set_read_timeout(Some(WAIT)).unwrap();
        here.recv(&mut piece).unwrap();
        let wanted = plain(UDP, here.local_addr().unwrap(), (server, 7000).into());
        assert!(net.connections().contains(&wanted), "{:?}", net.connections());
        assert_eq!(net.cut(&[wanted]), 1);
        assert!(!net.connections().contains(&wanted));
        // Twice is not wrong.
        assert_eq!(net.cut(&[wanted, wanted]), 0);
        // And the next packet opens it anew.
        here.send(b"hello").unwrap();
        assert!(net.connections_when(|all| all.contains(&wanted)).contains(&wanted));
    }
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn a_connection_of_tcp_that_is_cut_carries_nothing() {
    let net = Net::new();
    for server in servers() {
        let listener = net.server.inside(|| TcpListener::bind((server, 7000)).unwrap());
        let mut here = net.client.inside(|| TcpStream::connect((server, 7000)).unwrap());
        let (mut there, from) = listener.accept().unwrap();
        let mut other = net.client.inside(|| TcpStream::connect((server, 7000)).unwrap());
        let (mut other_there, _) = listener.accept().unwrap();
        let mut piece = [0; 5];
        here.write_all(b"hello").unwrap();
        there.read_exact(&mut piece).unwrap();
        let wanted = plain(TCP, from, (server, 7000).into());
        assert!(net.connections().contains(&wanted), "{:?}", net.connections());
        assert_eq!(net.cut(&[wanted]), 1);
        there.set_read_timeout(Some(WAIT)).unwrap();
        here.set_read_timeout(Some(WAIT)).unwrap();
        here.write_all(b"hello").unwrap();
        there.write_all(b"hello").unwrap();
        for stream in [&mut here, &mut there] {
            // With a limit of time, a wait that is disturbed is not taken up again by itself.
            let error = loop {
                let error = stream.read(&mut piece).unwrap_err();
                if error.kind() != ErrorKind::Interrupted {
                    break error;
                }
            };
            assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
        }
        assert!(!net.connections().contains(&wanted));
        // Its neighbour goes on.
        other.write_all(b"hello").unwrap();
        other_there.read_exact(&mut piece).unwrap();
    }
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn translation_zones_and_icmp_are_told_and_cut() {
    let net = Net::new();
    net.node.inside(|| {
        nft("table inet translate {\nchain zones {\ntype filter hook prerouting priority raw; policy accept;\n\
             udp dport 7001 ct zone set 7\nudp sport 7001 ct zone set 7\nudp dport 7002 ct original zone set 8\n}\n\
             chain before {\ntype nat hook prerouting priority dstnat; policy accept;\n\
             ip daddr 198.51.100.1 udp dport 80 dnat ip to 192.0.2.9:7000\n}\n\
             chain after {\ntype nat hook postrouting priority srcnat; policy accept;\nip daddr 192.0.2.9 udp dport 7000 snat ip to 192.0.2.1:5555\n}\n}")
    });
    let here = net.client.inside(|| UdpSocket::bind("192.0.1.9:4444").unwrap());
    for to in ["198.51.100.1:80", "192.0.2.9:7001", "192.0.2.9:7002"] {
        here.send_to(b"hello", to).unwrap();
    }
    let at = |text: &str| end(text.parse().unwrap());
    let translated = Connection {
        protocol: UDP,
        source: at("192.0.1.9:4444"),
        original: at("198.51.100.1:80"),
        destination: at("192.0.2.9:7000"),
        seen: at("192.0.2.1:5555"),
        icmp: None,
        zone: 0,
    };
    let from: SocketAddr = "192.0.1.9:4444".parse().unwrap();
    let zoned = Connection { zone: 7, ..plain(UDP, from, "192.0.2.9:7001".parse().unwrap()) };
    let half = Connection { zone: 8, ..plain(UDP, from, "192.0.2.9:7002".parse().unwrap()) };
    let wanted = [translated, zoned, half];
    let all = net.connections_when(|all| wanted.iter().all(|wanted| all.contains(wanted)));
    for wanted in wanted {
        assert!(all.contains(&wanted), "{wanted:?} is not in {all:?}");
    }
    // Another zone is another connection.
    assert_eq!(net.cut(&[Connection { zone: 0, ..zoned }, Connection { zone: 9, ..half }]), 0);
    assert_eq!(net.cut(&[translated, zoned, half]), 3);

    for (server, protocol, kind) in [("192.0.2.9", ICMP, 8), ("fd00:2::9", ICMP6, 128)] {
        net.client.inside(|| echo(server.parse().unwrap(), protocol, kind));
        let is_echo = |connection: &&Connection| {
            connection.protocol == protocol
                && connection.icmp == Some((kind, 0))
                && connection.source.port == 0x1234
        };
        let all = net.connections_when(|all| all.iter().any(|connection| is_echo(&connection)));
        let of_icmp: Vec<&Connection> = all.iter().filter(is_echo).collect();
        let [connection] = of_icmp.as_slice() else { panic!("{all:?}") };
        assert_eq!(connection.original, End { address: server.parse().unwrap(), port: 0x1234 });
        assert_eq!(net.cut(&[**connection]), 1);
        assert_eq!(net.cut(&[**connection]), 0);
    }
}

/// Asks for an echo, with the identifier 0x1234.
fn echo(server: IpAddr, protocol: u8, kind: u8) {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let protocol = Protocol::from_raw(RawProtocol::new(protocol.into()).unwrap());
    let socket = socket(family, SocketType::RAW, Some(protocol)).unwrap();
    // The checksum of IPv6 is written by the kernel.
    let sum = !(u16::from(kind) << 8).wrapping_add(0x1234);
    let mut packet = vec![kind, 0, 0, 0, 0x12, 0x34, 0, 0];
    if server.is_ipv4() {
        packet[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    sendto(&socket, &packet, SendFlags::empty(), &SocketAddr::new(server, 0)).unwrap();
}

#[test]
#[ignore = "needs root, nft and ip: make kernel"]
fn many_connections_at_once() {
    let net = Net::new();
    let sockets: Vec<UdpSocket> =
        net.client.inside(|| (0..1000).map(|_| UdpSocket::bind("192.0.1.9:0").unwrap()).collect());
    let count = |all: &[Connection]| all.iter().filter(|connection| connection.protocol == UDP).count();
    for (n, socket) in sockets.iter().enumerate() {
        socket.send_to(b"hello", "192.0.2.9:7000").unwrap();
        if n % 50 == 0 {
            // Few packets can wait while the way is asked for.
            net.connections_when(|all| count(all) > n);
        }
    }
    let all: Vec<Connection> = net
        .connections_when(|all| count(all) >= 1000)
        .into_iter()
        .filter(|connection| connection.protocol == UDP)
        .collect();
    assert!(all.len() >= 1000, "{}", all.len());
    assert_eq!(net.cut(&all), all.len());
    assert_eq!(count(&net.connections()), 0);
}

#[test]
fn the_one_in_memory_forgets_too() {
    let mut fake = Fake::new();
    let one = plain(UDP, "192.0.2.1:1".parse().unwrap(), "192.0.2.2:2".parse().unwrap());
    fake.connect(one);
    fake.connect(Connection { zone: 1, ..one });
    assert_eq!(fake.connections().unwrap().len(), 2);
    assert_eq!(fake.cut(&[one, one]).unwrap(), 1);
    assert_eq!(fake.connections().unwrap(), [Connection { zone: 1, ..one }]);
}
