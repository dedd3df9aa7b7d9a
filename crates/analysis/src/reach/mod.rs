//! Who reaches whom, exactly and for all traffic at once, without asking about a single connection.
//!
//! ```text
//!   pods, hosts, addresses ──► groups ──► programs ──► classes ──► rows
//!                              (labels    (the rules   (no rule     (what a program says
//!                               asked)     that apply)  tells apart) about every class)
//! ```
//!
//! The pipeline of `palisade_model::evaluate` is run once for each program and each combination of its rules that some
//! class is named by, on sets of traffic instead of one connection. Pairs of pods are never looked at: what two pods may
//! do is two rows and one remembered operation. The plain evaluator is the judge: `tests/reach.rs`.
//!
//! What this does not know is what concerns two endpoints because they are near: a pod and itself, a pod and its own
//! node. [`Reach::between`] does, for two of them. Neighbour discovery, which no policy is about, is what rules say about
//! such ICMP: no connection between two endpoints is meant by it.

pub mod cells;
mod classes;
pub mod connections;
pub mod cuts;
pub mod decisions;
mod groups;
mod matrix;
mod members;
mod programs;
mod rows;
mod sample;
pub mod traffics;

use std::cell::RefCell;
use std::net::IpAddr;
use std::ops::Range;

use palisade_model::address::Family;
use palisade_model::flow::{Party, Who};
use palisade_model::matching::{Context, Endpoint, Parties};
use palisade_model::options::{Options, SelfTraffic};
use palisade_model::policy::{Direction, Peers, TrafficMatches};
use palisade_model::resolve::{self, Resolution};
use palisade_model::snapshot::Snapshot;

use cells::{CellId, Cells};
pub(crate) use classes::mark;
use classes::{classify, of_classes};
use cuts::Cuts;
use groups::{DestinationId, Groups, Table, Whose, number};
pub use matrix::Matrix;
use members::{Lookup, Spans};
pub use palisade_model::resolve::RuleAt;
use programs::{Held, Program, Programs};
use rows::Runner;
pub use rows::{Decider, Row};
pub(crate) use sample::first_address;
use traffics::{TrafficId, Traffics};

/// Endpoints that no rule tells apart, and that no rule applies to differently.
#[derive(Debug, Clone, Copy)]
pub struct Class {
    /// A group of it that stands for all.
    group: u32,
    /// The programs of it, by direction.
    programs: [u32; 2],
}

/// Steps to look up a port's name among those of a destination, and to remember what it stands for.
const CARRIED: u64 = 300;
/// Steps to ask whether a rule would be about somebody who is not there.
const SUPPOSED: u64 = 40;

/// All pairs of endpoints of one family of addresses.
#[derive(Debug)]
pub struct Reach<'s> {
    groups: Groups<'s>,
    classes: Vec<Class>,
    /// For each group its class.
    class_of: Vec<u32>,
    /// The classes of outside addresses, one for each interval in order.
    outside: Range<u32>,
    programs: [Vec<Program>; 2],
    rows: [Vec<Row>; 2],
    /// Peer sets as intervals of classes.
    peers: Vec<Spans>,
    destinations: Vec<DestinationId>,
}

/// Who decided about a part of the traffic between two endpoints, on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reason {
    /// Who decided: the rule, if it is one, by its place.
    pub decider: Decider,
    /// That rule.
    pub rule: Option<RuleAt>,
    /// About what.
    pub about: TrafficId,
}

// === impl Reach ===

