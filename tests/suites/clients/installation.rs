//! The installed clients, and whether they are up to date.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::versions;

/// The directory of the drivers' sources and of the lock files.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/clients")
}

/// An installation by `tests/suites/clients/setup`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Installation {
    Go,
    Grpcurl,
    Java,
    Node,
    Python,
}

impl Installation {
    /// The path of the installation. If it is missing, or from another lock file, reports that `what` is skipped.
    ///
    /// # Panics
    ///
    /// `what` is required, and missing.
    pub(crate) fn find(self, what: &str) -> Option<PathBuf> {
        let (directory, found) = match self {
            Self::Go => made_from("go", "go/go.mod"),
            Self::Grpcurl => made_from("grpcurl", "grpcurl/go.mod"),
            Self::Java => made_from("java", "java/pom.xml"),
            Self::Node => versions::npm_installation(),
            Self::Python => made_from("python", "python/requirements.txt"),
        };
        if !found {
            scratch_postgres::skip(what, "it is not installed as its lock file has it: run tests/suites/clients/setup");
        }
        found.then_some(directory)
    }
}

/// A directory in the target, and whether the lock file stored there equals the current one.
fn made_from(directory: &str, lock: &str) -> (PathBuf, bool) {
    let directory = target().join(directory);
    let wanted = fs::read(sources().join(lock)).expect("a lock file");
    let is_current = fs::read(directory.join("installed.lock")).is_ok_and(|installed| installed == wanted);
    (directory, is_current)
}

fn target() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary.parent().expect("the target directory").join("clients")
}
