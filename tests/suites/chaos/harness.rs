use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    time::Duration,
};

use tokio::{
    process::{Child, Command},
    time::timeout,
};
use tonic_idempotency_tests::binary;
use uuid::Uuid;

/// How long a run may take, on a machine that has much to do.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a run that ended has left and said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) directory: Directory,
    stderr: String,
    stdout: String,
}

impl Ended {
    /// The number in a row of its table.
    #[track_caller]
    pub(crate) fn number(&self, name: &str) -> usize {
        let rows = self.stdout.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once('|'));
        let value = rows.map(|(name, value)| (name.trim(), value.trim())).find(|(row, _)| *row == name);
        let (_, value) = value.unwrap_or_else(|| panic!("no row {name:?} in {}", self.said()));
        value.trim_matches('*').parse().unwrap_or_else(|_| panic!("{name}: {value:?} is no number"))
    }

    /// How often the promise was broken that is called so.
    #[track_caller]
    pub(crate) fn broken(&self, promise: &str) -> usize {
        self.number(&format!("**{promise}** (must be 0)"))
    }

    /// All that it said, for a test that fails.
    pub(crate) fn said(&self) -> String {
        let stories = self.directory.stories().into_iter().filter_map(|path| fs::read_to_string(path).ok());
        format!("{}\n{}\n{}", self.stderr, self.stdout, stories.collect::<String>())
    }
}

/// Runs the harness with these flags; `None` where PostgreSQL's binaries are missing and the test is skipped.
pub(crate) async fn run(flags: &[&str]) -> Option<Ended> {
    let directory = Directory::new();
    let child = directory.start(flags, Stdio::piped());
    let output = timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").expect("what it said");
    let Output { status, stdout, stderr } = output;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let ended = Ended { code: status.code(), directory, stderr: text(stderr), stdout: text(stdout) };
    if ended.stderr.contains("install PostgreSQL's server binaries") {
        scratch_postgres::skip("installed-postgres", &ended.stderr);
        return None;
    }
    Some(ended)
}

/// Where a run leaves whatever it leaves: its reports, and all temporary files; removed at the end.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        let path = env::temp_dir().join(format!("harness-{}", Uuid::new_v4().simple()));
        for path in [&path, &path.join("reports"), &path.join("temporary")] {
            fs::create_dir(path).expect("a directory");
            // As root the database's server runs as somebody else.
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("a directory for everybody");
        }
        Self(path)
    }

    /// Starts the harness with these flags.
    pub(crate) fn start(&self, flags: &[&str], output: Stdio) -> Child {
        Command::new(binary("chaos"))
            .args(["--report".as_ref(), self.reports().as_os_str()])
            .args(flags)
            .env("TMPDIR", self.temporary())
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the harness starts")
    }

    /// The stories that were written.
    pub(crate) fn stories(&self) -> Vec<PathBuf> {
        entries(&self.reports())
    }

    /// What there is of temporary files.
    pub(crate) fn left(&self) -> Vec<PathBuf> {
        entries(&self.temporary())
    }

    fn reports(&self) -> PathBuf {
        self.0.join("reports")
    }

    fn temporary(&self) -> PathBuf {
        self.0.join("temporary")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
