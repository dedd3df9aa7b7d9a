//! Which pods are on a machine, and how it reaches them: a manifest of Palisade's own, for machines without a cluster that
//! would say it.
//!
//! ```yaml
//! apiVersion: palisade.dev/v1alpha1
//! kind: Machine
//! metadata: {name: worker-1}
//! pods:
//! - {pod: shop/web, addresses: [10.1.0.7, "fd00::7"], interface: veth-web}
//! - {pod: shop/db, networkNamespace: db}
//! - {pod: shop/job, addresses: [10.1.0.9], networkNamespace: job}   # where it is, from there; what it may be, from here
//! ```

use std::collections::BTreeSet;

use palisade_model::cluster::{Machine, MachinePod};
use smol_str::SmolStr;

use super::{address, items, metadata, no_update};
use crate::apimachinery::field::Path;
use crate::codes;
use crate::decode::{Decode, Reader};
use crate::object::{Header, Kind, Lowered};
use crate::source::tree::{Node, Value};

/// The kind.
pub const MACHINE: Kind = Kind {
    group: "palisade.dev",
    versions: &["v1alpha1"],
    kind: "Machine",
    namespaced: false,
    read,
    update: no_update,
};

/// What a Machine has.
const FIELDS: [&str; 4] = ["apiVersion", "kind", "metadata", "pods"];
/// What one of its pods has.
const POD_FIELDS: [&str; 4] = ["pod", "addresses", "interface", "networkNamespace"];
/// The longest name of an interface that the kernel takes.
const LONGEST_INTERFACE: usize = 15;
/// The longest name of a network namespace: it is a file.
const LONGEST_NAMESPACE: usize = 255;

fn read(header: &Header, node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Lowered> {
    metadata(node, &Path::root(), reader);
    let path = Path::new("pods");
    let mut pods: Vec<MachinePod> = Vec::new();
    for (index, item) in items(node, "pods", &Path::root(), reader).iter().enumerate() {
        let path = path.index(index);
        let Some(pod) = pod(item, &path, reader) else { continue };
        if let Some((field, help)) = said_before(&pod, &pods) {
            reader
                .report(&codes::MACHINE, &path.child(field), "this is another pod's already".to_owned())
                .help = Some(help);
            continue;
        }
        pods.push(pod);
    }
    unknown(node, &Path::root(), &FIELDS, reader);
    Some(Lowered::Machine(Machine { name: header.name.clone(), pods, at: Some(header.at.clone()) }))
}

/// One pod; nothing, and a finding, if it cannot be found by what is written.
fn pod(item: &Node<'_>, path: &Path<'_>, reader: &mut Reader<'_>) -> Option<MachinePod> {
    reader.mapping(item, path)?;
    unknown(item, path, &POD_FIELDS, reader);
    let text = |key: &str, reader: &mut Reader<'_>| {
        let field = item.get(key).filter(|field| !field.is_null())?;
        SmolStr::decode(field, &path.child(key), reader)
    };
    let Some(pod) = text("pod", reader) else {
        if item.get("pod").is_none_or(Node::is_null) {
            refuse(reader, path, "no pod: which one is it?", "write pod: NAMESPACE/NAME");
        }
        return None;
    };
    let named = pod.split_once('/').filter(|(namespace, name)| {
        let fits = |part: &str| !part.is_empty() && !part.contains(['/', ' ']);
        fits(namespace) && fits(name)
    });
    let Some((namespace, name)) = named else {
        let message = format!("{pod:?} is no pod's name");
        refuse(reader, &path.child("pod"), &message, "write NAMESPACE/NAME, e.g. shop/web");
        return None;
    };
    let mut addresses = Vec::new();
    let written = items(item, "addresses", path, reader);
    for (index, item) in written.iter().enumerate() {
        let path = path.child("addresses");
        let path = path.index(index);
        if let Some(text) = SmolStr::decode(item, &path, reader)
            && let Some(address) = address(&text, &path, reader)
            && !addresses.contains(&address)
        {
            addresses.push(address);
        }
    }
    let interface = text("interface", reader);
    if let Some(interface) = &interface
        && !is_interface(interface)
    {
        let message = format!("{interface:?} is no name of an interface");
        let help = "up to 15 characters, without blanks and slashes: `ip link` lists them";
        refuse(reader, &path.child("interface"), &message, help);
        return None;
    }
    let network_namespace = text("networkNamespace", reader);
    if let Some(name) = &network_namespace
        && !is_file_name(name)
    {
        let message = format!("{name:?} is no name of a network namespace");
        refuse(reader, &path.child("networkNamespace"), &message, "`ip netns list` lists them");
        return None;
    }
    match (written.is_empty(), &network_namespace) {
        (true, None) => {
            let help = "write addresses: [10.1.0.7], or networkNamespace: NAME";
            refuse(
                reader,
                path,
                "neither addresses nor networkNamespace: nobody knows where the pod is",
                help,
            );
            None
        }
        _ => Some(MachinePod {
            namespace: namespace.into(),
            name: name.into(),
            addresses,
            interface,
            network_namespace,
            at: Some(reader.location(item.span)),
        }),
    }
}

