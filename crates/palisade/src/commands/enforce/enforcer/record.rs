//! What others learn of what is in force: the next enforcer and `enforce status` from a file, Prometheus from numbers.

use palisade_agent::counted::deciders;
use palisade_agent::enforcement::program_digest;
use palisade_agent::metrics::Reading;
use palisade_agent::state::digest;
use palisade_nftables::program::{Elements, Name, Program};

use super::super::world;
use super::{Enforcer, Force};

impl Enforcer {
    /// Numbers for Prometheus.
    pub fn metrics(&mut self) -> String {
        let settled = self.misplaced.is_none() && self.world.place.troubles.is_empty();
        let in_force = settled && self.problems.is_empty() && !self.is_behind();
        let nothing = Program::default();
        let (counts, figures, epoch) = match &mut self.force {
            Force::Is(force) => {
                let mut figures = force.figures.clone();
                figures.reloads = self.figures.reloads;
                figures.refused_reloads = self.figures.refused_reloads;
                (force.counts(), figures, force.live().view().epoch())
            }
            _ => (Default::default(), self.figures.clone(), 0),
        };
        let program = match &self.force {
            Force::Is(force) => force.live().program(),
            _ => &nothing,
        };
        let reading = Reading {
            node: &self.world.place.node,
            figures: &figures,
            counts: &counts,
            program,
            epoch,
            pods: self.world.place.pods.len(),
            in_force: in_force && self.is_begun(),
        };
        reading.text()
    }

    /// Writes what is in force to disk: at once, because the next enforcer needs something to fall back on; and again when the kernel has
    /// said what our table is.
    pub fn write_state(&mut self) {
        let Force::Is(force) = &self.force else { return };
        let remembered = force.remembered();
        if !(self.unwritten || self.incomplete && remembered.is_some()) {
            return;
        }
        self.unwritten = false;
        self.incomplete = remembered.is_none();
        let mut state = world::state(&self.manifests, &self.world.place, &self.paths);
        let live = force.live();
        state.since = self.since;
        state.changed = self.changed;
        state.epoch = live.view().epoch();
        state.policies = self.world.policies();
        state.lacks = live.lacks().iter().cloned().collect();
        state.trouble = self.problems.iter().map(ToString::to_string).collect();
        state.trouble.extend(self.misplaced.clone());
        state.trouble.extend(self.world.place.troubles.iter().cloned());
        state.trouble.extend(force.behind().map(|error| format!("the kernel does not have it: {error}")));
        state.program = program_digest(live.program());
        state.structure = remembered.map(|remembered| remembered.structure);
        state.elements = elements_digest(live.program().sets.iter().map(|(name, set)| (name, &set.elements)));
        let counters = deciders(live).into_iter();
        state.counters = counters.map(|(name, decider)| (name.to_string(), decider)).collect();
        let wrong = state.write(&self.folder).err();
        self.said
            .notes("state", wrong.map(|error| format!("what is in force cannot be remembered: {error}")));
    }

    /// Before the end: what the next enforcer needs to know.
    pub fn leave(&mut self) {
        if let Force::Is(force) = &mut self.force {
            force.settle();
            self.unwritten = true;
            self.write_state();
        }
    }
}

/// The digest of what is in sets.
pub fn elements_digest<'e>(sets: impl IntoIterator<Item = (&'e Name, &'e Elements)>) -> String {
    let filled = sets.into_iter().filter(|(_, elements)| !elements.is_empty());
    let all: Vec<String> = filled.map(|(name, elements)| format!("{name} {elements:?}\n")).collect();
    digest(all.concat().as_bytes())
}
