//! Search for a connection that two policies of equal rank decide differently.
//!
//! Candidates are the pods, nodes and services of the snapshot, the ports and addresses that both rules share, and the edges
//! of the ranges of each: where two ranges overlap, they overlap at an edge. The search is bounded; beyond the bound it
//! reports a disagreement without an example.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::net::IpAddr;

use palisade_model::address::Block;
use palisade_model::cluster::{ContainerPort, Service};
use palisade_model::flow::{Flow, Who};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::policy::{
    Action, Direction, IcmpMatch, Object, Peer, Peers, Policy, Rule, ServiceName, Subject, TrafficMatch,
    TrafficMatches,
};
use palisade_model::ranges::Ranges;
use palisade_model::resolve::{self, GroupMember};
use palisade_model::traffic::{PortRange, Protocol, Traffic};

use super::pods;
use palisade_model::traffic_set::{Region, TrafficSet, TrafficSpace, Unresolved};

/// Search for conflicts, with a budget of steps for all pairs of policies.
pub struct ConflictSearch<'s> {
    context: Context<'s>,
    budget: usize,
}

/// What depends on the order of two policies of equal rank.
pub enum OrderDependence {
    /// Rules that decide a connection differently.
    Conflict(Conflict),
    /// Rules with different actions, without a known connection that both match.
    Disagreement,
    /// No verdict depends on their order.
    Nothing,
}

/// Two rules, and a connection that the first of them decides.
pub struct Conflict {
    flow: String,
    first: (String, Action),
    second: (String, Action),
}

/// Maximum number of matching steps, in all.
const MAX_STEPS: usize = 3_000_000;
/// Maximum number of matching steps for one pair of policies.
const MAX_STEPS_PER_PAIR: usize = 100_000;
/// Maximum number of subjects, blocks, names and kinds of traffic that are tried for a pair of rules.
const MAX_TRIED: usize = 64;

/// ICMP type of an echo request.
const PING: u8 = 8;

/// Endpoint at the other end, the address it uses, and the index of the service in between.
type PeerCandidate = (Who, Option<IpAddr>, Option<usize>);

// === impl ConflictSearch ===

impl<'s> ConflictSearch<'s> {
    pub fn new(context: Context<'s>) -> Self {
        ConflictSearch { context, budget: MAX_STEPS }
    }

