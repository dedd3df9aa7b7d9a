//! Reachability for all traffic between all endpoints, exactly and without enumerating connections.
//!
//! ```text
//!   pods, hosts, addresses ──► groups ──► programs ──► classes ──► rows
//!                              (selected   (rules that  (equivalent  (verdicts of a program
//!                               labels)     apply)       endpoints)   for every class)
//! ```
//!
//! The pipeline of `palisade_model` is run once for each program and each combination of its rules that matches some class,
//! on sets of traffic instead of one connection. Pairs of pods are never enumerated: traffic between two pods is two rows
//! and one cached operation. The plain evaluator is the judge: `tests/reach.rs`.
//!
//! Classes do not cover exemptions of two endpoints that are related: a pod and itself, a pod and its own node.
//! [`Reach::between`] does. Neighbour discovery, which policies never apply to, counts as any ICMP here: it is no
//! connection.

pub mod cells;
mod classes;
pub mod combinations;
pub mod connections;
pub mod cuts;
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
use groups::{DestinationId, EndpointGroups, FastMap, GroupKind, number};
pub use matrix::Matrix;
use members::{MembershipLookup, Spans};
pub use palisade_model::resolve::RuleAt;
use programs::{ProgramRule, Programs, RuleProgram};
use rows::RowRunner;
pub use rows::{ClassRow, Decider};
pub(crate) use sample::first_address;
use traffics::{TrafficId, Traffics};

/// Endpoints that no rule distinguishes, as peers or as subjects.
#[derive(Debug, Clone, Copy)]
pub struct EndpointClass {
    /// A group that represents the class.
    group: u32,
    /// Its programs, by direction.
    programs: [u32; 2],
}

/// Work to resolve the named ports of a rule at a destination.
const TRAFFIC_LOOKUP_WORK: u64 = 300;
/// Work to check whether a rule of a program matches a peer.
const RULE_CHECK_WORK: u64 = 40;

/// Reachability between all endpoints, over one address family.
#[derive(Debug)]
pub struct Reach<'s> {
    groups: EndpointGroups<'s>,
    classes: Vec<EndpointClass>,
    /// Class of each group.
    class_of: Vec<u32>,
    /// Classes of outside addresses, one for each interval in order.
    outside: Range<u32>,
    programs: [Vec<RuleProgram>; 2],
    rows: [Vec<ClassRow>; 2],
    /// Peer sets as intervals of classes, by [`programs::PeerSetId`].
    peers: Vec<Spans>,
    destinations: Vec<DestinationId>,
}

/// Decision about a part of the traffic between two endpoints, on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SideReason {
    /// What decided; a rule by its index in the program.
    pub decider: Decider,
    /// The deciding rule, if it is one.
    pub rule: Option<RuleAt>,
    /// Traffic that it decides.
    pub about: TrafficId,
}

// === impl Reach ===

