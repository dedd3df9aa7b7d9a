//! The index on the peers' scenarios: from the first event to the complete view, and single events on top of it.
//!
//! Events are made in chunks and only their application is timed. Memory is the most the process held, above what it held
//! before the first event.

use std::hint::black_box;
use std::time::{Duration, Instant};

use palisade_engine::{Engine, Event};
use serde::Serialize;

use crate::measure::{cpu_time, peak_bytes, resident_bytes};
use crate::scenario::Scenario;

/// The figures of a scenario.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Which one.
    pub scenario: String,
    /// By the clock.
    pub seconds: f64,
    /// On the CPU.
    pub cpu_seconds: f64,
    /// The most memory, above the empty process.
    pub rss_bytes: u64,
    /// How many events there were.
    pub events: usize,
    /// How many distinct selections of pods rules apply to.
    pub subjects: usize,
    /// How many distinct selections of pods rules name as peers.
    pub address_sets: usize,
    /// How many rules there are.
    pub rules: usize,
    /// How many changes the view took.
    pub deltas: usize,
}

/// Runs a scenario, so many times its size.
pub fn run(scenario: Scenario, size: usize) -> (Figures, Engine) {
    let before = resident_bytes().unwrap_or(0);
    let mut engine = Engine::default();
    let (mut wall, mut cpu) = (Duration::ZERO, Duration::ZERO);
    let (mut events, mut deltas) = (0, 0);
    scenario.events(size, &mut |chunk: Vec<Event>| {
        events += chunk.len();
        let (clock, start) = (Instant::now(), cpu_time());
        for event in chunk {
            deltas += black_box(engine.apply(event)).changes.len();
        }
        wall += clock.elapsed();
        cpu += cpu_time().saturating_sub(start);
    });
    if scenario == Scenario::S8 {
        (wall, cpu, events) = queries(&engine);
    }
    let peak = peak_bytes().unwrap_or(0);
    let counts = engine.counts();
    let figures = Figures {
        scenario: format!("{scenario:?}"),
        seconds: wall.as_secs_f64(),
        cpu_seconds: cpu.as_secs_f64(),
        rss_bytes: peak.saturating_sub(before),
        events,
        subjects: counts.subjects,
        address_sets: counts.address_sets,
        rules: counts.rules,
        deltas,
    };
    (figures, engine)
}

/// A thousand times: which policies apply to this pod?
fn queries(engine: &Engine) -> (Duration, Duration, usize) {
    const QUERIES: usize = 1000;
    let (clock, start) = (Instant::now(), cpu_time());
    let mut policies = 0;
    for pod in 0..QUERIES {
        policies += engine.policies_of(pod).map(black_box).count();
    }
    let figures = (clock.elapsed(), cpu_time().saturating_sub(start), QUERIES);
    black_box(policies);
    figures
}

// === impl Figures ===

impl Figures {
    /// In one line.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub fn line(&self) -> String {
        format!(
            "{}  {:>8.1} ms  {:>8.1} ms CPU  {:>7.1} MB  {} events, {} subjects, {} address sets, {} rules, {} deltas\n",
            self.scenario,
            self.seconds * 1e3,
            self.cpu_seconds * 1e3,
            self.rss_bytes as f64 / 1e6,
            self.events,
            self.subjects,
            self.address_sets,
            self.rules,
            self.deltas
        )
    }
}
