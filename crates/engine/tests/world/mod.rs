//! A cluster that changes event by event: the index, a view that follows its deltas, and the objects that are there, so
//! that the plain evaluator can be asked about the same moment.

#![allow(dead_code, reason = "each test takes what it needs")]

use std::collections::BTreeMap;
use std::net::IpAddr;

use palisade_engine::view::View;
use palisade_engine::{Delta, Engine};
use palisade_model::evaluate::evaluate;
use palisade_model::event::{Event, Item, Key};
use palisade_model::flow::{Flow, Who};
use palisade_model::options::{HostNetworkPods, Options, SelfTraffic};
use palisade_model::policy::Action;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::{Because, Evaluation, StageName, StageOutcome};
use palisade_model::traffic::{Protocol, Traffic};

use crate::walk::Walk;

/// The objects by their identity.
pub type State = BTreeMap<Key, Item>;

/// A cluster.
#[derive(Default)]
pub struct World {
    pub engine: Engine,
    pub view: View,
    pub state: State,
    /// How many connections have been asked about.
    pub checked: usize,
    /// What decided them: the number of the tier ([`UNION`] for NetworkPolicies, [`NOWHERE`] for no tier), and the action, none for
    /// an isolation.
    pub decided: BTreeMap<(u8, Option<Action>), usize>,
}

/// The place of the NetworkPolicy stage between the tiers.
pub const UNION: u8 = 252;
/// The place of policies whose tier does not exist.
pub const NOWHERE: u8 = u8::MAX;

/// What the objects would be for a snapshot.
pub fn objects(state: &State) -> Objects {
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

/// Traffic of every protocol that programs tell apart.
pub fn traffic() -> [Traffic; 7] {
    [
        Traffic::new(Protocol::Tcp, 80),
        Traffic { source_port: Some(4000), ..Traffic::new(Protocol::Tcp, 81) },
        Traffic::new(Protocol::Tcp, 81),
        Traffic::new(Protocol::Udp, 53),
        Traffic::new(Protocol::Sctp, 80),
        Traffic::new(Protocol::Icmp, 0),
        Traffic { icmp: Some((3, Some(1))), ..Traffic::new(Protocol::Icmp, 0) },
    ]
}

/// Everybody with everybody, two addresses outside included; and through each service to each pod, with the first traffic.
pub fn flows(snapshot: &Snapshot, traffic: &[Traffic]) -> Vec<Flow> {
    let living = |index: &usize| !snapshot.pods()[*index].terminated;
    let pods = (0..snapshot.pods().len()).filter(living).map(|pod| (Who::Pod(pod), None));
    let nodes = (0..snapshot.nodes().len()).map(|node| (Who::Node(node), None));
    let outside =
        ["203.0.113.7", "192.0.2.1"].map(|text| (Who::Outside, Some(text.parse::<IpAddr>().unwrap())));
    let ends: Vec<_> = pods.chain(nodes).chain(outside).collect();
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

/// All combinations of the options, over and over.
pub fn options(index: usize) -> Options {
    Options {
        ip_block_matches_pods: index & 1 == 0,
        host_network_pods: [HostNetworkPods::Node, HostNetworkPods::Ignore][(index >> 1) & 1],
        self_traffic: [SelfTraffic::Allow, SelfTraffic::Evaluate][(index >> 2) & 1],
    }
}

// === impl World ===

impl World {
    pub fn of(items: impl IntoIterator<Item = Item>) -> Self {
        let mut world = World::default();
        for item in items {
            world.put(item);
        }
        world
    }

    pub fn put(&mut self, item: Item) -> Delta {
        self.state.insert(item.key(), item.clone());
        let delta = self.engine.apply(Event::Apply(item));
        self.view.follow(&delta).unwrap_or_else(|error| panic!("{error}: {delta:#?}"));
        delta
    }

    pub fn remove(&mut self, key: &Key) -> Delta {
        self.state.remove(key);
        let delta = self.engine.apply(Event::Delete(key.clone()));
        self.view.follow(&delta).unwrap_or_else(|error| panic!("{error}: {delta:#?}"));
        delta
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(objects(&self.state))
    }

    /// The index says about every connection what the plain evaluator says, and the view that followed too, if asked.
    pub fn agrees(&mut self, traffic: &[Traffic], options: &Options, walked: bool) {
        self.agrees_on(|snapshot| flows(snapshot, traffic), options, walked);
    }

    /// The same about some connections.
    pub fn agrees_on(&mut self, flows: impl Fn(&Snapshot) -> Vec<Flow>, options: &Options, walked: bool) {
        let snapshot = self.snapshot();
        let walk = walked.then(|| Walk::new(&self.view));
        let mut notes = Vec::new();
        for flow in flows(&snapshot) {
            let plain = evaluate(&snapshot, &flow, options);
            let own = self.engine.flow(&snapshot, &flow).expect("everybody is there");
            let indexed = self.engine.verdict(&own, options).expect("everybody is there");
            assert_eq!(indexed, plain.verdict, "{plain:#?}\n{}", self.view);
            if let Some(walk) = &walk {
                let walked = walk.verdict(&snapshot, &flow, options);
                assert_eq!(walked, plain.verdict, "in the view: {plain:#?}\n{}", self.view);
            }
            self.checked += 1;
            note(&plain, &mut notes);
        }
        if walked {
            assert_eq!(self.view, self.engine.view());
        }
        for what in notes {
            *self.decided.entry(what).or_insert(0) += 1;
        }
    }

    /// Each of these decided something, so that the agreement is about something.
    pub fn has_decided(&self, wanted: impl IntoIterator<Item = (u8, Option<Action>)>) {
        for what in wanted {
            assert!(self.decided.contains_key(&what), "{what:?} never decided: {:?}", self.decided);
        }
    }

    /// Takes everything away: nothing is left of it.
    pub fn clear(&mut self) {
        for key in self.state.keys().cloned().collect::<Vec<_>>() {
            self.remove(&key);
        }
        assert_eq!(self.engine.view().to_string(), "");
        assert_eq!(self.view.to_string(), "");
    }
}

/// What decided, on the sides that made the verdict what it is; and who passed.
fn note(plain: &Evaluation, notes: &mut Vec<(u8, Option<Action>)>) {
    let number = |stage: &StageName| match stage {
        StageName::Tier(number, _) => *number,
        StageName::NoTier(_) => NOWHERE,
        StageName::NetworkPolicy => UNION,
    };
    for side in [&plain.egress, &plain.ingress] {
        let passed = side.stages.iter().filter(|trace| trace.outcome == StageOutcome::Passed);
        notes.extend(passed.map(|trace| (number(&trace.stage), Some(Action::Pass))));
        match &side.because {
            _ if side.verdict != plain.verdict => {}
            Because::Rule(decision) => notes.push((number(&decision.stage), Some(decision.action))),
            Because::Isolation { .. } => notes.push((UNION, None)),
            Because::Exempt(_) | Because::Default => {}
        }
    }
}
