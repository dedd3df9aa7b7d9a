//! A lab that stays up: follows its manifests, and prints what a change opens and closes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use palisade_agent::manifests::Manifests;
use palisade_agent::source::{Change, ObjectSource, Problem};
use palisade_dialects::object::{Loaded, Lowered};
use palisade_dialects::thorium::Reading;
use palisade_dialects::world::World;
use palisade_lab::Lab;
use palisade_lab::clean::Kept;
use palisade_lab::matrix::Matrix;
use palisade_lab::world::LabWorld;
use palisade_model::event::Event;
use palisade_model::snapshot::Objects;
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::super::changes::{Changes, between};
use super::error::LabCommandError;
use super::print_now;
use crate::cli::LabArgs;
use crate::input::{self, Files};
use crate::print::time::{clock, seconds};

/// The interval at which manifests are polled for changes.
const POLL: Duration = Duration::from_millis(300);

/// The objects of a lab: as written, and completed.
#[derive(Debug)]
struct Followed {
    thorium: Reading,
    written: World,
    /// The written objects with those pods, nodes and services that the lab completed.
    completed: World,
    world: LabWorld,
    /// Whether the manifests were accepted since the lab is up.
    is_accepted: bool,
}

/// Stays until it is stopped. `written` are the objects that the lab was built from.
pub fn stay(
    arguments: &LabArgs,
    lab: &mut Lab,
    written: World,
    world: LabWorld,
    stop: &AtomicBool,
    look: Look,
) -> Result<(), LabCommandError> {
    let kept = lab.kept(&world, &arguments.paths);
    kept.write()?;
    let pod = kept.pods.keys().next().map_or("NAMESPACE/POD", String::as_str).to_owned();
    let forget = Forget(kept);
    let failed = LabCommandError::system("watch the manifests");
    let mut manifests = Manifests::watched(Files, &arguments.paths, arguments.thorium).map_err(failed)?;
    let mut followed = Followed::new(written, world, arguments.thorium.into());
    // What was read a moment ago is read again, and watched from now on.
    let mut problems: Vec<Problem> = Vec::new();
    if let Some(changes) = manifests.poll().and_then(|batch| batch.changes)
        && followed.accept(changes)
    {
        follow(arguments, lab, &mut followed, "a manifest", Instant::now(), look);
    }
    print_now(&text!(
        "{NL}Up. Try:  palisade lab exec {pod} -- ip address     (Ctrl-C removes everything){NL}watching {} …{NL}",
        input::describe(&arguments.paths)
    ));
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(POLL);
        let Some(batch) = manifests.poll() else { continue };
        let now = manifests.status().problems;
        for problem in now.iter().filter(|problem| !problems.contains(problem)) {
            let (name, error) = (file_name(problem), look.bad("error:"));
            print_now(&text!(
                "{}  {name} changed: {error} {problem}; what was in force stays in force{NL}",
                clock()
            ));
        }
        problems = now.to_vec();
        if let Some(changes) = batch.changes
            && followed.accept(changes)
        {
            follow(arguments, lab, &mut followed, &names(&batch.names), batch.noticed, look);
        }
    }
    drop(forget);
    Ok(())
}

/// Makes the lab what the objects are now, and prints what that opened and closed.
fn follow(
    arguments: &LabArgs,
    lab: &mut Lab,
    followed: &mut Followed,
    name: &str,
    noticed: Instant,
    look: Look,
) {
    let before = followed.world.objects.clone();
    let line = match enforce(arguments, lab, followed, noticed) {
        Ok(took) => {
            let changes: Changes = between(before, followed.world.objects.clone());
            text!(", enforced in {}: {}", seconds(took), changes.words(look))
        }
        Err(error) => text!(": {} {error}; what was in force stays in force", look.bad("error:")),
    };
    print_now(&text!("{}  {name} changed{line}{NL}", clock()));
}

fn enforce(
    arguments: &LabArgs,
    lab: &mut Lab,
    followed: &mut Followed,
    noticed: Instant,
) -> Result<Duration, LabCommandError> {
    let events = followed.complete();
    let world = &followed.world;
    let matrix = Matrix::of(world, arguments.most_flows.max(1));
    // Events that a failed update had are given to the index before anything can fail, so none is lost.
    lab.follow(world, &matrix.outside, events)?;
    let took = noticed.elapsed();
    lab.kept(world, &arguments.paths).write()?;
    Ok(took)
}

// === impl Followed ===

impl Followed {
    fn new(written: World, world: LabWorld, thorium: Reading) -> Self {
        let mut followed =
            Followed { thorium, written, completed: World::default(), world, is_accepted: false };
        followed.completed.read_thorium_as(thorium);
        // The lab has all of it already.
        drop(followed.complete());
        followed
    }

