//! What definitions do not check, and an implementation cannot do without: metadata, and the inside of selectors.

use super::findings::Findings;
use super::schema::{items, written};
use crate::apimachinery::field::Path;
use crate::apimachinery::selector as labels;
use crate::meta::ObjectMeta;
use crate::source::tree::{Node, Value};

/// Checks `metadata`. A namespace on a cluster-scoped kind is no mistake: the API server drops it without a word.
pub fn metadata(written: Option<&ObjectMeta>, findings: &mut Findings<'_, '_>) {
    let empty = ObjectMeta::default();
    let written = written.unwrap_or(&empty);
    let path = Path::new("metadata");
    let sink = &mut findings.sink(findings.codes.metadata);
    written.check_name(&path, sink);
    written.check_maps(&path, sink);
}

/// Checks a label selector.
pub fn selector(node: &Node<'_>, path: &Path<'_>, findings: &mut Findings<'_, '_>) {
    if let Some(Value::Map(entries)) = written(node, "matchLabels").map(|labels| &labels.value) {
        let pairs = entries.iter().filter_map(|entry| Some((&*entry.key, entry.value.as_str()?)));
        labels::labels(&path.child("matchLabels"), pairs, &mut findings.sink(findings.codes.selector));
    }
    let path = path.child("matchExpressions");
    for (index, node) in items(node, "matchExpressions").iter().enumerate() {
        requirement(node, &path.index(index), labels::Options::default(), findings);
    }
}

/// Checks one requirement of a label selector.
pub fn requirement(
    node: &Node<'_>,
    path: &Path<'_>,
    options: labels::Options,
    findings: &mut Findings<'_, '_>,
) {
    let text = |key| node.get(key).and_then(Node::as_str);
    let values = match written(node, "values").map(|values| &values.value) {
        None => Some(Vec::new()),
        Some(Value::List(values)) => values.iter().map(Node::as_str).collect::<Option<Vec<&str>>>(),
        Some(_) => None,
    };
    // What is missing or of the wrong type, the definition has said.
    if let (Some(key), Some(operator), Some(values)) = (text("key"), text("operator"), values) {
        let requirement = labels::Requirement { key, operator, values: &values };
        labels::requirement(path, &requirement, options, &mut findings.sink(findings.codes.selector));
    }
}
