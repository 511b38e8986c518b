//! Binaries that are replaced while a server from them runs, as an upgrade of the machine's packages does.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use scratch_postgres::{Pair, Server, Source, TestDatabase, database, skip};
use uuid::Uuid;

use crate::traces::ask;

/// The variable with the binaries of the process that is [given them](is_given_binaries).
const BINARIES: &str = "IDEMPOTENCY_TEST_POSTGRES_BIN";

/// The variable with the part of that process.
const PART: &str = "BINARIES_TEST_PART";

/// A directory with the binaries of this machine, which can be replaced; removed when dropped.
struct Binaries {
    directory: PathBuf,
    version: String,
}

impl Binaries {
    /// `None` if there are none.
    async fn new() -> Option<Self> {
        let server =
            Server::start(&[Source::Installed]).await.map_err(|error| skip("installed-postgres", error)).ok()?;
        let installed = ask(server.url(), "SELECT setting FROM pg_config WHERE name = 'BINDIR'").await;
        let version = ask(server.url(), "SELECT split_part(current_setting('server_version'), ' ', 1)").await;
        let directory = env::temp_dir().join(format!("binaries-{}", Uuid::new_v4().simple()));
        fs::create_dir(&directory).expect("a directory");
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("for everybody");
        let binaries = Self { directory, version };
        // Both programs as links would be taken for another name of their directory.
        write(&binaries.directory.join("initdb"), &format!(r#"exec "{installed}/initdb" "$@""#));
        symlink(format!("{installed}/postgres"), binaries.directory.join("postgres")).expect("a link");
        Some(binaries)
    }

    /// The error message once they have been [replaced](replace).
    fn message(&self) -> String {
        format!(
            "PostgreSQL's binaries in {} changed while this server ran (it started as {}, they are 99.1 now): what fails after this \
             is noise; run the tests again",
            self.directory.display(),
            self.version
        )
    }

    /// Runs the process with this part, and returns whether it succeeded, its output and its errors.
    fn give(&self, part: &str) -> (bool, String, String) {
        let output = Command::new(env::current_exe().expect("this program"))
            .args(["--exact", "binaries::is_given_binaries"])
            .env(BINARIES, &self.directory)
            .env(PART, part)
            .env("IDEMPOTENCY_TEST_POSTGRES", "installed")
            .env_remove("IDEMPOTENCY_TEST_DATABASE_URL")
            .output()
            .expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }
}

impl Drop for Binaries {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn replace(directory: &Path) {
    let program = directory.join("postgres");
    fs::remove_file(&program).expect("it is there");
    write(&program, "echo 'postgres (PostgreSQL) 99.1'");
}

/// Lets another process write the script: a file that this process has open for writing may stay open for a moment in a child that starts
/// meanwhile, and then it cannot be executed.
fn write(path: &Path, script: &str) {
    let status = Command::new("sh")
        .args(["-c", r#"printf '#!/bin/sh\n%s\n' "$2" >"$1" && chmod 755 "$1""#, "sh"])
        .args([path.as_os_str(), script.as_ref()])
        .status();
    assert!(status.expect("there is sh").success());
}

/// Not a test of its own: the tests of a process while its binaries are replaced, or are not.
#[tokio::test]
async fn is_given_binaries() {
    let Ok(part) = env::var(PART) else { return };
    let directory = PathBuf::from(env::var_os(BINARIES).expect("a directory"));
    match part.as_str() {
        "a database is dropped" | "a database is asked for" => {
            let databases = [database(None).await, database(None).await];
            replace(&directory);
            drop(databases);
            if part == "a database is asked for" {
                database(None).await;
            }
        }
        "a server is dropped" => {
            let server = Server::start(&[Source::Installed]).await.expect("a server");
            replace(&directory);
            TestDatabase::create(&server, None).await.expect_err("it is refused");
            drop(server);
        }
        "a pair is dropped" => {
            let pair = Pair::start().await.expect("a pair");
            replace(&directory);
            drop(pair);
        }
        "nothing is replaced" => {
            drop(database(None).await);
            drop(database(None).await);
            drop(Server::start(&[Source::Installed]).await.expect("a server"));
        }
        other => panic!("no such part: {other}"),
    }
}

#[tokio::test]
async fn that_were_replaced_are_reported_once_when_what_used_them_is_dropped() {
    for part in ["a database is dropped", "a server is dropped", "a pair is dropped"] {
        let Some(binaries) = Binaries::new().await else { return };
        let (succeeded, output, errors) = binaries.give(part);
        assert!(succeeded, "{part}: {output}{errors}");
        assert_eq!(errors.matches(&binaries.message()).count(), 1, "{part}: {errors}");
    }
}

#[tokio::test]
async fn that_were_replaced_fail_the_next_test_that_asks_for_a_database() {
    let Some(binaries) = Binaries::new().await else { return };
    let (succeeded, output, errors) = binaries.give("a database is asked for");
    assert!(!succeeded, "{output}{errors}");
    let failure = format!("cannot create a database for the test: {}\n", binaries.message());
    assert!(output.contains(&failure), "{output}{errors}");
}

#[tokio::test]
async fn that_are_not_replaced_are_not_reported() {
    let Some(binaries) = Binaries::new().await else { return };
    let (succeeded, output, errors) = binaries.give("nothing is replaced");
    assert!(succeeded, "{output}{errors}");
    assert!(!errors.contains("changed while"), "{errors}");
}
