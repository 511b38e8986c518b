//! A folder of migrations: the application's own, and those that the command line writes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::runner::Runner;

/// The application's tables.
const BILLING: &str = "
    CREATE SCHEMA billing;
    CREATE TABLE billing.invoices (id uuid PRIMARY KEY DEFAULT gen_random_uuid());
";

/// A folder of migrations.
#[derive(Debug)]
pub(crate) struct Files {
    folder: TempDir,
    format: &'static str,
}

impl Files {
    /// Makes a folder with the application's own migration.
    pub(crate) fn of<R: Runner>() -> Self {
        let files = Self { folder: tempfile::tempdir().expect("a folder"), format: R::FORMAT };
        files.put(R::APPLICATION, BILLING);
        files
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a migration of the application.
    pub(crate) fn put(&self, path: &str, sql: &str) {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
        fs::write(path, sql).expect("the migration");
    }

    /// Writes the migrations of the library, with the command that the documentation has.
    pub(crate) fn write(&self, options: &[&str]) {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let output = Command::new(env!("CARGO"))
            .args([
                "run",
                "--quiet",
                "-p",
                "tonic-idempotency-cli",
                "--",
                "migrations",
                "--format",
                self.format,
                "--out",
            ])
            .arg(self.path())
            .args(options)
            .current_dir(root)
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Removes the migrations whose names contain this, as if the version that wrote the folder had not had them.
    pub(crate) fn remove(&self, name: &str) {
        let entries = fs::read_dir(self.path()).expect("the folder").map(|entry| entry.expect("an entry").path());
        let found: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().contains(name)).collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        for path in found {
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("the migration goes");
        }
    }
}
