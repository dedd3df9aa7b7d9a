//! The texts that are enforced, each in its last good version, and their objects.
//!
//! A file is accepted as it is now unless that is no version that its author can have meant: it has an error, it is still being
//! written, it is empty and was not, or it is gone together with its folder. Then its last good version stays, and the reason is a
//! [`Problem`]. A file that was never good is left out. Only a file that is deleted from a folder that is still there takes its objects
//! out of force.
//!
//! One file is parsed, and its objects are compared, when one file changes: the world of all files is never built again. The exception
//! are Thorium's documents. They have no identity across files, so all files are read again when one of them has some.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use palisade_dialects::codes;
use palisade_dialects::load::{duplicate, load};
use palisade_dialects::object::{Key, Loaded, Lowered};
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source as Text;
use palisade_dialects::thorium::Reading;
use palisade_dialects::world::World;
use palisade_model::diagnostic::Diagnostic;

use super::Texts;
use crate::source::{Change, Finding, Problem};

/// The accepted texts of some paths.
#[derive(Debug)]
pub struct LastGood {
    paths: Vec<String>,
    thorium: Reading,
    /// The texts that were accepted last.
    good: BTreeMap<Arc<str>, Arc<Text>>,
    /// The objects of the candidate texts, in the order in which files count.
    files: BTreeMap<Rank, FileObjects>,
    /// The files that have an object; of several, the last one counts.
    owners: BTreeMap<Key, BTreeSet<Rank>>,
    /// The objects of `files`, each once.
    world: World,
    /// Objects that differ from those of `good`, as they are there.
    before: BTreeMap<Key, Option<Loaded>>,
    problems: Vec<Problem>,
    findings: Vec<Diagnostic>,
    /// Whether there is a version to fall back on.
    has_good: bool,
    /// Whether a listing was accepted in this process.
    complete: bool,
}

/// The order in which files count: by the path that was asked for, then by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    argument: Option<usize>,
    path: PathBuf,
}

/// A text, its objects, and what was found in it.
#[derive(Debug)]
struct FileObjects {
    text: Arc<Text>,
    objects: BTreeMap<Key, Loaded>,
    found: Vec<Diagnostic>,
}

/// What was accepted of some texts.
#[derive(Debug, Default)]
pub struct Accepted {
    /// The objects that changed; `None` if no text was accepted that is new.
    pub changes: Option<Vec<Change>>,
    /// Whether a file is still being written: the paths have to be read again.
    pub unfinished: bool,
    /// The names of the files that changed.
    pub changed: Vec<String>,
}

/// How often files are left in their last version before the whole reading is given up. Problems between files show only in the second
/// round.
const ROUNDS: usize = 3;

// === impl LastGood ===

impl LastGood {
    /// Accepts nothing yet.
    pub fn new(paths: &[String], thorium: impl Into<Reading>) -> Self {
        let thorium = thorium.into();
        let mut world = World::default();
        world.read_thorium_as(thorium);
        LastGood {
            paths: paths.to_vec(),
            thorium,
            good: BTreeMap::new(),
            files: BTreeMap::new(),
            owners: BTreeMap::new(),
            world,
            before: BTreeMap::new(),
            problems: Vec::new(),
            findings: Vec::new(),
            has_good: false,
            complete: false,
        }
    }

    /// Takes texts that were enforced before this process as versions to fall back on.
    pub fn restore(&mut self, texts: impl IntoIterator<Item = (String, String)>) {
        let texts = texts.into_iter().map(|(name, text)| Arc::new(Text::new(name, text)));
        self.good = texts.map(|text| (Arc::clone(text.name()), text)).collect();
        self.has_good = true;
    }

    /// Returns whether a listing was accepted.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns why files are not enforced as they are now.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Returns what was found in the accepted texts.
    pub fn findings(&self) -> &[Diagnostic] {
        &self.findings
    }

    /// Returns the accepted texts, in the order in which they count.
    pub fn texts(&self) -> impl Iterator<Item = &Arc<Text>> {
        self.files.values().map(|file| &file.text)
    }

