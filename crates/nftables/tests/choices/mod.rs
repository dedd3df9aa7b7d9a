//! Small worlds that are made of choices: who is there, where, with which labels and addresses, and what policies say. To change a
//! world a little or a lot is to choose some of it otherwise.

use std::collections::BTreeMap;
use std::fmt::Write;

pub const NODES: [&str; 2] = ["n0", "n1"];

/// The choices that a world is made of, by name: a change is a few others.
#[derive(Clone, Default)]
pub struct Choices(pub BTreeMap<String, usize>);

const PEERS: [&str; 12] = [
    "podSelector: {}",
    "podSelector: {matchLabels: {app: a}}",
    "podSelector: {matchLabels: {app: b}}",
    "namespaceSelector: {}",
    "namespaceSelector: {matchLabels: {ns: x}}",
    "namespaceSelector: {matchLabels: {ns: z}}, podSelector: {matchLabels: {app: b}}",
    "namespaceSelector: {}, podSelector: {matchLabels: {app: a}}",
    "namespaceSelector: {matchExpressions: [{key: ns, operator: NotIn, values: [x]}]}",
    "ipBlock: {cidr: 10.0.0.0/30}",
    "ipBlock: {cidr: 0.0.0.0/0, except: [10.0.0.2/32]}",
    "ipBlock: {cidr: '::/0'}",
    "ipBlock: {cidr: 'fd00::/126'}",
];

const PORTS: [&str; 5] = [
    "",
    ", ports: [{port: 80}]",
    ", ports: [{port: 81, protocol: UDP}]",
    ", ports: [{port: web}]",
    ", ports: [{port: 80, endPort: 90}]",
];

