use std::sync::Arc;

use palisade_dialects::load::load;
use palisade_dialects::object::Key;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_model::snapshot::Snapshot;

use super::*;
use crate::machine::network::Link;

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: n0}\n";
const MACHINE: &str = "apiVersion: palisade.dev/v1alpha1\nkind: Machine\nmetadata: {name: n0}\npods:\n- {pod: shop/web, addresses: [10.0.0.1], interface: v0}\n- {pod: shop/made, addresses: [10.0.0.2], interface: v1}\n";
const DEPLOYMENT: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec: {template: {metadata: {labels: {app: web}}}}\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: db, namespace: shop, labels: {app: db}}\nspec: {nodeName: n0}\nstatus: {podIP: 10.0.0.3}\n";
const HOST: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: host, namespace: shop, labels: {app: host}}\nspec: {nodeName: n0, hostNetwork: true}\n";
const CLOSED: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: all, namespace: shop}\nspec: {podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}\n";
const OTHER: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db, namespace: shop}\nspec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Egress]}\n";
const THORIUM: &str = "kind: ThoriumInstance\ngroups: [shop]\nimages:\n- {group: shop, tool: made}\n";

/// A machine without an interface.
#[derive(Debug)]
struct Bare;

impl Network for Bare {
    fn links(&self, _: Option<&str>) -> Result<Vec<Link>, NetworkError> {
        Ok(Vec::new())
    }

    fn name(&self) -> SmolStr {
        "n0".into()
    }
}

/// A view, and the objects that it was given.
struct Followed {
    view: NodeView<Bare>,
    given: World,
    /// The objects of the view, from its collected changes alone.
    collected: World,
}

impl Followed {
    fn new() -> Self {
        let mut view = NodeView::new(Bare, EmptyNode::Suspect, Some("n0"));
        view.collect_changes();
        Followed { view, given: World::default(), collected: World::default() }
    }

    /// Makes the objects those of these texts, by the changes that lead there.
    fn take(&mut self, texts: &[&str]) -> Result<Option<usize>, PlacementError> {
        let mut next = World::default();
        for (index, text) in texts.iter().enumerate() {
            let mut found = Vec::new();
            load(
                &Arc::new(Source::new(format!("{index}.yaml"), *text)),
                &Limits::default(),
                &mut next,
                &mut found,
            );
        }
        let mut changes: Vec<Change> = Vec::new();
        let gone: Vec<Key> = self.given.iter().map(|loaded| loaded.key.clone()).collect();
        let gone = gone.into_iter().filter(|key| next.get(key).is_none());
        changes.extend(gone.map(Change::Delete));
        let new = next.iter().filter(|loaded| self.given.get(&loaded.key) != Some(*loaded));
        changes.extend(new.cloned().map(Change::Apply));
        self.given = next;
        let step = self.view.take(changes)?;
        for change in self.view.take_changes() {
            change.apply_to(&mut self.collected);
        }
        Ok(match step {
            Step::Deltas(deltas) => Some(deltas.len()),
            Step::Whole(_) => None,
        })
    }

    /// The same, and compares the engine with one that is built from all objects. Returns the number of deltas.
    fn check(&mut self, texts: &[&str]) -> Option<usize> {
        let deltas = self.take(texts).unwrap();
        let objects = self.view.objects();
        let whole = Engine::of(&objects, &Snapshot::new(objects.clone()));
        assert_eq!(self.view.engine.view().to_string(), whole.view().to_string(), "{texts:#?}");
        assert_eq!(self.view.policies(), objects.policies.len());
        assert!(self.collected.iter().eq(self.view.world.placed()), "{texts:#?}");
        deltas
    }
}

#[test]
fn a_machine_among_the_objects_is_followed_as_if_it_were_read_at_once() {
    let mut world = Followed::new();
    let all = [NODE, MACHINE, DEPLOYMENT, POD, HOST, CLOSED, OTHER];
    assert_eq!(world.check(&all), None, "the first time");
    assert!(world.view.objects().pods.iter().any(|pod| pod.name == "made"));
    assert_eq!(world.check(&all), Some(0), "nothing changed");
    assert!(world.check(&[NODE, MACHINE, DEPLOYMENT, POD, HOST, CLOSED]).unwrap() > 0);
    for texts in [
        &[NODE, DEPLOYMENT, POD, HOST, CLOSED][..],
        &[MACHINE, POD, CLOSED, OTHER],
        &[NODE, MACHINE, DEPLOYMENT, HOST, CLOSED, THORIUM],
        &[NODE, DEPLOYMENT, POD, HOST, CLOSED, THORIUM],
        &all,
    ] {
        world.check(texts);
    }
}

/// A policy is one object: the machine is not placed again for it.
#[test]
fn only_objects_that_decide_where_pods_are_place_them_again() {
    let mut world = Followed::new();
    world.check(&[NODE, POD, CLOSED]);
    assert!(world.view.is_placed);
    world.view.placement.notes.push("as it was".to_owned());
    assert!(world.check(&[NODE, POD, CLOSED, OTHER]).unwrap() > 0);
    assert_eq!(world.view.placement().notes, ["as it was"]);
    world.check(&[NODE, POD, CLOSED, OTHER, HOST]);
    assert!(world.view.placement().notes.is_empty());
}

#[test]
fn what_cannot_be_placed_changes_nothing() {
    let mut world = Followed::new();
    world.check(&[NODE, POD, CLOSED]);
    let before = world.view.engine.view().to_string();
    assert!(world.take(&[&NODE.replace("n0", "n1")]).is_err());
    assert_eq!(world.view.engine.view().to_string(), before);
    assert_eq!(world.check(&[NODE, POD, CLOSED]), Some(0));
}
