//! `palisade test`.

use palisade_policytest::RunSettings;
use palisade_report::diagnostics::sources_by_name;
use palisade_report::json::{self, TestReport};
use palisade_report::junit::junit;
use palisade_report::policy_tests;
use palisade_report::style::Look;
use palisade_report::text::{NL, Text};

use super::{NO, UNANSWERED, YES};
use crate::Outcome;
use crate::cli::{ColorChoice, TestArgs, TestOutput};
use crate::input::{self, Beside};
use crate::print::output::StreamLook;

pub fn run(arguments: &TestArgs, color: ColorChoice) -> Outcome {
    let mut input = input::read(&arguments.paths);
    let mut report = palisade_policytest::run_with(
        &input.sources,
        &Beside::new(&arguments.paths),
        RunSettings { thorium: arguments.thorium.into(), engine: arguments.engine },
    );
    report.unreadable.splice(0..0, std::mem::take(&mut input.found));
    let code = match (report.unreadable.is_empty(), report.failed()) {
        (false, _) => UNANSWERED,
        (true, 0) if report.cases.is_empty() => UNANSWERED,
        (true, 0) => YES,
        (true, _) => NO,
    };
    let err = if report.cases.is_empty() && report.unreadable.is_empty() {
        text!("{} no tests in {}{NL}", Look::stderr(color).bad("error:"), input::describe(&arguments.paths))
    } else {
        Text::new()
    };
    let out = match arguments.output {
        TestOutput::Text => policy_tests::report(
            &report,
            &sources_by_name(&input.sources),
            arguments.quiet,
            Look::stdout(color),
        ),
        TestOutput::Json => json::print(&TestReport::from(&report)),
        TestOutput::Junit => junit(&report),
    };
    Outcome { out, err, code }
}
