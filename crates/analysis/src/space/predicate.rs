//! Predicates: pod sets prepared for the solver.
//!
//! Existing namespaces are matched at creation: their labels are known, so that only the pod's own fields are left open. For
//! new namespaces, requirements on their labels are part of the region.

use std::fmt;

use palisade_model::cluster::{NAMESPACE_NAME_LABEL, Namespace};
use palisade_model::label::Selector;
use palisade_model::names;
use palisade_model::policy::{Namespaces, PodSet};
use smol_str::SmolStr;

use super::bits::BitSet;
use super::region::{Clause, PodField, PodRegion};
use super::values::Values;
use super::{NamespaceIndex, Space};

/// Set of pods that could exist. Valid only in the [`Space`] that created it.
#[derive(Debug, Clone)]
pub struct Predicate {
    set: PodSet,
    within: Option<SmolStr>,
    /// Existing namespaces that it holds pods of.
    pub(super) namespaces_in: BitSet,
    /// Requirements on pods themselves.
    pub(super) pods: PodRegion,
    /// Negation for pods of its existing namespaces.
    pub(super) refuted: Clause,
    /// Requirements on pods in new namespaces; `None` when it holds none of them.
    pub(super) new_namespaces: Option<NewNamespaces>,
}

/// Requirements of a predicate on pods in new namespaces, and on these namespaces.
#[derive(Debug, Clone)]
pub(super) struct NewNamespaces {
    /// Pods that it holds …
    pub(super) region: PodRegion,
    /// … except for these. Only "another value of one of these labels" is a difference of two regions.
    but: Option<PodRegion>,
    /// Clause that excludes `but`, if there is one.
    pub(super) demanded: Option<Clause>,
    /// Negation, as a conjunction of clauses.
    pub(super) refuted: Vec<Clause>,
}

// === impl Predicate ===

impl Predicate {
    pub(super) fn new(space: &Space, set: &PodSet, subject: Option<NamespaceIndex>) -> Self {
        let subject = subject.map(|place| &space.namespaces[place.0]);
        let mut predicate = Predicate {
            set: set.clone(),
            within: None,
            namespaces_in: BitSet::none(space.namespaces.len()),
            pods: PodRegion::default(),
            refuted: PodRegion::default().negated(),
            new_namespaces: None,
        };
        let Some(pods) = pods(set).filter(|_| set.external == space.external) else { return predicate };
        match &set.namespaces {
            Namespaces::Named(name) => {
                space
                    .namespace(name)
                    .into_iter()
                    .for_each(|NamespaceIndex(at)| predicate.namespaces_in.insert(at));
            }
            namespaces => {
                let all = space.namespaces.iter().enumerate();
                let held = all.filter(|(_, own)| namespaces.hold(own, subject));
                held.for_each(|(at, _)| predicate.namespaces_in.insert(at));
            }
        }
        predicate.new_namespaces = homes_to_come(space, &set.namespaces, subject)
            .and_then(|(namespaces_in, but)| Some(NewNamespaces::new(namespaces_in.meet(&pods)?, but)));
        predicate.refuted = pods.negated();
        predicate.pods = pods;
        predicate
    }

    /// Restricts the predicate to one namespace, as a namespaced policy does.
    pub fn within(mut self, space: &Space, namespace: &str) -> Self {
        let here = space.namespace(namespace).filter(|NamespaceIndex(at)| self.namespaces_in.has(*at));
        self.namespaces_in.clear();
        here.into_iter().for_each(|NamespaceIndex(at)| self.namespaces_in.insert(at));
        let named = home_named(space, namespace);
        self.new_namespaces = self.new_namespaces.and_then(|new_namespaces| {
            let region = new_namespaces.region.meet(&named?)?;
            Some(NewNamespaces::new(region, new_namespaces.but))
        });
        self.within = Some(namespace.into());
        self
    }

    /// Returns the pod set it was created from.
    pub fn set(&self) -> &PodSet {
        &self.set
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.within {
            Some(namespace) => write!(f, "{}, in namespace {namespace}", self.set),
            None => self.set.fmt(f),
        }
    }
}

// === impl NewNamespaces ===

