//! One object: which kind it is, who reads it, and what it becomes.
//!
//! [`KINDS`] is the list of everything Palisade reads. A dialect adds its kinds there and is done: loading, `apply`
//! and `delete` in tests, and admission all go through it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use palisade_model::cluster::{Endpoints, Machine, Namespace, Node as ClusterNode, Pod, Service, Workload};
use palisade_model::diagnostic::{Diagnostic, Location, Subject};
use palisade_model::entrance::Entrance;
use palisade_model::group::{Group, TierObject};
use palisade_model::nearest::nearest;
use palisade_model::policy::{Dialect, Object, Policy};
use smol_str::SmolStr;

use crate::apimachinery::field::Path;
use crate::codes;
use crate::decode::Reader;
use crate::source::tree::{Node, Source, Value};
use crate::{admin, antrea, cluster, kubernetes, kubernetes_beta, thorium};

/// A kind that Palisade reads.
pub struct Kind {
    /// The API group, empty for the core.
    pub group: &'static str,
    /// The versions it is read in.
    pub versions: &'static [&'static str],
    /// The kind.
    pub kind: &'static str,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Reads, validates as for a creation, and lowers.
    pub read: fn(&Header, &Node<'_>, &mut Reader<'_>) -> Option<Lowered>,
    /// Validates an update from the first object to the second.
    pub update: fn(&Node<'_>, &Header, &Node<'_>, &mut Reader<'_>),
}

/// What an object becomes.
#[derive(Debug, Clone, PartialEq)]
pub enum Lowered {
    /// A namespace, with the policy its annotation makes (2016).
    Namespace(Namespace, Option<Policy>),
    /// A pod.
    Pod(Pod),
    /// Something that makes pods.
    Workload(Workload),
    /// A node.
    Node(ClusterNode),
    /// A service.
    Service(Service),
    /// What is behind a service.
    Endpoints(Vec<Endpoints>),
    /// What leads to services from outside.
    Entrance(Entrance),
    /// A policy.
    Policy(Policy),
    /// A tier.
    Tier(TierObject),
    /// A group.
    Group(Group),
    /// What DNS names stand for.
    Names(BTreeMap<String, Vec<IpAddr>>),
    /// Which pods are on a machine, and how it reaches them.
    Machine(Machine),
    /// A document of Thorium, which means nothing alone.
    Thorium(Arc<thorium::Part>),
}

/// What every object says about itself, read before anything else.
#[derive(Debug, Clone)]
pub struct Header {
    /// The API group, empty for the core.
    pub group: SmolStr,
    /// The version.
    pub version: SmolStr,
    /// The kind.
    pub kind: SmolStr,
    /// The namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<SmolStr>,
    /// The name; empty when there is none.
    pub name: SmolStr,
    /// `metadata.generation`.
    pub generation: i64,
    /// Where the object starts.
    pub at: Location,
}

/// The identity of an object: what `apply` replaces and `delete` removes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The API group.
    pub group: SmolStr,
    /// The kind.
    pub kind: SmolStr,
    /// The namespace; `None` for cluster-scoped kinds.
    pub namespace: Option<SmolStr>,
    /// The name.
    pub name: SmolStr,
}

/// An object that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// Which object.
    pub key: Key,
    /// What it became.
    pub lowered: Lowered,
    /// Where it is written.
    pub at: Location,
    /// Where those fields of its spec are written through which it depends on other objects.
    pub places: Vec<(&'static str, Location)>,
}

/// Where objects go that name no namespace, as with kubectl.
pub const DEFAULT_NAMESPACE: &str = "default";

