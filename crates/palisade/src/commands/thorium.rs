//! `palisade thorium effective` and `palisade thorium verify`.

use palisade_dialects::load::unparsed;
use palisade_dialects::object;
use palisade_dialects::source::tree::{Node, Source};
use palisade_dialects::source::{Limits, documents};
use palisade_dialects::thorium::effective::effective;
use palisade_dialects::thorium::instance::Instance;
use palisade_dialects::thorium::{Shape, read, read_base, read_request, read_rules};
use palisade_dialects::world::World;
use palisade_model::diagnostic::{Diagnostic, Severity};
use palisade_model::nearest::nearest;
use palisade_report::diagnostics::{counts, plural, render, sources_by_name};
use palisade_report::json::{self, CheckJson, CheckSummaryJson};
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};
use palisade_report::thorium;

use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, EffectiveArgs, EffectiveOutput, ThoriumCommand, VerifyArgs, VerifyOutput};
use crate::input::{self, Input};
use crate::print::output::StreamLook;

pub fn run(command: &ThoriumCommand, color: ColorChoice) -> Outcome {
    let look = Look::stderr(color);
    let outcome = match command {
        ThoriumCommand::Effective(arguments) => show(arguments, color),
        ThoriumCommand::Verify(arguments) => verify(arguments, color),
    };
    outcome.unwrap_or_else(|message| Outcome {
        out: Text::new(),
        err: text!("{} {message}{NL}", look.bad("error:")),
        code: UNANSWERED,
    })
}

fn show(arguments: &EffectiveArgs, color: ColorChoice) -> Result<Outcome, Text> {
    let Some((group, tool)) = arguments.tool.split_once('/').filter(|(_, tool)| !tool.contains('/')) else {
        return Err(text!("{:?} is no tool: write GROUP/TOOL, e.g. corn/harvester", arguments.tool));
    };
    let mut input = input::read(&arguments.input.files);
    if let Some(refusal) = input.refusal() {
        return Err(refusal.into());
    }
    let world = input::world(&mut input, arguments.thorium);
    let place = input::describe(&arguments.input.files);
    let instance = world.thorium_instance().ok_or_else(|| text!("nothing of Thorium's in {place}"))?;
    let held = effective(&instance, group, tool).ok_or_else(|| missing(&instance, group, tool, &place))?;
    let out = match arguments.output {
        EffectiveOutput::Text => thorium::print_effective(&arguments.tool, &held, Look::stdout(color)),
        EffectiveOutput::Json => json::print(&json::EffectiveJson::new(group, tool, &held)),
    };
    let problems: Vec<Diagnostic> =
        input.found.iter().filter(|finding| finding.is_error()).cloned().collect();
    let look = Look::stderr(color);
    let err = match problems.first() {
        None => Text::new(),
        Some(first) => {
            let at = first.location.as_ref().map(|at| format!("{at}: ")).unwrap_or_default();
            text!(
                "{} {} in the input; what cannot be read fails closed: {at}{}{NL}  `palisade check` shows all of it{NL}",
                look.warning("warning:"),
                counts(&problems),
                first.message
            )
        }
    };
    Ok(Outcome { out, err, code: YES })
}

/// Names that there are, near the one that there is not.
fn missing(instance: &Instance, group: &str, tool: &str, place: &str) -> Text {
    let all: Vec<String> = instance.images().map(|(group, tool, _)| format!("{group}/{tool}")).collect();
    let names = || all.iter().map(String::as_str);
    let wanted = format!("{group}/{tool}");
    let elsewhere = names().filter(|name| name.split_once('/').is_some_and(|(_, other)| other == tool));
    let mut near: Vec<&str> = nearest(&wanted, names());
    near.extend(elsewhere);
    near.dedup();
    let help = match near.as_slice() {
        [] if all.is_empty() => Text::own("\n  tools are the images of a ThoriumInstance manifest"),
        [] => text!("{NL}  there are {}", all.join(", ")),
        near => text!("{NL}  did you mean {}?", near.join(", ")),
    };
    text!("no tool {wanted} in {place}{help}")
}

/// A document, and what there is to say about it.
struct Verified {
    name: String,
    what: &'static str,
}

