//! Palisade's command line: arguments in, one call into a crate, a printer out.

mod cli;
mod commands;
mod input;
mod print;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};
use crate::print::style::tame;

/// What a command has to say, and how it ended.
struct Outcome {
    /// For standard output.
    out: String,
    /// For standard error.
    err: String,
    /// The exit code.
    code: u8,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
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
    let _ = std::io::stderr().lock().write_all(tame(&outcome.err).as_bytes());
    let mut out = std::io::stdout().lock();
    match out.write_all(tame(&outcome.out).as_bytes()).and_then(|()| out.flush()) {
        // Whoever closed the pipe has seen enough: that is no error of ours.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let _ = writeln!(std::io::stderr(), "error: cannot write the answer: {error}");
            ExitCode::from(commands::UNANSWERED)
        }
        _ => ExitCode::from(outcome.code),
    }
}
