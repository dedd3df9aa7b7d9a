//! `cargo run --release -p palisade-bench -- core`: where the time goes, in one table; `-- help` for the other tables.

// It prints figures of worlds that it made itself.
#![allow(clippy::disallowed_methods)]

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use palisade_bench::bombs::Bomb;
use palisade_bench::count::Case;
use palisade_bench::generate::{self, Size};
use palisade_bench::packets::shapes::Shape;
use palisade_bench::packets::{self, Settings, loading, report};
use palisade_bench::scenario::{Scale, Scenario};
use palisade_bench::text::Format;
use palisade_bench::{compare, growth, live, map, measure, node, single};
use serde::Serialize;

/// How fast Palisade is.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures every step from text to verdict
    Core {
        #[command(flatten)]
        world: WorldSize,
        /// How often each step is measured; the best counts
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// How the figures are printed
        #[arg(long, default_value = "table")]
        output: Output,
    },
    /// Measures the index on the peers' scenarios, next to a peer's figures
    Engine {
        /// Which one, or `all`
        #[arg(default_value = "all")]
        scenario: Chosen,
        #[command(flatten)]
        scale: ScenarioSize,
        /// How often each is measured, each time in a process of its own; the best counts
        #[arg(long, default_value_t = 3)]
        runs: usize,
        /// How the figures are printed; JSON is one object on each line
        #[arg(long, default_value = "table")]
        output: Output,
    },
    /// Measures single events on a loaded scenario
    Events {
        /// Which one
        scenario: Scenario,
        #[command(flatten)]
        scale: ScenarioSize,
        /// How many events of each sort
        #[arg(long, default_value_t = 2000)]
        count: usize,
        /// How the figures are printed; JSON is one object on each line
        #[arg(long, default_value = "table")]
        output: Output,
    },
    /// Measures how the costs grow with the cluster
    Growth {
        /// Of which scenario
        #[arg(default_value = "S6")]
        scenario: Scenario,
        /// How many times its size
        #[arg(long, value_delimiter = ',', default_values_t = growth::SIZES)]
        sizes: Vec<usize>,
        /// How often each load is measured; the best counts
        #[arg(long, default_value_t = 3)]
        runs: usize,
        /// How the figures are printed; JSON is one object on each line
        #[arg(long, default_value = "table")]
        output: Output,
    },
    /// Measures the program of one node, and single events from the index to it
    Node {
        /// How many events of each sort
        #[arg(long, default_value_t = 1000)]
        count: usize,
        /// On to the kernel of a network namespace (needs root, nft and ip)
        #[arg(long)]
        kernel: bool,
    },
    /// Measures the map of clusters like a real one: all pairs of classes, all rows
    Map {
        #[command(flatten)]
        arguments: map::Arguments,
        /// How the figures are printed; JSON is one object on each line
        #[arg(long, default_value = "table")]
        output: Output,
    },
    /// Measures what rules cost a packet in the kernel, and how long they take to load (needs root, nft and ip; iperf3 if it is there)
    Packets(PacketArgs),
    /// Does one of the things whose instructions are counted (scripts/instructions), or says which there are
    Count {
        /// Which one
        case: Option<Case>,
    },
    /// Answers a question about a small input that asks for much, and prints the peak memory in MiB; or says which there
    /// are, with their limits: millions of instructions, MiB of memory
    Bomb {
        /// Which one
        bomb: Option<Bomb>,
    },
    /// Prints the world that is measured
    Generate {
        /// How it is written
        format: Format,
        #[command(flatten)]
        world: WorldSize,
    },
}

#[derive(Debug, Args)]
struct WorldSize {
    /// Namespaces of the world
    #[arg(long, default_value_t = Size::LARGE.namespaces)]
    namespaces: usize,
    /// Nodes of the world
    #[arg(long, default_value_t = Size::LARGE.nodes)]
    nodes: usize,
    /// Pods of the world
    #[arg(long, default_value_t = Size::LARGE.pods)]
    pods: usize,
    /// NetworkPolicies of the world
    #[arg(long, default_value_t = Size::LARGE.policies)]
    policies: usize,
}