impl<'s> Reach<'s> {
    /// Computes reachability. Instances that are compared share cuts and cells. May use three quarters of the remaining work;
    /// the rest is for queries. Rows beyond that are unknown ([`is_known`](Reach::is_known)).
    pub fn new(
        snapshot: &'s Snapshot,
        options: &Options,
        family: Family,
        cuts: &Cuts,
        cells: &mut Cells,
    ) -> Self {
        let kept = cells.work().share(4);
        let context = Context { snapshot, options: *options };
        let groups = EndpointGroups::new(context, family, cuts);
        let resolution = Resolution::new(snapshot);
        let programs =
            Programs::new(&groups, MembershipLookup::new(&groups, cuts, &resolution), &resolution, cells);
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

    fn with_runner<T>(&self, cells: &mut Cells, run: impl FnOnce(&mut RowRunner<'_>, &Self) -> T) -> T {
        let known: RefCell<FastMap<(RuleAt, DestinationId), TrafficId>> = RefCell::default();
        let carried = |held: &ProgramRule, destination: DestinationId, traffics: &mut Traffics| {
            if let Some(known) = known.borrow().get(&(held.at, destination)) {
                return *known;
            }
            let rule = &self.snapshot().policies()[held.at.policy].rules[held.at.rule];
            let meant = self.groups.destination(destination);
            let matches = match &rule.traffic {
                TrafficMatches::Any => 1,
                TrafficMatches::Of(matches) => matches.len(),
            };
            traffics.work.take(TRAFFIC_LOOKUP_WORK * (matches * (meant.ports.len() + 1)) as u64);
            let carried = programs::carried(&rule.traffic, meant, traffics);
            known.borrow_mut().insert((held.at, destination), carried);
            carried
        };
        let mut runner =
            RowRunner { cells, peers: &self.peers, destinations: &self.destinations, carried: &carried };
        run(&mut runner, self)
    }

    /// Returns the cluster.
    pub fn snapshot(&self) -> &'s Snapshot {
        self.groups.context.snapshot
    }

    /// Returns the address family.
    pub fn family(&self) -> Family {
        self.groups.family
    }

    /// Returns the number of classes.
    pub fn len(&self) -> u32 {
        number(self.classes.len())
    }

    /// Whether there are no classes, which never happens: there is always an outside.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Returns the classes of outside addresses, one for each interval.
    pub fn outside(&self) -> Range<u32> {
        self.outside.clone()
    }

    /// Returns a pod's class; `None` when it has no address of this family, or has terminated.
    pub fn of_pod(&self, pod: usize) -> Option<u32> {
        self.groups.of_pod(pod).map(|group| self.class_of[group as usize])
    }

    /// Returns a node's class.
    pub fn of_node(&self, node: usize) -> Option<u32> {
        self.groups.of_node(node).map(|group| self.class_of[group as usize])
    }

    /// Returns the class of an address outside of the cluster.
    pub fn of_address(&self, address: IpAddr, cuts: &Cuts) -> u32 {
        self.outside.start + number(cuts.interval_of(address))
    }

    /// Whether a class is pods of the pod network or external entities, not hosts or addresses.
    pub fn is_pods(&self, class: u32) -> bool {
        matches!(self.groups.get(self.classes[class as usize].group).kind, GroupKind::Pods(..))
    }

    /// Whether some rule applies to a class in a direction, or some policy isolates it.
    pub fn is_subject(&self, direction: Direction, class: u32) -> bool {
        let program = self.classes[class as usize].programs[direction as usize];
        let program = &self.programs[direction as usize][program as usize];
        program.isolated || !program.rules.is_empty()
    }

    /// Returns the rules that apply to a class in a direction, in evaluation order.
    pub fn rules(&self, direction: Direction, class: u32) -> impl Iterator<Item = RuleAt> {
        let program = self.classes[class as usize].programs[direction as usize];
        self.programs[direction as usize][program as usize].rules.iter().map(|held| held.at)
    }

    /// Returns the cell of a class's side for a peer that does not exist, given the rules whose peers would hold it. Such a
    /// peer has no named ports.
    pub fn side_for_potential_peer(
        &self,
        direction: Direction,
        class: u32,
        names: impl Fn(RuleAt) -> bool,
        cells: &mut Cells,
    ) -> CellId {
        let program = self.classes[class as usize].programs[direction as usize];
        let program = &self.programs[direction as usize][program as usize];
        // Peer sets hold existing endpoints only. Rules with any peer match, and unparsable ones, which deny everything.
        let context = &self.groups.context;
        let anybody = |at: RuleAt| {
            let rule = &context.snapshot.policies()[at.policy].rules[at.rule];
            matches!(rule.peers, Peers::Any) || resolve::unknown(rule, &context.snapshot).is_some()
        };
        cells.work().take(RULE_CHECK_WORK * program.rules.len() as u64);
        let meant = |held: &ProgramRule| anybody(held.at) || names(held.at);
        let active: Vec<u32> =
            (0..).zip(&program.rules).filter(|(_, held)| meant(held)).map(|(at, _)| at).collect();
        self.with_runner(cells, |runner, _| runner.cell(program, &active, DestinationId(0)))
    }

    /// Returns the indices of the policies that isolate a class in a direction.
    pub fn isolated_by(&self, direction: Direction, class: u32) -> Vec<usize> {
        let GroupKind::Pods(sample, _) = self.groups.get(self.classes[class as usize].group).kind else {
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

    /// Returns the cell of one class's side for another, in a direction.
    pub fn side(&self, direction: Direction, class: u32, peer: u32) -> CellId {
        self.row(direction, class).at(peer)
    }

    /// Returns the cells of one class's side for all classes.
    pub fn row(&self, direction: Direction, class: u32) -> &ClassRow {
        let program = self.classes[class as usize].programs[direction as usize];
        &self.rows[direction as usize][program as usize]
    }

    /// Whether the rows of a class are complete in both directions. Where a limit was reached, its program and its rows are
    /// empty.
    pub fn is_known(&self, class: u32) -> bool {
        Direction::BOTH.into_iter().all(|direction| self.row(direction, class).is_known())
    }

    /// Whether the rows of all classes are complete.
    pub fn is_complete(&self) -> bool {
        self.rows.iter().flatten().all(ClassRow::is_known)
    }

    /// Whether the rows of a pod or a node are complete, for each of its addresses.
    pub fn knows(&self, who: Who) -> bool {
        self.classes_of(who).all(|(class, _)| self.is_known(class))
    }

    /// Returns the number of a class's row; classes with the same number have the same cells.
    pub fn row_number(&self, direction: Direction, class: u32) -> u32 {
        self.classes[class as usize].programs[direction as usize]
    }

    /// Returns all rows of a direction.
    pub fn rows(&self, direction: Direction) -> &[ClassRow] {
        &self.rows[direction as usize]
    }

    /// Returns the cell for traffic between two classes, by policies alone.
    pub fn cell(&self, source: u32, destination: u32, cells: &mut Cells) -> CellId {
        let egress = self.side(Direction::Egress, source, destination);
        let ingress = self.side(Direction::Ingress, destination, source);
        cells.both(egress, ingress)
    }

    /// Returns the cell for traffic between two pods or nodes, with the exemptions of related endpoints.
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

    /// Returns the class of a pod or a node.
    pub fn class(&self, who: Who) -> Option<u32> {
        match who {
            Who::Pod(pod) => self.of_pod(pod),
            Who::Node(node) => self.of_node(node),
            Who::Outside => None,
        }
    }

    /// Returns the classes of a pod or a node in this family, with the address of each.
    pub fn classes_of(&self, who: Who) -> impl Iterator<Item = (u32, Option<IpAddr>)> + use<'_> {
        let addresses: &[IpAddr] = match who {
            Who::Pod(pod) => &self.snapshot().pods()[pod].addresses,
            Who::Node(node) => &self.snapshot().nodes()[node].addresses,
            Who::Outside => &[],
        };
        let own = addresses.iter().copied().find(|address| Family::of(*address) == self.family());
        let additional = self.groups.additional(who).iter();
        let additional = additional.map(|(group, address)| (self.class_of[*group as usize], Some(*address)));
        self.class(who).map(|class| (class, own)).into_iter().chain(additional)
    }

    /// Whether the two are one endpoint, whose traffic policies never deny.
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

    /// Returns the decisions about traffic between two classes, on the side of the first.
    pub fn reasons(&self, direction: Direction, class: u32, peer: u32, cells: &mut Cells) -> Vec<SideReason> {
        let program = self.classes[class as usize].programs[direction as usize];
        let program = &self.programs[direction as usize][program as usize];
        let destination = self.destinations[peer as usize];
        let mut reasons = Vec::new();
        cells.work().take(RULE_CHECK_WORK * program.rules.len() as u64);
        self.with_runner(cells, |runner, _| {
            let active = runner.active(program, peer);
            runner.run(program, &active, destination, |decider, about| {
                let rule = match decider {
                    Decider::Rule(at, _) => Some(program.rules[at].at),
                    _ => None,
                };
                reasons.push(SideReason { decider, rule, about });
            });
        });
        reasons
    }
}
