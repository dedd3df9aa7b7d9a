//! What rules cost a packet, and what it takes to load them: in the real kernel, over links of this machine.
//!
//! ```text
//!   cluster (10,000 pods, as many policies as asked for) ──► the node's program, and the same as plain rules (naive)
//!                                                               │
//!   wire (client ── node ── server, once for each program) ◄────┘
//!     ├─ send    UDP of one flow, UDP of new flows, TCP connections; timed in small batches
//!     └─ stream  iperf3, where it is there
//!   loading (full programs of several shapes through `nft -f -`)
//! ```
//!
//! All programs are measured in one run, a slice of each in turn, round after round: whatever else the machine does hits all alike.
//! And it only ever adds: the figure is that of the quiet rounds, a tenth of all, and the spread is told next to it.

pub mod cluster;
pub mod loading;
pub mod naive;
pub mod report;
pub mod send;
pub mod shapes;
pub mod stream;
pub mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use palisade_lab::{clean, tool};
use palisade_nftables::program::Program;
use serde::Serialize;

use self::cluster::Cluster;
use self::send::{Load, quantile};
use self::wire::{Sockets, Wire, refused};

/// What is measured, and how thoroughly.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How often each program is measured under each load.
    pub rounds: usize,
    /// How long, each time.
    pub slice: Duration,
    /// How many policies there are, in rising order.
    pub policies: Vec<usize>,
    /// How often each has a stream of iperf3; 0 for never.
    pub streams: usize,
    /// Files with rules for the node that are measured too.
    pub also: Vec<PathBuf>,
    /// Where to write the programs down, for looking at them.
    pub keep: Option<PathBuf>,
    /// Set when it shall end.
    pub stop: Arc<AtomicBool>,
}

/// The figures of all programs.
#[derive(Debug, Serialize)]
pub struct Report {
    /// How often each was measured.
    pub rounds: usize,
    /// Each of them; the first two have no policies.
    pub rows: Vec<Row>,
    /// Why there are no streams, if there are none.
    pub no_streams: Option<String>,
}

/// The figures of one program.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What it is.
    pub name: String,
    /// How many policies it is made of, if it is ours.
    pub policies: Option<usize>,
    /// How large it is, in words.
    pub size: String,
    /// Nanoseconds for each packet or connection.
    pub loads: BTreeMap<Load, Figures>,
    /// Bits in a second.
    pub stream: Option<Figures>,
}

/// Many measurements of the same.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// The one that a tenth was better than: what it is when nobody disturbs.
    pub quiet: f64,
    /// The one in the middle.
    pub median: f64,
    /// The one that a quarter was worse than.
    pub noisy: f64,
    /// To "conntrack only", both when nobody disturbs.
    pub ratio: f64,
    /// All of them, by round.
    pub rounds: BTreeMap<usize, f64>,
}

/// A program in its place. Sockets go before the wire.
struct Subject {
    row: Row,
    sockets: Sockets,
    wire: Wire,
    /// How many counters a new flow moves; none where we do not know.
    counts: Option<usize>,
    /// Measurements by round.
    times: BTreeMap<Load, BTreeMap<usize, f64>>,
    streams: BTreeMap<usize, f64>,
    /// Loads of which even one batch takes many times as long as a slice should.
    slow: BTreeSet<Load>,
}

/// The row that others are compared with.
const BASE: usize = 1;
/// A program that is slow is measured in one of so many rounds.
const SELDOM: usize = 8;

const CONNTRACK: &str = "table inet conntrack {\n\tchain forward {\n\t\ttype filter hook forward priority filter; policy accept;\n\
     \t\tct state established,related accept\n\t\taccept\n\t}\n}\n";

/// What is missing for any of this, in words.
pub fn missing() -> Vec<String> {
    tool::missing()
}

