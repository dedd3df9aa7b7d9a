//! The texts that are in force, each in its last good version.
//!
//! A file counts as it is now, unless that is no version that anybody could have meant: it has an error in it, somebody is still
//! writing it, it is empty where it had something, or it is gone together with its folder. Then its last good version stays, and why
//! is said. What was never good is left out. Only a file that is deleted, from a folder that is still there, takes its
//! objects out of force.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use palisade_dialects::load::{add, load};
use palisade_dialects::object::{Loaded, Lowered};
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::thorium::Reading;
use palisade_dialects::world::World;
use palisade_model::diagnostic::Diagnostic;
use palisade_report::text::Text;

use super::super::reservations::is_unfit;
use crate::input::Input;

/// The texts of some paths.
#[derive(Debug)]
pub struct Files {
    paths: Vec<String>,
    thorium: Reading,
    good: BTreeMap<Arc<str>, Arc<Source>>,
    /// What was read of each the last time: one file is saved, and all others are as they were.
    read: BTreeMap<Arc<str>, FileObjects>,
    /// Whether there is anything to fall back on.
    begun: bool,
    /// Whether anybody has been told what they say.
    told: bool,
}

/// A text, its objects, and what was found in it.
#[derive(Debug)]
struct FileObjects {
    source: Arc<Source>,
    objects: Vec<Loaded>,
    found: Vec<Diagnostic>,
}

/// What the texts say.
#[derive(Debug, Default, Clone)]
pub struct Manifests {
    /// The texts, by name.
    pub sources: Vec<Arc<Source>>,
    /// Their objects.
    pub world: World,
    /// What is odd about them.
    pub found: Vec<Diagnostic>,
}

/// What reading the files came to.
#[derive(Debug)]
pub struct Look {
    /// What is to be in force; nothing if the files cannot be taken as they are, or are as they were.
    pub manifests: Option<Manifests>,
    /// Where they were not taken as they are, and why.
    pub problems: Vec<Text>,
    /// Whether somebody is writing to one of them: it is to be looked at again.
    pub unfinished: bool,
    /// The names of those that are others than before.
    pub changed: Vec<String>,
}

/// How often the rest is looked at again after some files are left in their last version. What is wrong between files shows the
/// second time.
const ROUNDS: usize = 3;

// === impl Files ===

impl Files {
    /// The files of these paths; nothing is read yet.
    pub fn new(paths: &[String], thorium: impl Into<Reading>) -> Self {
        Files {
            paths: paths.to_vec(),
            thorium: thorium.into(),
            good: BTreeMap::new(),
            read: BTreeMap::new(),
            begun: false,
            told: false,
        }
    }

    /// With what was in force before this process, to fall back on.
    pub fn remember(&mut self, texts: impl IntoIterator<Item = (String, String)>) {
        let sources = texts.into_iter().map(|(name, text)| Arc::new(Source::new(name, text)));
        self.good = sources.map(|source| (Arc::clone(source.name()), source)).collect();
        self.begun = true;
    }

    /// Takes what was read of them.
    pub fn look(&mut self, mut input: Input, is_written: &dyn Fn(&Path) -> bool) -> Look {
        let mut look = Look { manifests: None, problems: Vec::new(), unfinished: false, changed: Vec::new() };
        let mut chosen = self.choose(&mut input, is_written, &mut look);
        // At the beginning there is nothing to fall back on: all or nothing.
        for round in 0..ROUNDS {
            let manifests = self.put_together(&chosen);
            let unfit: Vec<&Diagnostic> =
                manifests.found.iter().filter(|finding| is_unfit(finding)).collect();
            if unfit.is_empty() && (self.begun || look.problems.is_empty()) {
                self.accept(chosen, manifests, &mut look);
                return look;
            }
            let names: BTreeSet<Arc<str>> = unfit
                .iter()
                .filter_map(|finding| finding.location.as_ref())
                .map(|at| Arc::clone(&at.file))
                .collect();
            let texts = palisade_report::diagnostics::sources_by_name(&manifests.sources);
            let plain = palisade_report::style::Look { color: false, width: 116 };
            look.problems.extend(
                unfit.iter().map(|finding| palisade_report::diagnostics::render(finding, &texts, plain)),
            );
            let mut other = false;
            for name in names.iter().filter(|_| self.begun) {
                let now = match self.good.get(name) {
                    Some(good) => chosen.insert(Arc::clone(name), Arc::clone(good)),
                    None => chosen.remove(name),
                };
                other |=
                    now.as_ref().map(|source| source.text()) != chosen.get(name).map(|source| source.text());
            }
            if !other || round + 1 == ROUNDS {
                break;
            }
        }
        // What was in force before this process was good, whatever is wrong now.
        if self.begun && !self.told {
            let chosen = self.good.clone();
            let manifests = self.put_together(&chosen);
            self.accept(chosen, manifests, &mut look);
        }
        look
    }

