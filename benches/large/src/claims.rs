//! Claims in a large table, compared with a small one.

use std::time::Duration;

use crate::{
    Error,
    args::Args,
    disk,
    load::{Figures, Load},
    logged::Logged,
    progress::Progress,
    report::{Section, count},
    table::{Expiry, Table},
};

/// The sizes of the goal.
const SMALL: u64 = 10_000;
const LARGE: u64 = 100_000_000;
/// The size if the disk does not hold that.
const LESS: u64 = 30_000_000;

/// The setting that PostgreSQL's documentation advises for a server with 16 GB of memory.
const MEMORY: &str = "shared_buffers=4GB";

const ROUNDS: usize = 7;

/// The most that a claim in the large table may take, as a multiple of one in the small table.
const P50: f64 = 1.3;
const P99: f64 = 1.5;

/// Claims in both tables in turn.
pub(crate) async fn measure(args: &Args, progress: &Progress) -> Result<Section, Error> {
    let small = Table::start(Some(args.partitions), &[MEMORY], args).await?;
    let large = Table::start(Some(args.partitions), &[MEMORY], args).await?;
    let room = disk::rows_that_fit(&large.directory().await?)?;
    let records = match args.rows(LARGE) {
        records if args.has_default_rows() && records > room => LESS,
        records => records,
    };
    if records > room {
        return Err(format!("the disk holds {} records; say --rows", count(room)).into());
    }
    small.fill(SMALL.min(records), Expiry::LIVE, progress).await?;
    large.fill(records, Expiry::LIVE, progress).await?;
    progress.say("reading the index of keys");
    let index = large.read_keys().await?;

    let tables = [&small, &large];
    let mut loads = Vec::new();
    for table in tables {
        let retention = Duration::from_secs(86_400);
        let load = Load { store: table.store(args.callers)?, callers: args.callers, retention, rate: None };
        progress.say("warming up");
        load.run_for(args.time(10)).await?;
        loads.push(load);
    }
    let compression = large.compression().await?;
    let mut said = Vec::new();
    let mut rows = Vec::new();
    for value in ["off", &compression] {
        for table in tables {
            table.set("wal_compression", value).await?;
        }
        progress.say(&format!("wal_compression = {value}"));
        let figures = rounds(args, progress, tables, &loads).await?;
        let [p50, p99] = [ratio(&figures, Figures::p50, P50), ratio(&figures, Figures::p99, P99)];
        said.push(format!("with `wal_compression = {value}` in both servers **p50 {p50}, p99 {p99}**"));
        rows.extend([SMALL.min(records), records].into_iter().zip(&figures).map(|(size, figures)| {
            let of = |figure: fn(&Figures) -> f64| {
                format!("{:.2}", median(figures.iter().map(|logged| figure(&logged.figures))))
            };
            let log = median(figures.iter().map(Logged::kilobytes_per_call));
            let [p50, p99, rate] = [Figures::p50, Figures::p99, Figures::per_second].map(of);
            vec![count(size), value.to_owned(), p50, p99, rate, format!("{log:.1}")]
        }));
    }
    let text = format!(
        "{} callers claim and complete new keys in a table of {} records and in one of {}, in turn, in {ROUNDS} rounds; each has {} \
         partitions and a server of its own (`{MEMORY}`), and every commit is flushed to the disk. The index of keys of the large \
         table, {:.1} GB, was read once before, so that it is in the machine's memory, as on a server that has run for a while.{} Times of claims in \
         milliseconds, the median of the rounds. The large table compared with the small one: {}. {}.",
        args.callers,
        count(SMALL.min(records)),
        count(records),
        args.partitions,
        index as f64 / 1e9,
        if records < LARGE { " The goal is for 100,000,000 records; this run had fewer." } else { "" },
        said.join("; "),
        large.describe(),
    );
    small.stop().await;
    large.stop().await;
    Ok(Section {
        name: "claims",
        title: "Claims in a large table",
        text,
        columns: ["records", "`wal_compression`", "p50", "p99", "calls/s", "log, KB per call"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    })
}

/// The calls in the small table and in the large one, in turn.
async fn rounds(
    args: &Args,
    progress: &Progress,
    tables: [&Table; 2],
    loads: &[Load],
) -> Result<[Vec<Logged>; 2], Error> {
    let mut figures: [Vec<Logged>; 2] = Default::default();
    for round in 0..ROUNDS {
        progress.say(&format!("round {} of {ROUNDS}", round + 1));
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for index in order {
            figures[index].push(Logged::run_for(tables[index], &loads[index], args.time(5)).await?);
        }
    }
    Ok(figures)
}

/// Says the median of the rounds' ratios, and whether it is within the bound.
fn ratio(figures: &[Vec<Logged>; 2], figure: fn(&Figures) -> f64, bound: f64) -> String {
    let [small, large] = figures;
    let ratio = median(small.iter().zip(large).map(|(small, large)| figure(&large.figures) / figure(&small.figures)));
    format!("{ratio:.2} × (goal: ≤ {bound} ×: {})", if ratio <= bound { "met" } else { "missed" })
}

/// The median of at least one figure.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