/// Measures what packets cost.
pub fn run(settings: &Settings, say: &mut dyn FnMut(&str)) -> io::Result<Report> {
    clean::leftovers().map_err(refused)?;
    let mut subjects = subjects(settings, say)?;
    for round in 0..settings.rounds.max(1) {
        say(&format!("round {} of {}", round + 1, settings.rounds));
        for load in Load::ALL {
            for at in 0..subjects.len() {
                // Nobody always follows the same one.
                let at = (at + round) % subjects.len();
                if let Some(subject) = subjects.get_mut(at) {
                    subject.measure(load, round, settings)?;
                }
            }
        }
    }
    let no_streams = match stream::missing() {
        _ if settings.streams == 0 => Some("not asked for".to_owned()),
        Some(why) => Some(why),
        None => None,
    };
    for round in 0..if no_streams.is_none() { settings.streams } else { 0 } {
        say(&format!("iperf3, round {} of {}", round + 1, settings.streams));
        for subject in &mut subjects {
            going(&settings.stop)?;
            let rate = stream::run(&subject.wire)?;
            subject.streams.insert(round, rate);
        }
    }
    let base = subjects.get(BASE).map(|base| (base.times.clone(), base.streams.clone())).unwrap_or_default();
    let rows = subjects.into_iter().map(|subject| subject.figures(&base.0, &base.1)).collect();
    Ok(Report { rounds: settings.rounds, rows, no_streams })
}

/// All programs, each in its place and seen to decide.
fn subjects(settings: &Settings, say: &mut dyn FnMut(&str)) -> io::Result<Vec<Subject>> {
    let cluster = Cluster::new()?;
    let mut programs: Vec<Plan> = vec![
        Plan { name: "no rules".to_owned(), ..Plan::default() },
        Plan {
            name: "conntrack only".to_owned(),
            text: CONNTRACK.to_owned(),
            size: "2 rules".to_owned(),
            ..Plan::default()
        },
    ];
    let (mut ours, mut plain) = (Vec::new(), Vec::new());
    let most = settings.policies.iter().copied().max();
    for count in settings.policies.iter().copied() {
        going(&settings.stop)?;
        say(&format!("compiling {count} policies"));
        let compiled = cluster.compiled(count, false);
        let plan = |program: &Program, name: String| Plan {
            name,
            text: program.replace(),
            size: size(program),
            policies: Some(count),
            counts: Some(1),
            ..Plan::default()
        };
        ours.push(plan(&compiled.program, format!("palisade, {count} policies")));
        if most == Some(count) {
            let name = format!("palisade, {count}, a range of ports");
            ours.push(plan(&cluster.compiled(count, true).program, name));
            let here = plan(&compiled.program, format!("palisade, {count}, both ends here"));
            ours.push(Plan { near: true, counts: Some(2), ..here });
        }
        let naive = naive::program(&compiled.part, cluster.far);
        plain.push(Plan {
            name: format!("plain rules, {count} policies"),
            text: naive.text,
            size: format!("{} rules, {} before the one", naive.rules, naive.before),
            counts: Some(1),
            ..Plan::default()
        });
    }
    programs.extend(ours);
    programs.extend(plain);
    for path in &settings.also {
        let text = std::fs::read_to_string(path)?;
        programs.push(Plan { name: path.display().to_string(), text, ..Plan::default() });
    }
    let mut subjects = Vec::new();
    for (number, plan) in programs.into_iter().enumerate() {
        going(&settings.stop)?;
        say(&format!("loading {}", plan.name));
        keep(settings.keep.as_deref(), &plan.name, &plan.text)?;
        let ends = if plan.near { cluster.near } else { cluster.far };
        let wire = Wire::new(u32::try_from(number).unwrap_or_default(), ends)?;
        let sockets = wire.sockets()?;
        wire.enforce(&plan.text)?;
        let row = Row {
            name: plan.name,
            policies: plan.policies,
            size: plan.size,
            loads: BTreeMap::new(),
            stream: None,
        };
        let subject = Subject {
            row,
            sockets,
            wire,
            counts: plan.counts,
            times: BTreeMap::new(),
            streams: BTreeMap::new(),
            slow: BTreeSet::new(),
        };
        subject.verify()?;
        subjects.push(subject);
    }
    Ok(subjects)
}

