//! Digests by which data planes name what they are programmed with.
//!
//! A digest is made of a specified text, so that names stay what they are when a type or a field is renamed: objects in a kernel
//! are kept across versions of the program. Each text begins with what it encodes and the version of the encoding. A change of an
//! encoding is a new version, and renames every object of that sort once.
//!
//! ```text
//!   flat-verdicts 1           rule-shape 1              rule 1                       list 1, sets 1
//!   rest DECISION             stage STAGE               rank STAGE PLACED TIER       DIGEST   of each rule or its shape;
//!   tcp 0-65535               effect EFFECT                  PRIORITY INDEX                   of each set, sorted
//!   0 DECISION                peers any | DIGEST …      object KIND …
//!   80 DECISION               destination any | DIGEST  rule none | INDEX
//!   icmp                      traffic any | none        layer7 …
//!   …                         tcp 80-80 …               log none | TEXT
//!   igmp any | host | …       layer7 yes | no           shape DIGEST
//! ```
//!
//! Text that users choose is written with its length in front (`4:http`), so that no two values have one encoding. The authors of
//! policies choose what is digested, so the digest is cryptographic: two texts with the same digest cannot be found.

use std::fmt::{self, Write};
use std::net::IpAddr;

use palisade_engine::delta::{CompiledRule, RuleEffect, SetId};
use palisade_engine::selection::SetDigest;
use palisade_engine::view::View;
use palisade_model::pipeline::Effect;
use palisade_model::policy::{Layer7, PortMatch, TrafficMatch, TrafficMatches};
use palisade_model::resolve::Rank;
use palisade_model::snapshot::Stage;
use palisade_model::trace::Verdict;
use palisade_model::traffic::{PortRange, Protocol};
use palisade_model::traffic_set::Addressing;
use sha2::{Digest as _, Sha256};

use crate::verdicts::{Decision, FlatVerdicts, Scope};

/// The first 96 bits of SHA-256 over a specified text. Shown as 24 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 12]);

/// A text on its way into a digest.
#[derive(Debug, Clone)]
pub struct Encoder {
    hash: Sha256,
    /// Text that is not hashed yet: formatting writes a few bytes at a time, hashing takes blocks.
    pending: String,
}

/// Bytes as lower-case hexadecimal digits.
struct Hex<'b>(&'b [u8]);

/// Length of pending text from which on it is hashed.
const FLUSH: usize = 4096;

/// Digests of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RuleDigests {
    /// Everything about the rule, its origin included.
    pub whole: Digest,
    /// What the rule matches and does, whichever policy it comes from: lists of equal shapes distinguish peers in the same way.
    pub shape: Digest,
}

/// An optional value.
struct Optional<T>(Option<T>);

// === impl Digest ===

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(&self.0).fmt(f)
    }
}

impl Digest {
    /// Returns the digest of some digests in order.
    pub fn of_list(digests: impl IntoIterator<Item = Digest>) -> Digest {
        let mut encoder = Encoder::new("list 1");
        for digest in digests {
            encoder.line(format_args!("{digest}"));
        }
        encoder.finish()
    }

    /// Returns the digest of what some sets select together.
    pub fn of_sets(view: &View, sets: &[SetId]) -> Digest {
        let mut encoder = Encoder::new("sets 1");
        let mut digests: Vec<SetDigest> = sets.iter().filter_map(|set| set_digest(view, *set)).collect();
        digests.sort_unstable();
        digests.iter().for_each(|digest| encoder.line(format_args!("{}", Hex(digest.as_bytes()))));
        encoder.finish()
    }
}

// === impl Encoder ===

impl Encoder {
    /// Begins a text with what it encodes and the version of the encoding.
    pub fn new(header: &str) -> Self {
        let mut encoder = Encoder { hash: Sha256::new(), pending: String::new() };
        encoder.line(format_args!("{header}"));
        encoder
    }

