//! Documents that only the command line prints: programs for nft, manual pages, completion scripts, usage.
//!
//! Their writers break lines and keep data inside of them; what they return is taken as it is.

#![expect(clippy::disallowed_methods, reason = "the writers of these formats escape data, or have none")]

use std::ffi::OsString;

use palisade_nftables::patch::Patch;
use palisade_nftables::program::Program;
use palisade_report::style::Look;
use palisade_report::text::{Text, escape, is_unseen};

/// A program for the kernel, as `nft -f` reads it.
pub fn nft_program(program: &Program) -> Text {
    nft(&program.replace())
}

/// A change of such a program.
pub fn nft_patch(patch: &Patch) -> Text {
    nft(&patch.text())
}

/// The format has no escapes: what is unseen in its strings becomes a quotation mark. None of them has a line break.
fn nft(script: &str) -> Text {
    let seen = |c: char| if is_unseen(c) && !matches!(c, '\n' | '\t') { '\'' } else { c };
    Text::trusted(script.chars().map(seen).collect())
}

/// A manual page.
pub fn manual(page: clap::Command) -> std::io::Result<Text> {
    let mut out = Vec::new();
    clap_mangen::Man::new(page).render(&mut out)?;
    Ok(Text::trusted(String::from_utf8_lossy(&out).into_owned()))
}

/// A completion script.
pub fn completions(shell: clap_complete::Shell, command: &mut clap::Command) -> Text {
    let mut out = Vec::new();
    clap_complete::generate(shell, command, "palisade", &mut out);
    Text::trusted(String::from_utf8_lossy(&out).into_owned())
}

/// Why arguments cannot be parsed, or the help that they ask for. clap quotes arguments and breaks lines, and nothing
/// distinguishes the one from the other in its text: it is given arguments that are escaped already.
pub fn usage<C: clap::Parser>(arguments: impl Iterator<Item = OsString>, look: Look) -> Text {
    let escaped = arguments.map(|argument| OsString::from(escape(&argument.to_string_lossy())));
    match C::try_parse_from(escaped).err().map(|error| error.render()) {
        Some(text) if look.color => Text::trusted(text.ansi().to_string()),
        Some(text) => Text::trusted(text.to_string()),
        None => Text::own("error: the arguments cannot be read\n"),
    }
}