impl<'s> Reach<'s> {
    /// Works it out. Whoever compares several shares the cuts and the cells, and their work: three quarters of what is
    /// left may be used up here, the rest is for those who ask. What is too much is not known ([`is_known`](Reach::is_known)).
    pub fn new(
        snapshot: &'s Snapshot,
        options: &Options,
        family: Family,
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> Self {
        let kept = cells.work().share(4);
        let context = Context { snapshot, options: *options };
        let groups = Groups::new(context, family, cuts);
        let resolution = Resolution::new(snapshot);
        let programs = Programs::new(&groups, Lookup::new(&groups, cuts, &resolution), &resolution, cells);
        let (classes, class_of) = classify(&groups, &programs);
        let starts: Vec<u32> = classes.iter().map(|class| class.group).collect();
        let outside = number(starts.partition_point(|group| *group < groups.outside().start));
        // Classes are numbered by the group that stands for each, so that an interval of groups is one of classes.
        let peers = programs.peer_sets.iter().map(|spans| of_classes(spans, &starts)).collect();
        let destinations = classes.iter().map(|class| groups.get(class.group).destination).collect();
        let mut reach = Reach {
            outside: outside..number(classes.len()),
            groups,
            classes,
            class_of,
            programs: programs.list,
            rows: [Vec::new(), Vec::new()],
            peers,
            destinations,
        };
        for direction in Direction::BOTH {
            let at = direction as usize;
            let count = reach.len();
            let rows = reach.with_runner(cells, |runner, reach| {
                let row = |program| runner.row(program, direction == Direction::Egress, count);
                reach.programs[at].iter().map(row).collect()
            });
            reach.rows[at] = rows;
        }
        cells.work().put_back(kept);
        reach
    }

    fn with_runner<T>(&self, cells: &mut Cells, run: impl FnOnce(&mut Runner<'_>, &Self) -> T) -> T {
        let known: RefCell<Table<(RuleAt, DestinationId), TrafficId>> = RefCell::default();
        let carried = |held: &Held, destination: DestinationId, traffics: &mut Traffics| {
            if let Some(known) = known.borrow().get(&(held.at, destination)) {
                return *known;
            }
            let rule = &self.snapshot().policies()[held.at.policy].rules[held.at.rule];
            let meant = self.groups.destination(destination);
            let matches = match &rule.traffic {
                TrafficMatches::Any => 1,
                TrafficMatches::Of(matches) => matches.len(),
            };
            traffics.work.take(CARRIED * (matches * (meant.ports.len() + 1)) as u64);
            let carried = programs::carried(&rule.traffic, meant, traffics);
            known.borrow_mut().insert((held.at, destination), carried);
            carried
        };
        let mut runner =
            Runner { cells, peers: &self.peers, destinations: &self.destinations, carried: &carried };
        run(&mut runner, self)
    }

    /// The cluster.
    pub fn snapshot(&self) -> &'s Snapshot {
        self.groups.context.snapshot
    }

    /// Which family of addresses this is about.
    pub fn family(&self) -> Family {
        self.groups.family
    }

    /// How many classes there are.
    pub fn len(&self) -> u32 {
        number(self.classes.len())
    }

    /// Whether there are none; there is always an outside.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// The classes of outside addresses, one for each interval.
    pub fn outside(&self) -> Range<u32> {
        self.outside.clone()
    }

    /// A pod's class; `None` when it has no address of this family, or is over.
    pub fn of_pod(&self, pod: usize) -> Option<u32> {
        self.groups.of_pod(pod).map(|group| self.class_of[group as usize])
    }

    /// A node's class.
    pub fn of_node(&self, node: usize) -> Option<u32> {
        self.groups.of_node(node).map(|group| self.class_of[group as usize])
    }

    /// The class of an address that is nobody's.
    pub fn of_address(&self, address: IpAddr, cuts: &Cuts) -> u32 {
        self.outside.start + number(cuts.interval_of(address))
    }

    /// Whether a class is pods of the pod network or external entities, not hosts or addresses.
    pub fn is_pods(&self, class: u32) -> bool {
        matches!(self.groups.get(self.classes[class as usize].group).whose, Whose::Pods(..))
    }

    /// Whether anything is said about a class, in a direction: some rule applies to it, or some policy isolates it.
    pub fn is_subject(&self, direction: Direction, class: u32) -> bool {
        let program = self.classes[class as usize].programs[direction as usize];
        let program = &self.programs[direction as usize][program as usize];
        program.isolated || !program.rules.is_empty()
    }

    /// The rules that apply to a class in a direction, in the order in which they are asked.
    pub fn rules(&self, direction: Direction, class: u32) -> impl Iterator<Item = RuleAt> {
        let program = self.classes[class as usize].programs[direction as usize];
        self.programs[direction as usize][program as usize].rules.iter().map(|held| held.at)
    }

    /// What the side of a class would say about somebody who is not there, given which rules would mean it. It has no port
    /// that anybody could name.
    pub fn supposed(
        &self,
        direction: Direction,
        class: u32,
        names: impl Fn(RuleAt) -> bool,
        cells: &mut Cells,
    ) -> CellId {
        let program = self.classes[class as usize].programs[direction as usize];
        let program = &self.programs[direction as usize][program as usize];
        // Whom a rule happens to mean of those who are there says nothing about somebody else. What cannot be read denies all.
        let context = &self.groups.context;
        let anybody = |at: RuleAt| {
            let rule = &context.snapshot.policies()[at.policy].rules[at.rule];
            matches!(rule.peers, Peers::Any) || resolve::unknown(rule, &context.snapshot).is_some()
        };
        cells.work().take(SUPPOSED * program.rules.len() as u64);
        let meant = |held: &Held| anybody(held.at) || names(held.at);
        let active: Vec<u32> =
            (0..).zip(&program.rules).filter(|(_, held)| meant(held)).map(|(at, _)| at).collect();
        self.with_runner(cells, |runner, _| runner.cell(program, &active, DestinationId(0)))
    }

    /// The policies that isolate a class in a direction, by their places.
    pub fn isolated_by(&self, direction: Direction, class: u32) -> Vec<usize> {
        let Whose::Pods(sample, _) = self.groups.get(self.classes[class as usize].group).whose else {
            return Vec::new();
        };
        let (context, snapshot) = (&self.groups.context, self.snapshot());
        let isolates = |policy: &usize| {
            let isolations = snapshot.policies()[*policy].isolations.iter();
            isolations
                .filter(|isolation| isolation.direction == direction)
                .any(|isolation| context.applies(&isolation.subjects, Endpoint::Pod(sample)))
        };
        (0..snapshot.policies().len()).filter(isolates).collect()
    }

    /// What the side of one class says about another, in a direction.
    pub fn side(&self, direction: Direction, class: u32, peer: u32) -> CellId {
        self.row(direction, class).at(peer)
    }

    /// What the side of one class says about everybody.
    pub fn row(&self, direction: Direction, class: u32) -> &Row {
        let program = self.classes[class as usize].programs[direction as usize];
        &self.rows[direction as usize][program as usize]
    }

    /// Whether all that is said about a class is known, in both directions. What would have been too much work is not: then
    /// it has no rules here, and its rows say nothing.
    pub fn is_known(&self, class: u32) -> bool {
        Direction::BOTH.into_iter().all(|direction| self.row(direction, class).is_known())
    }

    /// Whether everything is known about everybody.
    pub fn is_complete(&self) -> bool {
        self.rows.iter().flatten().all(Row::is_known)
    }

    /// Whether all is known about a pod or a node, by each of its addresses.
    pub fn knows(&self, who: Who) -> bool {
        self.classes_of(who).all(|(class, _)| self.is_known(class))
    }

    /// Which row a class has; classes with the same number say the same.
    pub fn row_number(&self, direction: Direction, class: u32) -> u32 {
        self.classes[class as usize].programs[direction as usize]
    }

    /// All rows of a direction.
    pub fn rows(&self, direction: Direction) -> &[Row] {
        &self.rows[direction as usize]
    }

    /// What becomes of traffic between two classes, as far as policies tell.
    pub fn cell(&self, source: u32, destination: u32, cells: &mut Cells) -> CellId {
        let egress = self.side(Direction::Egress, source, destination);
        let ingress = self.side(Direction::Ingress, destination, source);
        cells.both(egress, ingress)
    }

    /// What becomes of traffic between two of the cluster's own, with what they are to each other.
    pub fn between(&self, source: Who, destination: Who, cells: &mut Cells) -> Option<CellId> {
        let (from, to) = (self.class(source)?, self.class(destination)?);
        if self.is_itself(source, destination) {
            return Some(CellId::ALL);
        }
        Some(match self.is_own_node(source, destination) {
            true => self.side(Direction::Egress, from, to),
            false => self.cell(from, to, cells),
        })
    }

    /// The class of a pod or a node.
    pub fn class(&self, who: Who) -> Option<u32> {
        match who {
            Who::Pod(pod) => self.of_pod(pod),
            Who::Node(node) => self.of_node(node),
            Who::Outside => None,
        }
    }

    /// Everything that a pod or a node is in this family: its class, and the address by which it is that.
    pub fn classes_of(&self, who: Who) -> impl Iterator<Item = (u32, Option<IpAddr>)> + use<'_> {
        let addresses: &[IpAddr] = match who {
            Who::Pod(pod) => &self.snapshot().pods()[pod].addresses,
            Who::Node(node) => &self.snapshot().nodes()[node].addresses,
            Who::Outside => &[],
        };
        let own = addresses.iter().copied().find(|address| Family::of(*address) == self.family());
        let further = self.groups.further(who).iter();
        let further = further.map(|(group, address)| (self.class_of[*group as usize], Some(*address)));
        self.class(who).map(|class| (class, own)).into_iter().chain(further)
    }

