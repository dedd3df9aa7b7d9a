//! Evaluation of a flow as a tree of text: the verdict first, then the reasons, then the location to change.

use std::sync::Arc;

use palisade_model::diagnostic::Location;
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::policy::{Action, Dialect, Direction, Object};
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::{
    Because, Cause, Decision, Evaluation, Exemption, Side, StageName, StageOutcome, StageTrace, Step,
    StepResult, Verdict,
};

use super::style::{Look, wrap};
use crate::text::{NL, Text};

/// Maximum number of unmatched rules, and of policies that do not apply, shown of a stage.
const MAX_SHOWN: usize = 6;

/// One line of the tree.
struct TreeLine {
    stage: String,
    text: String,
    at: Option<Location>,
    is_last: bool,
}

/// Prints an evaluation; with `all` every rule that was evaluated.
pub fn explanation(snapshot: &Snapshot, evaluation: &Evaluation, look: Look, all: bool) -> Text {
    let mut out = headline(snapshot, &evaluation.flow, evaluation.verdict, look);
    for conditions in evaluation.conditions() {
        let words: Vec<String> = conditions.iter().map(ToString::to_string).collect();
        write_line!(
            out,
            "{}   only {}; anything else is dropped",
            look.warning("CONDITIONAL"),
            words.join(", or ")
        );
    }
    out.end_line();
    for side in [&evaluation.egress, &evaluation.ingress] {
        side_tree(snapshot, &evaluation.flow, side, look, all, &mut out);
    }
    if let Some(advice) = advice(snapshot, evaluation) {
        out.end_line();
        for (index, line) in wrap(&advice, look.width.saturating_sub(4)).iter().enumerate() {
            write_line!(out, "  {}{line}", if index == 0 { "" } else { "  " });
        }
    }
    out
}

/// Prints the verdict and the flow: `DENIED   shop/web 10.1.0.12  →  shop/db-0 10.1.0.31   tcp/5432`.
pub fn headline(snapshot: &Snapshot, flow: &Flow, verdict: Verdict, look: Look) -> Text {
    let word = match verdict {
        Verdict::Allow => look.good("ALLOWED"),
        Verdict::Deny => look.bad("DENIED"),
        Verdict::Reject => look.bad("REJECTED"),
    };
    let via = flow.via.map(|service| &snapshot.services()[service]);
    let via = via
        .map(|service| format!("   via service {}/{}", service.namespace, service.name))
        .unwrap_or_default();
    let (source, destination) = (party(snapshot, flow.source), party(snapshot, flow.destination));
    text!("{word}   {source}  →  {destination}   {}{via}{NL}", flow.traffic)
}

fn party(snapshot: &Snapshot, party: Party) -> String {
    let name = snapshot.describe(party);
    match (party.who, party.address) {
        (Who::Outside, _) => format!("{name} (outside)"),
        (Who::Pod(pod), None) => match &snapshot.pods()[pod].stand_in {
            Some(kind) => format!("{name} (a pod of {kind}, address unknown)"),
            None => format!("{name} (no address yet)"),
        },
        (_, Some(address)) => format!("{name} {address}"),
        (_, None) => name,
    }
}

fn side_tree(snapshot: &Snapshot, flow: &Flow, side: &Side, look: Look, all: bool, out: &mut Text) {
    let own = match side.direction {
        Direction::Egress => flow.source,
        Direction::Ingress => flow.destination,
    };
    let (who, summary) = (snapshot.describe(own), summary(side));
    let plain = format!("{} of {who} — {summary}", side.direction);
    // On a narrow terminal the summary goes below.
    let between = if plain.chars().count() + 2 > look.width { Text::own("\n    ") } else { Text::own(" ") };
    let summary = if side.verdict == Verdict::Allow { Text::from(summary) } else { look.bad(&summary) };
    write_line!(out, "  {} of {} —{between}{summary}", side.direction, look.strong(&who));
    let mut lines: Vec<TreeLine> = side.stages.iter().flat_map(|stage| stage_lines(stage, all)).collect();
    if let Some(last) = lines.last_mut() {
        last.is_last = true;
    }
    let stage_width = lines.iter().map(|line| line.stage.chars().count()).max().unwrap_or(0);
    // "  ╰─ " + stage + "  " + text + "  " + place
    let room = look.width.saturating_sub(5 + stage_width + 2).max(30);
    let locations = lines.iter().filter_map(|line| line.at.as_ref()).map(|at| at.to_string().chars().count());
    let column = room.saturating_sub(locations.max().unwrap_or(0));
    for line in &lines {
        tree_line(line, stage_width, room, column, look, out);
    }
}

