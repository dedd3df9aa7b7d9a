//! What pods are to rules: a **shape** is what some pods have in common as they are, a **kind** what is left of it once
//! everything is left out that no rule asks for.
//!
//! Most labels of a pod say which revision, replica or release it is of, and no selector ever mentions them. Pods whose
//! labels differ only there are of one kind. A label's key, a port's name and the service account count from the first
//! set that asks for them. When the last one goes they still do, until [`crate::Engine::tidy`]: to put together again
//! what nobody tells apart any more means to walk over all pods, which must not happen whenever the only policy that
//! uses a label is replaced. No answer depends on it.

use std::collections::BTreeSet;

use palisade_model::cluster::{ContainerPort, Pod};
use palisade_model::label::Labels;
use palisade_model::policy::PodSet;
use smallvec::SmallVec;
use smol_str::SmolStr;

use crate::arena::Arena;
use crate::endpoints::{Class, PodEntry};
use crate::id::Id;
use crate::selection::NamedPort;
use crate::table::{Index, Map, References, Table};

/// The most labels and ports that each get an entry.
const LARGE: usize = 64;

/// All shapes and kinds.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    pub(crate) shapes: Arena<Shape>,
    shape_by_content: Table<Id<Shape>>,
    pub(crate) kinds: Arena<KindEntry>,
    kind_by_content: Table<Id<KindEntry>>,
    /// Which kinds have a label, or a port, for sets that ask for it in all namespaces.
    by_label: Index<Id<KindEntry>>,
    by_port: Index<Id<KindEntry>>,
    /// What some set has asked for, and how many do now.
    used: Map<Asked, u32>,
    /// What nobody asks for any more.
    idle: BTreeSet<Asked>,
    /// Which shapes have something that no set has asked for yet.
    unused: References<Asked, Id<Shape>>,
    /// Shapes with more labels and ports than are worth a list each: they are looked at one by one.
    large: BTreeSet<Id<Shape>>,
}

/// Something about pods that sets can ask for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Asked {
    Label(SmolStr),
    Port(SmolStr),
    Account,
}

/// Pods that are the same as they are, in whatever namespace.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) labels: Labels,
    pub(crate) ports: Box<[ContainerPort]>,
    pub(crate) account: SmolStr,
    pub(crate) external: bool,
    pub(crate) kind: Id<KindEntry>,
    /// Where they are.
    pub(crate) pods: Vec<Id<PodEntry>>,
}

/// Pods that are the same to every rule, but for their namespace.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kind {
    pub(crate) labels: Labels,
    /// The first one of each name and protocol, by name.
    pub(crate) ports: Vec<NamedPort>,
    pub(crate) account: Option<SmolStr>,
    pub(crate) external: bool,
}

/// A kind, and what is of it.
#[derive(Debug)]
pub(crate) struct KindEntry {
    pub(crate) kind: Kind,
    /// How many shapes.
    shapes: u32,
    /// Which classes: one for each namespace that has such pods.
    pub(crate) classes: Vec<Id<Class>>,
}

/// Labels, ports, service account, and whether it is an external entity.
type ShapeContent<'a> = (&'a Labels, &'a [ContainerPort], &'a SmolStr, bool);

// === impl Shapes ===

impl Shapes {
    pub(crate) fn is_empty(&self) -> bool {
        self.shapes.len() + self.kinds.len() + self.used.len() + self.large.len() == 0
            && self.by_label.is_empty()
            && self.by_port.is_empty()
            && self.unused.is_empty()
    }

    /// The shape of a pod, found or made.
    pub(crate) fn of(&mut self, pod: &Pod) -> Id<Shape> {
        let content = (&pod.labels, pod.ports.as_slice(), &pod.account, pod.external);
        let hash = self.shape_by_content.hash(&content);
        if let Some(shape) = self.shape_by_content.find(hash, |id| self.shapes[id].content() == content) {
            return shape;
        }
        let kind = self.found_or_new(self.project(content));
        let id = self.shapes.insert(Shape {
            labels: pod.labels.clone(),
            ports: pod.ports.as_slice().into(),
            account: pod.account.clone(),
            external: pod.external,
            kind,
            pods: Vec::new(),
        });
        self.shape_by_content.insert(hash, id);
        if self.shapes[id].is_large() {
            self.large.insert(id);
        } else {
            for asked in self.shapes[id].offers() {
                if !self.used.contains_key(&asked) {
                    self.unused.note(asked, id, true);
                }
            }
        }
        id
    }

