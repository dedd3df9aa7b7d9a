//! Refusals of queries with an end that matches no endpoint, with suggestions.

use std::collections::BTreeSet;

use palisade_model::cluster::Pod;
use palisade_model::flow::Glob;
use palisade_model::label::{Operator, Selector};
use palisade_model::nearest::nearest;
use palisade_model::snapshot::Snapshot;

use super::{QueryEndpoints, QueryRefusal};

/// Returns why an end matches no endpoint.
pub(super) fn no_match(snapshot: &Snapshot, ends: &QueryEndpoints, text: &str) -> QueryRefusal {
    let end = text.to_owned();
    match ends {
        QueryEndpoints::Pods { namespace, name, selector } => {
            QueryRefusal::Nobody { end, near: suggestions(snapshot, namespace, name, selector, text) }
        }
        QueryEndpoints::Node(name) => {
            let names = snapshot.nodes().iter().map(|node| node.name.as_str());
            let near = nearest(name, names).into_iter().map(|name| format!("node:{name}")).collect();
            QueryRefusal::Node { name: name.to_string(), near }
        }
        QueryEndpoints::Addresses(..) => QueryRefusal::Owned(end),
        QueryEndpoints::Internet => QueryRefusal::NoPair,
    }
}

/// Returns ends similar to the written one that match some endpoint.
fn suggestions(
    snapshot: &Snapshot,
    namespace: &Glob,
    name: &Glob,
    selector: &Selector,
    text: &str,
) -> Vec<String> {
    let living = || snapshot.pods().iter().filter(|pod| !pod.terminated);
    if let Some(wanted) = namespace.exact()
        && !living().any(|pod| pod.namespace == wanted)
    {
        let there: BTreeSet<&str> = living().map(|pod| pod.namespace.as_str()).collect();
        let near = nearest(wanted, there);
        return near.into_iter().map(|near| text.replacen(wanted, near, 1)).collect();
    }
    let here: Vec<&Pod> = living().filter(|pod| namespace.matches(&pod.namespace)).collect();
    if let Some(wanted) = name.exact() {
        let makers = here.iter().flat_map(|pod| snapshot.makers(pod)).map(|maker| maker.name);
        let names: BTreeSet<_> = makers.chain(here.iter().map(|pod| pod.name.clone())).collect();
        let near = nearest(wanted, names.iter().map(|name| name.as_str()));
        return near.into_iter().map(|near| format!("{namespace}/{near}")).collect();
    }
    label_suggestions(&here, selector, text)
}

/// Returns the end with another key or value, for the first requirement that no pod meets.
fn label_suggestions(here: &[&Pod], selector: &Selector, text: &str) -> Vec<String> {
    for requirement in selector.requirements() {
        let key = requirement.key.as_str();
        let values: BTreeSet<&str> = here.iter().filter_map(|pod| pod.labels.get(key)).collect();
        let instead = |wanted: &str, near: Vec<&str>| -> Vec<String> {
            near.into_iter().map(|near| text.replacen(wanted, near, 1)).collect()
        };
        match &requirement.operator {
            Operator::NotIn(_) | Operator::DoesNotExist => {}
            _ if values.is_empty() => {
                let keys: BTreeSet<&str> =
                    here.iter().flat_map(|pod| pod.labels.iter()).map(|(key, _)| key).collect();
                return instead(key, nearest(key, keys));
            }
            Operator::In(wanted) if !wanted.iter().any(|wanted| values.contains(wanted.as_str())) => {
                let of = |wanted: &str| {
                    let near = nearest(wanted, values.iter().copied());
                    // The key may contain the value: only the text behind it is replaced.
                    let (head, tail) = text.split_at(text.find(key).map_or(0, |at| at + key.len()));
                    near.into_iter()
                        .map(|near| format!("{head}{}", tail.replacen(wanted, near, 1)))
                        .collect::<Vec<_>>()
                };
                return wanted.iter().flat_map(|wanted| of(wanted)).take(3).collect();
            }
            _ => {}
        }
    }
    Vec::new()
}
