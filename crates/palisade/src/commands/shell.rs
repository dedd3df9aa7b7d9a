//! `palisade completions` and `palisade man`: what a shell and a manual need, made from the arguments themselves.

use clap::CommandFactory;

use super::{UNANSWERED, YES};
use crate::Outcome;
use crate::cli::Cli;

pub fn completions(shell: clap_complete::Shell) -> Outcome {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "palisade", &mut out);
    Outcome { out: String::from_utf8_lossy(&out).into_owned(), err: String::new(), code: YES }
}

pub fn man(command: &[String]) -> Outcome {
    let mut cli = Cli::command();
    cli.build();
    let page = command.iter().try_fold(cli, |cli, name| cli.find_subcommand(name).cloned());
    let Some(page) = page else {
        let err = format!("error: no command {}\n", command.join(" "));
        return Outcome { out: String::new(), err, code: UNANSWERED };
    };
    let mut out = Vec::new();
    match clap_mangen::Man::new(page).render(&mut out) {
        Ok(()) => Outcome { out: String::from_utf8_lossy(&out).into_owned(), err: String::new(), code: YES },
        Err(error) => Outcome { out: String::new(), err: format!("error: {error}\n"), code: UNANSWERED },
    }
}
