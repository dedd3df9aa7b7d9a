//! Address families and blocks with exceptions.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// IPv4 or IPv6. A block of one family never matches an address of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A block of addresses minus exceptions. Kept canonical: host bits cleared, exceptions sorted, none that lies outside
/// the block or inside another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    cidr: IpNet,
    except: Vec<IpNet>,
}

/// Why an address is not in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotInBlock {
    /// It is of the other family.
    Family,
    /// It lies outside.
    Outside,
    /// It lies inside, and in this exception.
    Excepted(IpNet),
}

// === impl Family ===

impl Family {
    /// The family of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Family::V4 => Family::V6,
            Family::V6 => Family::V4,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        })
    }
}

// === impl Block ===

impl Block {
    /// A block without some of its parts.
    pub fn new(cidr: IpNet, except: impl IntoIterator<Item = IpNet>) -> Self {
        let cidr = cidr.trunc();
        let overlaps = |net: &IpNet| cidr.contains(net) || net.contains(&cidr);
        let mut except: Vec<IpNet> = except.into_iter().map(|net| net.trunc()).filter(overlaps).collect();
        // Sorted by address then length, a net follows every net that holds it.
        except.sort();
        let mut kept: Vec<IpNet> = Vec::with_capacity(except.len());
        for net in except {
            if !kept.last().is_some_and(|last| last.contains(&net)) {
                kept.push(net);
            }
        }
        Block { cidr, except: kept }
    }

    /// The block before its exceptions.
    pub fn cidr(&self) -> IpNet {
        self.cidr
    }

    /// What is taken out of it.
    pub fn except(&self) -> &[IpNet] {
        &self.except
    }

    /// An address in it: the first that no exception takes out.
    pub fn example(&self) -> Option<IpAddr> {
        let mut address = self.cidr.network();
        // Exceptions are sorted and none holds another, so one pass is enough.
        for net in &self.except {
            if net.contains(&address) {
                address = next(net.broadcast())?;
            }
        }
        self.contains(address).then_some(address)
    }

    /// Its family.
    pub fn family(&self) -> Family {
        Family::of(self.cidr.addr())
    }

    /// Whether the address is in the block and in no exception.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.misses(address).is_none()
    }

    /// Why the address is not in it; `None` when it is.
    pub fn misses(&self, address: IpAddr) -> Option<NotInBlock> {
        if Family::of(address) != self.family() {
            return Some(NotInBlock::Family);
        }
        if !self.cidr.contains(&address) {
            return Some(NotInBlock::Outside);
        }
        self.except.iter().find(|net| net.contains(&address)).map(|net| NotInBlock::Excepted(*net))
    }
}

/// The address before one.
pub fn previous(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => address.to_bits().checked_sub(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(address) => address.to_bits().checked_sub(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}

/// The address after one.
pub fn next(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => address.to_bits().checked_add(1).map(|bits| Ipv4Addr::from_bits(bits).into()),
        IpAddr::V6(address) => address.to_bits().checked_add(1).map(|bits| Ipv6Addr::from_bits(bits).into()),
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cidr)?;
        for (index, net) in self.except.iter().enumerate() {
            write!(f, "{}{net}", if index == 0 { " except " } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(cidr: &str, except: &[&str]) -> Block {
        Block::new(cidr.parse().unwrap(), except.iter().map(|net| net.parse::<IpNet>().unwrap()))
    }

    #[test]
    fn exceptions_are_cut_out() {
        let block = block("203.0.113.0/24", &["203.0.113.64/26"]);
        assert!(block.contains("203.0.113.63".parse().unwrap()));
        assert_eq!(
            block.misses("203.0.113.64".parse().unwrap()),
            Some(NotInBlock::Excepted("203.0.113.64/26".parse().unwrap()))
        );
        assert_eq!(block.misses("203.0.114.0".parse().unwrap()), Some(NotInBlock::Outside));
    }

    #[test]
    fn an_example_is_in_it() {
        let example =
            |cidr, except: &[&str]| block(cidr, except).example().map(|address| address.to_string());
        assert_eq!(example("10.0.0.0/24", &[]).as_deref(), Some("10.0.0.0"));
        assert_eq!(example("10.0.0.0/24", &["10.0.0.0/25", "10.0.0.128/26"]).as_deref(), Some("10.0.0.192"));
        assert_eq!(example("10.0.0.0/24", &["10.0.0.0/25", "10.0.0.128/25"]), None);
        assert_eq!(example("255.255.255.255/32", &["255.255.255.255/32"]), None);
        assert_eq!(example("2001:db8::/64", &["2001:db8::/65"]).as_deref(), Some("2001:db8:0:0:8000::"));
    }

    #[test]
    fn families_never_mix() {
        assert_eq!(block("0.0.0.0/0", &[]).misses("2001:db8::7".parse().unwrap()), Some(NotInBlock::Family));
        assert_eq!(block("::/0", &[]).misses("10.0.0.1".parse().unwrap()), Some(NotInBlock::Family));
    }

    #[test]
    fn a_block_is_canonical() {
        let one = block("10.1.2.3/8", &["10.2.0.0/16", "10.1.9.9/16", "10.1.2.0/24", "11.0.0.0/8"]);
        assert_eq!(one, block("10.0.0.0/8", &["10.1.0.0/16", "10.2.0.0/16"]));
        assert_eq!(one.to_string(), "10.0.0.0/8 except 10.1.0.0/16, 10.2.0.0/16");
    }
}
