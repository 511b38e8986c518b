//! The calls per second of one server, and of clusters: the table in `docs/citus.md`. pgbench sends what the store sends for a first call.
//! All nodes and pgbench share this machine.

use std::path::Path;

use tokio::process::Command;

use super::{
    cluster::{Cluster, PASSWORD},
    distributed::{API, Distributed},
};

/// The numbers of workers. None is one server, whose tables are not distributed.
const WORKERS: [usize; 4] = [0, 1, 2, 4];

/// Commits wait for the disk.
const SETTINGS: [&str; 3] = ["fsync=on", "max_wal_size=4GB", "citus.recover_2pc_interval=1min"];

/// The scripts of pgbench: a mode each.
const SCRIPTS: [&str; 2] = ["reserved.pgbench", "transactional.pgbench"];

const CALLERS: &str = "16";

/// The clusters take turns.
const ROUNDS: usize = 3;
const SECONDS: &str = "4";

/// The calls per second in a mode.
async fn measure(distributed: &Distributed, script: &str) -> f64 {
    let scripts = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/suites/store/citus"));
    let output = Command::new("pgbench")
        .args(["--no-vacuum", "--client", CALLERS, "--time", SECONDS, "--username", API])
        .args(["--host", &distributed.coordinator.host, "--port", &distributed.coordinator.port.to_string()])
        .arg("--file")
        .arg(scripts.join(script))
        .arg(&distributed.name)
        .env("PGPASSWORD", PASSWORD)
        .output()
        .await
        .expect("pgbench is installed");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let tps = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next());
    tps.and_then(|tps| tps.parse().ok()).unwrap_or_else(|| panic!("pgbench says no tps: {said}"))
}

/// The median, with the least and the greatest.
fn spread(found: &mut [f64]) -> String {
    found.sort_by(f64::total_cmp);
    format!("{:.0} ({:.0}–{:.0})", found[found.len() / 2], found[0], found[found.len() - 1])
}

#[tokio::test]
#[ignore = "measures for minutes: run it by hand, for docs/citus.md"]
#[expect(clippy::print_stdout, reason = "the table is the output of the measurement")]
async fn of_one_server_and_of_workers() {
    let mut subjects = Vec::new();
    for workers in WORKERS {
        let Some(cluster) = Cluster::start(workers, &SETTINGS).await else { return };
        let distributed = Distributed::new(&cluster).await;
        // The first run warms up.
        for script in SCRIPTS {
            measure(&distributed, script).await;
        }
        subjects.push((cluster, distributed, SCRIPTS.map(|_| Vec::new())));
    }
    for round in 1..=ROUNDS {
        for (_, distributed, found) in &mut subjects {
            for (script, found) in SCRIPTS.iter().zip(found) {
                found.push(measure(distributed, script).await);
            }
        }
        println!("round {round} of {ROUNDS}");
    }
    println!("\n| | reserved | transactional |\n|---|---:|---:|");
    for (cluster, _, [reserved, transactional]) in &mut subjects {
        let name = match cluster.workers.len() {
            0 => "one server, not distributed".to_owned(),
            1 => "coordinator and 1 worker".to_owned(),
            several => format!("coordinator and {several} workers"),
        };
        println!("| {name} | {} | {} |", spread(reserved), spread(transactional));
    }
}
