//! Ingresses and routes: every shape that is read, what is said of the broken ones, and what is behind them.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use palisade_dialects::load::load;
use palisade_dialects::object;
use palisade_dialects::source::Limits;
use palisade_dialects::source::documents;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::entrance::{BackendPort, Entrance};
use palisade_model::policy::ServiceName;
use palisade_model::snapshot::{Dangling, Snapshot};
use palisade_model::traffic::Protocol;

fn read(text: &str) -> (Snapshot, Vec<Diagnostic>) {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("t.yaml", text), &Limits::default(), &mut world, &mut found);
    (Snapshot::new(world.into_objects()), found)
}

/// An object in namespace x, whose spec stands in the fourth line.
fn object(api_version: &str, kind: &str, spec: &str) -> String {
    format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: e, namespace: x}}\nspec: {{{spec}}}\n---\n"
    )
}

/// `namespace/service port` of every backend.
fn backends(entrance: &Entrance) -> Vec<String> {
    entrance.backends.iter().map(|backend| format!("{} {}", backend.service, backend.port)).collect()
}

/// One line a shape: where it leads, with nothing to say about it.
macro_rules! leads {
    ($($name:ident: $api:literal $kind:literal $spec:literal => [$($backend:literal),*];)*) => {$(
        #[test]
        fn $name() {
            let (snapshot, found) = read(&object($api, $kind, $spec));
            assert!(found.is_empty(), "{found:#?}");
            let [entrance] = snapshot.entrances() else { panic!("{:?}", snapshot.entrances()) };
            assert_eq!(entrance.to_string(), format!("{} x/e", $kind));
            let want: Vec<&str> = vec![$($backend),*];
            assert_eq!(backends(entrance), want);
        }
    )*};
}

/// One line a broken shape: what is said, and what is left of it.
macro_rules! says {
    ($($name:ident: $api:literal $kind:literal $spec:literal => [$($what:literal),*] [$($backend:literal),*];)*) => {$(
        #[test]
        fn $name() {
            let (snapshot, found) = read(&object($api, $kind, $spec));
            let said = |d: &Diagnostic| {
                let at = d.location.as_ref().unwrap();
                format!("{} {} {}:{}", d.code.id, d.field, at.line, at.column)
            };
            let (got, want): (Vec<String>, Vec<&str>) = (found.iter().map(said).collect(), vec![$($what),*]);
            assert_eq!(got, want, "{found:#?}");
            let want: Vec<&str> = vec![$($backend),*];
            assert_eq!(backends(&snapshot.entrances()[0]), want);
            assert!(found.iter().filter(|d| d.code.id == "S0017").all(|d| d.help.is_some()), "{found:#?}");
        }
    )*};
}

