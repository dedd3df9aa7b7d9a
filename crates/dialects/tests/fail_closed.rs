//! Never open by accident: whatever part of a policy cannot be read, no connection that it refused goes through, and
//! something is said about it.
//!
//! Every field of every policy below is broken in every way there is (misspelled, of another type, written twice), one
//! at a time, and every flow of a small world is asked before and after.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use palisade_dialects::load::{load, load_object};
use palisade_dialects::source::tree::{Node, Source, Value};
use palisade_dialects::source::{Limits, documents};
use palisade_dialects::world::World;
use palisade_model::flow::{Flow, FlowPattern};
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::Verdict;
use palisade_model::verdicts::Verdicts;

const WORLD: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: x, labels: {team: red}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: z, labels: {team: blue}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: closed, annotations: {net.beta.kubernetes.io/network-policy: '{\"ingress\":{\"isolation\":\"DefaultDeny\"}}'}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: closed, labels: {app: a}}, spec: {containers: [{name: c}]}, status: {podIP: 10.0.2.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: closed, labels: {app: b}}, spec: {containers: [{name: c}]}, status: {podIP: 10.0.2.2}}
---
{apiVersion: v1, kind: Node, metadata: {name: n0, labels: {zone: a}}, status: {addresses: [{type: InternalIP, address: 172.18.0.2}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x, labels: {app: a}}, spec: {containers: [{name: c, ports: [{name: web, containerPort: 80}]}]}, status: {podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x, labels: {app: b}}, spec: {containers: [{name: c, ports: [{name: web, containerPort: 80}]}]}, status: {podIP: 10.0.0.2}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: z, labels: {app: a}}, spec: {containers: [{name: c}]}, status: {podIP: 10.0.1.1}}
---
{apiVersion: crd.antrea.io/v1alpha2, kind: ExternalEntity, metadata: {name: vm, namespace: x, labels: {app: vm}}, spec: {endpoints: [{ip: 198.51.100.9}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: x}, spec: {type: NodePort, clusterIP: 10.96.0.1, selector: {app: a}, ports: [{port: 80, nodePort: 30080}]}}
";

/// Each of these refuses something, and uses every field of its API.
const POLICIES: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: np, namespace: x}
spec:
  podSelector: {matchLabels: {app: a}, matchExpressions: [{key: app, operator: In, values: [a, c]}]}
  policyTypes: [Ingress, Egress]
  ingress:
  - from:
    - {podSelector: {matchLabels: {app: b}}}
    - {namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchExpressions: [{key: gone, operator: DoesNotExist}]}}
    - {ipBlock: {cidr: 203.0.113.0/24, except: [203.0.113.0/28]}}
    ports: [{protocol: TCP, port: 80, endPort: 80}, {protocol: UDP, port: 53}, {port: web}]
  egress:
  - {to: [{podSelector: {}}], ports: [{port: 81}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: defaulted, namespace: x}
spec:
  podSelector: {matchLabels: {app: a}}
  egress: [{to: [{ipBlock: {cidr: 10.0.1.0/24}}]}]
---
apiVersion: extensions/v1beta1
kind: NetworkPolicy
metadata: {name: beta, namespace: closed}
spec:
  podSelector: {matchLabels: {app: a}}
  ingress: [{from: [{podSelector: {matchLabels: {app: b}}}, {namespaceSelector: {matchLabels: {team: red}}}], ports: [{protocol: TCP, port: 80}]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: x, labels: {team: red}}
spec: {networkPolicy: {ingress: {isolation: DefaultDeny}}}
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: AdminNetworkPolicy
metadata: {name: anp}
spec:
  priority: 10
  subject: {pods: {namespaceSelector: {matchLabels: {team: red}}, podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [b]}]}}}
  ingress:
  - {name: pass, action: Pass, from: [{namespaces: {matchLabels: {team: red}}}], ports: [{portNumber: {protocol: TCP, port: 81}}]}
  - {name: allow, action: Allow, from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: b}}}}], ports: [{namedPort: web}, {portRange: {protocol: UDP, start: 50, end: 60}}]}
  - {name: deny, action: Deny, from: [{namespaces: {matchLabels: {team: blue}}}, {namespaces: {namespaceSelector: {matchLabels: {team: red}}}}], ports: [{portNumber: {port: 80}}]}
  egress:
  - {name: out, action: Deny, to: [{networks: [203.0.113.0/24]}, {nodes: {matchLabels: {zone: a}}}]}