    /// Returns what depends on the order of two policies.
    pub fn between(&mut self, a: &Policy, b: &Policy) -> OrderDependence {
        // Antrea interleaves rules by index: only those with the same one are left undecided.
        let interleaved = a.object.dialect.is_antrea() && b.object.dialect.is_antrea();
        let slot = |rule: &Rule| (rule.direction, if interleaved { rule.index } else { 0 });
        let mut others: BTreeMap<(Direction, u32), Vec<&Rule>> = BTreeMap::new();
        for rule in &b.rules {
            others.entry(slot(rule)).or_default().push(rule);
        }
        let mut budget = self.budget.min(MAX_STEPS_PER_PAIR);
        let given = budget;
        let mut found = OrderDependence::Nothing;
        'pairs: for x in &a.rules {
            for y in others.get(&slot(x)).into_iter().flatten() {
                budget = budget.saturating_sub(1 + (traffic_entries(x) + traffic_entries(y)) / 8);
                if budget == 0 {
                    found = OrderDependence::Disagreement;
                    break 'pairs;
                }
                let readable = resolve::unknown(x, &self.context.snapshot).is_none()
                    && resolve::unknown(y, &self.context.snapshot).is_none();
                if x.action == y.action || !readable {
                    continue;
                }
                match self.witness(x, y, &mut budget) {
                    Some(flow) => {
                        found =
                            OrderDependence::Conflict(self.conflict(&flow, (x, &a.object), (y, &b.object)));
                        break 'pairs;
                    }
                    None => found = OrderDependence::Disagreement,
                }
            }
        }
        self.budget -= given - budget;
        found
    }

    fn conflict(&self, flow: &Flow, (x, a): (&Rule, &Object), (y, b): (&Rule, &Object)) -> Conflict {
        let snapshot = self.context.snapshot;
        let (source, destination) = (snapshot.describe(flow.source), snapshot.describe(flow.destination));
        let rule = |rule: &Rule, object: &Object| {
            format!("{} rule {} of {}", rule.direction, rule.index, object.full_name())
        };
        Conflict {
            flow: format!("{source} -> {destination} {}", flow.traffic),
            first: (rule(x, a), x.action),
            second: (rule(y, b), y.action),
        }
    }

    /// Returns a connection that both rules match.
    fn witness(&self, x: &Rule, y: &Rule, budget: &mut usize) -> Option<Flow> {
        let traffics = self.traffics(x, y);
        let others = self.peer_candidates(x, y);
        for subject in self.subjects(x, y, budget) {
            for other in &others {
                *budget = budget.checked_sub(1).filter(|budget| *budget > 0)?;
                let Some(flow) = self.flow(x.direction, subject, *other, traffics[0]) else { continue };
                let (_, peer) = Context::ends(&flow, x.direction);
                let matches_peer = |rule: &Rule| self.context.peers(&rule.peers, peer, subject, &flow);
                if !(matches_peer(x) && matches_peer(y)) {
                    continue;
                }
                for traffic in &traffics {
                    *budget = budget.checked_sub(1).filter(|budget| *budget > 0)?;
                    let flow = Flow { traffic: *traffic, ..flow };
                    let carries = |rule: &Rule| self.context.carries(&rule.traffic, &flow);
                    if carries(x) && carries(y) {
                        return Some(flow);
                    }
                }
            }
        }
        None
    }

    /// Returns up to [`MAX_TRIED`] endpoints that both rules apply to.
    fn subjects(&self, x: &Rule, y: &Rule, budget: &mut usize) -> Vec<Endpoint> {
        let snapshot = self.context.snapshot;
        let nodes = (0..snapshot.nodes().len()).map(Endpoint::Node);
        let services = (0..snapshot.services().len()).map(Endpoint::Service);
        let is_pod = |subject: &Subject| matches!(subject, Subject::Pods(_) | Subject::Group { .. });
        let about_pods = x.subjects.iter().any(is_pod) && y.subjects.iter().any(is_pod);
        let living = pods(snapshot).filter(|_| about_pods).map(Endpoint::Pod);
        let applies = |endpoint: &Endpoint| {
            self.context.applies(&x.subjects, *endpoint) && self.context.applies(&y.subjects, *endpoint)
        };
        let mut asked = 0;
        let found = living
            .chain(nodes)
            .chain(services)
            .take_while(|_| {
                asked += 1;
                asked < *budget
            })
            .filter(applies)
            .take(MAX_TRIED)
            .collect();
        *budget = budget.saturating_sub(asked);
        found
    }

    /// Returns candidates for the other end: an address of each block and name, the pods behind services, pods and nodes.
    fn peer_candidates(&self, x: &Rule, y: &Rule) -> Vec<PeerCandidate> {
        let snapshot = self.context.snapshot;
        let mut others: Vec<PeerCandidate> = Vec::new();
        let mut address = |address: IpAddr| others.push((snapshot.who_has(address), Some(address), None));
        let mut behind: Vec<&ServiceName> = Vec::new();
        let mut ranges: Vec<Ranges> = Vec::new();
        for rule in [x, y] {
            let Peers::Of(peers) = &rule.peers else {
                address(IpAddr::from([203, 0, 113, 1]));
                continue;
            };
            let mut blocks: Vec<&Block> = Vec::new();
            for peer in peers {
                match peer {
                    Peer::Addresses(block) => blocks.push(block),
                    Peer::Group(group) => {
                        let members = snapshot.group(group).unwrap_or_default();
                        blocks.extend(members.iter().flat_map(|member| match member {
                            GroupMember::Addresses(blocks) => blocks.as_slice(),
                            _ => &[],
                        }));
                    }
                    Peer::Names(_) => snapshot.named_addresses().take(MAX_TRIED).for_each(&mut address),
                    Peer::Service(name) => behind.push(name),
                    _ => {}
                }
            }
            blocks.iter().take(MAX_TRIED).filter_map(|block| block.example()).for_each(&mut address);
            ranges.push(Ranges::of(blocks));
        }
        // Where blocks of both meet.
        if let [one, other] = &ranges[..] {
            let starts = one.iter().chain(other.iter()).map(|(first, _)| first);
            let common = starts.filter(|at| one.contains(*at) && other.contains(*at));
            common.take(MAX_TRIED).for_each(&mut address);
        }
        for (at, service) in snapshot.services().iter().enumerate() {
            if behind.iter().any(|name| name.namespace == service.namespace && name.name == service.name) {
                others.extend(self.backend(service).map(|pod| (Who::Pod(pod), None, Some(at))));
            }
        }
        others.extend(pods(snapshot).map(|pod| (Who::Pod(pod), None, None)));
        others.extend((0..snapshot.nodes().len()).map(|node| (Who::Node(node), None, None)));
        others
    }

    /// Returns a pod that connections through a service lead to.
    fn backend(&self, service: &Service) -> impl Iterator<Item = usize> {
        let snapshot = self.context.snapshot;
        let selector = service.selector().filter(|_| service.has_cluster_address()).cloned();
        let selected =
            move |pod: &usize| selector.as_ref().is_some_and(|s| s.matches(&snapshot.pods()[*pod].labels));
        snapshot.pods_in(&service.namespace).filter(selected).take(1)
    }

    fn flow(
        &self,
        direction: Direction,
        subject: Endpoint,
        other: PeerCandidate,
        traffic: Traffic,
    ) -> Option<Flow> {
        let snapshot = self.context.snapshot;
        let (who, address, via) = other;
        let (own, via) = match subject {
            Endpoint::Pod(pod) => (Who::Pod(pod), via),
            Endpoint::Node(node) => (Who::Node(node), via),
            // Connections that enter through it; only from outside.
            Endpoint::Service(at) if who == Who::Outside => {
                (Who::Pod(self.backend(&snapshot.services()[at]).next()?), Some(at))
            }
            Endpoint::Service(_) => return None,
        };
        if own == who {
            return None;
        }
        let ends = ((own, None), (who, address));
        let flow = match direction {
            Direction::Egress => snapshot.flow(ends.0, ends.1, traffic),
            Direction::Ingress => snapshot.flow(ends.1, ends.0, traffic),
        };
        Some(Flow { via, ..flow })
    }

    /// Returns candidates for the traffic: the edges of the rules' ranges, with each source port that one of them names.
    fn traffics(&self, x: &Rule, y: &Rule) -> Vec<Traffic> {
        let mut traffics = self.common(x, y);
        for matches in [&x.traffic, &y.traffic] {
            if let TrafficMatches::Of(matches) = matches {
                for one in matches.iter().take(MAX_TRIED) {
                    self.edges(one, None, &mut traffics);
                }
            }
        }
        if traffics.is_empty() {
            traffics.push(Traffic::new(Protocol::Tcp, 80));
        }
        let mut sources: Vec<u16> = traffics.iter().filter_map(|traffic| traffic.source_port).collect();
        sources.sort_unstable();
        sources.dedup();
        let plain: Vec<Traffic> = traffics.iter().filter(|t| t.protocol.has_ports()).copied().collect();
        for port in sources.into_iter().take(4) {
            traffics.extend(plain.iter().map(|traffic| Traffic { source_port: Some(port), ..*traffic }));
        }
        let mut seen = HashSet::new();
        traffics.retain(|traffic| seen.insert(*traffic));
        traffics.truncate(4 * MAX_TRIED);
        traffics
    }

    /// Returns an example of each interval that both rules match, without source ports.
    fn common(&self, x: &Rule, y: &Rule) -> Vec<Traffic> {
        let space = TrafficSpace::new([]);
        let [one, other] = [x, y].map(|rule| match &rule.traffic {
            TrafficMatches::Any => space.all(),
            TrafficMatches::Of(matches) => {
                let mut intervals = Vec::new();
                for one in matches {
                    self.superset(one, |region| space.add(region, &mut intervals));
                }
                TrafficSet::from_intervals(intervals)
            }
        });
        let both = one.intersection(&other);
        let each = both.intervals().iter().take(MAX_TRIED);
        each.filter_map(|one| space.sample(&TrafficSet::from_intervals(vec![*one]))).collect()
    }

    /// Emits regions that hold all traffic a match can cover: a port's name is the port of any pod, from any source port.
    fn superset(&self, one: &TrafficMatch, mut emit: impl FnMut(Region)) {
        let mut emit = |region: Region| emit(Region { sources: PortRange::ALL, ..region });
        let port = match one {
            TrafficMatch::From(_, port) => Cow::Owned(TrafficMatch::from((**port).clone())),
            one => Cow::Borrowed(one),
        };
        let TrafficMatch::Named(protocol, name) = &*port else {
            port.regions(&Unresolved, emit);
            return;
        };
        let snapshot = self.context.snapshot;
        for own in pods(snapshot).flat_map(|pod| &snapshot.pods()[pod].ports) {
            let matches_port = own.name.as_ref() == Some(name)
                && protocol.is_none_or(|wanted| wanted == own.protocol)
                && own.protocol.has_ports();
            if matches_port {
                emit(Region::new(own.protocol, own.number..=own.number, PortRange::ALL));
            }
        }
    }

    fn edges(&self, one: &TrafficMatch, source_port: Option<u16>, traffics: &mut Vec<Traffic>) {
        let ports = |protocol, port| Traffic { source_port, ..Traffic::new(protocol, port) };
        match one {
            TrafficMatch::Ports(protocol, PortRange { first, .. }) => {
                traffics.push(ports(*protocol, if *first == 0 { 80 } else { *first }));
            }
            TrafficMatch::Named(protocol, name) => {
                let named = |port: &&ContainerPort| {
                    port.name.as_deref() == Some(name)
                        && protocol.is_none_or(|wanted| wanted == port.protocol)
                };
                let snapshot = self.context.snapshot;
                let known = pods(snapshot).flat_map(|pod| &snapshot.pods()[pod].ports);
                traffics.extend(known.filter(named).take(4).map(|port| ports(port.protocol, port.number)));
            }
            TrafficMatch::From(range, port) => {
                self.edges(&TrafficMatch::from((**port).clone()), Some(range.first), traffics);
            }
            TrafficMatch::Icmp(IcmpMatch { kind, code }) => {
                // A code without a type matches every type, also an echo request.
                let icmp = kind.or(code.map(|_| PING)).map(|kind| (kind, *code));
                traffics.push(Traffic { icmp, ..Traffic::new(Protocol::Icmp, 0) });
            }
            TrafficMatch::Igmp(kind, _) => {
                let icmp = kind.map(|kind| (kind, None));
                traffics.push(Traffic { icmp, ..Traffic::new(Protocol::Igmp, 0) });
            }
            TrafficMatch::Unknown(_) => {}
        }
    }
}

