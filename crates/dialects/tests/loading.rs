//! What becomes of texts: every kind that is read, lists as kubectl and the API print them, and what is said of the rest.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::snapshot::{Objects, Snapshot};

fn read(name: &str, text: &str) -> (World, Vec<Diagnostic>) {
    let source = Source::new(name, text);
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&source, &Limits::default(), &mut world, &mut found);
    (world, found)
}

fn objects(text: &str) -> Objects {
    let (world, found) = read("t.yaml", text);
    assert!(found.is_empty(), "{found:#?}");
    world.into_objects()
}

/// `code line:column` of everything that was found.
fn found(text: &str) -> Vec<String> {
    let (_, found) = read("t.yaml", text);
    let place = |d: &Diagnostic| {
        d.location.as_ref().map(|at| format!("{}:{}", at.line, at.column)).unwrap_or_default()
    };
    found.iter().map(|d| format!("{} {}", d.code.id, place(d))).collect()
}

#[test]
fn a_pod_as_kubectl_prints_it() {
    let pod = &objects(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  creationTimestamp: \"2026-01-01T00:00:00Z\"\n  generateName: web-6f7-\n  labels: {app: web, pod-template-hash: 6f7}\n  \
         name: web-6f7-x\n  namespace: shop\n  ownerReferences:\n  - {apiVersion: apps/v1, blockOwnerDeletion: true, controller: true, kind: ReplicaSet, name: web-6f7, uid: u}\n  \
         resourceVersion: \"12\"\n  uid: u\nspec:\n  nodeName: n0\n  initContainers:\n  - {name: once, ports: [{name: init, containerPort: 1}]}\n  - {name: side, restartPolicy: Always, ports: [{name: side, containerPort: 2}]}\n  \
         containers:\n  - {name: c, ports: [{name: web, containerPort: 80, protocol: TCP}, {containerPort: 53, protocol: UDP}]}\nstatus:\n  conditions: [{type: Ready, status: \"False\"}]\n  \
         phase: Running\n  podIP: 10.0.0.1\n  podIPs: [{ip: 10.0.0.1}, {ip: \"fd00::1\"}]\n",
    ).pods[0];
    assert_eq!((pod.namespace.as_str(), pod.name.as_str()), ("shop", "web-6f7-x"));
    assert_eq!(pod.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.1", "fd00::1"]);
    assert_eq!(
        pod.ports.iter().map(|port| port.number).collect::<Vec<_>>(),
        [80, 53, 2],
        "sidecars last, init never"
    );
    assert_eq!(
        pod.workload().map(|owner| format!("{} {}", owner.kind, owner.name)).as_deref(),
        Some("Deployment web")
    );
    assert!(!pod.ready && !pod.terminated && !pod.host_network);
    assert_eq!(pod.node.as_deref(), Some("n0"));
}

#[test]
fn every_kind_that_makes_pods_stands_for_one() {
    let template = "template: {metadata: {labels: {app: w}}, spec: {hostNetwork: true, nodeName: node1, containers: [{name: c}]}}";
    for (api, kind) in [
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("v1", "ReplicationController"),
        ("batch/v1", "Job"),
        ("extensions/v1beta1", "Deployment"),
        ("apps/v1beta2", "DaemonSet"),
    ] {
        let text = format!(
            "{{apiVersion: {api}, kind: {kind}, metadata: {{name: w, namespace: x}}, spec: {{{template}}}}}"
        );
        let snapshot = Snapshot::new(objects(&text));
        let pod = &snapshot.pods()[0];
        assert_eq!(
            (pod.name.as_str(), pod.stand_in.as_deref(), pod.labels.get("app")),
            ("w", Some(kind), Some("w"))
        );
        assert!(pod.host_network && pod.addresses.is_empty() && pod.node.is_none());
    }
    let cron = format!(
        "{{apiVersion: batch/v1, kind: CronJob, metadata: {{name: w}}, spec: {{jobTemplate: {{spec: {{{template}}}}}}}}}"
    );
    assert_eq!(Snapshot::new(objects(&cron)).pods()[0].labels.get("app"), Some("w"));
    let over = format!(
        "{{apiVersion: batch/v1, kind: Job, metadata: {{name: w}}, spec: {{{template}}}, status: {{conditions: [{{type: Complete, status: 'True'}}]}}}}"
    );
    assert!(Snapshot::new(objects(&over)).pods()[0].terminated);
}

#[test]
fn services_and_what_is_behind_them() {
    let objects = objects(
        "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 'fd00::a'], selector: {app: a}, ports: [{name: http, port: 80, targetPort: web}, {name: dns, port: 53, protocol: UDP}]}}\n---\n\
         {apiVersion: v1, kind: Service, metadata: {name: headless}, spec: {clusterIP: None, ports: [{port: 80}]}}\n---\n\
         {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s-1, labels: {kubernetes.io/service-name: s}}, addressType: IPv4, ports: [{name: http, port: 8080}], endpoints: [{addresses: [10.0.0.1]}, {addresses: [10.0.0.2], conditions: {ready: false}}]}\n---\n\
         {apiVersion: v1, kind: Endpoints, metadata: {name: old}, subsets: [{addresses: [{ip: 10.0.0.3}], notReadyAddresses: [{ip: 10.0.0.4}], ports: [{port: 1}]}]}\n",
    );
    assert_eq!(objects.services[1].addresses.len(), 2, "headless sorts first");
    assert!(objects.services[0].addresses.is_empty() && objects.services[0].selector().is_none());
    assert_eq!(
        objects.endpoints.iter().map(|e| (e.service.as_str(), e.ready.len())).collect::<Vec<_>>(),
        [("old", 1), ("s", 1)]
    );
}

#[test]
fn lists_load_as_they_are_printed() {
    let pod = |name: &str| format!("{{\"metadata\": {{\"name\": \"{name}\"}}}}");
    let typed =
        format!("{{\"apiVersion\": \"v1\", \"kind\": \"PodList\", \"items\": [{}, {}]}}", pod("a"), pod("b"));
    let (world, found) = read("t.json", &typed);
    assert_eq!((world.len(), found.len()), (2, 0));
    let nested = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Namespace, metadata: {name: x}}]}\n- {apiVersion: v1, kind: Namespace, metadata: {name: z}}\n";
    assert_eq!(objects(nested).namespaces.len(), 2);
    let empty = "apiVersion: v1\nkind: List\nitems: null\n";
    assert_eq!(objects(empty).namespaces.len(), 0);
}