leads! {
    ingress_by_number_and_name: "networking.k8s.io/v1" "Ingress" "ingressClassName: nginx, tls: [{hosts: [a]}], rules: [{host: a, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}, {path: /b, backend: {service: {name: db, port: {name: sql}}}}]}}]"
        => ["x/web port 80", "x/db port sql"];
    ingress_with_a_default: "networking.k8s.io/v1" "Ingress" "defaultBackend: {service: {name: web, port: {number: 80}}}, rules: [{host: a}]" => ["x/web port 80"];
    ingress_to_a_bucket: "networking.k8s.io/v1" "Ingress" "defaultBackend: {resource: {apiGroup: k8s.example.com, kind: StorageBucket, name: static}}" => [];
    ingress_without_anything: "networking.k8s.io/v1" "Ingress" "" => [];
    ingress_of_before: "networking.k8s.io/v1beta1" "Ingress" "backend: {serviceName: web, servicePort: 80}, rules: [{http: {paths: [{backend: {serviceName: db, servicePort: sql}}]}}]"
        => ["x/web port 80", "x/db port sql"];
    ingress_of_long_before: "extensions/v1beta1" "Ingress" "rules: [{http: {paths: [{backend: {serviceName: web, servicePort: 80}}]}}]" => ["x/web port 80"];
    route_to_every_port: "route.openshift.io/v1" "Route" "host: a, to: {kind: Service, name: web, weight: 100}, wildcardPolicy: None" => ["x/web every port"];
    route_to_several: "route.openshift.io/v1" "Route" "to: {name: web}, alternateBackends: [{kind: Service, name: db}], port: {targetPort: http}"
        => ["x/web target port http", "x/db target port http"];
    route_to_a_number: "route.openshift.io/v1" "Route" "to: {kind: Service, name: web}, port: {targetPort: 8080}" => ["x/web target port 8080"];
    route_to_a_number_in_quotes: "route.openshift.io/v1" "Route" "to: {kind: Service, name: web}, port: {targetPort: '8080'}" => ["x/web target port 8080"];
    http_route: "gateway.networking.k8s.io/v1" "HTTPRoute" "parentRefs: [{name: gw}], rules: [{matches: [{path: {value: /}}], backendRefs: [{name: web, port: 80, weight: 9}, {group: '', kind: Service, name: db, namespace: z, port: 81}]}]"
        => ["x/web port 80", "z/db port 81"];
    http_route_to_something_else: "gateway.networking.k8s.io/v1beta1" "HTTPRoute" "rules: [{backendRefs: [{kind: ServiceImport, group: multicluster.x-k8s.io, name: web, port: 80}]}, {filters: [{type: RequestRedirect, requestRedirect: {port: 443}}]}]" => [];
    http_route_with_copies: "gateway.networking.k8s.io/v1" "HTTPRoute" "rules: [{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: copy, port: 1}}}], backendRefs: [{name: web, port: 80, filters: [{type: RequestMirror, requestMirror: {backendRef: {name: copy, port: 2}}}]}]}]"
        => ["x/copy port 1", "x/web port 80", "x/copy port 2"];
    http_route_of_a_mesh: "gateway.networking.k8s.io/v1" "HTTPRoute" "parentRefs: [{kind: Service, group: '', name: web}], rules: [{backendRefs: [{name: web, port: 80}]}]" => [];
    http_route_of_a_mesh_and_a_gateway: "gateway.networking.k8s.io/v1" "HTTPRoute" "parentRefs: [{kind: Service, group: '', name: web}, {name: gw}], rules: [{backendRefs: [{name: web, port: 80}]}]" => ["x/web port 80"];
    grpc_route: "gateway.networking.k8s.io/v1" "GRPCRoute" "rules: [{backendRefs: [{name: web, port: 80}]}]" => ["x/web port 80"];
    tls_route: "gateway.networking.k8s.io/v1alpha3" "TLSRoute" "rules: [{backendRefs: [{name: web, port: 443}]}]" => ["x/web port 443"];
    tcp_route: "gateway.networking.k8s.io/v1alpha2" "TCPRoute" "rules: [{backendRefs: [{name: web, port: 80}]}]" => ["x/web port 80"];
    udp_route: "gateway.networking.k8s.io/v1alpha2" "UDPRoute" "rules: [{backendRefs: [{name: dns, port: 53}]}]" => ["x/dns port 53"];
}

