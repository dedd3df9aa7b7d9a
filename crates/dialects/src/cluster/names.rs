//! What DNS names stand for: a manifest of Palisade's own, because no Kubernetes object says it.
//!
//! ```yaml
//! apiVersion: palisade.dev/v1alpha1
//! kind: DomainNames
//! metadata: {name: known}
//! names:
//!   api.example.com: [198.51.100.7, "2001:db8::7"]
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{address, metadata, no_update};
use crate::apimachinery::field::Path;
use crate::codes;
use crate::decode::Reader;
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::{Node, Value};

/// The kind.
pub const DOMAIN_NAMES: Kind = Kind {
    group: "palisade.dev",
    versions: &["v1alpha1"],
    kind: "DomainNames",
    namespaced: false,
    read,
    update: no_update,
};

fn read(_: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    metadata(node, &Path::root(), reader);
    let path = Path::new("names");
    let mut names: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    let Some(written) = node.get("names").filter(|written| !written.is_null()) else {
        reader.report(&codes::WRONG_TYPE, &path, "no names: expected a mapping from names to addresses");
        return None;
    };
    for entry in reader.mapping(written, &path)? {
        let path = path.key(&entry.key);
        let name = entry.key.strip_suffix('.').unwrap_or(&entry.key).to_ascii_lowercase();
        let addresses = names.entry(name).or_default();
        // One address may stand without a list.
        if let Value::String(text) = &entry.value.value {
            addresses.extend(address(text, &path, reader));
            continue;
        }
        for (index, item) in reader.list(&entry.value, &path).unwrap_or_default().iter().enumerate() {
            match item.as_str() {
                Some(text) => addresses.extend(address(text, &path.index(index), reader)),
                None => {
                    let message = format!("expected an IP address, found {}", item.value.kind());
                    reader.report(&codes::WRONG_TYPE, &path.index(index), message);
                }
            }
        }
    }
    let known = ["apiVersion", "kind", "metadata", "names"];
    if let Value::Map(entries) = &node.value {
        for entry in entries.iter().filter(|entry| !known.contains(&&*entry.key)) {
            reader.unknown(entry, &Path::root(), &known, None, &mut None);
        }
    }
    Some(Lowered::Names(names))
}
