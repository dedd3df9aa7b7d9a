//! What this machine has of what our programs need, and in words what it lacks.
//!
//! Everything is tried, nothing is guessed from versions but for nft itself: `nft -c` shows a transaction to the kernel, which looks at all
//! of it and then forgets it.
//!
//! The oldest nft is 1.0.0 because of one thing: `reject with icmpx CODE` is written without the word `type` since then. What
//! else we write is older (comments of sets are of 0.9.7, ranges in concatenations of 0.9.4). The oldest that
//! our tests have run with is 1.0.6. Ranges in concatenations need Linux 5.6.

use std::fmt;

use crate::kernel::netlink::Socket;
use crate::kernel::nft::Nft;
use crate::kernel::{KernelError, conntrack};

/// The oldest nft that reads our texts.
pub const OLDEST: Version = Version::new(1, 0, 0);

/// A version of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
    patch: u32,
}

/// What a machine has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Features {
    /// The version of nft, if there is one that can be used.
    pub nft: Option<Version>,
    /// The version of the kernel, in its own words.
    pub kernel: String,
    /// What is missing. If there is nothing, every program of ours can be put into this kernel.
    pub lacks: Vec<Lack>,
}

/// Something that is missing, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// What.
    pub need: Need,
    /// What was said when it was tried.
    pub said: String,
}

/// Something that our programs need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Need {
    /// The command, in a version that reads our texts.
    Nft,
    /// The right to change tables.
    Permission,
    /// Tables of the family `inet`.
    Tables,
    /// Verdict maps.
    VerdictMaps,
    /// Ranges in keys of several fields.
    Ranges,
    /// The state of connections, and where they went before translation.
    Connections,
    /// Refusing with an answer.
    Reject,
    /// Counters with names.
    Counters,
    /// Words for people.
    Comments,
    /// Telling and forgetting connections.
    Conntrack,
}

/// What is tried, each with the smallest text that needs it.
const TRIED: [(Need, &str); 6] = [
    (
        Need::VerdictMaps,
        "map m {\ntype ipv4_addr : verdict\nelements = { 192.0.2.1 : goto c }\n}\nchain c {\n}\nchain b {\nip saddr vmap @m\n}\n",
    ),
    (
        Need::Ranges,
        "map m {\ntype ipv6_addr . inet_proto . inet_service : verdict\nflags interval\n\
         elements = { 2001:db8::-2001:db8::ff . 6 . 80-90 : accept }\n}\n\
         chain b {\nip6 saddr . meta l4proto . th dport vmap @m\n}\n",
    ),
    (
        Need::Connections,
        "chain b {\ntype filter hook forward priority filter; policy accept;\nct state established,related accept\n\
         ct state new tcp flags & (fin | syn | rst | ack) != syn drop\nct original ip daddr 192.0.2.1 accept\n}\n",
    ),
    (
        Need::Reject,
        "chain b {\ntype filter hook forward priority filter; policy accept;\nmeta l4proto tcp reject with tcp reset\n\
         reject with icmpx admin-prohibited\n}\n",
    ),
    (Need::Counters, "counter n {\npackets 1 bytes 2\n}\nchain b {\ncounter name n accept\n}\n"),
    (
        Need::Comments,
        "set s {\ntype ifname\ncomment \"a\"\nelements = { \"lo\" }\n}\nchain b {\niifname @s accept comment \"b\"\n}\n",
    ),
];

// === impl Version ===

