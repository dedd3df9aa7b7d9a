//! Address blocks of a rule, and what is local and what is not.

use ipnet::IpNet;
use palisade_model::address::Block;

use super::Checks;
use crate::apimachinery::field::Path;
use crate::thorium::codes;
use crate::thorium::policy::Peer;
use crate::thorium::types;

/// RFC 1918 and unique local addresses: what `allowed_local` means.
const LOCAL: [&str; 4] = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"];
/// Everything: `allowed_internet` is that without the local addresses.
const ALL: [&str; 2] = ["0.0.0.0/0", "::/0"];

impl Checks<'_, '_> {
    /// A block; `None` when its exceptions leave nothing of it. Fields that are unknown are not considered.
    pub(super) fn block(&mut self, block: &types::IpBlock, path: &Path<'_>) -> Result<Option<Block>, String> {
        let unreadable = format!("{path} cannot be read");
        let cidr_path = path.child("cidr");
        let Some(text) = &block.cidr else {
            if block.unreadable.is_none() {
                self.error(&codes::MISSING_FIELD, &cidr_path, "an address block needs its cidr");
            }
            return Err(unreadable);
        };
        let network = self.network(text, &cidr_path);
        let written = block.except.as_deref().unwrap_or_default();
        let except_path = path.child("except");
        // A field that is unknown, or nothing that can be read: the caller knows.
        let mut fine = true;
        if network.is_some() && !text.contains('/') {
            let message =
                format!("Thorium's program writes {text} without a length: Kubernetes refuses the policy");
            if !self.all {
                self.differs(&codes::DIFFERS_ADDRESS, &cidr_path, &message);
                self.refuse(format!("the single address {text}"));
            }
            if !written.is_empty() {
                let message = format!("{text} is a single address: there is nothing to except");
                self.error(&codes::EXCEPT_ON_ADDRESS, &except_path, &message);
                return Err(unreadable);
            }
        }
        let mut except = Vec::new();
        let mut nothing_left = false;
        for (index, text) in written.iter().enumerate() {
            let path = except_path.index(index);
            let Some(net) = self.network(text, &path) else {
                fine = false;
                continue;
            };
            let Some(network) = network else { continue };
            if network.addr().is_ipv4() != net.addr().is_ipv4() {
                let message = format!("{text} is of the other address family than {network}");
                self.error(&codes::EXCEPT_FAMILY, &path, &message);
                fine = false;
            } else if !network.contains(&net) {
                let message = format!("{text} is not inside {network}");
                self.error(&codes::EXCEPT_OUTSIDE, &path, &message).label =
                    Some(format!("not inside {network}"));
                fine = false;
            } else if net == network {
                let message = format!("{text} excepts all of {network}: nothing of it is allowed");
                self.reader.report(&codes::EMPTY_BLOCK, &path, message);
                if !self.all {
                    self.refuse(format!("the exception {text}, which is all of its block"));
                }
                nothing_left = true;
            }
            except.push(net);
        }
        match network.filter(|_| fine) {
            None => Err(unreadable),
            Some(_) if nothing_left => Ok(None),
            Some(network) => Ok(Some(Block::new(network, except))),
        }
    }

    /// An address or a block without bits beyond its length.
    fn network(&mut self, text: &str, path: &Path<'_>) -> Option<IpNet> {
        if let Some(network) = network(text) {
            let mapped = match network {
                IpNet::V6(six) => six.addr().to_ipv4_mapped().map(|four| (four, six.prefix_len())),
                IpNet::V4(_) => None,
            };
            let Some((four, length)) = mapped else { return Some(network) };
            let message = format!("{text} is an IPv4 address in the clothes of IPv6: nothing comes from it");
            self.error(&codes::CIDR, path, &message).help = Some(match length.checked_sub(96) {
                Some(32) | None => format!("write {four}"),
                Some(length) => format!("write {four}/{length}"),
            });
            return None;
        }
        let lax = text.parse::<IpNet>().ok();
        let message = match lax {
            Some(_) => format!("{text} has bits beyond its length"),
            None => format!("{text:?} is not an address or an address block"),
        };
        self.error(&codes::CIDR, path, &message).help =
            lax.map(|lax| format!("write {} for the block, or {} for the address", lax.trunc(), lax.addr()));
        None
    }
}

/// An address or a block without bits beyond its length.
fn network(text: &str) -> Option<IpNet> {
    match text.parse::<std::net::IpAddr>() {
        Ok(address) => Some(address.into()),
        Err(_) => text.parse::<IpNet>().ok().filter(|network| network.trunc() == *network),
    }
}

fn nets(texts: &[&str]) -> Vec<IpNet> {
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

/// `allowed_local`.
pub(super) fn local() -> Vec<Peer> {
    nets(&LOCAL).into_iter().map(|net| Peer::Addresses(Block::new(net, []))).collect()
}

/// `allowed_internet`.
pub(super) fn internet() -> Vec<Peer> {
    nets(&ALL).into_iter().map(|all| Peer::Addresses(Block::new(all, nets(&LOCAL)))).collect()
}
