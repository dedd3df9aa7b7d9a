use std::fs;
use std::path::PathBuf;

use palisade_model::diagnostic::Location;

use super::*;

struct Folder(PathBuf);

/// The last good versions, and a world that follows the changes alone.
struct Files {
    last_good: LastGood,
    followed: World,
}

/// What was accepted of a reading.
#[derive(Debug)]
struct Look {
    /// The number of policies, if anything was accepted.
    policies: Option<usize>,
    problems: Vec<Problem>,
    unfinished: bool,
    changed: Vec<String>,
    found: Vec<Diagnostic>,
}

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("palisade-files-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn read(&self) -> Texts {
        let Ok(entries) = fs::read_dir(&self.0) else {
            let path = self.0.display().to_string();
            let at = Location { file: path.clone().into(), line: 1, column: 1, width: 1 };
            let message = format!("{path}: no such file or folder");
            let unread = Diagnostic::new(&codes::UNREADABLE_FILE, message).at(Some(at));
            return Texts { texts: Vec::new(), unread: vec![unread] };
        };
        let text = |path: PathBuf| {
            Arc::new(Text::new(path.display().to_string(), fs::read_to_string(&path).unwrap()))
        };
        Texts { texts: entries.map(|entry| text(entry.unwrap().path())).collect(), unread: Vec::new() }
    }

    fn files(&self) -> Files {
        let paths = [self.0.display().to_string()];
        Files { last_good: LastGood::new(&paths, Reading::Document), followed: World::default() }
    }
}

impl Files {
    fn look(&mut self, texts: Texts, is_written: &dyn Fn(&Path) -> bool) -> Look {
        let accepted = self.last_good.take(texts, is_written);
        let is_accepted = accepted.changes.is_some();
        for change in accepted.changes.into_iter().flatten() {
            change.apply_to(&mut self.followed);
        }
        // Changes alone lead to what all texts together say.
        let (mut whole, mut found) = (World::default(), Vec::new());
        for text in self.last_good.texts() {
            load(text, &Limits::default(), &mut whole, &mut found);
        }
        assert!(self.followed.iter().eq(whole.iter()), "{:#?}", self.last_good.texts().collect::<Vec<_>>());
        Look {
            policies: is_accepted.then(|| whole.objects().policies.len()),
            problems: self.last_good.problems().to_vec(),
            unfinished: accepted.unfinished,
            changed: accepted.changed,
            found: self.last_good.findings().to_vec(),
        }
    }