says! {
    no_mapping: "networking.k8s.io/v1" "Ingress" "rules: [a], defaultBackend: web" => ["S0006 spec.defaultBackend 4:36", "S0006 spec.rules[0] 4:16"] [];
    no_list: "networking.k8s.io/v1" "Ingress" "rules: {http: {}}" => ["S0006 spec.rules 4:15"] [];
    no_http: "networking.k8s.io/v1" "Ingress" "rules: [{http: [a]}, {http: {paths: a}}]" => ["S0006 spec.rules[0].http 4:23", "S0006 spec.rules[1].http.paths 4:44"] [];
    no_backend: "networking.k8s.io/v1" "Ingress" "rules: [{http: {paths: [{path: /}, {backend: web}]}}]"
        => ["S0017 spec.rules[0].http.paths[0] 4:32", "S0006 spec.rules[0].http.paths[1].backend 4:53"] [];
    the_old_form_in_the_new_version: "networking.k8s.io/v1" "Ingress" "backend: {serviceName: web, servicePort: 80}, rules: [{http: {paths: [{backend: {serviceName: web, servicePort: 80}}]}}]"
        => ["S0017 spec.backend 4:17", "S0017 spec.rules[0].http.paths[0].backend 4:88"] [];
    the_new_form_in_the_old_version: "extensions/v1beta1" "Ingress" "defaultBackend: {}, rules: [{http: {paths: [{backend: {service: {name: web, port: {number: 80}}}}]}}]"
        => ["S0017 spec.defaultBackend 4:24", "S0017 spec.rules[0].http.paths[0].backend 4:62"] [];
    no_service: "networking.k8s.io/v1" "Ingress" "defaultBackend: {service: {port: {number: 80}}}" => ["S0017 spec.defaultBackend.service 4:34"] [];
    a_service_that_is_a_number: "networking.k8s.io/v1" "Ingress" "defaultBackend: {service: {name: 7, port: {number: 80}}}" => ["S0006 spec.defaultBackend.service.name 4:41"] ["x/7 port 80"];
    a_service_that_is_a_list: "networking.k8s.io/v1" "Ingress" "defaultBackend: {service: {name: [web], port: {number: 80}}}" => ["S0006 spec.defaultBackend.service.name 4:41"] [];
    no_port: "networking.k8s.io/v1" "Ingress" "defaultBackend: {service: {name: web}}" => ["S0017 spec.defaultBackend.service.port 4:34"] ["x/web every port"];
    an_empty_port: "networking.k8s.io/v1" "Ingress" "defaultBackend: {service: {name: web, port: {name: ''}}}" => ["S0017 spec.defaultBackend.service.port 4:52"] ["x/web every port"];
    a_port_that_is_no_mapping: "networking.k8s.io/v1" "Ingress" "defaultBackend: {service: {name: web, port: 80}}" => ["S0006 spec.defaultBackend.service.port 4:52"] ["x/web every port"];
    a_number_as_text: "networking.k8s.io/v1" "Ingress" "defaultBackend: {service: {name: web, port: {number: '80'}}}" => ["S0006 spec.defaultBackend.service.port.number 4:61"] ["x/web every port"];
    a_number_that_is_no_port: "networking.k8s.io/v1" "Ingress" "defaultBackend: {service: {name: web, port: {number: 65536}}}" => ["S0017 spec.defaultBackend.service.port.number 4:61"] ["x/web every port"];
    number_and_name: "networking.k8s.io/v1" "Ingress" "defaultBackend: {service: {name: web, port: {number: 80, name: http}}}" => ["S0017 spec.defaultBackend.service.port 4:52"] ["x/web every port"];
    no_port_before: "extensions/v1beta1" "Ingress" "backend: {serviceName: web}" => ["S0017 spec.backend.servicePort 4:17"] ["x/web every port"];
    a_port_before_that_is_a_list: "extensions/v1beta1" "Ingress" "backend: {serviceName: web, servicePort: [80]}" => ["S0006 spec.backend.servicePort 4:49"] ["x/web every port"];
    a_route_to_nowhere: "route.openshift.io/v1" "Route" "host: a" => ["S0017 spec 4:7"] [];
    a_route_to_no_service: "route.openshift.io/v1" "Route" "to: {kind: Deployment, name: web}, alternateBackends: [{kind: Service}, a]"
        => ["S0017 spec.to.kind 4:19", "S0006 spec.alternateBackends[1] 4:80", "S0017 spec.alternateBackends[0] 4:63"] [];
    a_route_without_a_target_port: "route.openshift.io/v1" "Route" "to: {name: web}, port: {}" => ["S0017 spec.port.targetPort 4:31"] ["x/web every port"];
    a_route_to_port_zero: "route.openshift.io/v1" "Route" "to: {name: web}, port: {targetPort: 0}" => ["S0017 spec.port.targetPort 4:44"] ["x/web every port"];
    a_reference_without_a_port: "gateway.networking.k8s.io/v1" "HTTPRoute" "rules: [{backendRefs: [{name: web}, {port: 80}, b, {name: web, port: http}, {name: web, namespace: [x], port: 80}, {name: web, namespace: no, port: 80}]}]"
        => ["S0006 spec.rules[0].backendRefs[2] 4:56", "S0017 spec.rules[0].backendRefs[0].port 4:31", "S0017 spec.rules[0].backendRefs[1] 4:44", "S0006 spec.rules[0].backendRefs[3].port 4:77", "S0006 spec.rules[0].backendRefs[4].namespace 4:107", "S0006 spec.rules[0].backendRefs[5].namespace 4:146"]
           ["x/web every port", "x/web every port", "no/web port 80"];
}

