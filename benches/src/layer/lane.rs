//! Calls with a journal that are made at the same time, in one lane and without one.

use std::time::Instant;

use tokio::{runtime, task::JoinSet};
use tonic_idempotency_client::{
    IdempotencyClientLayer,
    journal::{Journal, Lane},
};
use tower_layer::Layer as _;

use super::service::{
    AtOnce, FILE_DESCRIPTOR_SET, SAY,
    proto::{SayRequest, echo_client::EchoClient},
};
use crate::{
    context::Context,
    error::Error,
    report::{Spread, table},
};

const ROUNDS: usize = 5;
const CALLS: usize = 10_000;

pub(super) struct InOneLane {
    pub(super) table: String,
    /// The time of a call in a lane, as a multiple of that without an order.
    pub(super) ratio: Spread,
}

/// How calls keep an order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// They do not: all are made at once.
    Unordered,
    /// All are made at once, in one lane.
    Lane,
    /// Each is made after the answer of the one before.
    Awaited,
}

const ORDERS: [(Order, &str); 3] = [
    (Order::Unordered, "at once, without an order"),
    (Order::Lane, "at once, in one lane"),
    (Order::Awaited, "each after the answer of the one before"),
];

pub(super) fn measure(context: &Context) -> Result<InOneLane, Error> {
    let mut microseconds = [const { Vec::new() }; ORDERS.len()];
    for _ in 0..context.rounds(ROUNDS) {
        for (order, _) in ORDERS {
            microseconds[order as usize].push(round(order, context.count(CALLS))?);
        }
    }
    let [unordered, lane, _] = &microseconds;
    let row = |(order, name): (Order, &str)| {
        [name.to_owned(), Spread::of(microseconds[order as usize].iter().copied()).with_decimals(1)]
    };
    let columns = ["10,000 calls", "µs of a call"];
    let table = table("Calls of a client with a journal in memory", columns, ORDERS.map(row));
    Ok(InOneLane { table, ratio: Spread::of_ratios(lane, unordered) })
}

/// Returns the time of one call, in microseconds, on average.
fn round(order: Order, calls: usize) -> Result<f64, Error> {
    let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).procedure(SAY);
    let layer = layer.journal(Journal::builder().in_memory()?).build()?;
    let client = EchoClient::new(layer.layer(AtOnce));
    let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    let call = || {
        let mut request = tonic::Request::new(SayRequest { payload: vec![7; 100].into(), reply_bytes: 0 });
        if order == Order::Lane {
            request.extensions_mut().insert(Lane::new("one"));
        }
        let mut client = client.clone();
        async move { client.say(request).await.map(drop) }
    };
    let begun = Instant::now();
    runtime.block_on(async {
        if order == Order::Awaited {
            for _ in 0..calls {
                call().await?;
            }
            return Ok(());
        }
        let mut under_way: JoinSet<_> = (0..calls).map(|_| call()).collect();
        while let Some(answered) = under_way.join_next().await {
            answered??;
        }
        Ok::<_, Error>(())
    })?;
    Ok(begun.elapsed().as_secs_f64() * 1e6 / calls as f64)
}
