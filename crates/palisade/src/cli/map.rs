//! The arguments of `palisade map`.

use clap::{Args, ValueEnum};

use super::{DirectionArg, MapOptions, PathArgs, ThoriumArgs};

/// Show who can talk to whom.
///
/// Every pair of workloads and all addresses outside, with exactly the protocols and ports that both sides let through: a matrix where
/// it fits the terminal, else a list. A workload is what made the pods (ReplicaSet, StatefulSet, …); a pod that nothing made is one by
/// itself. Outside addresses are told apart only where policies do. A pod's own node always reaches it, which is in no row.
///
/// Exit code: 0 shown, 2 a file could not be read, or there is no such workload or namespace.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade map -f cluster/
  palisade map -f cluster/ --namespace shop --explain
  palisade map -f cluster/ --focus shop/db --direction ingress --port tcp/5432
  palisade map -f cluster/ --output html > map.html
  kubectl get pods,ns,nodes,netpol -A -o yaml | palisade map -f - --output json")]
pub struct MapArgs {
    #[command(flatten)]
    pub input: PathArgs,
    /// Only rows with a workload of this namespace; may be repeated
    #[arg(long, short, value_name = "NAME")]
    pub namespace: Vec<String>,
    /// Only rows with this workload (or the one of this pod, or what made it); may be repeated
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub focus: Vec<String>,
    /// Of the workloads asked about, only what they send (egress) or what they receive (ingress)
    #[arg(long, value_enum, value_name = "DIRECTION")]
    pub direction: Option<DirectionArg>,
    /// Only rows that let this through, e.g. tcp/5432
    #[arg(long, value_name = "TRAFFIC")]
    pub port: Option<String>,
    /// Say for each row who decided about which traffic, on either side, and where that is written
    #[arg(long)]
    pub explain: bool,
    /// Print what nodes may send workloads and receive from them, too; JSON always has it
    #[arg(long)]
    pub nodes: bool,
    #[command(flatten)]
    pub reading: MapOptions,
    /// A name and the address it stands for, for rules with domainNames or fqdn; may be repeated
    #[arg(long, value_name = "NAME=IP")]
    pub dns: Vec<String>,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = MapOutput::Table, value_name = "FORMAT")]
    pub output: MapOutput,
}

/// How to print a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MapOutput {
    /// A matrix where it fits, else a list
    #[value(alias = "text")]
    Table,
    /// A line for each pair
    List,
    /// For programs (docs/schemas/map.json)
    Json,
    /// For spreadsheets: a line for each pair and protocol
    Csv,
    /// For a comment on a pull request
    Md,
    /// A graph for Graphviz
    Dot,
    /// A picture of the graph
    Svg,
    /// A page that needs nothing else: matrix, graph, search, explanations
    Html,
}