---
apiVersion: policy.networking.k8s.io/v1alpha1
kind: BaselineAdminNetworkPolicy
metadata: {name: default}
spec:
  subject: {namespaces: {matchExpressions: [{key: team, operator: Exists}]}}
  ingress: [{name: in, action: Deny, from: [{namespaces: {sameLabels: [team]}}]}]
  egress: [{name: out, action: Deny, to: [{pods: {namespaceSelector: {matchLabels: {team: blue}}, podSelector: {}}}], ports: [{portNumber: {protocol: TCP, port: 80}}]}]
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: cnp}
spec:
  tier: Admin
  priority: 10
  subject: {namespaces: {matchLabels: {team: red}}}
  ingress:
  - {name: accept, action: Accept, from: [{pods: {podSelector: {matchLabels: {app: b}}}}], protocols: [{destinationNamedPort: web}]}
  - {name: deny, action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 80}}}, {udp: {destinationPort: {range: {start: 50, end: 60}}}}]}
  egress:
  - {name: pass, action: Pass, to: [{namespaces: {matchLabels: {team: red}}}]}
  - {name: deny, action: Deny, to: [{networks: [0.0.0.0/0]}], protocols: [{tcp: {destinationPort: {number: 81}}}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: acnp}
spec:
  tier: platform
  priority: 5.5
  appliedTo:
  - {podSelector: {matchLabels: {app: a}}, namespaceSelector: {matchExpressions: [{key: team, operator: In, values: [red]}]}}
  - {serviceAccount: {name: default, namespace: z}}
  ingress:
  - {name: l7, action: Allow, from: [{podSelector: {matchLabels: {app: b}}}], ports: [{protocol: TCP, port: 80, endPort: 80}], l7Protocols: [{http: {host: example.com, method: GET, path: /}}]}
  - {name: pass, action: Pass, from: [{namespaces: {match: Self}}], ports: [{protocol: UDP, port: 53, sourcePort: 1, sourceEndPort: 9}]}
  - {name: reject, action: Reject, from: [{namespaces: {sameLabels: [team]}}, {nodeSelector: {matchLabels: {zone: a}}}], protocols: [{icmp: {icmpType: 8, icmpCode: 0}}]}
  - {name: drop, action: Drop, enableLogging: true, logLabel: in, from: [{ipBlock: {cidr: 203.0.113.0/24, except: [203.0.113.0/28]}}, {group: reds}, {serviceAccount: {name: default, namespace: x}}]}
  egress:
  - {name: names, action: Drop, to: [{fqdn: '*.example.com'}, {group: blues}], ports: [{port: 81}]}
  - {name: services, action: Drop, toServices: [{name: web, namespace: x}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: nodes}
spec:
  priority: 5
  appliedTo: [{nodeSelector: {matchExpressions: [{key: zone, operator: In, values: [a]}]}}]
  ingress: [{name: in, action: Drop, from: [{ipBlock: {cidr: 203.0.113.0/24}}, {podSelector: {matchLabels: {app: a}}}]}]
  egress: [{name: out, action: Reject, to: [{podSelector: {matchLabels: {app: b}}}]}]
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: gate}
spec:
  priority: 5
  appliedTo: [{service: {name: web, namespace: x}}]
  ingress: [{name: in, action: Reject, from: [{ipBlock: {cidr: 203.0.113.0/26}}]}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: machines, namespace: x}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {app: vm}}}]
  ingress: [{name: in, action: Drop, from: [{podSelector: {matchLabels: {app: a}}}]}]
  egress: [{name: out, action: Drop, to: [{ipBlock: {cidr: 10.0.0.0/16}}]}]
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: annp, namespace: x}
spec:
  priority: 1
  ingress:
  - {action: Drop, appliedTo: [{podSelector: {matchLabels: {app: a}}}], from: [{podSelector: {matchLabels: {app: b}}, namespaceSelector: {}}], ports: [{port: web}]}
  egress:
  - {action: Drop, appliedTo: [{group: own}], to: [{namespaceSelector: {matchLabels: {team: blue}}}]}
