//! Universes: every pod of a few labels in every namespace of a few labels, present in a snapshot.

use palisade_analysis::space::{Predicate, Space, Witness};
use palisade_model::cluster::{Namespace, Pod};
use palisade_model::label::{Labels, Operator, Requirement, Selector};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::options::Options;
use palisade_model::policy::{Namespaces, PodSet};
use palisade_model::snapshot::{Objects, Snapshot};
use smol_str::SmolStr;

/// A cluster with some namespaces, and the same with every namespace and pod there could be.
///
/// A set is a selection of namespaces and one of pods, so that not every pair needs to be a pod in a snapshot: one pod in
/// every namespace and every pod in one namespace say it all.
pub struct Universe {
    pub objects: Objects,
    pub space: Space,
    first: SmolStr,
    /// The namespaces that exist with one to come each: several can have the same name. A pod `home` is in each.
    homes: Vec<(Snapshot, SmolStr)>,
    /// Every pod, all in the first namespace.
    pods: Snapshot,
}

/// Who of a universe is in a set: of these namespaces those pods.
pub struct Held {
    homes: Vec<bool>,
    pods: Vec<bool>,
}

/// A small generator with a fixed sequence, so that a failure can be repeated.
pub struct Dice(pub u64);

pub fn labels(text: &str) -> Labels {
    Labels::new(text.split(',').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.into(), v.into())))
}

pub fn namespace(name: &str, text: &str) -> Namespace {
    Namespace { name: name.into(), labels: labels(text), at: None }
}

/// Every way to give these keys one of these values or none.
fn every_label(keys: &[&str], values: &[&str]) -> Vec<Labels> {
    keys.iter().fold(vec![Labels::default()], |all, key| {
        let with = |labels: &Labels, value: &str| {
            let mut labels = labels.clone();
            labels.set((*key).into(), value.into());
            labels
        };
        let more: Vec<Labels> =
            all.iter().flat_map(|labels| values.iter().map(move |value| with(labels, value))).collect();
        all.into_iter().chain(more).collect()
    })
}

/// The accounts that sets name, and another one.
const ACCOUNTS: [&str; 2] = ["robot", "default"];

// === impl Universe ===

impl Universe {
    /// With namespaces that exist, of which the first is the subject's; labels have one of the values, the last of which
    /// no set may name. Namespaces to come are called `new` or `else`; no set may name the latter.
    pub fn new(existing: &[Namespace], keys: &[&str], values: &[&str]) -> Self {
        let objects = Objects { namespaces: existing.to_vec(), ..Objects::default() };
        let space = Space::new(&Snapshot::new(objects.clone()));
        let first = existing[0].name.clone();
        let home = |name: &SmolStr| Pod { namespace: name.clone(), name: "home".into(), ..Pod::default() };
        let to_come = every_label(keys, values).into_iter().flat_map(|labels| {
            ["new", "else"].map(|name| Namespace { name: name.into(), labels: labels.clone(), at: None })
        });
        let homes = existing.iter().cloned().chain(to_come).map(|namespace| {
            let mut objects = objects.clone();
            objects.pods = vec![home(&first)];
            if !objects.namespaces.iter().any(|existing| existing.name == namespace.name) {
                objects.namespaces.push(namespace.clone());
            }
            if namespace.name != first {
                objects.pods.push(home(&namespace.name));
            }
            (Snapshot::new(objects), namespace.name)
        });
        let pods = every_label(keys, values).into_iter().enumerate().flat_map(|(at, labels)| {
            let name = |account: &str| format!("{account}-{at}").into();
            ACCOUNTS.map(|account| Pod {
                name: name(account),
                labels: labels.clone(),
                account: account.into(),
                ..home(&first)
            })
        });
        let pods = Snapshot::new(Objects { pods: pods.collect(), ..objects.clone() });
        Universe { homes: homes.collect(), objects, space, first, pods }
    }

    pub fn predicate(&self, set: &PodSet) -> Predicate {
        self.space.predicate(set, self.space.namespace(&self.first))
    }