    /// The version of each file to begin with.
    fn choose(
        &self,
        input: &mut Input,
        is_written: &dyn Fn(&Path) -> bool,
        look: &mut Look,
    ) -> BTreeMap<Arc<str>, Arc<Source>> {
        let mut chosen: BTreeMap<Arc<str>, Arc<Source>> = BTreeMap::new();
        for source in std::mem::take(&mut input.sources) {
            let name = Arc::clone(source.name());
            let good = self.good.get(&name);
            if is_written(Path::new(&*name)) {
                look.unfinished = true;
                chosen.extend(good.map(|good| (name, Arc::clone(good))));
                continue;
            }
            if let Some(good) = good.filter(|good| is_blank(&source) && !is_blank(good)) {
                look.problems.push(text!(
                    "{name}: is empty, and was not: what it said stays in force; delete it to take that out of force"
                ));
                chosen.insert(name, Arc::clone(good));
                continue;
            }
            chosen.insert(name, source);
        }
        for finding in std::mem::take(&mut input.found) {
            let at = finding.location.as_ref().map(|at| at.file.to_string()).unwrap_or_default();
            let kept = self.below(&at);
            let named = if finding.message.starts_with(&at) { String::new() } else { format!("{at}: ") };
            let stays = if kept.is_empty() { "" } else { "; what was in force from there stays" };
            look.problems.push(text!("{named}{}{stays}", finding.message));
            chosen.extend(kept);
        }
        // What is not mounted any more is an empty folder.
        for path in &self.paths {
            let below = |name: &str| is_below(name, path);
            if !chosen.keys().any(|name| below(name)) && self.good.keys().any(|name| below(name)) {
                look.problems.push(text!(
                    "{path}: nothing is there any more: what was in force from there stays; `palisade enforce stop` takes it out"
                ));
                chosen.extend(self.below(path));
            }
        }
        chosen
    }

    /// The last good versions of a file, or of all below a folder.
    fn below(&self, path: &str) -> Vec<(Arc<str>, Arc<Source>)> {
        let own = self.good.iter().filter(|(name, _)| is_below(name, path));
        own.map(|(name, source)| (Arc::clone(name), Arc::clone(source))).collect()
    }

    fn put_together(&mut self, chosen: &BTreeMap<Arc<str>, Arc<Source>>) -> Manifests {
        // In the order asked for: of two that say the same the later one counts.
        let mut sources: Vec<&Arc<Source>> = chosen.values().collect();
        sources.sort_by_key(|source| {
            let of = self.paths.iter().position(|path| is_below(source.name(), path));
            (of, Path::new(&**source.name()))
        });
        self.read.retain(|name, _| chosen.contains_key(name));
        for source in &sources {
            let name = source.name();
            if self.read.get(name).is_none_or(|read| read.source.text() != source.text()) {
                self.read.insert(Arc::clone(name), FileObjects::of(source));
            }
        }
        // Thorium's documents have no names that would tell them apart: they are read together.
        let mut read = sources.iter().filter_map(|source| self.read.get(source.name()));
        if read.clone().any(FileObjects::is_of_thorium) {
            return manifests(sources.into_iter(), self.thorium);
        }
        let (mut world, mut found) = (World::default(), Vec::new());
        world.read_thorium_as(self.thorium);
        for file in &mut read {
            found.extend(file.found.iter().cloned());
            for object in &file.objects {
                add(object.clone(), &mut world, &mut found);
            }
        }
        Manifests::of(world, sources.into_iter().cloned().collect(), found)
    }

    fn accept(&mut self, chosen: BTreeMap<Arc<str>, Arc<Source>>, manifests: Manifests, look: &mut Look) {
        let text = |all: &BTreeMap<Arc<str>, Arc<Source>>, name: &Arc<str>| {
            all.get(name).map(|source| source.text().to_owned())
        };
        let names: BTreeSet<&Arc<str>> = self.good.keys().chain(chosen.keys()).collect();
        let differs = |name: &&&Arc<str>| text(&self.good, name) != text(&chosen, name);
        look.changed = names.iter().filter(differs).map(ToString::to_string).collect();
        if !look.changed.is_empty() || !self.told {
            look.manifests = Some(manifests);
        }
        self.good = chosen;
        (self.begun, self.told) = (true, true);
    }
}

// === impl FileObjects ===

impl FileObjects {
    fn of(source: &Arc<Source>) -> FileObjects {
        let (mut world, mut found) = (World::default(), Vec::new());
        load(source, &Limits::default(), &mut world, &mut found);
        FileObjects { source: Arc::clone(source), objects: world.iter().cloned().collect(), found }
    }

    fn is_of_thorium(&self) -> bool {
        self.objects.iter().any(|object| matches!(object.lowered, Lowered::Thorium(_)))
    }
}

// === impl Manifests ===

impl Manifests {
    fn of(world: World, sources: Vec<Arc<Source>>, mut found: Vec<Diagnostic>) -> Manifests {
        found.extend(world.review());
        Manifests { sources, world, found }
    }
}

/// What these texts say together.
pub fn manifests<'s>(sources: impl Iterator<Item = &'s Arc<Source>>, thorium: Reading) -> Manifests {
    let (mut world, mut found) = (World::default(), Vec::new());
    world.read_thorium_as(thorium);
    let sources: Vec<Arc<Source>> = sources.cloned().collect();
    for source in &sources {
        load(source, &Limits::default(), &mut world, &mut found);
    }
    Manifests::of(world, sources, found)
}

fn is_blank(source: &Source) -> bool {
    source.text().trim().is_empty()
}

/// Whether a file is this one, or below this folder.
fn is_below(name: &str, path: &str) -> bool {
    Path::new(name).starts_with(path)
}

#[cfg(test)]
mod tests;