---
apiVersion: security.antrea.tanzu.vmware.com/v1alpha1
kind: ClusterNetworkPolicy
metadata: {name: of-2020}
spec:
  tier: securityops
  priority: 5
  appliedTo: [{podSelector: {matchLabels: {app: a}}}, {namespaceSelector: {matchLabels: {team: blue}}}]
  ingress: [{action: Allow, from: [{podSelector: {matchLabels: {app: b}}}], ports: [{protocol: TCP, port: 80}]}, {action: Drop}]
  egress: [{action: Drop, to: [{ipBlock: {cidr: 203.0.113.0/24}}], ports: [{protocol: TCP, port: 80}]}]
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterGroup
metadata: {name: reds}
spec: {namespaceSelector: {matchLabels: {team: red}}, podSelector: {matchExpressions: [{key: app, operator: Exists}]}}
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterGroup
metadata: {name: blues}
spec: {ipBlocks: [{cidr: 10.0.1.0/24, except: [10.0.1.128/25]}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: Group
metadata: {name: own, namespace: x}
spec: {podSelector: {matchLabels: {app: a}}}
---
apiVersion: crd.antrea.io/v1beta1
kind: Group
metadata: {name: own, namespace: x}
spec: {childGroups: [child]}
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterGroup
metadata: {name: machines}
spec: {nodeSelector: {matchLabels: {zone: a}}}
---
apiVersion: crd.antrea.io/v1beta1
kind: Tier
metadata: {name: ours}
spec: {priority: 10, description: before the others}
";

/// Policies that name the groups and the tier above, for those to be broken.
const USERS: &str = "
{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: users}, spec: {priority: 2, appliedTo: [{podSelector: {}}], ingress: [{name: reds, action: Drop, from: [{group: reds}]}], egress: [{name: blues, action: Drop, to: [{group: blues}]}]}}
---
{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: on-machines}, spec: {priority: 2, appliedTo: [{group: machines}], ingress: [{action: Drop}]}}
---
{apiVersion: crd.antrea.io/v1beta1, kind: NetworkPolicy, metadata: {name: user, namespace: x}, spec: {priority: 2, appliedTo: [{group: own}], ingress: [{action: Drop}]}}
---
{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: tiered}, spec: {tier: ours, priority: 2, appliedTo: [{podSelector: {}}], egress: [{name: some, action: Allow, ports: [{port: 80}]}, {name: none, action: Drop}]}}
---
{apiVersion: crd.antrea.io/v1beta1, kind: Group, metadata: {name: child, namespace: x}, spec: {podSelector: {matchLabels: {app: b}}}}
";

fn world() -> World {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("world.yaml", WORLD), &Limits::default(), &mut world, &mut found);
    assert!(found.is_empty(), "{found:#?}");
    world
}

/// The flows of the world with this policy, and what becomes of them.
fn verdicts(source: &Source, policy: &Node<'_>) -> (Vec<(Flow, Verdict)>, Vec<String>) {
    let (mut world, mut found) = (world(), Vec::new());
    if policy.get("kind").and_then(Node::as_str).is_some_and(|kind| kind.ends_with("Group") || kind == "Tier")
    {
        load(&Source::new("users.yaml", USERS), &Limits::default(), &mut world, &mut found);
        assert!(found.is_empty(), "{found:#?}");
    }
    load_object(source, policy, &mut world, &mut found);
    let snapshot = Snapshot::new(world.into_objects());
    let verdicts = Verdicts::new(&snapshot, &Options::default());
    let mut all = Vec::new();
    for traffic in ["tcp/80", "tcp/81", "udp/53", "icmp"] {
        for ends in [
            "*/* -> */*",
            "ip:203.0.113.7 -> */*",
            "ip:203.0.113.77 -> */*",
            "*/* -> ip:203.0.113.7",
            "*/* -> node:n0",
            "node:n0 -> */*",
            "ip:203.0.113.7 -> node:n0",
            "*/* -> x/vm",
            "x/vm -> */*",
        ] {
            let pattern: FlowPattern = format!("{ends} {traffic}").parse().unwrap();
            all.extend(
                snapshot.flows(&pattern).unwrap().into_iter().map(|flow| (flow, verdicts.verdict(&flow))),
            );
        }
    }
    for pattern in ["ip:203.0.113.7 -> svc:x/web tcp/80", "ip:203.0.113.77 -> node:n0 tcp/30080"] {
        let flows = snapshot.flows(&pattern.parse().unwrap()).unwrap();
        all.extend(flows.into_iter().map(|flow| (flow, verdicts.verdict(&flow))));
    }
    (all, found.iter().map(|d| format!("{} {} {}", d.code.id, d.field, d.message)).collect())
}

