//! A sweep of many expired records, while calls go on.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tonic_idempotency::{maintenance::Sweeper, store::PostgresStore};

use crate::{
    Error,
    args::Args,
    load::Load,
    logged::Logged,
    progress::Progress,
    report::{Section, count},
    table::{Expiry, Table},
};

/// The records per second that are to be deleted, and the most that a call may take, as a multiple of one without a sweep.
const RATE: f64 = 50_000.0;
const P99: f64 = 1.5;

/// The calls per second beside the sweep: what a service makes, not as many as there can be.
const CALLS: f64 = 200.0;

/// Room for the log of a sweep, as docs/operations.md advises.
const LOG: [&str; 2] = ["max_wal_size=16GB", "min_wal_size=8GB"];

/// The records that have been swept since the server was started.
const SWEPT: &str = "
    SELECT coalesce(sum(s.n_tup_del), 0)::int8
    FROM pg_inherits i JOIN pg_stat_all_tables s ON s.relid = i.inhrelid
    WHERE i.inhparent = to_regclass('tenant.idempotency_keys')";

/// How sweepers share the machine with calls.
#[derive(Clone, Copy, Debug)]
struct Pace {
    name: &'static str,
    /// The processes that sweep.
    processes: usize,
    /// The `batch` and the `rest` of a [`Sweeper`]; `None` for its defaults.
    settings: Option<(u32, f64)>,
    /// Whether the log has compressed images of pages.
    compressed: bool,
    /// The part of the expired records that is swept, as its inverse.
    part: u64,
}

impl Pace {
    /// The pace that the goals are set for.
    const DEFAULT: Self =
        Self { name: "one process, default settings", processes: 1, settings: None, compressed: true, part: 1 };
    /// A quarter of the expired records, for other settings. The figures are not comparable with those of the whole.
    const QUARTER: Self = Self { part: 4, ..Self::DEFAULT };
}

const PACES: [Pace; 4] = [
    Pace::DEFAULT,
    Pace { name: "one process, `wal_compression` off", compressed: false, ..Pace::QUARTER },
    Pace { name: "one process, `rest(8.0)`", settings: Some((250, 8.0)), ..Pace::QUARTER },
    Pace {
        name: "two processes, `batch(5000)`, `rest(0.25)`",
        processes: 2,
        settings: Some((5_000, 0.25)),
        ..Pace::QUARTER
    },
];

/// Sweeps a table that has as many expired records as live ones, at each pace.
pub(crate) async fn measure(args: &Args, progress: &Progress) -> Result<Section, Error> {
    let live = args.rows(10_000_000);
    let table = Table::start(Some(args.partitions), &LOG, args).await?;
    table.fill(live, Expiry::LIVE, progress).await?;
    table.make_log_files().await?;
    let compression = table.compression().await?;
    let retention = Duration::from_secs(86_400);
    let load = Load { store: table.store(args.callers)?, callers: args.callers, retention, rate: Some(CALLS) };
    load.run_for(args.time(20) / 4).await?;

    let mut rows = Vec::new();
    let mut goals = None;
    for pace in PACES {
        let expired = live / pace.part;
        table.fill(expired, Expiry::EXPIRED, progress).await?;
        table.set("wal_compression", if pace.compressed { &compression } else { "off" }).await?;
        progress.say("calls without a sweep");
        load.run_for(args.time(20) / 4).await?;
        let without = Logged::run_for(&table, &load, args.time(20)).await?;
        progress.say(&format!("calls during the sweep: {}", pace.name));
        let before = table.number(SWEPT).await?.unsigned_abs();
        let watch =
            progress.watch(table.connect().await?, SWEPT, before + expired, "swept, with those of earlier sweeps");
        let begun = Instant::now();
        let sweeping = async { Ok((pace.sweep(&table).await?, begun.elapsed())) };
        let (during, (deleted, took)) = Logged::run_during(&table, &load, sweeping).await?;
        drop(watch);
        if deleted != expired {
            return Err(format!("{deleted} records were swept, not {expired}").into());
        }
        let (rate, ratio) = (deleted as f64 / took.as_secs_f64(), during.figures.p99() / without.figures.p99());
        goals.get_or_insert((rate, ratio));
        progress.say(&format!("{rate:.0} records per second, p99 of claims {ratio:.2} × that without a sweep"));
        rows.push(row("no sweep", "", &without, ""));
        rows.push(row(pace.name, &format!("{rate:.0}"), &during, &format!("{ratio:.2} ×")));
    }
    let (rate, ratio) = goals.ok_or("no pace")?;
    let met = |met: bool| if met { "met" } else { "missed" };
    let text = format!(
        "{} expired records are swept out of a table that has as many live ones, in {} partitions, while {} callers make {CALLS} calls per \
         second, one after the other; then a quarter as many, with other settings: a shorter sweep, so that those rows do not compare with the first one. One process with the default settings: **{rate:.0} records per second** \
         (goal: ≥ {RATE:.0}: {}); **p99 of claims {ratio:.2} ×** that without a sweep just before (goal: ≤ {P99} ×: {}). Autovacuum works \
         beside the sweep, too, and all of it on this machine's {} cores. The server has room for their log ({}), and compresses it (`wal_compression={compression}`). \
         Times of claims in milliseconds. {}.",
        count(live),
        args.partitions,
        args.callers,
        met(rate >= RATE),
        met(ratio <= P99),
        std::thread::available_parallelism()?,
        LOG.map(|setting| format!("`{setting}`")).join(", "),
        table.describe(),
    );
    table.stop().await;
    Ok(Section {
        name: "sweep",
        title: "A sweep of many records",
        text,
        columns: ["claims during", "records swept/s", "log, MB/s", "p50", "p99", "longest", "p99 / without"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    })
}

/// A row of the report.
fn row(name: &str, rate: &str, calls: &Logged, ratio: &str) -> Vec<String> {
    let [p50, p99, longest, _] = calls.figures.cells();
    let log = format!("{:.1}", calls.megabytes_per_second());
    vec![name.to_owned(), rate.to_owned(), log, p50, p99, longest, ratio.to_owned()]
}

impl Pace {
    /// Sweeps until nothing is left, and returns the number of deleted records.
    async fn sweep(self, table: &Table) -> Result<u64, Error> {
        let mut sweepers = JoinSet::new();
        for _ in 0..self.processes {
            let sweeper = self.sweeper(table.store(1)?);
            sweepers.spawn(async move { sweeper.sweep().await });
        }
        let mut deleted = 0;
        while let Some(swept) = sweepers.join_next().await {
            deleted += swept??;
        }
        Ok(deleted)
    }

    fn sweeper(self, store: PostgresStore) -> Sweeper<PostgresStore> {
        let sweeper = Sweeper::new(store);
        match self.settings {
            Some((batch, rest)) => sweeper.batch(batch).rest(rest),
            None => sweeper,
        }
    }
}
