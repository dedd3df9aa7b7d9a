//! What a lab measured, for people and for programs.

use std::collections::{BTreeMap, BTreeSet};

use palisade_lab::Measured;
use palisade_lab::matrix::Matrix;
use palisade_lab::place::Placed;
use palisade_model::flow::{self, Who};
use palisade_model::snapshot::Snapshot;
use palisade_model::trace;
use palisade_policytest::packets::PacketReport;
use palisade_report::diagnostics::{plural, render};
use palisade_report::json::{FlowJson, VerdictJson};
use palisade_report::policy_tests::failure_line;
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};
use serde::Serialize;

/// A flow, what was predicted, and what a packet said, if one was asked.
#[derive(Debug)]
pub struct Asked {
    pub flow: flow::Flow,
    pub predicted: trace::Verdict,
    /// The policies that the prediction comes from, where that is of interest: it did not come true.
    pub by: Vec<String>,
    pub measured: Option<Measured>,
}

/// What `lab --output json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct LabReport {
    /// Whether packets were sent at all; else there are predictions alone.
    pub measured: bool,
    /// How many flows there are, of which so many as `asked` were asked about.
    pub flows: usize,
    pub asked: usize,
    /// By what was predicted.
    pub allowed: Counts,
    pub denied: Counts,
    pub rejected: Counts,
    /// Every flow that did not do as predicted.
    pub mismatches: Vec<Mismatch>,
    /// Every flow whose packet could not be sent, after several attempts: nothing is known about it.
    pub failed: Vec<Unsent>,
    /// How many flows no packet of this machine can show, by reason.
    pub not_sent: BTreeMap<String, usize>,
    /// What was added to the manifests, and what the kernel cannot do.
    pub notes: Vec<String>,
}

/// A flow whose packet could not be sent.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Unsent {
    pub flow: FlowJson,
    /// The same in words.
    pub text: String,
    /// The last reason.
    pub why: String,
}

/// How many flows did as predicted, and how many did not.
#[derive(Debug, Default, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    pub predicted: usize,
    pub as_predicted: usize,
    pub not_as_predicted: usize,
}

/// A flow that did not do as predicted.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Mismatch {
    pub flow: FlowJson,
    /// The same in words.
    pub text: String,
    pub predicted: VerdictJson,
    pub measured: VerdictJson,
    /// The policies that the prediction comes from.
    pub by: Vec<String>,
}

/// What `lab test --output json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PacketTests {
    /// How many steps hold, with at least one packet sent.
    pub passed: usize,
    pub failed: usize,
    /// How many packets were sent.
    pub sent: usize,
    /// How many flows were not sent, by reason.
    pub not_sent: BTreeMap<String, usize>,
    pub cases: Vec<PacketTest>,
}

/// One step.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct PacketTest {
    pub test: String,
    pub name: String,
    pub sent: usize,
    pub not_sent: usize,
    /// What did not hold: the flow, what was expected, what came.
    pub failures: Vec<String>,
}

// === impl LabReport ===

impl LabReport {
    pub fn new(placed: &Placed, asked: &[Asked], matrix: &Matrix, lacks: &BTreeSet<String>) -> Self {
        let mut report = LabReport {
            measured: asked.iter().any(|one| one.measured.is_some()),
            flows: matrix.all,
            asked: asked.len(),
            allowed: Counts::default(),
            denied: Counts::default(),
            rejected: Counts::default(),
            mismatches: Vec::new(),
            failed: Vec::new(),
            not_sent: BTreeMap::new(),
            notes: placed.notes.iter().chain(lacks).cloned().collect(),
        };
        for one in asked {
            let counts = match one.predicted {
                trace::Verdict::Allow => &mut report.allowed,
                trace::Verdict::Deny => &mut report.denied,
                trace::Verdict::Reject => &mut report.rejected,
            };
            counts.predicted += 1;
            match &one.measured {
                Some(Measured::Verdict(measured)) if *measured == one.predicted => counts.as_predicted += 1,
                Some(Measured::Verdict(measured)) => {
                    counts.not_as_predicted += 1;
                    report.mismatches.push(Mismatch {
                        flow: FlowJson::new(&placed.snapshot, &one.flow),
                        text: flow_text(&placed.snapshot, &one.flow),
                        predicted: one.predicted.into(),
                        measured: (*measured).into(),
                        by: one.by.clone(),
                    });
                }
                Some(Measured::Failed(why)) => report.failed.push(Unsent {
                    flow: FlowJson::new(&placed.snapshot, &one.flow),
                    text: flow_text(&placed.snapshot, &one.flow),
                    why: why.clone(),
                }),
                Some(Measured::NotSent(why)) => *report.not_sent.entry(why.clone()).or_default() += 1,
                None => {}
            }
        }
        report
    }
}

