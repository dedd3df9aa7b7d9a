#[path = "../../../../engine/tests/written/mod.rs"]
mod written;

use super::super::compiler::{Compiler, Wiring};
use palisade_engine::view::View;

use self::written::Followed;

const POD: &str = "{apiVersion: v1, kind: Namespace, metadata: {name: x, labels: {ns: x}}}\n---\n\
    {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: x, labels: {app: a}}, spec: {nodeName: n0}, status: {podIP: 10.0.0.1}}\n";

fn policy(name: &str, from: &str) -> String {
    format!(
        "---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {name}, namespace: x}}, spec: {{podSelector: {{}}, \
         ingress: [{{from: [{from}], ports: [{{port: 80}}]}}]}}}}\n"
    )
}

/// Nobody notices what is asked in vain, but an enforcer runs for years.
#[test]
fn what_nobody_needs_any_more_is_not_asked_about_sets() {
    let everybody = policy("everybody", "{namespaceSelector: {matchLabels: {ns: x}}}");
    let told_apart =
        policy("apart", "{podSelector: {matchLabels: {app: a}}}, {ipBlock: {cidr: 10.0.0.0/24}}");
    let mut source = Followed::default();
    let mut compiler = Compiler::new(View::default(), "n0", Wiring::new());
    for (policies, (layers, classifiers)) in [
        (String::new(), (0, 0)),
        (everybody.clone(), (1, 0)),
        (told_apart.clone(), (1, 1)),
        (format!("{everybody}{told_apart}"), (1, 1)),
        (String::new(), (0, 0)),
    ] {
        compiler.follow(&source.take(&format!("{POD}{policies}"), "n0")).unwrap();
        assert_eq!((compiler.shared.len(), compiler.classes.len()), (layers, classifiers), "{policies}");
        let asked = compiler.by_set.values().flatten();
        let asked: Vec<_> = asked
            .filter(|own| !compiler.shared.contains_key(*own) && !compiler.classes.contains_key(*own))
            .collect();
        assert!(asked.is_empty(), "{policies}: {asked:?}");
        assert_eq!(compiler.by_set.is_empty(), layers + classifiers == 0, "{policies}");
    }
}
