//! Whether a machine can have become what a source says it is: rules are only removed on purpose.

use smol_str::SmolStr;
use thiserror::Error;

use super::Placement;
use crate::source::EmptyNode;
use crate::state::PodState;

/// What a machine was when it was last placed.
#[derive(Debug, Clone)]
pub struct Continuity {
    empty_node: EmptyNode,
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
    pub fn new(empty_node: EmptyNode) -> Self {
        Continuity { empty_node, was: None }
    }

    /// Takes over what an enforcer before this one was.
    pub fn remember(&mut self, node: &str, pods: &[PodState]) {
        self.was = Some(Was { node: node.into(), pods: placed(pods) });
    }

    /// Refuses a place that the machine cannot have come to by intention, as far as the source can be mistaken.
    pub fn check(&self, placement: &Placement) -> Result<(), Discontinuity> {
        let Some(was) = &self.was else { return Ok(()) };
        if placement.node != was.node {
            return Err(Discontinuity::OtherNode { was: was.node.clone(), now: placement.node.clone() });
        }
        if was.pods > 0 && placed(&placement.pods) == 0 && self.empty_node == EmptyNode::Suspect {
            return Err(Discontinuity::NoPods { node: was.node.clone(), pods: was.pods });
        }
        Ok(())
    }
}

/// How many pods have an address.
fn placed(pods: &[PodState]) -> usize {
    pods.iter().filter(|pod| !pod.addresses.is_empty()).count()
}
