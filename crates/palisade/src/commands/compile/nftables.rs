//! `palisade compile --to nftables`: the program for one node, from the index's view of it.

use std::collections::BTreeSet;

use palisade_engine::Engine;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::snapshot::Snapshot;
use palisade_nftables::compile::compile;
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::super::{UNANSWERED, YES};
use super::refused;
use crate::Outcome;
use crate::cli::{ColorChoice, CompileArgs};
use crate::input;
use crate::print::documents::nft_program;
use crate::print::output::StreamLook;

pub fn run(arguments: &CompileArgs, color: ColorChoice) -> Outcome {
    let look = Look::stderr(color);
    let fail = |message: &Text| Outcome {
        out: Text::new(),
        err: text!("{} {message}{NL}", look.bad("error:")),
        code: UNANSWERED,
    };
    let mut input = input::read(&arguments.input.files);
    if let Some(refusal) = input.refusal() {
        return fail(&refusal.into());
    }
    let objects = input::world(&mut input, arguments.thorium).into_objects();
    let errors: Vec<Diagnostic> = input.found.iter().filter(|finding| finding.is_error()).cloned().collect();
    if !errors.is_empty() {
        return refused(&errors, &input, look);
    }
    let snapshot = Snapshot::new(objects.clone());
    let node = match node(arguments, &snapshot) {
        Ok(node) => node,
        Err(message) => return fail(&message),
    };
    let view = Engine::of(&objects, &snapshot).view();
    let compiled = compile(&view.part_of(&node), &node);
    let mut out = text!("# Policies for node {node}, from {}.{NL}", input::describe(&arguments.input.files));
    out.push_own(
        "# Load it with: nft -f FILE. It replaces the table inet palisade at once, and touches no other.\n",
    );
    out.push(&nft_program(&compiled.program));
    let lacks = compiled.lacks.iter();
    let err = lacks.map(|lack| text!("{} {lack}{NL}", look.warning("warning:"))).collect();
    Outcome { out, err, code: YES }
}

/// The node that is meant.
fn node(arguments: &CompileArgs, snapshot: &Snapshot) -> Result<String, Text> {
    let of_pods = snapshot.pods().iter().filter_map(|pod| pod.node.as_ref());
    let known: BTreeSet<&str> =
        of_pods.chain(snapshot.nodes().iter().map(|node| &node.name)).map(|name| name.as_str()).collect();
    let list = || known.iter().copied().collect::<Vec<_>>().join(", ");
    let place = input::describe(&arguments.input.files);
    match (&arguments.node, known.len()) {
        (Some(node), _) if known.contains(node.as_str()) => Ok(node.clone()),
        (Some(node), 0) => Err(text!("there is no node {node} in {place}, and no other")),
        (Some(node), _) => Err(text!("there is no node {node} in {place}: there are {}", list())),
        (None, 0) => {
            Err(text!("no pod of {place} runs on a node, and no node is there: nothing to compile for"))
        }
        (None, 1) => Ok(list()),
        (None, _) => Err(text!("name the node to compile for with --node: {}", list())),
    }
}
