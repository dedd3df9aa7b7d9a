//! The arguments, as users see them.

mod map;

pub use map::{MapArgs, MapDirection, MapOutput};

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

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
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  palisade explain \"shop/web -> shop/db tcp/5432\" -f cluster/
  kubectl get pods,ns,netpol -A -o yaml | palisade explain \"shop/web -> ip:203.0.113.7 tcp/443\" -f -
  palisade check -f cluster/
  palisade test cluster/tests";

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
    Compile(CompileArgs),
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
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  palisade explain \"shop/web -> shop/db tcp/5432\" -f cluster/
  palisade explain \"ip:203.0.113.7 -> svc:shop/web tcp/443\" -f cluster/ -f policies.yaml
  palisade explain \"shop/web -> ip:198.51.100.7 tcp/443\" -f cluster/ --dns api.example.com=198.51.100.7
  palisade explain \"shop/* -> shop/db tcp/5432\" -f cluster/ --output json"
)]
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
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  palisade check -f cluster/
  palisade check -f cluster/ --strict --output sarif > palisade.sarif
  palisade check --explain K0203"
)]
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
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  palisade test cluster/tests
  palisade test cluster/tests --output junit > results.xml"
)]
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

/// Say what a change of policies, or of the cluster, opens and closes.
///
/// Two sets of manifests are compared by what they mean: every pair of workloads and all addresses outside, with exact ports. What
/// becomes allowed and what becomes denied is listed with the rule that decided before and the one that decides after. No
/// difference is a proof: no connection is treated otherwise. --git compares the files here with those of a revision, or (A..B) two
/// revisions with each other.
///
/// Exit code: 0 same (or nothing that --fail-on asks for), 1 different, 2 a side could not be read.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  palisade diff --git main cluster/
  palisade diff old/ new/ -f cluster/pods.yaml
  palisade diff --git main cluster/ --output md > comment.md
  palisade diff --git v1.0..v1.1 cluster/ --fail-on opened"
)]
pub struct DiffArgs {
    /// Before and after; with --git, the files and folders to compare (the folder here, if none)
    #[arg(value_name = "PATH")]
    pub paths: Vec<String>,
    /// Compare with this git revision, or two of them (A..B)
    #[arg(long, value_name = "REV")]
    pub git: Option<String>,
    /// Manifests of both sides, e.g. the pods of the cluster; may be repeated
    #[arg(long = "file", short = 'f', value_name = "PATH")]
    pub files: Vec<String>,
    /// What makes the exit code 1
    #[arg(long, value_enum, default_value_t = FailOn::Any, value_name = "WHAT")]
    pub fail_on: FailOn,
    #[command(flatten)]
    pub reading: MapOptions,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// Print every finding, however many there are
    #[arg(long)]
    pub all: bool,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = DiffOutput::Text, value_name = "FORMAT")]
    pub output: DiffOutput,
}

/// Points where tools differ.
#[derive(Debug, Args)]
pub struct MapOptions {
    /// Each pod by itself instead of the workload that made it
    #[arg(long)]
    pub pods: bool,
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
    /// For programs
    Json,
    /// For a comment on a pull request
    Md,
    /// For code scanning
    Sarif,
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

/// Put policies in force on this machine, and keep them in force.
///
/// Policies of all dialects, from files, become one table in this machine's kernel (nftables), for the pods that run here. Files
/// are watched: what is saved is in force at once, and what it opens and closes is said. A file that cannot be read, is half
/// written or is gone with its folder takes nothing out of force. Connections that a change denies are cut. At the end the rules stay in
/// force; `palisade enforce stop` removes them. Needs CAP_NET_ADMIN, nft and ip. docs/enforce.md has the whole of it.
///
/// Exit code: 0 in force, 1 the files have errors (nothing is written), 2 it cannot be done here.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
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
    verbatim_doc_comment,
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

#[derive(Debug, Subcommand)]
pub enum ThoriumCommand {
    Effective(EffectiveArgs),
    Verify(VerifyArgs),
}

/// Show everything that holds for one tool.
///
/// Base, forced and attached policies, merged: whom the tool may reach, who may reach it, and which policy says so.
///
/// Exit code: 0 shown, 2 there is no such tool, or a file could not be read.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  palisade thorium effective corn/harvester -f examples/thorium
  palisade thorium effective corn/harvester -f examples/thorium --thorium program"
)]
pub struct EffectiveArgs {
    /// The tool, as GROUP/TOOL
    #[arg(value_name = "GROUP/TOOL")]
    pub tool: String,
    #[command(flatten)]
    pub input: InputArgs,
    #[command(flatten)]
    pub thorium: ThoriumArgs,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = EffectiveOutput::Text, value_name = "FORMAT")]
    pub output: EffectiveOutput,
}

/// Check files for Thorium before they are used.
///
/// Reads rules files, policy requests, thorium.yml and instance manifests, and says everything that is wrong with them
/// at once. What a file is, its shape tells; rules, request, base or instance before the files says it instead.
///
/// Exit code: 0 no errors, 1 errors, 2 a file could not be read or is none of Thorium's.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  palisade thorium verify rules.yaml
  palisade thorium verify base thorium.yml
  palisade thorium verify request policy.json --output json"
)]
pub struct VerifyArgs {
    /// rules, request, base or instance if the shape shall not tell; then files, or - for standard input
    #[arg(required = true, value_name = "[SORT] FILE")]
    pub arguments: Vec<String>,
    /// How to print it
    #[arg(long, short, value_enum, default_value_t = VerifyOutput::Text, value_name = "FORMAT")]
    pub output: VerifyOutput,
}

#[derive(Debug, Clone, Copy, Args)]
pub struct ThoriumArgs {
    /// Whom to follow where Thorium's document and its program differ
    #[arg(long, value_enum, default_value_t = Reading::Document, value_name = "READING")]
    pub thorium: Reading,
}

/// Whom to follow where Thorium's document and its program differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reading {
    /// What the document says
    Document,
    /// What the program does (version 1.6.1)
    Program,
}

impl From<ThoriumArgs> for palisade_dialects::thorium::Reading {
    fn from(arguments: ThoriumArgs) -> Self {
        match arguments.thorium {
            Reading::Document => Self::Document,
            Reading::Program => Self::Program,
        }
    }
}

#[derive(Debug, Args)]
pub struct InputArgs {
    /// A manifest, a folder (searched for .yaml, .yml and .json), or - for standard input; may be repeated
    #[arg(short, long = "file", required = true, value_name = "PATH")]
    pub files: Vec<String>,
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
pub enum LabOutput {
    /// For people
    Text,
    /// For programs (docs/schemas/lab.json, docs/schemas/lab-test.json)
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EnforceOutput {
    /// For people
    Text,
    /// For programs (docs/schemas/enforce-status.json)
    Json,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EffectiveOutput {
    /// For people
    Text,
    /// For programs (docs/schemas/effective.json)
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum VerifyOutput {
    /// For people
    Text,
    /// For programs (docs/schemas/check.json)
    Json,
}
