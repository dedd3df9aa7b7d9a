//! What enforcing would do: the transaction for nft, and what it would open and close. Writes nothing.

use palisade_agent::enforcement::{program_digest, same_elements};
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
use super::files::Files;
use super::world::{self, World};
use crate::Outcome;
use crate::cli::{ColorChoice, EnforceArgs};
use crate::input;
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

pub fn run(arguments: &EnforceArgs, color: ColorChoice) -> Result<Outcome, Text> {
    let look = Look::stderr(color);
    let mut files = Files::new(&arguments.input.files, arguments.thorium);
    let found = files.look(input::read(&arguments.input.files), &|_| false);
    let Some(manifests) = found.manifests else {
        let err = found.problems.iter().map(|problem| text!("{problem}{NL}")).collect::<Text>();
        return Ok(Outcome {
            out: Text::new(),
            err: text!("{err}{} nothing would be written: the files have errors{NL}", look.bad("error:")),
            code: NO,
        });
    };
    let mut world = World::new(arguments.node.as_deref());
    world.take(&manifests)?;
    let live = Compiler::new(world.part(), &world.place.node, world.place.wiring.clone());
    // Who may not read the state is told by the kernel; that enforcing would refuse it is to be known before.
    let read = State::read(&arguments.state.folder);
    let refused = read.as_ref().err().filter(|error| error.is_untrusted()).map(ToString::to_string);
    let state = read.ok().flatten();
    let now = now(arguments, state.as_ref(), &world);
    let mut out = text!(
        "# What `palisade enforce` would do for node {}, from {}: {}.{NL}# {}{NL}",
        world.place.node,
        input::describe(&arguments.input.files),
        plural(world.place.pods.len(), "pod"),
        now.words
    );
    match changes::within(now.objects, Objects::clone(&world.objects())) {
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
    let notes = refused.iter().chain(&world.place.notes).chain(live.lacks());
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

fn now(arguments: &EnforceArgs, state: Option<&State>, world: &World) -> Now {
    let nothing =
        |words: &str| Now { program: None, objects: world.without_policies(), words: words.to_owned() };
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
    let mut before = World::new(Some(&state.node));
    if before.take(&world::remembered(state, arguments.thorium.into())).is_err() {
        return nothing("What was in force cannot be worked out: all of it is replaced.");
    }
    let live = Compiler::new(before.part(), &before.place.node, before.place.wiring.clone());
    let same = found.ok().flatten().is_some_and(|found| {
        state.structure.as_ref() == Some(&found.structure)
            && state.program == program_digest(live.program())
            && same_elements(&found, live.program())
    });
    Now {
        program: same.then(|| live.program().clone()),
        objects: Objects::clone(&before.objects()),
        words: match same {
            true => "This changes what is in force here.".to_owned(),
            false => "What is in force here is not as it was left, or cannot be read: all of it is replaced."
                .to_owned(),
        },
    }
}
