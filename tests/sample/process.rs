use std::{
    env,
    ffi::OsStr,
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    thread,
};

use serde::Deserialize;
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
        let mut command = Command::new(program());
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

/// The sample's program, built anew if need be: a single `cargo test --test sample` does not build examples.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match PROGRAM.get_or_init(build) {
        Ok(program) => program,
        Err(why) => panic!("{why}"),
    }
}

/// Builds it as this test was built, and with the features of `cargo run --example organization`.
fn build() -> Result<PathBuf, String> {
    let test = env::current_exe().expect("the path of this test");
    // target/debug/deps/sample-0123456789abcdef
    let profile = test.ancestors().nth(2).expect("the directory of the profile");
    let name = profile.file_name().and_then(|name| name.to_str()).expect("the name of the profile");
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--example", "organization"])
        .args(["--profile", if name == "debug" { "dev" } else { name }])
        .arg("--target-dir")
        .arg(profile.parent().expect("the target directory"))
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .expect("cargo runs");
    if output.status.success() {
        Ok(profile.join("examples").join(format!("organization{}", env::consts::EXE_SUFFIX)))
    } else {
        Err(format!("the sample does not build: {}", String::from_utf8_lossy(&output.stderr)))
    }
}
