//! `palisade completions` and `palisade man`: what a shell and a manual need, made from the arguments themselves.

use clap::CommandFactory;
use palisade_report::text::{NL, Text};

use super::{UNANSWERED, YES};
use crate::Outcome;
use crate::cli::Cli;
use crate::print::documents;

pub fn completions(shell: clap_complete::Shell) -> Outcome {
    Outcome { out: documents::completions(shell, &mut Cli::command()), err: Text::new(), code: YES }
}

pub fn man(command: &[String]) -> Outcome {
    let mut cli = Cli::command();
    cli.build();
    let page = command.iter().try_fold(cli, |cli, name| cli.find_subcommand(name).cloned());
    let Some(page) = page else {
        let err = text!("error: no command {}{NL}", command.join(" "));
        return Outcome { out: Text::new(), err, code: UNANSWERED };
    };
    match documents::manual(page) {
        Ok(out) => Outcome { out, err: Text::new(), code: YES },
        Err(error) => Outcome { out: Text::new(), err: text!("error: {error}{NL}"), code: UNANSWERED },
    }
}
