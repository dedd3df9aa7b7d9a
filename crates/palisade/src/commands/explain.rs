//! `palisade explain`.

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_dialects::codes;
use palisade_engine::Engine;
use palisade_lint::dangling;
use palisade_model::diagnostic::Diagnostic;
use palisade_model::evaluate::evaluate;
use palisade_model::flow::{Flow, FlowPattern};
use palisade_model::options::Options;
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::{Evaluation, Verdict};
use palisade_model::verdicts::Verdicts;
use palisade_report::diagnostics::plural;
use palisade_report::explain::{explanation, headline};
use palisade_report::json::{self, ExplanationJson, OtherFlowJson};
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::reading::add_names;
use super::reservations::{reservations, weighty};
use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, ExplainArgs, ExplainOutput};
use crate::input;
use crate::print::output::StreamLook;

/// From so many connections on, an index of the rules is made first.
const MANY: usize = 64;
/// Peers, protocols and ports that are looked at for the connections of one question: some seconds.
const MOST_WEIGHT: u64 = 300_000_000;
/// How many connections of one question are listed beside the one that is explained.
const LISTED: usize = 10;
/// The same for programs.
const LISTED_IN_JSON: usize = 10_000;

pub fn run(arguments: &ExplainArgs, color: ColorChoice) -> Outcome {
    let errors = Look::stderr(color);
    match answer(arguments, color, errors) {
        Ok(outcome) => outcome,
        Err(message) => Outcome {
            out: Text::new(),
            err: text!("{} {message}{NL}", errors.bad("error:")),
            code: UNANSWERED,
        },
    }
}

fn answer(arguments: &ExplainArgs, color: ColorChoice, errors: Look) -> Result<Outcome, Text> {
    let pattern: FlowPattern =
        arguments.flow.parse().map_err(|error: palisade_model::flow::FlowError| error.to_string())?;
    let options = options(&arguments.options)?;
    let names = names(&arguments.dns)?;
    let mut input = input::read(&arguments.input.files);
    if let Some(refusal) = input.refusal() {
        return Err(refusal.into());
    }
    let world = input::world(&mut input, arguments.thorium);
    let mut objects = world.into_objects();
    add_names(&mut objects, &names);
    let snapshot = Snapshot::new(objects.clone());
    input.found.extend(dangling(&snapshot));
    let flows = snapshot.flows(&pattern).map_err(|error| {
        let mut message = text!("{error} in {}", input::describe(&arguments.input.files));
        if let Some(help) = error.help() {
            write_text!(message, "{NL}  {help}");
        }
        // Whoever is missed may have been lost while reading.
        let lost = reservations(&input.found, errors);
        if !lost.is_empty() {
            write_text!(message, "{NL}{}", lost.trim_end());
        }
        message
    })?;

    // Sorting the rules of a whole cluster pays only where many connections are asked about.
    let verdicts = (flows.len() > MANY).then(|| Verdicts::new(&snapshot, &options));
    let engine = arguments.engine.then(|| Engine::of(&objects, &snapshot));
    let indexed = |flow: &Flow| {
        let engine = engine.as_ref()?;
        engine.flow(&snapshot, flow).and_then(|flow| engine.verdict(&flow, &options))
    };
    let verdict = |flow: &Flow| match (indexed(flow), &verdicts) {
        (Some(verdict), _) => verdict,
        (None, Some(verdicts)) => verdicts.verdict(flow),
        (None, None) => evaluate(&snapshot, flow, &options).verdict,
    };
    let mut left = MOST_WEIGHT;
    let affordable = |flow: &&Flow| {
        let weight = verdicts.as_ref().map_or(0, |verdicts| verdicts.weight(flow));
        let affords = left > 0;
        left = left.saturating_sub(weight);
        affords
    };
    let answers: Vec<(&Flow, Verdict)> =
        flows.iter().take_while(affordable).map(|flow| (flow, verdict(flow))).collect();
    let unjudged = flows.len() - answers.len();
    if unjudged > 0 {
        let message = format!(
            "left out {} of {}: judging them takes too much work",
            plural(unjudged, "flow"),
            flows.len()
        );
        input.found.push(Diagnostic::new(&codes::WORK, message));
    }
    // A refusal is what people ask about: it is explained first.
    let first = answers.iter().position(|(_, verdict)| *verdict != Verdict::Allow).unwrap_or(0);
    let evaluation = evaluate(&snapshot, answers[first].0, &options);
    if answers[first].1 != evaluation.verdict {
        let (index, plain) = (answers[first].1.as_str(), evaluation.verdict.as_str());
        return Err(text!(
            "the index says {index}, the plain evaluator {plain}: this is a bug, please report it"
        ));
    }
    // Where all that were judged are allowed, one of the others may not be.
    let code = match (evaluation.verdict, unjudged) {
        (Verdict::Allow, 0) => YES,
        (Verdict::Allow, _) => UNANSWERED,
        _ => NO,
    };
    let mut others = answers;
    others.remove(first);

    // An address that was asked about stays what it is.
    let other_family = (snapshot.over_the_other_family(&evaluation.flow))
        .filter(|_| !pattern.names_an_address())
        .map(|(flow, family)| (flow, family, verdict(&flow)))
        .filter(|(_, _, verdict)| *verdict != evaluation.verdict);
    let out = match arguments.output {
        ExplainOutput::Json => {
            let mut explanation = ExplanationJson::new(&snapshot, &evaluation);
            let other = |(flow, verdict): &(&Flow, Verdict)| OtherFlowJson::new(&snapshot, flow, *verdict);
            explanation.others = others.iter().take(LISTED_IN_JSON).map(other).collect();
            explanation.others_left_out = others.len().saturating_sub(LISTED_IN_JSON) + unjudged;
            explanation.input_problems = weighty(&input.found).map(json::DiagnosticJson::from).collect();
            explanation.other_family =
                other_family.map(|(flow, _, verdict)| OtherFlowJson::new(&snapshot, &flow, verdict));
            json::print(&explanation)
        }
        ExplainOutput::Text => {
            let look = Look::stdout(color);
            let mut out = explanation(&snapshot, &evaluation, look, arguments.all);
            if let Some((flow, family, verdict)) = other_family {
                write_line!(out, "{NL}  {} over {family} it is another answer:", look.warning("note:"));
                write_text!(out, "  {}", headline(&snapshot, &flow, verdict, look));
            }
            beside(&snapshot, &evaluation, &others, look, &mut out);
            out
        }
    };
    Ok(Outcome { out, err: reservations(&input.found, errors), code })
}

