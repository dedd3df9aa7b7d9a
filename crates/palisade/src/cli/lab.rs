//! `palisade lab`, and what can be done with a lab.

use clap::{Args, Subcommand, ValueEnum};

use super::ThoriumArgs;

/// Build the cluster of some manifests on this machine, and check every prediction with real packets.
///
/// Pods and nodes become network namespaces, policies rules of nftables in them, Services translated addresses. Every pod is
/// asked about every other one, on every port that pods declare or policies mention, and about addresses outside. All of it goes
/// away at the end. The machine's own network is not touched. Needs root, ip and nft; without them it says so and prints the
/// predictions alone.
///
/// Exit code: 0 all as predicted, 1 something was not, 2 nothing could be measured.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  sudo palisade lab examples/shop
  sudo palisade lab examples/shop --keep
  sudo palisade lab exec shop/web -- ip address
  sudo palisade lab test suites/k8s-e2e"
)]
pub struct LabArgs {
    #[command(subcommand)]
    pub command: Option<LabCommand>,
    /// Manifests, and folders of them
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    /// Stay up until Ctrl-C, and follow what changes in the manifests
    #[arg(long)]
    pub keep: bool,
    /// Ask about so many flows at most; more are thinned out evenly
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub most_flows: usize,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = LabOutput::Text, value_name = "FORMAT")]
    pub output: LabOutput,
}

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    Test(LabTestArgs),
    Exec(LabExecArgs),
    /// Take away what labs left behind that did not end as they should
    Clean,
}

/// Run PolicyTest files with real packets.
///
/// Each step changes the world that is built, and its flows are sent. What this machine cannot send is listed with the reason,
/// and never counts as passed.
///
/// Exit code: 0 all that was sent is as expected, 1 something was not, 2 nothing could be sent.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct LabTestArgs {
    /// Files and folders with tests
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// How many tests run side by side, each in a cluster of its own
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub jobs: usize,
    /// Print only what fails, and the summary
    #[arg(long, short)]
    pub quiet: bool,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = LabOutput::Text, value_name = "FORMAT")]
    pub output: LabOutput,
}

/// Run a command in a pod of a lab that stays up.
///
/// Exit code: the command's.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct LabExecArgs {
    /// The pod, as NAMESPACE/POD; or node:NAME, or outside
    #[arg(value_name = "NAMESPACE/POD")]
    pub pod: String,
    /// The command
    #[arg(required = true, last = true, value_name = "COMMAND")]
    pub arguments: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabOutput {
    /// For people
    Text,
    /// For programs (docs/schemas/lab.json, docs/schemas/lab-test.json)
    Json,
}
