//! `palisade convert`.

use palisade_convert::{ConversionError, ConversionRequest, Converted, Originals, TargetDialect, convert};
use palisade_dialects::{codes, thorium};
use palisade_model::diagnostic::{Diagnostic, Severity};
use palisade_model::policy::Dialect;
use palisade_report::diagnostics::{counts, plural, render, sources_by_name};
use palisade_report::style::Look;
use palisade_report::text::documents::{json_list, yaml};
use palisade_report::text::{NL, Text};

use super::reservations::reservations;
use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, CompileOutput, ConvertArgs, ConvertFrom, ConvertTo};
use crate::input::{self, Input};
use crate::print::output::StreamLook;

/// Names in one command.
const MOST_NAMES: usize = 20;

pub fn run(arguments: &ConvertArgs, color: ColorChoice) -> Outcome {
    let look = Look::stderr(color);
    let fail = |message: Text| Outcome {
        out: Text::new(),
        err: text!("{} {message}{NL}", look.bad("error:")),
        code: UNANSWERED,
    };
    let mut input = input::read(&arguments.input.files);
    if let Some(refusal) = input.refusal() {
        return fail(refusal.into());
    }
    let world = input::world(&mut input, arguments.thorium);
    // What was lost while reading may have been a policy, and what is refused is in force nowhere.
    let request = ConversionRequest {
        to: arguments.to.into(),
        from: arguments.from.iter().map(|dialect| (*dialect).into()).collect(),
        partial: arguments.partial,
    };
    let errors = input.found.iter().filter(|one| concerns(one));
    // What is about policies that stay as they are stays as it is, too.
    let (errors, beside): (Vec<Diagnostic>, Vec<Diagnostic>) =
        errors.cloned().partition(|one| !request.leaves_alone(&world, one));
    if !errors.is_empty() {
        let mut err = said(&errors, &input, look);
        write_line!(err, "{}: nothing is converted", counts(&errors));
        return Outcome { out: Text::new(), err, code: NO };
    }
    let originals = Originals::read(input.sources.iter().map(|source| &**source));
    match convert(&world, &originals, &request) {
        Ok(conversion) => converted(&conversion, arguments, &input, &beside, look),
        Err(ConversionError::Refused(refusal)) => fail(text!(
            "the converted objects would be refused: {}: {}{NL}  this is a bug, please report it: nothing is printed",
            refusal.field,
            refusal.message
        )),
        Err(failure @ ConversionError::Unproven(_)) => fail(text!("{failure}: nothing is printed")),
        Err(failure @ ConversionError::Differs(_)) => {
            fail(text!("{failure}{NL}  this is a bug, please report it: nothing is printed"))
        }
    }
}

fn converted(
    conversion: &Converted,
    arguments: &ConvertArgs,
    input: &Input,
    beside: &[Diagnostic],
    look: Look,
) -> Outcome {
    let Converted { objects, kept, replaced, diagnostics: found, proof } = conversion;
    let errors = found.iter().filter(|one| one.severity() == Severity::Error).count();
    if errors == 0 && objects.is_empty() {
        let place = input::describe(&arguments.input.files);
        let err = text!("{} nothing to convert in {place}{NL}", look.bad("error:"));
        return Outcome { out: Text::new(), err, code: UNANSWERED };
    }
    let mut err = reservations(&input.found, look);
    err.push(&said(beside, input, look));
    if !beside.is_empty() {
        write_line!(
            err,
            "{} about policies that are not converted: these stay as they are{NL}",
            plural(beside.len(), "error")
        );
    }
    err.push(&said(found, input, look));
    if errors > 0 {
        let left = if arguments.partial { "stays as it is" } else { "so nothing is converted" };
        write_line!(err, "{} cannot be said: {left}", plural(errors, "thing"));
    }
    if let Some(proof) = proof.as_ref().filter(|_| !replaced.is_empty()) {
        write_line!(
            err,
            "{} said in {}, with {proof}",
            plural(replaced.len(), "object"),
            plural(objects.len() - kept, "object")
        );
    }
    if !objects.is_empty() {
        err.push(&to_delete(conversion));
    }
    let out = match (objects.is_empty(), arguments.output) {
        (true, _) => Text::new(),
        (false, CompileOutput::Yaml) => yaml(objects),
        (false, CompileOutput::Json) => json_list(objects),
    };
    Outcome { out, err, code: if errors == 0 { YES } else { NO } }
}

/// The commands that delete what the objects take the place of, in an order that opens nothing on the way.
fn to_delete(conversion: &Converted) -> Text {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for object in conversion.left_to_delete() {
        let group = match &*object.group {
            // The API server has them under both, and under the old one not any more.
            "extensions" => "networking.k8s.io",
            group => group,
        };
        let home = object.namespace.as_ref().map(|home| format!(" -n {home}")).unwrap_or_default();
        let command = format!("kubectl delete {}.{group}{home}", object.kind.to_lowercase());
        match lines.last_mut() {
            Some((last, names)) if *last == command && names.len() < MOST_NAMES => names.push(&object.name),
            _ => lines.push((command, vec![&object.name])),
        }
    }
    if lines.is_empty() {
        return Text::new();
    }
    let mut text =
        Text::own("when the objects are applied, and in force, delete what they take the place of:\n");
    for (command, names) in lines {
        write_line!(text, "  {command} {}", names.join(" "));
    }
    text
}

fn said(found: &[Diagnostic], input: &Input, look: Look) -> Text {
    let texts = sources_by_name(&input.sources);
    found.iter().map(|one| text!("{}{NL}", render(one, &texts, look))).collect()
}

/// Whether an error keeps policies from being converted: it is about one of them, or nobody knows what it is about.
fn concerns(finding: &Diagnostic) -> bool {
    let kind = finding.subject.as_ref().map_or("", |subject| subject.kind.as_str());
    let lost = [codes::NO_NAME.id, codes::UNKNOWN_KIND.id].contains(&finding.code.id);
    let named = ["Policy", "Tier", "Group"].iter().any(|end| kind.ends_with(end));
    finding.is_error() && (lost || named || kind.is_empty() || thorium::is_kind(kind))
}

// === impl TargetDialect ===

impl From<ConvertTo> for TargetDialect {
    fn from(to: ConvertTo) -> Self {
        match to {
            ConvertTo::NetworkPolicy => TargetDialect::NetworkPolicy,
            ConvertTo::ClusterNetworkPolicy => TargetDialect::ClusterNetworkPolicy,
            ConvertTo::AdminNetworkPolicy => TargetDialect::AdminNetworkPolicy,
            ConvertTo::Antrea => TargetDialect::Antrea,
        }
    }
}

// === impl Dialect ===

impl From<ConvertFrom> for Dialect {
    fn from(from: ConvertFrom) -> Self {
        match from {
            ConvertFrom::NetworkPolicy => Dialect::NetworkPolicy,
            ConvertFrom::NetworkPolicy2016 => Dialect::NetworkPolicy2016,
            ConvertFrom::AdminNetworkPolicy => Dialect::AdminNetworkPolicy,
            ConvertFrom::ClusterNetworkPolicy => Dialect::ClusterNetworkPolicy,
            ConvertFrom::Antrea => Dialect::Antrea,
            ConvertFrom::Antrea2020 => Dialect::Antrea2020,
            ConvertFrom::Thorium => Dialect::Thorium,
        }
    }
}
