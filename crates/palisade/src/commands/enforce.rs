//! `palisade enforce`: policies from files, active in this machine's kernel. The loop is `palisade_agent::Enforcer`.
//!
//! ```text
//!   run.rs       arguments, signals, and the enforcer they configure
//!   log.rs       prints what the enforcer reports
//!   dry_run.rs, status.rs, stop.rs
//! ```

mod dry_run;
mod error;
mod log;
mod run;
mod status;
mod stop;

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
        None => run::run(arguments, color),
    };
    outcome.unwrap_or_else(|error| Outcome {
        out: Text::new(),
        err: text!("{} {}{NL}", Look::stderr(color).bad("error:"), error.text()),
        code: UNANSWERED,
    })
}
