//! The arguments, as users see them: what is written here is what `--help` and the manual pages say. Commands with
//! much to say, or with commands of their own, have a file of their own.

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::convert::{ConvertArgs, ConvertFrom, ConvertTo};
pub use self::diff::{DiffArgs, DiffOutput, FailOn};
pub use self::enforce::{EnforceArgs, EnforceCommand, EnforceOutput, EnforceStatusArgs, EnforceStopArgs};
pub use self::lab::{LabArgs, LabCommand, LabExecArgs, LabOutput, LabTestArgs};
pub use self::map::{MapArgs, MapOutput};
pub use self::query::{DirectionArg, ExposureArgs, ExposureOutput, QueryArgs, QueryOutput};
pub use self::thorium::{
    EffectiveArgs, EffectiveOutput, ThoriumArgs, ThoriumCommand, VerifyArgs, VerifyOutput,
};

mod convert;
mod diff;
mod enforce;
mod lab;
mod map;
mod query;
mod thorium;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Every network-policy dialect in, one verdict out.
///
/// Palisade reads Kubernetes manifests and the network policies among them (NetworkPolicy v1 and the 2016 API,
/// AdminNetworkPolicy, BaselineAdminNetworkPolicy, ClusterNetworkPolicy, Antrea's tiered policies, Thorium's tool policies),
/// merges them in one ordered pipeline and says what they allow together, and why.
#[derive(Debug, Parser)]
#[command(name = "palisade", version, styles = STYLES, propagate_version = true, after_help = EXAMPLES)]
pub struct Cli {
    /// When to use colour; NO_COLOR is honoured
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub color: ColorChoice,
    /// Read what symbolic links in a folder lead to, also outside of that folder
    #[arg(long, global = true)]
    pub follow_links: bool,
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  palisade explain \"shop/web -> shop/db tcp/5432\" -f cluster/
  kubectl get pods,ns,netpol -A -o yaml | palisade explain \"shop/web -> ip:203.0.113.7 tcp/443\" -f -
  palisade map -f cluster/
  palisade diff --git main cluster/
  palisade check -f cluster/
  palisade test cluster";

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Explain(ExplainArgs),
    Check(CheckArgs),
    Test(TestArgs),
    Map(MapArgs),
    Diff(DiffArgs),
    Query(QueryArgs),
    Exposure(ExposureArgs),
    Compile(CompileArgs),
    Convert(ConvertArgs),
    Enforce(EnforceArgs),
    Lab(LabArgs),
    /// Ask about Thorium's tool policies
    #[command(subcommand)]
    Thorium(ThoriumCommand),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// Print a manual page (roff)
    Man {
        /// The command to print it for, e.g. "explain" or "thorium effective"; without it, for palisade itself
        command: Vec<String>,
    },
}

/// Say whether a connection is allowed, and why.
///
/// A flow is SOURCE -> DESTINATION TRAFFIC. An endpoint is namespace/pod (or the workload's name; * may stand for
/// either part, or end it), ip:ADDRESS, node:NAME, or as destination svc:namespace/name. Traffic is tcp/PORT, udp/PORT,
/// sctp/PORT, icmp[/TYPE[/CODE]] or igmp[/TYPE], with `sport PORT` for a source port.
///
/// Exit code: 0 allowed, 1 denied, 2 not answerable.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade explain \"shop/web -> shop/db tcp/5432\" -f cluster/
  palisade explain \"ip:203.0.113.7 -> svc:shop/web tcp/443\" -f cluster/ -f policies.yaml
  palisade explain \"shop/web -> ip:198.51.100.7 tcp/443\" -f cluster/ --dns api.example.com=198.51.100.7
  palisade explain \"shop/* -> shop/db tcp/5432\" -f cluster/ --output json")]
pub struct ExplainArgs {
    /// The connection, e.g. "shop/web -> shop/db tcp/5432"
    pub flow: String,
    #[command(flatten)]
    pub input: InputArgs,
    /// A name and the address it stands for, for rules with domainNames or fqdn; may be repeated
    #[arg(long, value_name = "NAME=IP")]
    pub dns: Vec<String>,
    /// An evaluation option, e.g. selfTraffic=evaluate, hostNetworkPods=ignore, ipBlockMatchesPods=false
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// Answer from the live index, as a controller would, instead of from scratch
    #[arg(long)]
    pub engine: bool,
    /// Show every policy and rule that was asked, not only the nearest ones
    #[arg(long)]
    pub all: bool,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = ExplainOutput::Text, value_name = "FORMAT")]
    pub output: ExplainOutput,
}

/// Validate and lint policies.
///
/// Reports everything that an API server would refuse, and what it accepts but was probably not meant.
///
/// Exit code: 0 clean or warnings only, 1 errors (with --strict also warnings), 2 a file could not be read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade check -f cluster/
  palisade check -f cluster/ --strict --output sarif > palisade.sarif
  palisade check --explain K0203")]
pub struct CheckArgs {
    #[command(flatten)]
    pub input: OptionalInputArgs,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// Let warnings fail, too
    #[arg(long)]
    pub strict: bool,
    /// Explain a code instead ("all" for every one of them, in Markdown)
    #[arg(long, value_name = "CODE")]
    pub explain: Option<String>,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = CheckOutput::Text, value_name = "FORMAT")]
    pub output: CheckOutput,
}

