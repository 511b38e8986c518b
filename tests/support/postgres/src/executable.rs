//! The program that a running server was started from.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
};

use crate::{binaries, error::Cause};

/// The program `postgres` as it was when a server was started from it. An upgrade of the package replaces it, and with it the libraries
/// that the server loads later, which may not fit the running server. Reports that when dropped.
#[derive(Debug)]
pub(crate) struct Executable {
    directory: PathBuf,
    identity: Option<Identity>,
    is_reported: AtomicBool,
    version: String,
}

impl Executable {
    /// Takes the program in `directory`, which is of this version.
    pub(crate) fn new(directory: &Path, version: &str) -> Self {
        Self {
            directory: directory.to_owned(),
            identity: Identity::of(directory),
            is_reported: AtomicBool::new(false),
            version: version.to_owned(),
        }
    }

    /// Checks that the program is still there.
    ///
    /// # Errors
    ///
    /// There is another file in its place now, or none.
    pub(crate) fn check(&self) -> Result<(), Cause> {
        let Self { directory, identity, version, .. } = self;
        if Identity::of(directory) == *identity {
            return Ok(());
        }
        let now = match version_now(directory) {
            Some(now) => format!("they are {now} now"),
            None => "they do not run now".to_owned(),
        };
        Err(format!(
            "PostgreSQL's binaries in {} changed while this server ran (it started as {version}, {now}): what fails after this is \
             noise; run the tests again",
            directory.display()
        )
        .into())
    }

    /// Reports on standard error, once, that the [check](Self::check) fails. Writes to the stream directly, because the test harness
    /// captures the output of tests that pass.
    pub(crate) fn report(&self) {
        if let Err(why) = self.check()
            && !self.is_reported.swap(true, Ordering::Relaxed)
        {
            // Fails if standard error is closed.
            let _ = io::stderr().write_all(format!("{why}\n").as_bytes());
        }
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        self.report();
    }
}

/// The properties of a file that a replacement changes.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

impl Identity {
    /// The identity of the program in `directory`; `None` if it is missing.
    fn of(directory: &Path) -> Option<Self> {
        let file = fs::metadata(directory.join("postgres")).ok()?;
        Some(Self {
            device: file.dev(),
            inode: file.ino(),
            length: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
        })
    }
}

/// The version of the program in `directory`; `None` if it does not run.
fn version_now(directory: &Path) -> Option<String> {
    let mut command = Command::new(directory.join("postgres"));
    let output = command.arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    binaries::version_in("postgres", &String::from_utf8_lossy(&output.stdout))
}