    /// Who is in a set, in the model's words.
    pub fn held(&self, set: &PodSet) -> Held {
        let anybody = PodSet::new(set.namespaces.clone(), Selector::everything());
        let home = |(snapshot, name): &(Snapshot, SmolStr)| {
            let context = Context { snapshot, options: Options::default() };
            let subject = Endpoint::Pod(snapshot.pod(&self.first, "home").unwrap());
            context.holds(&anybody, snapshot.pod(name, "home").unwrap(), subject)
        };
        let here = PodSet { namespaces: Namespaces::Own, ..set.clone() };
        let context = Context { snapshot: &self.pods, options: Options::default() };
        Held {
            homes: self.homes.iter().map(home).collect(),
            pods: (0..self.pods.pods().len())
                .map(|pod| context.holds(&here, pod, Endpoint::Pod(pod)))
                .collect(),
        }
    }

    /// Holds a witness against the model, in a cluster that really has it.
    pub fn check(&self, witness: &Witness, all: &[&PodSet], none: &[&PodSet]) {
        let mut objects = self.objects.clone();
        let exists = objects.namespaces.iter().any(|ns| ns.name == witness.namespace.name);
        assert_eq!(!exists, witness.is_namespace_new(), "{witness}");
        if !exists {
            objects.namespaces.push(witness.namespace.clone());
        }
        objects.pods.push(witness.pod("witness"));
        let subject = Pod { namespace: self.first.clone(), name: "subject".into(), ..Pod::default() };
        objects.pods.push(subject);
        let snapshot = Snapshot::new(objects);
        let context = Context { snapshot: &snapshot, options: Options::default() };
        let pod = snapshot.pod(&witness.namespace.name, "witness").unwrap();
        let subject = Endpoint::Pod(snapshot.pod(&self.first, "subject").unwrap());
        for set in all {
            assert!(context.holds(set, pod, subject), "{witness} is not in {set}");
            assert!(self.space.holds(&self.predicate(set), witness));
        }
        for set in none {
            assert!(!context.holds(set, pod, subject), "{witness} is in {set}");
            assert!(!self.space.holds(&self.predicate(set), witness));
        }
    }

    /// The combinations of sets that somebody is in, as numbers in binary.
    pub fn combinations(&self, sets: &[Held]) -> Vec<u64> {
        let number = |held: &dyn Fn(&Held) -> bool| {
            sets.iter().enumerate().map(|(at, set)| u64::from(held(set)) << at).sum::<u64>()
        };
        let distinct = |mut numbers: Vec<u64>| {
            numbers.sort_unstable();
            numbers.dedup();
            numbers
        };
        let pods = self.pods.pods().len();
        let homes = distinct((0..self.homes.len()).map(|home| number(&|set| set.homes[home])).collect());
        let pods = distinct((0..pods).map(|pod| number(&|set| set.pods[pod])).collect());
        distinct(homes.iter().flat_map(|home| pods.iter().map(move |pod| home & pod)).collect())
    }
}

// === impl Held ===

impl Held {
    /// Whether somebody is in both.
    pub fn meets(&self, other: &Held) -> bool {
        let both = |a: &[bool], b: &[bool]| a.iter().zip(b).any(|(a, b)| *a && *b);
        both(&self.homes, &other.homes) && both(&self.pods, &other.pods)
    }

    /// Whether somebody is in it and not in the other.
    pub fn exceeds(&self, other: &Held) -> bool {
        let any = |held: &[bool]| held.iter().any(|held| *held);
        let more = |a: &[bool], b: &[bool]| a.iter().zip(b).any(|(a, b)| *a && !*b);
        any(&self.homes) && more(&self.pods, &other.pods)
            || any(&self.pods) && more(&self.homes, &other.homes)
    }
}

// === impl Dice ===

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }

    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len())].clone()
    }
}

/// Every requirement about a key with up to two of these values.
pub fn every_requirement(key: &str, values: &[&str]) -> Vec<Requirement> {
    let mut lists: Vec<Vec<SmolStr>> = vec![Vec::new()];
    for (at, value) in values.iter().enumerate() {
        lists.push(vec![(*value).into()]);
        lists.extend(values[at + 1..].iter().map(|other| vec![(*value).into(), (*other).into()]));
    }
    let operators = lists.iter().cloned().map(Operator::In);
    let operators = operators.chain(lists.iter().cloned().map(Operator::NotIn));
    let operators = operators.chain([Operator::Exists, Operator::DoesNotExist]);
    operators.map(|operator| Requirement::new(key, operator)).collect()
}
