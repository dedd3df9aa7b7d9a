//! Ingresses and routes that lead nowhere are found, with their place and what may have been meant.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_lint::lint;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::snapshot::Snapshot;

const POD: &str = "{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop, labels: {app: web}}, spec: {containers: [{name: c}]}, status: {podIP: 10.0.0.1}}\n---\n";
const SERVICES: &str = "\
{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080}, {name: dns, port: 53, protocol: UDP}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: empty, namespace: shop}, spec: {selector: {app: none}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: named, namespace: shop}, spec: {selector: {app: web}, ports: [{port: 80, targetPort: web}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: elsewhere, namespace: shop}, spec: {type: ExternalName, externalName: example.com, selector: {app: web}, ports: [{port: 80}]}}
---
";

fn check(text: &str) -> Vec<Diagnostic> {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("t.yaml", text), &Limits::default(), &mut world, &mut found);
    found.extend(lint(&Snapshot::new(world.into_objects())));
    found
}

fn ingress(service: &str, port: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: web, namespace: shop}}\nspec:\n  rules:\n  - http:\n      paths:\n      - backend:\n          service:\n            name: {service}\n            port: {{{port}}}\n"
    )
}

fn route(service: &str, port: &str) -> String {
    format!(
        "apiVersion: route.openshift.io/v1\nkind: Route\nmetadata: {{name: web, namespace: shop}}\nspec:\n  to: {{kind: Service, name: {service}}}\n{port}"
    )
}

/// `code field line` of the one finding, its message, and its help.
fn one(text: &str) -> (String, String, String) {
    let found = check(text);
    let [finding] = found.as_slice() else { panic!("{text}\n{found:#?}") };
    // The place in the last document: everything before is one line an object.
    let before = text.lines().take_while(|line| !line.starts_with("apiVersion")).count();
    let line = finding.location.as_ref().unwrap().line as usize - before;
    assert_eq!(finding.subject.as_ref().unwrap().name, "web");
    (
        format!("{} {} {line}", finding.code.id, finding.field),
        finding.message.clone(),
        finding.help.clone().unwrap_or_default(),
    )
}

fn all(text: &str) -> String {
    format!("{POD}{SERVICES}{text}")
}

#[test]
fn a_service_that_does_not_exist() {
    let (place, message, help) = one(&all(&ingress("wep", "number: 80")));
    assert_eq!(place, "L0115 spec.rules[0].http.paths[0].backend.service.name 10");
    assert_eq!(message, "Ingress shop/web names service shop/wep, which does not exist");
    assert_eq!(help, "did you mean web?");
    let (place, message, _) = one(&all(&route("wep", "")));
    assert_eq!(place, "L0115 spec.to.name 5");
    assert_eq!(message, "Route shop/web names service shop/wep, which does not exist");
    // Without a Service of the namespace nobody can know.
    assert!(check(&format!("{POD}{}", ingress("wep", "number: 80"))).is_empty());
}

#[test]
fn a_port_that_the_service_does_not_have() {
    let (place, message, help) = one(&all(&ingress("web", "number: 8080")));
    assert_eq!(place, "L0116 spec.rules[0].http.paths[0].backend.service.port 11");
    assert_eq!(
        message,
        "Ingress shop/web names port 8080 of service shop/web, which has http tcp/80 to 8080, dns udp/53"
    );
    assert_eq!(help, "8080 is the port on the pods: write the Service's own, 80");
    let (_, _, help) = one(&all(&ingress("web", "name: htpt")));
    assert_eq!(help, "did you mean http?");
    let (_, _, help) = one(&all(&ingress("web", "name: dns")));
    assert_eq!(help, "", "which is UDP");
    let (place, message, help) = one(&all(&route("web", "  port: {targetPort: 80}\n")));
    assert_eq!(place, "L0116 spec.port.targetPort 6");
    assert!(message.starts_with("Route shop/web names target port 80 of service shop/web"), "{message}");
    assert_eq!(help, "80 is the Service's own port: write the one on the pods, 8080");
}

#[test]
fn nobody_behind_a_service() {
    let (place, message, _) = one(&all(&ingress("empty", "number: 80")));
    assert_eq!(place, "L0117 spec.rules[0].http.paths[0].backend.service.name 10");
    assert_eq!(
        message,
        "Ingress shop/web leads to port 80 of service shop/empty, and no ready pod is behind it"
    );
    let (place, ..) = one(&all(&ingress("named", "number: 80")));
    assert!(place.starts_with("L0117"), "no pod has a port of that name: {place}");
    // Without a pod of the namespace nobody can know.
    assert!(check(&format!("{SERVICES}{}", ingress("empty", "number: 80"))).is_empty());
}

#[test]
fn what_leads_somewhere_is_left_alone() {
    for text in [
        ingress("web", "number: 80"),
        ingress("web", "name: http"),
        ingress("elsewhere", "number: 443"),
        route("web", ""),
        route("web", "  port: {targetPort: 8080}\n"),
        route("web", "  port: {targetPort: http}\n"),
    ] {
        let found = check(&all(&text));
        assert!(found.is_empty(), "{text}\n{found:#?}");
    }
}

#[test]
fn many_of_them_stay_cheap() {
    let path =
        |index: usize| format!("{{backend: {{service: {{name: s{}, port: {{number: 80}}}}}}}}", index % 100);
    let paths: Vec<String> = (0..20_000).map(path).collect();
    let ingress = format!(
        "{{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {{name: i, namespace: shop}}, spec: {{rules: [{{http: {{paths: [{}]}}}}]}}}}",
        paths.join(",\n")
    );
    assert_eq!(check(&all(&ingress)).len(), 20_000);
}
