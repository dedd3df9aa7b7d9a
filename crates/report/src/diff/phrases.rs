//! Phrases that all text formats of a diff share: endpoints, deciders, headline.

use std::collections::BTreeMap;

use palisade_analysis::diff::{DecisionSource, Diff, DiffPeer, SideDecision};
use palisade_model::diagnostic::{Diagnostic, Location};
use palisade_model::policy::Action;

use super::DiffContext;
use crate::diagnostics::plural;
use crate::peers::describe_ranges;

/// Maximum number of names listed; the rest is counted.
const MAX_LISTED: usize = 4;

/// Describes ends briefly: `shop/*`, `shop/web, shop/api`, `203.0.113.0/24`.
pub fn ends(peers: &[DiffPeer], diff: &Diff<'_>) -> String {
    let mut ranges = Vec::new();
    let mut workloads: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut controller = false;
    let (mut nodes, mut pods) = (Vec::new(), Vec::new());
    for peer in peers {
        match peer {
            DiffPeer::Workload(at) => workloads.entry(&diff.name(*at).namespace).or_default().push(*at),
            DiffPeer::Range(first, last) => ranges.push((*first, *last)),
            DiffPeer::IngressController => controller = true,
            DiffPeer::Outlier(at) => {
                let outlier = &diff.outliers[*at];
                let of = if outlier.of.is_some() { &mut pods } else { &mut nodes };
                of.extend(outlier.names.iter().map(String::as_str));
            }
        }
    }
    let mut names: Vec<String> = Vec::new();
    let all_workloads = diff.written().count();
    if all_workloads > 1 && workloads.values().map(Vec::len).sum::<usize>() == all_workloads {
        names.push("all workloads".to_owned());
    } else {
        for (namespace, members) in &workloads {
            let there = diff.workloads.iter().filter(|pair| pair.name.namespace == *namespace).count();
            if members.len() == there && there > 1 {
                names.push(format!("{namespace}/*"));
            } else {
                names.extend(members.iter().map(|at| name(*at, diff)));
            }
        }
    }
    names.extend(pods.iter().map(|pod| format!("pod {pod}")));
    let every = nodes.len() == diff.after.snapshot.nodes().len();
    match nodes.len() {
        0 => {}
        1 => names.push(format!("node {}", nodes[0])),
        _ if every => names.push("every node".to_owned()),
        count => names.push(format!("nodes {} and {} more", nodes[0], count - 1)),
    }
    names.extend(controller.then(|| "ingress controller".to_owned()));
    names.extend((!ranges.is_empty()).then(|| describe_ranges(&ranges)));
    let more = names.len().saturating_sub(MAX_LISTED);
    names.truncate(MAX_LISTED);
    let listed = names.join(", ");
    if more > 0 { format!("{listed} and {more} more") } else { listed }
}

/// Returns a workload's name, with its kind where two share it.
fn name(at: usize, diff: &Diff<'_>) -> String {
    let own = diff.name(at);
    let shared = |other: Option<usize>| {
        other
            .and_then(|at| diff.workloads.get(at))
            .is_some_and(|pair| pair.name.namespace == own.namespace && pair.name.name == own.name)
    };
    // Workloads are sorted by namespace and name: those that share a name are neighbours.
    if shared(at.checked_sub(1)) || shared(Some(at + 1)) {
        format!("{own} ({})", own.kind)
    } else {
        own.to_string()
    }
}

/// Describes deciders, with their locations.
pub fn decided(deciders: &[SideDecision]) -> Vec<(String, Option<Location>)> {
    deciders.iter().map(|one| (words(one), location_of(one))).collect()
}

fn words(one: &SideDecision) -> String {
    let side = match one.direction {
        palisade_model::policy::Direction::Egress => "egress",
        palisade_model::policy::Direction::Ingress => "ingress",
    };
    match &one.by {
        DecisionSource::Rule { policy, index, name, .. } => {
            let name = name.as_ref().map(|name| format!(" {name:?}")).unwrap_or_default();
            let does = match one.action {
                Action::Allow => "allowed by",
                Action::Deny => "denied by",
                Action::Reject => "rejected by",
                Action::Pass => "passed by",
            };
            format!("{side} {does} rule {index}{name} of {policy}")
        }
        DecisionSource::Isolation(by) => match &by[..] {
            [] => format!("{side} denied"),
            [only] => format!("{side} denied: {only} isolates it, and no rule allows it"),
            [first, rest @ ..] => format!(
                "{side} denied: {first} and {} isolate it, and no rule allows it",
                plural(rest.len(), "other")
            ),
        },
        DecisionSource::Nobody => format!("{side} allowed: nothing restricts it"),
        DecisionSource::Absent => "the workload is not there".to_owned(),
    }
}