    /// Takes changes of written objects. Returns whether there are any.
    fn accept(&mut self, changes: Vec<Change>) -> bool {
        let mut changed = !changes.is_empty();
        let mut before = None;
        if !std::mem::replace(&mut self.is_accepted, true) {
            // The first ones lead from nothing to all objects.
            let mut empty = World::default();
            empty.read_thorium_as(self.thorium);
            before = Some(std::mem::replace(&mut self.written, empty));
        }
        for change in changes {
            change.apply_to(&mut self.written);
        }
        if let Some(before) = before {
            changed = !before.iter().eq(self.written.iter());
        }
        changed
    }

    /// Completes the written objects. Returns the events that lead there.
    fn complete(&mut self) -> Vec<Event> {
        let written = self.written.objects();
        let world = LabWorld::new(written.clone());
        let mut completed = completed(&written, &world.objects);
        for loaded in self.written.iter() {
            if let Lowered::Service(service) = &loaded.lowered
                && let Some(now) = world.objects.services.iter().find(|one| {
                    (&one.namespace, &one.name) == (&service.namespace, &service.name) && *one != service
                })
            {
                completed.push(Loaded { lowered: Lowered::Service(now.clone()), ..loaded.clone() });
            }
        }
        self.world = world;
        self.completed.reset(self.written.iter().chain(&completed))
    }
}

/// Returns the pods and nodes that are different from the written ones, or not written at all.
fn completed(written: &Objects, completed: &Objects) -> Vec<Loaded> {
    let pods = completed.pods.iter().filter(|pod| pod.stand_in.is_none() && !written.pods.contains(pod));
    let nodes = completed.nodes.iter().filter(|node| !written.nodes.contains(node));
    pods.cloned().map(Loaded::from).chain(nodes.cloned().map(Loaded::from)).collect()
}

/// Removes the entry of a lab, however it ends.
struct Forget(Kept);

impl Drop for Forget {
    fn drop(&mut self) {
        self.0.forget();
    }
}

/// Returns the name of the file that a problem is in.
fn file_name(problem: &Problem) -> Text {
    let path = match problem {
        Problem::Finding(finding) => finding.diagnostic.location.as_ref().map(|at| at.file.to_string()),
        Problem::Emptied { file } => Some(file.clone()),
        Problem::Vanished { path } => Some(path.clone()),
        Problem::Unreadable { .. } => None,
    };
    let path = path.unwrap_or_else(|| "a manifest".to_owned());
    text!("{}", Path::new(&path).file_name().map_or(path.clone(), |name| name.to_string_lossy().into_owned()))
}

/// Returns the names of files, without their folders: the first one, and how many more.
fn names(paths: &[String]) -> String {
    let name = |path: &String| Path::new(path).file_name().map(|name| name.to_string_lossy().into_owned());
    match paths {
        [] => "nothing".to_owned(),
        [only] => name(only).unwrap_or_default(),
        [first, rest @ ..] => format!("{} and {} more", name(first).unwrap_or_default(), rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use palisade_dialects::load::load;
    use palisade_dialects::source::Limits;
    use palisade_dialects::source::tree::Source;
    use palisade_engine::Engine;

    use super::*;

    const WORLD: &str = "\
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {template: {metadata: {labels: {app: web}}}}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: db, labels: {app: db}}}
---
{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: db}, spec: {selector: {app: db}, ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}}
";
    const MORE: &str = "\
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: a, labels: {app: db}}, spec: {nodeName: n1}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: db}
spec: {podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {matchLabels: {app: web}}}]}]}
";

    fn world(text: &str) -> World {
        let (mut world, mut found) = (World::default(), Vec::new());
        load(&Arc::new(Source::new("world.yaml", text)), &Limits::default(), &mut world, &mut found);
        world
    }

    /// The events lead to the same index as all objects at once, and an object that did not change causes none.
    #[test]
    fn a_lab_is_followed_by_events() {
        let (less, more) = (world(WORLD), world(&format!("{WORLD}{MORE}")));
        let mut followed = Followed::new(less.clone(), LabWorld::new(less.objects()), Reading::Document);
        let mut engine = Engine::of(&followed.world.objects, &followed.world.snapshot);
        let all = |world: &World| world.iter().cloned().map(Change::Apply).collect::<Vec<_>>();
        assert!(!followed.accept(all(&less)), "it is as it was");
        let new = more.iter().filter(|loaded| less.get(&loaded.key).is_none());
        let new: Vec<Change> = new.cloned().map(Change::Apply).collect();
        let gone: Vec<Change> = new.iter().map(|change| Change::Delete(change.key().clone())).collect();
        for changes in [new, gone] {
            assert!(followed.accept(changes));
            for event in followed.complete() {
                engine.apply(event);
            }
            engine.tidy();
            let whole = Engine::of(&followed.world.objects, &followed.world.snapshot);
            assert_eq!(engine.view().to_string(), whole.view().to_string());
            assert!(followed.complete().is_empty());
        }
    }
}
