//! How long a node's full program takes: to compile, to write down, and for `nft -f -` to put into the kernel.

use std::io::{self, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use palisade_lab::namespace::{self, Run};
use palisade_lab::tool;
use palisade_nftables::text::TABLE;
use serde::Serialize;

use super::shapes::Shape;
use super::wire::refused;
use super::{Settings, going, keep};
use crate::measure::cpu_time;

/// The figures of one shape.
#[derive(Debug, Serialize)]
pub struct Loaded {
    /// Which one.
    pub shape: Shape,
    /// How many peers its pods have.
    pub peers: usize,
    /// Chains of the program.
    pub chains: usize,
    /// Rules.
    pub rules: usize,
    /// Sets and maps.
    pub sets: usize,
    /// What is in them.
    pub elements: usize,
    /// Bytes of text.
    pub text_bytes: usize,
    /// From the whole view to the node's part, on the CPU.
    pub part_seconds: f64,
    /// From there to the program, on the CPU.
    pub compile_seconds: f64,
    /// From there to the text, on the CPU.
    pub text_seconds: f64,
    /// `nft -f -` where there was nothing, by the clock; the best.
    pub nft_seconds: f64,
    /// The same where the program was there already.
    pub replace_seconds: f64,
    /// The most memory nft held.
    pub nft_bytes: u64,
}

/// A namespace that has nothing but rules.
struct Place(String);

/// What takes longer than so many seconds is not worth a second look.
const ENOUGH: f64 = 2.0;
/// How often nft is looked at, for its memory.
const GLANCE: Duration = Duration::from_millis(2);

/// The figures of these shapes, for so many peers, each loaded so often. Shapes are let go of one by one: one at a time is large
/// enough.
pub fn run(
    shapes: &[Shape],
    peers: usize,
    runs: usize,
    settings: &Settings,
    say: &mut dyn FnMut(&str),
) -> io::Result<Vec<Loaded>> {
    let mut all = Vec::new();
    for (number, shape) in shapes.iter().enumerate() {
        going(&settings.stop)?;
        say(&format!("loading: {}", shape.title()));
        all.push(measure(*shape, shape.peers(peers), runs, number, settings)?);
    }
    Ok(all)
}

fn measure(
    shape: Shape,
    peers: usize,
    runs: usize,
    number: usize,
    settings: &Settings,
) -> io::Result<Loaded> {
    let compiled = shape.compiled(peers)?;
    let program = &compiled.program;
    let begun = cpu_time();
    let text = program.replace();
    let text_took = cpu_time().saturating_sub(begun);
    keep(settings.keep.as_deref(), shape.title(), &text)?;
    let place = Place::new(u32::try_from(number).unwrap_or_default())?;
    let (mut fresh, mut again, mut most) = (f64::INFINITY, f64::INFINITY, 0);
    for _ in 0..runs.max(1) {
        going(&settings.stop)?;
        let (took, bytes) = place.nft(&text)?;
        (fresh, most) = (fresh.min(took), most.max(bytes));
        let (took, bytes) = place.nft(&text)?;
        (again, most) = (again.min(took), most.max(bytes));
        tool::nft(&place.0, &format!("delete table inet {TABLE}\n")).map_err(refused)?;
        if fresh > ENOUGH {
            break;
        }
    }
    Ok(Loaded {
        shape,
        peers,
        chains: program.chains.len(),
        rules: program.chains.values().map(|chain| chain.rules.len()).sum(),
        sets: program.sets.len(),
        elements: program.sets.values().map(|set| set.elements.len()).sum(),
        text_bytes: text.len(),
        part_seconds: compiled.part_took.as_secs_f64(),
        compile_seconds: compiled.compile_took.as_secs_f64(),
        text_seconds: text_took.as_secs_f64(),
        nft_seconds: fresh,
        replace_seconds: again,
        nft_bytes: most,
    })
}

// === impl Place ===

impl Place {
    fn new(number: u32) -> io::Result<Place> {
        let name = Run::own(number).map_err(refused)?.name("load");
        tool::ip(None, &format!("netns add {name}\n")).map_err(refused)?;
        Ok(Place(name))
    }

    /// Loads a text: how long by the clock, and the most memory nft was seen to hold.
    fn nft(&self, text: &str) -> io::Result<(f64, u64)> {
        let begun = Instant::now();
        let mut child = namespace::inside(&self.0, || {
            let mut command = Command::new("nft");
            command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()
        })
        .map_err(refused)??;
        let (process, over) = (child.id(), AtomicBool::new(false));
        let (ended, bytes) = std::thread::scope(|scope| {
            let watch = scope.spawn(|| {
                let mut most = 0;
                while !over.load(Ordering::Relaxed) {
                    most = most.max(peak_of(process).unwrap_or(0));
                    std::thread::sleep(GLANCE);
                }
                most
            });
            let written = child.stdin.take().map(|mut stdin| stdin.write_all(text.as_bytes()));
            let ended = child.wait().map(|status| (status, begun.elapsed()));
            over.store(true, Ordering::Relaxed);
            (written.transpose().and(ended), watch.join().unwrap_or(0))
        });
        let (status, took) = ended?;
        if !status.success() {
            return Err(io::Error::other(format!("nft refused a program: {status}")));
        }
        Ok((took.as_secs_f64(), bytes))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // There is nobody left to tell; the next run cleans up what is left.
        let _ = tool::ip(None, &format!("netns delete {}\n", self.0));
    }
}

/// The most memory a process has held so far.
fn peak_of(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