    /// Takes what was read of the paths.
    pub fn take(&mut self, texts: Texts, is_written: &dyn Fn(&Path) -> bool) -> Accepted {
        let mut accepted = Accepted::default();
        self.problems.clear();
        let mut chosen = self.choose(texts, is_written, &mut accepted);
        // Without a version to fall back on it is all or nothing.
        for round in 0..ROUNDS {
            let found = self.stage(&chosen);
            let unfit: Vec<Diagnostic> = found.iter().filter(|finding| is_unfit(finding)).cloned().collect();
            if unfit.is_empty() && (self.has_good || self.problems.is_empty()) {
                self.accept(chosen, found, &mut accepted);
                return accepted;
            }
            let file = |finding: &Diagnostic| finding.location.as_ref().map(|at| Arc::clone(&at.file));
            let names: BTreeSet<Arc<str>> = unfit.iter().filter_map(file).collect();
            self.problems.extend(unfit.into_iter().map(|diagnostic| {
                let text = file(&diagnostic).and_then(|name| chosen.get(&name).cloned());
                Problem::Finding(Box::new(Finding { diagnostic, text }))
            }));
            let mut other = false;
            for name in names.iter().filter(|_| self.has_good) {
                let was = match self.good.get(name) {
                    Some(good) => chosen.insert(Arc::clone(name), Arc::clone(good)),
                    None => chosen.remove(name),
                };
                other |= was.as_ref().map(|text| text.text()) != chosen.get(name).map(|text| text.text());
            }
            if !other || round + 1 == ROUNDS {
                break;
            }
        }
        let good = self.good.clone();
        let found = self.stage(&good);
        // What was enforced before this process was good, whatever is wrong now.
        if self.has_good && !self.complete {
            self.accept(good, found, &mut accepted);
        }
        self.before.clear();
        accepted
    }

    /// Chooses the version of each file to begin with.
    fn choose(
        &mut self,
        texts: Texts,
        is_written: &dyn Fn(&Path) -> bool,
        accepted: &mut Accepted,
    ) -> BTreeMap<Arc<str>, Arc<Text>> {
        let mut chosen: BTreeMap<Arc<str>, Arc<Text>> = BTreeMap::new();
        for text in texts.texts {
            let name = Arc::clone(text.name());
            let good = self.good.get(&name);
            if is_written(Path::new(&*name)) {
                accepted.unfinished = true;
                chosen.extend(good.map(|good| (name, Arc::clone(good))));
                continue;
            }
            if let Some(good) = good.filter(|good| is_blank(&text) && !is_blank(good)) {
                self.problems.push(Problem::Emptied { file: name.to_string() });
                chosen.insert(name, Arc::clone(good));
                continue;
            }
            chosen.insert(name, text);
        }
        for finding in texts.unread {
            let at = finding.location.as_ref().map(|at| at.file.to_string()).unwrap_or_default();
            let kept = self.below(&at);
            let reason = match finding.message.starts_with(&at) {
                true => finding.message,
                false => format!("{at}: {}", finding.message),
            };
            self.problems.push(Problem::Unreadable { reason, kept: !kept.is_empty() });
            chosen.extend(kept);
        }
        // A volume that is not mounted any more is an empty folder.
        for path in &self.paths {
            let below = |name: &str| is_below(name, path);
            if !chosen.keys().any(|name| below(name)) && self.good.keys().any(|name| below(name)) {
                self.problems.push(Problem::Vanished { path: path.clone() });
                chosen.extend(self.below(path));
            }
        }
        chosen
    }

    /// Returns the last good versions of a file, or of all files below a folder.
    fn below(&self, path: &str) -> Vec<(Arc<str>, Arc<Text>)> {
        let own = self.good.iter().filter(|(name, _)| is_below(name, path));
        own.map(|(name, text)| (Arc::clone(name), Arc::clone(text))).collect()
    }

    /// Makes the world that of these texts, and returns what is found in them. Only files that differ from the staged ones are parsed.
    fn stage(&mut self, chosen: &BTreeMap<Arc<str>, Arc<Text>>) -> Vec<Diagnostic> {
        let ranked: BTreeMap<Rank, &Arc<Text>> =
            chosen.values().map(|text| (self.rank(text.name()), text)).collect();
        let had_thorium = self.files.values().any(FileObjects::is_of_thorium);
        let gone: Vec<Rank> = self.files.keys().filter(|rank| !ranked.contains_key(rank)).cloned().collect();
        for rank in gone {
            self.replace(&rank, None);
        }
        for (rank, text) in ranked {
            match self.files.get_mut(&rank) {
                Some(staged) if staged.text.text() == text.text() => {}
                _ => self.replace(&rank, Some(FileObjects::of(text))),
            }
        }
        if had_thorium || self.files.values().any(FileObjects::is_of_thorium) {
            return self.rebuild();
        }
        let mut found = self.found();
        found.extend(self.world.review());
        found
    }

    /// Replaces one file, and those of its objects that no later file has.
    fn replace(&mut self, rank: &Rank, file: Option<FileObjects>) {
        let old = match file {
            Some(file) => self.files.insert(rank.clone(), file),
            None => self.files.remove(rank),
        };
        let new = self.files.get(rank);
        let keys = |file: &FileObjects| file.objects.keys().cloned().collect::<Vec<Key>>();
        let (old, new) = (old.as_ref().map(keys).unwrap_or_default(), new.map(keys).unwrap_or_default());
        for key in &old {
            if let Some(owners) = self.owners.get_mut(key) {
                owners.remove(rank);
            }
        }
        for key in &new {
            self.owners.entry(key.clone()).or_default().insert(rank.clone());
        }
        for key in old.into_iter().chain(new) {
            let owner = self.owners.get(&key).and_then(BTreeSet::last);
            let now = owner.and_then(|owner| self.files.get(owner)?.objects.get(&key));
            let was = self.world.get(&key);
            if now != was {
                self.before.entry(key.clone()).or_insert_with(|| was.cloned());
                match now {
                    Some(now) => self.world.insert(now.clone()),
                    None => drop(self.world.remove_key(&key)),
                }
            }
            if self.owners.get(&key).is_some_and(BTreeSet::is_empty) {
                self.owners.remove(&key);
            }
        }
    }

