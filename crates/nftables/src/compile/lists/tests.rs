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

/// An entry that is left over changes no verdict, but an enforcer runs for years.
#[test]
fn released_lists_leave_no_entries_by_set() {
    let shared = policy("shared", "{namespaceSelector: {matchLabels: {ns: x}}}");
    let distinguished =
        policy("apart", "{podSelector: {matchLabels: {app: a}}}, {ipBlock: {cidr: 10.0.0.0/24}}");
    let mut source = Followed::default();
    let mut compiler = Compiler::new(View::default(), "n0", Wiring::new());
    for (policies, (shared_sets, classes)) in [
        (String::new(), (0, 0)),
        (shared.clone(), (1, 0)),
        (distinguished.clone(), (1, 1)),
        (format!("{shared}{distinguished}"), (1, 1)),
        (String::new(), (0, 0)),
    ] {
        compiler.follow(&source.take(&format!("{POD}{policies}"), "n0")).unwrap();
        assert_eq!((compiler.shared.len(), compiler.classes.len()), (shared_sets, classes), "{policies}");
        let entries = compiler.by_set.values().flatten();
        let left: Vec<_> = entries
            .filter(|own| !compiler.shared.contains_key(*own) && !compiler.classes.contains_key(*own))
            .collect();
        assert!(left.is_empty(), "{policies}: {left:?}");
        assert_eq!(compiler.by_set.is_empty(), shared_sets + classes == 0, "{policies}");
    }
}
