//! What enforcing would do: the transaction for nft, and what it would open and close. Writes nothing.

use palisade_agent::enforcement::{program_digest, same_elements};
use palisade_agent::machine::network::KernelNetwork;
use palisade_agent::manifests::ReadFiles;
use palisade_agent::manifests::last_good::LastGood;
use palisade_agent::node_view::NodeView;
use palisade_agent::source::EmptyNode;
use palisade_agent::state::State;
use palisade_model::snapshot::Objects;
use palisade_nftables::compile::Compiler;
use palisade_nftables::kernel::{Kernel, KernelError, Linux};
use palisade_nftables::patch::Patch;
use palisade_nftables::program::Program;
use palisade_report::diagnostics::plural;
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::super::changes::{self, Changes};
use super::super::{NO, YES};
use super::error::EnforceError;
use super::log::problem_text;
use crate::Outcome;
use crate::cli::{ColorChoice, EnforceArgs};
use crate::input::{self, Files};
use crate::print::documents::{nft_patch, nft_program};
use crate::print::output::StreamLook;

/// What is in force now, as far as that is known.
struct Now {
    /// The program, if we know it.
    program: Option<Program>,
    /// The objects that it is of.
    objects: Objects,
    /// In words.
    words: String,
}

/// How many lines of what opens, and of what closes, are printed.
const LISTED: usize = 100;

pub fn run(arguments: &EnforceArgs, color: ColorChoice) -> Result<Outcome, EnforceError> {
    let look = Look::stderr(color);
    let paths = &arguments.input.files;
    let mut manifests = LastGood::new(paths, arguments.thorium);
    let Some(changes) = manifests.take(Files.read(paths), &|_| false).changes else {
        let problems = manifests.problems().iter();
        let err = problems.map(|problem| text!("{}{NL}", problem_text(problem))).collect::<Text>();
        return Ok(Outcome {
            out: Text::new(),
            err: text!("{err}{} nothing would be written: the files have errors{NL}", look.bad("error:")),
            code: NO,
        });
    };
    let mut view = NodeView::new(KernelNetwork, EmptyNode::Suspect, arguments.node.as_deref());
    view.read_thorium_as(arguments.thorium);
    view.take(changes)?;
    let placement = view.placement();
    let live = Compiler::new(view.part(), &placement.node, placement.wiring.clone());
    // Who may not read the state is told by the kernel; that enforcing would refuse it is to be known before.
    let read = State::read(&arguments.state.folder);
    let refused = read.as_ref().err().filter(|error| error.is_untrusted()).map(ToString::to_string);
    let state = read.ok().flatten();
    let objects = view.objects();
    let now = now(arguments, state.as_ref(), &objects);
    let mut out = text!(
        "# What `palisade enforce` would do for node {}, from {}: {}.{NL}# {}{NL}",
        placement.node,
        input::describe(paths),
        plural(placement.pods.len(), "pod"),
        now.words
    );
    match changes::within(now.objects, objects) {
        Some(changes) => list(&changes, &mut out),
        None => {
            let most = changes::PATIENCE.as_secs();
            write_line!(out, "# What opens and closes is not known: it takes more than {most} s to compute.");
        }
    }
    match now.program.map(|before| Patch::between(&before, live.program())) {
        Some(patch) if patch.is_empty() => out.push_own("# Nothing would be written.\n"),
        Some(patch) => out.push(&nft_patch(&patch)),
        None => out.push(&nft_program(live.program())),
    }
    let refused = refused.map(|why| format!("palisade enforce would not start: {why}"));
    let notes = refused.iter().chain(&placement.notes).chain(live.lacks());
    let err = notes.map(|note| text!("{} {note}{NL}", look.warning("warning:"))).collect();
    Ok(Outcome { out, err, code: YES })
}

/// Lists what opens and closes, as comments.
fn list(changes: &Changes, out: &mut Text) {
    if changes.opens.is_empty() && changes.closes.is_empty() {
        out.push_own("# no connection opens or closes\n");
    }
    for (word, items) in [("opens ", &changes.opens), ("closes", &changes.closes)] {
        for item in items.iter().take(LISTED) {
            write_line!(out, "# {word}  {item}");
        }
        let more = items.len().saturating_sub(LISTED);
        if more > 0 {
            write_line!(out, "# {word}  and {more} more");
        }
    }
    for note in &changes.notes {
        write_line!(out, "# {note}");
    }
}

fn now(arguments: &EnforceArgs, state: Option<&State>, objects: &Objects) -> Now {
    let nothing = |words: &str| {
        let objects = Objects { policies: Vec::new(), ..objects.clone() };
        Now { program: None, objects, words: words.to_owned() }
    };
    let found = Linux::new().read();
    if let Ok(None) = found {
        return nothing("Nothing is in force here: all of it is written.");
    }
    // What was in force is what the texts that it came from say.
    let Some(state) = state else {
        return nothing(match found {
            Err(KernelError::Forbidden(_)) => {
                "What is in force here may not be read: this is all of it, compared with no policies."
            }
            Err(_) => "What is in force here cannot be read: this is all of it, compared with no policies.",
            _ => "A table is here and nobody remembers from what: all of it is replaced.",
        });
    };
    let mut before = NodeView::new(KernelNetwork, EmptyNode::Suspect, Some(&state.node));
    before.read_thorium_as(arguments.thorium);
    if before.take(state.objects(arguments.thorium.into())).is_err() {
        return nothing("What was in force cannot be worked out: all of it is replaced.");
    }
    let placement = before.placement();
    let live = Compiler::new(before.part(), &placement.node, placement.wiring.clone());
    let same = found.ok().flatten().is_some_and(|found| {
        state.structure.as_ref() == Some(&found.structure)
            && state.program == program_digest(live.program())
            && same_elements(&found, live.program())
    });
    Now {
        program: same.then(|| live.program().clone()),
        objects: before.objects(),
        words: match same {
            true => "This changes what is in force here.".to_owned(),
            false => "What is in force here is not as it was left, or cannot be read: all of it is replaced."
                .to_owned(),
        },
    }
}
