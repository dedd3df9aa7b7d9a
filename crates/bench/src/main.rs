//! `cargo run --release -p palisade-bench -- core`: where the time goes, in one table.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use palisade_bench::generate::{self, Size};
use palisade_bench::scenario::Scenario;
use palisade_bench::text::Format;
use palisade_bench::{live, measure};

/// How fast Palisade is.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Namespaces of the world
    #[arg(long, global = true, default_value_t = Size::LARGE.namespaces)]
    namespaces: usize,
    /// Nodes of the world
    #[arg(long, global = true, default_value_t = Size::LARGE.nodes)]
    nodes: usize,
    /// Pods of the world
    #[arg(long, global = true, default_value_t = Size::LARGE.pods)]
    pods: usize,
    /// NetworkPolicies of the world
    #[arg(long, global = true, default_value_t = Size::LARGE.policies)]
    policies: usize,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures every step from text to verdict
    Core {
        /// How often each step is measured; the best counts
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// How the figures are printed
        #[arg(long, default_value = "table")]
        output: Output,
    },
    /// Measures the index on one of the peers' scenarios
    Engine {
        /// Which one
        scenario: Scenario,
        /// How many times its size
        #[arg(long, default_value_t = 1)]
        size: usize,
        /// How the figures are printed
        #[arg(long, default_value = "table")]
        output: Output,
    },
    /// Prints the world that is measured
    Generate {
        /// How it is written
        format: Format,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    Table,
    Json,
}

fn main() -> ExitCode {
    let Arguments { command, namespaces, nodes, pods, policies } = Arguments::parse();
    let size = Size { namespaces, nodes, pods, policies };
    let out = match command {
        Command::Core { runs, output } => {
            let report = measure::core(size, runs);
            match output {
                Output::Table => report.table(),
                Output::Json => serde_json::to_string_pretty(&report).unwrap_or_default() + "\n",
            }
        }
        Command::Engine { scenario, size, output } => {
            let (figures, engine) = live::run(scenario, size);
            drop(engine);
            match output {
                Output::Table => figures.line(),
                Output::Json => serde_json::to_string(&figures).unwrap_or_default() + "\n",
            }
        }
        Command::Generate { format } => format.write(&generate::world(size)),
    };
    match std::io::stdout().lock().write_all(out.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
