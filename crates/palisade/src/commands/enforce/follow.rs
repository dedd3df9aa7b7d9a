//! Enforces: puts what the files say into the kernel, waits for what changes, and follows it.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use palisade_agent::links::Links;
use palisade_agent::lock::{Alone, Lock};
use palisade_agent::machine::network::{Ip, Network};
use palisade_agent::metrics::serve::Scrapes;
use palisade_agent::state::State;
use palisade_agent::watch::{Survey, Watch};
use palisade_nftables::kernel::Linux;
use palisade_report::text::{NL, Text};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::{NO, UNANSWERED, YES};
use super::enforcer::Enforcer;
use crate::Outcome;
use crate::cli::{ColorChoice, EnforceArgs};
use crate::input;

/// How long nothing more must be saved before files are read, and how long that may take.
const STILL: Duration = Duration::from_millis(4);
const PATIENCE: Duration = Duration::from_millis(10);
/// How old a file must be at the start, and how long to wait for that.
const SETTLED: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);
/// How often to look at everything that nobody tells about.
const LOOK: Duration = Duration::from_secs(2);
/// How often to see to what is not settled yet.
const SETTLE: Duration = Duration::from_millis(250);
/// How often to tidy up.
const TIDY: Duration = Duration::from_secs(60);
/// When to look at the machine again after its interfaces changed: a pod's address comes a while after its interface.
const AGAIN: [Duration; 3] = [Duration::from_millis(20), Duration::from_millis(200), Duration::from_secs(1)];

/// Set by signals, each of which also makes `pipe` readable.
struct Signals {
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    pipe: UnixStream,
}

pub fn run(arguments: &EnforceArgs, color: ColorChoice) -> Result<Outcome, Text> {
    if arguments.input.files.iter().any(|path| path == "-") && !arguments.once {
        return Err("standard input cannot be followed: name a file or a folder, or add --once".into());
    }
    let mut kernel = Linux::new();
    missing(&mut kernel)?;
    let lock = Lock::take(&arguments.state.folder).map_err(|error| error.to_string())?;
    let alone = Alone::here().map_err(|error| error.to_string())?;
    let signals = Signals::register()?;
    let scrapes = arguments.metrics.map(Scrapes::listen);
    let remembered = State::read(&arguments.state.folder);
    // A state that other users may have written is no reason to go on without one: what it says about the node, and the versions to fall
    // back on, would be lost. The kernel has the rules that it has.
    if let Err(error) = &remembered
        && error.is_untrusted()
    {
        return Err(error.to_string().into());
    }
    let mut enforcer = Enforcer::new(arguments, color, kernel);
    match remembered {
        Ok(state) => enforcer.remember(state),
        Err(error) => enforcer.said.warning(text!("what was in force is not known: {error}")),
    }
    // Nobody keeps rules out of force by taking a port.
    let scrapes = scrapes.and_then(|scrapes| {
        scrapes.inspect_err(|error| enforcer.said.warning(text!("no metrics: {error}"))).ok()
    });
    let paths: Vec<PathBuf> = arguments.input.files.iter().map(PathBuf::from).collect();
    let outcome = match arguments.once {
        true => Ok(once(&mut enforcer, &paths)),
        false => stay(arguments, &mut enforcer, &paths, &signals, scrapes),
    };
    enforcer.leave();
    drop((lock, alone));
    outcome
}

/// What is missing on this machine, all of it.
fn missing(kernel: &mut Linux) -> Result<(), Text> {
    let mut lacks: Vec<String> = kernel.features().lacks.iter().map(ToString::to_string).collect();
    lacks.extend(Ip.links(None).err().map(|error| error.to_string()));
    if lacks.is_empty() {
        return Ok(());
    }
    let lacks: Vec<Text> = lacks.iter().map(|lack| text!("{NL}  {lack}")).collect();
    Err(text!("nothing can be enforced here:{}", lacks.into_iter().collect::<Text>()))
}

fn once(enforcer: &mut Enforcer, paths: &[PathBuf]) -> Outcome {
    let outcome = |code| Outcome { out: Text::new(), err: Text::new(), code };
    settled(paths);
    enforcer.reload(None, Instant::now(), false);
    match (enforcer.is_begun(), enforcer.has_problems()) {
        (false, true) => enforcer.said.error("nothing is written: the files have errors"),
        (false, false) => enforcer.said.error("nothing is written"),
        _ => {}
    }
    outcome(match (enforcer.has_problems(), enforcer.is_begun() && !enforcer.is_behind()) {
        (true, _) => NO,
        (false, true) => YES,
        (false, false) => UNANSWERED,
    })
}