fn verify(arguments: &VerifyArgs, color: ColorChoice) -> Result<Outcome, Text> {
    let sorts = [
        ("rules", Shape::Rules),
        ("request", Shape::Request),
        ("base", Shape::Config),
        ("instance", Shape::Instance),
    ];
    let (sort, files) = match arguments.arguments.as_slice() {
        [first, rest @ ..] if !rest.is_empty() => match sorts.iter().find(|(name, _)| name == first) {
            Some((_, shape)) => (Some(*shape), rest),
            None => (None, arguments.arguments.as_slice()),
        },
        all => (None, all),
    };
    let mut input = input::read(files);
    let (verified, strangers) = verify_all(sort, &mut input);
    let mut found = std::mem::take(&mut input.found);
    let order = |file: &str| input.sources.iter().position(|source| &**source.name() == file);
    found.sort_by_cached_key(|finding| {
        finding.location.as_ref().map(|at| (order(&at.file), at.line, at.column))
    });
    let count = |severity| found.iter().filter(|finding| finding.severity() == severity).count();
    let errors = count(Severity::Error);
    let code = match (input.is_incomplete() || !strangers.is_empty() || verified.is_empty(), errors) {
        (true, _) => UNANSWERED,
        (false, 0) => YES,
        (false, _) => NO,
    };
    let look = Look::stderr(color);
    let mut err: Text = strangers
        .iter()
        .map(|at| {
            text!(
                "{} {at} is none of Thorium's documents{NL}  say what it should be: palisade thorium verify rules|request|base|instance FILE{NL}",
                look.bad("error:")
            )
        })
        .collect();
    if verified.is_empty() && strangers.is_empty() && found.is_empty() {
        err = text!("{} no documents of Thorium's in {}{NL}", look.bad("error:"), input::describe(files));
    }
    let out = match arguments.output {
        VerifyOutput::Json => json::print(&CheckJson {
            summary: CheckSummaryJson {
                errors,
                warnings: count(Severity::Warning),
                notes: count(Severity::Note),
                objects: verified.len(),
                files: input.sources.len(),
            },
            diagnostics: found.iter().map(json::DiagnosticJson::from).collect(),
        }),
        VerifyOutput::Text => {
            let (look, texts) = (Look::stdout(color), sources_by_name(&input.sources));
            let mut out: Text =
                found.iter().map(|finding| text!("{}{NL}", render(finding, &texts, look))).collect();
            for document in &verified {
                write_line!(out, "{}: {}", document.name, document.what);
            }
            if !verified.is_empty() {
                write_line!(out, "{} in {}", counts(&found), plural(verified.len(), "document"));
            }
            out
        }
    };
    Ok(Outcome { out, err, code })
}

/// Reads every document as what it is; what is none of Thorium's is handed back by its place.
fn verify_all(sort: Option<Shape>, input: &mut Input) -> (Vec<Verified>, Vec<String>) {
    let (mut verified, mut strangers) = (Vec::new(), Vec::new());
    let (limits, mut world) = (Limits::default(), World::default());
    for source in &input.sources {
        for document in documents(source, &limits) {
            let node = match document {
                Ok(node) => node,
                Err(error) => {
                    input.found.push(unparsed(source, &error));
                    continue;
                }
            };
            let name = source.location(node.span).to_string();
            match sort.or_else(|| Shape::of(&node)) {
                Some(shape) => {
                    verified.push(Verified { name, what: shape.as_str() });
                    one(shape, source, &node, &mut world, &mut input.found);
                }
                None if node.get("kind").and_then(Node::as_str) == Some("ThoriumCluster") => {
                    verified.push(Verified { name, what: "base policies" });
                    object::read(source, &node, &mut input.found);
                }
                // Tests and objects of others live in the same folders.
                None if node.get("kind").and_then(Node::as_str).is_some() => {}
                None => strangers.push(name),
            }
        }
    }
    // Groups and names across documents can be checked only where somebody lists them.
    let between = world.review().into_iter().filter(|finding| finding.severity() != Severity::Note);
    let said = |finding: &Diagnostic, found: &[Diagnostic]| {
        let same = |other: &Diagnostic| {
            other.code.id == finding.code.id
                && other.location == finding.location
                && other.message == finding.message
        };
        found.iter().any(same)
    };
    // What is wrong with a rules file is said once, and not again where a policy names it.
    let fresh: Vec<Diagnostic> = between.filter(|finding| !said(finding, &input.found)).collect();
    input.found.extend(fresh);
    (verified, strangers)
}

fn one(shape: Shape, source: &Source, node: &Node<'_>, world: &mut World, found: &mut Vec<Diagnostic>) {
    match shape {
        Shape::Config => {
            let config = read_base(source, node, found);
            if config.base.is_none() && config.doubtful.is_empty() && Shape::of(node) != Some(Shape::Config) {
                let message = "there are no base policies in it";
                let finding = Diagnostic::new(&palisade_dialects::thorium::codes::NEARLY, message);
                let finding = finding.at(Some(source.location(node.span)));
                found.push(finding.help("write thorium: {base_network_policies: […]}"));
            }
        }
        Shape::MaybeRequest => drop(read_request(source, node, found)),
        Shape::MaybeRules => drop(read_rules(source, node, found)),
        Shape::MisplacedConfig | Shape::Request | Shape::Rules | Shape::Instance => {
            drop(read(shape, source, node, found));
        }
    }
    // Once more for what documents say about each other; what they say alone has been reported.
    if let Some(loaded) = read(shape, source, node, &mut Vec::new()) {
        world.insert(loaded);
    }
}