/// Which field of a pod another one has taken, and a word on which.
fn said_before(pod: &MachinePod, others: &[MachinePod]) -> Option<(&'static str, String)> {
    let taken: BTreeSet<_> = pod.addresses.iter().collect();
    others.iter().find_map(|other| {
        let who = format!("{}/{}", other.namespace, other.name);
        let same = |one: &Option<SmolStr>, two: &Option<SmolStr>| one.is_some() && one == two;
        if (&pod.namespace, &pod.name) == (&other.namespace, &other.name) {
            Some(("pod", format!("{who} is there already: a pod is one entry, with all of its addresses")))
        } else if same(&pod.interface, &other.interface) {
            Some(("interface", format!("it leads to {who}: an interface leads to one pod")))
        } else if same(&pod.network_namespace, &other.network_namespace) {
            Some(("networkNamespace", format!("it is {who}: a network namespace is one pod")))
        } else if let Some(address) = other.addresses.iter().find(|address| taken.contains(address)) {
            Some(("addresses", format!("{address} is an address of {who}")))
        } else {
            None
        }
    })
}

fn refuse(reader: &mut Reader<'_>, path: &Path<'_>, message: &str, help: &str) {
    reader.report(&codes::MACHINE, path, message.to_owned()).help = Some(help.to_owned());
}

/// What the kernel takes for the name of an interface.
fn is_interface(name: &str) -> bool {
    let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    !name.is_empty() && name.len() <= LONGEST_INTERFACE && !name.contains(odd) && ![".", ".."].contains(&name)
}

/// A name in /run/netns, and nowhere else. One that begins with a dash would be an option of `ip`.
fn is_file_name(name: &str) -> bool {
    let odd = |c: char| c == '/' || c.is_whitespace() || c.is_control();
    let fits = !name.is_empty() && name.len() <= LONGEST_NAMESPACE && !name.starts_with('-');
    fits && !name.contains(odd) && ![".", ".."].contains(&name)
}

fn unknown(node: &Node<'_>, path: &Path<'_>, known: &[&str], reader: &mut Reader<'_>) {
    if let Value::Map(entries) = &node.value {
        for entry in entries.iter().filter(|entry| !known.contains(&&*entry.key)) {
            reader.unknown(entry, path, known, None, &mut None);
        }
    }
}

#[cfg(test)]
mod tests {
    use palisade_model::diagnostic::Diagnostic;

    use crate::load::load;
    use crate::source::Limits;
    use crate::source::tree::Source;
    use crate::world::World;

