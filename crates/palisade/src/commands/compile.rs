//! `palisade compile`.

use palisade_dialects::kubernetes::NetworkPolicy;
use palisade_dialects::thorium::Reading;
use palisade_dialects::thorium::compile::compile;
use palisade_dialects::thorium::instance::Instance;
use palisade_dialects::written::Written;
use palisade_model::diagnostic::Diagnostic;
use palisade_report::diagnostics::{counts, render, sources_by_name};
use palisade_report::style::Look;
use palisade_report::text::documents::{json_list, yaml};
use palisade_report::text::{NL, Text};

use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, CompileArgs, CompileOutput, CompileTo};
use crate::input::{self, Input};
use crate::print::output::StreamLook;

mod nftables;

pub fn run(arguments: &CompileArgs, color: ColorChoice) -> Outcome {
    match arguments.to {
        CompileTo::Kubernetes => kubernetes(arguments, color),
        CompileTo::Nftables => nftables::run(arguments, color),
    }
}

fn kubernetes(arguments: &CompileArgs, color: ColorChoice) -> Outcome {
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
    let Some(instance) = world.thorium_instance() else {
        let place = input::describe(&arguments.input.files);
        return fail(text!(
            "nothing to compile in {place}{NL}  Thorium's policies are compiled: a thorium.yml, policy requests, rules \
             files, a ThoriumInstance"
        ));
    };
    // What is refused by the document is never applied. The program goes over it, or leaves the policy out.
    let errors: Vec<Diagnostic> =
        input.found.iter().filter(|finding| finding.is_error() && concerns(finding)).cloned().collect();
    if !errors.is_empty() && instance.reading == Reading::Document {
        return refused(&errors, &input, look);
    }
    let objects = compile(&instance);
    if objects.is_empty() {
        let place = input::describe(&arguments.input.files);
        let mut outcome =
            fail(text!("no group has a policy in {place}: name its ThoriumInstance manifest with -f, too"));
        // Perhaps there were some.
        outcome.err = text!("{}{}", left_out(&instance, look), outcome.err);
        return outcome;
    }
    let written: Vec<Written> = objects.iter().map(NetworkPolicy::written).collect();
    let out = match arguments.output {
        CompileOutput::Yaml => yaml(&written),
        CompileOutput::Json => json_list(&written),
    };
    Outcome { out, err: left_out(&instance, look), code: YES }
}

/// Errors, and nothing else: half of a cluster's policies is not what anybody wants to apply.
fn refused(errors: &[Diagnostic], input: &Input, look: Look) -> Outcome {
    let texts = sources_by_name(&input.sources);
    let mut err: Text = errors.iter().map(|error| text!("{}{NL}", render(error, &texts, look))).collect();
    write_line!(err, "{}: nothing is compiled", counts(errors));
    Outcome { out: Text::new(), err, code: NO }
}

/// Whether a finding is about what is compiled.
fn concerns(finding: &Diagnostic) -> bool {
    finding.code.id.starts_with(['T', 'S'])
}

/// The policies that Thorium's program does not have in force.
fn left_out(instance: &Instance, look: Look) -> Text {
    let mut err = Text::new();
    if instance.reading == Reading::Program {
        for policy in instance.base().into_iter().chain(instance.policies()) {
            if let Some(why) = &policy.refused {
                let at = policy.at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
                write_line!(
                    err,
                    "{} {}{at} is not in force in Thorium's program: {why}",
                    look.warning("warning:"),
                    policy.subject()
                );
            }
        }
    }
    err
}
