//! Whether a machine can have become what a source says it is: rules that nobody takes out of force on purpose stay.

use smol_str::SmolStr;
use thiserror::Error;

use super::Place;
use crate::source::Source;
use crate::state::PodState;

/// What a machine was when it was last placed.
#[derive(Debug, Clone)]
pub struct Continuity {
    source: Source,
    was: Option<Was>,
}

#[derive(Debug, Clone)]
struct Was {
    node: SmolStr,
    /// How many of its pods had an address.
    pods: usize,
}

/// Why a machine is not taken for what a source says. What was in force stays in force.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Discontinuity {
    /// It would be another node.
    #[error("this machine was node {was}, and would be {now} now: start it with --node if that is meant")]
    OtherNode {
        /// The node that it was.
        was: SmolStr,
        /// The node that it would be.
        now: SmolStr,
    },
    /// It would have no pods any more.
    #[error(
        "no pod is left on node {node}, where there were {pods}: `palisade enforce stop` takes their rules out of force"
    )]
    NoPods {
        /// The node.
        node: SmolStr,
        /// How many pods with an address it had.
        pods: usize,
    },
}

// === impl Continuity ===

impl Continuity {
    /// Of a machine that nothing is known about yet.
    pub fn new(source: Source) -> Self {
        Continuity { source, was: None }
    }

    /// Takes over what an enforcer before this one was.
    pub fn remember(&mut self, node: &str, pods: &[PodState]) {
        self.was = Some(Was { node: node.into(), pods: placed(pods) });
    }

    /// Refuses a place that the machine cannot have come to by intention, as far as the source can be mistaken.
    pub fn check(&self, place: &Place) -> Result<(), Discontinuity> {
        let Some(was) = &self.was else { return Ok(()) };
        if place.node != was.node {
            return Err(Discontinuity::OtherNode { was: was.node.clone(), now: place.node.clone() });
        }
        if was.pods > 0 && placed(&place.pods) == 0 && !self.source.lists_empty_nodes() {
            return Err(Discontinuity::NoPods { node: was.node.clone(), pods: was.pods });
        }
        Ok(())
    }
}

/// How many pods have an address.
fn placed(pods: &[PodState]) -> usize {
    pods.iter().filter(|pod| !pod.addresses.is_empty()).count()
}
