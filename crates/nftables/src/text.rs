//! A program as `nft` reads it.

use std::fmt::{self, Write};

use palisade_model::address::Family;

use crate::kernel::Counts;
use crate::patch::Patch;
use crate::program::{
    Chain, Elements, Field, FieldType, Hook, Key, Match, Name, Program, Rule, Set, Value, Verdict,
};

/// The table that is ours. Nobody else's is ever touched.
pub const TABLE: &str = "palisade";

/// The table that stands beside ours while it changes ([`crate::guard`]).
pub const GUARD: &str = "palisade_guard";

/// Rate limit of each rule that logs: packets per second, and how many may come at once.
pub(crate) const LOG_PER_SECOND: u64 = 10;
pub(crate) const LOG_BURST: u32 = 20;

/// Priority of our base chains among others at the same hook, as a word of nft and as its number.
const FILTER: &str = "filter";
const FILTER_PRIORITY: i32 = 0;

/// The longest comment that the kernel keeps.
const COMMENT: usize = 120;

// === impl Program ===

impl Program {
    /// The transaction that puts this in the place of whatever was there, all at once.
    pub fn replace(&self) -> String {
        self.replace_with(&Counts::new())
    }

    /// The same, with counters that begin with these counts.
    pub fn replace_with(&self, counts: &Counts) -> String {
        let table = Table { program: self, counts, name: TABLE };
        format!("add table inet {TABLE}\ndelete table inet {TABLE}\n{table}")
    }

    /// Returns the transaction that loads this as the guard, in the place of one that may exist.
    pub(crate) fn guard_text(&self) -> String {
        format!("add table inet {GUARD}\ndelete table inet {GUARD}\n{}", self.guard_addition_text())
    }

    /// Returns the transaction that adds this to the guard.
    pub(crate) fn guard_addition_text(&self) -> String {
        Table { program: self, counts: &Counts::new(), name: GUARD }.to_string()
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Table { program: self, counts: &Counts::new(), name: TABLE }.fmt(f)
    }
}

/// A program with what its counters begin with.
struct Table<'a> {
    program: &'a Program,
    counts: &'a Counts,
    name: &'static str,
}

// === impl Table ===

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "table inet {} {{", self.name)?;
        for counter in &self.program.counters {
            writeln!(f, "\tcounter {counter} {{")?;
            if let Some(count) = self.counts.get(counter) {
                writeln!(f, "\t\tpackets {} bytes {}", count.packets, count.bytes)?;
            }
            writeln!(f, "\t}}\n")?;
        }
        for (name, set) in &self.program.sets {
            write_set(f, "\t", name, set)?;
        }
        // A chain must be there before another goes to it: nft reads them all and then the rules.
        for (name, chain) in &self.program.chains {
            write_chain(f, name, chain, self.name)?;
        }
        writeln!(f, "}}")
    }
}

// === impl Patch ===

impl Patch {
    /// The transaction that does what this says, all at once.
    ///
    /// In an order in which nothing is used before it is there or after it is gone, and in which a base chain is never absent: it
    /// gets other rules where it is. What must not be there yet is created, not added, so that the kernel refuses if it is.
    pub fn text(&self) -> String {
        self.text_with(&Counts::new())
    }

    /// The same, with counters that begin with these counts.
    pub(crate) fn text_with(&self, counts: &Counts) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, counts);
        text
    }

    fn write(&self, text: &mut String, counts: &Counts) -> fmt::Result {
        for name in &self.counters {
            write!(text, "create counter inet {TABLE} {name}")?;
            if let Some(count) = counts.get(name) {
                write!(text, " {{ packets {} bytes {} ; }}", count.packets, count.bytes)?;
            }
            writeln!(text)?;
        }
        for (name, chain) in &self.chains {
            writeln!(text, "create chain inet {TABLE} {name}{}", hooked(chain))?;
        }
        for (name, set) in &self.sets {
            // nft 1.0.6 forgets what is in a set that is created, and says nothing.
            let empty = Set { elements: Elements::new(), ..set.clone() };
            write_set(text, "create ", &format!("inet {TABLE} {name}"), &empty)?;
            if !set.elements.is_empty() {
                writeln!(text, "create element inet {TABLE} {name} {}", elements_text(&set.elements))?;
            }
        }
        for (name, chain) in &self.changed {
            writeln!(text, "flush chain inet {TABLE} {name}")?;
            // It is there, and the kernel refuses if it is there with another hook.
            if chain.hook.is_some() {
                writeln!(text, "add chain inet {TABLE} {name}{}", hooked(chain))?;
            }
        }
        for (name, chain) in self.chains.iter().chain(&self.changed) {
            for rule in &chain.rules {
                write_rule(text, &format!("add rule inet {TABLE} {name} "), rule)?;
            }
        }
        for (name, elements) in &self.leave {
            writeln!(text, "delete element inet {TABLE} {name} {}", elements_text(elements))?;
        }
        for (name, elements) in &self.join {
            writeln!(text, "create element inet {TABLE} {name} {}", elements_text(elements))?;
        }
        self.write_removals(text)
    }

    /// Sets go before chains, because maps lead to chains.
    fn write_removals(&self, text: &mut String) -> fmt::Result {
        for name in &self.no_chains {
            writeln!(text, "flush chain inet {TABLE} {name}")?;
        }
        for (what, names) in
            [("set", &self.no_sets), ("chain", &self.no_chains), ("counter", &self.no_counters)]
        {
            for name in names {
                writeln!(text, "delete {what} inet {TABLE} {name}")?;
            }
        }
        Ok(())
    }
}

