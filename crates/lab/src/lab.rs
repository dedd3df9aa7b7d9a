//! A lab: a world that is built, enforced and measured, and follows what changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use palisade_agent::{Enforcement, Wrote};
use palisade_engine::Engine;
use palisade_engine::delta::Delta;
use palisade_engine::view::View;
use palisade_model::evaluate::evaluate;
use palisade_model::event::{Event, Key};
use palisade_model::flow::{Flow, Party, Who};
use palisade_model::matching::{Context, Endpoint};
use palisade_model::options::Options;
use palisade_model::policy::{Direction, TrafficMatch, TrafficMatches};
use palisade_model::snapshot::Snapshot;
use palisade_model::trace::{Because, Verdict};
use palisade_model::traffic::{PortRange, Protocol, Traffic};
use palisade_nftables::compile::Wiring;
use palisade_nftables::kernel::Linux;
use smol_str::SmolStr;

use crate::clean::{self, Kept};
use crate::cluster::{Changed, Cluster};
use crate::error::LabError;
use crate::listen::{Door, Listeners};
use crate::namespace::Run;
use crate::plan::{Plan, Spot, is_usable};
use crate::probe::{self, Answer, Probe};
use crate::services::Services;
use crate::unmeasurable::Unmeasurable;
use crate::world::LabWorld;
use crate::{conntrack, namespace, ready, tool};

/// A cluster on this machine. Everything it made goes with it.
#[derive(Debug)]
pub struct Lab {
    // Before the cluster: a namespace goes when nothing in it is open.
    listeners: Listeners,
    cluster: Cluster,
    engine: Engine,
    known: BTreeSet<Key>,
    /// What the index says, which nodes have their parts of.
    view: View,
    /// What is in force: on each node, and for services in each namespace.
    enforced: BTreeMap<SmolStr, Enforcement<Linux>>,
    translations: BTreeMap<String, String>,
    services: Services,
    /// What the kernel cannot do of the policies.
    lacks: BTreeSet<String>,
    stop: Arc<AtomicBool>,
}

/// What a packet said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Measured {
    /// What became of it.
    Verdict(Verdict),
    /// No packet of this machine can show it, and why. The same in every run: nothing was tried.
    NotSent(String),
    /// It should have been sent and could not be, after every attempt, and why. A failure, whatever was predicted.
    Failed(String),
}

/// What an update did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Updated {
    /// What was built and torn down.
    pub changed: Changed,
    /// On how many nodes the rules are others now.
    pub programs: usize,
}

/// How long to wait before each attempt to send a probe. What cannot be sent has no verdict: a machine under load may need a
/// moment for an address, a port or a buffer.
const ATTEMPTS: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
];
/// How long addresses may take to be ready before each attempt. Duplicate address detection takes up to two seconds.
const READY: Duration = Duration::from_secs(3);

/// Labs of this process so far.
static LABS: AtomicU32 = AtomicU32::new(0);

// === impl Lab ===

impl Lab {
    /// A lab with nothing in it. Takes away first what crashed runs left behind. Whoever sets `stop` ends every measurement.
    pub fn new(stop: Arc<AtomicBool>) -> Result<Lab, LabError> {
        let missing = tool::missing();
        if !missing.is_empty() {
            return Err(LabError::Missing(missing.join("; ")));
        }
        clean::leftovers()?;
        let run = Run::own(LABS.fetch_add(1, Ordering::Relaxed))?;
        Ok(Lab {
            listeners: Listeners::new()?,
            cluster: Cluster::new(run),
            engine: Engine::default(),
            known: BTreeSet::new(),
            view: View::default(),
            enforced: BTreeMap::new(),
            translations: BTreeMap::new(),
            services: Services::default(),
            lacks: BTreeSet::new(),
            stop,
        })
    }

    /// Makes the machine this world: what is new is built, what is gone is torn down, and what is in force is in force all at
    /// once on each node. These addresses are there outside.
    pub fn update(&mut self, placed: &LabWorld, outside: &BTreeSet<IpAddr>) -> Result<Updated, LabError> {
        let changed = self.build(placed, outside)?;
        let programs = self.enforce(placed)?;
        Ok(Updated { changed, programs })
    }

    /// Builds the world, without any policy.
    pub fn build(&mut self, placed: &LabWorld, outside: &BTreeSet<IpAddr>) -> Result<Changed, LabError> {
        let changed = self.cluster.reach(Plan::of(placed, outside))?;
        self.listeners.leave(&changed.gone);
        let nodes: BTreeSet<&SmolStr> = self.cluster.plan().nodes.keys().collect();
        self.enforced.retain(|node, _| nodes.contains(node) && !changed.new_nodes.contains(node));
        self.translations.retain(|name, _| !changed.gone.contains(name));
        self.translate(placed)?;
        Ok(changed)
    }

