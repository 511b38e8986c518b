//! The report as JUnit's XML, for what shows tests.

use std::{fs, path::Path, time::Duration};

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::entry::{Entry, Verdict};
use crate::failure::Failure;

pub(super) fn write(path: &Path, entries: &[Entry]) -> Result<(), Failure> {
    let mut suite = TestSuite::new("promises");
    suite.add_test_cases(entries.iter().map(|entry| {
        let mut status = match entry.verdict {
            Verdict::Ok => TestCaseStatus::success(),
            Verdict::Failed => TestCaseStatus::non_success(NonSuccessKind::Failure),
            Verdict::NotChecked | Verdict::NotPromised => TestCaseStatus::skipped(),
        };
        status.set_message(&entry.detail);
        if let Some(repeat) = &entry.repeat {
            status.set_description(repeat);
        }
        let mut case = TestCase::new(format!("{} {}", entry.code, entry.promise), status);
        case.set_time(Duration::from_secs_f64(entry.seconds));
        case
    }));
    let mut report = Report::new("tonic-idempotency check");
    report.add_test_suite(suite);
    let unwritten = |error: &dyn std::fmt::Display| Failure::Input(format!("{}: {error}", path.display()));
    let xml = report.to_string().map_err(|error| unwritten(&error))?;
    fs::write(path, xml).map_err(|error| unwritten(&error))
}
