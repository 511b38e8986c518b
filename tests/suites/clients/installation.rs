use std::{
    fs,
    path::{Path, PathBuf},
};

/// Where the drivers' sources and the lock files are.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/clients")
}

/// What `tests/suites/clients/setup` has installed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Installation {
    Go,
    Grpcurl,
    Node,
    Python,
}

impl Installation {
    /// Where it is. If it is missing, or made from another lock file, it is said that `what` is skipped.
    ///
    /// # Panics
    ///
    /// `what` is required.
    pub(crate) fn find(self, what: &str) -> Option<PathBuf> {
        let (directory, lock) = match self {
            Self::Go => (target().join("go"), "go/go.mod"),
            Self::Grpcurl => (target().join("grpcurl"), "grpcurl/go.mod"),
            Self::Node => (sources().join("node/node_modules"), "node/package-lock.json"),
            Self::Python => (target().join("python"), "python/requirements.txt"),
        };
        let wanted = fs::read(sources().join(lock)).expect("a lock file");
        let found = fs::read(directory.join("installed.lock")).is_ok_and(|installed| installed == wanted);
        if !found {
            scratch_postgres::skip(what, "it is not installed as its lock file has it: run tests/suites/clients/setup");
        }
        found.then_some(directory)
    }
}

fn target() -> PathBuf {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    temporary.parent().expect("the target directory").join("suites/clients")
}
