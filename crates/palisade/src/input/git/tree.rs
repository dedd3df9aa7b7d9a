//! The files of a repository, of a revision or of the working tree, as a tree in memory in which symbolic links are resolved.
//!
//! Both sides of `diff --git` are walked here, so that both read the same files: those that [`super::super::Input`] would read from a
//! folder, in its order. Links are followed within the tree alone. Nothing is looked up on disk, so that a link leads to what its own
//! revision has, wherever the repository is checked out.
//!
//! ```text
//!   git ls-tree, git ls-files ──► Tree ──► Tree::walk ──► Visit::Manifest, Visit::LeadsOut, …
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

use super::super::{MAX_DEPTH, is_manifest};

/// Symbolic links on one path that Linux follows at most.
const MOST_LINKS: usize = 40;

/// The files of a repository by their paths from its top. Directories are what paths have in front of a slash.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Tree {
    entries: BTreeMap<String, Entry>,
}

/// A file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    /// The id of its blob; empty in the working tree.
    File(String),
    /// A symbolic link. None if what it leads to is no path.
    Link(Option<String>),
}

/// What a walk meets. Each has the path on which it was met, as a user would name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Visit<'t> {
    /// A manifest: its path from the top, links resolved, and its blob.
    Manifest { shown: String, path: String, id: &'t str },
    /// A link that leads out of the repository.
    LeadsOut { shown: String, path: String },
    /// A link with a manifest's name that leads to nothing in the tree.
    Dangling { shown: String },
    /// A link with a manifest's name that leads through too many links.
    Loop { shown: String },
    /// A directory that contains itself.
    ContainsItself { shown: String },
    /// A directory that is too deep.
    TooDeep { shown: String },
}

/// Where a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Resolved {
    File(String),
    Directory(String),
    Outside,
    Missing,
    Loop,
}

/// Where a walk is.
struct Walk<'w, 't> {
    /// The paths of the directories above, links resolved.
    above: BTreeSet<String>,
    /// How many of them were reached by a link.
    links: usize,
    visit: &'w mut dyn FnMut(Visit<'t>),
    enter: &'w mut dyn FnMut(&str, bool) -> bool,
}

// === impl Visit ===

impl Visit<'_> {
    /// The path on which it was met.
    pub(super) fn shown_mut(&mut self) -> &mut String {
        match self {
            Visit::Manifest { shown, .. }
            | Visit::LeadsOut { shown, .. }
            | Visit::Dangling { shown }
            | Visit::Loop { shown }
            | Visit::ContainsItself { shown }
            | Visit::TooDeep { shown } => shown,
        }
    }
}

// === impl Tree ===

impl Tree {
    /// Adds a file by its path from the top.
    pub(super) fn insert(&mut self, path: String, entry: Entry) {
        self.entries.insert(path, entry);
    }

    /// Returns all links, to be resolved.
    pub(super) fn links_mut(&mut self) -> impl Iterator<Item = (&String, &mut Option<String>)> {
        self.entries.iter_mut().filter_map(|(path, entry)| match entry {
            Entry::Link(target) => Some((path, target)),
            Entry::File(_) => None,
        })
    }

    pub(super) fn has_links(&self) -> bool {
        self.entries.values().any(|entry| matches!(entry, Entry::Link(_)))
    }

    /// Whether a path, from the top, leads to something, inside or outside.
    pub(super) fn has(&self, path: &str) -> bool {
        !matches!(self.resolve("", path), Resolved::Missing | Resolved::Loop)
    }

    /// Visits the manifests below a path from the top, which is shown under another name, in the order of their names. Calls `enter`
    /// for every entry of a directory, with whether a link led there, and ends when that returns false: links can multiply what a
    /// tree holds without bound.
    pub(super) fn walk<'t>(
        &'t self,
        path: &str,
        shown: &str,
        visit: &mut dyn FnMut(Visit<'t>),
        enter: &mut dyn FnMut(&str, bool) -> bool,
    ) {
        let shown = shown.to_owned();
        match self.resolve("", path) {
            Resolved::File(path) => self.file(shown, path, visit),
            Resolved::Directory(path) => {
                let mut walk = Walk { above: BTreeSet::new(), links: 0, visit, enter };
                self.directory(&path, &shown, 0, &mut walk);
            }
            Resolved::Outside => visit(Visit::LeadsOut { shown, path: path.to_owned() }),
            Resolved::Missing => {}
            Resolved::Loop => visit(Visit::Loop { shown }),
        }
    }

    fn file<'t>(&'t self, shown: String, path: String, visit: &mut dyn FnMut(Visit<'t>)) {
        if let Some(Entry::File(id)) = self.entries.get(&path) {
            visit(Visit::Manifest { shown, path, id });
        }
    }