    fn translate(&mut self, placed: &LabWorld) -> Result<(), LabError> {
        let plan = self.cluster.plan();
        let nodes: Vec<IpAddr> =
            placed.snapshot.nodes().iter().flat_map(|node| node.addresses.iter().copied()).collect();
        let services = Services::of(&placed.snapshot, &nodes);
        let mut places = vec![(self.cluster.outside(), Vec::new())];
        for (node, name) in self.cluster.nodes() {
            places.push((name, plan.nodes.get(node).cloned().unwrap_or_default()));
        }
        for (name, own) in places {
            let text = services.replace(&own);
            if self.translations.get(&name) != Some(&text) {
                tool::nft(&name, &text)?;
                self.translations.insert(name, text);
            }
        }
        self.services = services;
        Ok(())
    }

    /// As [`Lab::update`], for a world that differs from the last one by these events: nothing else is given to the index again.
    pub fn follow(
        &mut self,
        placed: &LabWorld,
        outside: &BTreeSet<IpAddr>,
        events: Vec<Event>,
    ) -> Result<Updated, LabError> {
        let changed = self.build(placed, outside)?;
        let mut deltas = Vec::with_capacity(events.len());
        for event in events {
            match &event {
                Event::Apply(item) => drop(self.known.insert(item.key())),
                Event::Delete(key) => drop(self.known.remove(key)),
            }
            deltas.push(self.engine.apply(event));
        }
        deltas.retain(|delta| !delta.changes.is_empty());
        self.engine.tidy();
        let programs = self.enforce_deltas(&deltas)?;
        Ok(Updated { changed, programs })
    }

    /// Puts the policies of the world in force, and cuts the connections that they deny now. Returns the number of nodes on which that
    /// changed anything.
    pub fn enforce(&mut self, placed: &LabWorld) -> Result<usize, LabError> {
        let deltas;
        (self.known, deltas) = self.engine.relist(&self.known, &placed.objects, &placed.snapshot);
        self.enforce_deltas(&deltas)
    }

    fn enforce_deltas(&mut self, deltas: &[Delta]) -> Result<usize, LabError> {
        let nodes: Vec<(SmolStr, String)> =
            self.cluster.nodes().map(|(node, name)| (node.clone(), name)).collect();
        let names: Vec<&str> = nodes.iter().map(|(node, _)| node.as_str()).collect();
        let mut parts: Vec<Vec<Delta>> = vec![Vec::new(); nodes.len()];
        for delta in deltas {
            // The copy follows every delta, so none can be out of step.
            for (part, own) in parts.iter_mut().zip(self.view.follow_for(delta, &names).into_iter().flatten())
            {
                part.push(own);
            }
        }
        self.lacks.clear();
        let mut changed = 0;
        for ((node, name), part) in nodes.iter().zip(parts) {
            let wrote = self.enforce_on(node, name, &part)?;
            changed += usize::from(wrote);
        }
        Ok(changed)
    }

    /// The same on one node, with what has changed there since it was last asked.
    fn enforce_on(&mut self, node: &SmolStr, name: &str, deltas: &[Delta]) -> Result<bool, LabError> {
        let own: BTreeSet<IpAddr> =
            self.cluster.plan().nodes.get(node).into_iter().flatten().copied().collect();
        let (enforced, view) = (self.enforced.remove(node), &self.view);
        let (enforcement, done) = namespace::inside(name, || match enforced {
            None => Enforcement::begin(view.part_of(node), node, Wiring::new(), own, Linux::new(), None),
            Some(mut enforcement) => {
                let done = match enforcement.follow_wired(deltas, Wiring::new(), own.clone()) {
                    Ok(done) => done,
                    Err(_) => enforcement.anew(view.part_of(node), node, Wiring::new(), own),
                };
                (enforcement, done)
            }
        })?;
        self.lacks.extend(enforcement.live().lacks().iter().cloned());
        self.enforced.insert(node.clone(), enforcement);
        match done.failed.or(done.uncut) {
            Some(error) => Err(LabError::Kernel { node: node.to_string(), error }),
            None => Ok(done.wrote != Wrote::Nothing),
        }
    }

    /// What the kernel cannot do of the policies, in words.
    pub fn lacks(&self) -> &BTreeSet<String> {
        &self.lacks
    }

    /// What is in force on a node, as nft reads it.
    pub fn program(&self, node: &str) -> Option<String> {
        Some(self.enforced.get(node)?.live().program().replace())
    }

