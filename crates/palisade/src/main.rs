//! Palisade's command line: arguments in, one call into a crate, a printer out.

// Its macros make the texts of all modules.
#[macro_use]
extern crate palisade_report;

mod cli;
mod commands;
mod input;
mod print;

use std::process::ExitCode;

use clap::Parser;
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use crate::cli::{Cli, ColorChoice, Command};
use crate::print::documents::usage;
use crate::print::output::{Stream, StreamLook};

/// What a command has to say, and how it ended.
struct Outcome {
    /// For standard output.
    out: Text,
    /// For standard error.
    err: Text,
    /// The exit code.
    code: u8,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    if cli.follow_links {
        input::follow_links();
    }
    let outcome = match cli.command {
        Command::Explain(arguments) => commands::explain::run(&arguments, cli.color),
        Command::Check(arguments) => commands::check::run(&arguments, cli.color),
        Command::Test(arguments) => commands::test::run(&arguments, cli.color),
        Command::Diff(arguments) => commands::diff::run(&arguments, cli.color),
        Command::Map(arguments) => commands::map::run(&arguments, cli.color),
        Command::Query(arguments) => commands::query::run(&arguments, cli.color),
        Command::Exposure(arguments) => commands::exposure::run(&arguments, cli.color),
        Command::Compile(arguments) => commands::compile::run(&arguments, cli.color),
        Command::Convert(arguments) => commands::convert::run(&arguments, cli.color),
        Command::Enforce(arguments) => commands::enforce::run(&arguments, cli.color),
        Command::Lab(arguments) => commands::lab::run(&arguments, cli.color),
        Command::Thorium(command) => commands::thorium::run(&command, cli.color),
        Command::Completions { shell } => commands::shell::completions(shell),
        Command::Man { command } => commands::shell::man(&command),
    };
    // Whoever does not read the warnings still gets the answer.
    let _ = Stream::Stderr.write(&outcome.err);
    match Stream::Stdout.write(&outcome.out) {
        // Whoever closed the pipe has seen enough: that is no error of ours.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let _ = Stream::Stderr.write(&text!("error: cannot write the answer: {error}{NL}"));
            ExitCode::from(commands::UNANSWERED)
        }
        _ => ExitCode::from(outcome.code),
    }
}

/// Prints why the arguments cannot be used, or the help that they ask for.
fn refused(error: &clap::Error) -> ExitCode {
    let stream = if error.use_stderr() { Stream::Stderr } else { Stream::Stdout };
    let look =
        if error.use_stderr() { Look::stderr(ColorChoice::Auto) } else { Look::stdout(ColorChoice::Auto) };
    // Nobody is left to see it.
    let _ = stream.write(&usage::<Cli>(std::env::args_os(), look));
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(commands::UNANSWERED))
}