    fn directory<'t>(&'t self, path: &str, shown: &str, depth: usize, walk: &mut Walk<'_, 't>) {
        if depth > MAX_DEPTH {
            return (walk.visit)(Visit::TooDeep { shown: shown.to_owned() });
        }
        if !walk.above.insert(path.to_owned()) {
            return (walk.visit)(Visit::ContainsItself { shown: shown.to_owned() });
        }
        for name in self.names(path) {
            let (inner, shown) = (join(path, name), join(shown, name));
            if !(walk.enter)(&shown, walk.links > 0) {
                break;
            }
            if name.starts_with('.') {
                continue;
            }
            let is_manifest = is_manifest(Path::new(name));
            match self.resolve(path, name) {
                Resolved::File(path) if is_manifest => self.file(shown, path, walk.visit),
                Resolved::Directory(path) => {
                    let is_link = usize::from(path != inner);
                    walk.links += is_link;
                    self.directory(&path, &shown, depth + 1, walk);
                    walk.links -= is_link;
                }
                // What is outside may be a folder, unless its name says otherwise.
                Resolved::Outside if is_manifest || Path::new(name).extension().is_none() => {
                    (walk.visit)(Visit::LeadsOut { shown, path: inner });
                }
                Resolved::Missing if is_manifest => (walk.visit)(Visit::Dangling { shown }),
                Resolved::Loop if is_manifest => (walk.visit)(Visit::Loop { shown }),
                _ => {}
            }
        }
        walk.above.remove(path);
    }

    /// Returns the names in a directory, sorted.
    fn names(&self, directory: &str) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        let prefix = join(directory, "");
        let mut from = prefix.clone();
        while let Some((path, _)) = self.entries.range(from..).next() {
            let Some(rest) = path.strip_prefix(&prefix) else { break };
            let name = rest.split('/').next().unwrap_or(rest);
            names.insert(name);
            from = match rest.len() == name.len() {
                // The path behind this one, and behind all that begin with this directory: `0` follows `/`.
                true => format!("{path}\0"),
                false => format!("{prefix}{name}0"),
            };
        }
        names
    }

    fn is_directory(&self, path: &str) -> bool {
        let prefix = join(path, "");
        self.entries.range(prefix.clone()..).next().is_some_and(|(first, _)| first.starts_with(&prefix))
    }

    /// Resolves a path that begins in a directory, as the kernel does: each `..` is the directory above what was reached, not above
    /// what was written.
    fn resolve(&self, directory: &str, path: &str) -> Resolved {
        let mut here = directory.to_owned();
        let mut rest: VecDeque<String> = path.split('/').map(ToOwned::to_owned).collect();
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            match part.as_str() {
                "" | "." => continue,
                ".." if here.is_empty() => return Resolved::Outside,
                ".." => {
                    here.truncate(here.rfind('/').unwrap_or(0));
                    continue;
                }
                _ => {}
            }
            let next = join(&here, &part);
            match self.entries.get(&next) {
                Some(Entry::File(_)) => {
                    return match rest.is_empty() {
                        true => Resolved::File(next),
                        false => Resolved::Missing,
                    };
                }
                Some(Entry::Link(None)) => return Resolved::Missing,
                // It names a place of one machine, whatever is there.
                Some(Entry::Link(Some(target))) if target.starts_with('/') => return Resolved::Outside,
                Some(Entry::Link(Some(target))) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Resolved::Loop;
                    }
                    for part in target.rsplit('/') {
                        rest.push_front(part.to_owned());
                    }
                }
                None if self.is_directory(&next) => here = next,
                None => return Resolved::Missing,
            }
        }
        // The top is there even where it is empty.
        Resolved::Directory(here)
    }
}

