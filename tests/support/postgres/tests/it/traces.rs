//! The traces of a private server on the machine.

use std::{
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use tokio_postgres::{Client, NoTls};

/// The directory of a running server, whose name is in the arguments of each process that it needs.
#[derive(Debug)]
pub(crate) struct Traces(PathBuf);

impl Traces {
    /// The directory around this file or directory.
    pub(crate) fn above(path: &str) -> Self {
        Self(Path::new(path).parent().expect("a directory around it").to_owned())
    }

    pub(crate) fn are_there(&self) -> bool {
        let name = self.0.file_name().and_then(|name| name.to_str()).expect("a name");
        self.0.exists() || output("ps", &["-A", "-ww", "-o", "args="]).contains(name)
    }
}

pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("it answers");
    tokio::spawn(connection);
    client
}

/// One value from the server at `url`. Prepares no statement, because a PgBouncer may be in between.
pub(crate) async fn ask(url: &str, query: &str) -> String {
    connect(url).await.query_typed_one(query, &[]).await.expect("the query is right").get(0)
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