/// Returns the location of a decider.
pub fn location_of(one: &SideDecision) -> Option<Location> {
    match &one.by {
        DecisionSource::Rule { at, .. } => at.clone(),
        DecisionSource::Isolation(by) => by.first().and_then(|object| object.at.clone()),
        DecisionSource::Nobody | DecisionSource::Absent => None,
    }
}

/// Returns the headline: numbers of opened and closed connections.
pub fn headline(context: &DiffContext<'_, '_>) -> String {
    let (opened, closed) = (context.findings.opened, context.findings.closed);
    let verb =
        |count: usize, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
    match (opened, closed) {
        (0, 0) if context.beyond.named_opened.is_some() || context.beyond.named_closed.is_some() => {
            "Different for names whose addresses are not known".to_owned()
        }
        (0, 0) if context.diff.has_no_workloads() && context.beyond.proof.is_none() => {
            "Different for pods there could be".to_owned()
        }
        (0, 0) if !context.is_complete() => "No difference in what was compared".to_owned(),
        (0, 0) if context.problems.iter().any(Diagnostic::is_error) => {
            "No difference in what could be read".to_owned()
        }
        (0, 0) => "No difference".to_owned(),
        (opened, 0) => verb(opened, "connection opens", "connections open"),
        (0, closed) => verb(closed, "connection closes", "connections close"),
        (opened, closed) => format!(
            "{}, {}",
            verb(opened, "connection opens", "connections open"),
            verb(closed, "closes", "close")
        ),
    }
}

/// Describes the extent of the comparison.
pub fn compared(context: &DiffContext<'_, '_>) -> String {
    format!(
        "{}, {} {} and all addresses compared",
        plural(context.workloads(), "workload"),
        grouped_digits(context.pairs()),
        if context.pairs() == 1 { "pair" } else { "pairs" },
    )
}

/// Describes differences for pods that could exist, a line each.
pub fn beyond(context: &DiffContext<'_, '_>) -> Vec<String> {
    let beyond = context.beyond;
    let mut lines = Vec::new();
    if context.diff.has_no_workloads() && context.findings.list.is_empty() {
        lines.push(match &beyond.proof {
            Some(proof) => format!(
                "There are no workloads on either side: the policies say the same of any pods there could be{}.",
                match (proof.is_complete(), proof.bounded) {
                    (false, _) => ", as far as they were compared: more takes too much work",
                    (true, true) => ", as far as their labels were combined",
                    (true, false) => "",
                }
            ),
            None => {
                "There are no workloads on either side; -f adds those of the cluster. Of pods there could be:"
                    .to_owned()
            }
        });
    } else if beyond.named_opened.is_some() || beyond.named_closed.is_some() {
        lines.push(
            "Addresses of names are not known here; --dns NAME=IP says them. Whatever they are:".to_owned(),
        );
        for (verb, found) in [("opens", &beyond.named_opened), ("closes", &beyond.named_closed)] {
            lines.extend(found.as_ref().map(|found| format!("{verb}, e.g. {}", found.flow)));
        }
        return lines;
    } else if beyond.opened.is_some() || beyond.closed.is_some() {
        lines.push(
            "Nothing changes for the workloads that are there, but for pods that are not there yet:"
                .to_owned(),
        );
    }
    for (verb, found) in [("opens", &beyond.opened), ("closes", &beyond.closed)] {
        lines.extend(found.as_ref().map(|found| format!("{verb}, e.g. {}", found.flow)));
    }
    lines.extend(beyond.refused.as_ref().map(|found| {
        format!("Nothing opens or closes; what is refused is refused in another way, e.g. {found}.")
    }));
    lines.extend(
        beyond
            .conditions
            .as_ref()
            .map(|rule| format!("The conditions of {rule} on layer 7 are others: they are not compared.")),
    );
    lines
}

fn grouped_digits(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn digits_stand_in_threes() {
        assert_eq!(super::grouped_digits(96721), "96,721");
        assert_eq!(super::grouped_digits(1_000_000), "1,000,000");
        assert_eq!(super::grouped_digits(999), "999");
    }
}
