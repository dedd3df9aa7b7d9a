//! The map of a cluster: from its snapshot to every pair of classes, and to every row that somebody could want to see.
//!
//! What is counted is this thread's time on the CPU. Each run is a process of its own, so that its memory is its own; of
//! several the best figure counts, because everything else on the machine only adds to it.

mod arguments;
pub mod cluster;
pub mod hard;
mod make;
mod report;

use std::hint::black_box;
use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use palisade_analysis::diff::{self, Diff};
use palisade_analysis::map::{Level, Map, RowFilter};
use palisade_analysis::reach::cells::{CellId, Cells};
use palisade_analysis::reach::cuts::Cuts;
use palisade_analysis::reach::{Matrix, Reach};
use palisade_model::address::Family;
use palisade_model::options::Options;
use palisade_model::policy::Direction;
use palisade_model::snapshot::{Objects, Snapshot};
use palisade_model::trace::Verdict;
use palisade_model::verdicts::Verdicts;
use serde::{Deserialize, Serialize};

use crate::measure::{cpu_time, flows, peak_bytes, resident_bytes};
use crate::process;
use crate::random::Random;
pub use arguments::Arguments;
pub use cluster::Size;
pub use hard::Shape;
pub use report::table;

/// What is mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// A cluster like a real one, from a seed.
    Real(Size, u64),
    /// A hard one, with so many of what there are many of.
    Hard(Shape, usize),
}

/// The figures of one run. Times are in seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    /// What was mapped.
    pub subject: Subject,
    /// How many pods it has.
    pub pods: usize,
    /// How many policies.
    pub policies: usize,
    /// From the objects to the snapshot, which is no part of the map.
    pub snapshot: f64,
    /// The boundaries of addresses and source ports.
    pub cuts: f64,
    /// Groups, programs, classes, and the row of every program.
    pub reach: f64,
    /// Every pair of classes, once, but for those of two outside.
    pub matrix: f64,
    /// How many classes there are, and of those how many are outside addresses.
    pub classes: u32,
    /// Those.
    pub outside: u32,
    /// How many different rows there are, egress and ingress.
    pub programs: usize,
    /// How many different cells.
    pub cells: usize,
    /// How many sets of traffic.
    pub traffics: u32,
    /// Of all that the matrix says, so that two runs, and two states of the code, can be compared.
    pub checksum: u64,
    /// The map: reach over both families, workloads and their kinds.
    pub map: f64,
    /// How many workloads there are.
    pub workloads: usize,
    /// Of how many kinds.
    pub kinds: usize,
    /// All rows of the map, to somebody who only counts them.
    pub rows: Rows,
    /// What the process held with nothing but the snapshot.
    pub before_bytes: u64,
    /// The most it ever held, up to the last row.
    pub peak_bytes: u64,
    /// The same cluster without one in fifty of its policies, compared with it.
    pub diff: Difference,
    /// The way of those who ask about each pair of pods.
    pub pairs: Option<Pairs>,
}

/// Two clusters compared.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Difference {
    /// Working out both, with the boundaries of both.
    pub maps: f64,
    /// Finding every pair of workloads that may do something else.
    pub changes: f64,
    /// How many there are.
    pub count: u64,
    /// Whether all were told.
    pub all: bool,
}

/// Rows, told one after the other.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Rows {
    /// How many.
    pub count: u64,
    /// How long they took; as far as they were told, if that was long enough.
    pub seconds: f64,
    /// Whether all were told.
    pub all: bool,
}

/// Pairs of pods, asked one by one, each about one port.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Pairs {
    /// How many were asked about.
    pub asked: usize,
    /// How long that took.
    pub seconds: f64,
    /// How long all pairs would take, each about one port.
    pub all_seconds: f64,
}

/// How many pairs are asked about.
const ASKED: usize = 100_000;
/// Nobody waits longer for rows than this.
const LONG: Duration = Duration::from_secs(20);

