//! Test results as JUnit XML, one suite for each test.

use crate::text::Text;
use palisade_policytest::{CaseResult, SuiteReport};

/// Prints the results of a run.
pub fn junit(report: &SuiteReport) -> Text {
    let unreadable = report.unreadable.len();
    let (tests, failures) = (report.cases.len() + unreadable, report.failed());
    let mut out = Text::own("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    write_line!(
        out,
        "<testsuites name=\"palisade\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{unreadable}\">"
    );
    let mut cases = report.cases.as_slice();
    while let Some(first) = cases.first() {
        let same = |case: &&CaseResult| case.test == first.test && case.at.file == first.at.file;
        let (suite, rest) = cases.split_at(cases.iter().take_while(same).count());
        let failed = suite.iter().filter(|case| !case.failures.is_empty()).count();
        write_line!(
            out,
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\" errors=\"0\" file=\"{}\">",
            escape(&first.test),
            suite.len(),
            escape(&first.at.file)
        );
        for case in suite {
            test_case(case, &mut out);
        }
        out.push_own("  </testsuite>\n");
        cases = rest;
    }
    if unreadable > 0 {
        write_line!(
            out,
            "  <testsuite name=\"unreadable\" tests=\"{unreadable}\" failures=\"0\" errors=\"{unreadable}\">"
        );
        for diagnostic in &report.unreadable {
            let at = diagnostic.location.as_ref().map(ToString::to_string).unwrap_or_default();
            let (at, message) = (escape(&at), escape(&diagnostic.message));
            write_line!(
                out,
                "    <testcase name=\"{at}\" classname=\"unreadable\"><error message=\"{message}\"/></testcase>"
            );
        }
        out.push_own("  </testsuite>\n");
    }
    out.push_own("</testsuites>\n");
    out
}

fn test_case(case: &CaseResult, out: &mut Text) {
    let (name, class) = (escape(&case.name), escape(&case.test));
    write_text!(out, "    <testcase name=\"{name}\" classname=\"{class}\" line=\"{}\"", case.at.line);
    if case.failures.is_empty() {
        out.push_own("/>\n");
        return;
    }
    out.push_own(">\n");
    for failure in &case.failures {
        let message = format!("{}: expected {}, got {}", failure.subject, failure.expected, failure.got);
        let detail = super::policy_tests::detail(
            failure,
            super::style::Look { color: false, width: 110 },
            &Default::default(),
        );
        write_line!(
            out,
            "      <failure message=\"{}\" type=\"expectation\">{}: {}",
            escape(&message),
            escape(&failure.at.to_string()),
            escape(&message),
        );
        for line in detail.lines() {
            write_line!(out, "{}", escape(line.as_str()));
        }
        out.push_own("</failure>\n");
    }
    out.push_own("    </testcase>\n");
}

/// Escapes text for content and attributes. Characters that XML 1.0 cannot represent are replaced.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_safe_in_xml() {
        assert_eq!(escape("a<b & \"c\"\u{1}"), "a&lt;b &amp; &quot;c&quot;\u{fffd}");
    }
}
