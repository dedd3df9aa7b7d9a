//! Notices when interfaces or addresses of the machine change: the kernel reports it on a socket, which a poll loop can wait for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// A subscription to changes of interfaces and addresses.
#[derive(Debug)]
pub struct LinkEvents {
    socket: OwnedFd,
}

/// RTMGRP_LINK, RTMGRP_IPV4_IFADDR and RTMGRP_IPV6_IFADDR.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

// === impl LinkEvents ===

impl LinkEvents {
    /// Subscribes. Needs no rights.
    pub fn new() -> io::Result<LinkEvents> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Without a number it is the protocol of links and routes, whose number is zero.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(LinkEvents { socket })
    }

    /// Returns whether anything changed since the last call. What changed does not matter: all of it is read again.
    pub fn changed(&mut self) -> bool {
        let mut changed = false;
        let mut buffer = [0u8; 8192];
        loop {
            match recv(&self.socket, &mut buffer, RecvFlags::TRUNC) {
                Ok((_, length)) if length > 0 => changed = true,
                // The queue of the socket overflowed.
                Err(rustix::io::Errno::NOBUFS) => changed = true,
                Err(rustix::io::Errno::INTR) => {}
                _ => return changed,
            }
        }
    }
}

impl AsFd for LinkEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
