//! Interfaces and addresses, of this machine and of its network namespaces.

use std::net::IpAddr;

use smol_str::SmolStr;
use thiserror::Error;

use super::rtnetlink;
use crate::namespace::{self, NamespaceError};

/// What interfaces there are.
pub trait Network {
    /// Lists the interfaces of this machine, or of one of its network namespaces.
    fn links(&self, namespace: Option<&str>) -> Result<Vec<Link>, NetworkError>;

    /// Returns the machine's name.
    fn name(&self) -> SmolStr;

    /// Returns whether packets between two ports of a bridge pass the hooks of nftables.
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
    /// Index in its own network namespace.
    pub index: u32,
    /// Name of at most 15 bytes.
    pub name: SmolStr,
    /// Index of the other end of a pair, if that is in another network namespace: an index there.
    pub peer: Option<u32>,
    /// The bridge it is a port of: packets come in by the bridge then, and not by this interface.
    pub bridge: Option<SmolStr>,
    /// Whether it is a loopback interface.
    pub loopback: bool,
    /// Addresses with their scope.
    pub addresses: Vec<(IpAddr, Scope)>,
}

/// How far an address is valid, as the kernel has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Everywhere.
    Global,
    /// On one link.
    Link,
    /// On this machine.
    Host,
    /// Any other.
    Other,
}

/// Why interfaces cannot be read.
#[derive(Debug, Error)]
pub enum NetworkError {
    /// There is no such network namespace. Retryable: it may be made later.
    #[error("there is no network namespace {0}")]
    NoNamespace(SmolStr),
    /// The network namespace cannot be entered. Retryable, but for missing rights.
    #[error(transparent)]
    Namespace(NamespaceError),
    /// The kernel does not list them. Retryable.
    #[error("cannot list interfaces: {0}")]
    System(#[from] std::io::Error),
}

/// The network of this machine's kernel, read by netlink.
#[derive(Debug, Clone, Copy, Default)]
pub struct KernelNetwork;

// === impl KernelNetwork ===

impl Network for KernelNetwork {
    fn links(&self, namespace: Option<&str>) -> Result<Vec<Link>, NetworkError> {
        let Some(name) = namespace else { return Ok(rtnetlink::links()?) };
        match namespace::enter(name, rtnetlink::links) {
            Ok(links) => Ok(links?),
            Err(NamespaceError::Missing(_)) => Err(NetworkError::NoNamespace(name.into())),
            Err(error) => Err(NetworkError::Namespace(error)),
        }
    }

    fn name(&self) -> SmolStr {
        rustix::system::uname().nodename().to_string_lossy().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_of_this_machine_is_listed() {
        let links = KernelNetwork.links(None).unwrap();
        let loopback = links.iter().find(|link| link.loopback).unwrap();
        assert_eq!((loopback.name.as_str(), loopback.index), ("lo", 1));
        assert!(loopback.addresses.iter().all(|(_, scope)| *scope == Scope::Host), "{loopback:?}");
    }

    #[test]
    fn a_network_namespace_that_does_not_exist_is_named() {
        let error = KernelNetwork.links(Some("no-such-namespace")).unwrap_err();
        assert!(matches!(&error, NetworkError::NoNamespace(name) if name == "no-such-namespace"), "{error}");
        // Not a way out of the folder of names.
        let error = KernelNetwork.links(Some("../../proc/1/ns/net")).unwrap_err();
        assert!(matches!(error, NetworkError::NoNamespace(_)), "{error}");
    }
}
