//! Whether the machine's interfaces or addresses change: the kernel says so on a socket, which is something to wait for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// Listens to what happens to interfaces and addresses.
#[derive(Debug)]
pub struct Links {
    socket: OwnedFd,
}

/// Links, and addresses of both families.
const GROUPS: u32 = 0x1 | 0x10 | 0x100;

// === impl Links ===

impl Links {
    /// Begins to listen. That needs no rights.
    pub fn new() -> io::Result<Links> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Without a number it is the protocol of links and routes, whose number is zero.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, GROUPS))?;
        Ok(Links { socket })
    }

    /// Whether anything changed since this was last asked. What exactly does not matter: it is read anew.
    pub fn changed(&mut self) -> bool {
        let mut changed = false;
        let mut buffer = [0u8; 8192];
        loop {
            match recv(&self.socket, &mut buffer, RecvFlags::TRUNC) {
                Ok((_, length)) if length > 0 => changed = true,
                // More happened than there was room for.
                Err(rustix::io::Errno::NOBUFS) => changed = true,
                Err(rustix::io::Errno::INTR) => {}
                _ => return changed,
            }
        }
    }
}

impl AsFd for Links {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