/// The manifests of these choices.
pub fn text(choices: &Choices) -> String {
    let said = |name: &str, of: &[&str]| of[choices.0.get(name).copied().unwrap_or(0) % of.len()].to_owned();
    let mut text = String::new();
    for name in ["x", "z"] {
        let label = said(&format!("namespace {name}"), &["ns: x", "ns: z", "other: w"]);
        let _ = write!(
            text,
            "---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{{label}}}}}}}\n"
        );
    }
    for (number, node) in NODES.iter().enumerate() {
        let zone = said(&format!("node {node}"), &["a", "b"]);
        let _ = write!(
            text,
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {node}, labels: {{zone: {zone}}}}}, status: {{addresses: \
             [{{type: InternalIP, address: 172.18.0.{number}}}, {{type: InternalIP, address: 'fd18::{number}'}}]}}}}\n"
        );
    }
    for (number, pod) in ["x/a", "x/b", "z/a", "z/b", "x/c"].iter().enumerate() {
        let (namespace, name) = pod.split_once('/').unwrap();
        let get = |what: &str, of: &[&str]| said(&format!("{what} {pod}"), of);
        if get("there", &["y", "y", "y", "n"]) == "n" {
            continue;
        }
        // Each has its own addresses, or those of the one before or after.
        let own = |by: usize| (number + by) % 5;
        let address = own(choices.0.get(&format!("address {pod}")).copied().unwrap_or(0) % 2);
        let addresses = match get("family", &["both", "four", "six"]).as_str() {
            "both" => format!("[{{ip: 10.0.0.{address}}}, {{ip: 'fd00::{address}'}}]"),
            "four" => format!("[{{ip: 10.0.0.{address}}}]"),
            _ => format!("[{{ip: 'fd00::{address}'}}]"),
        };
        let first = if get("family", &["both", "four", "six"]) == "six" {
            format!("'fd00::{address}'")
        } else {
            format!("10.0.0.{address}")
        };
        let _ = write!(
            text,
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {namespace}, labels: {{app: {}}}}}, spec: \
             {{nodeName: {}, containers: [{{name: c, image: i, ports: [{{name: web, containerPort: {}}}]}}]}}, status: \
             {{podIP: {first}, podIPs: {addresses}}}}}\n",
            get("app", &["a", "b"]),
            get("node", &["n0", "n1"]),
            get("port", &["80", "81"]),
        );
    }
    for (name, selector) in [("s", "app: a"), ("t", "app: b")] {
        let address = said(&format!("service {name}"), &["None", "10.96.0.1", "10.96.0.2"]);
        let address =
            if address == "None" { address } else { format!("{address}{}", if name == "s" { 1 } else { 2 }) };
        let _ = write!(
            text,
            "---\n{{apiVersion: v1, kind: Service, metadata: {{name: {name}, namespace: x}}, spec: {{clusterIP: {address}, selector: \
             {{{selector}}}, ports: [{{port: 80}}]}}}}\n"
        );
    }
    for number in 0..3 {
        let get = |what: &str, of: &[&str]| said(&format!("{what} of policy {number}"), of);
        if get("there", &["y", "n"]) == "n" {
            continue;
        }
        let mut ways = String::new();
        for (way, word) in [("ingress", "from"), ("egress", "to")] {
            let rules: Vec<String> = (0..2)
                .filter(|rule| get(&format!("{way} {rule}"), &["y", "n"]) == "y")
                .map(|rule| {
                    let peer =
                        |nth: usize| format!("{{{}}}", get(&format!("{way} {rule} peer {nth}"), &PEERS));
                    let peers = match get(&format!("{way} {rule} peers"), &["0", "1", "1", "2"]).as_str() {
                        "0" => String::new(),
                        "1" => peer(0),
                        _ => format!("{}, {}", peer(0), peer(1)),
                    };
                    format!("{{{word}: [{peers}]{}}}", get(&format!("{way} {rule} ports"), &PORTS))
                })
                .collect();
            let _ = write!(ways, ", {way}: [{}]", rules.join(", "));
        }
        let _ = write!(
            text,
            "---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: p{number}, namespace: {}}}, spec: \
             {{podSelector: {{{}}}, policyTypes: [{}]{ways}}}}}\n",
            ["x", "x", "z"][number],
            get("subject", &["", "matchLabels: {app: a}", "matchLabels: {app: b}"]),
            get("types", &["Ingress", "Egress", "Ingress, Egress"]),
        );
    }
    for number in 0..3 {
        let get = |what: &str, of: &[&str]| said(&format!("{what} of antrea {number}"), of);
        if get("there", &["y", "n"]) == "n" {
            continue;
        }
        // The last one is of a namespace: whom it means are few, and not looked up by themselves.
        let namespaced = number == 2;
        let subject = get(
            "subject",
            if namespaced {
                &["podSelector: {}", "podSelector: {matchLabels: {app: b}}"]
            } else {
                &[
                    "podSelector: {}",
                    "namespaceSelector: {matchLabels: {ns: x}}",
                    "namespaceSelector: {matchLabels: {ns: x}}, podSelector: {matchLabels: {app: a}}",
                    "podSelector: {matchLabels: {app: b}}",
                    "nodeSelector: {matchLabels: {zone: a}}",
                ]
            },
        );
        let tier = get("tier", &["application", "securityops", "baseline"]);
        let to_service = !subject.starts_with("node");
        let mut ways = String::new();
        for (way, word) in [("ingress", "from"), ("egress", "to")] {
            let rules: Vec<String> = (0..3)
                .filter(|rule| get(&format!("{way} {rule}"), &["y", "n"]) == "y")
                .map(|rule| {
                    let get = |what: &str, of: &[&str]| get(&format!("{way} {rule} {what}"), of);
                    let actions: &[&str] = &["Drop", "Allow", "Reject", "Pass"];
                    // Behind the baseline there is nothing to pass to.
                    let action = get("action", if tier == "baseline" { &actions[..3] } else { actions });
                    let peer = |nth: usize| {
                        let peers = [
                            "podSelector: {matchLabels: {app: a}}",
                            "podSelector: {matchLabels: {app: b}}",
                            "podSelector: {}",
                            "namespaceSelector: {matchLabels: {ns: z}}, podSelector: {matchLabels: {app: b}}",
                            "namespaceSelector: {matchLabels: {ns: x}}",
                            if namespaced { "ipBlock: {cidr: 10.0.0.0/24}" } else { "nodeSelector: {matchLabels: {zone: b}}" },
                            "ipBlock: {cidr: 10.0.0.0/31}",
                            "ipBlock: {cidr: 'fd00::/127'}",
                            "ipBlock: {cidr: 0.0.0.0/0}",
                        ];
                        format!("{{{}}}", get(&format!("peer {nth}"), &peers))
                    };
                    let peers = match get("peers", &["1", "2", "0"]).as_str() {
                        "0" => String::new(),
                        "1" => format!(", {word}: [{}]", peer(0)),
                        _ => format!(", {word}: [{}, {}]", peer(0), peer(1)),
                    };
                    let ports = get("ports", &["", ", ports: [{protocol: TCP, port: 80}]", ", ports: [{protocol: UDP, port: 81}]", ", protocols: [{icmp: {}}]", ", protocols: [{icmp: {icmpCode: 1}}]", ", protocols: [{icmp: {icmpType: 8}}]"]);
                    if to_service && way == "egress" && get("service", &["n", "n", "y"]) == "y" {
                        let service = get("which", &["s", "t"]);
                        return format!("{{name: {way}{rule}, action: {action}, toServices: [{{name: {service}, namespace: x}}]}}");
                    }
                    format!("{{name: {way}{rule}, action: {action}{peers}{ports}}}")
                })
                .collect();
            let _ = write!(ways, ", {way}: [{}]", rules.join(", "));
        }
        let (kind, namespace) =
            if namespaced { ("NetworkPolicy", ", namespace: x") } else { ("ClusterNetworkPolicy", "") };
        let _ = write!(
            text,
            "---\n{{apiVersion: crd.antrea.io/v1beta1, kind: {kind}, metadata: {{name: c{number}{namespace}}}, spec: {{priority: {}, \
             appliedTo: [{{{subject}}}], tier: {tier}{ways}}}}}\n",
            get("priority", &["5", "6", "7"]),
        );
    }
    text
}

/// Every name of a choice that there is, so that some can be made otherwise.
pub fn names() -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    names.extend(
        ["namespace x", "namespace z", "node n0", "node n1", "service s", "service t"].map(String::from),
    );
    for pod in ["x/a", "x/b", "z/a", "z/b", "x/c"] {
        names.extend(
            ["there", "address", "family", "app", "node", "port"].map(|what| format!("{what} {pod}")),
        );
    }
    for (kind, rules) in [("policy", 2), ("antrea", 3)] {
        for number in 0..3 {
            let own = |what: &str| format!("{what} of {kind} {number}");
            names.extend(["there", "subject", "types", "priority", "tier"].map(own));
            for way in ["ingress", "egress"] {
                for rule in 0..rules {
                    names.push(own(&format!("{way} {rule}")));
                    for what in ["action", "peer 0", "peer 1", "peers", "ports", "service", "which"] {
                        names.push(own(&format!("{way} {rule} {what}")));
                    }
                }
            }
        }
    }
    names
}