    /// Whether the two are one: nobody can be cut off from itself.
    pub fn is_itself(&self, source: Who, destination: Who) -> bool {
        let context = &self.groups.context;
        if context.options.self_traffic != SelfTraffic::Allow {
            return false;
        }
        let node = |who| context.node_of(Party { who, address: None });
        match (source, node(source)) {
            (_, Some(own)) => node(destination) == Some(own),
            (Who::Pod(pod), None) => source == destination && !Parties::pod(context.snapshot, pod).stand_in,
            _ => false,
        }
    }

    /// Whether the source is the node that the destination, a pod of the pod network, runs on.
    pub fn is_own_node(&self, source: Who, destination: Who) -> bool {
        let context = &self.groups.context;
        match destination {
            Who::Pod(pod) if !Parties::pod(context.snapshot, pod).host_network => {
                context.is_own_node(Party { who: source, address: None }, pod)
            }
            _ => false,
        }
    }

    /// Who decides about which traffic between two classes, on the side of one of them.
    pub fn reasons(&self, direction: Direction, class: u32, peer: u32, cells: &mut Cells) -> Vec<Reason> {
        let program = self.classes[class as usize].programs[direction as usize];
        let program = &self.programs[direction as usize][program as usize];
        let destination = self.destinations[peer as usize];
        let mut reasons = Vec::new();
        cells.work().take(SUPPOSED * program.rules.len() as u64);
        self.with_runner(cells, |runner, _| {
            let active = runner.active(program, peer);
            runner.run(program, &active, destination, |decider, about| {
                let rule = match decider {
                    Decider::Rule(at, _) => Some(program.rules[at].at),
                    _ => None,
                };
                reasons.push(Reason { decider, rule, about });
            });
        });
        reasons
    }
}