    /// What there is.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// How others find their way in: to a pod by its name, or its workload's.
    pub fn kept(&self, placed: &LabWorld, paths: &[String]) -> Kept {
        let pods = self.cluster.pods();
        let mut pods: BTreeMap<String, String> =
            pods.map(|((namespace, name, _), at)| (format!("{namespace}/{name}"), at)).collect();
        for pod in placed.snapshot.pods().iter().filter(|pod| !pod.terminated) {
            let at = pods.get(&format!("{}/{}", pod.namespace, pod.name)).cloned();
            for (maker, at) in placed.snapshot.makers(pod).into_iter().zip(at.into_iter().cycle()) {
                pods.entry(format!("{}/{}", pod.namespace, maker.name)).or_insert(at);
            }
        }
        Kept {
            outside: self.cluster.outside(),
            paths: paths.to_vec(),
            pods,
            nodes: self.cluster.nodes().map(|(node, name)| (node.to_string(), name)).collect(),
        }
    }

    /// Measures flows of the manifests' world. Connections of before are forgotten, so that each is opened anew.
    pub fn measure(
        &mut self,
        placed: &LabWorld,
        flows: &[Flow],
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Measured>, LabError> {
        for (_, name) in self.cluster.nodes() {
            conntrack::forget(&name)?;
        }
        conntrack::forget(&self.cluster.outside())?;
        let prepared: Vec<Result<(Probe, Door), Unmeasurable>> =
            flows.iter().map(|flow| self.prepare(placed, flow)).collect();
        let probes: Vec<(Probe, Door)> = prepared.iter().flatten().cloned().collect();
        let mut answers = self.send(&probes, progress)?.into_iter();
        let measured = |one: Result<(Probe, Door), Unmeasurable>| match one {
            Err(why) => Measured::NotSent(why.to_string()),
            Ok(_) => match answers.next() {
                Some(Answer::Answered) => Measured::Verdict(Verdict::Allow),
                Some(Answer::Silence) => Measured::Verdict(Verdict::Deny),
                Some(Answer::Refused) => Measured::Verdict(Verdict::Reject),
                Some(Answer::Failed(why)) => Measured::Failed(why),
                None => Measured::Failed("it was lost".to_owned()),
            },
        };
        Ok(prepared.into_iter().map(measured).collect())
    }

    /// Sends probes, each once its addresses are ready and its listener is there. What could not be sent is prepared again, and
    /// has failed after the last of [`ATTEMPTS`].
    fn send(
        &mut self,
        probes: &[(Probe, Door)],
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Answer>, LabError> {
        let mut answers: Vec<Option<Answer>> = vec![None; probes.len()];
        let unsent = |answer: &Option<Answer>| matches!(answer, None | Some(Answer::Failed(_)));
        for (attempt, pause) in ATTEMPTS.into_iter().enumerate() {
            let open: Vec<usize> = (0..probes.len()).filter(|at| unsent(&answers[*at])).collect();
            if open.is_empty() {
                break;
            }
            std::thread::sleep(pause);
            let ends = open
                .iter()
                .map(|at| &probes[*at])
                .flat_map(|(probe, door)| [(probe.from.clone(), probe.source), (door.0.clone(), door.2)]);
            let unready = ready::unready(ends.collect(), READY)?;
            let refused = self.listeners.ensure(open.iter().map(|at| probes[*at].1.clone()).collect())?;
            let mut ready = Vec::with_capacity(open.len());
            for at in open {
                let (probe, door) = &probes[at];
                let place =
                    |name: &String, address| unready.get(&(name.clone(), address)).map(|why| (address, why));
                let missing = place(&probe.from, probe.source).or_else(|| place(&door.0, door.2));
                let wrong = missing.map(|(address, why)| format!("{address} is not ready: {why}"));
                let wrong =
                    wrong.or_else(|| refused.get(door).map(|why| format!("cannot listen there: {why}")));
                match wrong {
                    Some(why) => answers[at] = Some(Answer::Failed(why)),
                    None => ready.push(at),
                }
            }
            let sent: Vec<Probe> = ready.iter().map(|at| probes[*at].0.clone()).collect();
            let mut silent = |_: usize| {};
            let progress = if attempt == 0 { &mut *progress } else { &mut silent };
            let heard = probe::run(&sent, &self.listeners, &self.stop, progress)?;
            for (at, answer) in ready.into_iter().zip(heard) {
                answers[at] = Some(answer);
            }
        }
        let lost = || Answer::Failed("it was lost".to_owned());
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect())
    }

    /// The packet of a flow, and who must answer it; or why it cannot be sent.
    fn prepare(&self, placed: &LabWorld, given: &Flow) -> Result<(Probe, Door), Unmeasurable> {
        let options = Options::default();
        beyond(placed, given, &options)?;
        let flow = placed.flow(given);
        let plan = self.cluster.plan();
        let place = |party: Party| -> Result<(Spot, String, IpAddr), Unmeasurable> {
            let who = placed.snapshot.describe(party);
            let address = party.address.ok_or_else(|| Unmeasurable::NoAddress(who.clone()))?;
            if !is_usable(address) {
                return Err(Unmeasurable::Unusable(address));
            }
            if placed.shared.contains(&address) {
                return Err(Unmeasurable::Shared(address));
            }
            let spot = plan.spot(placed, party).ok_or_else(|| Unmeasurable::NoNetwork(who.clone()))?;
            let name = self.cluster.namespace(&spot).ok_or(Unmeasurable::NotBuilt(who))?;
            Ok((spot, name, address))
        };
        let (from, from_name, source) = place(flow.source)?;
        let (to, to_name, destination) = place(flow.destination)?;
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(Unmeasurable::NoCommonFamily);
        }
        if from == Spot::Outside && to == Spot::Outside && flow.via.is_none() {
            return Err(Unmeasurable::BothOutside);
        }
        let mut probe = Probe { from: from_name, source, destination, traffic: flow.traffic, choice: 0 };
        if flow.via.is_some() {
            let dial = self.services.dial(&placed.snapshot, &flow);
            let dial = dial.ok_or(Unmeasurable::NoServiceAddress)?;
            probe.destination = dial.address;
            probe.traffic.port = dial.port;
            probe.choice = dial.choice;
        }
        let protocol = flow.traffic.protocol;
        let port = if protocol.has_ports() && protocol != Protocol::Sctp { flow.traffic.port } else { 0 };
        Ok((probe, (to_name, protocol, destination, port)))
    }
}

