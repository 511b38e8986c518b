//! The way of a table in use to partitions.

use std::time::{Duration, Instant};

use tokio::time;
use tokio_postgres::{Client, types::Type};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tonic_idempotency::{migrations, store::Schema};

use crate::{
    Error,
    args::Args,
    load::Load,
    progress::Progress,
    report::{Section, count},
    table::{Expiry, Table},
};

/// The time that a call may wait for a lock, in milliseconds.
const GOAL: f64 = 100.0;

/// How long a statement of another connection than $1 has been waiting for a lock of a table, in milliseconds, and whether $1 excludes
/// everything from the table of keys.
const LOCKS: &str = "
    SELECT coalesce(max(1000 * extract(epoch FROM clock_timestamp() - l.waitstart)) FILTER (WHERE NOT l.granted AND l.pid <> $1), 0)::float8,
           coalesce(bool_or(l.granted AND l.pid = $1 AND l.mode = 'AccessExclusiveLock'
                            AND l.relation = to_regclass('tenant.idempotency_keys')), false)
    FROM pg_locks l
    WHERE l.locktype = 'relation'";

/// The records that are in the new table, as PostgreSQL estimates it.
const MOVED: &str = "
    SELECT coalesce(sum(s.n_live_tup), 0)::int8
    FROM pg_inherits i JOIN pg_stat_all_tables s ON s.relid = i.inhrelid
    WHERE i.inhparent = to_regclass('tenant.idempotency_keys_next')";

/// Moves a table while calls go on.
pub(crate) async fn measure(args: &Args, progress: &Progress) -> Result<Section, Error> {
    let rows = args.rows(10_000_000);
    let table = Table::start(None, &[], args).await?;
    table.fill(rows, Expiry::LIVE, progress).await?;
    let day = Duration::from_secs(86_400);
    let load = Load { store: table.store(args.callers)?, callers: args.callers, retention: day, rate: None };
    let time = args.time(20);
    progress.say("calls before");
    load.run_for(time / 4).await?;
    let before = load.run_for(time).await?;

    progress.say("calls during the move");
    let mover = table.connect().await?;
    let pid: i32 = mover.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
    let stop = CancellationToken::new();
    let locks = AbortOnDropHandle::new(tokio::spawn(longest_times(table.connect().await?, pid, stop.clone())));
    let watch = progress.watch(table.connect().await?, MOVED, rows, "moved");
    let begun = Instant::now();
    let moving = async { Ok(migrations::move_to_partitions(&mover, &Schema::default(), args.partitions).await?) };
    let (during, ()) = load.run_during(moving).await?;
    let took = begun.elapsed();
    drop(watch);
    stop.cancel();
    let (longest, held) = locks.await??;

    progress.say("calls after");
    let after = load.run_for(time).await?;
    let records = table.number("SELECT count(*) FROM tenant.idempotency_keys").await?;
    let expected = rows + before.calls() + during.calls() + after.calls();
    if u64::try_from(records)? < expected {
        return Err(format!("{records} records are left of {expected}").into());
    }
    let text = format!(
        "A table of {} records is moved to {} partitions (`migrations::move_to_partitions`) while {} callers claim and complete new keys as \
         fast as they can. It took {:.0} s, the comparison of both tables included. **The longest wait of a call for a lock of the table: {longest:.0} ms** (goal: \
         ≤ {GOAL:.0} ms: {}); the move had the table for itself for at most {held:.0} ms, at the switch or before, as `pg_locks` shows both \
         every 2 ms. Times of claims in milliseconds. {}.",
        count(rows),
        args.partitions,
        args.callers,
        took.as_secs_f64(),
        if longest <= GOAL { "met" } else { "missed" },
        table.describe(),
    );
    table.stop().await;
    let row = |when: &str, cells: [String; 4]| [when.to_owned()].into_iter().chain(cells).collect();
    Ok(Section {
        name: "way",
        title: "The way of a table in use to partitions",
        text,
        columns: ["claims", "p50", "p99", "longest", "calls/s"].map(str::to_owned).to_vec(),
        rows: vec![row("before", before.cells()), row("during", during.cells()), row("after", after.cells())],
    })
}

/// Watches until it is told to stop. Returns the longest wait that it has seen, and the longest time for which the mover has excluded
/// everything: from the last look before it to the first one after it. Both in milliseconds.
async fn longest_times(observer: Client, mover: i32, stop: CancellationToken) -> Result<(f64, f64), Error> {
    let (mut longest, mut held): (f64, f64) = (0.0, 0.0);
    let mut free = Instant::now();
    let mut was_held = false;
    let mut ticks = time::interval(Duration::from_millis(2));
    while !stop.is_cancelled() {
        ticks.tick().await;
        let begun = Instant::now();
        let row = observer.query_typed_one(LOCKS, &[(&mover, Type::INT4)]).await?;
        longest = longest.max(row.try_get(0)?);
        let is_held: bool = row.try_get(1)?;
        if !is_held {
            if was_held {
                held = held.max(1000.0 * free.elapsed().as_secs_f64());
            }
            free = begun;
        }
        was_held = is_held;
    }
    Ok((longest, held))
}
