//! A policy in the rule language. Lowering never fails: what cannot be read fails closed.
//!
//! A rule in which something cannot be read has one peer, the unknown one: a rule that allows allows nobody then, and any
//! other denies everybody. So does every rule of a policy whose place cannot be read. Subjects that cannot be read are
//! everybody the policy could have meant: all pods, or those of its namespace.

use std::sync::Arc;

use palisade_model::label::Selector;
use palisade_model::policy::{
    Action, Direction, Peer, Peers, Placement, PodSet, Policy, Priority, Rule, Subject, Tier, TrafficMatches,
};
use smol_str::SmolStr;

use super::carried;
use super::defaults::rule_name;
use super::ends::{self, Scope};
use super::tiers::tier_name;
use super::{is_2020, types};
use crate::apimachinery::field::Path;
use crate::decode::Reader;
use crate::definition::typed::Number;
use crate::object::Header;

/// The words for actions.
type Actions = &'static [(&'static str, Action)];

/// Those of `crd.antrea.io/v1beta1`.
const ACTIONS: Actions =
    &[("Allow", Action::Allow), ("Drop", Action::Deny), ("Reject", Action::Reject), ("Pass", Action::Pass)];

/// Those of 2020.
const ACTIONS_2020: Actions = &[("Allow", Action::Allow), ("Drop", Action::Deny)];

/// What a rule becomes, before it is known whether it can be read.
struct Draft {
    subjects: Arc<[Subject]>,
    action: Action,
    peers: Vec<Peer>,
    anybody: bool,
    traffic: TrafficMatches,
}

/// The policy.
pub fn lower(written: &types::Policy, header: &Header, reader: &Reader<'_>) -> Policy {
    let words = if is_2020(header) { ACTIONS_2020 } else { ACTIONS };
    let scope = Scope { namespace: header.namespace.clone() };
    let spec = written.spec.as_deref().cloned().unwrap_or_default();
    let unreadable = written.unreadable.clone().or(spec.unreadable.clone());
    // Without a place it comes first, so that nothing comes before what it denies. Its rules fail closed, and it has no
    // others than those written: a number hides nothing.
    let placed = priority(spec.priority);
    let priority = placed.as_ref().map_or(Priority(0.0), |priority| *priority);
    let silenced = unreadable.clone().or(placed.err());
    let shared = spec.applied_to.as_deref().filter(|list| !list.is_empty());
    let shared = shared.map(|list| ends::subjects(list, &scope));
    let path = Path::new("spec");
    let mut rules = Vec::new();
    for (direction, list) in [(Direction::Ingress, &spec.ingress), (Direction::Egress, &spec.egress)] {
        let path = path.child(direction.as_str());
        for (index, rule) in list.iter().flat_map(|list| list.iter()).enumerate() {
            let draft = match &silenced {
                Some(why) => Err(why.clone()),
                None => draft(rule, words, direction, &scope, shared.as_ref()),
            };
            rules.push(Rule {
                name: if is_2020(header) {
                    rule.name.as_ref().map(|name| name.0.clone())
                } else {
                    rule_name(direction, rule)
                },
                layer7: carried::layer7(rule.l7_protocols.as_deref()),
                log: log(rule),
                at: Some(reader.locate(&path.index(index))),
                index: u32::try_from(index).unwrap_or(u32::MAX),
                ..draft.map_or_else(
                    |why| {
                        let action = action(rule, words).unwrap_or(Action::Deny);
                        let subjects = match (&unreadable, subjects(rule, &scope, shared.as_ref())) {
                            (None, Ok(subjects)) => subjects,
                            // What cannot be read may be more of them.
                            (Some(_), Ok(subjects)) => {
                                subjects.iter().cloned().chain(everybody(&scope)).collect()
                            }
                            (_, Err(_)) => everybody(&scope).collect(),
                        };
                        failed(direction, subjects, action, why)
                    },
                    |draft| finished(direction, draft),
                )
            });
        }
        // What cannot be read may be the rules of a direction that seems to have none (`ingres:`), and those may have
        // denied anything.
        if let Some(why) = &unreadable
            && list.as_deref().is_none_or(|list| list.is_empty())
        {
            let at = Some(header.at.clone());
            let subjects = match &shared {
                Some(Ok(subjects)) => subjects.iter().cloned().chain(everybody(&scope)).collect(),
                _ => everybody(&scope).collect(),
            };
            rules.push(Rule { at, ..failed(direction, subjects, Action::Deny, why.clone()) });
        }
    }
    let tier = match spec.tier.as_ref().map(|tier| tier.as_str()) {
        // A tier that is no text is nowhere: before all others.
        None if unreadable.as_deref().is_some_and(|why| why.starts_with("tier ")) => {
            Tier::Fixed(0, "tier that cannot be read")
        }
        tier => Tier::Named(tier_name(tier.unwrap_or(""))),
    };
    let placement = Placement::Tier { tier, priority };
    Policy {
        object: header.origin(super::dialect(header)),
        placement,
        isolations: Vec::new(),
        rules,
        unreadable: silenced,
    }
}