/// What no packet of this machine can show.
fn beyond(placed: &LabWorld, flow: &Flow, options: &Options) -> Result<(), Unmeasurable> {
    if flow.source.who == flow.destination.who
        && matches!(flow.source.who, Who::Pod(pod) if placed.given.pods()[pod].stand_in.is_some())
    {
        return Err(Unmeasurable::Template);
    }
    if placed.differs(flow, options) {
        return Err(Unmeasurable::LabAddress);
    }
    let here = placed.flow(flow);
    let evaluation = evaluate(&placed.snapshot, &here, options);
    if !evaluation.conditions().is_empty() {
        return Err(Unmeasurable::Layer7);
    }
    let sides = [(Direction::Egress, &evaluation.egress), (Direction::Ingress, &evaluation.ingress)];
    for (direction, side) in sides {
        let (own, _) = Context::ends(&here, direction);
        if placed.is_outside(own) && !matches!(side.because, Because::Exempt(_) | Because::Default) {
            return Err(Unmeasurable::OutsidePolicy);
        }
    }
    if evaluation.verdict == Verdict::Reject && is_icmp_error(&here) {
        return Err(Unmeasurable::IcmpError);
    }
    if here.traffic.source_port.is_none() && here.traffic.protocol.has_ports() {
        let from = |port: u16| {
            let traffic = Traffic { source_port: Some(port), ..here.traffic };
            placed.verdict(&Flow { traffic, ..here }, options)
        };
        if source_ports(&placed.snapshot).into_iter().any(|port| from(port) != evaluation.verdict) {
            return Err(Unmeasurable::SourcePort);
        }
    }
    let context = Context { snapshot: &placed.snapshot, options: *options };
    if let Some(service) = context.entrance(&here) {
        let rules = placed.snapshot.policies().iter().flat_map(|policy| &policy.rules);
        let mut gates = rules.filter(|rule| context.applies(&rule.subjects, Endpoint::Service(service)));
        if gates.next().is_some() {
            return Err(Unmeasurable::ServicePolicy);
        }
    }
    Ok(())
}

/// Whether it is a message about another packet.
fn is_icmp_error(flow: &Flow) -> bool {
    let Some((kind, _)) = flow.traffic.icmp.filter(|_| flow.traffic.protocol == Protocol::Icmp) else {
        return false;
    };
    match flow.destination.address {
        Some(IpAddr::V6(_)) => kind < 128,
        _ => matches!(kind, 3 | 4 | 5 | 11 | 12),
    }
}

/// A port of each stretch of source ports that rules tell apart, of those that a connection may come from by itself.
fn source_ports(snapshot: &Snapshot) -> BTreeSet<u16> {
    let mut ports = BTreeSet::new();
    for rule in snapshot.policies().iter().flat_map(|policy| &policy.rules) {
        let TrafficMatches::Of(all) = &rule.traffic else { continue };
        for wanted in all {
            if let TrafficMatch::From(range, _) = wanted {
                ports.extend([range.first, range.last.saturating_add(1), PortRange::EPHEMERAL.first]);
            }
        }
    }
    ports.retain(|port| PortRange::EPHEMERAL.contains(*port));
    ports
}
