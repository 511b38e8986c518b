//! Runs promtool.

use std::{env, fs, process::Command};

use uuid::Uuid;

/// The real promtool.
pub(crate) struct Promtool(());

impl Promtool {
    /// The program on PATH. If there is none, the test is reported as skipped.
    pub(crate) fn find() -> Option<Self> {
        let found = Command::new("promtool").arg("--version").output().is_ok();
        if !found {
            scratch_postgres::skip("promtool", "it is not on PATH: apt install prometheus");
        }
        found.then_some(Self(()))
    }

    /// Runs a command on the first of these files, with the others beside it.
    #[track_caller]
    pub(crate) fn succeeds(&self, command: &[&str], files: &[(&str, &str)]) {
        let directory = env::temp_dir().join(format!("idempotency-promtool-{}", Uuid::new_v4()));
        fs::create_dir(&directory).expect("a directory");
        for (name, text) in files {
            fs::write(directory.join(name), text).expect("a file");
        }
        let output = Command::new("promtool").args(command).arg(files[0].0).current_dir(&directory).output();
        let output = output.expect("promtool");
        fs::remove_dir_all(&directory).expect("the directory");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success(), "{said}");
    }
}
