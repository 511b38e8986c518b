//! The run from start to end.

use std::{
    io::{self, Read as _},
    process::{self, ExitCode},
    thread,
    time::Duration,
};

use async_nats::jetstream::consumer::{Info, PullConsumer};
use drivers_example::Database;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time;

use crate::{
    args::{Args, Role},
    audit,
    billing::{self, OrderPlaced, OrderPlacedByCoupon},
    database,
    error::Error,
    faults::Faults,
    fleet::Fleet,
    nats::{self, Nats},
    orders::Orders,
    worker,
};

/// After how many parts of the messages a worker is killed each time.
const PARTS: u64 = 10;

/// The pause between two looks at the consumer.
const LOOK: Duration = Duration::from_millis(50);

/// Bills the orders, and prints the count; or is one of the workers. Succeeds if each order is billed once.
///
/// # Errors
///
/// A server is not installed, or a worker ends by itself: it says why.
pub async fn run(args: Args) -> Result<ExitCode, Error> {
    match args.role {
        Some(Role::Worker { nats, database, release, faults }) => work(&nats, &database, release, faults).await,
        None => bill(Orders(args.orders), args.max_deliver).await,
    }
}

async fn work(nats: &str, database: &str, release: u8, faults: Faults) -> Result<ExitCode, Error> {
    end_with_parent();
    let consumer = nats::consumer(&nats::connect(nats).await?).await?;
    let layer = billing::layer(database::store(database).await?)?;
    match release {
        1 => worker::work::<OrderPlaced>(consumer, &layer, faults).await?,
        _ => worker::work::<OrderPlacedByCoupon>(consumer, &layer, faults).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn bill(orders: Orders, max_deliver: i64) -> Result<ExitCode, Error> {
    let (nats, context) = Nats::start().await?;
    let database = Database::start(database::TABLES).await?;
    let mut dead_letters = nats::create(&context, max_deliver).await?;
    let mut consumer = nats::consumer(&context).await?;
    let mut fleet = Fleet::start(nats.url(), database.url())?;
    let publishing = tokio::spawn(async move { orders.publish(&context).await });

    let info = drain(&mut consumer, orders.messages(), &mut fleet).await?;
    publishing.await??;
    let rows = audit::count(orders, &database.url(), &mut dead_letters).await?;
    Ok(print(&rows, &info, orders, fleet.killed))
}

/// Waits until each message is acknowledged or terminated. Kills workers meanwhile.
async fn drain(consumer: &mut PullConsumer, messages: u64, fleet: &mut Fleet) -> Result<Info, Error> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} messages, {msg}")?;
    let progress = ProgressBar::new(messages).with_style(style);
    loop {
        fleet.check()?;
        let info = consumer.info().await?;
        let open = info.num_pending + info.num_ack_pending as u64;
        let ended = info.delivered.stream_sequence.saturating_sub(info.num_ack_pending as u64);
        progress.set_position(ended);
        progress.set_message(format!("{} workers killed", fleet.killed));
        if info.delivered.stream_sequence == messages && open == 0 {
            progress.finish_and_clear();
            return Ok(info.clone());
        }
        if ended * PARTS / messages > fleet.killed as u64 {
            fleet.kill_one().await?;
        }
        time::sleep(LOOK).await;
    }
}

#[expect(clippy::print_stdout, reason = "the result")]
fn print(rows: &[audit::Row], info: &Info, orders: Orders, killed: usize) -> ExitCode {
    println!(
        "{} orders, {} messages, {} deliveries, {killed} workers killed\n",
        orders.0,
        orders.messages(),
        info.delivered.consumer_sequence
    );
    println!("{:<28} {:>8} {:>8}", "", "expected", "counted");
    for (what, expected, counted) in rows {
        println!("{what:<28} {expected:>8} {counted:>8}");
    }
    let is_right = rows.iter().all(|(_, expected, counted)| expected == counted);
    println!("\n{}", if is_right { "each order is billed and booked once" } else { "WRONG" });
    if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ends this process when its standard input does, as it does with the process that has started it.
fn end_with_parent() {
    thread::spawn(|| {
        let _ = io::stdin().read(&mut [0]);
        process::exit(0);
    });
}