/// Everything that Palisade reads.
pub static KINDS: &[Kind] = &[
    cluster::namespace::NAMESPACE,
    cluster::pod::POD,
    cluster::node::NODE,
    cluster::service::SERVICE,
    cluster::endpoints::ENDPOINTS,
    cluster::endpoints::ENDPOINT_SLICE,
    cluster::names::DOMAIN_NAMES,
    cluster::machine::MACHINE,
    cluster::workload::REPLICATION_CONTROLLER,
    cluster::workload::DEPLOYMENT,
    cluster::workload::STATEFUL_SET,
    cluster::workload::DAEMON_SET,
    cluster::workload::REPLICA_SET,
    cluster::workload::DEPLOYMENT_EXTENSIONS,
    cluster::workload::DAEMON_SET_EXTENSIONS,
    cluster::workload::REPLICA_SET_EXTENSIONS,
    cluster::workload::JOB,
    cluster::workload::CRON_JOB,
    kubernetes::NETWORK_POLICY,
    kubernetes_beta::NETWORK_POLICY,
    admin::ADMIN_NETWORK_POLICY,
    admin::BASELINE_ADMIN_NETWORK_POLICY,
    admin::CLUSTER_NETWORK_POLICY,
    antrea::TIER,
    antrea::CLUSTER_NETWORK_POLICY,
    antrea::NETWORK_POLICY,
    antrea::CLUSTER_GROUP,
    antrea::NAMESPACED_GROUP,
    antrea::EXTERNAL_ENTITY,
    antrea::TIER_2020,
    antrea::CLUSTER_NETWORK_POLICY_2020,
    antrea::NETWORK_POLICY_2020,
    thorium::THORIUM_CLUSTER,
    cluster::entrance::ingress::INGRESS,
    cluster::entrance::ingress::INGRESS_EXTENSIONS,
    cluster::entrance::route::ROUTE,
    cluster::entrance::gateway::HTTP_ROUTE,
    cluster::entrance::gateway::GRPC_ROUTE,
    cluster::entrance::gateway::TLS_ROUTE,
    cluster::entrance::gateway::TCP_ROUTE,
    cluster::entrance::gateway::UDP_ROUTE,
];

/// Groups in which every kind should be known, with the kinds that exist there and are no concern of ours.
static OUR_GROUPS: &[(&str, &[&str])] = &[
    ("networking.k8s.io", &["IngressClass", "IPAddress", "ServiceCIDR"]),
    ("policy.networking.k8s.io", &[]),
    ("discovery.k8s.io", &[]),
    ("palisade.dev", &[]),
    (
        antrea::GROUP,
        &[
            "AntreaAgentInfo",
            "AntreaControllerInfo",
            "AntreaNodeConfig",
            "BGPPolicy",
            "Egress",
            "ExternalIPPool",
            "ExternalNode",
            "FlowExporterDestination",
            "IPPool",
            "NodeLatencyMonitor",
            "PacketCapture",
            "SupportBundleCollection",
            "Traceflow",
            "TrafficControl",
        ],
    ),
    (antrea::GROUP_2020, &[]),
    (thorium::THORIUM_CLUSTER.group, &[]),
];

/// Network policies of other systems: leaving them out changes answers, so it is said.
static FOREIGN_POLICIES: &[(&str, &[&str])] = &[
    ("cilium.io", &["CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"]),
    (
        "projectcalico.org",
        &["NetworkPolicy", "GlobalNetworkPolicy", "StagedNetworkPolicy", "StagedGlobalNetworkPolicy"],
    ),
    ("crd.projectcalico.org", &["NetworkPolicy", "GlobalNetworkPolicy"]),
    ("k8s.ovn.org", &["EgressFirewall"]),
    ("k8s.cni.cncf.io", &["MultiNetworkPolicy"]),
];

/// Documents that live beside manifests and are read by `palisade test`.
const TEST_KINDS: &[&str] = &["PolicyTest", "AdmissionTest", "ThoriumCases"];

/// Reads one object; what is wrong goes to `found`. `None` when it is none of ours or cannot be used.
pub fn read(source: &Source, node: &Node<'_>, found: &mut Vec<Diagnostic>) -> Option<Loaded> {
    if let Some(shape) = thorium::Shape::of(node) {
        return thorium::read(shape, source, node, found);
    }
    let (kind, header) = recognise(source, node, found)?;
    let mut reader = Reader::new(source, node, found);
    reader.subject = header.subject();
    let metadata = Path::new("metadata");
    if header.name.is_empty() {
        let message = "the object has no name that can be read: it is left out";
        reader.report(&codes::NO_NAME, &metadata.child("name"), message);
        return None;
    }
    if let Some(namespace) = node.get("metadata").and_then(|meta| meta.get("namespace"))
        && matches!(namespace.value, Value::List(_) | Value::Map(_))
    {
        // Nobody knows where it belongs, and anywhere else it would mean something else.
        let message =
            format!("the namespace is {}, not text: the object is left out", namespace.value.kind());
        reader.report(&codes::NO_NAME, &metadata.child("namespace"), message);
        return None;
    }
    let lowered = (kind.read)(&header, node, &mut reader)?;
    let places = antrea::places(&header, node, &reader);
    Some(Loaded { key: header.key(), lowered, at: header.at, places })
}

