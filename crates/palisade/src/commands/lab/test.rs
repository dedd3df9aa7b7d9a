//! `palisade lab test`: PolicyTest files with real packets.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use palisade_lab::world::LabWorld;
use palisade_lab::{Lab, LabError, Measured};
use palisade_model::flow::{Flow, Who};
use palisade_model::snapshot::Objects;
use palisade_policytest::RunSettings;
use palisade_policytest::packets::{PacketError, PacketOutcome, PacketSender, run_packets};
use palisade_report::json;
use palisade_report::style::Look;
use palisade_report::text::Text;

use super::error::LabCommandError;
use super::{Progress, interrupts};
use crate::Outcome;
use crate::cli::{ColorChoice, LabOutput, LabTestArgs};
use crate::commands::{NO, UNANSWERED, YES};
use crate::input::{self, Beside};
use crate::print::lab::{PacketTests, packet_tests};
use crate::print::output::{Cursor, StreamLook};

pub fn run(arguments: &LabTestArgs, color: ColorChoice) -> Result<Outcome, LabCommandError> {
    let mut input = input::read(&arguments.paths);
    if let Some(refusal) = input.refusal() {
        return Err(LabCommandError::LeftOut(refusal));
    }
    let stop = interrupts()?;
    let settings = RunSettings { thorium: arguments.thorium.into(), engine: false };
    let makes = || -> Result<Box<dyn PacketSender>, PacketError> { Ok(Box::new(Sender::new(&stop)?)) };
    let shown = Progress::new(arguments.output == LabOutput::Text);
    let progress = |done: usize, total: usize| {
        shown.write(Cursor::LineStart, &text!("{done} of {total} tests"));
    };
    let jobs = arguments.jobs.clamp(1, 32);
    let files = Beside::new(&arguments.paths);
    let mut report = run_packets(&input.sources, &files, settings, &makes, jobs, &progress)?;
    shown.write(Cursor::LineStart, &Text::new());
    report.unreadable.splice(0..0, std::mem::take(&mut input.found));
    let code = match (report.unreadable.is_empty(), report.failed(), report.sent()) {
        (false, ..) | (_, 0, 0) => UNANSWERED,
        (true, 0, _) => YES,
        (true, ..) => NO,
    };
    let out = match arguments.output {
        LabOutput::Text => packet_tests(&report, arguments.quiet, Look::stdout(color)),
        LabOutput::Json => json::print(&PacketTests::from(&report)),
    };
    Ok(Outcome { out, err: Text::new(), code })
}

/// A lab that follows a test from step to step, and from test to test.
struct Sender {
    lab: Lab,
}

// === impl Sender ===

impl Sender {
    fn new(stop: &Arc<AtomicBool>) -> Result<Sender, PacketError> {
        let lab =
            Lab::new(Arc::clone(stop)).map_err(|error| PacketError::Setup(format!("a lab needs {error}")))?;
        Ok(Sender { lab })
    }
}

impl PacketSender for Sender {
    fn send(&mut self, objects: Objects, flows: &[Flow]) -> Result<Vec<PacketOutcome>, PacketError> {
        let placed = LabWorld::new(objects);
        let ends = flows.iter().flat_map(|flow| [flow.source, flow.destination]);
        let outside: BTreeSet<IpAddr> =
            ends.filter(|party| party.who == Who::Outside).filter_map(|party| party.address).collect();
        let failed = |error: LabError| PacketError::Send(error.to_string());
        self.lab.update(&placed, &outside).map_err(failed)?;
        let measured = self.lab.measure(&placed, flows, &mut |_| {}).map_err(failed)?;
        let sent = |measured: Measured| match measured {
            Measured::Verdict(verdict) => PacketOutcome::Verdict(verdict),
            Measured::NotSent(why) => PacketOutcome::Inapplicable(why),
            Measured::Failed(why) => PacketOutcome::Failed(why),
        };
        Ok(measured.into_iter().map(sent).collect())
    }
}