/// A flow in words, with the family where that is not the usual one.
fn flow_text(snapshot: &Snapshot, flow: &flow::Flow) -> String {
    let six = flow.destination.address.is_some_and(|address| address.is_ipv6());
    let named = [flow.source, flow.destination].iter().any(|party| party.who != Who::Outside);
    let family = if six && named { " over IPv6" } else { "" };
    let via = flow.via.map(|via| &snapshot.services()[via]);
    let via = via.map(|via| format!(" via {}/{}", via.namespace, via.name)).unwrap_or_default();
    let (source, destination) = (snapshot.describe(flow.source), snapshot.describe(flow.destination));
    format!("{source} → {destination} {}{via}{family}", flow.traffic)
}

/// The table of what was predicted and measured.
pub fn report(report: &LabReport, look: Look) -> Text {
    let mut out = Text::new();
    for note in &report.notes {
        write_line!(out, "{} {note}", look.warning("note:"));
    }
    if report.asked < report.flows {
        let (asked, flows) = (report.asked, report.flows);
        let note = format!("{asked} of {flows} flows were asked about: --most-flows {flows} asks about all");
        write_line!(out, "{} {note}", look.warning("note:"));
    }
    let rows = [("allowed", report.allowed), ("denied", report.denied), ("rejected", report.rejected)];
    if !report.measured {
        write_line!(out, "{NL}             predicted (nothing was measured)");
        for (name, counts) in rows {
            write_line!(out, "  {name:<9}{:>9}", counts.predicted);
        }
        return out;
    }
    write_line!(out, "{NL}             as predicted   not as predicted");
    for (name, counts) in rows {
        let wrong = format!("{:>15}", counts.not_as_predicted);
        let wrong = if counts.not_as_predicted == 0 { Text::from(wrong) } else { look.bad(&wrong) };
        write_line!(out, "  {name:<9}{:>9}{wrong}", counts.as_predicted);
    }
    for (why, count) in &report.not_sent {
        write_line!(out, "  not sent {count:>9}   {why}");
    }
    for unsent in &report.failed {
        write_line!(out, "{NL}{} {}", look.bad("could not be sent:"), look.strong(&unsent.text));
        write_line!(out, "  {}", unsent.why);
    }
    for mismatch in &report.mismatches {
        let by = if mismatch.by.is_empty() { "no policy".to_owned() } else { mismatch.by.join(", ") };
        write_line!(
            out,
            "{NL}{} {}{NL}  predicted {} by {by}, measured {}",
            look.bad("not as predicted:"),
            look.strong(&mismatch.text),
            word(mismatch.predicted),
            word(mismatch.measured)
        );
    }
    out
}

fn word(verdict: VerdictJson) -> &'static str {
    match verdict {
        VerdictJson::Allow => "allowed",
        VerdictJson::Deny => "denied",
        VerdictJson::Reject => "rejected",
    }
}

// === impl PacketTests ===

impl From<&PacketReport> for PacketTests {
    fn from(report: &PacketReport) -> Self {
        let case = |case: &palisade_policytest::packets::PacketCase| PacketTest {
            test: case.test.clone(),
            name: case.name.clone(),
            sent: case.sent,
            not_sent: case.not_sent.values().map(|(count, _)| count).sum(),
            failures: case
                .failures
                .iter()
                .map(|failure| {
                    format!("{}: expected {}, got {}", failure.subject, failure.expected, failure.got)
                })
                .collect(),
        };
        PacketTests {
            passed: report.passed(),
            failed: report.failed(),
            sent: report.sent(),
            not_sent: report.not_sent().into_iter().map(|(why, count)| (why.to_owned(), count)).collect(),
            cases: report.cases.iter().map(case).collect(),
        }
    }
}

/// Test results for people.
pub fn packet_tests(report: &PacketReport, quiet: bool, look: Look) -> Text {
    let mut out = Text::new();
    for case in &report.cases {
        let name = format!("{}: {}", case.test, case.name);
        if !case.failures.is_empty() {
            write_line!(out, "{} {name}   {}", look.bad("FAIL"), look.quiet(&case.at));
        } else if !quiet {
            let word = if case.sent > 0 { look.good("ok  ") } else { look.warning("none") };
            write_line!(
                out,
                "{word} {name}{}",
                look.quiet(format_args!("  ({})", plural(case.sent, "packet")))
            );
        }
        for failure in &case.failures {
            out.push(&failure_line(failure, look));
        }
        for (why, (count, first)) in case.not_sent.iter().filter(|_| !quiet) {
            write_line!(
                out,
                "     {} {} ({first} …): {why}",
                look.warning("not sent:"),
                plural(*count, "flow")
            );
        }
    }
    for diagnostic in &report.unreadable {
        out.push(&render(diagnostic, &BTreeMap::new(), look));
    }
    let not_sent = report.not_sent();
    let none = report.cases.len() - report.passed() - report.failed();
    write_line!(
        out,
        "{} steps passed, {} failed, {none} without any packet; {} sent, {} not sent",
        report.passed(),
        report.failed(),
        plural(report.sent(), "packet"),
        plural(not_sent.values().sum(), "flow"),
    );
    for (why, count) in not_sent {
        write_line!(out, "  {count:>6} {why}");
    }
    out
}
