use super::*;

fn pod(namespace: &str, name: &str) -> Pod {
    Pod { namespace: namespace.into(), name: name.into(), ..Pod::default() }
}

#[test]
fn the_pods_of_a_namespace_are_a_range() {
    let empty = Namespace { name: "between".into(), labels: Labels::default(), at: None };
    let pods = vec![pod("z", "b"), pod("a", "c"), pod("z", "a"), pod("a", "b"), pod("a", "a")];
    let snapshot = Snapshot::new(Objects { pods, namespaces: vec![empty], ..Objects::default() });
    for (namespace, names) in
        [("a", &["a", "b", "c"][..]), ("between", &[]), ("z", &["a", "b"]), ("elsewhere", &[])]
    {
        let found: Vec<&str> =
            snapshot.pods_in(namespace).map(|pod| snapshot.pods()[pod].name.as_str()).collect();
        assert_eq!(found, names, "{namespace}");
    }
}
