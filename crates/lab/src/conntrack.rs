//! Forgetting connections, so that each measurement is of a connection that is opened now.
//!
//! One message to the kernel, which is not worth a tool: `IPCTNL_MSG_CT_DELETE` without a connection means all of them.

use rustix::net::netlink::{NETFILTER, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

use crate::error::LabError;
use crate::namespace;

/// Subsystem 1 (conntrack), message 2 (delete).
const DELETE: u16 = 0x0102;
/// A request that wants to be answered.
const FLAGS: u16 = 0x0001 | 0x0004;

/// Forgets every connection of a namespace.
pub fn forget(name: &str) -> Result<(), LabError> {
    let asked = namespace::inside(name, || -> rustix::io::Result<i32> {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(NETFILTER))?;
        // Header: length, type, flags, sequence, port; then family, version, resource.
        let mut message = Vec::with_capacity(20);
        message.extend(20u32.to_ne_bytes());
        message.extend(DELETE.to_ne_bytes());
        message.extend(FLAGS.to_ne_bytes());
        message.extend(1u32.to_ne_bytes());
        message.extend(0u32.to_ne_bytes());
        message.extend([0, 0, 0, 0]);
        sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut answer = [0u8; 256];
        let (_, length) = recv(&socket, &mut answer, RecvFlags::empty())?;
        let code = answer.get(16..20).filter(|_| length >= 20).and_then(|bytes| bytes.try_into().ok());
        Ok(code.map_or(0, i32::from_ne_bytes))
    })?;
    let failed =
        |error: std::io::Error| LabError::system(format!("cannot forget the connections of {name}"), error);
    match asked {
        Ok(0) => Ok(()),
        Ok(code) => Err(failed(std::io::Error::from_raw_os_error(-code))),
        Err(error) => Err(failed(error.into())),
    }
}