/// Returns the dialect of a kind, and of the tiers and groups that belong to it.
pub fn dialect_of(group: &str, kind: &str) -> Option<Dialect> {
    Some(match (group, kind) {
        ("networking.k8s.io", _) => Dialect::NetworkPolicy,
        ("extensions", _) | ("", "Namespace") => Dialect::NetworkPolicy2016,
        ("policy.networking.k8s.io", "ClusterNetworkPolicy") => Dialect::ClusterNetworkPolicy,
        ("policy.networking.k8s.io", _) => Dialect::AdminNetworkPolicy,
        (antrea::GROUP, _) => Dialect::Antrea,
        (antrea::GROUP_2020, _) => Dialect::Antrea2020,
        ("", kind) if thorium::is_kind(kind) => Dialect::Thorium,
        _ => return None,
    })
}

/// Reads one object only for what is wrong with it. Unlike [`read`] it leaves a missing name to the kind's own checks.
pub fn review(source: &Source, node: &Node<'_>, found: &mut Vec<Diagnostic>) {
    if let Some((kind, header)) = recognise(source, node, found) {
        let mut reader = Reader::new(source, node, found);
        reader.subject = header.subject();
        (kind.read)(&header, node, &mut reader);
    }
}

/// Which kind the object is of, if it is one of ours. Says so when it should be and is not.
pub fn recognise(
    source: &Source,
    node: &Node<'_>,
    found: &mut Vec<Diagnostic>,
) -> Option<(&'static Kind, Header)> {
    let mut reader = Reader::new(source, node, found);
    let root = Path::root();
    if !matches!(node.value, Value::Map(_)) {
        let at = reader.location(node.span);
        let message = format!("expected an object, found {}", node.value.kind());
        reader.report_at(&codes::NOT_AN_OBJECT, &root, at, message);
        return None;
    }
    let text = |key: &str| node.get(key).and_then(Node::as_str).unwrap_or("");
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    reader.subject.kind = kind.into();
    reader.subject.name =
        node.get("metadata").and_then(|meta| meta.get("name")).and_then(Node::as_str).unwrap_or("").into();
    if TEST_KINDS.contains(&kind) {
        return None;
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let known = KINDS.iter().find(|k| k.kind == kind && k.group == group && k.versions.contains(&version));
    // What looks like an object of no concern may be a policy that lost its kind to a second one.
    reader.duplicates(node, &root, known.is_some());
    let Some(known) = known else {
        unknown(&mut reader, api_version, group, kind);
        return None;
    };
    Some((known, header(known, group, version, node, &reader)))
}

fn header(kind: &Kind, group: &str, version: &str, node: &Node<'_>, reader: &Reader<'_>) -> Header {
    let meta = node.get("metadata");
    // A name that YAML takes for a number or a boolean is reported when it is read; who is meant is clear.
    let text =
        |key: &str| meta.and_then(|meta| meta.get(key)).and_then(|node| reader.scalar(node)).unwrap_or("");
    let namespace = match text("namespace") {
        "" => DEFAULT_NAMESPACE,
        namespace => namespace,
    };
    let generation = match meta.and_then(|meta| meta.get("generation")).map(|node| &node.value) {
        Some(Value::Integer(generation)) => *generation,
        _ => 0,
    };
    Header {
        group: group.into(),
        version: version.into(),
        kind: kind.kind.into(),
        namespace: kind.namespaced.then(|| namespace.into()),
        name: text("name").into(),
        generation,
        at: reader.location(node.span),
    }
}

fn kinds_of(group: &str) -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(move |kind| kind.group == group)
}

