//! The table in `results/clients.md`.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::matrix::Matrix;

/// If set, a run writes its results to the table.
pub(crate) const WRITE: &str = "IDEMPOTENCY_TEST_WRITE_CLIENTS";

const BEGIN: &str = "<!-- begin: written by cargo test --features full --test clients -->\n";
const END: &str = "<!-- end -->\n";

/// The text of `results/clients.md`, split at its table.
#[derive(Debug)]
pub(crate) struct Document {
    path: PathBuf,
    before: String,
    table: String,
    after: String,
}

impl Document {
    /// Reads the committed file.
    pub(crate) fn kept() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/clients.md");
        let text = fs::read_to_string(&path).expect("results/clients.md");
        let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
        let (before, (table, after)) = parts.expect("results/clients.md has the marks around its table");
        Self { path, before: before.to_owned(), table: table.to_owned(), after: after.to_owned() }
    }

    /// Compares the table with the results; writes it instead if [`WRITE`] is set. Rows of skipped clients stay as they
    /// are.
    ///
    /// # Panics
    ///
    /// The table and the results differ; or the table is to be written, and clients are missing.
    pub(crate) fn agree_with(&self, matrix: &Matrix<'_>, skipped: &[&str]) {
        if env::var_os(WRITE).is_some() {
            assert!(
                skipped.is_empty(),
                "{skipped:?} are missing: run tests/suites/clients/setup before writing the table"
            );
            let table = matrix.lines().join("\n");
            let text = format!("{}{BEGIN}\n{table}\n\n{END}{}", self.before, self.after);
            fs::write(&self.path, text).expect("results/clients.md is written");
            return;
        }
        let of_skipped = |line: &str| skipped.iter().any(|name| line.starts_with(&format!("| {name} |")));
        let kept: Vec<_> = self.table.lines().filter(|line| !line.is_empty() && !of_skipped(line)).collect();
        let seen = matrix.lines();
        assert!(
            kept == seen,
            "results/clients.md differs from the results; set {WRITE} to update it. It has:\n{}",
            kept.join("\n")
        );
    }
}