pub fn options(written: &[String]) -> Result<Options, Text> {
    let mut options = Options::default();
    for text in written {
        let (name, value) =
            text.split_once('=').ok_or_else(|| text!("--option {text}: expected NAME=VALUE"))?;
        options.set(name, value).map_err(|error| error.to_string())?;
    }
    Ok(options)
}

pub fn names(written: &[String]) -> Result<BTreeMap<String, Vec<IpAddr>>, Text> {
    let mut names: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for text in written {
        let (name, address) = text.split_once('=').ok_or_else(|| text!("--dns {text}: expected NAME=IP"))?;
        let address: IpAddr =
            address.parse().map_err(|_| text!("--dns {text}: {address:?} is not an IP address"))?;
        names.entry(name.to_ascii_lowercase()).or_default().push(address.to_canonical());
    }
    Ok(names)
}

/// The other connections that the question stands for.
fn beside(
    snapshot: &Snapshot,
    evaluation: &Evaluation,
    others: &[(&Flow, Verdict)],
    look: Look,
    out: &mut Text,
) {
    if others.is_empty() {
        return;
    }
    let differ: Vec<_> = others.iter().filter(|(_, verdict)| *verdict != evaluation.verdict).collect();
    let alike = others.len() - differ.len();
    out.end_line();
    if differ.is_empty() {
        write_line!(out, "  The same for {} that this question stands for.", plural(alike, "other flow"));
        return;
    }
    write_line!(
        out,
        "  {} the question stands for {}, and {} of them get another answer:",
        look.warning("note:"),
        plural(others.len() + 1, "flow"),
        differ.len()
    );
    for (flow, verdict) in differ.iter().take(LISTED) {
        write_text!(out, "  {}", headline(snapshot, flow, *verdict, look));
    }
    if differ.len() > LISTED {
        write_line!(out, "  … and {} more", differ.len() - LISTED);
    }
}
