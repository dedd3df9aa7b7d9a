//! `palisade enforce`, `enforce status` and `enforce stop`.

use clap::{Args, Subcommand, ValueEnum};

use super::{InputArgs, ThoriumArgs};

/// Put policies in force on this machine, and keep them in force.
///
/// Policies of all dialects, from files, become one table in this machine's kernel (nftables), for the pods that run here. Files
/// are watched: what is saved is in force at once, and what it opens and closes is said. A file that cannot be read, is half
/// written or is gone with its folder takes nothing out of force. Connections that a change denies are cut. At the end the rules stay in
/// force; `palisade enforce stop` removes them. Needs CAP_NET_ADMIN and nft. docs/enforce.md has the whole of it.
///
/// Exit code: 0 in force, 1 the files have errors (nothing is written), 2 it cannot be done here.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  sudo palisade enforce -f /etc/palisade
  palisade enforce -f /etc/palisade --dry-run
  sudo palisade enforce -f /etc/palisade --once
  sudo palisade enforce status
  sudo palisade enforce stop"
)]
pub struct EnforceArgs {
    #[command(subcommand)]
    pub command: Option<EnforceCommand>,
    #[command(flatten)]
    pub input: InputArgs,
    /// Which node this machine is; else the Node with an address of it, the only Machine there is, or its name
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// Put it in force and end; the rules stay
    #[arg(long)]
    pub once: bool,
    /// Print the transaction for nft, and what it would open and close, and write nothing; needs no rights
    #[arg(long, conflicts_with = "once")]
    pub dry_run: bool,
    /// Show metrics for Prometheus on this address of the loopback interface, e.g. 127.0.0.1:9469
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["once", "dry_run"])]
    pub metrics: Option<std::net::SocketAddr>,
    #[command(flatten)]
    pub state: StateArgs,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
}

#[derive(Debug, Subcommand)]
pub enum EnforceCommand {
    Status(EnforceStatusArgs),
    Stop(EnforceStopArgs),
}

/// Say what is in force, since when, from which files, and what was counted.
///
/// Exit code: 0 in force as the files say, 1 not, 2 it cannot be known.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct EnforceStatusArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = EnforceOutput::Text, value_name = "FORMAT")]
    pub output: EnforceOutput,
}

/// Take the rules out of the kernel.
///
/// Says what that opens, and asks first. Whoever enforces must have ended before.
///
/// Exit code: 0 nothing is in force any more, 1 it was not wanted after all, 2 it could not be done.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct EnforceStopArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Debug, Args)]
pub struct StateArgs {
    /// Where what is in force is remembered; one enforcer may run for each
    #[arg(long = "state", value_name = "FOLDER", default_value = palisade_agent::state::FOLDER)]
    pub folder: std::path::PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EnforceOutput {
    /// For people
    Text,
    /// For programs (docs/schemas/enforce-status.json)
    Json,
}
