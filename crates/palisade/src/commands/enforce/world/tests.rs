use palisade_model::snapshot::Snapshot;

use super::*;

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: n0}\n";
const MACHINE: &str = "apiVersion: palisade.dev/v1alpha1\nkind: Machine\nmetadata: {name: n0}\npods:\n- {pod: shop/web, addresses: [10.0.0.1], interface: v0}\n- {pod: shop/made, addresses: [10.0.0.2], interface: v1}\n";
const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {template: {metadata: {labels: {app: web}}}}\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: shop, labels: {app: db}}\nspec: {nodeName: n0}\nstatus: {podIP: 10.0.0.3}\n";
const HOST: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: host, namespace: shop, labels: {app: host}}\nspec: {nodeName: n0, hostNetwork: true}\n";
const CLOSED: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: all, namespace: shop}\nspec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}\n";
const OTHER: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db, namespace: shop}\nspec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Egress]}\n";
const THORIUM: &str = "kind: ThoriumInstance\ngroups: [shop]\nimages:\n- {group: shop, tool: made}\n";

/// Takes texts, and compares the engine with one that is built from all objects. Returns the number of deltas.
fn take(world: &mut World, texts: &[&str]) -> Option<usize> {
    let source = |(index, text): (usize, &&str)| Arc::new(Source::new(format!("{index}.yaml"), *text));
    let sources: Vec<Arc<Source>> = texts.iter().enumerate().map(source).collect();
    let step = world.take(&manifests(sources.iter(), Reading::Document)).unwrap();
    let objects = world.objects();
    let whole = Engine::of(&objects, &Snapshot::new(Objects::clone(&objects)));
    assert_eq!(world.engine.view().to_string(), whole.view().to_string(), "{texts:#?}");
    match step {
        Step::Deltas(deltas) => Some(deltas.len()),
        Step::Whole(_) => None,
    }
}

#[test]
fn a_machine_among_the_objects_is_followed_as_if_it_were_read_at_once() {
    let mut world = World::new(Some("n0"));
    let all = [NODE, MACHINE, DEPLOYMENT, POD, HOST, CLOSED, OTHER];
    assert_eq!(take(&mut world, &all), None, "the first time");
    assert!(world.objects().pods.iter().any(|pod| pod.name == "made"));
    assert_eq!(take(&mut world, &all), Some(0), "nothing changed");
    assert!(take(&mut world, &[NODE, MACHINE, DEPLOYMENT, POD, HOST, CLOSED]).unwrap() > 0);
    for texts in [
        &[NODE, DEPLOYMENT, POD, HOST, CLOSED][..],
        &[MACHINE, POD, CLOSED, OTHER],
        &[NODE, MACHINE, DEPLOYMENT, HOST, CLOSED, THORIUM],
        &[NODE, DEPLOYMENT, POD, HOST, CLOSED, THORIUM],
        &all,
    ] {
        take(&mut world, texts);
    }
}

#[test]
fn what_cannot_be_placed_changes_nothing() {
    let mut world = World::new(Some("n0"));
    take(&mut world, &[NODE, POD, CLOSED]);
    let before = world.engine.view().to_string();
    let source = Arc::new(Source::new("other.yaml", NODE.replace("n0", "n1")));
    assert!(world.take(&manifests(std::iter::once(&source), Reading::Document)).is_err());
    assert_eq!(world.engine.view().to_string(), before);
    assert_eq!(take(&mut world, &[NODE, POD, CLOSED]), Some(0));
}