    /// Appends a line. Arguments must not contain line breaks; see [`Encoder::text`].
    pub fn line(&mut self, line: fmt::Arguments<'_>) {
        // A string takes any text.
        let _ = self.write_fmt(line);
        self.pending.push('\n');
        if self.pending.len() >= FLUSH {
            self.hash.update(self.pending.as_bytes());
            self.pending.clear();
        }
    }

    /// Appends a line with any text, with its length in front.
    pub fn text(&mut self, key: &str, text: &str) {
        self.line(format_args!("{key} {}:{text}", text.len()));
    }

    /// Returns the digest of the text.
    pub fn finish(mut self) -> Digest {
        self.hash.update(self.pending.as_bytes());
        let mut digest = [0; 12];
        digest.iter_mut().zip(self.hash.finalize()).for_each(|(to, from)| *to = from);
        Digest(digest)
    }
}

impl Write for Encoder {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.pending.push_str(text);
        Ok(())
    }
}

// === impl Hex ===

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        // In one piece: a digest of a set has 64 digits, and lists name thousands of them.
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        let used = text.get(..2 * self.0.len()).unwrap_or(&text);
        f.write_str(std::str::from_utf8(used).unwrap_or_default())
    }
}

// === impl FlatVerdicts ===

impl FlatVerdicts {
    /// Returns the digest of the table. Rules are named by their index in the list.
    pub fn digest(&self) -> Digest {
        let mut encoder = Encoder::new("flat-verdicts 1");
        if self.is_closed() {
            encoder.line(format_args!("closed"));
            return encoder.finish();
        }
        encoder.line(format_args!("rest {}", self.rest()));
        for column in self.columns() {
            encoder.line(format_args!("{}", column.scope));
            for run in &column.runs {
                encoder.line(format_args!("{} {}", run.first, run.decision));
            }
        }
        encoder.finish()
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
            Verdict::Reject => "reject",
        };
        match self.rule {
            Some(rule) => write!(f, "{verdict} by {rule}"),
            None => write!(f, "{verdict} by default"),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Ports { protocol, sources } => write!(f, "{} {}", name(*protocol), Ports(*sources)),
            Scope::Icmp => f.write_str("icmp"),
            Scope::Igmp(None) => f.write_str("igmp any"),
            Scope::Igmp(Some(Addressing::Host)) => f.write_str("igmp host"),
            Scope::Igmp(Some(Addressing::OtherGroup)) => f.write_str("igmp other-group"),
            Scope::Igmp(Some(Addressing::Group(group))) => write!(f, "igmp {group}"),
        }
    }
}

// === impl RuleDigests ===

impl RuleDigests {
    /// Returns the digests of a rule of this view.
    pub fn new(rule: &CompiledRule, view: &View) -> RuleDigests {
        let shape = shape(rule, view);
        let mut encoder = Encoder::new("rule 1");
        let Rank { stage, placed, tier, priority, index } = rule.rank;
        // The bits: equal numbers have equal digests, and others have not.
        let priority = (priority.0 + 0.0).to_bits();
        encoder.line(format_args!("rank {} {placed} {tier} {priority:016x} {index}", stage_name(stage)));
        match view.policies().get(&rule.policy).map(|origin| &origin.object) {
            None => encoder.line(format_args!("object none")),
            Some(object) => {
                encoder.text("object", &object.full_kind());
                encoder.text("group", &object.group);
                match &object.namespace {
                    None => encoder.line(format_args!("namespace none")),
                    Some(namespace) => encoder.text("namespace", namespace),
                }
                encoder.text("name", &object.name);
            }
        }
        encoder.line(format_args!("rule {}", Optional(rule.rule)));
        for condition in &rule.layer7 {
            encode_layer7(&mut encoder, condition);
        }
        match &rule.log {
            None => encoder.line(format_args!("log none")),
            Some(label) => encoder.text("log", label),
        }
        encoder.line(format_args!("shape {shape}"));
        RuleDigests { whole: encoder.finish(), shape }
    }
}

