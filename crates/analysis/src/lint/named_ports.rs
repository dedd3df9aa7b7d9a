//! Port names that stand for no port.

use palisade_model::diagnostic::{Code, Diagnostic, Severity};
use palisade_model::flow::{Party, Who};
use palisade_model::matching::{Context, Match};
use palisade_model::options::Options;
use palisade_model::policy::{Direction, Policy, Rule, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::Snapshot;
use palisade_model::traffic::Protocol;

use super::{Pods, about_rule};

/// The code.
pub static RESOLVES_NOWHERE: Code = Code {
    id: "L0103",
    severity: Severity::Warning,
    title: "a named port that no destination has",
    explanation: "A port's name is looked up on the destination: for ingress on the pods the policy selects, for egress on the pods it names. None of those that are known declares a container port of that name and protocol, so the rule matches nothing. Names without `protocol` mean TCP in NetworkPolicy.",
};

pub(super) fn check(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) {
    let context = Context { snapshot, options: Options::default() };
    let pods = Pods::of(snapshot);
    for policy in snapshot.policies() {
        for rule in &policy.rules {
            let TrafficMatches::Of(matches) = &rule.traffic else { continue };
            for wanted in matches {
                let TrafficMatch::Named(protocol, name) = wanted else { continue };
                let mut destinations = destinations(&context, &pods, rule).peekable();
                let known = destinations.peek().is_some();
                let resolves = |pod: usize| {
                    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
                    let asked = protocols.into_iter().filter(|p| protocol.is_none_or(|wanted| wanted == *p));
                    asked.into_iter().any(|p| snapshot.pods()[pod].named_port(name, p).is_some())
                };
                if known && !destinations.any(resolves) {
                    found.push(report(policy, rule, wanted, name));
                }
            }
        }
    }
}

fn report(policy: &Policy, rule: &Rule, wanted: &TrafficMatch, name: &str) -> Diagnostic {
    let who = match rule.direction {
        Direction::Ingress => "the pods it selects",
        Direction::Egress => "its peers",
    };
    let message = format!("none of {who} has a port {wanted}: this part of the rule matches nothing");
    about_rule(&RESOLVES_NOWHERE, policy, rule, ".ports", message)
        .help(format!("declare a container port named {name}, or write its number"))
}

/// The pods that a connection of this rule can end at.
fn destinations<'s>(
    context: &'s Context<'s>,
    pods: &'s Pods<'s>,
    rule: &'s Rule,
) -> Box<dyn Iterator<Item = usize> + 's> {
    let mut subjects = pods.within(context, &rule.subjects);
    match rule.direction {
        Direction::Ingress => Box::new(subjects),
        Direction::Egress => {
            let Some(subject) = subjects.next() else { return Box::new(std::iter::empty()) };
            let address = |pod: usize| context.snapshot.pods()[pod].addresses.first().copied();
            let party = move |pod: usize| Party { who: Who::Pod(pod), address: address(pod) };
            let named = move |pod: &usize| context.peers(&rule.peers, party(*pod), subject) == Match::Yes;
            Box::new(pods.all.iter().copied().filter(named))
        }
    }
}