#[derive(Debug, Args)]
struct PacketArgs {
    /// Only one of the two tables
    #[arg(long)]
    only: Option<PacketPart>,
    /// How often each program is measured under each load
    #[arg(long, default_value_t = 100)]
    rounds: usize,
    /// How long each time, in milliseconds
    #[arg(long, default_value_t = 5)]
    slice: u64,
    /// How many policies there are
    #[arg(long, value_delimiter = ',', default_values_t = [10, 1_000, 10_000])]
    policies: Vec<usize>,
    /// How often each program has a stream of iperf3; 0 for never
    #[arg(long, default_value_t = 5)]
    streams: usize,
    /// A file with rules for the node that is measured too, for trying things out
    #[arg(long, value_name = "FILE")]
    also: Vec<PathBuf>,
    /// Write the programs into this folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
    /// Only these shapes are loaded
    #[arg(long, value_delimiter = ',', default_values_t = Shape::value_variants().to_vec(), value_enum)]
    shapes: Vec<Shape>,
    /// How many peers the node's pods have in these
    #[arg(long, default_value_t = 100_000)]
    peers: usize,
    /// How often each is loaded; the best counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Write all figures into this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where root, nft or ip is missing, say so and be content
    #[arg(long)]
    if_possible: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PacketPart {
    Path,
    Loading,
}

#[derive(Debug, Clone, Copy, Args)]
struct ScenarioSize {
    /// How many times its size
    #[arg(long, default_value_t = 1)]
    size: usize,
    /// One of so many parts of that
    #[arg(long, default_value_t = 1)]
    fraction: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

/// A scenario, or all of them.
#[derive(Debug, Clone, Copy)]
enum Chosen {
    All,
    One(Scenario),
}

fn main() -> ExitCode {
    let done = Arguments::parse().command.run().and_then(|out| io::stdout().lock().write_all(out.as_bytes()));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // When nobody listens there is nobody to tell.
            let _ = writeln!(io::stderr(), "palisade-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

// === impl Command ===

impl Command {
    /// What it prints.
    fn run(self) -> io::Result<String> {
        Ok(match self {
            Command::Core { world, runs, output } => {
                let report = measure::core(world.into(), runs);
                match output {
                    Output::Table => report.table(),
                    Output::Json => serde_json::to_string_pretty(&report)? + "\n",
                }
            }
            Command::Engine { scenario, scale, runs, output } => {
                let scale = scale.into();
                let rows = match scenario {
                    // One run of one scenario: this process may be its own.
                    Chosen::One(scenario) if runs <= 1 => vec![(scenario, live::run(scenario, scale).0)],
                    _ => {
                        let best =
                            |scenario: &Scenario| Ok((*scenario, compare::best(*scenario, scale, runs)?));
                        scenario.scenarios().iter().map(best).collect::<io::Result<Vec<_>>>()?
                    }
                };
                match output {
                    Output::Table => compare::table(&rows, scale, runs),
                    Output::Json => lines(rows.iter().map(|(_, figures)| figures))?,
                }
            }
            Command::Events { scenario, scale, count, output } => {
                let costs = single::run(scenario, scale.into(), count)?;
                match output {
                    Output::Table => single::table(&costs),
                    Output::Json => lines(&costs)?,
                }
            }
            Command::Growth { scenario, sizes, runs, output } => {
                let steps = growth::run(scenario, &sizes, runs)?;
                match output {
                    Output::Table => growth::table(&steps),
                    Output::Json => lines(&steps)?,
                }
            }
            Command::Node { count, kernel } => node::run(count, kernel)?,
            Command::Map { arguments, output } => {
                let figures = arguments.run()?;
                match output {
                    Output::Table => map::table(&figures, arguments.runs),
                    Output::Json => lines(&figures)?,
                }
            }
            Command::Packets(arguments) => arguments.run()?,
            Command::Count { case: Some(case) } => format!("{}\n", case.run()),
            Command::Count { case: None } => {
                let names = Case::value_variants().iter().filter_map(Case::to_possible_value);
                names.map(|name| format!("{}\n", name.get_name())).collect()
            }
            Command::Bomb { bomb: Some(bomb) } => {
                if bomb.run() == 0 {
                    return Err(io::Error::other("nothing came of it"));
                }
                format!("{}\n", measure::peak_bytes().unwrap_or(0) >> 20)
            }
            Command::Bomb { bomb: None } => {
                let line = |bomb: &Bomb| {
                    let (name, limit) = (bomb.to_possible_value()?, bomb.limit());
                    Some(format!("{} {} {}\n", name.get_name(), limit.instructions, limit.memory))
                };
                Bomb::value_variants().iter().filter_map(line).collect()
            }
            Command::Generate { format, world } => format.write(&generate::world(world.into())),
        })
    }
}

// === impl PacketArgs ===

impl PacketArgs {
    fn run(self) -> io::Result<String> {
        let missing = packets::missing();
        if !missing.is_empty() {
            let what = format!("packets need {}", missing.join("; "));
            return if self.if_possible {
                Ok(format!("skipped: {what}\n"))
            } else {
                Err(io::Error::other(what))
            };
        }
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            signal_hook::flag::register(signal, Arc::clone(&stop))?;
        }
        let mut say = |what: &str| {
            let _ = writeln!(io::stderr(), "{what}");
        };
        let settings = Settings {
            rounds: self.rounds,
            slice: Duration::from_millis(self.slice),
            policies: self.policies,
            streams: self.streams,
            also: self.also,
            keep: self.keep,
            stop,
        };
        let wanted = |part| self.only.is_none_or(|only| only == part);
        let path = wanted(PacketPart::Path).then(|| packets::run(&settings, &mut say)).transpose()?;
        let loaded = wanted(PacketPart::Loading)
            .then(|| loading::run(&self.shapes, self.peers, self.runs, &settings, &mut say))
            .transpose()?;
        if let Some(file) = self.json {
            let all = serde_json::json!({"packets": path, "loading": loaded});
            std::fs::write(file, serde_json::to_string_pretty(&all)? + "\n")?;
        }
        let tables = [path.map(|path| path.table()), loaded.map(|all| report::loading(&all))];
        Ok(tables.into_iter().flatten().collect::<Vec<_>>().join("\n"))
    }
}

/// A JSON value on each line.
fn lines(values: impl IntoIterator<Item = impl Serialize>) -> io::Result<String> {
    let line = |value| Ok(serde_json::to_string(&value)? + "\n");
    values.into_iter().map(line).collect()
}

// === impl Chosen ===

impl Chosen {
    fn scenarios(&self) -> &[Scenario] {
        match self {
            Chosen::All => &Scenario::ALL,
            Chosen::One(scenario) => std::slice::from_ref(scenario),
        }
    }
}

impl std::str::FromStr for Chosen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Chosen::All);
        }
        <Scenario as ValueEnum>::from_str(text, true)
            .map(Chosen::One)
            .map_err(|_| "S1 to S8, or all".to_owned())
    }
}

// === impl Size, Scale ===

impl From<WorldSize> for Size {
    fn from(WorldSize { namespaces, nodes, pods, policies }: WorldSize) -> Self {
        Size { namespaces, nodes, pods, policies }
    }
}

impl From<ScenarioSize> for Scale {
    fn from(ScenarioSize { size, fraction }: ScenarioSize) -> Self {
        Scale { size, fraction }
    }
}
