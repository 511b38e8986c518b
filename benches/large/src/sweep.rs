//! A sweep of many expired records, while calls go on.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tonic_idempotency::maintenance::Sweeper;

use crate::{
    Error,
    args::Args,
    load::Load,
    progress::Progress,
    report::{Section, count},
    table::{Expiry, Table},
};

/// The processes that sweep.
const SWEEPERS: u64 = 2;

/// Larger batches than the default: a table of this size is swept with them.
const BATCH: u32 = 5_000;

/// The records per second that are to be deleted, and the most that a call may take, as a multiple of one without a sweep.
const RATE: f64 = 50_000.0;
const P99: f64 = 1.5;

/// The calls per second beside the sweep: what a service makes, not as many as there can be.
const CALLS: f64 = 200.0;

/// The records that have been swept.
const SWEPT: &str = "
    SELECT coalesce(sum(s.n_tup_del), 0)::int8
    FROM pg_inherits i JOIN pg_stat_all_tables s ON s.relid = i.inhrelid
    WHERE i.inhparent = to_regclass('tenant.idempotency_keys')";

/// Sweeps a table that has as many expired records as live ones.
pub(crate) async fn measure(args: &Args, progress: &Progress) -> Result<Section, Error> {
    let rows = args.rows(10_000_000);
    let table = Table::start(Some(args.partitions)).await?;
    table.fill(rows, Expiry::LIVE, progress).await?;
    table.fill(rows, Expiry::EXPIRED, progress).await?;
    let retention = Duration::from_secs(86_400);
    let load = Load { store: table.store(args.callers)?, callers: args.callers, retention, rate: Some(CALLS) };
    progress.say("calls without a sweep");
    load.run_for(args.time(20) / 4).await?;
    let mut without = load.run_for(args.time(20)).await?;

    progress.say("calls during the sweep");
    let mut sweepers = JoinSet::new();
    for _ in 0..SWEEPERS {
        let sweeper = Sweeper::new(table.store(1)?).batch(BATCH).rest(0.25);
        sweepers.spawn(async move { sweeper.sweep().await });
    }
    let watch = progress.watch(table.connect().await?, SWEPT, rows, "swept");
    let begun = Instant::now();
    let sweeping = async {
        let mut deleted = 0;
        while let Some(swept) = sweepers.join_next().await {
            deleted += swept??;
        }
        Ok((deleted, begun.elapsed()))
    };
    let (during, (deleted, took)) = load.run_during(sweeping).await?;
    drop(watch);
    if deleted != rows {
        return Err(format!("{deleted} records were swept, not {rows}").into());
    }
    progress.say("calls after the sweep");
    without.add(&load.run_for(args.time(20)).await?)?;

    let rate = deleted as f64 / took.as_secs_f64();
    let ratio = during.p99() / without.p99();
    let met = |met: bool| if met { "met" } else { "missed" };
    let text = format!(
        "{SWEEPERS} processes sweep {} expired records (`Sweeper::batch({BATCH})`, `rest(0.25)`) out of a table that has as many live ones, \
         in {} partitions, while {} callers make {CALLS} calls per second. **{:.0} records per second** (goal: ≥ {RATE:.0}: {}), in {:.0} s; \
         **p99 of claims {ratio:.2} ×** that without a sweep (goal: ≤ {P99} ×: {}). Times of claims in milliseconds. {}.",
        count(rows),
        args.partitions,
        args.callers,
        rate,
        met(rate >= RATE),
        took.as_secs_f64(),
        met(ratio <= P99),
        table.describe(),
    );
    table.stop().await;
    let row = |when: &str, cells: [String; 4]| [when.to_owned()].into_iter().chain(cells).collect();
    Ok(Section {
        name: "sweep",
        title: "A sweep of many records",
        text,
        columns: ["claims", "p50", "p99", "longest", "calls/s"].map(str::to_owned).to_vec(),
        rows: vec![row("without a sweep", without.cells()), row("during the sweep", during.cells())],
    })
}