fn priority(written: Option<Number>) -> Result<Priority, String> {
    match written {
        Some(Number(number)) if (1.0..=10000.0).contains(&number) => Ok(Priority(number)),
        Some(Number(number)) => Err(format!("priority {number}")),
        None => Err("no priority".to_owned()),
    }
}

fn action(rule: &types::Rule, words: Actions) -> Result<Action, String> {
    let word = rule.action.as_ref().map_or("", |text| text.as_str());
    let known = words.iter().find(|(known, _)| *known == word);
    known.map(|(_, action)| *action).ok_or_else(|| format!("action {word:?}"))
}

fn draft(
    rule: &types::Rule,
    words: Actions,
    direction: Direction,
    scope: &Scope,
    shared: Option<&Result<Arc<[Subject]>, String>>,
) -> Result<Draft, String> {
    if let Some(why) = &rule.unreadable {
        return Err(why.clone());
    }
    let action = action(rule, words)?;
    let subjects = subjects(rule, scope, shared)?;
    let peers = match direction {
        Direction::Ingress => ends::peers(rule.from.as_deref(), scope)?,
        Direction::Egress => {
            let services = ends::services(rule.to_services.as_deref(), scope)?;
            let peers = ends::peers(rule.to.as_deref(), scope)?;
            if !services.is_empty() && !peers.is_empty() {
                return Err("toServices together with to".to_owned());
            }
            services.into_iter().chain(peers).collect()
        }
    };
    let traffic = carried::traffic(rule)?;
    carried::check_layer7(rule)?;
    // Antrea knows no way to say "nobody": an empty list is everybody.
    Ok(Draft { subjects, action, anybody: peers.is_empty(), peers, traffic })
}

/// Whom a rule applies to: what itself says, or what the policy says for all of them.
fn subjects(
    rule: &types::Rule,
    scope: &Scope,
    shared: Option<&Result<Arc<[Subject]>, String>>,
) -> Result<Arc<[Subject]>, String> {
    let own = rule.applied_to.as_deref().filter(|list| !list.is_empty());
    match (own, shared) {
        (Some(_), Some(_)) => Err("appliedTo in both the spec and the rule".to_owned()),
        (Some(own), None) => ends::subjects(own, scope),
        (None, Some(shared)) => shared.clone(),
        (None, None) => Err("no appliedTo".to_owned()),
    }
}

/// Everybody that a policy can be applied to, as far as that can be said without naming them: pods and external
/// entities, and nodes where it is cluster-wide.
fn everybody(scope: &Scope) -> impl Iterator<Item = Subject> {
    let (pods, nodes) = match &scope.namespace {
        Some(namespace) => (PodSet::all_of(namespace), None),
        None => (PodSet::everything(), Some(Subject::Nodes(Selector::everything()))),
    };
    let entities = PodSet { external: true, ..pods.clone() };
    [pods.into(), entities.into()].into_iter().chain(nodes)
}

fn finished(direction: Direction, draft: Draft) -> Rule {
    Rule {
        direction,
        index: 0,
        name: None,
        subjects: draft.subjects,
        action: draft.action,
        peers: if draft.anybody { Peers::Any } else { Peers::Of(draft.peers) },
        traffic: draft.traffic,
        layer7: Vec::new(),
        log: None,
        at: None,
    }
}

/// Whether what a rule decides is to be logged, and with which label.
fn log(rule: &types::Rule) -> Option<SmolStr> {
    let wanted = rule.enable_logging.as_ref().is_some_and(|wanted| wanted.0);
    wanted.then(|| rule.log_label.as_ref().map(|label| label.0.clone()).unwrap_or_default())
}

/// A rule that cannot be read, and fails closed.
fn failed(direction: Direction, subjects: Arc<[Subject]>, action: Action, why: String) -> Rule {
    Rule {
        direction,
        index: 0,
        name: None,
        subjects,
        action,
        peers: Peers::Of(vec![Peer::Unknown(why)]),
        traffic: TrafficMatches::Any,
        layer7: Vec::new(),
        log: None,
        at: None,
    }
}