/// Returns the number of traffic entries of a rule.
fn traffic_entries(rule: &Rule) -> usize {
    match &rule.traffic {
        TrafficMatches::Any => 0,
        TrafficMatches::Of(matches) => matches.len(),
    }
}

// === impl Conflict ===

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Conflict { flow, first, second } = self;
        write!(f, "their order decides {flow}: {} by {}, {} by {}", first.1, first.0, second.1, second.0)
    }
}

#[cfg(test)]
mod tests {
    use palisade_dialects::load::load;
    use palisade_dialects::source::Limits;
    use palisade_dialects::source::tree::Source;
    use palisade_dialects::world::World;
    use palisade_model::options::Options;
    use palisade_model::snapshot::Snapshot;

    use super::*;

    #[test]
    fn a_pair_never_takes_more_than_its_share() {
        let blocks = |first: usize| -> Vec<String> {
            let net = |at| format!("{{ipBlock: {{cidr: {first}.{}.{}.0/24}}}}", at / 250, at % 250);
            (0..1000).map(net).collect()
        };
        let policy = |action: &str, first: usize| {
            let ports: Vec<String> = (1..65).map(|port| format!("{{port: {port}}}")).collect();
            format!(
                "---\n{{apiVersion: crd.antrea.io/v1beta1, kind: ClusterNetworkPolicy, metadata: {{name: {}}}, spec: {{priority: 5, appliedTo: [{{podSelector: {{}}}}], ingress: [{{action: {action}, from: [{}], ports: [{}]}}]}}}}\n",
                action.to_lowercase(),
                blocks(first).join(", "),
                ports.join(", ")
            )
        };
        let pods: String = (0..100)
            .map(|at| {
                format!("---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{at}, namespace: x}}, status: {{podIP: 192.0.2.{at}}}}}\n")
            })
            .collect();
        let (mut world, mut found) = (World::default(), Vec::new());
        let text = pods + &policy("Drop", 10) + &policy("Allow", 11);
        load(&Source::new("t.yaml", text), &Limits::default(), &mut world, &mut found);
        let snapshot = Snapshot::new(world.into_objects());
        let mut search = ConflictSearch::new(Context { snapshot: &snapshot, options: Options::default() });
        let [a, b] = snapshot.policies() else { panic!("two policies") };
        assert!(matches!(search.between(a, b), OrderDependence::Disagreement));
        let asked = MAX_STEPS - search.budget;
        assert!(0 < asked && asked <= MAX_STEPS_PER_PAIR, "{asked}");
    }
}
