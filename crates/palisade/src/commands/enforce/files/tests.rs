use std::fs;
use std::path::PathBuf;

use super::*;

struct Folder(PathBuf);

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

    fn read(&self) -> Input {
        crate::input::read(&[self.0.display().to_string()])
    }

    fn files(&self) -> Files {
        Files::new(&[self.0.display().to_string()], Reading::Document)
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
    look.manifests.as_ref().map(|manifests| manifests.world.objects().policies.len())
}

#[test]
fn at_the_beginning_it_is_all_or_nothing() {
    let folder = Folder::new("begin");
    folder.write("a.yaml", CLOSED);
    folder.write("b.yaml", "kind: {");
    let mut files = folder.files();
    let look = files.look(folder.read(), &nobody);
    assert!(look.manifests.is_none() && look.problems.len() == 1, "{look:?}");
    folder.write("b.yaml", POD);
    let look = files.look(folder.read(), &nobody);
    assert_eq!(policies(&look), Some(1));
    assert!(look.problems.is_empty());
    assert!(files.look(folder.read(), &nobody).manifests.is_none(), "nothing is new");
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
    assert!(look.manifests.is_none() && look.unfinished && look.problems.is_empty(), "{look:?}");
}

#[test]
fn a_folder_that_is_gone_or_empty_takes_nothing_out_of_force() {
    let folder = Folder::new("gone");
    folder.write("a.yaml", CLOSED);
    let mut files = folder.files();
    files.look(folder.read(), &nobody);
    fs::remove_file(folder.0.join("a.yaml")).unwrap();
    let look = files.look(folder.read(), &nobody);
    assert!(look.manifests.is_none() && look.problems[0].as_str().contains("stays"), "{look:?}");
    fs::remove_dir(&folder.0).unwrap();
    let look = files.look(folder.read(), &nobody);
    assert!(look.manifests.is_none() && look.problems[0].as_str().contains("stays"), "{look:?}");
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
    let manifests = files.look(folder.read(), &nobody).manifests.unwrap();
    assert_eq!(
        (manifests.world.objects().policies.len(), manifests.found.len()),
        (1, 1),
        "{:?}",
        manifests.found
    );
    assert_eq!(manifests.found[0].code.id, "S0012");
    fs::remove_file(folder.0.join("b.yaml")).unwrap();
    let manifests = files.look(folder.read(), &nobody).manifests.unwrap();
    assert_eq!((manifests.world.objects().policies.len(), manifests.found.len()), (1, 0));
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
    assert!(files.look(folder.read(), &nobody).manifests.is_none());
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