/// A program that will be measured.
#[derive(Debug, Clone, Default)]
struct Plan {
    name: String,
    text: String,
    size: String,
    policies: Option<usize>,
    near: bool,
    counts: Option<usize>,
}

/// How large a program is, in words.
fn size(program: &Program) -> String {
    let elements: usize = program.sets.values().map(|set| set.elements.len()).sum();
    format!("{} chains, {} sets, {elements} elements", program.chains.len(), program.sets.len())
}

/// Writes a program down, if there is a folder for it.
fn keep(folder: Option<&Path>, name: &str, text: &str) -> io::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    std::fs::create_dir_all(folder)?;
    let name: Vec<&str> = name.split([' ', ',', '/']).filter(|part| !part.is_empty()).collect();
    std::fs::write(folder.join(format!("{}.nft", name.join("-"))), text)
}

/// An error when it shall end.
pub fn going(stop: &AtomicBool) -> io::Result<()> {
    if stop.load(Ordering::Relaxed) {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "interrupted"));
    }
    Ok(())
}

// === impl Subject ===

impl Subject {
    /// That it is this program that decides: its counters say so, and what it does not allow does not arrive.
    fn verify(&self) -> io::Result<()> {
        let Some(expected) = self.counts else { return Ok(()) };
        let before: BTreeMap<String, u64> = self.wire.counted()?.into_iter().collect();
        let named = |error: io::Error| io::Error::other(format!("{}: {error}", self.row.name));
        let sent = send::verify(&self.wire, &self.sockets, true).map_err(named)?;
        let after = self.wire.counted()?;
        let moved =
            |(name, count): &&(String, u64)| *count == before.get(name).copied().unwrap_or_default() + sent;
        let found = after.iter().filter(moved).count();
        if found != expected {
            return Err(named(io::Error::other(format!(
                "{sent} new flows should move {expected} of its counters, and moved {found}"
            ))));
        }
        Ok(())
    }

    fn measure(&mut self, load: Load, round: usize, settings: &Settings) -> io::Result<()> {
        going(&settings.stop)?;
        if self.slow.contains(&load) && !round.is_multiple_of(SELDOM) {
            return Ok(());
        }
        let time = load.run(&self.wire, &self.sockets, settings.slice, &settings.stop)?;
        if time * f64::from(load.batch()) > settings.slice.as_secs_f64() * 3e9 {
            self.slow.insert(load);
        }
        self.times.entry(load).or_default().insert(round, time);
        Ok(())
    }

    fn figures(mut self, base: &BTreeMap<Load, BTreeMap<usize, f64>>, streams: &BTreeMap<usize, f64>) -> Row {
        let loads = self
            .times
            .iter()
            .filter_map(|(load, own)| Some((*load, Figures::of(own, base.get(load)?, false)?)));
        self.row.loads = loads.collect();
        self.row.stream = Figures::of(&self.streams, streams, true);
        self.row
    }
}

// === impl Figures ===

impl Figures {
    /// Of measurements by round, next to others. Of times the least are the quiet ones, of rates the most.
    fn of(own: &BTreeMap<usize, f64>, base: &BTreeMap<usize, f64>, rates: bool) -> Option<Figures> {
        let twentieths = |values: &BTreeMap<usize, f64>, part: usize| {
            quantile(values.values().copied(), if rates { 20 - part } else { part }, 20)
        };
        let quiet = twentieths(own, 2)?;
        Some(Figures {
            quiet,
            median: twentieths(own, 10)?,
            noisy: twentieths(own, 15)?,
            ratio: quiet / twentieths(base, 2)?,
            rounds: own.clone(),
        })
    }
}
