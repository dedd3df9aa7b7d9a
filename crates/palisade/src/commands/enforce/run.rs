//! Enforces until it is stopped, or once: wires the files, the kernel, the log and the signals to an enforcer.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use palisade_agent::Enforcer;
use palisade_agent::enforcer::Control;
use palisade_agent::engine_source::EngineSource;
use palisade_agent::link_events::LinkEvents;
use palisade_agent::lock::{Alone, Lock};
use palisade_agent::machine::network::{KernelNetwork, Network};
use palisade_agent::manifests::Manifests;
use palisade_agent::metrics::serve::Scrapes;
use palisade_agent::state::State;
use palisade_nftables::kernel::Linux;
use palisade_report::text::Text;

use super::super::{NO, UNANSWERED, YES};
use super::error::EnforceError;
use super::log::Log;
use crate::Outcome;
use crate::cli::{ColorChoice, EnforceArgs};
use crate::input::{self, Files};

/// An enforcer of files in this machine's kernel.
type FileEnforcer = Enforcer<EngineSource<Manifests<Files>, KernelNetwork>, Linux, Log>;

pub fn run(arguments: &EnforceArgs, color: ColorChoice) -> Result<Outcome, EnforceError> {
    let paths = &arguments.input.files;
    if paths.iter().any(|path| path == "-") && !arguments.once {
        return Err(EnforceError::StandardInput);
    }
    let mut kernel = Linux::new();
    check_requirements(&mut kernel)?;
    let folder = &arguments.state.folder;
    let lock = Lock::take(folder)?;
    let alone = Alone::here()?;
    let control = control()?;
    let scrapes = arguments.metrics.map(Scrapes::listen);
    let state = State::read(folder);
    let log = Log::new(color);
    let state = match state {
        Ok(state) => state,
        // Going on without it would lose the node, and the versions to fall back on. The kernel keeps its rules.
        Err(error) if error.is_untrusted() => return Err(error.into()),
        Err(error) => {
            log.warning(text!("what was in force is not known: {error}"));
            None
        }
    };
    // A port that is taken keeps no rule from being enforced.
    let scrapes = scrapes
        .and_then(|scrapes| scrapes.inspect_err(|error| log.warning(text!("no metrics: {error}"))).ok());
    let node = arguments.node.as_deref();
    let source = match arguments.once {
        true => EngineSource::new(
            Manifests::once(Files, paths, arguments.thorium),
            KernelNetwork,
            node,
            arguments.thorium,
        ),
        false => {
            let failed = EnforceError::system("listen to what happens to files");
            let manifests = Manifests::watched(Files, paths, arguments.thorium).map_err(failed)?;
            let failed = EnforceError::system("listen to what happens to interfaces");
            let links = LinkEvents::new().map_err(failed)?;
            EngineSource::new(manifests, KernelNetwork, node, arguments.thorium).with_links(links)
        }
    };
    let mut enforcer = Enforcer::new(source, kernel, log, folder, arguments.thorium.into());
    if let Some(state) = &state {
        enforcer.restore(state);
    }
    enforcer.step();
    let code = match arguments.once {
        true => once(&mut enforcer),
        false => stay(arguments, &mut enforcer, &control, scrapes),
    };
    enforcer.leave();
    drop((lock, alone));
    Ok(Outcome { out: Text::new(), err: Text::new(), code })
}

/// Fails with everything that this machine lacks.
fn check_requirements(kernel: &mut Linux) -> Result<(), EnforceError> {
    let mut lacks: Vec<String> = kernel.features().lacks.iter().map(ToString::to_string).collect();
    lacks.extend(KernelNetwork.links(None).err().map(|error| error.to_string()));
    if lacks.is_empty() { Ok(()) } else { Err(EnforceError::Missing(lacks)) }
}

fn once(enforcer: &mut FileEnforcer) -> u8 {
    match (enforcer.is_begun(), enforcer.has_problems()) {
        (false, true) => enforcer.observer().error("nothing is written: the files have errors"),
        (false, false) => enforcer.observer().error("nothing is written"),
        _ => {}
    }
    match (enforcer.has_problems(), enforcer.is_begun() && !enforcer.is_behind()) {
        (true, _) => NO,
        (false, true) => YES,
        (false, false) => UNANSWERED,
    }
}

fn stay(
    arguments: &EnforceArgs,
    enforcer: &mut FileEnforcer,
    control: &Control,
    scrapes: Option<Scrapes>,
) -> u8 {
    if !enforcer.is_begun() {
        enforcer.observer().error("nothing is written until the files can be read; watching them");
    }
    if let Some(scrapes) = &scrapes {
        enforcer.observer().line(text!("metrics on http://{}/metrics", scrapes.address));
    }
    enforcer.observer().line(text!("watching {} …", input::describe(&arguments.input.files)));
    enforcer.run(control, scrapes);
    let last = match enforcer.is_begun() {
        true => "ended; the rules stay in force (`palisade enforce stop` removes them)",
        false => "ended; nothing was written",
    };
    enforcer.observer().line(last);
    YES
}

/// Returns flags that signals set: SIGHUP reads the files again, SIGINT and SIGTERM end.
fn control() -> Result<Control, EnforceError> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let failed = || EnforceError::system("listen to signals");
    let (wakeup, writer) = UnixStream::pair().map_err(failed())?;
    wakeup.set_nonblocking(true).map_err(failed())?;
    let control = Control { stop: Arc::default(), relist: Arc::default(), wakeup };
    for (signal, flag) in [(SIGHUP, &control.relist), (SIGINT, &control.stop), (SIGTERM, &control.stop)] {
        signal_hook::flag::register(signal, Arc::clone(flag)).map_err(failed())?;
        let writer = writer.try_clone().map_err(failed())?;
        signal_hook::low_level::pipe::register(signal, writer).map_err(failed())?;
    }
    Ok(control)
}
