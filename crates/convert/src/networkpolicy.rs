//! To NetworkPolicy, `networking.k8s.io/v1`.
//!
//! Thorium's policies and those of 2016 add up as these do. What stands in tiers can be said only where it comes to the
//! same: for each namespace and direction first rules that allow, then rules that deny everything, to the same pods. Then
//! denying everything is being isolated. A NetworkPolicy isolates whomever it selects, so that a rule that allows may
//! only be said for pods to which the rest is denied anyway.

use std::collections::BTreeMap;

use palisade_analysis::disjoint::are_disjoint;
use palisade_dialects::kubernetes::write::rules as write;
use palisade_dialects::written::Written;
use palisade_model::label::Selector;
use palisade_model::policy::{
    Action, Direction, Namespaces, Peer, Placement, Policy, Rule, Subject, TrafficMatches,
};
use palisade_model::snapshot::Stage;
use smol_str::SmolStr;

use super::conversion::{Conversion, Origin};
use super::order::{Concerned, Place};
use super::speech::{Said, Speech, Taken, distinct};
use super::union::{DIRECTIONS, counts, covers};
use super::{codes, ends, lists};

const GROUP: &str = "networking.k8s.io";
const KIND: &str = "NetworkPolicy";

/// Policies that would add to another that are named.
const MOST_ADDING: usize = 20;
/// Steps that are compared with others, in all.
const MOST_COMPARED: usize = 20_000_000;

/// What one object says.
#[derive(Debug, Default)]
struct Draft {
    /// For each direction that it is about, what it allows.
    sides: BTreeMap<Direction, Vec<Written>>,
}

/// The objects by policy, namespace and selector.
type Drafts = BTreeMap<(usize, SmolStr, Selector), Draft>;

/// A rule of a tier for one subject in one namespace.
struct Step<'s> {
    origin: usize,
    rule: &'s Rule,
    subject: Subject,
    denies_all: bool,
}

pub(super) fn say(conversion: &Conversion<'_>, speech: &mut Speech) {
    let mut taken = conversion.taken(GROUP, KIND);
    let mut drafts = Drafts::new();
    old(conversion, &mut drafts, speech);
    tiers(conversion, &mut drafts, speech);
    for object in &conversion.compiled {
        speech.beside.push(renamed(object.clone(), &mut taken));
    }
    for ((index, namespace, pods), draft) in drafts {
        let origin = &conversion.origins[index];
        let name = distinct(Some(&namespace), &origin.name(), &mut taken);
        if name != origin.policy.object.name || origin.home().is_none() {
            let message = format!("it becomes {namespace}/{name}");
            speech.note(&codes::NAME, conversion, index, None, "", message);
        }
        let object = object(conversion, origin, (&namespace, &name), &pods, draft);
        speech.said.push(Said { object: Some(object), origin: index, place: Place::UNION });
    }
}

/// The policies of 2016, and namespaces that isolate.
fn old(conversion: &Conversion<'_>, drafts: &mut Drafts, speech: &mut Speech) {
    for (index, origin) in conversion.origins.iter().enumerate() {
        if origin.policy.placement != Placement::Union || speech.failed.contains(&index) {
            continue;
        }
        let Some(home) = origin.home() else { continue };
        for isolation in &origin.policy.isolations {
            for pods in selectors(&isolation.subjects) {
                let draft = drafts.entry((index, home.clone(), pods)).or_default();
                draft.sides.entry(isolation.direction).or_default();
            }
            let message =
                format!("the annotation or spec of namespace {home} that isolates it is not needed any more");
            speech.note(&codes::LEFT, conversion, index, None, "", message);
        }
        for rule in &origin.policy.rules {
            if !counts(conversion, index, rule, speech) {
                continue;
            }
            for pods in selectors(&rule.subjects) {
                let words = self::rule(conversion, index, rule, home, speech);
                let draft = drafts.entry((index, home.clone(), pods)).or_default();
                draft.sides.entry(rule.direction).or_default().extend(words);
            }
        }
    }
}

/// The selectors of subjects that are pods of the policy's own namespace.
fn selectors(subjects: &[Subject]) -> impl Iterator<Item = Selector> {
    subjects.iter().filter_map(|subject| match subject {
        Subject::Pods(set) => Some(set.pods.clone()),
        _ => None,
    })
}

