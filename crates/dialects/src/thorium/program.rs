//! What Thorium's program does where its document says something else.
//!
//! Facts of version 1.6.1 of March 2026, as far as they can be told from the files. What depends on the moment (caches,
//! pods that were started before a change) is not here.

use palisade_model::cluster::NAMESPACE_NAME_LABEL;

use super::codes;
use super::instance::Instance;
use super::policy::{Home, Peer, Reading, STAGE_LABEL, Who};
use super::types;

/// What is an error here and passed over there.
pub(super) const GOES_OVER: &[&str] =
    &[codes::UNKNOWN_FIELD.id, codes::NULL_DIRECTION.id, codes::BOTH_TOOLS.id, codes::DUPLICATE_BASE.id];

/// What only matters where peers are written, and beside `allowed_all` none are.
pub(super) const NOT_BESIDE_ALL: &[&str] =
    &[codes::EXCEPT_OUTSIDE.id, codes::EXCEPT_ON_ADDRESS.id, codes::CUSTOM.id];

/// Errors with which the program does not start, where they are in its configuration.
pub(super) const DOES_NOT_START: &[&str] = &[
    crate::codes::WRONG_TYPE.id,
    crate::codes::DUPLICATE_KEY.id,
    codes::MISSING_FIELD.id,
    codes::PROTOCOL.id,
];

/// Names of base policies that take the place of a label of the tools' pods.
pub(super) const RESERVED: [&str; 3] = [super::policy::TOOL_LABEL.0, STAGE_LABEL, "group"];

/// Characters of a name that Thorium's client puts into a path as they are.
pub(super) const BREAKS_PATHS: [char; 4] = ['/', '?', '#', ':'];

/// Whether the label by which tools are known is overwritten: policies that are attached still find theirs, by a label
/// of their own.
pub(super) fn hides_stages(instance: &Instance) -> bool {
    instance.reading == Reading::Program
        && instance
            .base()
            .iter()
            .any(|policy| policy.name == STAGE_LABEL && policy.in_force(Reading::Program))
}

/// Whether the API takes a name or a label: lower case letters, digits and `-`, 1 to 63 of them. It counts bytes, and
/// takes letters of any script.
pub(super) fn takes_name(text: &str) -> bool {
    (1..=63).contains(&text.len()) && text.chars().all(|c| c.is_lowercase() || c.is_numeric() || c == '-')
}

/// Whom the program allows, given whom the document does.
pub(super) fn who(rule: &types::Rule, peers: &[Peer]) -> Who {
    if rule.allowed_all == Some(true) {
        return Who::Everybody;
    }
    // It does not know `tools`.
    let known = |peer: &&Peer| match peer {
        Peer::Tool(tool) => rule.allowed_tools.iter().flatten().any(|known| known == tool),
        _ => true,
    };
    let narrowed = |peer: &Peer| match peer {
        Peer::Labels { namespaces: Home::Any, pods } => {
            Peer::Labels { namespaces: Home::Own, pods: pods.clone() }
        }
        peer => peer.clone(),
    };
    let mut all: Vec<Peer> = peers.iter().filter(known).map(narrowed).collect();
    let dns = [(rule.allowed_local, "node-local-dns"), (rule.allowed_internet, "kube-dns")];
    all.extend(dns.into_iter().filter(|(flag, _)| *flag == Some(true)).map(|(_, app)| Peer::Labels {
        namespaces: Home::Labels(vec![(NAMESPACE_NAME_LABEL.into(), "kube-system".into())]),
        pods: vec![("k8s-app".into(), app.into())],
    }));
    // A rule that names nobody is one for everybody.
    if all.is_empty() { Who::Everybody } else { Who::Of(all) }
}
