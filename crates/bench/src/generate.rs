//! A world of any size, the same in every run: namespaces, nodes, pods and NetworkPolicies, as an API server has them.
//!
//! The shape is that of a company's cluster: every namespace belongs to a team and an environment and runs the same
//! kinds of applications; every application has a few pods of one ReplicaSet; every namespace starts from default-deny
//! with DNS allowed, and its other policies open what one application needs. What the API server adds (uid,
//! creationTimestamp, status) is there as far as it weighs something, because real input consists mostly of it.

use serde_json::{Value, json};

use crate::random::Random;

/// How large a world is.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Size {
    /// Namespaces.
    pub namespaces: usize,
    /// Nodes.
    pub nodes: usize,
    /// Pods, spread evenly over the namespaces.
    pub pods: usize,
    /// NetworkPolicies, spread evenly over the namespaces.
    pub policies: usize,
}

/// Pods of one application in one namespace.
const REPLICAS: usize = 5;

/// An application: its name, its tier, and the port it serves with the port's name.
type App = (&'static str, &'static str, u16, &'static str);

const APPS: &[App] = &[
    ("gateway", "edge", 8443, "https"),
    ("storefront", "edge", 8080, "http"),
    ("checkout", "service", 8080, "http"),
    ("catalog", "service", 8080, "http"),
    ("inventory", "service", 9090, "grpc"),
    ("payments", "service", 9090, "grpc"),
    ("shipping", "service", 9090, "grpc"),
    ("accounts", "service", 8080, "http"),
    ("recommender", "service", 8501, "rest"),
    ("search", "service", 9200, "search"),
    ("mailer", "worker", 2525, "smtp"),
    ("invoicer", "worker", 8081, "admin"),
    ("reporter", "worker", 8081, "admin"),
    ("postgres", "data", 5432, "postgres"),
    ("redis", "data", 6379, "redis"),
    ("kafka", "data", 9092, "kafka"),
    ("minio", "data", 9000, "s3"),
    ("prometheus", "operations", 9091, "metrics"),
    ("collector", "operations", 4317, "otlp"),
    ("toolbox", "operations", 8000, "http"),
];

/// The cluster's DNS, in the first namespace instead of the first application.
const DNS: App = ("kube-dns", "operations", 53, "dns-tcp");

const ENVIRONMENTS: &[&str] = &["production", "staging", "development"];
const TEAMS: &[&str] = &["shop", "logistics", "identity", "data", "platform", "growth", "support"];

// === impl Size ===

impl Size {
    /// The world that the figures in docs/performance.md are about.
    pub const LARGE: Size = Size { namespaces: 100, nodes: 50, pods: 10_000, policies: 10_000 };
    /// A tenth of it.
    pub const SMALL: Size = Size { namespaces: 10, nodes: 5, pods: 1_000, policies: 1_000 };
}

/// The objects of a world: namespaces first, then nodes, pods and policies.
pub fn world(size: Size) -> Vec<Value> {
    let random = &mut Random::new(1);
    let mut objects = Vec::with_capacity(size.namespaces + size.nodes + size.pods + size.policies);
    objects.extend((0..size.namespaces).map(|index| namespace(index, random)));
    objects.extend((0..size.nodes).map(|index| node(index, random)));
    for index in 0..size.pods {
        let (namespace, replica_set) = (index % size.namespaces, index / size.namespaces / REPLICAS);
        let app = if namespace == 0 && replica_set == 0 { &DNS } else { &APPS[replica_set % APPS.len()] };
        // Pods are dealt out over the namespaces: the hash of a ReplicaSet is one that each of its pods can compute.
        let hash = Random::new((namespace * size.pods + replica_set) as u64).word(9);
        objects.push(pod(index, namespace, app, &hash, size.nodes, random));
    }
    for index in 0..size.policies {
        objects.push(policy(index % size.namespaces, index / size.namespaces, size.namespaces, random));
    }
    objects
}

fn namespace_name(index: usize) -> String {
    if index == 0 {
        return "kube-system".to_owned();
    }
    format!("{}-{index:03}", TEAMS[index % TEAMS.len()])
}

fn metadata(name: &str, namespace: Option<&str>, random: &mut Random) -> Value {
    let mut meta = json!({
        "creationTimestamp": format!("2025-0{}-1{}T0{}:2{}:4{}Z", 1 + random.below(9), random.below(10),
            random.below(10), random.below(10), random.below(10)),
        "name": name,
        "resourceVersion": (1_000_000 + random.below(9_000_000)).to_string(),
        "uid": random.uuid(),
    });
    if let Some(namespace) = namespace {
        meta["namespace"] = namespace.into();
    }
    meta
}

fn namespace(index: usize, random: &mut Random) -> Value {
    let name = namespace_name(index);
    let mut meta = metadata(&name, None, random);
    meta["labels"] = json!({
        "environment": ENVIRONMENTS[index % ENVIRONMENTS.len()],
        "kubernetes.io/metadata.name": name,
        "pod-security.kubernetes.io/enforce": "restricted",
        "team": TEAMS[index % TEAMS.len()],
    });
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": meta,
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    })
}

