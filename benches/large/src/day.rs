//! The space of a table during a day of calls and sweeps.

use tonic_idempotency::maintenance::Sweeper;

use crate::{
    Error,
    args::Args,
    load::Load,
    progress::Progress,
    report::{Section, count},
    table::{Expiry, Table},
};

/// The most that the table may take, as a multiple of a fresh copy of it.
const GOAL: f64 = 1.3;

/// How often the records are swept and the space is measured in a day.
const HOURS: u32 = 24;

/// The bytes of the table with all its parts, and of its indexes.
const SIZE: &str = "
    SELECT coalesce(sum(pg_total_relation_size(i.inhrelid)), 0)::int8
    FROM pg_inherits i WHERE i.inhparent = to_regclass('tenant.idempotency_keys')";

/// A table with the same rows and indexes, without anything that is dead.
const COPY: &str = "
    CREATE TABLE public.fresh (LIKE tenant.idempotency_keys INCLUDING ALL);
    INSERT INTO public.fresh SELECT * FROM tenant.idempotency_keys";

/// Lets a day pass in which all records of the table expire and as many are made.
pub(crate) async fn measure(args: &Args, progress: &Progress) -> Result<Section, Error> {
    let rows = args.rows(2_000_000);
    let day = args.time(1_200);
    let table = Table::start(Some(args.partitions), &[], args).await?;
    // The day is short, and so is the pause between two looks of autovacuum: once in a minute of the day's time.
    let naptime = (day.as_secs_f64() / 1440.0).ceil();
    table.set("autovacuum_naptime", &naptime.to_string()).await?;
    table.fill(rows, Expiry { from: 0.0, spread: day.as_secs_f64() }, progress).await?;
    let first = table.number(SIZE).await?;

    let rate = rows as f64 / day.as_secs_f64();
    let load = Load { store: table.store(args.callers)?, callers: args.callers, retention: day, rate: Some(rate) };
    let sweeper = Sweeper::new(table.store(1)?);
    let mut sizes = Vec::new();
    let (figures, ()) = load
        .run_during(async {
            for hour in 1..=HOURS {
                tokio::time::sleep(day / HOURS).await;
                let swept = sweeper.sweep().await?;
                let size = table.number(SIZE).await?;
                sizes.push(size);
                progress.say(&format!(
                    "hour {hour} of {HOURS}: {} records swept, {} MB",
                    count(swept),
                    size / 1_000_000
                ));
            }
            Ok(())
        })
        .await?;
    table.owner().batch_execute(COPY).await?;
    let fresh = table.number("SELECT pg_total_relation_size('public.fresh')").await?;
    let live = table.number("SELECT count(*) FROM public.fresh").await?;
    let largest = sizes.iter().copied().max().unwrap_or(first);
    let bloat = largest as f64 / fresh as f64;
    let text = format!(
        "A day of {:.0} s in which the {} records of a table of {} partitions expire and {} calls make as many new ones ({rate:.0} per \
         second, each a reservation and its completion), with a sweep in each of its {HOURS} hours, and a vacuum when the settings of the \
         migrations ask for one. **The table takes at most {bloat:.2} ×** what a fresh copy of its {} records at the end of the day takes, with \
         indexes (goal: ≤ {GOAL} ×: {}). p99 of claims: {:.2} ms. {}.",
        day.as_secs_f64(),
        count(rows),
        args.partitions,
        count(figures.calls()),
        count(u64::try_from(live)?),
        if bloat <= GOAL { "met" } else { "missed" },
        figures.p99(),
        table.describe(),
    );
    table.stop().await;
    let megabytes = |bytes: i64| format!("{:.1}", bytes as f64 / 1e6);
    let hours = sizes.iter().zip(1..).filter(|(_, hour)| hour % 6 == 0);
    let hours = hours.map(|(size, hour)| vec![format!("after hour {hour}"), megabytes(*size)]);
    let rows = [vec!["at first".to_owned(), megabytes(first)]].into_iter().chain(hours);
    let rows = rows.chain([vec!["a fresh copy".to_owned(), megabytes(fresh)]]).collect();
    Ok(Section {
        name: "day",
        title: "A day of autovacuum",
        text,
        columns: ["table and indexes", "MB"].map(str::to_owned).to_vec(),
        rows,
    })
}