    fn read(pods: &str) -> (World, Vec<Diagnostic>) {
        let text = format!(
            "apiVersion: palisade.dev/v1alpha1\nkind: Machine\nmetadata: {{name: worker-1}}\npods:\n{pods}"
        );
        let (mut world, mut found) = (World::default(), Vec::new());
        load(&Source::new("machine.yaml", text), &Limits::default(), &mut world, &mut found);
        (world, found)
    }

    #[test]
    fn pods_have_addresses_or_are_network_namespaces() {
        let (world, found) = read(
            "- {pod: shop/web, addresses: [10.1.0.7, \"fd00::7\"], interface: veth-web}\n\
             - {pod: shop/db, networkNamespace: db}\n",
        );
        assert!(found.is_empty(), "{found:#?}");
        let machines = world.machines();
        let [machine] = machines.as_slice() else { panic!("{machines:?}") };
        assert_eq!(machine.name, "worker-1");
        assert_eq!(machine.pods.len(), 2);
        assert_eq!((&*machine.pods[0].namespace, &*machine.pods[0].name), ("shop", "web"));
        assert_eq!(machine.pods[0].addresses.len(), 2);
        assert_eq!(machine.pods[0].interface.as_deref(), Some("veth-web"));
        assert_eq!(machine.pods[1].network_namespace.as_deref(), Some("db"));
    }

    #[test]
    fn what_nobody_can_find_is_said_with_its_place_and_what_would_be_right() {
        for (pods, field, message, help) in [
            ("- {addresses: [10.0.0.1]}\n", "pods[0]", "which one", "NAMESPACE/NAME"),
            ("- {pod: web, addresses: [10.0.0.1]}\n", "pods[0].pod", "\"web\"", "shop/web"),
            ("- {pod: shop/web}\n", "pods[0]", "neither", "networkNamespace"),
            ("- {pod: s/w, networkNamespace: ../w}\n", "pods[0].networkNamespace", "\"../w\"", "ip netns"),
            ("- {pod: s/w, networkNamespace: -all}\n", "pods[0].networkNamespace", "\"-all\"", "ip netns"),
            (
                "- {pod: s/w, addresses: [10.0.0.1], interface: an-interface-too-long}\n",
                "pods[0].interface",
                "no name",
                "15",
            ),
            (
                "- {pod: s/w, networkNamespace: w}\n- {pod: s/w, networkNamespace: x}\n",
                "pods[1].pod",
                "already",
                "one entry",
            ),
            (
                "- {pod: s/w, networkNamespace: w}\n- {pod: s/x, networkNamespace: w}\n",
                "pods[1].networkNamespace",
                "already",
                "s/w",
            ),
            (
                "- {pod: s/w, addresses: [10.0.0.1]}\n- {pod: s/x, addresses: [10.0.0.1]}\n",
                "pods[1].addresses",
                "already",
                "10.0.0.1",
            ),
        ] {
            let (_, found) = read(pods);
            let [finding] = found.as_slice() else { panic!("{pods}: {found:#?}") };
            assert_eq!(finding.code.id, "S0016", "{pods}");
            assert_eq!(finding.field, field, "{pods}");
            assert!(finding.message.contains(message), "{pods}: {}", finding.message);
            assert!(finding.help.as_deref().unwrap_or("").contains(help), "{pods}: {:?}", finding.help);
            assert!(finding.location.as_ref().is_some_and(|at| at.line >= 5), "{pods}");
        }
    }

    #[test]
    fn one_wrong_pod_never_hides_the_others() {
        let (world, found) = read(
            "- {pod: shop}\n- {pod: shop/db, networkNamspace: db}\n- {pod: shop/x, addresses: [10.0.0.300]}\n- {pod: a/b, networkNamespace: b}\n",
        );
        assert_eq!(world.machines()[0].pods.len(), 2, "{found:#?}");
        let codes: Vec<&str> = found.iter().map(|finding| finding.code.id).collect();
        assert_eq!(codes, ["S0016", "S0007", "S0016", "S0006"], "{found:#?}");
        assert_eq!(found[1].help.as_deref(), Some("did you mean networkNamespace?"));
    }
}
