//! What is kept about an enforcer outside of it: the state on disk, for the next one and for `palisade enforce status`, and metrics.

use palisade_nftables::program::{Elements, Name};

use super::notice::{Observer, Topic};
use super::{Enforcer, KernelState, WatchedKernel};
use crate::deciders::deciders;
use crate::enforcement::program_digest;
use crate::metrics::Sample;
use crate::source::Source;
use crate::state::{State, VERSION, digest};

// === impl Enforcer ===

impl<S: Source, K: WatchedKernel, O: Observer> Enforcer<S, K, O> {
    /// Returns the metrics as OpenMetrics text.
    pub(super) fn metrics(&mut self) -> String {
        let is_settled = self.misplaced.is_none() && self.source.placement().gaps.is_empty();
        let in_force = is_settled && self.problems.is_empty() && !self.is_behind() && self.is_begun();
        let mut sample = Sample { figures: self.figures.clone(), in_force, ..Sample::default() };
        if let KernelState::Enforcing(enforcement) = &mut self.kernel {
            sample.counts = enforcement.counts();
            sample.epoch = enforcement.live().view().epoch();
            sample.table = enforcement.live().program().into();
            sample.figures = enforcement.figures.clone();
            sample.figures.reloads = self.figures.reloads;
            sample.figures.refused_reloads = self.figures.refused_reloads;
        }
        let placement = self.source.placement();
        sample.node = placement.node.to_string();
        sample.pods = placement.pods.len();
        sample.into_text()
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
