//! The arguments of `palisade diff`.

use clap::{Args, ValueEnum};

use super::{MapOptions, ThoriumArgs};

/// Say what a change of policies, or of the cluster, opens and closes.
///
/// Two sets of manifests are compared by what they mean: every pair of workloads, all nodes and all addresses outside, with exact
/// ports. What becomes allowed and what becomes denied is listed with the rule that decided before and the one that decides after.
/// No difference is a proof: nothing opens or closes. Where nothing does, pods that are not there yet are compared, too, and where there
/// are no workloads at all, that is the answer. --with says what applying a file would do, --git compares the files here with
/// those of a revision, (A..B) two revisions with each other, or (A...B) B with where it left A.
///
/// Exit code: 0 same (or nothing that --fail-on asks for), 1 different, 2 a side could not be read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade diff --git main cluster/
  palisade diff cluster/ --with new-policy.yaml
  palisade diff old/ new/ -f cluster/pods.yaml
  palisade diff --git main cluster/ --output md > comment.md
  palisade diff --git v1.0..v1.1 cluster/ --fail-on opened")]
pub struct DiffArgs {
    /// Before and after; with --git, the files and folders to compare (the folder here, if none)
    #[arg(value_name = "PATH")]
    pub paths: Vec<String>,
    /// Compare with this git revision, or two of them (A..B, or A...B for since they went apart)
    #[arg(long, value_name = "REV")]
    pub git: Option<String>,
    /// Compare with what applying these would make of it: objects of the same name are replaced; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with = "git")]
    pub with: Vec<String>,
    /// Manifests of both sides, e.g. the pods of the cluster; may be repeated
    #[arg(long = "file", short = 'f', value_name = "PATH")]
    pub files: Vec<String>,
    /// What makes the exit code 1
    #[arg(long, value_enum, default_value_t = FailOn::Any, value_name = "WHAT")]
    pub fail_on: FailOn,
    #[command(flatten)]
    pub reading: MapOptions,
    /// A name and the address it stands for, for rules with domainNames or fqdn; may be repeated
    #[arg(long, value_name = "NAME=IP")]
    pub dns: Vec<String>,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// Print every finding, however many there are
    #[arg(long)]
    pub all: bool,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = DiffOutput::Text, value_name = "FORMAT")]
    pub output: DiffOutput,
}

/// What makes a diff fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Something opens
    Opened,
    /// Something closes
    Closed,
    /// Either
    Any,
}

/// How to print a diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DiffOutput {
    /// For people
    Text,
    /// For programs (docs/schemas/diff.json)
    Json,
    /// For a comment on a pull request
    Md,
    /// For code scanning
    Sarif,
}