fn stay(
    arguments: &EnforceArgs,
    enforcer: &mut Enforcer,
    paths: &[PathBuf],
    signals: &Signals,
    mut scrapes: Option<Scrapes>,
) -> Result<Outcome, Text> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: std::io::Error| format!("cannot listen to {what}: {error}")
    };
    let mut watch = Watch::new().map_err(failed("what happens to files"))?;
    let mut links = Links::new().map_err(failed("what happens to interfaces"))?;
    let mut survey = settled(paths);
    watch.set(&survey.folders);
    enforcer.reload(Some(&mut watch), Instant::now(), false);
    if !enforcer.is_begun() {
        enforcer.said.error("nothing is written until the files can be read; watching them");
    }
    if let Some(scrapes) = &scrapes {
        enforcer.said.line(text!("metrics on http://{}/metrics", scrapes.address));
    }
    enforcer.said.line(text!("watching {} …", input::describe(&arguments.input.files)));
    let (mut looked, mut tidied) = (Instant::now(), Instant::now());
    let mut machine: Vec<Instant> = Vec::new();
    while !signals.stop.load(Ordering::Relaxed) {
        let pause = if enforcer.is_unsettled() { SETTLE } else { LOOK };
        let due = machine.iter().map(|at| at.saturating_duration_since(Instant::now())).min();
        let pause = due.into_iter().chain(enforcer.report_due()).fold(pause, Duration::min);
        let ready = wait(pause, &watch, &links, signals, scrapes.as_ref(), enforcer);
        let begun = Instant::now();
        let mut read = signals.reload.swap(false, Ordering::Relaxed);
        let asked = read;
        if ready.files && watch.changed() {
            quiet(&mut watch, begun);
            read = true;
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            let now = Survey::of(paths, input::is_read);
            read |= now.stamps != survey.stamps || enforcer.is_unfinished();
            machine.extend((enforcer.has_namespaces() || !enforcer.is_begun()).then(Instant::now));
        }
        if read {
            loop {
                survey = Survey::of(paths, input::is_read);
                let new = watch.set(&survey.folders);
                enforcer.reload(Some(&mut watch), begun, asked);
                // In a folder that was not watched yet, something may have happened before it was.
                if !(new && Survey::of(paths, input::is_read) != survey) {
                    break;
                }
            }
        }
        if ready.links && links.changed() {
            machine.extend(AGAIN.iter().map(|after| Instant::now() + *after));
        }
        if machine.iter().any(|at| *at <= Instant::now()) {
            machine.retain(|at| *at > Instant::now());
            enforcer.look_at_machine(Instant::now());
        }
        enforcer.mend();
        if tidied.elapsed() >= TIDY {
            tidied = Instant::now();
            enforcer.tidy();
        }
        if let Some(scrapes) = &mut scrapes {
            scrapes.answer(|| enforcer.metrics());
        }
        enforcer.write_state();
        enforcer.report_changes();
    }
    enforcer.finish_reports();
    enforcer.said.line(match enforcer.is_begun() {
        true => "ended; the rules stay in force (`palisade enforce stop` removes them)",
        false => "ended; nothing was written",
    });
    Ok(Outcome { out: Text::new(), err: Text::new(), code: YES })
}

/// The files once none of them was changed just now: whoever writes one may be in the middle of it, and nobody was there yet to
/// notice.
fn settled(paths: &[PathBuf]) -> Survey {
    let begun = Instant::now();
    loop {
        let survey = Survey::of(paths, input::is_read);
        if begun.elapsed() > LONGEST || !survey.is_newer_than(SETTLED) {
            return survey;
        }
        std::thread::sleep(SETTLED / 4);
    }
}

/// Waits a moment until whoever saves files has saved them all.
fn quiet(watch: &mut Watch, begun: Instant) {
    while begun.elapsed() < PATIENCE {
        let mut ready = [PollFd::new(watch, PollFlags::IN)];
        match poll(&mut ready, Some(&timeout(STILL))) {
            Ok(0) => return,
            _ => drop(watch.changed()),
        }
    }
}

/// What there is to see to.
#[derive(Default)]
struct Ready {
    files: bool,
    links: bool,
}

fn wait(
    pause: Duration,
    watch: &Watch,
    links: &Links,
    signals: &Signals,
    scrapes: Option<&Scrapes>,
    enforcer: &mut Enforcer,
) -> Ready {
    let mut all: Vec<BorrowedFd<'_>> = vec![watch.as_fd(), links.as_fd(), signals.pipe.as_fd()];
    all.extend(scrapes.map(AsFd::as_fd));
    all.extend(enforcer.events());
    let mut all: Vec<PollFd<'_>> =
        all.into_iter().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    if poll(&mut all, Some(&timeout(pause))).is_err() {
        // A signal: it is in its flag.
        return Ready::default();
    }
    let is = |at: usize| all.get(at).is_some_and(|fd| !fd.revents().is_empty());
    let ready = Ready { files: is(0), links: is(1) };
    drop(all);
    signals.drain();
    ready
}

fn timeout(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: time.subsec_nanos().into() }
}

// === impl Signals ===

impl Signals {
    fn register() -> Result<Signals, Text> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let words = |error: std::io::Error| format!("cannot listen to signals: {error}");
        let (pipe, ring) = UnixStream::pair().map_err(words)?;
        pipe.set_nonblocking(true).map_err(words)?;
        let signals = Signals { stop: Arc::default(), reload: Arc::default(), pipe };
        for (signal, flag) in [(SIGHUP, &signals.reload), (SIGINT, &signals.stop), (SIGTERM, &signals.stop)] {
            signal_hook::flag::register(signal, Arc::clone(flag)).map_err(words)?;
            let ring = ring.try_clone().map_err(words)?;
            signal_hook::low_level::pipe::register(signal, ring).map_err(words)?;
        }
        Ok(signals)
    }

    fn drain(&self) {
        use std::io::Read;
        let mut buffer = [0; 64];
        while (&self.pipe).read(&mut buffer).is_ok_and(|length| length > 0) {}
    }
}