fn node_address(index: usize) -> String {
    format!("192.168.{}.{}", index / 200, 10 + index % 200)
}

fn node(index: usize, random: &mut Random) -> Value {
    let name = format!("worker-{index:03}");
    let mut meta = metadata(&name, None, random);
    meta["labels"] = json!({
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": format!("zone-{}", index % 3),
    });
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "status": {"addresses": [
            {"address": node_address(index), "type": "InternalIP"},
            {"address": name, "type": "Hostname"},
        ]},
    })
}

/// A pod as `kubectl get` prints it, without volumes, tolerations and resources.
fn pod(index: usize, namespace: usize, app: &App, hash: &str, nodes: usize, random: &mut Random) -> Value {
    let (name, tier, port, port_name) = *app;
    let replica_set = format!("{name}-{hash}");
    let mut meta =
        metadata(&format!("{replica_set}-{}", random.word(5)), Some(&namespace_name(namespace)), random);
    meta["generateName"] = format!("{replica_set}-").into();
    meta["labels"] = json!({
        "app": name,
        "app.kubernetes.io/name": name,
        "k8s-app": name,
        "pod-template-hash": hash,
        "tier": tier,
        "version": format!("v{}", 1 + namespace % 4),
    });
    meta["ownerReferences"] = json!([{
        "apiVersion": "apps/v1",
        "blockOwnerDeletion": true,
        "controller": true,
        "kind": "ReplicaSet",
        "name": replica_set,
        "uid": random.uuid(),
    }]);
    let node = index % nodes.max(1);
    let address = format!("10.{}.{}.{}", 64 + index / 65_536, index / 256 % 256, index % 256);
    let started = meta["creationTimestamp"].clone();
    let condition = |kind: &str| json!({"lastProbeTime": null, "lastTransitionTime": started, "status": "True", "type": kind});
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {
            "containers": [{
                "image": format!("registry.example.com/{name}:1.{}.{}", namespace % 7, index % 11),
                "imagePullPolicy": "IfNotPresent",
                "name": name,
                "ports": [
                    {"containerPort": port, "name": port_name, "protocol": "TCP"},
                    {"containerPort": 15020, "name": "telemetry", "protocol": "TCP"},
                ],
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": true,
            "nodeName": format!("worker-{node:03}"),
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "serviceAccountName": name,
            "terminationGracePeriodSeconds": 30,
        },
        "status": {
            "conditions": conditions,
            "containerStatuses": [{
                "containerID": format!("containerd://{:016x}{:016x}", random.number(), random.number()),
                "name": name,
                "ready": true,
                "restartCount": random.below(3),
                "started": true,
                "state": {"running": {"startedAt": started}},
            }],
            "hostIP": node_address(node),
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "qosClass": "BestEffort",
            "startTime": started,
        },
    })
}

