//! Enforcing over a kernel in memory: what happens when it does not answer at the wrong moment.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use palisade_agent::Enforcement;
use palisade_dialects::load::load;
use palisade_dialects::source::Limits;
use palisade_dialects::source::tree::Source;
use palisade_dialects::world::World;
use palisade_engine::Engine;
use palisade_engine::view::View;
use palisade_model::snapshot::Snapshot;
use palisade_nftables::kernel::{Connection, Counts, Fake, InForce, Kernel, KernelError};
use palisade_nftables::patch::Patch;
use palisade_nftables::program::Program;

fn view(text: &str) -> View {
    let (mut world, mut found) = (World::default(), Vec::new());
    load(&Source::new("world.yaml", text), &Limits::default(), &mut world, &mut found);
    assert!(found.is_empty(), "{found:#?}");
    let objects = world.into_objects();
    Engine::of(&objects, &Snapshot::new(objects.clone())).view().part_of("n1")
}

const WORLD: &str = "\
apiVersion: v1
kind: Pod
metadata: {namespace: shop, name: db, labels: {app: db}}
spec: {nodeName: n1}
status: {podIP: 10.0.0.2}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {namespace: shop, name: db}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
";

fn begun() -> Enforcement<Flaky> {
    let (mut force, done) =
        Enforcement::begin(view(WORLD), "n1", BTreeMap::new(), BTreeSet::new(), Flaky::default(), None);
    assert!(done.failed.is_none());
    force.settle();
    assert!(force.remembered().is_some());
    force
}

/// A kernel in memory whose table cannot be read now and then.
#[derive(Debug, Default)]
struct Flaky {
    fake: Fake,
    unreadable: VecDeque<KernelError>,
}

impl Kernel for Flaky {
    fn replace(&mut self, program: &Program, counts: &Counts) -> Result<(), KernelError> {
        self.fake.replace(program, counts)
    }

    fn patch(&mut self, patch: &Patch) -> Result<(), KernelError> {
        self.fake.patch(patch)
    }

    fn read(&mut self) -> Result<Option<InForce>, KernelError> {
        self.unreadable.pop_front().map_or_else(|| self.fake.read(), Err)
    }

    fn counts(&mut self) -> Result<Counts, KernelError> {
        self.fake.counts()
    }

    fn remove(&mut self) -> Result<bool, KernelError> {
        self.fake.remove()
    }

    fn connections(&mut self) -> Result<Vec<Connection>, KernelError> {
        self.fake.connections()
    }

    fn cut(&mut self, connections: &[Connection]) -> Result<usize, KernelError> {
        self.fake.cut(connections)
    }

    fn is_disturbed(&mut self) -> Result<bool, KernelError> {
        self.fake.is_disturbed()
    }
}

/// Somebody changes the table, and just then it cannot be read: that is not forgotten.
#[test]
fn drift_that_cannot_be_read_at_first_is_repaired_later() {
    let busy = || KernelError::Busy("our table changes faster than it can be read".to_owned());
    let no_room = || KernelError::System {
        what: "cannot read elements".to_owned(),
        source: std::io::Error::from_raw_os_error(105),
    };
    // What is in the table is not ours; no room, for longer than is waited for at once.
    let errors: [Vec<KernelError>; 3] = [
        vec![KernelError::Drifted("set strange is none of ours".to_owned())],
        (0..8).map(|_| busy()).collect(),
        (0..8).map(|_| no_room()).collect(),
    ];
    for errors in errors {
        let what = errors[0].to_string();
        let mut force = begun();
        force.kernel().fake.disturb(|program| {
            program.as_mut().unwrap().chains.get_mut("forward").unwrap().rules.clear();
        });
        force.kernel().unreadable.extend(errors);
        for _ in 0..20 {
            force.mend();
            std::thread::sleep(std::time::Duration::from_millis(60));
        }
        let now = force.kernel().fake.program().unwrap().clone();
        assert_eq!(now, *force.live().program(), "{what}: the table stays as somebody left it");
    }
}
