//! A program that follows what changes: a node's part of the view in, patches out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use palisade_engine::delta::Delta;
use palisade_engine::view::{OutOfStep, View};
use smol_str::SmolStr;

use super::{Compiled, compile};
use crate::patch::Patch;
use crate::program::{Interface, Program};

/// Which interfaces of a machine lead to pods, and which addresses may come by each: whatever else does is forged.
pub type Wiring = BTreeMap<Interface, BTreeSet<IpAddr>>;

/// A node's program, kept up to date.
#[derive(Debug)]
pub struct Live {
    view: View,
    node: SmolStr,
    wiring: Wiring,
    compiled: Compiled,
}

// === impl Live ===

impl Live {
    /// The program for a node's part of the view.
    pub fn new(part: View, node: &str, wiring: Wiring) -> Live {
        let compiled = compile(&part, node);
        Live { view: part, node: node.into(), wiring, compiled }
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.compiled.program
    }

    /// What of the policies the kernel cannot do, in words.
    pub fn lacks(&self) -> &BTreeSet<String> {
        &self.compiled.lacks
    }

    /// The node's part of the view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Which interfaces lead to pods.
    pub fn wiring(&self) -> &Wiring {
        &self.wiring
    }

    /// Takes the next deltas of the node's part: one patch, so that nobody sees them half done. If one does not fit nothing can
    /// be said any more: begin anew.
    pub fn follow(&mut self, deltas: &[Delta]) -> Result<Patch, OutOfStep> {
        for delta in deltas {
            self.view.follow(delta)?;
        }
        Ok(self.again())
    }

    /// Other interfaces lead to pods now, or to others.
    pub fn rewire(&mut self, wiring: Wiring) -> Patch {
        self.wiring = wiring;
        self.again()
    }

    /// Takes away what is kept in case it is needed again soon. After this, the program is the one from scratch.
    pub fn tidy(&mut self) -> Patch {
        self.again()
    }

    fn again(&mut self) -> Patch {
        let next = compile(&self.view, &self.node);
        let patch = Patch::between(&self.compiled.program, &next.program);
        self.compiled = next;
        patch
    }
}
