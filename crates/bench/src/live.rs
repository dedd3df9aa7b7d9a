//! The index on the peers' scenarios: from the first event to the complete view.
//!
//! Events are made in chunks and only their application is timed. Memory is the most the process held, above what it held
//! before the first event. In S7 and S8 what is timed comes after the load.

use std::hint::black_box;
use std::time::{Duration, Instant};

use palisade_engine::Engine;
use palisade_model::event::{Event, Item};
use serde::{Deserialize, Serialize};

use crate::measure::{cpu_time, peak_bytes, resident_bytes};
use crate::scenario::{Scale, Scenario};

/// The figures of a scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    /// Which one.
    pub scenario: String,
    /// By the clock.
    pub seconds: f64,
    /// On the CPU.
    pub cpu_seconds: f64,
    /// The most memory, above the empty process.
    pub rss_bytes: u64,
    /// How many events there were; in S7 how often a member left and came back, in S8 how many questions.
    pub events: usize,
    /// How many distinct selections of pods rules apply to.
    pub subjects: usize,
    /// How many distinct selections of pods rules name as peers.
    pub address_sets: usize,
    /// How many rules there are.
    pub rules: usize,
    /// How many changes the index handed on.
    pub deltas: usize,
}

/// How long something took.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    wall: Duration,
    cpu: Duration,
}

/// How often in S7 a member leaves and comes back.
const RETURNS: usize = 10_000;
/// How many questions there are in S8.
const QUESTIONS: usize = 1000;

/// Runs a scenario.
pub fn run(scenario: Scenario, scale: Scale) -> (Figures, Engine) {
    let before = resident_bytes().unwrap_or(0);
    let mut engine = Engine::default();
    let mut took = Took::default();
    let (mut events, mut deltas) = (0, 0);
    scenario.events(scale, &mut |chunk| {
        events += chunk.len();
        deltas += took.time(|| apply(&mut engine, chunk));
    });
    match scenario {
        Scenario::S7 => (took, events, deltas) = returns(&mut engine, scale),
        Scenario::S8 => (took, events) = questions(&engine),
        _ => {}
    }
    let peak = peak_bytes().unwrap_or(0);
    let counts = engine.counts();
    let figures = Figures {
        scenario: format!("{scenario:?}"),
        seconds: took.wall.as_secs_f64(),
        cpu_seconds: took.cpu.as_secs_f64(),
        rss_bytes: peak.saturating_sub(before),
        events,
        subjects: counts.subjects,
        address_sets: counts.address_sets,
        rules: counts.rules,
        deltas,
    };
    (figures, engine)
}

/// The index of a scenario.
pub fn load(scenario: Scenario, scale: Scale) -> Engine {
    let mut engine = Engine::default();
    scenario.events(scale, &mut |chunk| {
        apply(&mut engine, chunk);
    });
    engine
}

/// Applies events, and says how many changes that made.
pub fn apply(engine: &mut Engine, events: Vec<Event>) -> usize {
    events.into_iter().map(|event| black_box(engine.apply(event)).changes.len()).sum()
}

/// One member of the address group leaves and comes back, each of them in turn. The peer repeats its `syncAddressGroup`,
/// which works out all members and all nodes of the group anew whatever happened. An index that keeps them has no such
/// step: what it does instead is to take in the event after which the peer would run that, and here it is two of them.
fn returns(engine: &mut Engine, scale: Scale) -> (Took, usize, usize) {
    let mut pods = Vec::new();
    Scenario::S7.events(scale, &mut |chunk| {
        pods.extend(chunk.into_iter().filter_map(|event| match event {
            Event::Apply(Item::Pod(pod)) => Some(Item::Pod(pod)),
            _ => None,
        }));
    });
    let (mut took, mut deltas) = (Took::default(), 0);
    for pod in pods.iter().cycle().take(RETURNS) {
        let events = vec![Event::Delete(pod.key()), Event::Apply(pod.clone())];
        deltas += took.time(|| apply(engine, events));
    }
    (took, RETURNS, deltas)
}

/// A thousand times: which policies apply to this pod?
fn questions(engine: &Engine) -> (Took, usize) {
    let mut took = Took::default();
    let ask = || (0..QUESTIONS).map(|pod| engine.policies_of(pod).map(black_box).count()).sum::<usize>();
    black_box(took.time(ask));
    (took, QUESTIONS)
}

// === impl Took ===

impl Took {
    fn time<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let (clock, start) = (Instant::now(), cpu_time());
        let result = run();
        self.cpu += cpu_time().saturating_sub(start);
        self.wall += clock.elapsed();
        result
    }
}
