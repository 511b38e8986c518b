//! A PgBouncer that ends by itself, and leaves the servers without a database.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tokio::time::timeout;

use crate::harness::Directory;

/// The time in which a condition must come true.
const PATIENCE: Duration = Duration::from_secs(60);

const INTERVAL: Duration = Duration::from_millis(20);

/// A lease that no other run has. It finds the servers by their arguments.
const LEASE: &str = "1m 1s 9ms";

/// The process of the PgBouncer whose files are in this directory, once a server has been started behind it.
fn bouncer(directory: &str) -> Option<String> {
    let output = Command::new("ps").args(["-A", "-ww", "-o", "pid=", "-o", "args="]).output().expect("there is ps");
    let processes = String::from_utf8_lossy(&output.stdout).into_owned();
    processes.lines().find(|line| line.contains(" serve ") && line.contains(LEASE))?;
    let of_it = |line: &&str| line.contains(directory) && line.ends_with("/pgbouncer.ini");
    processes.lines().find(of_it)?.split_whitespace().next().map(str::to_owned)
}

#[tokio::test]
async fn ends_the_run_with_its_log() {
    if let Some(why) = scratch_postgres::PgBouncer::missing() {
        return scratch_postgres::skip("pgbouncer", why);
    }
    let directory = Directory::new();
    let lease = LEASE.replace(' ', "");
    let flags = ["--topology", "pgbouncer", "--mode", "reserved", "--faults", "none", "--lease", &lease];
    let mut child = directory.start(&flags, Stdio::null());
    let begun = Instant::now();
    let bouncer = loop {
        if let Some(process) = bouncer(&directory.temporary().display().to_string()) {
            break process;
        }
        if child.try_wait().expect("its state").is_some() {
            return scratch_postgres::skip("installed-postgres", "the harness does not run");
        }
        assert!(begun.elapsed() < PATIENCE, "there is no PgBouncer");
        tokio::time::sleep(INTERVAL).await;
    };

    let killed = Command::new("kill").args(["-s", "KILL", &bouncer]).status().expect("there is kill");

    assert!(killed.success());
    let output = timeout(PATIENCE, child.wait_with_output()).await.expect("it ends").expect("its output");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    // The log of a PgBouncer says how it was started.
    for part in ["PgBouncer has ended by itself", "process up"] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
    assert!(directory.left().is_empty(), "{:?}", directory.left());
}
