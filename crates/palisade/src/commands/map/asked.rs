//! Which rows are asked for: by namespaces, workloads and traffic, as they are written on the command line.

use std::collections::BTreeSet;

use palisade_analysis::map::{INGRESS_CONTROLLER, Map, Workload};
use palisade_model::nearest::nearest;
use palisade_model::traffic::{Protocol, Traffic};
use palisade_report::text::{NL, Text};

pub fn traffic(text: &str) -> Result<Traffic, Text> {
    let traffic: Traffic = text.parse().map_err(|error| text!("--port {text}: {error}"))?;
    match traffic.protocol {
        Protocol::Igmp => Err(text!("--port {text}: a map is about tcp, udp, sctp and icmp")),
        _ => Ok(traffic),
    }
}

/// The workloads that somebody can have named: not whoever serves Ingress objects.
fn named<'m>(map: &'m Map<'_>) -> impl Iterator<Item = &'m Workload> {
    map.workloads.iter().filter(|workload| workload.name.kind != INGRESS_CONTROLLER)
}

/// The namespaces that are asked about.
pub fn namespaces(map: &Map<'_>, wanted: &[String], place: &str) -> Result<Vec<String>, Text> {
    let there: BTreeSet<&str> = named(map).map(|workload| workload.name.namespace.as_str()).collect();
    let known = |name: &String| match there.contains(name.as_str()) {
        true => Ok(name.clone()),
        false => Err(no_such("no pods in namespace", name, place, there.iter().copied())),
    };
    wanted.iter().map(known).collect()
}

/// The workloads that are asked about: by their own names, those of their pods, or of what made them.
pub fn focus(map: &Map<'_>, wanted: &[String], place: &str) -> Result<Vec<usize>, Text> {
    let mut found: Vec<usize> = Vec::new();
    for text in wanted {
        let Some((namespace, name)) = text.split_once('/') else {
            return Err(text!("--focus {text}: expected NAMESPACE/NAME"));
        };
        let snapshot = map.snapshot;
        let made = |pod: usize| {
            let pod = &snapshot.pods()[pod];
            pod.name == name || snapshot.makers(pod).iter().any(|owner| owner.name == name)
        };
        let before = found.len();
        for (at, workload) in map.workloads.iter().enumerate() {
            let own = workload.name.namespace == namespace;
            if own && (workload.name.name == name || workload.pods.iter().any(|pod| made(*pod))) {
                found.push(at);
            }
        }
        if found.len() == before {
            let names: Vec<String> = named(map).map(|workload| workload.name.to_string()).collect();
            return Err(no_such("no workload", text, place, names.iter().map(String::as_str)));
        }
    }
    Ok(found)
}

fn no_such<'n>(what: &str, name: &str, place: &str, there: impl Iterator<Item = &'n str>) -> Text {
    let near = nearest(name, there).join(", ");
    let help = if near.is_empty() { Text::new() } else { text!("{NL}  did you mean {near}?") };
    text!("{what} {name} in {place}{help}")
}
