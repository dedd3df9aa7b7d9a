//! `palisade lab exec`: a command in a pod of a lab that is up.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use palisade_lab::clean::Kept;
use palisade_lab::namespace;
use palisade_model::nearest::nearest;
use palisade_report::text::Text;

use super::error::LabCommandError;
use crate::Outcome;
use crate::cli::LabExecArgs;

pub fn run(arguments: &LabExecArgs) -> Result<Outcome, LabCommandError> {
    let all = Kept::all();
    if all.is_empty() {
        return Err(LabCommandError::NoLab);
    }
    let place = |kept: &Kept| match arguments.pod.strip_prefix("node:") {
        Some(node) => kept.nodes.get(node).cloned(),
        None if arguments.pod == "outside" => Some(kept.outside.clone()),
        None => kept.pods.get(&arguments.pod).cloned(),
    };
    let Some(name) = all.iter().rev().find_map(place) else {
        let pods = all.iter().flat_map(|kept| kept.pods.keys()).map(String::as_str);
        let near = nearest(&arguments.pod, pods).into_iter().map(ToOwned::to_owned).collect();
        return Err(LabCommandError::NoPod { pod: arguments.pod.clone(), near });
    };
    let (program, rest) = arguments.arguments.split_first().ok_or(LabCommandError::NoCommand)?;
    let mut command = Command::new(program);
    command.args(rest);
    let status = namespace::inside(&name, || command.status())?;
    let status = status.map_err(LabCommandError::system(format!("run {program}")))?;
    // As shells say it: killed by a signal is 128 and its number.
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    Ok(Outcome { out: Text::new(), err: Text::new(), code: u8::try_from(code).unwrap_or(1) })
}