/// The policy of a number in a namespace: the first two are for everybody there, the others each for one application.
fn policy(namespace: usize, number: usize, namespaces: usize, random: &mut Random) -> Value {
    let (name, port, port_name) = {
        let app = &APPS[number % APPS.len()];
        (app.0, app.2, app.3)
    };
    let other = random.choose(APPS).0;
    let tcp = |port: Value| json!({"port": port, "protocol": "TCP"});
    let dns = json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]);
    let to_dns = json!({
        "ports": dns,
        "to": [{
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
            "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
        }],
    });
    let app = |app: &str| json!({"matchLabels": {"app": app}});
    let (what, spec) = match number {
        0 => ("default-deny".to_owned(), json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})),
        1 => {
            let spec = json!({"egress": [to_dns], "podSelector": {}, "policyTypes": ["Egress"]});
            ("allow-dns".to_owned(), spec)
        }
        _ => match random.below(5) {
            // One application calls another of its namespace.
            0 => {
                let ingress = json!([{"from": [{"podSelector": app(other)}], "ports": [tcp(port.into())]}]);
                let spec = json!({"ingress": ingress, "podSelector": app(name), "policyTypes": ["Ingress"]});
                (format!("{name}-from-{other}"), spec)
            }
            // Other teams call it, by the port's name.
            1 => {
                let environment = *random.choose(ENVIRONMENTS);
                let teams = [*random.choose(TEAMS), *random.choose(TEAMS)];
                let from = json!([{
                    "namespaceSelector": {"matchExpressions": [
                        {"key": "team", "operator": "In", "values": teams},
                        {"key": "environment", "operator": "In", "values": [environment]},
                    ]},
                    "podSelector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["data"]}]},
                }]);
                let ingress =
                    json!([{"from": from, "ports": [tcp(port_name.into()), tcp("telemetry".into())]}]);
                let spec = json!({"ingress": ingress, "podSelector": app(name), "policyTypes": ["Ingress"]});
                (format!("{name}-from-teams"), spec)
            }
            // It calls services outside, but nothing inside by address.
            2 => {
                let block =
                    json!({"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"]});
                let partner = format!("203.0.{}.0/24", random.below(256));
                let to = json!([{"ipBlock": block}, {"ipBlock": {"cidr": partner}}]);
                let egress = json!([{"ports": [tcp(443.into())], "to": to}]);
                let spec = json!({"egress": egress, "podSelector": app(name), "policyTypes": ["Egress"]});
                (format!("{name}-to-internet"), spec)
            }
            // It calls one application here and one of another namespace, and looks up their names.
            3 => {
                let elsewhere = namespace_name(random.below(namespaces));
                let to = json!([
                    {"podSelector": app(other)},
                    {
                        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": elsewhere}},
                        "podSelector": app(other),
                    },
                ]);
                let ports = json!([tcp(8080.into()), {"endPort": 9100, "port": 9000, "protocol": "TCP"}]);
                let egress = json!([{"ports": ports, "to": to}, to_dns]);
                let spec = json!({"egress": egress, "podSelector": app(name), "policyTypes": ["Egress"]});
                (format!("{name}-to-{other}"), spec)
            }
            // It is scraped, and answers its neighbours of one tier.
            _ => {
                let scraper = json!({
                    "namespaceSelector": {"matchLabels": {"team": "platform"}},
                    "podSelector": app("prometheus"),
                });
                let near = json!({"podSelector": {"matchLabels": {"tier": "service", "version": "v1"}}});
                let ingress = json!([
                    {"from": [scraper], "ports": [tcp(15020.into())]},
                    {"from": [near], "ports": [tcp(port.into())]},
                ]);
                let spec = json!({"ingress": ingress, "podSelector": app(name), "policyTypes": ["Ingress"]});
                (format!("{name}-neighbours"), spec)
            }
        },
    };
    let name = if number < 2 { what } else { format!("{what}-{number}") };
    let mut meta = metadata(&name, Some(&namespace_name(namespace)), random);
    meta["generation"] = (1 + random.below(4)).into();
    let mut object = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta,
        "spec": spec,
    });
    // Every fourth was made by `kubectl apply`, which keeps what was applied in an annotation.
    if number.is_multiple_of(4) {
        let applied = json!({
            "apiVersion": object["apiVersion"],
            "kind": object["kind"],
            "metadata": {"annotations": {}, "name": name, "namespace": namespace_name(namespace)},
            "spec": object["spec"],
        });
        let annotation = format!("{applied}\n");
        object["metadata"]["annotations"] =
            json!({"kubectl.kubernetes.io/last-applied-configuration": annotation});
    }
    object
}