impl Version {
    /// A version.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Version {
        Version { major, minor, patch }
    }

    /// The first version in a text, such as `nftables v1.0.6 (Lester Gooch #5)` or `6.1.0-18-amd64`.
    pub fn read(text: &str) -> Option<Version> {
        let text = text.get(text.find(|c: char| c.is_ascii_digit())?..)?;
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let mut parts = text.get(..end)?.split('.').map(|part| part.parse().ok());
        let major = parts.next()??;
        let mut next = || parts.next().flatten().unwrap_or(0);
        Some(Version { major, minor: next(), patch: next() })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

// === impl Features ===

impl Features {
    /// Tries everything. Nothing of it stays.
    pub(crate) fn probe(nft: &mut Nft) -> Features {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let mut features = Features { nft: None, kernel, lacks: Vec::new() };
        match nft.version() {
            Ok(version) => features.nft = Some(version),
            Err(error) => features.lack(Need::Nft, &error),
        }
        if features.nft.is_some() {
            features.tables(nft);
        }
        if !features.lacks.iter().any(|lack| lack.need == Need::Permission) {
            match Socket::open().and_then(|mut socket| conntrack::works(&mut socket)) {
                Ok(()) => {}
                Err(error) => match KernelError::of("conntrack", error) {
                    error @ KernelError::Forbidden(_) => features.lack(Need::Permission, &error),
                    error => features.lack(Need::Conntrack, &error),
                },
            }
        }
        features
    }

    fn tables(&mut self, nft: &mut Nft) {
        let table = |text: &str| format!("table inet palisade_probe {{\n{text}}}\n");
        match nft.check(&table("")) {
            Ok(()) => {}
            Err(error @ KernelError::Forbidden(_)) => return self.lack(Need::Permission, &error),
            Err(error) => return self.lack(Need::Tables, &error),
        }
        for (need, text) in TRIED {
            if let Err(error) = nft.check(&table(text)) {
                self.lack(need, &error);
            }
        }
    }

    fn lack(&mut self, need: Need, error: &KernelError) {
        let said = error.to_string();
        self.lacks.push(Lack { need, said: said.lines().next().unwrap_or_default().to_owned() });
    }
}

// === impl Lack ===

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lack { need, said } = self;
        match need {
            // It says itself what to do about it.
            Need::Nft => write!(f, "nft cannot be used: {said}"),
            Need::Permission => {
                write!(
                    f,
                    "tables may not be changed: run it as root, or with the capability CAP_NET_ADMIN ({said})"
                )
            }
            Need::Tables => kernel(f, "no tables of the family inet", "nf_tables", said),
            Need::VerdictMaps => kernel(f, "no verdict maps", "nf_tables", said),
            Need::Ranges => {
                kernel(f, "no ranges in keys of several fields, which Linux has since 5.6", "nf_tables", said)
            }
            Need::Connections => kernel(f, "no state of connections", "nft_ct and nf_conntrack", said),
            Need::Reject => kernel(f, "no refusing with an answer", "nft_reject_inet", said),
            Need::Counters => kernel(f, "no counters with names", "nf_tables", said),
            Need::Comments => kernel(f, "no comments", "nf_tables", said),
            Need::Conntrack => {
                kernel(f, "no telling and forgetting of connections", "nf_conntrack_netlink", said)
            }
        }
    }
}

fn kernel(f: &mut fmt::Formatter<'_>, what: &str, modules: &str, said: &str) -> fmt::Result {
    write!(
        f,
        "the kernel has {what}: it needs {modules} (modprobe; the kernels of Debian's linux-image-amd64 and Ubuntu's \
         linux-image-generic have it) ({said})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        let read = |text| Version::read(text).map(|version| version.to_string());
        assert_eq!(read("nftables v1.0.6 (Lester Gooch #5)").as_deref(), Some("1.0.6"));
        assert_eq!(read("nftables v0.9.8 (E.D.S.)").as_deref(), Some("0.9.8"));
        assert_eq!(read("nftables v1.1 (x)").as_deref(), Some("1.1.0"));
        assert_eq!(read("6.18.44-fc-v445").as_deref(), Some("6.18.44"));
        assert_eq!(read("5.10.0-28-amd64").as_deref(), Some("5.10.0"));
        assert_eq!(read("99999999999.1"), None);
        assert_eq!(read("no number"), None);
        assert!(Version::new(0, 9, 9) < OLDEST && OLDEST < Version::new(1, 0, 6));
        assert!(Version::new(6, 18, 0) > Version::new(6, 2, 0));
    }
}
