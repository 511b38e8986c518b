//! Starts the harness and reads its output.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::LazyLock,
    thread,
    time::Duration,
};

use tokio::{
    process::{Child, Command},
    sync::Semaphore,
    time::timeout,
};
use tonic_idempotency_tests::binary;
use uuid::Uuid;

/// The time that a run may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// The output of a run that has ended, and the files that it left.
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
        value.trim_matches('*').parse().unwrap_or_else(|_| panic!("{name}: {value:?} is not a number"))
    }

    /// The number of times that a promise was broken.
    #[track_caller]
    pub(crate) fn broken(&self, promise: &str) -> usize {
        self.number(&format!("**{promise}** (must be 0)"))
    }

    /// The whole output, for the message of a failed test.
    pub(crate) fn said(&self) -> String {
        let stories = self.directory.stories().into_iter().filter_map(|path| fs::read_to_string(path).ok());
        format!("{}\n{}\n{}", self.stderr, self.stdout, stories.collect::<String>())
    }
}

/// Runs that may go on at once: a run is a dozen processes, and a database that answers too late for want of a core is a fault that
/// the harness has not made.
static RUNS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(thread::available_parallelism().map_or(2, |cores| cores.get().max(2))));

/// Runs the harness with these flags; `None` if the programs of the topology are missing and the test is skipped.
pub(crate) async fn run(flags: &[&str]) -> Option<Ended> {
    let _run = RUNS.acquire().await.expect("never closed");
    let directory = Directory::new();
    let child = directory.start(flags, Stdio::piped());
    let output = timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").expect("what it said");
    let Output { status, stdout, stderr } = output;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let ended = Ended { code: status.code(), directory, stderr: text(stderr), stdout: text(stdout) };
    for (tool, lack) in [
        ("installed-postgres", "install PostgreSQL's server binaries"),
        ("patroni", "needs Patroni"),
        ("redis", "needs Redis"),
        ("pgbouncer", "needs PgBouncer"),
    ] {
        if ended.stderr.contains(lack) {
            scratch_postgres::skip(tool, &ended.stderr);
            return None;
        }
    }
    Some(ended)
}

/// The directory for the reports and the temporary files of a run; removed when dropped.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        let path = env::temp_dir().join(format!("harness-{}", Uuid::new_v4().simple()));
        for path in [&path, &path.join("reports"), &path.join("temporary")] {
            fs::create_dir(path).expect("a directory");
            // As root, the database's server runs as another user.
            fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("a directory for everybody");
        }
        Self(path)
    }

    /// Starts the harness with these flags.
    pub(crate) fn start(&self, flags: &[&str], output: Stdio) -> Child {
        Command::new(binary("chaos", ""))
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

    /// The stories that the run wrote.
    pub(crate) fn stories(&self) -> Vec<PathBuf> {
        entries(&self.reports())
    }

    /// The temporary files that exist now.
    pub(crate) fn left(&self) -> Vec<PathBuf> {
        entries(&self.temporary())
    }

    fn reports(&self) -> PathBuf {
        self.0.join("reports")
    }

    /// The directory for the run's temporary files.
    pub(crate) fn temporary(&self) -> PathBuf {
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