/// Every way to break one field below a node: the words for it, and the broken copy.
fn broken<'s>(
    node: &Node<'s>,
    path: &str,
    all: &mut Vec<(String, Node<'s>)>,
    put: &dyn Fn(Node<'s>) -> Node<'s>,
) {
    let other = |node: &Node<'s>| {
        let value = match &node.value {
            Value::Map(_) | Value::List(_) => Value::String("?".into()),
            _ => Value::List(Vec::new()),
        };
        Node { value, span: node.span }
    };
    match &node.value {
        Value::Map(entries) => {
            for (index, entry) in entries.iter().enumerate() {
                let path = format!("{path}.{}", entry.key);
                let with = |change: &dyn Fn(&mut Vec<palisade_dialects::source::tree::Entry<'s>>)| {
                    let mut entries = entries.clone();
                    change(&mut entries);
                    put(Node { value: Value::Map(entries), span: node.span })
                };
                // Another label is another policy; every other key is the API's.
                if !path.contains("Labels.") {
                    all.push((
                        format!("{path} misspelled"),
                        with(&|e| e[index].key = format!("{}x", e[index].key).into()),
                    ));
                }
                all.push((
                    format!("{path} of another type"),
                    with(&|e| e[index].value = other(&e[index].value)),
                ));
                all.push((format!("{path} twice"), with(&|e| e.push(e[index].clone()))));
                broken(&entry.value, &path, all, &|value| with(&|e| e[index].value = value.clone()));
            }
        }
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                let path = format!("{path}[{index}]");
                let with = |value: Node<'s>| {
                    let mut items = items.clone();
                    items[index] = value;
                    put(Node { value: Value::List(items), span: node.span })
                };
                all.push((format!("{path} of another type"), with(other(item))));
                broken(item, &path, all, &with);
            }
        }
        _ => {}
    }
}

/// Every way to break one field of a policy's spec.
fn broken_policies<'s>(policy: &Node<'s>) -> Vec<(String, Node<'s>)> {
    let Value::Map(entries) = &policy.value else { panic!("an object") };
    let at = entries.iter().position(|entry| entry.key == "spec").unwrap();
    let put = |spec: Node<'s>| {
        let mut entries = entries.clone();
        entries[at].value = spec;
        Node { value: Value::Map(entries), span: policy.span }
    };
    let mut all = Vec::new();
    broken(&entries[at].value, "spec", &mut all, &put);
    all
}

#[test]
fn what_cannot_be_read_opens_nothing_and_is_reported() {
    let source = Source::new("policies.yaml", POLICIES);
    let limits = Limits::default();
    let mut tried = 0;
    for policy in documents(&source, &limits) {
        let policy = policy.unwrap();
        let kind = policy.get("kind").and_then(Node::as_str).unwrap().to_owned();
        let (before, said) = verdicts(&source, &policy);
        for (how, policy) in broken_policies(&policy) {
            tried += 1;
            let (after, now) = verdicts(&source, &policy);
            assert!(now.iter().any(|one| !said.contains(one)), "{kind}: {how}: nothing is said about it");
            for ((flow, before), (_, after)) in before.iter().zip(&after) {
                let opened = *before != Verdict::Allow && *after == Verdict::Allow;
                assert!(!opened, "{kind}: {how}: {flow:?} was refused and is allowed");
            }
        }
    }
    assert!(tried > 1000, "{tried}");
}
