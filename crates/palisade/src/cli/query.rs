//! The arguments of `palisade query` and `palisade exposure`.

use clap::{Args, ValueEnum};

use super::{InputArgs, MapOptions, ThoriumArgs};

/// Assert what must hold for all connections of a cluster, in a line each.
///
/// A query is SOURCE -> DESTINATION [TRAFFIC] [is empty|is not empty|is full], or DESTINATION <-
/// SOURCE. An end is namespace/name (of pods or what made them; * may stand for either part, or end
/// it), ns:namespace, labels as app=web or shop/app=web, internet, ip:ADDRESS, ip:CIDR or
/// node:NAME. Traffic is tcp/PORT, tcp/FROM-TO, tcp, udp, sctp or icmp, several with commas;
/// anything, if none is named. It is about every pod, every port and every address; what speaks
/// against it is one connection, explained.
///
/// ip:ADDRESS is whoever has the address: a pod or a node of the input, else the outside. ip:CIDR
/// and internet are addresses outside: the input's own pods and nodes are not meant, although an
/// address of theirs lies in the block.
///
/// is empty: nothing of the traffic is let through, for any pair. is not empty: something is, for
/// some pair. is full: all of it is, for every pair; what a rule lets through on condition (layer
/// 7) is not enough for that.
///
/// Exit code: 0 everything holds, 1 something does not, 2 a query or a file could not be read, or
/// an end is nobody; the other queries are answered all the same.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade query \"ns:payments <- internet is empty\" -f cluster/
  palisade query \"app=web -> app=db tcp/5432 is full\" \"shop/* -> internet\" -f cluster/
  palisade query -f new/ --within old/
  palisade query -f cluster/ --equals rewritten/")]
pub struct QueryArgs {
    /// What is asked, e.g. "app=web -> app=db tcp/5432 is full"
    #[arg(value_name = "QUERY")]
    pub queries: Vec<String>,
    #[command(flatten)]
    pub input: InputArgs,
    /// These manifests let through all that those of -f do; may be repeated
    #[arg(long, value_name = "PATH")]
    pub within: Vec<String>,
    /// These manifests let through what those of -f do, and nothing else; may be repeated
    #[arg(long, value_name = "PATH")]
    pub equals: Vec<String>,
    #[command(flatten)]
    pub reading: MapOptions,
    /// A name and the address it stands for, for rules with domainNames or fqdn; may be repeated
    #[arg(long, value_name = "NAME=IP")]
    pub dns: Vec<String>,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = QueryOutput::Text, value_name = "FORMAT")]
    pub output: QueryOutput,
}

/// Say what workloads accept from, and send to, pods that do not exist yet, and the outside.
///
/// A map is about the pods there are; policies let in whoever carries a label. For each workload,
/// all that its policies tell apart among pods that could exist is listed, with exactly what each
/// of them may do: every pod is in one of the lines. Where the pods of a workload are not alike, a
/// line says what some of them do, marked (some pods).
///
/// Exit code: 0 answered, 2 a file could not be read, or there is no such workload.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade exposure -f cluster/
  palisade exposure -f cluster/ --focus shop/db --direction ingress
  palisade exposure -f cluster/ --namespace shop --output json")]
pub struct ExposureArgs {
    #[command(flatten)]
    pub input: InputArgs,
    /// Only this workload (or the one of this pod, or what made it); may be repeated
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub focus: Vec<String>,
    /// Only workloads of this namespace; may be repeated
    #[arg(long = "namespace", short, value_name = "NAME")]
    pub namespaces: Vec<String>,
    /// Only what they accept, or only what they send
    #[arg(long, value_enum, value_name = "DIRECTION")]
    pub direction: Option<DirectionArg>,
    #[command(flatten)]
    pub reading: MapOptions,
    /// A name and the address it stands for, for rules with domainNames or fqdn; may be repeated
    #[arg(long, value_name = "NAME=IP")]
    pub dns: Vec<String>,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = ExposureOutput::Text, value_name = "FORMAT")]
    pub output: ExposureOutput,
}

/// A direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DirectionArg {
    /// What is accepted
    Ingress,
    /// What is sent
    Egress,
}

/// How to print answers to queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueryOutput {
    /// For people
    Text,
    /// For programs (docs/schemas/query.json)
    Json,
}

/// How to print exposure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExposureOutput {
    /// For people
    Text,
    /// For programs (docs/schemas/exposure.json)
    Json,
}
