//! Groups.

use super::{SELECTORS, ip_block, is_multicast, is_set, labels, text};
use crate::antrea::codes;
use crate::apimachinery::field::{self, Path};
use crate::definition::findings::Findings;
use crate::definition::schema::{items, written};
use crate::source::tree::Node;

/// Where the members come from.
const SOURCES: [&str; 8] = [
    SELECTORS[0],
    SELECTORS[1],
    SELECTORS[2],
    SELECTORS[3],
    "ipBlock",
    "ipBlocks",
    "serviceReference",
    "childGroups",
];

/// Everything about a ClusterGroup or a Group, except what depends on other groups.
pub fn group(cluster: bool, name: &str, node: &Node<'_>, findings: &mut Findings<'_, '_>) {
    let Some(spec) = written(node, "spec") else { return };
    let path = Path::new("spec");
    let set: Vec<&str> = SOURCES.into_iter().filter(|source| is_set(spec, source)).collect();
    let fits = match set[..] {
        [] | [_] => true,
        [one, other] => {
            let pair = [one, other];
            pair.contains(&"namespaceSelector")
                && (pair.contains(&"podSelector") || pair.contains(&"externalEntitySelector"))
        }
        _ => false,
    };
    if !fits {
        let message = match cluster {
            true => {
                "At most one of podSelector, externalEntitySelector, serviceReference, ipBlock, ipBlocks or childGroups \
                 can be set for a ClusterGroup"
            }
            false => {
                "At most one of podSelector, externalEntitySelector, serviceReference, ipBlocks or childGroups can be \
                 set for a Group"
            }
        };
        findings.say(&codes::GROUP, &path, message);
    }
    labels(spec, &path, findings);
    blocks(spec, &path, findings);
    let path = path.child("childGroups");
    for (index, child) in items(spec, "childGroups").iter().enumerate() {
        if child.as_str() == Some(name) {
            let message = format!("cannot set a group as its own childGroup: {name}");
            findings.say(&codes::GROUP_NESTING, &path.index(index), field::forbidden(&message));
        }
    }
}

fn blocks(spec: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    let path = path.child("ipBlocks");
    let blocks = items(spec, "ipBlocks");
    for (index, block) in blocks.iter().enumerate() {
        ip_block(block, &path.index(index), findings);
    }
    let multicast: Vec<bool> = blocks.iter().filter_map(|block| is_multicast(text(block, "cidr")?)).collect();
    if multicast.contains(&true) && multicast.contains(&false) {
        let message = "can not set multicast groupAddress together with unicast ip address";
        findings.say(&codes::MULTICAST, &path, message);
    }
}
