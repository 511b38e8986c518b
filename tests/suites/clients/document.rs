use std::{
    env, fs,
    path::{Path, PathBuf},
};

use crate::matrix::Matrix;

/// Set, to anything, to write what a run saw.
const WRITE: &str = "IDEMPOTENCY_TEST_WRITE_CLIENTS";

const BEGIN: &str = "<!-- begin: written by cargo test -p tonic-idempotency-tests --test clients -->\n";
const END: &str = "<!-- end -->\n";

/// `docs/clients.md`.
#[derive(Debug)]
pub(crate) struct Document {
    path: PathBuf,
    before: String,
    table: String,
    after: String,
}

impl Document {
    /// The one of the repository.
    pub(crate) fn kept() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/clients.md");
        let text = fs::read_to_string(&path).expect("docs/clients.md");
        let parts = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?)));
        let (before, (table, after)) = parts.expect("docs/clients.md has the marks around its table");
        Self { path, before: before.to_owned(), table: table.to_owned(), after: after.to_owned() }
    }

    /// Compares, or writes if that is asked for. Rows of clients that were skipped are as they are.
    ///
    /// # Panics
    ///
    /// They differ; or clients are missing, and the table is to be written.
    pub(crate) fn agree_with(&self, matrix: &Matrix<'_>, skipped: &[&str]) {
        if env::var_os(WRITE).is_some() {
            assert!(
                skipped.is_empty(),
                "{skipped:?} are missing: run tests/suites/clients/setup before the table is written"
            );
            let table = matrix.lines().join("\n");
            let text = format!("{}{BEGIN}\n{table}\n\n{END}{}", self.before, self.after);
            fs::write(&self.path, text).expect("docs/clients.md is written");
            return;
        }
        let of_skipped = |line: &str| skipped.iter().any(|name| line.starts_with(&format!("| {name} |")));
        let kept: Vec<_> = self.table.lines().filter(|line| !line.is_empty() && !of_skipped(line)).collect();
        let seen = matrix.lines();
        assert!(kept == seen, "docs/clients.md differs; to write it, set {WRITE}. It has:\n{}", kept.join("\n"));
    }
}