#[test]
fn ten_thousand_documents_in_one_file() {
    let one = |index: usize| format!("---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: n{index}\n");
    assert_eq!(objects(&(0..10_000).map(one).collect::<String>()).namespaces.len(), 10_000);
}

#[test]
fn one_bad_object_never_hides_the_others() {
    let text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: first}\n---\nkind: [broken\n---\napiVersion: v1\nkind: Namespace\nmetadata: {}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: last}\n";
    let (world, found) = read("t.yaml", text);
    assert_eq!(world.iter().map(|loaded| loaded.key.name.as_str()).collect::<Vec<_>>(), ["first", "last"]);
    assert_eq!(found.iter().map(|d| d.code.id).collect::<Vec<_>>(), ["S0002", "S0014"]);
}

#[test]
fn one_bad_line_of_json_lines_never_hides_the_others() {
    let text = "{\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"a\"}}\n{\"kind\": oops}\n\
                {\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"c\"}}\n";
    let (world, found) = read("t.json", text);
    assert_eq!((world.len(), found.len(), found[0].code.id), (2, 1, "S0002"));
}

macro_rules! says {
    ($($name:ident: $text:expr => [$($what:literal),*];)*) => {$(
        #[test]
        fn $name() {
            assert_eq!(found($text), [$($what.to_owned()),*] as [String; 0 $(+ { let _ = $what; 1 })*]);
        }
    )*};
}

