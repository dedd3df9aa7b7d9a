//! `palisade compile`.

use std::fmt::Write;

use palisade_dialects::kubernetes::write;
use palisade_dialects::thorium::Reading;
use palisade_dialects::thorium::compile::compile;
use palisade_dialects::thorium::instance::Instance;
use palisade_model::diagnostic::Diagnostic;

use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, CompileArgs, CompileOutput, CompileTo};
use crate::input::{self, Input};
use crate::print::diagnostics::{counts, render, texts};
use crate::print::style::Look;

mod nftables;

pub fn run(arguments: &CompileArgs, color: ColorChoice) -> Outcome {
    match arguments.to {
        CompileTo::Kubernetes => kubernetes(arguments, color),
        CompileTo::Nftables => nftables::run(arguments, color),
    }
}

fn kubernetes(arguments: &CompileArgs, color: ColorChoice) -> Outcome {
    let look = Look::stderr(color);
    let fail = |message: String| Outcome {
        out: String::new(),
        err: format!("{} {message}\n", look.bad("error:")),
        code: UNANSWERED,
    };
    let mut input = input::read(&arguments.input.files);
    if let Some(refusal) = input.refusal() {
        return fail(refusal);
    }
    let world = input::world(&mut input, arguments.thorium);
    let Some(instance) = world.thorium_instance() else {
        let place = input::describe(&arguments.input.files);
        return fail(format!(
            "nothing to compile in {place}\n  Thorium's policies are compiled: a thorium.yml, policy requests, rules \
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
            fail(format!("no group has a policy in {place}: name its ThoriumInstance manifest with -f, too"));
        // Perhaps there were some.
        outcome.err.insert_str(0, &left_out(&instance, look));
        return outcome;
    }
    let out = match arguments.output {
        CompileOutput::Yaml => write::yaml(&objects),
        CompileOutput::Json => write::json(&objects),
    };
    Outcome { out, err: left_out(&instance, look), code: YES }
}

/// Errors, and nothing else: half of a cluster's policies is not what anybody wants to apply.
fn refused(errors: &[Diagnostic], input: &Input, look: Look) -> Outcome {
    let texts = texts(&input.sources);
    let mut err: String = errors.iter().map(|error| render(error, &texts, look) + "\n").collect();
    let _ = writeln!(err, "{}: nothing is compiled", counts(errors));
    Outcome { out: String::new(), err, code: NO }
}

/// Whether a finding is about what is compiled.
fn concerns(finding: &Diagnostic) -> bool {
    finding.code.id.starts_with(['T', 'S'])
}

/// The policies that Thorium's program does not have in force.
fn left_out(instance: &Instance, look: Look) -> String {
    let mut err = String::new();
    if instance.reading == Reading::Program {
        for policy in instance.base().into_iter().chain(instance.policies()) {
            if let Some(why) = &policy.refused {
                let at = policy.at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default();
                let _ = writeln!(
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