    fn remember(&mut self, texts: impl IntoIterator<Item = (String, String)>) {
        self.last_good.restore(texts);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const CLOSED: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: shop, name: db}\nspec: {podSelector: {}, policyTypes: [Ingress]}\n";
const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {namespace: shop, name: db}\n";

fn nobody(_: &Path) -> bool {
    false
}

fn policies(look: &Look) -> Option<usize> {
    look.policies
}

#[test]
fn at_the_beginning_it_is_all_or_nothing() {
    let folder = Folder::new("begin");
    folder.write("a.yaml", CLOSED);
    folder.write("b.yaml", "kind: {");
    let mut files = folder.files();
    let look = files.look(folder.read(), &nobody);
    assert!(look.policies.is_none() && look.problems.len() == 1, "{look:?}");
    folder.write("b.yaml", POD);
    let look = files.look(folder.read(), &nobody);
    assert_eq!(policies(&look), Some(1));
    assert!(look.problems.is_empty());
    assert!(files.look(folder.read(), &nobody).policies.is_none(), "nothing is new");
}

#[test]
fn a_file_with_an_error_keeps_its_last_good_version_and_the_others_go_on() {
    let folder = Folder::new("error");
    folder.write("a.yaml", CLOSED);
    folder.write("b.yaml", POD);
    let mut files = folder.files();
    files.look(folder.read(), &nobody);
    // Half of it, and without what says that it is a policy.
    for broken in [
        "apiVersion: networking.k8s.io/v1\nkind: Netw",
        "apiVersion: networking.k8s.io/v1\n",
        "kind: Netw\n",
        "",
        ": {",
        "{}",
        "{}\n---\n# nothing\n",
        "metadata: {namespace: shop, name: db}\n",
        "apiVersion: v1\nkind: List\nitems: [{}]\n",
        "apiVersion: v1\nkind: List\nitems: [null]\n",
        "null\n",
        "[]\n",
        "deleted\n",
    ] {
        folder.write("a.yaml", broken);
        folder.write("b.yaml", &format!("{POD}---\n{}", CLOSED.replace("name: db", "name: web")));
        let look = files.look(folder.read(), &nobody);
        assert_eq!(policies(&look), Some(2), "{broken}: {look:?}");
        assert_eq!(look.problems.len(), 1, "{broken}: {look:?}");
        folder.write("b.yaml", POD);
        assert_eq!(policies(&files.look(folder.read(), &nobody)), Some(1), "{broken}");
    }
    fs::remove_file(folder.0.join("a.yaml")).unwrap();
    assert_eq!(policies(&files.look(folder.read(), &nobody)), Some(0));
}

#[test]
fn what_somebody_is_writing_is_left_as_it_was() {
    let folder = Folder::new("writing");
    folder.write("a.yaml", CLOSED);
    let mut files = folder.files();
    files.look(folder.read(), &nobody);
    folder.write("a.yaml", POD);
    folder.write("new.yaml", "kind: Po");
    let look = files.look(folder.read(), &|_| true);
    assert!(look.policies.is_none() && look.unfinished && look.problems.is_empty(), "{look:?}");
}

#[test]
fn a_folder_that_is_gone_or_empty_takes_nothing_out_of_force() {
    let folder = Folder::new("gone");
    folder.write("a.yaml", CLOSED);
    let mut files = folder.files();
    files.look(folder.read(), &nobody);
    fs::remove_file(folder.0.join("a.yaml")).unwrap();
    let look = files.look(folder.read(), &nobody);
    assert!(look.policies.is_none() && look.problems[0].to_string().contains("stays"), "{look:?}");
    fs::remove_dir(&folder.0).unwrap();
    let look = files.look(folder.read(), &nobody);
    assert!(look.policies.is_none() && look.problems[0].to_string().contains("stays"), "{look:?}");
    fs::create_dir(&folder.0).unwrap();
    folder.write("b.yaml", POD);
    assert_eq!(policies(&files.look(folder.read(), &nobody)), Some(0));
}

#[test]
fn an_object_in_two_files_is_said_and_the_later_file_counts() {
    let folder = Folder::new("twice");
    folder.write("a.yaml", CLOSED);
    folder.write("b.yaml", &CLOSED.replace("Ingress", "Egress"));
    let mut files = folder.files();
    let look = files.look(folder.read(), &nobody);
    assert_eq!((look.policies, look.found.len()), (Some(1), 1), "{:?}", look.found);
    assert_eq!(look.found[0].code.id, "S0012");
    fs::remove_file(folder.0.join("b.yaml")).unwrap();
    let look = files.look(folder.read(), &nobody);
    assert_eq!((look.policies, look.found.len()), (Some(1), 0));
}

/// Documents of Thorium come and go among other objects, twice under one name.
#[test]
fn documents_without_an_identity_are_followed() {
    let tool = |name: &str| {
        format!("kind: ThoriumInstance\ngroups: [shop]\nimages:\n- {{group: shop, tool: {name}}}\n")
    };
    let folder = Folder::new("thorium");
    folder.write("a.yaml", CLOSED);
    let mut files = folder.files();
    files.look(folder.read(), &nobody);
    for (name, text) in [
        ("b.yaml", tool("one")),
        ("c.yaml", tool("two")),
        ("a.yaml", CLOSED.replace("Ingress", "Egress")),
        ("b.yaml", tool("other")),
        ("c.yaml", POD.to_owned()),
        ("b.yaml", POD.replace("db", "web")),
    ] {
        folder.write(name, &text);
        let look = files.look(folder.read(), &nobody);
        assert!(look.policies.is_some() && look.changed.len() == 1, "{name}: {look:?}");
    }
}

#[test]
fn what_was_in_force_before_is_something_to_fall_back_on() {
    let folder = Folder::new("before");
    folder.write("a.yaml", "kind: {");
    let mut files = folder.files();
    files.remember([(folder.0.join("a.yaml").display().to_string(), CLOSED.to_owned())]);
    let look = files.look(folder.read(), &nobody);
    assert_eq!((policies(&look), look.problems.len()), (Some(1), 1));
    assert!(look.changed.is_empty());
    assert!(files.look(folder.read(), &nobody).policies.is_none());
}

#[test]
fn a_group_that_does_not_exist_keeps_nothing_from_being_enforced() {
    let group = |name: &str, spec: &str| {
        format!(
            "{{apiVersion: crd.antrea.io/v1beta1, kind: ClusterGroup, metadata: {{name: {name}}}, spec: {{{spec}}}}}\n"
        )
    };
    let policy = "{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {name: p}, spec: {priority: 1, appliedTo: [{group: gone}], ingress: [{action: Drop, from: [{group: parent}]}]}}\n";
    let folder = Folder::new("groups");
    folder.write("a.yaml", policy);
    folder.write("b.yaml", &group("parent", "childGroups: [child]"));
    let mut files = folder.files();
    let look = files.look(folder.read(), &nobody);
    assert_eq!((policies(&look), look.problems.len()), (Some(1), 0), "{look:?}");
    folder.write("c.yaml", &group("child", "podSelector: {}"));
    let look = files.look(folder.read(), &nobody);
    assert_eq!((policies(&look), look.problems.len()), (Some(1), 0), "{look:?}");
    fs::remove_file(folder.0.join("c.yaml")).unwrap();
    let look = files.look(folder.read(), &nobody);
    assert_eq!((policies(&look), look.problems.len()), (Some(1), 0), "{look:?}");
}
