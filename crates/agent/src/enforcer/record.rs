//! What is kept about an enforcer outside of it: the state on disk, for the next one and for `palisade enforce status`, and metrics.

use palisade_nftables::program::{Elements, Name, Program};

use super::notice::{Observer, Topic};
use super::{Enforcer, KernelState, WatchedKernel};
use crate::deciders::deciders;
use crate::enforcement::program_digest;
use crate::metrics::Reading;
use crate::source::Source;
use crate::state::{State, VERSION, digest};

// === impl Enforcer ===

impl<S: Source, K: WatchedKernel, O: Observer> Enforcer<S, K, O> {
    /// Returns the metrics in Prometheus' text form.
    pub(super) fn metrics(&mut self) -> String {
        let is_settled = self.misplaced.is_none() && self.source.placement().gaps.is_empty();
        let in_force = is_settled && self.problems.is_empty() && !self.is_behind() && self.is_begun();
        let nothing = Program::default();
        let (counts, figures, epoch) = match &mut self.kernel {
            KernelState::Enforcing(enforcement) => {
                let mut figures = enforcement.figures.clone();
                figures.reloads = self.figures.reloads;
                figures.refused_reloads = self.figures.refused_reloads;
                (enforcement.counts(), figures, enforcement.live().view().epoch())
            }
            _ => (Default::default(), self.figures.clone(), 0),
        };
        let placement = self.source.placement();
        let reading = Reading {
            node: &placement.node,
            figures: &figures,
            counts: &counts,
            program: self.enforcement().map_or(&nothing, |enforcement| enforcement.live().program()),
            epoch,
            pods: placement.pods.len(),
            in_force,
        };
        reading.text()
    }

    /// Writes what is enforced to disk: at once, because the next enforcer needs it to fall back on; and again when the kernel has
    /// described the table.
    pub(super) fn write_state(&mut self) {
        let Some(enforcement) = self.enforcement() else { return };
        let remembered = enforcement.remembered();
        if !(self.is_unwritten || self.is_incomplete && remembered.is_some()) {
            return;
        }
        let placement = self.source.placement();
        let live = enforcement.live();
        let mut trouble: Vec<String> =
            self.problems.iter().map(|problem| self.observer.describe(problem)).collect();
        trouble.extend(self.misplaced.clone());
        trouble.extend(placement.gaps.iter().cloned());
        trouble.extend(enforcement.behind().map(|error| format!("the kernel does not have it: {error}")));
        let counters = deciders(live).into_iter();
        let mut state = State {
            version: VERSION,
            node: placement.node.to_string(),
            folder: std::env::current_dir().map(|folder| folder.display().to_string()).unwrap_or_default(),
            pods: placement.pods.clone(),
            own: placement.own.iter().copied().collect(),
            since: self.since,
            changed: self.changed,
            epoch: live.view().epoch(),
            policies: self.source.policies(),
            lacks: live.lacks().iter().cloned().collect(),
            trouble,
            program: program_digest(live.program()),
            structure: remembered.as_ref().map(|remembered| remembered.structure.clone()),
            elements: elements_digest(live.program().sets.iter().map(|(name, set)| (name, &set.elements))),
            counters: counters.map(|(name, decider)| (name.to_string(), decider)).collect(),
            ..State::default()
        };
        self.source.record(&mut state);
        let failed = state.write(&self.folder).err();
        self.is_unwritten = false;
        self.is_incomplete = remembered.is_none();
        let failed = failed.map(|error| format!("what is in force cannot be remembered: {error}"));
        self.warn(Topic::State, failed);
    }

    /// Writes down what the next enforcer needs to know, before this one ends.
    pub fn leave(&mut self) {
        if let KernelState::Enforcing(enforcement) = &mut self.kernel {
            enforcement.settle();
            self.is_unwritten = true;
            self.write_state();
        }
    }
}

/// Returns a digest of the elements of all sets.
pub fn elements_digest<'e>(sets: impl IntoIterator<Item = (&'e Name, &'e Elements)>) -> String {
    let filled = sets.into_iter().filter(|(_, elements)| !elements.is_empty());
    let all: Vec<String> = filled.map(|(name, elements)| format!("{name} {elements:?}\n")).collect();
    digest(all.concat().as_bytes())
}