/// What stands in tiers.
fn tiers(conversion: &Conversion<'_>, drafts: &mut Drafts, speech: &mut Speech) {
    let mut order: Vec<(Place, u32, usize, &Rule)> = Vec::new();
    let thorium: Vec<(&Policy, Concerned)> =
        conversion.thorium().map(|policy| (policy, Concerned::by(policy))).collect();
    for (index, origin) in conversion.origins.iter().enumerate() {
        if let (Some(place), Placement::Tier { .. }) = (origin.place, &origin.policy.placement)
            && !speech.failed.contains(&index)
        {
            let thorium = thorium.iter().map(|(policy, whom)| (*policy, whom));
            alone(conversion, index, origin, thorium, speech);
            order.extend(origin.policy.rules.iter().map(|rule| (place, rule.index, index, rule)));
        }
    }
    order.sort_by_key(|(place, at, index, _)| (*place, *at, *index));
    let mut steps: BTreeMap<(SmolStr, Direction), Vec<Step<'_>>> = BTreeMap::new();
    for (_, _, origin, rule) in order {
        let Some(denies_all) = sort(conversion, origin, rule, speech) else { continue };
        for (namespace, subject) in homes(conversion, origin, rule, speech) {
            let here = steps.entry((namespace, rule.direction)).or_default();
            here.push(Step { origin, rule, subject, denies_all });
        }
    }
    let mut compared = 0_usize;
    for ((namespace, direction), steps) in &steps {
        let denying: Vec<usize> = (0..steps.len()).filter(|at| steps[*at].denies_all).collect();
        for (at, step) in steps.iter().enumerate() {
            if !step.denies_all {
                compared = compared.saturating_add(denying.len());
                if compared > MOST_COMPARED {
                    let why = "there are too many rules that could deny everything to its pods".to_owned();
                    speech.cannot(&codes::TOO_MUCH, conversion, step.origin, Some(step.rule), "", why);
                    continue;
                }
            }
            if !step.denies_all && !is_allowed(steps, at, &denying, conversion, speech) {
                continue;
            }
            let Subject::Pods(set) = &step.subject else { continue };
            let words = match step.denies_all {
                true => None,
                false => rule(conversion, step.origin, step.rule, namespace, speech),
            };
            let draft = drafts.entry((step.origin, namespace.clone(), set.pods.clone())).or_default();
            draft.sides.entry(*direction).or_default().extend(words);
        }
    }
}

/// Refuses a policy of a tier where others have a say that NetworkPolicies do not have about each other.
fn alone<'t>(
    conversion: &'t Conversion<'_>,
    index: usize,
    origin: &Origin,
    thorium: impl Iterator<Item = (&'t Policy, &'t Concerned)>,
    speech: &mut Speech,
) {
    let meets = |other: &Concerned| !origin.concerned.are_disjoint(other, &conversion.compared);
    let adding = conversion.origins.iter().filter(|other| other.policy.placement == Placement::Union);
    let adding = adding.map(|other| (&other.policy, &other.concerned));
    for (other, _) in adding.chain(thorium).filter(|(_, whom)| meets(whom)).take(MOST_ADDING) {
        let why = format!("{} would add to it, and does not now", other.object);
        speech.cannot(&codes::UNION, conversion, index, None, "", why);
    }
    let passes = |stays: &&Origin| {
        let before = stays.place.is_some_and(|place| place.stage() == Stage::Tiers);
        before && stays.policy.rules.iter().any(|rule| rule.action == Action::Pass) && meets(&stays.concerned)
    };
    if let Some(stays) = conversion.staying.iter().find(passes) {
        let why = format!("{} passes over it now, and would pass to it", stays.policy.object);
        speech.cannot(&codes::UNION, conversion, index, None, "", why);
    }
}

/// Whether a rule denies everything (or else allows something); `None` when it is neither, which is noted.
fn sort(conversion: &Conversion<'_>, origin: usize, rule: &Rule, speech: &mut Speech) -> Option<bool> {
    if rule.log.is_some() {
        let message = "logging cannot be said there".to_owned();
        speech.note(&codes::LOGGING, conversion, origin, Some(rule), ".enableLogging", message);
    }
    let everybody =
        ends::peers(conversion, origin, rule, speech).is_none_or(|peers| ends::are_everybody(&peers));
    let (code, part, why) = match rule.action {
        Action::Allow if rule.layer7.is_empty() => return Some(false),
        Action::Deny if everybody && rule.traffic == TrafficMatches::Any => return Some(true),
        Action::Allow => (&codes::LAYER7, ".l7Protocols", "conditions on layer 7 cannot be said there"),
        Action::Deny => (&codes::UNION, ".action", "it denies something and not everything"),
        Action::Reject => {
            (&codes::ACTION, ".action", "Reject answers, and there what is not allowed is dropped")
        }
        Action::Pass => {
            (&codes::ACTION, ".action", "there is nothing to pass to: NetworkPolicies only allow")
        }
    };
    speech.cannot(code, conversion, origin, Some(rule), part, why.to_owned());
    None
}