/// Two pods of x behind two Services, a stand-in behind a third, and others without pods.
const CLUSTER: &str = "\
{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x, labels: {app: web}}, spec: {containers: [{name: c, ports: [{name: web, containerPort: 8080}]}]}, status: {podIP: 10.0.0.1}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b, namespace: x, labels: {app: web}}, spec: {containers: [{name: c, ports: [{name: web, containerPort: 8081}]}]}, status: {podIP: 10.0.0.2}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: x}, spec: {template: {metadata: {labels: {app: shop}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: x}, spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: web}, {name: metrics, port: 9100}, {name: dns, port: 53, protocol: UDP}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: shop, namespace: x}, spec: {selector: {app: shop}, ports: [{port: 80, targetPort: 8000}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: listed, namespace: x}, spec: {ports: [{name: http, port: 80}]}}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: listed-1, namespace: x, labels: {kubernetes.io/service-name: listed}}, addressType: IPv4, ports: [{name: http, port: 7000}], endpoints: [{addresses: [10.0.0.2]}, {addresses: [203.0.113.7]}]}
---
{apiVersion: v1, kind: Service, metadata: {name: empty, namespace: x}, spec: {selector: {app: none}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: elsewhere, namespace: x}, spec: {type: ExternalName, externalName: example.com, selector: {app: web}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: kept, namespace: x}, spec: {ports: [{port: 80}]}}
---
";

/// `pod protocol/port` of everything behind the one entrance.
fn behind(text: &str) -> Vec<String> {
    let (snapshot, found) = read(&format!("{CLUSTER}{text}"));
    assert!(found.is_empty(), "{found:#?}");
    let [entrance] = snapshot.entrances() else { panic!("{:?}", snapshot.entrances()) };
    let openings = snapshot.behind(entrance);
    openings.iter().map(|o| format!("{} {}/{}", snapshot.pods()[o.pod].name, o.protocol, o.port)).collect()
}

fn ingress(service: &str, port: &str) -> String {
    let backend = format!("defaultBackend: {{service: {{name: {service}, port: {{{port}}}}}}}");
    object("networking.k8s.io/v1", "Ingress", &backend)
}

fn route(service: &str, port: &str) -> String {
    object("route.openshift.io/v1", "Route", &format!("to: {{name: {service}}}, {port}"))
}

#[test]
fn an_ingress_reaches_the_pods_at_their_own_ports() {
    assert_eq!(behind(&ingress("web", "number: 80")), ["a tcp/8080", "b tcp/8081"]);
    assert_eq!(behind(&ingress("web", "name: metrics")), ["a tcp/9100", "b tcp/9100"]);
    assert_eq!(behind(&ingress("shop", "number: 80")), ["d tcp/8000"], "a stand-in");
    assert_eq!(
        behind(&ingress("listed", "name: http")),
        ["b tcp/7000"],
        "and an address outside, which is no pod"
    );
    for (service, port) in
        [("web", "number: 8080"), ("web", "name: dns"), ("empty", "number: 80"), ("nowhere", "number: 80")]
    {
        assert!(behind(&ingress(service, port)).is_empty(), "{service} {port}");
    }
}

#[test]
fn a_route_reaches_target_ports() {
    let every = ["a tcp/8080", "a tcp/9100", "b tcp/8081", "b tcp/9100"];
    assert_eq!(behind(&route("web", "")), every, "and no UDP");
    assert_eq!(behind(&route("web", "port: {targetPort: 8080}")), ["a tcp/8080"]);
    assert_eq!(behind(&route("web", "port: {targetPort: http}")), ["a tcp/8080", "b tcp/8081"]);
    assert_eq!(behind(&route("web", "port: {targetPort: web}")), ["a tcp/8080", "b tcp/8081"]);
    assert_eq!(behind(&route("listed", "port: {targetPort: 7000}")), ["b tcp/7000"]);
    assert_eq!(behind(&route("shop", "port: {targetPort: 8000}")), ["d tcp/8000"]);
    assert!(behind(&route("shop", "port: {targetPort: 80}")).is_empty(), "the Service's own port");
}

#[test]
fn a_udp_route_reaches_udp_and_backends_named_twice_are_reached_once() {
    let udp = object(
        "gateway.networking.k8s.io/v1alpha2",
        "UDPRoute",
        "rules: [{backendRefs: [{name: web, port: 53}, {name: web, port: 53}, {name: web, port: 80}]}]",
    );
    assert_eq!(behind(&udp), ["a udp/53", "b udp/53"]);
}