fn shape(rule: &CompiledRule, view: &View) -> Digest {
    let mut encoder = Encoder::new("rule-shape 1");
    encoder.line(format_args!("stage {}", stage_name(rule.rank.stage)));
    encoder.line(format_args!("effect {}", effect_name(rule.effect)));
    match &rule.peers {
        None => encoder.line(format_args!("peers any")),
        Some(sets) => {
            encoder.line(format_args!("peers {}", sets.len()));
            let mut digests: Vec<SetDigest> = sets.iter().filter_map(|id| set_digest(view, *id)).collect();
            digests.sort_unstable();
            digests.iter().for_each(|digest| encoder.line(format_args!("{}", Hex(digest.as_bytes()))));
        }
    }
    match rule.destination {
        None => encoder.line(format_args!("destination any")),
        Some(id) => encoder.line(format_args!("destination {}", Optional(set_digest(view, id)))),
    }
    match &rule.traffic {
        TrafficMatches::Any => encoder.line(format_args!("traffic any")),
        TrafficMatches::Of(all) => {
            encoder.line(format_args!("traffic {}", all.len()));
            all.iter().for_each(|one| encode_traffic(&mut encoder, one));
        }
    }
    let layer7 = if rule.layer7.is_empty() { "no" } else { "yes" };
    encoder.line(format_args!("layer7 {layer7}"));
    encoder.finish()
}

/// Returns the digest of what a set selects. Views have every set that a rule of theirs names.
fn set_digest(view: &View, id: SetId) -> Option<SetDigest> {
    view.sets().get(&id).map(|set| set.selection.digest())
}

fn encode_traffic(encoder: &mut Encoder, one: &TrafficMatch) {
    match one {
        TrafficMatch::Ports(protocol, ports) => {
            encoder.line(format_args!("{} {}", name(*protocol), Ports(*ports)));
        }
        TrafficMatch::Named(protocol, port) => encoder.text(protocol.map_or("any", name), port),
        TrafficMatch::From(sources, port) => {
            encoder.line(format_args!("from {}", Ports(*sources)));
            match &**port {
                PortMatch::Numbers(protocol, ports) => {
                    encoder.line(format_args!("{} {}", name(*protocol), Ports(*ports)));
                }
                PortMatch::Named(protocol, port) => encoder.text(protocol.map_or("any", name), port),
            }
        }
        TrafficMatch::Icmp(icmp) => {
            encoder.line(format_args!("icmp {} {}", Optional(icmp.kind), Optional(icmp.code)));
        }
        TrafficMatch::Igmp(kind, group) => {
            encoder.line(format_args!("igmp {} {}", Optional(*kind), Optional::<IpAddr>(*group)));
        }
        TrafficMatch::Unknown(what) => encoder.text("unknown", what),
    }
}

fn encode_layer7(encoder: &mut Encoder, condition: &Layer7) {
    let mut field = |key: &str, text: Option<&str>| match text {
        None => encoder.line(format_args!("{key} any")),
        Some(text) => encoder.text(key, text),
    };
    match condition {
        Layer7::Http { host, method, path } => {
            field("http-host", host.as_deref());
            field("http-method", method.as_deref());
            field("http-path", path.as_deref());
        }
        Layer7::Tls { sni } => field("tls-sni", sni.as_deref()),
    }
}

/// First and last port.
struct Ports(PortRange);

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.first, self.0.last)
    }
}

impl<T: fmt::Display> fmt::Display for Optional<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("none"),
        }
    }
}

fn name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        Protocol::Sctp => "sctp",
        Protocol::Icmp => "icmp",
        Protocol::Igmp => "igmp",
    }
}

fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::Tiers => "tiers",
        Stage::NetworkPolicy => "network-policy",
        Stage::Baseline => "baseline",
    }
}

fn effect_name(effect: RuleEffect) -> &'static str {
    match effect {
        RuleEffect::Isolate => "isolate",
        RuleEffect::Decide(Effect::Allow) => "allow",
        RuleEffect::Decide(Effect::AllowTcp) => "allow-tcp",
        RuleEffect::Decide(Effect::Deny) => "deny",
        RuleEffect::Decide(Effect::Reject) => "reject",
        RuleEffect::Decide(Effect::Pass) => "pass",
    }
}