says! {
    kinds_of_no_concern: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: example.com/v1\nkind: AllowList\nitems: [10.0.0.1]\n---\napiVersion: v1\nkind: Config\n---\napiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: a}\n" => [];
    documents_without_content: "# nothing\n---\n# nor here\n---\n" => [];
    an_empty_mapping: "{}\n" => ["S0010 1:1"];
    an_empty_mapping_among_others: "---\n{}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n" => ["S0010 2:1"];
    an_empty_mapping_in_a_list: "apiVersion: v1\nkind: List\nitems: [{}, null]\n" => ["S0010 3:9", "S0008 3:13"];
    an_empty_mapping_in_a_list_of_policies: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicyList\nitems: [{}, null]\n" => ["S0014 3:9", "S0008 3:13"];
    values_of_a_chart: "values: 1\n" => ["S0010 1:1"];
    a_kind_without_a_version: "kind: Widget\nmetadata: {name: a}\n" => ["S0010 1:7"];
    an_empty_list_as_a_document: "[]\n" => ["S0008 1:1"];
    null_as_a_document: "null\n" => ["S0008 1:1"];
    a_number_as_a_document: "5\n" => ["S0008 1:1"];
    tests_beside_manifests: "kind: PolicyTest\nname: a\n" => [];
    unknown_kind_in_our_group: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicies\nmetadata: {name: a}\n" => ["S0009 2:7"];
    unknown_version_in_our_group: "apiVersion: policy.networking.k8s.io/v1\nkind: AdminNetworkPolicy\nmetadata: {name: a}\n" => ["S0009 2:7"];
    a_policy_in_the_wrong_group: "apiVersion: v1\nkind: NetworkPolicy\nmetadata: {name: a}\n" => ["S0009 2:7"];
    a_policy_of_another_system: "apiVersion: cilium.io/v2\nkind: CiliumNetworkPolicy\nmetadata: {name: a}\n" => ["S0011 2:7"];
    a_policy_in_a_misspelled_group: "apiVersion: networking/v1\nkind: NetworkPolicy\nmetadata: {name: a}\n" => ["S0009 2:7"];
    a_kind_in_the_wrong_case: "apiVersion: networking.k8s.io/v1\nkind: networkpolicy\nmetadata: {name: a}\n" => ["S0009 2:7"];
    a_list_in_the_wrong_case: "apiVersion: v1\nkind: list\nitems: []\n" => ["S0009 2:7"];
    a_list_that_is_none: "apiVersion: v1\nkind: List\nitems: {a: b}\n" => ["S0006 3:8"];
    a_forgotten_line_between_objects: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec: {}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n" => ["S0005 5:1", "S0005 6:1", "S0005 7:1"];
    a_key_twice_in_a_pod: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: []\n  containers: []\n" => ["S0005 6:3"];
    a_namespace_that_is_none: "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: [x]}\n" => ["S0014 3:32"];
    host_network_as_text: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {hostNetwork: 'true'}\n" => ["S0006 4:21"];
    a_container_port_as_text: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{ports: [{containerPort: '80'}]}]}\n" => ["S0006 4:46"];
    a_node_that_yaml_reads_as_a_boolean: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {nodeName: n}\n" => ["S0006 4:18"];
    a_pod_address_that_is_a_number: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nstatus: {podIPs: [{ip: 10}]}\n" => ["S0006 4:24"];
    no_api_version: "kind: NetworkPolicy\nmetadata: {name: a}\n" => ["S0010 1:7"];
    no_kind: "apiVersion: v1\nmetadata: {name: a}\n" => ["S0010 1:1"];
    not_an_object: "- a\n- b\n" => ["S0008 1:1"];
    no_name: "apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n" => ["S0014 3:11"];
    twice: "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n" => ["S0012 5:1"];
    a_key_twice: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec:\n  ingress: []\n  ingress: []\n" => ["S0005 6:3"];
    yaml_booleans_are_no_names: "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {app: no}}\n" => ["S0006 3:35"];
    a_label_that_is_a_number: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: a}\nspec:\n  podSelector:\n    matchLabels: {v: 1}\n" => ["S0006 6:22"];
    a_bad_address: "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nstatus: {podIP: 10.0.0}\n" => ["S0006 4:17"];
}

#[test]
fn names_and_labels_that_are_no_text_are_reported_and_read_as_written() {
    let (world, _) =
        read("t.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, labels: {app: no, tier: b}}\n");
    assert_eq!(world.len(), 1);
}

#[test]
fn a_static_pod_has_no_maker() {
    let pod = |name: &str, owner: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: kube-system, ownerReferences: [{owner}]}}}}\n"
        )
    };
    let text = pod("etcd", "{apiVersion: v1, kind: Node, name: n0, uid: u, controller: true}")
        + &pod("old", "{kind: Node, name: n0, controller: true}")
        + &pod("proxy", "{apiVersion: apps/v1, kind: DaemonSet, name: kube-proxy, uid: u, controller: true}")
        + &pod("run", "{apiVersion: example.com/v1, kind: Node, name: n0, uid: u, controller: true}");
    let pods = objects(&text).pods;
    let makers: Vec<Option<&str>> =
        pods.iter().map(|pod| pod.owner.as_ref().map(|owner| owner.kind.as_str())).collect();
    assert_eq!(makers, [None, None, Some("DaemonSet"), Some("Node")]);
}