#[test]
fn what_leads_nowhere_says_why() {
    let (snapshot, _) = read(CLUSTER);
    let ask = |service: &str, port: BackendPort| {
        let name = ServiceName { namespace: "x".into(), name: service.into() };
        snapshot.openings(&name, &port, Protocol::Tcp).map(|openings| openings.len())
    };
    assert_eq!(ask("wep", BackendPort::Number(80)), Err(Dangling::NoService));
    assert_eq!(ask("web", BackendPort::Number(81)), Err(Dangling::NoPort));
    assert_eq!(ask("web", BackendPort::Number(53)), Err(Dangling::NoPort), "which is UDP");
    assert_eq!(ask("empty", BackendPort::Number(80)), Err(Dangling::Nobody));
    // Nobody can know who is there.
    assert_eq!(ask("elsewhere", BackendPort::Number(80)), Ok(0));
    assert_eq!(ask("kept", BackendPort::Number(80)), Ok(0));
    assert_eq!(ask("kept", BackendPort::Number(81)), Err(Dangling::NoPort));
}

#[test]
fn backends_know_where_they_stand() {
    let (snapshot, _) = read(&ingress("web", "number: 80"));
    let backend = &snapshot.entrances()[0].backends[0];
    let places = [&backend.service_place, &backend.port_place].map(|place| {
        let at = place.at.as_ref().unwrap();
        format!("{} {}:{}", place.field, at.line, at.column)
    });
    assert_eq!(places, ["spec.defaultBackend.service.name 4:41", "spec.defaultBackend.service.port 4:52"]);
}

#[test]
fn worlds_apply_replace_and_delete_them() {
    let mut world = World::default();
    let apply = |text: &str, world: &mut World| {
        let source = Source::new("t.yaml", text);
        for document in documents(&source, &Limits::default()) {
            let loaded = object::read(&source, &document.unwrap(), &mut Vec::new());
            world.insert(loaded.unwrap());
        }
        world.objects().entrances.iter().flat_map(backends).collect::<Vec<_>>()
    };
    let one = |text: &str| text.trim_end_matches("---\n").to_owned();
    assert_eq!(apply(&one(&ingress("web", "number: 80")), &mut world), ["x/web port 80"]);
    assert_eq!(apply(&one(&ingress("db", "number: 80")), &mut world), ["x/db port 80"]);
    let nowhere = object("networking.k8s.io/v1", "Ingress", "");
    assert!(apply(&one(&nowhere), &mut world).is_empty(), "one that leads nowhere replaces one that did");
    assert_eq!(apply(&one(&ingress("web", "number: 80")), &mut world).len(), 1);
    assert!(world.remove(Some("networking.k8s.io"), "Ingress", Some("x"), "e"));
    assert!(world.objects().entrances.is_empty());
}

#[test]
fn lists_and_misspelled_kinds() {
    let (snapshot, found) = read(
        "apiVersion: networking.k8s.io/v1\nkind: IngressList\nitems:\n- {metadata: {name: b}}\n- {metadata: {name: a}}\n",
    );
    assert!(found.is_empty(), "{found:#?}");
    let names: Vec<String> = snapshot.entrances().iter().map(ToString::to_string).collect();
    assert_eq!(names, ["Ingress default/a", "Ingress default/b"]);
    for (api, kind, help) in [
        ("gateway.networking.k8s.io/v1", "HttpRoute", Some("did you mean HTTPRoute?")),
        ("networking.k8s.io/v1", "Ingresses", Some("did you mean Ingress?")),
        ("networking.k8s.io/v2", "Ingress", Some("Ingress is read as networking.k8s.io/v1")),
        ("gateway.networking.k8s.io/v1", "Gateway", None),
        ("networking.k8s.io/v1", "IngressClass", None),
        ("serving.knative.dev/v1", "Route", None),
    ] {
        let (snapshot, found) = read(&object(api, kind, ""));
        assert_eq!(found.first().and_then(|d| d.help.as_deref()), help, "{api} {kind}: {found:#?}");
        assert!(snapshot.entrances().is_empty());
    }
}