/// Measures in this process. `pairs` says whether the pairs of pods are asked about too.
pub fn run(subject: Subject, pairs: bool) -> Figures {
    let objects = subject.objects();
    let (snapshot, snapshot_seconds) = timed(|| Snapshot::new(objects));
    let options = Options::default();
    let before_bytes = resident_bytes().unwrap_or(0);
    let (cuts, cuts_seconds) = timed(|| Cuts::of([&snapshot]));
    let mut cells = Cells::new(cuts.space().clone());
    let (reach, reach_seconds) = timed(|| Reach::new(&snapshot, &options, Family::V4, &cuts, &mut cells));
    let (_, matrix) = timed(|| touch(&reach, &mut cells));
    let checksum = fingerprint(&reach, &mut cells);
    let mut figures = Figures {
        subject,
        pods: snapshot.pods().len(),
        policies: snapshot.policies().len(),
        snapshot: snapshot_seconds,
        cuts: cuts_seconds,
        reach: reach_seconds,
        matrix,
        classes: reach.len(),
        outside: reach.outside().end - reach.outside().start,
        programs: Direction::BOTH.iter().map(|direction| reach.rows(*direction).len()).sum(),
        cells: cells.len(),
        traffics: cells.traffics.len(),
        checksum,
        map: 0.0,
        workloads: 0,
        kinds: 0,
        rows: Rows { count: 0, seconds: 0.0, all: true },
        before_bytes,
        peak_bytes: 0,
        diff: Difference::default(),
        pairs: None,
    };
    drop(reach);
    drop(cells);
    let mut cells = Cells::new(cuts.space().clone());
    let (map, seconds) = timed(|| Map::new(&snapshot, &options, Level::Workloads, &cuts, &mut cells));
    figures.map = seconds;
    figures.workloads = map.workloads.len();
    figures.kinds = map.kinds().len();
    figures.rows = count_rows(&map, &cuts, &mut cells);
    figures.peak_bytes = peak_bytes().unwrap_or(0);
    drop(map);
    drop(cells);
    figures.diff = compare(&snapshot, subject, &options);
    figures.pairs = pairs.then(|| ask(&snapshot, &options));
    figures
}

/// Every cell of the matrix.
pub fn touch(reach: &Reach<'_>, cells: &mut Cells) -> u64 {
    let mut matrix = Matrix::new(reach, cells);
    let mut sum = 0_u64;
    for source in 0..reach.len() {
        let row = &matrix.from(source, cells)[..destinations(reach, source)];
        sum += row.iter().map(|cell| u64::from(cell.0)).sum::<u64>();
    }
    sum
}

/// How many classes somebody can want to reach: from outside only those inside.
fn destinations(reach: &Reach<'_>, source: u32) -> usize {
    let outside = reach.outside();
    if source < outside.start { outside.end as usize } else { outside.start as usize }
}

/// A number for the whole matrix that depends on what its cells are, not on how they are numbered.
fn fingerprint(reach: &Reach<'_>, cells: &mut Cells) -> u64 {
    let mut matrix = Matrix::new(reach, cells);
    let mut contents: Vec<u64> = Vec::new();
    let mut sum = 0_u64;
    for source in 0..reach.len() {
        let row = &matrix.from(source, cells)[..destinations(reach, source)];
        for at in contents.len()..cells.len() {
            let cell = cells.get(CellId(u32::try_from(at).unwrap_or(0)));
            let mut content = 0_u64;
            for set in [cell.allow, cell.reject] {
                for (first, last) in cells.traffics.set(set).intervals() {
                    content = Random::new(content ^ u64::from(*first) << 32 ^ u64::from(*last)).number();
                }
                content = Random::new(content).number();
            }
            contents.push(content);
        }
        for cell in row {
            sum = sum.rotate_left(1).wrapping_add(contents[cell.0 as usize]);
        }
    }
    sum
}

fn count_rows(map: &Map<'_>, cuts: &Cuts, cells: &mut Cells) -> Rows {
    let select = RowFilter { families: vec![Family::V4], ..RowFilter::default() };
    let (mut count, start) = (0_u64, cpu_time());
    let told = map.rows(&select, cuts, cells, |_, row| {
        black_box(row);
        count += 1;
        long_enough(count, start)
    });
    Rows { count, seconds: cpu_time().saturating_sub(start).as_secs_f64(), all: told.is_continue() }
}

/// One in so many policies goes.
const GOES: usize = 50;

fn compare(before: &Snapshot, subject: Subject, options: &Options) -> Difference {
    let mut objects = subject.objects();
    let mut at = 0;
    objects.policies.retain(|_| {
        at += 1;
        at % GOES != 1
    });
    let after = Snapshot::new(objects);
    let start = cpu_time();
    let cuts = Cuts::of([before, &after]);
    let mut cells = Cells::new(cuts.space().clone());
    let diff = Diff::new(before, &after, options, Level::Workloads, &cuts, &mut cells);
    let maps = cpu_time().saturating_sub(start).as_secs_f64();
    let select = diff::ChangeFilter { families: vec![Family::V4], ..diff::ChangeFilter::default() };
    let (mut count, start) = (0_u64, cpu_time());
    let told = diff.changes(&select, &cuts, &mut cells, |_, change| {
        black_box(change);
        count += 1;
        long_enough(count, start)
    });
    let changes = cpu_time().saturating_sub(start).as_secs_f64();
    Difference { maps, changes, count, all: told.is_continue() }
}

