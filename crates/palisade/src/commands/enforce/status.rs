//! What is in force.

use std::path::Path;

use palisade_agent::enforcer::elements_digest;
use palisade_agent::lock::{Alone, Lock};
use palisade_agent::state::{State, digest};
use palisade_nftables::kernel::{Counts, InForce, Kernel, KernelError, Linux};
use palisade_report::json;
use palisade_report::style::Look;
use palisade_report::text::Text;

use super::super::{NO, YES};
use super::error::EnforceError;
use crate::Outcome;
use crate::cli::{ColorChoice, EnforceOutput, EnforceStatusArgs};
use crate::print::enforce::{self as printer, File, Guard, GuardOwner, Rule, Status, Table};
use crate::print::output::StreamLook;
use crate::print::time::moment;

pub fn run(arguments: &EnforceStatusArgs, color: ColorChoice) -> Result<Outcome, EnforceError> {
    let folder = &arguments.state.folder;
    let state = State::read(folder)?;
    let holder = Lock::holder(folder)?;
    let mut kernel = Linux::new();
    let found = match kernel.read() {
        Ok(found) => Ok(found),
        Err(KernelError::Forbidden(what)) => return Err(EnforceError::Unreadable(what)),
        Err(error) => Err(error),
    };
    let counts = kernel.counts().unwrap_or_default();
    let guard = guard(&mut kernel, holder.as_deref());
    let status = status(state.as_ref(), holder, found, guard, &counts);
    let code = if status.is_good() { YES } else { NO };
    let out = match arguments.output {
        EnforceOutput::Text => printer::status(&status, Look::stdout(color)),
        EnforceOutput::Json => json::print(&status),
    };
    Ok(Outcome { out, err: Text::new(), code })
}

/// Whether there is a guard, and whose it is. Only an enforcer that is running makes changes, so any other was killed.
fn guard(kernel: &mut Linux, holder: Option<&str>) -> Result<Option<Guard>, KernelError> {
    if !kernel.has_guard()? {
        return Ok(None);
    }
    let (owner, process) = match (holder, Alone::holder()) {
        (Some(process), _) => (GuardOwner::Enforcer, process.parse().ok()),
        (None, Some(process)) => (GuardOwner::OtherEnforcer, process.parse().ok()),
        (None, None) => (GuardOwner::LeftBehind, None),
    };
    // Its enforcer may have ended between.
    let is_there = owner != GuardOwner::LeftBehind || kernel.has_guard()?;
    Ok(is_there.then_some(Guard { owner, process }))
}

fn status(
    state: Option<&State>,
    process: Option<String>,
    found: Result<Option<InForce>, KernelError>,
    guard: Result<Option<Guard>, KernelError>,
    counts: &Counts,
) -> Status {
    let table = table(state, &found);
    let mut trouble = state.map(|state| state.trouble.clone()).unwrap_or_default();
    trouble.extend(found.err().map(|error| error.to_string()));
    let guard = guard.unwrap_or_else(|error| {
        trouble.push(error.to_string());
        None
    });
    let mut status = Status {
        running: process.is_some(),
        process: process.and_then(|process| process.parse().ok()),
        table,
        guard,
        node: None,
        since: None,
        changed: None,
        epoch: None,
        policies: 0,
        files: Vec::new(),
        pods: Vec::new(),
        rules: Vec::new(),
        lacks: Vec::new(),
        trouble,
    };
    let Some(state) = state else { return status };
    status.node = Some(state.node.clone());
    status.since = Some(moment(state.since));
    status.changed = Some(moment(state.changed));
    status.epoch = Some(state.epoch);
    status.policies = state.policies;
    status.files = state
        .files
        .iter()
        .map(|file| {
            let path = Path::new(&state.folder).join(&file.name);
            let now = std::fs::read(&path).ok().map(|text| digest(&text));
            File {
                name: path.display().to_string(),
                digest: file.digest.clone(),
                changed_since: now.as_ref() != Some(&file.digest),
                gone: now.is_none(),
            }
        })
        .collect();
    status.pods = state.pods.iter().map(Into::into).collect();
    status.lacks = state.lacks.clone();
    let mut sums = std::collections::BTreeMap::new();
    for (counter, decider) in &state.counters {
        let count = counts.get(counter.as_str()).copied().unwrap_or_default();
        let sum: &mut (u64, u64) = sums.entry(decider).or_default();
        *sum = (sum.0 + count.packets, sum.1 + count.bytes);
    }
    status.rules =
        sums.into_iter().map(|(decider, (packets, bytes))| Rule::new(decider, packets, bytes)).collect();
    status
}

/// Whether the table is as it was left.
fn table(state: Option<&State>, found: &Result<Option<InForce>, KernelError>) -> Table {
    match (state, found) {
        (_, Err(_)) => Table::Unknown,
        (_, Ok(None)) => Table::None,
        (None, Ok(Some(_))) => Table::Unknown,
        (Some(state), Ok(Some(found))) => match &state.structure {
            None => Table::Unknown,
            Some(structure) if *structure != found.structure => Table::Changed,
            Some(_) if state.elements != elements_digest(&found.elements) => Table::Changed,
            Some(_) => Table::AsLeft,
        },
    }
}
