//! Names of kernel objects: specified digests of what an object is for, equal in every run and different for any other object.
//!
//! ```text
//!   eg_…, in_…   list-chain 1      direction, digest of the list, service or none
//!   pr_…         verdict-chain 1   the rules, as nft reads them
//!   s_…          class-set 1       digest of the classes, family, digest of the class
//!                shared-set 1      digest of the condition, family
//!                content-set 1     types of the key, elements as nft reads them
//!   m_…          peer-map 1        name of the list's chain, family
//!                content-map 1     types of the key, elements as nft reads them
//! ```
//!
//! The encodings are those of [`palisade_flatten::digest`]; the tests pin them.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use palisade_engine::delta::{CompiledRule, RuleId};
use palisade_engine::selection::SetDigest;
use palisade_engine::view::View;
use palisade_flatten::digest::Encoder;
use palisade_flatten::{Digest, RuleDigests};
use palisade_model::address::Family;
use palisade_model::policy::Direction;

use crate::program::{Elements, FieldType, Name, Rule as NftRule};
use crate::text::{elements_text, type_name, write_rule};

/// Digests of the view's rules.
#[derive(Debug, Default)]
pub(crate) struct Digests(BTreeMap<RuleId, RuleDigests>);

/// Maximum length of a name: longer ones are not accepted by every kernel.
const LONGEST: usize = 120;

// === impl Digests ===

impl Digests {
    /// Removes the digests of a rule that changed, or whose number may be given to another rule.
    pub(crate) fn forget(&mut self, rule: RuleId) {
        self.0.remove(&rule);
    }

    /// Returns the digests of a rule.
    pub(crate) fn of(&mut self, view: &View, id: RuleId, rule: &CompiledRule) -> RuleDigests {
        *self.0.entry(id).or_insert_with(|| RuleDigests::new(rule, view))
    }
}

/// Returns the name of the chain of a list, for connections through a service or through none.
pub(crate) fn list_chain(direction: Direction, list: Digest, via: Option<SetDigest>) -> Name {
    let mut encoder = Encoder::new("list-chain 1");
    encoder.line(format_args!("{}", direction_name(direction)));
    encoder.line(format_args!("{list}"));
    encode_via(&mut encoder, via);
    prefixed(direction_prefix(direction), encoder)
}

/// Returns the digest of the peer classes of all lists with rules of these shapes.
pub(crate) fn peer_classes(direction: Direction, shapes: Digest, via: Option<SetDigest>) -> Digest {
    let mut encoder = Encoder::new("peer-classes 1");
    encoder.line(format_args!("{}", direction_name(direction)));
    encoder.line(format_args!("{shapes}"));
    encode_via(&mut encoder, via);
    encoder.finish()
}

/// Returns the name of the set of a class of peers.
pub(crate) fn class_set(classes: Digest, family: Family, class: Digest) -> Name {
    let mut encoder = Encoder::new("class-set 1");
    encoder.line(format_args!("{classes}"));
    encoder.line(format_args!("{}", family_name(family)));
    encoder.line(format_args!("{class}"));
    prefixed("s", encoder)
}

/// Returns the name of the set of a shared condition.
pub(crate) fn shared_set(condition: Digest, family: Family) -> Name {
    let mut encoder = Encoder::new("shared-set 1");
    encoder.line(format_args!("{condition}"));
    encoder.line(format_args!("{}", family_name(family)));
    prefixed("s", encoder)
}

/// Returns the name of the map of a list's peers.
pub(crate) fn peer_map(list: &Name, family: Family) -> Name {
    let mut encoder = Encoder::new("peer-map 1");
    encoder.line(format_args!("{list}"));
    encoder.line(format_args!("{}", family_name(family)));
    prefixed("m", encoder)
}

/// Returns the name of a chain with these rules.
pub(crate) fn verdict_chain(rules: &[NftRule]) -> Name {
    let mut encoder = Encoder::new("verdict-chain 1");
    for rule in rules {
        // A digest takes any text.
        let _ = write_rule(&mut encoder, "", rule);
    }
    prefixed("pr", encoder)
}

/// Returns the name of a set or map with these elements.
pub(crate) fn content(key: &[FieldType], elements: &Elements, is_map: bool) -> Name {
    let (prefix, header) = if is_map { ("m", "content-map 1") } else { ("s", "content-set 1") };
    let mut encoder = Encoder::new(header);
    for field in key {
        encoder.line(format_args!("{}", type_name(*field)));
    }
    encoder.line(format_args!("{}", elements_text(elements)));
    prefixed(prefix, encoder)
}

/// Returns a name for people, made of parts that may have any characters. Where characters are replaced, or the name is too
/// long, a digest distinguishes it from others.
pub(crate) fn readable(parts: &[&str]) -> Name {
    let text = parts.join("/");
    let usable = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
    let mut name: String = text.chars().map(|c| if usable(c) { c } else { '_' }).collect();
    if name != text || name.len() > LONGEST || parts.iter().any(|part| part.contains('/')) {
        let mut encoder = Encoder::new("name 1");
        parts.iter().for_each(|part| encoder.text("part", part));
        name.truncate(LONGEST - 25);
        name = format!("{name}_{}", encoder.finish());
    }
    name.into()
}

/// Returns the prefix of the chains of lists.
pub(crate) fn direction_prefix(direction: Direction) -> &'static str {
    match direction {
        Direction::Egress => "eg",
        Direction::Ingress => "in",
    }
}

fn prefixed(prefix: &str, encoder: Encoder) -> Name {
    format!("{prefix}_{}", encoder.finish()).into()
}

fn encode_via(encoder: &mut Encoder, via: Option<SetDigest>) {
    match via {
        None => encoder.line(format_args!("via none")),
        Some(service) => encoder.line(format_args!("via {service}")),
    }
}

fn direction_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Egress => "egress",
        Direction::Ingress => "ingress",
    }
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}
