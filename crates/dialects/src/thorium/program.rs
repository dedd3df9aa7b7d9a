//! What Thorium's program does where its document says something else.
//!
//! Facts of version 1.6.1 of March 2026, as far as they can be told from the files. What depends on the moment (caches,
//! pods that were started before a change) is not here.

use palisade_model::cluster::NAMESPACE_NAME_LABEL;

use super::codes;
use super::policy::{Home, Peer, Who};
use super::types;

/// What is an error here and passed over there.
pub(super) const GOES_OVER: &[&str] =
    &[codes::UNKNOWN_FIELD.id, codes::NULL_DIRECTION.id, codes::BOTH_TOOLS.id];

/// Names of base policies that take the place of a label which selectors ask for.
pub(super) const RESERVED: [&str; 2] = [super::policy::TOOL_LABEL.0, super::policy::STAGE_LABEL];

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