/// The clock is looked at now and then only: asking costs more than a row.
fn long_enough(count: u64, start: Duration) -> ControlFlow<()> {
    if count.is_multiple_of(1 << 20) && cpu_time().saturating_sub(start) > LONG {
        return ControlFlow::Break(());
    }
    ControlFlow::Continue(())
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn ask(snapshot: &Snapshot, options: &Options) -> Pairs {
    let verdicts = Verdicts::new(snapshot, options);
    let flows = flows(snapshot, ASKED);
    let allowed = || flows.iter().filter(|flow| verdicts.verdict(black_box(flow)) == Verdict::Allow).count();
    let (_, seconds) = timed(allowed);
    let all = (snapshot.pods().len() as f64).powi(2);
    Pairs { asked: ASKED, seconds, all_seconds: seconds / ASKED as f64 * all }
}

fn timed<T>(run: impl FnOnce() -> T) -> (T, f64) {
    let start = cpu_time();
    let result = black_box(run());
    (result, cpu_time().saturating_sub(start).as_secs_f64())
}

/// The best figures of several runs, each in a process of its own.
pub fn best(subject: Subject, runs: usize) -> io::Result<Figures> {
    let mut best: Option<Figures> = None;
    for nth in 0..runs.max(1) {
        let mut arguments = subject.arguments();
        if nth == 0 {
            arguments.push("--pairs".to_owned());
        }
        for found in process::lines::<Figures>(&arguments)? {
            best = Some(match best {
                Some(best) => best.or(&found)?,
                None => found,
            });
        }
    }
    best.ok_or_else(|| io::Error::other("no figures"))
}

// === impl Subject ===

impl Subject {
    /// Its objects.
    pub fn objects(self) -> Objects {
        match self {
            Subject::Real(size, seed) => cluster::objects(size, seed),
            Subject::Hard(shape, count) => shape.objects(count),
        }
    }

    /// What this program has to be called with to measure it once.
    fn arguments(self) -> Vec<String> {
        let more = match self {
            Subject::Real(Size { namespaces, pods, policies }, seed) => {
                format!("--pods {pods} --policies {policies} --namespaces {namespaces} --seed {seed}")
            }
            Subject::Hard(shape, count) => {
                let name = clap::ValueEnum::to_possible_value(&shape);
                let name = name.map(|name| name.get_name().to_owned()).unwrap_or_default();
                format!("--hard {name} --count {count}")
            }
        };
        let all = format!("map --runs 1 --output json {more}");
        all.split(' ').map(str::to_owned).collect()
    }
}

// === impl Figures ===

impl Figures {
    /// The better of each figure. What is no figure must be the same: it does not depend on the run.
    fn or(self, other: &Figures) -> io::Result<Figures> {
        if (self.checksum, self.classes, self.cells) != (other.checksum, other.classes, other.cells) {
            return Err(io::Error::other(format!("two runs, two maps: {self:?}, {other:?}")));
        }
        let rows = if other.rows.seconds < self.rows.seconds { other.rows } else { self.rows };
        Ok(Figures {
            snapshot: self.snapshot.min(other.snapshot),
            cuts: self.cuts.min(other.cuts),
            reach: self.reach.min(other.reach),
            matrix: self.matrix.min(other.matrix),
            map: self.map.min(other.map),
            rows,
            diff: Difference {
                maps: self.diff.maps.min(other.diff.maps),
                changes: self.diff.changes.min(other.diff.changes),
                ..self.diff
            },
            peak_bytes: self.peak_bytes.min(other.peak_bytes),
            ..self
        })
    }

    /// From the snapshot to the last cell of the matrix.
    pub fn whole(&self) -> f64 {
        self.cuts + self.reach + self.matrix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_all_figures() {
        let figures = run(Subject::Real(Size::new(500, 200), 1), true);
        assert!(figures.classes > figures.outside && figures.outside > 1, "{figures:?}");
        assert!(figures.rows.count > 0 && figures.rows.all, "{figures:?}");
        assert!(figures.diff.count > 0 && figures.diff.all, "{figures:?}");
        assert!(figures.pairs.is_some_and(|pairs| pairs.all_seconds > pairs.seconds), "{figures:?}");
        assert!(table(&[figures], 1).contains("200 policies"));
    }

    #[test]
    fn hard_ones_have_what_they_are_about() {
        for shape in <Shape as clap::ValueEnum>::value_variants() {
            let figures = run(Subject::Hard(*shape, 100), false);
            assert!(figures.classes > 10 && figures.rows.all, "{figures:?}");
        }
    }
}