impl NewNamespaces {
    fn new(region: PodRegion, but: Option<PodRegion>) -> Self {
        let but = but.filter(|but| !region.misses(but));
        let outside = region.negated();
        let refuted = match &but {
            None => vec![outside],
            // Outside of the region, or inside of `but`: each conjunct of it is a clause of its own.
            Some(but) => but.iter().map(|(field, values)| outside.or(field, values)).collect(),
        };
        let demanded = but.as_ref().map(PodRegion::negated);
        NewNamespaces { region, but, demanded, refuted }
    }

    /// Whether it holds all pods of a region.
    pub(super) fn covers(&self, region: &PodRegion) -> bool {
        region.is_within(&self.region) && self.but.as_ref().is_none_or(|but| region.misses(but))
    }

    pub(super) fn holds(&self, is_in: impl Fn(&PodRegion) -> bool) -> bool {
        is_in(&self.region) && !self.but.as_ref().is_some_and(is_in)
    }
}

/// Returns the requirements of a set on pods themselves; `None` when no pod can meet them.
fn pods(set: &PodSet) -> Option<PodRegion> {
    let mut region = PodRegion::selected(&set.pods, PodField::Label)?;
    match &set.account {
        Some(account) => {
            let valid = names::is_dns_subdomain(account);
            let account = valid.then(|| Some(account.clone()));
            region.restrict(&PodField::Account, &Values::only(account)).then_some(region)
        }
        None => Some(region),
    }
}

/// Returns the new namespaces that a set selects, and exceptions; `None` when there are none.
fn homes_to_come(
    space: &Space,
    namespaces: &Namespaces,
    subject: Option<&Namespace>,
) -> Option<(PodRegion, Option<PodRegion>)> {
    let relative = |keys: &[SmolStr]| subject.filter(|_| !keys.is_empty());
    match namespaces {
        Namespaces::Named(name) => Some((home_named(space, name)?, None)),
        Namespaces::Matching(selector) => Some((possible(space, &namespaces_in(selector)?)?, None)),
        // The subject's namespace exists: a new one is added to the space first.
        Namespaces::Own => None,
        Namespaces::SameLabels(keys) => Some((possible(space, &same(keys, relative(keys)?)?)?, None)),
        Namespaces::NotSameLabels(keys) => {
            let subject = relative(keys)?;
            let mut all = PodRegion::default();
            let present = Values::present();
            // An invalid key is on no namespace, neither a new one nor the subject's.
            let valid = keys.iter().all(|key| names::is_label_key(key));
            let all = keys
                .iter()
                .all(|key| all.restrict(&PodField::NamespaceLabel(key.clone()), &present))
                .then_some(all);
            let but = same(keys, subject).and_then(|but| possible(space, &but));
            Some((possible(space, &all.filter(|_| valid)?)?, but))
        }
    }
}

fn namespaces_in(selector: &Selector) -> Option<PodRegion> {
    PodRegion::selected(selector, PodField::NamespaceLabel)
}

/// Returns the region of namespaces with the subject's values of these labels.
fn same(keys: &[SmolStr], subject: &Namespace) -> Option<PodRegion> {
    let mut region = PodRegion::default();
    for key in keys {
        let value = subject.labels.get(key).filter(|value| names::is_label_value(value))?;
        if !region.restrict(&PodField::NamespaceLabel(key.clone()), &Values::only([Some(value.into())])) {
            return None;
        }
    }
    Some(region)
}

fn home_named(space: &Space, name: &str) -> Option<PodRegion> {
    namespaces_in(&Selector::label(NAMESPACE_NAME_LABEL, name)).and_then(|region| possible(space, &region))
}

/// Restricts a region to new namespaces: their name is present, valid and not taken.
fn possible(space: &Space, region: &PodRegion) -> Option<PodRegion> {
    let new = |name: &str| space.namespace(name).is_none() && names::is_dns_label(name);
    let mut possible = PodRegion::default();
    for (field, values) in region.iter() {
        let kept = match field {
            PodField::NamespaceLabel(key) if key == NAMESPACE_NAME_LABEL => {
                values.clone().meet(&Values::present()).listing(new)
            }
            _ => values.clone(),
        };
        if !possible.restrict(field, &kept) {
            return None;
        }
    }
    Some(possible)
}
