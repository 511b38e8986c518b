//! The sample as a process.

use std::{
    ffi::OsStr,
    fs::{self, File},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
};

use serde::Deserialize;
use tonic_idempotency_tests::example;
use uuid::Uuid;

use super::eventually::eventually;

/// A running sample.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// The directory for the ready file and the logs of only this process.
    directory: PathBuf,
}

/// The contents of the file that the sample writes when it is ready.
#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    pub(crate) address: SocketAddr,
    pub(crate) cluster_id: Uuid,
    pub(crate) database_url: String,
    pub(crate) tokens: Tokens,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Tokens {
    pub(crate) alice: String,
    pub(crate) bob: String,
    pub(crate) x_here: String,
    pub(crate) x_there: String,
}

impl Process {
    /// Starts the sample with these flags, on the database at `database_url` or on one that it finds itself.
    pub(crate) fn spawn(database_url: Option<&str>, flags: &[&str]) -> Self {
        Self::spawn_with(database_url, flags, &[])
    }

    /// Starts the sample with additional environment variables.
    pub(crate) fn spawn_with(database_url: Option<&str>, flags: &[&str], variables: &[(&str, &OsStr)]) -> Self {
        let mut command = Command::new(example("organization", ""));
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().to_string());
        fs::create_dir_all(&directory).expect("a directory for the sample's files");
        let log = |name| File::create(directory.join(name)).expect("a log file");

        command.arg("--ready-file").arg(directory.join("ready.json")).args(flags);
        command
            .env_remove("RUST_LOG")
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(log("stdout"))
            .stderr(log("stderr"));
        match database_url {
            Some(url) => command.env("DATABASE_URL", url),
            None => command.env_remove("DATABASE_URL"),
        };
        let child = command.spawn().expect("the sample starts");
        Self { child, directory }
    }

    /// Waits until the sample is ready.
    pub(crate) async fn ready(&mut self) -> Ready {
        let file = self.ready_file();
        let child = &mut self.child;
        let written = eventually("the sample is ready", || {
            let written = fs::read(&file).ok();
            let ended = child.try_wait().expect("the sample's state");
            async move {
                assert!(written.is_some() || ended.is_none(), "the sample ended before it was ready: {ended:?}");
                written
            }
        });
        serde_json::from_slice(&written.await).expect("one JSON object")
    }

    /// Sends a signal, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill runs");
        assert!(status.success(), "kill -{name} {pid}: {status}");
    }

    /// Waits until the process has ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("the sample ends", || {
            let ended = child.try_wait().expect("the sample's state");
            async move { ended }
        })
        .await
    }

    /// The log so far.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.directory.join("stderr")).unwrap_or_default()
    }

    /// Its standard output so far.
    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(self.directory.join("stdout")).unwrap_or_default()
    }

    pub(crate) fn ready_file(&self) -> PathBuf {
        self.directory.join("ready.json")
    }
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "the log explains a failed test")]
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the sample's log:\n{}", self.stderr());
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}
