//! The harness leaves nothing behind, however it ends.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tokio::{process::Child, time::timeout};

use crate::harness::Directory;

/// The time in which a condition must come true.
const PATIENCE: Duration = Duration::from_secs(60);

const INTERVAL: Duration = Duration::from_millis(20);

/// A lease that no other run has. It finds the servers by their arguments.
const LEASE: &str = "1m 1s 7ms";

/// The process id and the state of each server of such a run.
fn servers() -> Vec<(String, String)> {
    let output =
        Command::new("ps").args(["-A", "-o", "pid=", "-o", "stat=", "-o", "args="]).output().expect("there is ps");
    let processes = String::from_utf8_lossy(&output.stdout).into_owned();
    let servers = processes.lines().filter(|line| line.contains(" serve ") && line.contains(LEASE));
    let words = servers.map(|line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    words.filter_map(|words| Some((words.first()?.clone(), words.get(1)?.clone()))).collect()
}

async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(INTERVAL).await;
    }
}

fn signal(child: &Child, name: &str) {
    let process = child.id().expect("it runs").to_string();
    let status = Command::new("kill").args(["-s", name, &process]).status().expect("there is kill");
    assert!(status.success(), "kill -s {name} {process}");
}

/// Tests each ending while a server is stopped, because a stopped server cannot end by itself.
#[tokio::test]
async fn leaves_nothing_behind_however_it_ends() {
    for (name, code) in [("INT", Some(2)), ("TERM", Some(2)), ("KILL", None)] {
        let directory = Directory::new();
        let lease = LEASE.replace(' ', "");
        let flags = ["--mode", "reserved", "--seed", "1", "--faults", "zombie", "--lease", &lease];
        let mut child = directory.start(&flags, Stdio::null());
        let begun = Instant::now();
        while !servers().iter().any(|(_, state)| state.starts_with('T')) {
            if child.try_wait().expect("its state").is_some() {
                return scratch_postgres::skip("installed-postgres", "the harness does not run");
            }
            assert!(begun.elapsed() < PATIENCE, "no server was paused");
            tokio::time::sleep(INTERVAL).await;
        }

        signal(&child, name);

        let ended = timeout(PATIENCE, child.wait()).await.expect("it ends").expect("its state");
        assert_eq!(ended.code(), code, "{name}");
        eventually("the servers are gone", || servers().iter().all(|(_, state)| state.starts_with('Z'))).await;
        eventually("no file is left", || directory.left().is_empty()).await;
    }
}
