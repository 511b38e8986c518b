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

use crate::eventually::eventually;

/// The sample, running.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Of this process alone: its ready file and its logs.
    directory: PathBuf,
}

/// What the sample writes once it serves.
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
}

impl Process {
    /// Starts it with these flags, on the database at `database_url` or on one that it finds itself.
    pub(crate) fn spawn(database_url: Option<&str>, flags: &[&str]) -> Self {
        Self::spawn_with(database_url, flags, &[])
    }

    /// Starts it with environment variables besides.
    pub(crate) fn spawn_with(database_url: Option<&str>, flags: &[&str], variables: &[(&str, &OsStr)]) -> Self {
        let mut command = Command::new(example("organization"));
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

    /// Waits until it serves.
    pub(crate) async fn ready(&mut self) -> Ready {
        let file = self.ready_file();
        let child = &mut self.child;
        let written = eventually("the sample serves", || {
            let written = fs::read(&file).ok();
            let ended = child.try_wait().expect("the sample's state");
            async move {
                assert!(written.is_some() || ended.is_none(), "the sample ended before it served: {ended:?}");
                written
            }
        });
        serde_json::from_slice(&written.await).expect("one JSON object")
    }

    /// Sends it a signal, such as `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill runs");
        assert!(status.success(), "kill -{name} {pid}: {status}");
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let child = &mut self.child;
        eventually("the sample ends", || {
            let ended = child.try_wait().expect("the sample's state");
            async move { ended }
        })
        .await
    }

    /// What it has logged so far.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.directory.join("stderr")).unwrap_or_default()
    }

    pub(crate) fn ready_file(&self) -> PathBuf {
        self.directory.join("ready.json")
    }
}

impl Drop for Process {
    #[expect(clippy::print_stderr, reason = "what a failed test needs to be understood")]
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the sample's log:\n{}", self.stderr());
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}
