//! The program `cargo run --example client`.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tokio::runtime::Runtime;
use tonic_idempotency_tests::example;

use super::prelude::*;
use super::process::Process;

/// A path for a journal, whose file is removed at the end.
struct File(PathBuf);

impl File {
    fn new() -> Self {
        Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}.journal", Uuid::new_v4())))
    }

    /// The number of calls in the journal.
    async fn entries(&self) -> usize {
        Journal::open(&self.0).expect("a journal").entries().await.expect("its entries").len()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs a command that succeeds, and returns its lines.
fn lines_of(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let (lines, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{lines}{errors}");
    lines.into_owned()
}

/// The keys in the lines that contain this.
fn keys(lines: &str, part: &str) -> BTreeSet<String> {
    let lines = lines.lines().filter(|line| line.contains(part));
    lines.filter_map(|line| Some(line.split_once("key ")?.1.get(..36)?.to_owned())).collect()
}

/// Without a terminal it prints lines, of which the last has the counts.
#[test]
fn creates_each_project_once_though_answers_are_lost() {
    let database = Runtime::new().expect("a runtime").block_on(scratch_postgres::database(None));
    let mut client = Command::new(example("client", ""));
    client.args(["--calls", "3", "--lose", "2", "--work", "300ms"]).env("DATABASE_URL", database.url());
    let lines = lines_of(&mut client);
    assert_eq!(lines.matches("the connection broke: no answer").count(), 6, "{lines}");
    assert_eq!(lines.matches("is completed, after").count(), 3, "{lines}");
    let last = lines.lines().last().expect("a line");
    assert!(last.starts_with("calls: 3; attempts: ") && last.ends_with("; projects: 3"), "{last}");
    assert!(!lines.contains('\u{1b}'), "no control characters");
}

/// Of seven calls, two are answered, three are carried out and not answered, and two are only written down.
#[tokio::test]
async fn what_a_killed_client_has_left_is_ended_once_with_the_same_keys() {
    let (database, file) = (scratch_postgres::database(None).await, File::new());
    let mut client = Command::new(example("client", ""));
    client.args(["--kill", "--calls", "7", "--journal"]).arg(&file.0).env("DATABASE_URL", database.url());
    let lines = lines_of(&mut client);
    let (before, after) = lines.split_once("the client is dead: signal: 9 (SIGKILL)\n").expect("it was killed");
    let (carried_out, unsent) = (keys(before, "carried out, and not answered"), keys(before, "not sent"));
    assert_eq!((keys(before, "key").len(), carried_out.len(), unsent.len()), (7, 3, 2), "{lines}");
    assert_eq!(keys(after, "CreateProject, key"), &carried_out | &unsent, "{lines}");
    assert_eq!(after.matches("CreateProject, key").count(), 5, "{lines}");
    assert_eq!((after.matches(", replayed\n").count(), after.matches(", created\n").count()), (3, 2), "{lines}");
    let last = "calls: 7; from the journal: 5, replayed: 3, created: 2, left: 0; projects: 7";
    assert_eq!(lines.lines().last(), Some(last), "{lines}");
    assert_eq!(file.entries().await, 0);
}

#[tokio::test]
async fn a_client_that_is_killed_by_hand_goes_on_with_its_journal() {
    let (database, file) = (scratch_postgres::database(None).await, File::new());
    let mut sample = Process::spawn(Some(database.url()), &["--listen", "127.0.0.1:0"]);
    sample.ready().await;
    let client = || {
        let mut client = Command::new(example("client", ""));
        client.arg("--ready-file").arg(sample.ready_file()).arg("--journal").arg(&file.0);
        client
    };

    let mut first = client().args(["--lose", "9"]).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(first.stdout.take().expect("its output")).lines().map_while(Result::ok);
    let lost = lines.find(|line| line.contains("the connection broke"));
    first.kill().expect("it is killed");
    first.wait().expect("it has ended");
    assert!(lost.is_some(), "the server has a call whose answer is lost");
    assert_eq!(file.entries().await, 1);

    let lines = lines_of(&mut client());
    assert_eq!(lines.lines().last(), Some("from the journal: 1, replayed: 1, created: 0, left: 0"), "{lines}");
    assert_eq!(file.entries().await, 0);
}
