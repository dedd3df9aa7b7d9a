//! Addresses as ranges: what any number of blocks with exceptions comes to.
//!
//! Canonical: sorted, none touches another, IPv4 before IPv6. However blocks were written, in whatever order and with
//! whatever overlaps, the same addresses are the same ranges, so that what is made of them can be shared.

use std::fmt;
use std::net::IpAddr;

use crate::address::{Block, next, previous};

/// A set of addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ranges(Box<[(IpAddr, IpAddr)]>);

// === impl Ranges ===

impl Ranges {
    /// Whatever is in any of the blocks.
    pub fn of<'b>(blocks: impl IntoIterator<Item = &'b Block>) -> Self {
        let mut pieces: Vec<(IpAddr, IpAddr)> = Vec::new();
        for block in blocks {
            let last = block.cidr().broadcast();
            let mut first = Some(block.cidr().network());
            // Exceptions are sorted and none holds another.
            for net in block.except() {
                if let (Some(first), Some(end)) = (first, previous(net.network()))
                    && first <= end
                {
                    pieces.push((first, end));
                }
                first = next(net.broadcast()).filter(|next| *next <= last);
            }
            pieces.extend(first.map(|first| (first, last)));
        }
        pieces.sort_unstable();
        let mut ranges: Vec<(IpAddr, IpAddr)> = Vec::with_capacity(pieces.len());
        for (first, last) in pieces {
            match ranges.last_mut() {
                Some(open) if first.is_ipv4() == open.1.is_ipv4() && touches(open.1, first) => {
                    open.1 = open.1.max(last);
                }
                _ => ranges.push((first, last)),
            }
        }
        Ranges(ranges.into())
    }

    /// From first and last of each range, if that is canonical already: each of one family, sorted, none touching another.
    pub fn from_canonical(ranges: Vec<(IpAddr, IpAddr)>) -> Option<Self> {
        let is_range = |(first, last): &(IpAddr, IpAddr)| first <= last && first.is_ipv4() == last.is_ipv4();
        let is_apart = |pair: &[(IpAddr, IpAddr)]| {
            let ((_, last), (first, _)) = (pair[0], pair[1]);
            last < first && (last.is_ipv4() != first.is_ipv4() || !touches(last, first))
        };
        let canonical = ranges.iter().all(is_range) && ranges.windows(2).all(is_apart);
        canonical.then(|| Ranges(ranges.into()))
    }

    /// Whether an address is among them.
    pub fn contains(&self, address: IpAddr) -> bool {
        let at = self.0.partition_point(|(first, _)| *first <= address);
        at > 0 && address <= self.0[at - 1].1 && address.is_ipv4() == self.0[at - 1].1.is_ipv4()
    }

    /// First and last of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = (IpAddr, IpAddr)> {
        self.0.iter().copied()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody is among them.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Ranges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no address");
        }
        for (index, (first, last)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            if first == last { write!(f, "{comma}{first}") } else { write!(f, "{comma}{first}-{last}") }?;
        }
        Ok(())
    }
}

fn touches(last: IpAddr, first: IpAddr) -> bool {
    first <= last || next(last) == Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(blocks: &[(&str, &[&str])]) -> Ranges {
        let blocks: Vec<Block> = blocks
            .iter()
            .map(|(cidr, except)| {
                Block::new(cidr.parse().unwrap(), except.iter().map(|net| net.parse().unwrap()))
            })
            .collect();
        Ranges::of(&blocks)
    }

    #[test]
    fn the_same_addresses_are_the_same_ranges() {
        let halves = ranges(&[("10.0.0.128/25", &[]), ("10.0.0.0/25", &[])]);
        assert_eq!(halves, ranges(&[("10.0.0.0/24", &[]), ("10.0.0.7/32", &[])]));
        assert_eq!(halves.to_string(), "10.0.0.0-10.0.0.255");
    }

    #[test]
    fn exceptions_are_holes_unless_another_block_fills_them() {
        let hole = ranges(&[("10.0.0.0/24", &["10.0.0.0/26", "10.0.0.128/26"])]);
        assert_eq!(hole.to_string(), "10.0.0.64-10.0.0.127, 10.0.0.192-10.0.0.255");
        let filled = ranges(&[("10.0.0.0/24", &["10.0.0.0/25"]), ("10.0.0.0/25", &[])]);
        assert_eq!(filled.to_string(), "10.0.0.0-10.0.0.255");
        assert_eq!(ranges(&[("10.0.0.0/24", &["10.0.0.0/24"])]).to_string(), "no address");
    }

    #[test]
    fn the_ends_of_the_world_are_no_trouble() {
        let all = ranges(&[("0.0.0.0/0", &["255.255.255.255/32", "0.0.0.0/32"]), ("::/0", &["ffff::/16"])]);
        assert_eq!(all.to_string(), "0.0.0.1-255.255.255.254, ::-fffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        assert!(!all.contains("0.0.0.0".parse().unwrap()) && !all.contains("ffff::1".parse().unwrap()));
        assert!(all.contains("10.0.0.1".parse().unwrap()) && all.contains("::1".parse().unwrap()));
        assert!(!ranges(&[("255.255.255.0/24", &[])]).contains("::".parse().unwrap()));
    }

    #[test]
    fn only_canonical_ranges_are_taken_as_they_are() {
        let all = ranges(&[("10.0.0.0/24", &["10.0.0.8/32"]), ("255.255.255.255/32", &[]), ("::/0", &[])]);
        assert_eq!(Ranges::from_canonical(all.iter().collect()), Some(all));
        let pair = |first: &str, last: &str| (first.parse().unwrap(), last.parse().unwrap());
        let refused = [
            vec![pair("10.0.0.2", "10.0.0.1")],
            vec![pair("10.0.0.1", "::1")],
            vec![pair("10.0.0.1", "10.0.0.2"), pair("10.0.0.3", "10.0.0.4")],
            vec![pair("10.0.0.1", "10.0.0.2"), pair("10.0.0.1", "10.0.0.9")],
            vec![pair("::1", "::2"), pair("10.0.0.3", "10.0.0.4")],
        ];
        assert!(refused.into_iter().all(|ranges| Ranges::from_canonical(ranges).is_none()));
    }

    #[test]
    fn it_says_what_the_blocks_say() {
        let blocks: &[(&str, &[&str])] =
            &[("10.0.0.0/28", &["10.0.0.4/30"]), ("10.0.0.5/32", &[]), ("10.0.0.16/29", &["10.0.0.16/31"])];
        let plain: Vec<Block> = blocks
            .iter()
            .map(|(cidr, except)| {
                Block::new(cidr.parse().unwrap(), except.iter().map(|net| net.parse().unwrap()))
            })
            .collect();
        for last in 0..=255 {
            let address = IpAddr::from([10, 0, 0, last]);
            assert_eq!(ranges(blocks).contains(address), plain.iter().any(|block| block.contains(address)));
        }
    }
}