/// Prints a line of the tree, wrapped; its location in a column at the right of the last line, or below where it does not
/// fit.
fn tree_line(line: &TreeLine, stage_width: usize, room: usize, column: usize, look: Look, out: &mut Text) {
    let at = line.at.as_ref().map(ToString::to_string).unwrap_or_default();
    let count = |text: &str| text.chars().count();
    // Continued lines are indented by two.
    let fits = |texts: &[String]| {
        let indent = if texts.len() > 1 { 2 } else { 0 };
        at.is_empty() || texts.last().is_some_and(|last| indent + count(last) + 2 <= column)
    };
    let mut texts = wrap(&line.text, room.saturating_sub(2));
    if !fits(&texts) {
        // Breaking a single line a little earlier may make room for the place; else it gets a line of its own.
        let narrower = wrap(&line.text, column.saturating_sub(4).max(30));
        if texts.len() == 1 && narrower.len() == 2 && fits(&narrower) {
            texts = narrower;
        } else {
            texts.push(String::new());
        }
    }
    for (index, text) in texts.iter().enumerate() {
        let (first, last) = (index == 0, index + 1 == texts.len());
        let branch = match (first, line.is_last) {
            (true, true) => "╰─",
            (false, true) => "  ",
            (_, false) => "│ ",
        };
        let stage = if first { line.stage.as_str() } else { "" };
        let indent = if first { "" } else { "  " };
        let mut row = text!("{indent}{text}");
        if last && !at.is_empty() {
            let gap = column.saturating_sub(count(row.as_str())).max(if row.is_empty() { 0 } else { 2 });
            write_text!(row, "{:gap$}{}", "", look.quiet(&at));
        }
        write_line!(out, "  {} {stage:stage_width$}  {}", look.quiet(branch), row.trim_end());
    }
}

fn summary(side: &Side) -> String {
    match &side.because {
        Because::Exempt(Exemption::Outside) => "allowed, policies have no say outside the cluster".to_owned(),
        Because::Exempt(Exemption::Node) => "allowed, policies do not apply to nodes".to_owned(),
        Because::Exempt(Exemption::HostNetwork) => {
            "allowed, policies do not apply in a node's network".to_owned()
        }
        Because::Exempt(Exemption::OwnAddress) => "allowed, a pod always reaches itself".to_owned(),
        Because::Exempt(Exemption::NeighbourDiscovery) => {
            "allowed, neighbour discovery always passes".to_owned()
        }
        Because::Exempt(Exemption::OwnNode) => "allowed, a pod's own node always reaches it".to_owned(),
        Because::Default if side.stages.is_empty() => "allowed, nothing restricts it".to_owned(),
        Because::Default => "allowed, no policy decides it".to_owned(),
        Because::Isolation { .. } => "denied by NetworkPolicy".to_owned(),
        Because::Rule(decision) => {
            let word = match side.verdict {
                Verdict::Allow => "allowed",
                Verdict::Deny => "denied",
                Verdict::Reject => "rejected",
            };
            let conditional = if decision.conditions.is_empty() { "" } else { ", on condition" };
            format!("{word} by {}{conditional}", decision.object)
        }
    }
}