/// Says what may be wrong with a kind that is not read; kinds of no concern are passed over.
fn unknown(reader: &mut Reader<'_>, api_version: &str, group: &str, kind: &str) {
    let path = Path::new("kind");
    // Whatever it was meant to be, it is not nothing: a policy may have lost its first lines, or a template its values.
    let missing = match (api_version.is_empty(), kind.is_empty()) {
        (true, true) => Some("neither apiVersion nor kind"),
        (true, false) => Some("no apiVersion"),
        (false, true) => Some("no kind"),
        (false, false) => None,
    };
    if let Some(missing) = missing {
        let help = KINDS.iter().find(|k| k.kind == kind).map(|k| format!("{kind} is {}", k.api_version()));
        reader.report(&codes::NO_KIND, &path, format!("the object has {missing}: it is left out")).help =
            help;
        return;
    }
    if FOREIGN_POLICIES.iter().any(|(foreign, kinds)| *foreign == group && kinds.contains(&kind)) {
        let message = format!("{kind} of {group} is not read: it is left out of every answer");
        reader.report(&codes::FOREIGN_POLICY, &path, message);
        return;
    }
    let in_group = kinds_of(group).find(|k| k.kind == kind);
    let ours = OUR_GROUPS.iter().find(|(name, _)| *name == group);
    let policy = KINDS.iter().find(|k| k.policy() && k.kind.eq_ignore_ascii_case(kind));
    // The core and the workload groups have many kinds of no concern: only what is nearly one of ours is remarked on.
    let near_miss = || {
        let kinds = kinds_of(group).map(|k| k.kind).chain((group.is_empty()).then_some("List"));
        nearest(kind, kinds).into_iter().find(|near| near.len().abs_diff(kind.len()) <= 1)
    };
    let help = if let Some(k) = in_group {
        format!("{kind} is read as {}", k.api_version())
    } else if let Some((_, others)) = ours {
        if others.contains(&kind) {
            return;
        }
        let near = nearest(kind, kinds_of(group).map(|k| k.kind));
        match near.first() {
            Some(near) => format!("did you mean {near}?"),
            None => format!("{group} has {}", kinds_of(group).map(|k| k.kind).collect::<Vec<_>>().join(", ")),
        }
    } else if let Some(k) = policy {
        format!("{} is {}", k.kind, k.api_version())
    } else if let Some(near) = ["", "apps", "batch", "extensions"].contains(&group).then(near_miss).flatten()
    {
        format!("did you mean {near}?")
    } else if let Some(k) = kinds_of(group).find(|k| k.kind.eq_ignore_ascii_case(kind)) {
        format!("did you mean {}?", k.kind)
    } else {
        return;
    };
    reader
        .report(&codes::UNKNOWN_KIND, &path, format!("no kind {kind} in {api_version}: it is left out"))
        .help = Some(help);
}

// === impl Kind ===

impl Kind {
    fn api_version(&self) -> String {
        let version = self.versions.first().copied().unwrap_or("v1");
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    fn policy(&self) -> bool {
        self.kind.ends_with("NetworkPolicy")
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kind({} {})", self.api_version(), self.kind)
    }
}

// === impl Loaded ===

/// A pod or an external entity that no manifest declares.
impl From<Pod> for Loaded {
    fn from(pod: Pod) -> Self {
        let kind = if pod.external { &antrea::EXTERNAL_ENTITY } else { &cluster::pod::POD };
        let (namespace, name) = (Some(pod.namespace.clone()), pod.name.clone());
        Loaded::unwritten(kind, namespace, name, pod.at.clone(), Lowered::Pod(pod))
    }
}

/// A node that no manifest declares.
impl From<ClusterNode> for Loaded {
    fn from(node: ClusterNode) -> Self {
        let (name, at) = (node.name.clone(), node.at.clone());
        Loaded::unwritten(&cluster::node::NODE, None, name, at, Lowered::Node(node))
    }
}

impl Loaded {
    fn unwritten(
        kind: &Kind,
        namespace: Option<SmolStr>,
        name: SmolStr,
        at: Option<Location>,
        lowered: Lowered,
    ) -> Loaded {
        let key = Key { group: kind.group.into(), kind: kind.kind.into(), namespace, name };
        // Nothing reports about an object that was not read, so that its location is never shown.
        let at = at.unwrap_or_else(|| Location { file: "".into(), line: 1, column: 1, width: 1 });
        Loaded { key, lowered, at, places: Vec::new() }
    }
}

// === impl Header ===

impl Header {
    /// The object's identity.
    pub fn key(&self) -> Key {
        Key {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// The object, for a diagnostic.
    pub fn subject(&self) -> Subject {
        Subject { kind: self.kind.clone(), namespace: self.namespace.clone(), name: self.name.clone() }
    }

    /// Returns the object as the origin of rules written in `dialect`.
    pub fn origin(&self, dialect: Dialect) -> Arc<Object> {
        Arc::new(Object {
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            group: self.group.clone(),
            version: self.version.clone(),
            generation: self.generation,
            at: Some(self.at.clone()),
            dialect,
        })
    }
}