fn join(directory: &str, name: &str) -> String {
    match directory {
        "" => name.to_owned(),
        _ => format!("{directory}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree of files and links, `path` or `path -> target`.
    fn tree(entries: &[&str]) -> Tree {
        let mut tree = Tree::default();
        for entry in entries {
            match entry.split_once(" -> ") {
                Some((path, target)) => tree.insert(path.to_owned(), Entry::Link(Some(target.to_owned()))),
                None => tree.insert((*entry).to_owned(), Entry::File(String::new())),
            }
        }
        tree
    }

    /// What a walk meets: manifests as `shown=path`.
    fn walk(tree: &Tree, path: &str) -> Vec<String> {
        let mut met = Vec::new();
        let mut visit = |visit: Visit<'_>| {
            met.push(match visit {
                Visit::Manifest { shown, path, .. } => format!("{shown}={path}"),
                Visit::LeadsOut { shown, .. } => format!("{shown} leads out"),
                Visit::Dangling { shown } => format!("{shown} dangles"),
                Visit::Loop { shown } => format!("{shown} loops"),
                Visit::ContainsItself { shown } => format!("{shown} contains itself"),
                Visit::TooDeep { shown } => format!("{} too deep", shown.len()),
            });
        };
        tree.walk(path, path, &mut visit, &mut |_, _| true);
        met
    }

    #[test]
    fn manifests_are_visited_as_in_a_folder() {
        let tree =
            tree(&["c/a/z.yaml", "c/a.yaml", "c/b.txt", "c/.d.yaml", "c/.e/f.yaml", "c/g/.h.yaml", "i.yaml"]);
        assert_eq!(walk(&tree, "c"), ["c/a/z.yaml=c/a/z.yaml", "c/a.yaml=c/a.yaml"]);
        assert_eq!(walk(&tree, "")[2..], ["i.yaml=i.yaml"]);
        // What is named is read, whatever it is called.
        assert_eq!(walk(&tree, "c/b.txt"), ["c/b.txt=c/b.txt"]);
        assert_eq!(walk(&tree, "c/.e"), ["c/.e/f.yaml=c/.e/f.yaml"]);
        assert!(walk(&tree, "nowhere").is_empty() && !tree.has("nowhere") && tree.has("c/.e"));
    }

    #[test]
    fn links_are_followed_within_the_tree() {
        let tree = tree(&[
            "c/one.yaml -> ../shared/x.yaml",
            "c/two.yaml -> one.yaml",
            "c/dir -> ../shared",
            "c/inner.yaml -> ..data/y.yaml",
            "c/..data/y.yaml",
            "c/text -> ../shared/x.yaml",
            "shared/x.yaml",
            "shared/up.yaml -> deep/../x.yaml",
            "shared/deep -> ../other/place",
            "other/x.yaml",
            "other/place/z.yaml",
            "named -> c",
        ]);
        let found = [
            "c/dir/deep/z.yaml=other/place/z.yaml",
            // Above where the link led to, and not above the link.
            "c/dir/up.yaml=other/x.yaml",
            "c/dir/x.yaml=shared/x.yaml",
            "c/inner.yaml=c/..data/y.yaml",
            "c/one.yaml=shared/x.yaml",
            "c/two.yaml=shared/x.yaml",
        ];
        assert_eq!(walk(&tree, "c"), found);
        assert_eq!(walk(&tree, "named"), found.map(|one| one.replacen("c/", "named/", 1)));
        assert_eq!(walk(&tree, "named/dir/deep"), ["named/dir/deep/z.yaml=other/place/z.yaml"]);
    }

    #[test]
    fn links_that_lead_out_are_not_followed() {
        let tree = tree(&[
            "c/a.yaml -> ../../secret.yaml",
            "c/b.yaml -> /etc/hostname",
            "c/d -> ../../outside",
            "c/e.md -> ../../README.md",
            "c/f.yaml -> ../x/../../secret.yaml",
            "c/g.yaml -> ../.git/config",
            "x/y.yaml",
        ]);
        let met = [
            "c/a.yaml leads out",
            "c/b.yaml leads out",
            "c/d leads out",
            "c/f.yaml leads out",
            "c/g.yaml dangles",
        ];
        assert_eq!(walk(&tree, "c"), met);
        assert_eq!(walk(&tree, "c/d"), ["c/d leads out"]);
    }

    #[test]
    fn links_in_a_circle_end() {
        let circle = tree(&[
            "c/self.yaml -> self.yaml",
            "c/up -> ..",
            "c/x.yaml",
            "c/none.yaml -> gone",
            "c/y -> gone",
        ]);
        let met = ["c/none.yaml dangles", "c/self.yaml loops", "c/up/c contains itself", "c/x.yaml=c/x.yaml"];
        assert_eq!(walk(&circle, "c"), met);
        let mut chain: Vec<String> = (0..60).map(|at| format!("l{at}.yaml -> l{}.yaml", at + 1)).collect();
        chain.push("l60.yaml".to_owned());
        let chain: Vec<&str> = chain.iter().map(String::as_str).collect();
        let met = walk(&tree(&chain), "");
        assert_eq!(met.iter().filter(|one| one.ends_with("loops")).count(), 20);
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let deep = format!("{}x.yaml", "d/".repeat(100));
        assert_eq!(walk(&tree(&[&deep]), ""), ["129 too deep"]);
        // Two links in each directory to the next: the caller stops it.
        let doubling: Vec<String> = (0..60)
            .flat_map(|at| ["a", "b"].map(|name| format!("d{at}/{name} -> ../d{}", at + 1)))
            .chain(["d60/x.txt".to_owned()])
            .collect();
        let doubling: Vec<&str> = doubling.iter().map(String::as_str).collect();
        let mut left = 10_000;
        let mut enter = |_: &str, is_linked: bool| {
            left -= i32::from(left > 0 && is_linked);
            left > 0
        };
        tree(&doubling).walk("d0", "d0", &mut |_| {}, &mut enter);
        assert_eq!(left, 0);
    }
}