fn stage_lines(stage: &StageTrace, all: bool) -> Vec<TreeLine> {
    let mut lines = Vec::new();
    let union = stage.stage == StageName::NetworkPolicy;
    let plain =
        |text: String, at: Option<Location>| TreeLine { stage: String::new(), text, at, is_last: false };
    let hidden =
        |count: usize, what: &str| plain(format!("… and {count} more {what} (--all shows them)"), None);
    let shown = if all { usize::MAX } else { MAX_SHOWN };

    // Policies of other pods explain nothing in a union; in a tier they show the order.
    let bystanders = if union && !all { 0 } else { shown };
    for bystander in stage.bystanders.iter().take(bystanders) {
        let text = format!(
            "{}: no match (applies to {})",
            policy_name(&bystander.object, union),
            bystander.applies_to
        );
        lines.push(plain(text, bystander.object.at.clone()));
    }
    if !union && stage.bystanders.len() > shown {
        lines.push(hidden(stage.bystanders.len() - shown, "policies that do not apply"));
    }
    if union && stage.outcome == StageOutcome::NotIsolated {
        lines.push(plain("not isolated: no policy selects it in this direction".to_owned(), None));
    }
    for object in &stage.isolated_by {
        let unreadable = stage.unreadable.iter().find(|(unreadable, _)| unreadable == object);
        let why = unreadable.map(|(_, what)| format!(", which cannot be read: {what}")).unwrap_or_default();
        lines.push(plain(format!("isolated by {}{why}", policy_name(object, union)), object.at.clone()));
    }
    // Of the unmatched rules the last ones before a match explain most.
    let matched = |step: &&Step| matches!(step.result, StepResult::Matched);
    let counts = !union || stage.outcome != StageOutcome::NotIsolated;
    let mut steps: Vec<&Step> = stage.steps.iter().filter(|_| counts).collect();
    if union {
        // A union has no order: the nearest misses, where only the port is wrong, come last.
        steps.sort_by_key(|step| nearness(step));
    }
    let others = steps.iter().filter(|step| !matched(step)).count();
    let matches = steps.iter().filter(|step| matched(step)).count();
    // In a union unmatched rules are irrelevant once a rule allows.
    let limit = if all {
        usize::MAX
    } else if union && matches > 0 {
        0
    } else {
        shown
    };
    let skip = others.saturating_sub(limit);
    if skip > 0 && limit > 0 {
        lines.push(hidden(skip, "rules that do not match"));
    }
    let mut passed_over = 0;
    for step in steps {
        if !matched(&step) && passed_over < skip {
            passed_over += 1;
            continue;
        }
        lines.push(plain(step_text(step, union), step.rule.at.clone()));
    }
    if stage.outcome == StageOutcome::Decided(Verdict::Deny) && union && others == 0 {
        lines.push(plain("no rule allows anything in this direction".to_owned(), None));
    }
    if let Some(first) = lines.first_mut() {
        first.stage = match &stage.stage {
            StageName::NetworkPolicy => "NetworkPolicy".to_owned(),
            tier => tier.to_string(),
        };
    }
    lines
}

fn nearness(step: &Step) -> u8 {
    match &step.result {
        StepResult::NotMatched { cause: Cause::Port | Cause::Protocol, .. } => 1,
        StepResult::NotMatched { .. } | StepResult::FailedClosed { .. } => 0,
        StepResult::Matched => 2,
    }
}

fn step_text(step: &Step, union: bool) -> String {
    let name = step.rule.name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
    let rule = format!("{}, rule {}{name}", policy_name(&step.object, union), step.rule.index);
    match &step.result {
        StepResult::Matched => format!("{rule}: {}", step.action),
        StepResult::NotMatched { why, .. } => format!("{rule} does not match: {why}"),
        StepResult::FailedClosed { why } if step.action == Action::Allow => {
            format!("{rule} cannot be read, so it allows nobody: {why}")
        }
        StepResult::FailedClosed { why } => format!("{rule} cannot be read, so it denies: {why}"),
    }
}

/// Returns the name of a policy, without its kind where the stage implies it.
fn policy_name(object: &Object, union: bool) -> String {
    if union && object.kind == "NetworkPolicy" { object.full_name() } else { object.to_string() }
}

/// Returns the change that would allow a refused flow, where one is the obvious one.
pub fn advice(snapshot: &Snapshot, evaluation: &Evaluation) -> Option<String> {
    match (evaluation.egress.verdict, evaluation.ingress.verdict) {
        (Verdict::Allow, Verdict::Allow) => None,
        (Verdict::Allow, _) => side_advice(snapshot, evaluation, &evaluation.ingress),
        (_, Verdict::Allow) => side_advice(snapshot, evaluation, &evaluation.egress),
        _ => side_advice(snapshot, evaluation, &evaluation.egress)
            .map(|advice| format!("{advice}. Its ingress is denied as well, and needs a change of its own")),
    }
}

fn side_advice(snapshot: &Snapshot, evaluation: &Evaluation, side: &Side) -> Option<String> {
    let flow = &evaluation.flow;
    let suffix = |at: &Option<Location>| at.as_ref().map(|at| format!(", {at}")).unwrap_or_default();
    match &side.because {
        Because::Rule(Decision { object, stage: StageName::NoTier(tier), .. }) => Some(format!(
            "To allow it: tier {tier} does not exist, so {object} fails closed before all others: create it, or name one \
             that exists{}",
            suffix(&object.at)
        )),
        Because::Rule(decision) if decision.failed_closed.is_some() => {
            let (object, index) = (&decision.object, decision.rule.index);
            Some(format!(
                "To allow it: correct rule {index} of {object}, which cannot be read ({}){}",
                decision.failed_closed.as_deref().unwrap_or_default(),
                suffix(&decision.rule.at)
            ))
        }
        Because::Rule(decision) => {
            let (object, index) = (&decision.object, decision.rule.index);
            Some(format!(
                "To allow it: put a rule that allows it before {} rule {index} of {object}, or narrow that rule{}",
                side.direction,
                suffix(&decision.rule.at)
            ))
        }
        Because::Isolation { by } => Some(format!("To allow it: {}", opening(snapshot, flow, side, by))),
        _ => None,
    }
}

