//! Interfaces and addresses, here and in network namespaces, as `ip -j address` says them.

use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use smol_str::SmolStr;
use thiserror::Error;

/// What says which interfaces there are.
pub trait Network {
    /// Those of this machine, or of one of its network namespaces.
    fn links(&self, namespace: Option<&str>) -> Result<Vec<Link>, NetworkError>;

    /// The machine's name.
    fn name(&self) -> SmolStr;

    /// Whether the kernel shows packets to our table that a bridge hands from one of its ports to another.
    fn sees_bridged(&self) -> bool {
        let is_on = |setting: &str| {
            std::fs::read_to_string(format!("/proc/sys/net/bridge/{setting}"))
                .is_ok_and(|text| text.trim() == "1")
        };
        is_on("bridge-nf-call-iptables") && is_on("bridge-nf-call-ip6tables")
    }
}

/// An interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: SmolStr,
    /// The number of the other end, in whatever namespace that is.
    pub peer: Option<u32>,
    /// The bridge it is a port of: packets come in by that one then, and not by this.
    pub bridge: Option<SmolStr>,
    /// Whether it leads back here.
    pub loopback: bool,
    /// Its addresses, with how far they are known (`global`, `link`, `host`).
    pub addresses: Vec<(IpAddr, SmolStr)>,
}

/// Why interfaces cannot be read. Retryable but for the first.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// There is no such program.
    #[error("there is no command ip (on Debian or Ubuntu: apt-get install iproute2)")]
    NoTool,
    /// There is no such network namespace.
    #[error("there is no network namespace {0}")]
    NoNamespace(SmolStr),
    /// The tool says no.
    #[error("{what}: {said}")]
    Refused {
        /// What was asked.
        what: String,
        /// What it said.
        said: String,
    },
}

/// The real one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ip;

/// Where names of network namespaces are.
pub const NAMESPACES: &str = "/run/netns";

#[derive(Deserialize)]
struct Listed {
    ifindex: Option<u32>,
    ifname: Option<String>,
    link_index: Option<u32>,
    master: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    local: Option<IpAddr>,
    scope: Option<String>,
}

// === impl Ip ===

impl Network for Ip {
    fn links(&self, namespace: Option<&str>) -> Result<Vec<Link>, NetworkError> {
        let mut command = Command::new("ip");
        command.arg("-json");
        let mut what = "ip address".to_owned();
        if let Some(name) = namespace {
            if !Path::new(NAMESPACES).join(name).exists() {
                return Err(NetworkError::NoNamespace(name.into()));
            }
            command.args(["-netns", name]);
            what = format!("ip -netns {name} address");
        }
        let output = command.args(["address", "show"]).stdin(Stdio::null()).output();
        let output = output.map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => NetworkError::NoTool,
            _ => NetworkError::Refused { what: what.clone(), said: error.to_string() },
        })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or("it failed").to_owned();
            return Err(NetworkError::Refused { what, said });
        }
        parse(&output.stdout).map_err(|error| NetworkError::Refused { what, said: error.to_string() })
    }

    fn name(&self) -> SmolStr {
        rustix::system::uname().nodename().to_string_lossy().into()
    }
}

/// What `ip -json address` printed.
fn parse(text: &[u8]) -> Result<Vec<Link>, serde_json::Error> {
    // Where there is nothing at all it prints nothing.
    if text.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let listed: Vec<Listed> = serde_json::from_slice(text)?;
    let links = listed.into_iter().filter_map(|link| {
        let scope = |address: Address| Some((address.local?, address.scope.unwrap_or_default().into()));
        Some(Link {
            index: link.ifindex?,
            name: link.ifname?.into(),
            peer: link.link_index,
            bridge: link.master.map(Into::into),
            loopback: link.flags.iter().any(|flag| flag == "LOOPBACK"),
            addresses: link.addr_info.into_iter().filter_map(scope).collect(),
        })
    });
    Ok(links.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ip_prints_is_read() {
        let text = br#"[{"ifindex":1,"ifname":"lo","flags":["LOOPBACK","UP"],"mtu":65536,
            "addr_info":[{"family":"inet","local":"127.0.0.1","prefixlen":8,"scope":"host","label":"lo"}]},
            {},{"ifindex":2,"link_index":7,"ifname":"eth0","flags":["UP"],"link_netnsid":0,"master":"br0",
            "addr_info":[{"family":"inet6","local":"fd00::7","scope":"global"},{"family":"odd"}]}]"#;
        let links = parse(text).unwrap();
        assert_eq!(links.len(), 2);
        assert!(links[0].loopback);
        assert_eq!((links[1].peer, links[1].bridge.as_deref()), (Some(7), Some("br0")));
        assert_eq!(links[1].addresses, [("fd00::7".parse().unwrap(), "global".into())]);
        assert_eq!(parse(b"\n").unwrap(), []);
        assert!(parse(b"{").is_err());
    }
}
