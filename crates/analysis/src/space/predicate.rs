//! A selection of pods, made ready for questions.
//!
//! The namespaces that exist are asked once, all of them: their labels are known, so that what is left to find out about
//! a pod in one of them is only its own. For namespaces to come, what is asked of their labels is a part of the region.

use std::fmt;

use palisade_model::cluster::{NAMESPACE_NAME_LABEL, Namespace};
use palisade_model::label::Selector;
use palisade_model::names;
use palisade_model::policy::{Namespaces, PodSet};
use smol_str::SmolStr;

use super::bits::Bits;
use super::region::{Clause, Field, Region};
use super::values::Values;
use super::{Place, Space};

/// Pods that could exist, and which of them. It is of the [`Space`] that made it, and no other may be asked about it.
#[derive(Debug, Clone)]
pub struct Predicate {
    set: PodSet,
    within: Option<SmolStr>,
    /// The namespaces that exist and that it is about.
    pub(super) homes: Bits,
    /// What it asks of pods themselves.
    pub(super) pods: Region,
    /// That it does not hold a pod of its homes.
    pub(super) refuted: Clause,
    /// What it asks of pods in namespaces to come; `None` when it holds none of them.
    pub(super) to_come: Option<ToCome>,
}

/// What a predicate asks of pods in namespaces to come, and of these namespaces.
#[derive(Debug, Clone)]
pub(super) struct ToCome {
    /// It holds these …
    pub(super) region: Region,
    /// … but not these of them. Only "another value of one of these labels" is not a region but a difference of two.
    but: Option<Region>,
    /// That it holds nobody of `but`, where there is any.
    pub(super) demanded: Option<Clause>,
    /// That it does not hold a pod: all of these.
    pub(super) refuted: Vec<Clause>,
}

// === impl Predicate ===

impl Predicate {
    pub(super) fn new(space: &Space, set: &PodSet, subject: Option<Place>) -> Self {
        let subject = subject.map(|place| &space.namespaces[place.0]);
        let mut predicate = Predicate {
            set: set.clone(),
            within: None,
            homes: Bits::none(space.namespaces.len()),
            pods: Region::default(),
            refuted: Region::default().negated(),
            to_come: None,
        };
        let Some(pods) = pods(set).filter(|_| set.external == space.external) else { return predicate };
        match &set.namespaces {
            Namespaces::Named(name) => {
                space.place(name).into_iter().for_each(|Place(at)| predicate.homes.insert(at));
            }
            namespaces => {
                let all = space.namespaces.iter().enumerate();
                let held = all.filter(|(_, own)| namespaces.hold(own, subject));
                held.for_each(|(at, _)| predicate.homes.insert(at));
            }
        }
        predicate.to_come = homes_to_come(space, &set.namespaces, subject)
            .and_then(|(homes, but)| Some(ToCome::new(homes.meet(&pods)?, but)));
        predicate.refuted = pods.negated();
        predicate.pods = pods;
        predicate
    }

    /// The same in one namespace only: a namespaced policy does not reach beyond its own.
    pub fn within(mut self, space: &Space, namespace: &str) -> Self {
        let here = space.place(namespace).filter(|Place(at)| self.homes.has(*at));
        self.homes.clear();
        here.into_iter().for_each(|Place(at)| self.homes.insert(at));
        let named = home_named(space, namespace);
        self.to_come = self.to_come.and_then(|to_come| {
            let region = to_come.region.meet(&named?)?;
            Some(ToCome::new(region, to_come.but))
        });
        self.within = Some(namespace.into());
        self
    }

    /// The selection it was made of.
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

// === impl ToCome ===

impl ToCome {
    fn new(region: Region, but: Option<Region>) -> Self {
        let but = but.filter(|but| !region.misses(but));
        let outside = region.negated();
        let refuted = match &but {
            None => vec![outside],
            // Outside, or inside `but`: of a conjunction each part is a clause of its own.
            Some(but) => but.iter().map(|(field, values)| outside.or(field, values)).collect(),
        };
        let demanded = but.as_ref().map(Region::negated);
        ToCome { region, but, demanded, refuted }
    }

    /// Whether it holds everybody of a region.
    pub(super) fn covers(&self, region: &Region) -> bool {
        region.is_within(&self.region) && self.but.as_ref().is_none_or(|but| region.misses(but))
    }

    pub(super) fn holds(&self, is_in: impl Fn(&Region) -> bool) -> bool {
        is_in(&self.region) && !self.but.as_ref().is_some_and(is_in)
    }
}

/// What a set asks of pods themselves; `None` when none can be meant.
fn pods(set: &PodSet) -> Option<Region> {
    let mut region = Region::selected(&set.pods, Field::Label)?;
    match &set.account {
        Some(account) => {
            let valid = names::is_dns_subdomain(account);
            let account = valid.then(|| Some(account.clone()));
            region.restrict(&Field::Account, &Values::only(account)).then_some(region)
        }
        None => Some(region),
    }
}

/// The namespaces to come that are meant, all but some; `None` when there are none.
fn homes_to_come(
    space: &Space,
    namespaces: &Namespaces,
    subject: Option<&Namespace>,
) -> Option<(Region, Option<Region>)> {
    let relative = |keys: &[SmolStr]| subject.filter(|_| !keys.is_empty());
    match namespaces {
        Namespaces::Named(name) => Some((home_named(space, name)?, None)),
        Namespaces::Matching(selector) => Some((possible(space, &homes(selector)?)?, None)),
        // The subject's namespace is there: whoever asks about one to come adds it to the space.
        Namespaces::Own => None,
        Namespaces::SameLabels(keys) => Some((possible(space, &same(keys, relative(keys)?)?)?, None)),
        Namespaces::NotSameLabels(keys) => {
            let subject = relative(keys)?;
            let mut all = Region::default();
            let present = Values::present();
            // A key that no namespace can carry is no key to come; nor is it one of the subject.
            let valid = keys.iter().all(|key| names::is_label_key(key));
            let all = keys.iter().all(|key| all.restrict(&Field::Home(key.clone()), &present)).then_some(all);
            let but = same(keys, subject).and_then(|but| possible(space, &but));
            Some((possible(space, &all.filter(|_| valid)?)?, but))
        }
    }
}

fn homes(selector: &Selector) -> Option<Region> {
    Region::selected(selector, Field::Home)
}

/// The namespaces that have these labels as the subject has them.
fn same(keys: &[SmolStr], subject: &Namespace) -> Option<Region> {
    let mut region = Region::default();
    for key in keys {
        let value = subject.labels.get(key).filter(|value| names::is_label_value(value))?;
        if !region.restrict(&Field::Home(key.clone()), &Values::only([Some(value.into())])) {
            return None;
        }
    }
    Some(region)
}

fn home_named(space: &Space, name: &str) -> Option<Region> {
    homes(&Selector::label(NAMESPACE_NAME_LABEL, name)).and_then(|region| possible(space, &region))
}

/// What of a region namespaces to come can be in: they have a name, and one that is valid and that no other has.
fn possible(space: &Space, region: &Region) -> Option<Region> {
    let new = |name: &str| space.place(name).is_none() && names::is_dns_label(name);
    let mut possible = Region::default();
    for (field, values) in region.iter() {
        let kept = match field {
            Field::Home(key) if key == NAMESPACE_NAME_LABEL => {
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