    /// Forgets a shape that no pod has any more.
    pub(crate) fn forget(&mut self, id: Id<Shape>) {
        let gone = self.shapes.remove(id);
        self.leave_kind(gone.kind);
        let hash = self.shape_by_content.hash(&gone.content());
        self.shape_by_content.remove(hash, id);
        if !self.large.remove(&id) {
            for asked in gone.offers() {
                self.unused.note(asked, id, false);
            }
        }
    }

    /// One shape less of a kind, whose pods have left their classes.
    pub(crate) fn leave_kind(&mut self, id: Id<KindEntry>) {
        self.kinds[id].shapes -= 1;
        if self.kinds[id].shapes > 0 {
            return;
        }
        let gone = self.kinds.remove(id).kind;
        let hash = self.kind_by_content.hash(&gone);
        self.kind_by_content.remove(hash, id);
        for label in gone.labels.iter() {
            self.by_label.take(&(label.0, Some(label.1)), id);
            self.by_label.take(&(label.0, None::<&str>), id);
        }
        for port in &gone.ports {
            self.by_port.take(port, id);
        }
    }

    /// The kinds that have a label, with that value or any, and perhaps others.
    pub(crate) fn with_label(&self, label: (&str, Option<&str>)) -> &[Id<KindEntry>] {
        self.by_label.get(&label)
    }

    /// The kinds whose port is this, and perhaps others.
    pub(crate) fn with_port(&self, port: &NamedPort) -> &[Id<KindEntry>] {
        self.by_port.get(port)
    }

    /// A set asks for these: the shapes, in order, that may be of another kind now.
    pub(crate) fn ask_for(&mut self, set: &PodSet, port: Option<&NamedPort>) -> Vec<Id<Shape>> {
        sorted(asked(set, port).into_iter().flat_map(|asked| self.use_up(asked)).collect())
    }

    /// The set is gone.
    pub(crate) fn ask_no_more(&mut self, set: &PodSet, port: Option<&NamedPort>) {
        for asked in asked(set, port) {
            self.use_less(asked);
        }
    }

    /// The same for the name of a port alone.
    pub(crate) fn ask_for_port(&mut self, name: &SmolStr) -> Vec<Id<Shape>> {
        sorted(self.use_up(Asked::Port(name.clone())))
    }

    /// And when nobody names it any more.
    pub(crate) fn ask_no_more_for_port(&mut self, name: &SmolStr) {
        self.use_less(Asked::Port(name.clone()));
    }

    fn use_up(&mut self, asked: Asked) -> Vec<Id<Shape>> {
        if let Some(askers) = self.used.get_mut(&asked) {
            *askers += 1;
            self.idle.remove(&asked);
            return Vec::new();
        }
        let mut shapes = self.unused.remove(&asked);
        shapes.extend(self.large.iter().filter(|shape| self.shapes[**shape].has(&asked)));
        self.used.insert(asked, 1);
        shapes.into_iter().collect()
    }

    fn use_less(&mut self, asked: Asked) {
        if let Some(askers) = self.used.get_mut(&asked) {
            *askers -= 1;
            if *askers == 0 {
                self.idle.insert(asked);
            }
        }
    }

    /// Forgets what nobody asks for any more: the shapes, in order, that may be of another kind now.
    pub(crate) fn tidy(&mut self) -> Vec<Id<Shape>> {
        let mut all = Vec::new();
        for asked in std::mem::take(&mut self.idle) {
            self.used.remove(&asked);
            let with = self.shapes.iter().filter(|(_, shape)| shape.has(&asked)).map(|(id, _)| id);
            let with: Vec<Id<Shape>> = with.collect();
            for shape in with.iter().filter(|shape| !self.large.contains(shape)) {
                self.unused.note(asked.clone(), *shape, true);
            }
            all.extend(with);
        }
        sorted(all)
    }

