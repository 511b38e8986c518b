//! The calls per second of one server, and of clusters, and their cost: the table in `results/citus.md`. pgbench sends what the store
//! sends for a first call. All nodes and pgbench share this machine.

use tokio::process::Command;

use super::{
    cluster::{Cluster, PASSWORD, SUPERUSER},
    distributed::{API, Distributed},
};
use crate::prelude::*;

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

/// The measurements of a mode: one for each round.
#[derive(Default)]
struct Found {
    /// Calls per second.
    rates: Vec<f64>,
    /// Milliseconds of processor time per call, of all connections to all nodes.
    costs: Vec<f64>,
}

impl Found {
    async fn measure(&mut self, distributed: &Distributed, script: &str) {
        let before = used(distributed).await;
        let said = pgbench(distributed, script).await;
        let used = used(distributed).await - before;
        let number = |name: &str| -> f64 {
            let found = said.lines().find_map(|line| line.strip_prefix(name)?.split(' ').next()?.parse().ok());
            found.unwrap_or_else(|| panic!("pgbench does not say '{name}': {said}"))
        };
        self.rates.push(number("tps = "));
        self.costs.push(used / number("number of transactions actually processed: "));
    }
}

/// Runs a script, and returns what pgbench says.
async fn pgbench(distributed: &Distributed, script: &str) -> String {
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
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// The processor time of all connections of the API's role to all nodes, which are closed then, in milliseconds. Linux counts it for the
/// process that has started them.
async fn used(distributed: &Distributed) -> f64 {
    let mut used = 0.0;
    for node in std::iter::once(&distributed.coordinator).chain(&distributed.workers) {
        let client = distributed.connect(node, SUPERUSER).await;
        let open = format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{API}'");
        until("the connections are closed", async || {
            client.query_one(&open, &[]).await.expect("a count").get::<_, i64>(0) == 0
        })
        .await;
        let pid = "SELECT split_part(pg_read_file('postmaster.pid'), chr(10), 1)";
        let pid: String = value(&client, pid).await;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the process");
        // Behind the name, which is in parentheses: the state, ten further fields, and four times, in hundredths of a second.
        let (_, fields) = stat.rsplit_once(") ").expect("a name");
        let times = fields.split(' ').skip(11).take(4).map(|time| time.parse::<u32>().expect("a time"));
        used += 10.0 * f64::from(times.sum::<u32>());
    }
    used
}

/// The median, with the least and the greatest.
fn spread(found: &mut [f64], decimals: usize) -> String {
    found.sort_by(f64::total_cmp);
    format!("{:.decimals$} ({:.decimals$}–{:.decimals$})", found[found.len() / 2], found[0], found[found.len() - 1])
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the table is the output of the measurement")]
async fn of_one_server_and_of_workers() {
    let mut subjects = Vec::new();
    for workers in WORKERS {
        let Some(cluster) = Cluster::start(workers, &SETTINGS).await else { return };
        let distributed = Distributed::new(&cluster).await;
        // The first run warms up.
        for script in SCRIPTS {
            pgbench(&distributed, script).await;
        }
        subjects.push((cluster, distributed, SCRIPTS.map(|_| Found::default())));
    }
    for round in 1..=ROUNDS {
        for (_, distributed, found) in &mut subjects {
            for (script, found) in SCRIPTS.iter().zip(found) {
                found.measure(distributed, script).await;
            }
        }
        println!("round {round} of {ROUNDS}");
    }
    println!(
        "\n| | reserved: calls per second | processor time, ms | transactional: calls per second | processor time, ms |"
    );
    println!("|---|---:|---:|---:|---:|");
    for (cluster, _, [reserved, transactional]) in &mut subjects {
        let name = match cluster.workers.len() {
            0 => "one server, not distributed".to_owned(),
            1 => "coordinator and 1 worker".to_owned(),
            several => format!("coordinator and {several} workers"),
        };
        let cells = [reserved, transactional]
            .map(|Found { rates, costs }| format!("{} | {}", spread(rates, 0), spread(costs, 2)));
        println!("| {name} | {} |", cells.join(" | "));
    }
}
