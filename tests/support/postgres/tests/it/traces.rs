//! The traces of a private server on the machine.

use std::{
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use tokio_postgres::NoTls;

/// The files and processes of a running installed server.
#[derive(Debug)]
pub(crate) struct Traces {
    /// The directory of the server, its log and its data.
    pub(crate) directory: PathBuf,
    pub(crate) postmaster: u32,
    /// The id of the user that runs it.
    pub(crate) user: u32,
}

impl Traces {
    /// Asks the server at `url`.
    pub(crate) async fn of(url: &str) -> Self {
        let data: String = ask(url, "SHOW data_directory").await;
        let pid_file: String = ask(url, "SELECT pg_read_file('postmaster.pid')").await;
        let postmaster: u32 = pid_file.lines().next().and_then(|line| line.parse().ok()).expect("a process id");
        let directory = PathBuf::from(data).parent().expect("a directory around the data").to_owned();
        let user = output("ps", &["-o", "uid=", "-p", &postmaster.to_string()]);
        Self { directory, postmaster, user: user.trim().parse().expect("a user id") }
    }

    /// All the processes of the server at `url`.
    pub(crate) async fn processes(url: &str) -> Vec<u32> {
        let postmaster = Self::of(url).await.postmaster;
        let processes = output("ps", &["-A", "-o", "ppid=", "-o", "pid="]);
        let processes = processes.lines().filter_map(|line| {
            let mut numbers = line.split_whitespace().map(str::parse::<u32>);
            let (parent, process) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
            (parent == postmaster).then_some(process)
        });
        processes.chain([postmaster]).collect()
    }

    pub(crate) fn are_there(&self) -> bool {
        self.directory.exists() || runs(self.postmaster)
    }
}

/// One value from the server at `url`. Prepares no statement, because a PgBouncer may be in between.
pub(crate) async fn ask(url: &str, query: &str) -> String {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client.query_typed_one(query, &[]).await.expect("the query is right").get(0)
}

/// Executes a statement on the server at `url`.
pub(crate) async fn execute(url: &str, statement: &str) {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server answers");
    tokio::spawn(connection);
    client.batch_execute(statement).await.expect("the statement is right");
}

/// Whether the process is running. An ended process stays in the list, as `Z`, until its parent has waited for it.
pub(crate) fn runs(process: u32) -> bool {
    let state = output("ps", &["-o", "stat=", "-p", &process.to_string()]);
    !state.trim().is_empty() && !state.starts_with('Z')
}

pub(crate) fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the program is there");
    String::from_utf8(output.stdout).expect("text")
}

/// Waits up to 20 s for `condition`.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(20), "not within 20 s: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}