/// The subjects of a rule by namespace; what is not of certain namespaces is noted.
fn homes(
    conversion: &Conversion<'_>,
    origin: usize,
    rule: &Rule,
    speech: &mut Speech,
) -> Vec<(SmolStr, Subject)> {
    let mut all = Vec::new();
    for subject in ends::subjects(conversion, &rule.subjects) {
        let why = match &subject {
            Subject::Pods(set) => match (ends::beyond_labels(set), ends::named(&set.namespaces)) {
                (Some(why), _) => why,
                (None, None) => format!("{set}: a NetworkPolicy is for the pods of one namespace"),
                (None, Some(names)) => {
                    for name in names {
                        let mut set = set.clone();
                        set.namespaces = Namespaces::Named(name.clone());
                        all.push((name, Subject::Pods(set)));
                    }
                    continue;
                }
            },
            other => format!("{other}: only pods can be subjects there"),
        };
        speech.cannot(&codes::SUBJECT, conversion, origin, Some(rule), "", format!("cannot apply to {why}"));
    }
    all
}

/// Whether a rule that allows comes before everything is denied to its pods, and that is denied to all of them.
fn is_allowed(
    steps: &[Step<'_>],
    at: usize,
    denying: &[usize],
    conversion: &Conversion<'_>,
    speech: &mut Speech,
) -> bool {
    let step = &steps[at];
    let (before, after) = denying.split_at(denying.partition_point(|other| *other < at));
    let denies = |other: &&Step<'_>| !are_disjoint(&other.subject, &step.subject);
    let mut after = after.iter().map(|at| &steps[*at]);
    let why = if let Some(before) = before.iter().map(|at| &steps[*at]).find(denies) {
        format!(
            "{} has denied everything to some of its pods already",
            conversion.origins[before.origin].policy.object
        )
    } else if !after.any(|other| covers(&other.subject, &step.subject)) {
        "what it does not allow is not denied to all of its pods, and would be".to_owned()
    } else {
        return true;
    };
    speech.cannot(&codes::UNION, conversion, step.origin, Some(step.rule), "", why);
    false
}

/// A rule that allows; none when it matches nothing.
fn rule(
    conversion: &Conversion<'_>,
    origin: usize,
    rule: &Rule,
    home: &SmolStr,
    speech: &mut Speech,
) -> Option<Written> {
    let said = |one: &Peer| peer(one, home).map(|words| vec![words]);
    let (peers, ports) = lists::said(conversion, origin, rule, said, speech)?;
    Some(write::rule(rule.direction, peers, ports))
}

fn peer(peer: &Peer, home: &SmolStr) -> Result<Written, String> {
    match peer {
        Peer::Pods(set) => {
            let own = match &set.namespaces {
                Namespaces::Own => true,
                Namespaces::Named(name) => name == home,
                _ => false,
            };
            let mut named = set.clone();
            if own {
                named.namespaces = Namespaces::Named(home.clone());
            }
            if let Some(why) = ends::beyond_labels(&named) {
                return Err(why);
            }
            let labels = (own || !set.pods.is_everything()).then_some(&set.pods);
            let namespaces = (!own).then(|| write::namespaces(&set.namespaces));
            Ok(write::pods(namespaces.as_ref(), labels))
        }
        Peer::Addresses(block) => Ok(write::ip_block(block)),
        other => Err(format!("{other}: only pods and addresses can be peers there")),
    }
}

fn object(
    conversion: &Conversion<'_>,
    origin: &Origin,
    (namespace, name): (&SmolStr, &SmolStr),
    pods: &Selector,
    mut draft: Draft,
) -> Written {
    let types: Vec<Direction> =
        DIRECTIONS.into_iter().filter(|direction| draft.sides.contains_key(direction)).collect();
    let mut side = |direction| draft.sides.remove(&direction).filter(|rules| !rules.is_empty());
    let (ingress, egress) = (side(Direction::Ingress), side(Direction::Egress));
    write::network_policy(conversion.metadata(origin, name, Some(namespace)), pods, &types, ingress, egress)
}

/// A compiled object under a name that is free.
fn renamed(mut object: Written, taken: &mut Taken) -> Written {
    let text = |object: &Written, field: &str| match object.get("metadata").and_then(|meta| meta.get(field)) {
        Some(Written::Text(text)) => Some(SmolStr::from(text.as_str())),
        _ => None,
    };
    let (namespace, name) = (text(&object, "namespace"), text(&object, "name").unwrap_or_default());
    let name = distinct(namespace.as_ref(), &name, taken);
    if let Written::Map(fields) = &mut object
        && let Some((_, Written::Map(meta))) = fields.iter_mut().find(|(key, _)| key == "metadata")
        && let Some(field) = meta.iter_mut().find(|(key, _)| key == "name")
    {
        field.1 = Written::text(name.as_str());
    }
    object
}