    /// Builds the world from all texts: Thorium's documents are told apart by their order only.
    fn rebuild(&mut self) -> Vec<Diagnostic> {
        let (mut world, mut found) = (World::default(), Vec::new());
        world.read_thorium_as(self.thorium);
        for file in self.files.values() {
            load(&file.text, &Limits::default(), &mut world, &mut found);
        }
        for was in self.world.iter().filter(|was| world.get(&was.key) != Some(*was)) {
            self.before.entry(was.key.clone()).or_insert_with(|| Some(was.clone()));
        }
        for now in world.iter().filter(|now| self.world.get(&now.key).is_none()) {
            self.before.entry(now.key.clone()).or_insert(None);
        }
        found.extend(world.review());
        self.world = world;
        found
    }

    /// Returns what was found in each file, and which objects a later file replaces.
    fn found(&self) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        let mut replaced: BTreeMap<&Rank, Vec<(&Key, &Rank)>> = BTreeMap::new();
        for (key, owners) in self.owners.iter().filter(|(_, owners)| owners.len() > 1) {
            for (earlier, later) in owners.iter().zip(owners.iter().skip(1)) {
                replaced.entry(later).or_default().push((key, earlier));
            }
        }
        for (rank, file) in &self.files {
            found.extend(file.found.iter().cloned());
            for (key, earlier) in replaced.remove(rank).into_iter().flatten() {
                let earlier = self.files.get(earlier).and_then(|file| file.objects.get(key));
                let pair = file.objects.get(key).zip(earlier);
                found.extend(pair.map(|(later, earlier)| duplicate(later, earlier)));
            }
        }
        found
    }

    fn accept(
        &mut self,
        chosen: BTreeMap<Arc<str>, Arc<Text>>,
        found: Vec<Diagnostic>,
        accepted: &mut Accepted,
    ) {
        let names: BTreeSet<&Arc<str>> = self.good.keys().chain(chosen.keys()).collect();
        let differs = |name: &&&Arc<str>| {
            self.good.get(**name).map(|text| text.text()) != chosen.get(**name).map(|text| text.text())
        };
        accepted.changed = names.iter().filter(differs).map(ToString::to_string).collect();
        let is_new = !accepted.changed.is_empty() || !self.complete;
        let before = std::mem::take(&mut self.before);
        let changes = before.into_iter().filter_map(|(key, was)| match self.world.get(&key) {
            Some(now) if was.as_ref() == Some(now) => None,
            Some(now) => Some(Change::Apply(now.clone())),
            None => was.map(|_| Change::Delete(key)),
        });
        let changes: Vec<Change> = changes.collect();
        accepted.changes = is_new.then_some(changes);
        if is_new {
            self.findings = found;
        }
        self.good = chosen;
        (self.has_good, self.complete) = (true, true);
    }

    fn rank(&self, name: &str) -> Rank {
        let argument = self.paths.iter().position(|path| is_below(name, path));
        Rank { argument, path: PathBuf::from(name) }
    }
}

// === impl FileObjects ===

impl FileObjects {
    fn of(text: &Arc<Text>) -> FileObjects {
        let (mut world, mut found) = (World::default(), Vec::new());
        load(text, &Limits::default(), &mut world, &mut found);
        let objects = world.iter().map(|loaded| (loaded.key.clone(), loaded.clone())).collect();
        FileObjects { text: Arc::clone(text), objects, found }
    }

    fn is_of_thorium(&self) -> bool {
        self.objects.values().any(|object| matches!(object.lowered, Lowered::Thorium(_)))
    }
}

/// Returns whether a text with this finding is no version that its author can have meant: something in it is wrong, or lost.
pub fn is_unfit(diagnostic: &Diagnostic) -> bool {
    diagnostic.is_error() || loses_an_object(diagnostic)
}

/// Returns whether a text has a second `kind` or `metadata`: a line `---` is missing, and the first object is lost.
pub fn loses_an_object(diagnostic: &Diagnostic) -> bool {
    let whole = ["apiVersion", "kind", "metadata"].contains(&diagnostic.field.as_str());
    whole && diagnostic.code.id == codes::DUPLICATE_KEY.id
}

fn is_blank(text: &Text) -> bool {
    text.text().trim().is_empty()
}

/// Returns whether a file is this path, or below it.
fn is_below(name: &str, path: &str) -> bool {
    Path::new(name).starts_with(path)
}

#[cfg(test)]
mod tests;
