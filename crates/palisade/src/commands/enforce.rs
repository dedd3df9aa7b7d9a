//! `palisade enforce`: policies from files, in force in this machine's kernel.
//!
//! ```text
//!   files.rs      the texts, each in its last good version
//!   world.rs      what they say about this machine: objects, place, index, program
//!   enforcer.rs   puts that into the kernel, and keeps it there
//!   follow.rs     waits for what changes
//!   reporter.rs   what a change opened and closed, after the kernel has it
//!   dry_run.rs, status.rs, stop.rs
//! ```

mod dry_run;
mod enforcer;
mod files;
mod follow;
mod reporter;
mod said;
mod status;
mod stop;
mod world;

use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::UNANSWERED;
use crate::Outcome;
use crate::cli::{ColorChoice, EnforceArgs, EnforceCommand};
use crate::print::output::StreamLook;

pub fn run(arguments: &EnforceArgs, color: ColorChoice) -> Outcome {
    let outcome = match &arguments.command {
        Some(EnforceCommand::Status(arguments)) => status::run(arguments, color),
        Some(EnforceCommand::Stop(arguments)) => stop::run(arguments, color),
        None if arguments.dry_run => dry_run::run(arguments, color),
        None => follow::run(arguments, color),
    };
    outcome.unwrap_or_else(|message| Outcome {
        out: Text::new(),
        err: text!("{} {message}{NL}", Look::stderr(color).bad("error:")),
        code: UNANSWERED,
    })
}