    /// The kind of that content, with one shape more.
    fn found_or_new(&mut self, kind: Kind) -> Id<KindEntry> {
        let hash = self.kind_by_content.hash(&kind);
        if let Some(id) = self.kind_by_content.find(hash, |id| self.kinds[id].kind == kind) {
            self.kinds[id].shapes += 1;
            return id;
        }
        let id = self.kinds.insert(KindEntry { kind, shapes: 1, classes: Vec::new() });
        self.kind_by_content.insert(hash, id);
        for label in self.kinds[id].kind.labels.iter() {
            self.by_label.add(&(label.0, Some(label.1)), id);
            self.by_label.add(&(label.0, None::<&str>), id);
        }
        for port in &self.kinds[id].kind.ports {
            self.by_port.add(port, id);
        }
        id
    }

    /// Finds the kind of a shape again: the one that it was of, if it is of another now. That one is not left yet.
    pub(crate) fn project_anew(&mut self, id: Id<Shape>) -> Option<Id<KindEntry>> {
        let kind = self.project(self.shapes[id].content());
        let old = self.shapes[id].kind;
        if self.kinds[old].kind == kind {
            return None;
        }
        self.shapes[id].kind = self.found_or_new(kind);
        Some(old)
    }

    fn project(&self, (labels, ports, account, external): ShapeContent<'_>) -> Kind {
        let used = |key: &str| self.used.contains_key(&Asked::Label(key.into()));
        let labels = labels.iter().filter(|(key, _)| used(key));
        let named = ports.iter().filter_map(|port| {
            let name = port.name.clone().filter(|name| self.used.contains_key(&Asked::Port(name.clone())))?;
            Some(NamedPort { name, protocol: port.protocol, number: port.number })
        });
        // A stable sort keeps the first one of a name first, and that one is kept.
        let mut ports: Vec<NamedPort> = named.collect();
        ports.sort_by(|a, b| (&a.name, a.protocol).cmp(&(&b.name, b.protocol)));
        ports.dedup_by(|later, kept| (&later.name, later.protocol) == (&kept.name, kept.protocol));
        let account = self.used.contains_key(&Asked::Account).then(|| account.clone());
        let labels = Labels::new(labels.map(|(key, value)| (key.into(), value.into())));
        Kind { labels, ports, account, external }
    }
}

/// What a set asks for.
fn asked(set: &PodSet, port: Option<&NamedPort>) -> Vec<Asked> {
    let mut labels: Vec<Asked> =
        set.pods.requirements().iter().map(|one| Asked::Label(one.key.clone())).collect();
    labels.dedup();
    let account = set.account.iter().map(|_| Asked::Account);
    let ports = port.into_iter().map(|port| Asked::Port(port.name.clone()));
    labels.into_iter().chain(account).chain(ports).collect()
}

fn sorted(mut shapes: Vec<Id<Shape>>) -> Vec<Id<Shape>> {
    shapes.sort_unstable();
    shapes.dedup();
    shapes
}

// === impl Shape ===

impl Shape {
    fn content(&self) -> ShapeContent<'_> {
        (&self.labels, &self.ports, &self.account, self.external)
    }

    fn is_large(&self) -> bool {
        self.labels.len() + self.ports.len() > LARGE
    }

    fn has(&self, asked: &Asked) -> bool {
        match asked {
            Asked::Label(key) => self.labels.has(key),
            Asked::Port(name) => self.ports.iter().any(|port| port.name.as_ref() == Some(name)),
            Asked::Account => true,
        }
    }

    fn offers(&self) -> Vec<Asked> {
        let labels = self.labels.iter().map(|(key, _)| Asked::Label(key.into()));
        let ports = self.ports.iter().filter_map(|port| port.name.clone()).map(Asked::Port);
        labels.chain(ports).chain([Asked::Account]).collect()
    }
}

// === impl Kind ===

impl Kind {
    /// Whether a port's name stands for this at its pods.
    pub(crate) fn has_port(&self, port: &NamedPort) -> bool {
        self.ports.binary_search(port).is_ok()
    }

    /// What a port's name stands for at its pods, for each protocol.
    pub(crate) fn ports_named<'k>(&'k self, name: &'k str) -> impl Iterator<Item = &'k NamedPort> {
        let first = self.ports.partition_point(|port| port.name.as_str() < name);
        self.ports[first..].iter().take_while(move |port| port.name == name)
    }
}

/// A few numbers, without memory of their own.
pub(crate) type Few<I> = SmallVec<[I; 4]>;
