//! Removes the rules from the kernel, after it was confirmed. Reports what that opens.

use std::io::{BufRead, IsTerminal};

use palisade_agent::lock::{Alone, Lock, LockError};
use palisade_agent::machine::network::KernelNetwork;
use palisade_agent::node_view::NodeView;
use palisade_agent::source::EmptyNode;
use palisade_agent::state::State;
use palisade_dialects::thorium::Reading;
use palisade_model::snapshot::Objects;
use palisade_nftables::kernel::{Kernel, Linux};
use palisade_nftables::text::{GUARD, TABLE};
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::super::{NO, YES, changes};
use super::error::EnforceError;
use crate::Outcome;
use crate::cli::{ColorChoice, EnforceStopArgs};
use crate::print::output::{Stream, StreamLook};

pub fn run(arguments: &EnforceStopArgs, color: ColorChoice) -> Result<Outcome, EnforceError> {
    let folder = &arguments.state.folder;
    let state = State::read(folder)?;
    let mut kernel = Linux::new();
    let there = kernel.read()?.is_some();
    // One that was killed during a change may have left its guard alone, which goes on refusing.
    if !there && !kernel.has_guard()? {
        let _ = State::forget(folder);
        return Ok(Outcome { out: Text::own("nothing is in force here\n"), err: Text::new(), code: YES });
    }
    let lock = Lock::take(folder).map_err(|error| match error {
        LockError::Held { holder, .. } => EnforceError::Running(holder),
        error => error.into(),
    })?;
    let alone = Alone::here().map_err(EnforceError::RunningElsewhere)?;
    // Who does not ask what that opens does not wait for it either.
    let asked = (!arguments.yes).then(|| opens(state.as_ref()));
    if let Some(opens) = &asked
        && !ask(opens, color)?
    {
        return Ok(Outcome { out: Text::own("nothing is changed\n"), err: Text::new(), code: NO });
    }
    kernel.remove()?;
    let err = match State::forget(folder) {
        Ok(()) => Text::new(),
        Err(error) => text!("{} {error}{NL}", Look::stderr(color).warning("warning:")),
    };
    drop((lock, alone));
    let opens = asked.unwrap_or_else(|| opens(state.as_ref()));
    let table = if there { TABLE } else { GUARD };
    let out = text!("table inet {table} is removed: no policy is in force here any more; {opens}{NL}");
    Ok(Outcome { out, err, code: YES })
}

/// What no policy at all opens, as far as it is known what was in force.
fn opens(state: Option<&State>) -> Text {
    let unknown = Text::own("what that opens is not known");
    let Some(state) = state else { return unknown };
    let mut view = NodeView::new(KernelNetwork, EmptyNode::Suspect, Some(&state.node));
    if view.take(state.objects(Reading::default())).is_err() {
        return unknown;
    }
    let objects = view.objects();
    let without = Objects { policies: Vec::new(), ..objects.clone() };
    match changes::within(objects, without) {
        Some(changes) => changes.words(Look { color: false, width: 116 }),
        None => unknown,
    }
}

fn ask(opens: &Text, color: ColorChoice) -> Result<bool, EnforceError> {
    if !std::io::stdin().is_terminal() {
        return Err(EnforceError::NoTerminal);
    }
    let look = Look::stderr(color);
    let question = text!("{opens}{NL}Remove all rules from this machine's kernel? {} ", look.strong("[y/N]"));
    // Without an answer nothing is removed.
    let _ = Stream::Stderr.write(&question);
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).map_err(EnforceError::system("read the answer"))?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}
