//! What manifests say about this machine: its node and pods, the index of everything, and this node's part of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use palisade_agent::machine::continuity::Continuity;
use palisade_agent::machine::network::{Ip, NetworkError};
use palisade_agent::machine::{Finder, Place};
use palisade_agent::source::Source as Origin;
use palisade_agent::state::{FileState, PodState, State, VERSION, digest};
use palisade_dialects::object::Loaded;
use palisade_dialects::source::tree::Source;
use palisade_dialects::thorium::Reading;
use palisade_engine::Engine;
use palisade_engine::delta::Delta;
use palisade_engine::view::View;
use palisade_model::cluster::{Machine, Node, Pod};
use palisade_model::snapshot::Objects;

use super::files::{Manifests, manifests};

/// This machine in the world of the manifests.
#[derive(Debug)]
pub struct World {
    finder: Finder<Ip>,
    /// The objects of the manifests with this machine in them, as the engine has them.
    followed: palisade_dialects::world::World,
    engine: Engine,
    /// Whether the engine has a world, so that the next one is a change of it.
    begun: bool,
    view: View,
    objects: Arc<Objects>,
    /// Where everything is.
    pub place: Place,
    /// The node that somebody asked for.
    asked: Option<String>,
    continuity: Continuity,
}

/// What is new for this machine.
#[derive(Debug)]
pub enum Step {
    /// Its part changed by this.
    Deltas(Vec<Delta>),
    /// It is another node, or new to all of it.
    Whole(Box<View>),
}

// === impl World ===

impl World {
    /// With nothing in it. The machine is this node, if one is said.
    pub fn new(node: Option<&str>) -> World {
        World {
            finder: Finder::new(Ip, Origin::Files, node),
            followed: palisade_dialects::world::World::default(),
            engine: Engine::default(),
            begun: false,
            view: View::default(),
            objects: Arc::default(),
            place: Place::default(),
            asked: node.map(ToOwned::to_owned),
            continuity: Continuity::new(Origin::Files),
        }
    }

    /// Takes over from one before us.
    pub fn remember(&mut self, state: &State) {
        self.finder.remember(&state.pods);
        // Who names the node means it.
        if self.asked.is_none() || self.asked.as_ref() == Some(&state.node) {
            self.continuity.remember(&state.node, &state.pods);
        }
    }

    /// Takes what the manifests say now, and how the machine is now; or says why that cannot be meant: rules that nobody takes out of
    /// force on purpose stay.
    pub fn take(&mut self, manifests: &Manifests) -> Result<Step, String> {
        let (mut objects, machines) = (manifests.world.objects(), manifests.world.machines());
        self.check_node(&objects, &machines)?;
        let (pods, nodes) = (objects.pods.clone(), objects.nodes.clone());
        let place = self.finder.place(&mut objects, &machines).map_err(|error| error.to_string())?;
        self.continuity.check(&place).map_err(|error| error.to_string())?;
        if let Some(error) = place.errors.first() {
            return Err(error.clone());
        }
        self.continuity.remember(&place.node, &place.pods);
        let placed = placed((&pods, &nodes), &objects);
        self.followed.read_thorium_as(manifests.world.thorium_reading());
        // Only the objects of files that changed, and pods that moved, are events.
        let events = self.followed.reset(manifests.world.iter().chain(&placed));
        let deltas = events.into_iter().map(|event| self.engine.apply(event));
        let deltas: Vec<Delta> = deltas.filter(|delta| !delta.changes.is_empty()).collect();
        self.engine.tidy();
        let same = std::mem::replace(&mut self.begun, true) && place.node == self.place.node;
        (self.place, self.objects) = (place, Arc::new(objects));
        let node = self.place.node.as_str();
        let mut parts = Vec::with_capacity(deltas.len());
        let followed = same
            && deltas.iter().all(|delta| match self.view.follow_for(delta, &[node]) {
                Ok(part) => {
                    parts.extend(part);
                    true
                }
                Err(_) => false,
            });
        if followed {
            return Ok(Step::Deltas(parts));
        }
        self.view = self.engine.view();
        Ok(Step::Whole(Box::new(self.part())))
    }

    /// A node that somebody asks for is one that the manifests know, if they know any.
    fn check_node(&self, objects: &Objects, machines: &[Machine]) -> Result<(), String> {
        let Some(asked) = &self.asked else { return Ok(()) };
        let nodes = objects.nodes.iter().map(|node| node.name.as_str());
        let machines = machines.iter().map(|machine| machine.name.as_str());
        let pods = objects.pods.iter().filter_map(|pod| pod.node.as_deref());
        let known: BTreeSet<&str> = nodes.chain(machines).chain(pods).collect();
        if known.is_empty() || known.contains(asked.as_str()) {
            return Ok(());
        }
        let known: Vec<&str> = known.into_iter().collect();
        Err(format!("there is no node {asked}: there are {}", known.join(", ")))
    }

    /// Looks at the machine again. Says whether it is another: take the manifests again then.
    pub fn look_at_machine(&mut self) -> Result<bool, NetworkError> {
        self.finder.look()
    }

    /// Whether nobody tells when there is something to look at.
    pub fn has_namespaces(&self) -> bool {
        self.finder.has_namespaces()
    }

    /// This machine's part of the view.
    pub fn part(&self) -> View {
        self.view.part_of(&self.place.node)
    }

    /// How many policies there are.
    pub fn policies(&self) -> usize {
        self.objects.policies.len()
    }

    /// The objects of the manifests, with this machine in them.
    pub fn objects(&self) -> Arc<Objects> {
        Arc::clone(&self.objects)
    }

    /// The same objects without any policy.
    pub fn without_policies(&self) -> Objects {
        Objects { policies: Vec::new(), ..Objects::clone(&self.objects) }
    }
}

/// Returns the pods and nodes that are different from the written ones, or exist only, because this machine was placed among
/// the objects.
fn placed((pods, nodes): (&[Pod], &[Node]), placed: &Objects) -> Vec<Loaded> {
    // Placing changes objects where they are, and adds others behind them.
    let other_pods = placed.pods.iter().enumerate().filter(|(index, pod)| pods.get(*index) != Some(*pod));
    let other_nodes =
        placed.nodes.iter().enumerate().filter(|(index, node)| nodes.get(*index) != Some(*node));
    let other_pods = other_pods.map(|(_, pod)| Loaded::from(pod.clone()));
    other_pods.chain(other_nodes.map(|(_, node)| Loaded::from(node.clone()))).collect()
}

/// The texts that a state remembers.
pub fn texts(state: &State) -> impl Iterator<Item = (String, String)> {
    state.files.iter().map(|file| (file.name.clone(), file.text.clone()))
}

/// The manifests that a state remembers.
pub fn remembered(state: &State, thorium: Reading) -> Manifests {
    let sources: Vec<Arc<Source>> =
        texts(state).map(|(name, text)| Arc::new(Source::new(name, text))).collect();
    manifests(sources.iter(), thorium)
}

/// What to remember of the files and the place; the rest is for whoever enforces.
pub fn state(manifests: &Manifests, place: &Place, paths: &[String]) -> State {
    let file = |source: &Arc<Source>| FileState {
        name: source.name().to_string(),
        digest: digest(source.text().as_bytes()),
        text: source.text().to_owned(),
    };
    let pods: Vec<PodState> = place.pods.clone();
    State {
        version: VERSION,
        node: place.node.to_string(),
        folder: std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default(),
        paths: paths.to_vec(),
        files: manifests.sources.iter().map(file).collect(),
        pods,
        own: place.own.iter().copied().collect(),
        ..State::default()
    }
}

#[cfg(test)]
mod tests;
