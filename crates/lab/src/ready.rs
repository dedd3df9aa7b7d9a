//! Addresses that can be sent from: present, and past duplicate address detection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::namespace;

/// An address and the namespace that has it.
pub type Place = (String, IpAddr);

/// How long to wait between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Waits until a socket can be bound to each of these addresses, which the kernel refuses while an address is tentative. Returns
/// those that were not ready after `patience`, with the kernel's reason.
pub fn unready(
    places: BTreeSet<Place>,
    patience: Duration,
) -> Result<BTreeMap<Place, std::io::Error>, LabError> {
    let end = Instant::now() + patience;
    let mut waiting: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
    for (name, address) in places {
        waiting.entry(name).or_default().insert(address);
    }
    loop {
        let mut refused = BTreeMap::new();
        for (name, addresses) in &waiting {
            let bound = namespace::inside(name, || {
                let bind = |address: &IpAddr| (*address, UdpSocket::bind(SocketAddr::new(*address, 0)).err());
                addresses.iter().map(bind).collect::<Vec<_>>()
            })?;
            let wrong = bound.into_iter().filter_map(|(address, error)| Some((address, error?)));
            refused.extend(wrong.map(|(address, error)| ((name.clone(), address), error)));
        }
        if refused.is_empty() || Instant::now() >= end {
            return Ok(refused);
        }
        waiting.clear();
        for (name, address) in refused.keys() {
            waiting.entry(name.clone()).or_default().insert(*address);
        }
        std::thread::sleep(PAUSE);
    }
}
