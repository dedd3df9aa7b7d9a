//! The index answers as the plain evaluator does, whatever happened before: any order of changes, duplicates, deletions
//! of what never was, references to what is not there.

// clippy.toml lets tests unwrap, and does not know that all of this file is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod pool;

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_engine::{Change, Engine, Event, Item, Key};
use palisade_model::evaluate::evaluate;
use palisade_model::flow::{Flow, Who};
use palisade_model::options::{HostNetworkPods, Options, SelfTraffic};
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::traffic::{Protocol, Traffic};

use pool::{Dice, pool};

/// What the objects would be for a snapshot.
fn objects(state: &BTreeMap<Key, Item>) -> Objects {
    let mut objects = Objects::default();
    for item in state.values().cloned() {
        match item {
            Item::Namespace(namespace) => objects.namespaces.push(namespace),
            Item::Pod(pod) => objects.pods.push(pod),
            Item::Node(node) => objects.nodes.push(node),
            Item::Service(service) => objects.services.push(service),
            Item::Endpoints(_, endpoints) => objects.endpoints.push(endpoints),
            Item::Policy(policy) => objects.policies.push(policy),
            Item::Tier(name, priority) => drop(objects.tiers.insert(name, priority)),
            Item::Group(group) => objects.groups.push(group),
            Item::Name(name, addresses) => drop(objects.names.insert(name.to_string(), addresses)),
        }
    }
    objects
}

fn flows(snapshot: &Snapshot) -> Vec<Flow> {
    let living = |index: &usize| !snapshot.pods()[*index].terminated;
    let pods = (0..snapshot.pods().len()).filter(living).map(|pod| (Who::Pod(pod), None));
    let nodes = (0..snapshot.nodes().len()).map(|node| (Who::Node(node), None));
    let outside =
        ["203.0.113.7", "192.0.2.1"].map(|text| (Who::Outside, Some(text.parse::<IpAddr>().unwrap())));
    let ends: Vec<_> = pods.chain(nodes).chain(outside).collect();
    let traffic = [
        Traffic::new(Protocol::Tcp, 80),
        Traffic { source_port: Some(4000), ..Traffic::new(Protocol::Tcp, 81) },
        Traffic::new(Protocol::Udp, 53),
        Traffic::new(Protocol::Icmp, 0),
    ];
    let mut flows = Vec::new();
    for source in &ends {
        for destination in &ends {
            flows.extend(traffic.iter().map(|traffic| snapshot.flow(*source, *destination, *traffic)));
            if let Who::Pod(_) = destination.0 {
                let via = |via| Flow { via: Some(via), ..snapshot.flow(*source, *destination, traffic[0]) };
                flows.extend((0..snapshot.services().len()).map(via));
            }
        }
    }
    flows
}

fn agree(engine: &Engine, state: &BTreeMap<Key, Item>, options: &Options) -> usize {
    let snapshot = Snapshot::new(objects(state));
    let flows = flows(&snapshot);
    for flow in &flows {
        let plain = evaluate(&snapshot, flow, options);
        let own = engine.flow(&snapshot, flow).expect("everybody is there");
        let indexed = engine.verdict(&own, options);
        assert_eq!(indexed, plain.verdict, "{plain:#?}\n{:#?}", state.keys());
    }
    flows.len()
}

/// A copy that follows the changes.
#[derive(Debug, Default, PartialEq)]
struct Copy {
    sets: BTreeMap<usize, (String, Vec<String>)>,
    policies: Vec<String>,
}

impl Copy {
    fn follow(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Set(id, content) => {
                    let before = self.sets.insert(id, (format!("{content:?}"), Vec::new()));
                    assert!(before.is_none(), "set {id} twice");
                }
                Change::Unset(id) => {
                    let (content, members) = self.sets.remove(&id).expect("a set that is there");
                    assert!(members.is_empty(), "{content} goes with members");
                }
                Change::Join(id, member) => {
                    let (_, members) = self.sets.get_mut(&id).expect("a set that is there");
                    let member = format!("{member:?}");
                    assert!(!members.contains(&member), "{member} twice");
                    members.push(member);
                }
                Change::Leave(id, member) => {
                    let (_, members) = self.sets.get_mut(&id).expect("a set that is there");
                    let at = members.iter().position(|other| *other == format!("{member:?}"));
                    members.remove(at.expect("a member that is there"));
                }
                Change::Policy(object) => self.policies.push(object.to_string()),
                Change::NoPolicy(object) => {
                    let at = self.policies.iter().position(|other| *other == object.to_string());
                    self.policies.remove(at.expect("a policy that is there"));
                }
            }
        }
    }

    /// What it holds, whatever numbers sets have.
    fn content(&self) -> (BTreeMap<String, Vec<String>>, Vec<String>) {
        let sorted = |mut all: Vec<String>| {
            all.sort();
            all
        };
        let sets = self.sets.values().map(|(content, members)| (content.clone(), sorted(members.clone())));
        (sets.collect(), sorted(self.policies.clone()))
    }
}

#[test]
fn after_any_history_the_index_says_what_the_plain_evaluator_says() {
    let pool = pool();
    let mut checked = 0;
    for seed in 0..260 {
        let mut dice = Dice(seed);
        let (mut engine, mut copy) = (Engine::default(), Copy::default());
        let mut state: BTreeMap<Key, Item> = BTreeMap::new();
        for step in 0..300 {
            let variants = &pool[dice.roll(pool.len())];
            let item = variants[dice.roll(variants.len())].clone();
            let key = item.key();
            // Half of the deletions are of what is not there.
            if dice.roll(4) == 0 {
                state.remove(&key);
                engine.apply(Event::Delete(key));
            } else {
                state.insert(key, item.clone());
                engine.apply(Event::Apply(item.clone()));
                if dice.roll(8) == 0 {
                    engine.apply(Event::Apply(item));
                }
            }
            copy.follow(engine.take_changes());
            if step % 20 == 0 || step > 295 {
                let options = Options {
                    ip_block_matches_pods: dice.roll(2) == 0,
                    host_network_pods: [HostNetworkPods::Node, HostNetworkPods::Ignore][dice.roll(2)],
                    self_traffic: [SelfTraffic::Allow, SelfTraffic::Evaluate][dice.roll(2)],
                };
                checked += agree(&engine, &state, &options);
                let (mut fresh, mut from_scratch) = (Engine::default(), Copy::default());
                for item in state.values().rev().cloned() {
                    fresh.apply(Event::Apply(item));
                }
                from_scratch.follow(fresh.take_changes());
                assert_eq!(copy.content(), from_scratch.content(), "the same from scratch");
            }
        }
    }
    assert!(checked > 1_000_000, "{checked}");
}