/// Run PolicyTest, AdmissionTest and ThoriumCases files.
///
/// Folders are searched for tests; other documents in them are passed over.
///
/// Exit code: 0 all hold, 1 any does not, 2 a file could not be read.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade test cluster
  palisade test cluster --output junit > results.xml")]
pub struct TestArgs {
    /// Files and folders with tests
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<String>,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// Answer from the live index, as a controller would, instead of from scratch
    #[arg(long)]
    pub engine: bool,
    /// Print only what fails, and the summary
    #[arg(long, short)]
    pub quiet: bool,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = TestOutput::Text, value_name = "FORMAT")]
    pub output: TestOutput,
}

/// Points where tools differ.
#[derive(Debug, Args)]
pub struct MapOptions {
    /// Each pod by itself instead of the workload that made it
    #[arg(long)]
    pub pods: bool,
    /// Deployments instead of their ReplicaSets, CronJobs instead of their Jobs: then a rollout is no change
    #[arg(long, conflicts_with = "pods")]
    pub by_deployment: bool,
    /// Whether address blocks of policies also match pods, by their address
    #[arg(long, value_enum, default_value_t = IpBlocks::Everywhere, value_name = "WHERE")]
    pub ip_blocks: IpBlocks,
    /// Without what a workload sends itself
    #[arg(long)]
    pub ignore_self: bool,
    /// Outside addresses of which family; auto: IPv6 where some manifest speaks of it
    #[arg(long, value_enum, default_value_t = Families::Auto, value_name = "FAMILY")]
    pub family: Families,
    /// An evaluation option, e.g. selfTraffic=evaluate, hostNetworkPods=ignore
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub options: Vec<String>,
}

/// Whom address blocks match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IpBlocks {
    /// Whoever has the address
    Everywhere,
    /// Only who is no pod
    OutsideOnly,
}

/// Families of outside addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Families {
    /// IPv4, and IPv6 where some manifest speaks of it
    Auto,
    /// IPv4
    Ipv4,
    /// IPv6
    Ipv6,
    /// Both
    Both,
}

/// Print policies in another form.
///
/// --to kubernetes: Thorium's policies become Kubernetes NetworkPolicy objects: one for each policy in the namespace of
/// each of its groups, base policies in every group. They allow what the policies allow, and nothing else.
///
/// --to nftables: policies of all dialects become one table for the kernel of a node, as `nft -f` reads it. It replaces
/// the table `inet palisade` at once and touches no other. Comments name the policy and rule behind each verdict.
///
/// Exit code: 0 printed, 1 the input has errors (nothing is printed), 2 nothing to compile, or a file could not be read.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  palisade compile --to kubernetes -f examples/thorium
  palisade compile --to kubernetes -f thorium.yml -f instance.yaml -f policies/ --output json
  palisade compile --to nftables --node worker-1 -f examples/shop"
)]
pub struct CompileArgs {
    /// What to print
    #[arg(long, value_enum, value_name = "FORM")]
    pub to: CompileTo,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// The node to compile for, with --to nftables; not needed if all pods run on one
    #[arg(long, value_name = "NAME")]
    pub node: Option<String>,
    /// How to print objects
    #[arg(long, short, value_enum, default_value_t = CompileOutput::Yaml, value_name = "FORMAT")]
    pub output: CompileOutput,
}

#[derive(Debug, Args)]
pub struct InputArgs {
    /// A manifest, a folder (searched for .yaml, .yml and .json), or - for standard input; may be repeated
    #[arg(short, long = "file", required = true, value_name = "PATH")]
    pub files: Vec<String>,
}

#[derive(Debug, Args)]
pub struct PathArgs {
    /// A manifest, a folder (searched for .yaml, .yml and .json), or - for standard input; may be repeated
    #[arg(short, long = "file", required_unless_present = "paths", value_name = "PATH")]
    files: Vec<String>,
    /// The same, without -f
    #[arg(value_name = "PATH", id = "paths")]
    paths: Vec<String>,
}

impl PathArgs {
    /// All of them.
    pub fn all(&self) -> Vec<String> {
        self.files.iter().chain(&self.paths).cloned().collect()
    }
}

#[derive(Debug, Args)]
pub struct OptionalInputArgs {
    /// A manifest, a folder (searched for .yaml, .yml and .json), or - for standard input; may be repeated
    #[arg(short, long = "file", required_unless_present_any = ["explain", "paths"], value_name = "PATH")]
    pub files: Vec<String>,
    /// The same, without -f
    #[arg(value_name = "PATH", id = "paths")]
    pub paths: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExplainOutput {
    /// For people
    Text,
    /// For programs (docs/schemas/explain.json)
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CheckOutput {
    /// For people
    Text,
    /// For programs (docs/schemas/check.json)
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TestOutput {
    /// For people
    Text,
    /// For programs (docs/schemas/test.json)
    Json,
    /// JUnit XML, for CI
    Junit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompileTo {
    /// Kubernetes NetworkPolicy objects, of Thorium's policies
    Kubernetes,
    /// The program for the kernel of one node, of all policies
    Nftables,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompileOutput {
    /// Documents, as kubectl applies them
    Yaml,
    /// One list
    Json,
}