/// Returns the smallest change that allows the flow of an isolated pod: correct an unparsable rule, else extend the rule
/// that misses by one part only, else add a rule.
fn opening(snapshot: &Snapshot, flow: &Flow, side: &Side, by: &[Arc<Object>]) -> String {
    let suffix = |at: &Option<Location>| at.as_ref().map(|at| format!(", {at}")).unwrap_or_default();
    let stage = side.stages.iter().find(|stage| stage.stage == StageName::NetworkPolicy);
    if let Some((object, what)) = stage.and_then(|stage| stage.unreadable.first()) {
        return format!("correct {object}, which cannot be read ({what}){}", suffix(&object.at));
    }
    let steps = || stage.into_iter().flat_map(|stage| &stage.steps);
    if let Some((step, what)) = steps().find_map(|step| match &step.result {
        StepResult::FailedClosed { why } => Some((step, why)),
        _ => None,
    }) {
        let (object, index) = (step.object.full_name(), step.rule.index);
        return format!(
            "correct rule {index} of {object}, which cannot be read ({what}){}",
            suffix(&step.rule.at)
        );
    }
    let (other, list) = match side.direction {
        Direction::Egress => (flow.destination, "to"),
        Direction::Ingress => (flow.source, "from"),
    };
    // Selectors match pods of the pod network only; other endpoints need an address.
    let is_pod = matches!(other.who, Who::Pod(pod) if !snapshot.pods()[pod].host_network);
    let who = match other.address {
        Some(address) if !is_pod => format!("an ipBlock with {address}"),
        _ => snapshot.describe(other),
    };
    let near = |wanted: fn(&Cause) -> bool| {
        steps().find_map(|step| match &step.result {
            // A Thorium base policy applies to every tool: changing it for one is not the smallest change.
            StepResult::NotMatched { cause, why, only: true }
                if wanted(cause) && step.object.kind != "ThoriumBasePolicy" =>
            {
                Some((step, why))
            }
            _ => None,
        })
    };
    if let Some((step, _)) = near(|cause| matches!(cause, Cause::Port | Cause::Protocol))
        && flow.traffic.protocol.has_ports()
    {
        let (object, index) = (step.object.full_name(), step.rule.index);
        return format!(
            "add {} to the ports of rule {index} of {object}{}",
            flow.traffic,
            suffix(&step.rule.at)
        );
    }
    if let Some((step, why)) = near(|cause| matches!(cause, Cause::Peer | Cause::Family)) {
        let (object, index, at) = (step.object.full_name(), step.rule.index, suffix(&step.rule.at));
        if why.contains(" is excepted") {
            return format!(
                "take the exception out of rule {index} of {object}, or write a rule for {who}{at}"
            );
        }
        if step.object.kind == "ThoriumPolicy" {
            return format!("let rule {index} of {object} allow {who}, too{at}");
        }
        return format!("add {who} to `{list}` of rule {index} of {object}{at}");
    }
    if by.iter().all(|object| object.dialect == Dialect::Thorium) {
        let own = match side.direction {
            Direction::Egress => flow.source,
            Direction::Ingress => flow.destination,
        };
        return format!(
            "add a policy of its group to {}, with an {} rule for {who} on {}",
            snapshot.describe(own),
            side.direction,
            flow.traffic
        );
    }
    let rule = match flow.traffic.protocol.has_ports() {
        true => format!("{list} {who} on {}", flow.traffic),
        false => format!("{list} {who} without ports, which is what ICMP needs"),
    };
    match by.iter().find(|object| object.kind == "NetworkPolicy") {
        Some(policy) => {
            let (name, at) = (policy.full_name(), suffix(&policy.at));
            format!("write an {} rule {rule}, for example in {name}{at}", side.direction)
        }
        None => format!("write a NetworkPolicy with an {} rule {rule}", side.direction),
    }
}
