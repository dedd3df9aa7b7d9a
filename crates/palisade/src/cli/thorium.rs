//! `palisade thorium`, and which of Thorium's readings a command takes.

use clap::{Args, Subcommand, ValueEnum};

use super::InputArgs;

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
#[command(after_help = "\
Examples:
  palisade thorium effective corn/harvester -f examples/thorium
  palisade thorium effective corn/harvester -f examples/thorium --thorium program")]
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
#[command(after_help = "\
Examples:
  palisade thorium verify rules.yaml
  palisade thorium verify base thorium.yml
  palisade thorium verify request policy.json --output json")]
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