/// What is said about a chain besides its name.
fn hooked(chain: &Chain) -> String {
    chain.hook.map(|hook| format!(" {{ {} }}", hook_text(hook))).unwrap_or_default()
}

pub(crate) fn write_set(f: &mut impl Write, before: &str, name: &str, set: &Set) -> fmt::Result {
    let kind = if set.is_map { "map" } else { "set" };
    let key: Vec<&str> = set.key.iter().map(|field| type_name(*field)).collect();
    let verdict = if set.is_map { " : verdict" } else { "" };
    writeln!(f, "{before}{kind} {name} {{\n\t\ttype {}{verdict}", key.join(" . "))?;
    if set.interval {
        writeln!(f, "\t\tflags interval")?;
    }
    if !set.comment.is_empty() {
        writeln!(f, "\t\tcomment {}", quoted(&set.comment))?;
    }
    if !set.elements.is_empty() {
        writeln!(f, "\t\telements = {}", elements_text(&set.elements))?;
    }
    writeln!(f, "\t}}\n")
}

fn write_chain(f: &mut fmt::Formatter<'_>, name: &Name, chain: &Chain, table: &str) -> fmt::Result {
    writeln!(f, "\tchain {name} {{")?;
    if let Some(hook) = chain.hook {
        // As a number: `priority`.
        let priority = if table == GUARD { "filter - 1" } else { FILTER };
        writeln!(f, "\t\t{}", hook_at(hook, priority))?;
    }
    for rule in &chain.rules {
        write_rule(f, "\t\t", rule)?;
    }
    writeln!(f, "\t}}\n")
}

/// Returns the number of the priority that base chains of a table have. The guard comes first: then it can be removed as soon as the
/// table behind it is the new one.
pub(crate) fn priority(table: &str) -> i32 {
    if table == GUARD { FILTER_PRIORITY - 1 } else { FILTER_PRIORITY }
}

pub(crate) fn hook_text(hook: Hook) -> String {
    hook_at(hook, FILTER)
}

fn hook_at(hook: Hook, priority: &str) -> String {
    let hook = match hook {
        Hook::Input => "input",
        Hook::Forward => "forward",
        Hook::Output => "output",
    };
    format!("type filter hook {hook} priority {priority}; policy accept;")
}

pub(crate) fn write_rule(f: &mut impl Write, before: &str, rule: &Rule) -> fmt::Result {
    let mut text = String::new();
    for condition in &rule.matches {
        text.push_str(&match_text(condition));
        text.push(' ');
    }
    let mut counted = text.clone();
    if let Some(counter) = &rule.counter {
        write!(counted, "counter name {counter} ")?;
    }
    let comment = rule.comment.as_ref().map(|comment| format!(" comment {}", quoted(comment)));
    let comment = comment.unwrap_or_default();
    if rule.verdict == Verdict::Reject {
        // Whoever opens a connection of TCP is told as TCP does it, others by ICMP.
        let tcp = counted.replacen(&text, &format!("{text}meta l4proto tcp "), 1);
        writeln!(f, "{before}{tcp}reject with tcp reset{comment}")?;
    }
    writeln!(f, "{before}{counted}{}{comment}", verdict_text(&rule.verdict))
}

fn match_text(condition: &Match) -> String {
    match condition {
        Match::In(fields, set) => format!("{} @{set}", fields_text(fields)),
        Match::NotIn(fields, set) => format!("{} != @{set}", fields_text(fields)),
        Match::Is(field, value) => format!("{} {}", field_text(*field), value_text(*value)),
        Match::Between(field, first, last) => {
            format!("{} {}-{}", field_text(*field), value_text(*first), value_text(*last))
        }
        Match::LoopbackIn => "iifname lo".to_owned(),
        Match::LoopbackOut => "oifname lo".to_owned(),
        Match::Established => "ct state established,related".to_owned(),
        Match::LooseTcp => "ct state new tcp flags & (fin | syn | rst | ack) != syn".to_owned(),
        Match::Multicast => "ip daddr 224.0.0.0/4".to_owned(),
        // On the link: what a router has handed on has less.
        Match::NeighbourDiscovery => "ip6 hoplimit 255 icmpv6 type 133-137".to_owned(),
    }
}

fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Accept => "accept".to_owned(),
        Verdict::Drop => "drop".to_owned(),
        Verdict::Reject => "reject with icmpx admin-prohibited".to_owned(),
        Verdict::Return => "return".to_owned(),
        Verdict::Jump(chain) => format!("jump {chain}"),
        Verdict::Goto(chain) => format!("goto {chain}"),
        Verdict::Log(text) => {
            format!(
                "limit rate {LOG_PER_SECOND}/second burst {LOG_BURST} packets log prefix {}",
                quoted(text)
            )
        }
        Verdict::Map(fields, map) => format!("{} vmap @{map}", fields_text(fields)),
    }
}

fn fields_text(fields: &[Field]) -> String {
    let fields: Vec<&str> = fields.iter().map(|field| field_text(*field)).collect();
    fields.join(" . ")
}

fn field_text(field: Field) -> &'static str {
    match field {
        Field::Source(Family::V4) => "ip saddr",
        Field::Source(Family::V6) => "ip6 saddr",
        Field::Destination(Family::V4) => "ip daddr",
        Field::Destination(Family::V6) => "ip6 daddr",
        Field::OriginalDestination(Family::V4) => "ct original ip daddr",
        Field::OriginalDestination(Family::V6) => "ct original ip6 daddr",
        Field::Protocol => "meta l4proto",
        Field::SourcePort => "th sport",
        Field::Port => "th dport",
        Field::IcmpType(Family::V4) => "icmp type",
        Field::IcmpType(Family::V6) => "icmpv6 type",
        Field::IcmpCode(Family::V4) => "icmp code",
        Field::IcmpCode(Family::V6) => "icmpv6 code",
        Field::IgmpType => "igmp type",
        Field::InterfaceIn => "iifname",
    }
}

pub(crate) fn type_name(field: FieldType) -> &'static str {
    match field {
        FieldType::Address(Family::V4) => "ipv4_addr",
        FieldType::Address(Family::V6) => "ipv6_addr",
        FieldType::Protocol => "inet_proto",
        FieldType::Port => "inet_service",
        FieldType::IcmpType(Family::V4) => "icmp_type",
        FieldType::IcmpType(Family::V6) => "icmpv6_type",
        FieldType::IcmpCode(Family::V4) => "icmp_code",
        FieldType::IcmpCode(Family::V6) => "icmpv6_code",
        FieldType::IgmpType => "igmp_type",
        FieldType::Interface => "ifname",
    }
}

pub(crate) fn elements_text(elements: &Elements) -> String {
    let mut text = String::from("{ ");
    for (key, verdict) in elements {
        if text.len() > 2 {
            text.push_str(",\n\t\t\t     ");
        }
        text.push_str(&key_text(key));
        if let Some(verdict) = verdict {
            text.push_str(" : ");
            text.push_str(&verdict_text(verdict));
        }
    }
    text.push_str(" }");
    text
}

fn key_text(key: &Key) -> String {
    let fields: Vec<String> = key
        .iter()
        .map(|(first, last)| match first == last {
            true => value_text(*first),
            false => format!("{}-{}", value_text(*first), value_text(*last)),
        })
        .collect();
    fields.join(" . ")
}

fn value_text(value: Value) -> String {
    match value {
        Value::Address(address) => address.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Interface(interface) => interface_text(&interface.to_string()),
    }
}

/// A star at the end would mean every interface whose name begins so.
fn interface_text(name: &str) -> String {
    let quoted = quoted(name);
    match quoted.strip_suffix("*\"") {
        Some(rest) => format!("{rest}\\*\""),
        None => quoted,
    }
}

/// Returns a text as a string of nft.
fn quoted(text: &str) -> String {
    format!("\"{}\"", label(text))
}

/// Returns a text as it is kept in the kernel: without characters that could end a string of nft, at most [`COMMENT`] bytes.
pub(crate) fn label(text: &str) -> String {
    let mut clean: String = text
        .chars()
        .map(|c| if matches!(c, '"' | '\\' | '$') || c.is_control() { '\'' } else { c })
        .collect();
    if clean.len() > COMMENT {
        let mut end = COMMENT - 3;
        while !clean.is_char_boundary(end) {
            end -= 1;
        }
        clean.truncate(end);
        clean.push('…');
    }
    clean
}
