//! Calls with a journal that are made at the same time, in one lane and without one.

use std::time::Instant;

use tokio::{runtime, task::JoinSet};
use tonic_idempotency_client::{
    IdempotencyClientLayer,
    journal::{Journal, Lane},
};
use tower_layer::Layer as _;

use super::{
    client::AtOnce,
    echo::{
        FILE_DESCRIPTOR_SET, SAY,
        proto::{SayRequest, echo_client::EchoClient},
    },
};
use crate::{Error, context::Context, spread::Spread};

const ROUNDS: usize = 5;
const CALLS: usize = 10_000;

/// The microseconds of a call.
pub(super) struct InOneLane {
    /// With [`Order::ALL`].
    pub(super) microseconds: [Spread; 3],
    /// In a lane, as a multiple of those without an order.
    pub(super) ratio: Spread,
}

/// How calls keep an order.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// They do not: all are made at once.
    Unordered,
    /// All are made at once, in one lane.
    Lane,
    /// Each is made after the answer of the one before.
    Awaited,
}

impl Order {
    pub(super) const ALL: [Self; 3] = [Self::Unordered, Self::Lane, Self::Awaited];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unordered => "at once, without an order",
            Self::Lane => "at once, in one lane",
            Self::Awaited => "each after the answer of the one before",
        }
    }
}

pub(super) fn measure(context: &Context) -> Result<InOneLane, Error> {
    let mut microseconds = [const { Vec::new() }; 3];
    let calls = context.count(CALLS);
    for _ in 0..context.rounds(ROUNDS) {
        for order in Order::ALL {
            microseconds[order as usize].push(round(order, calls)?);
        }
    }
    let [unordered, lane, _] = &microseconds;
    let ratio = Spread::of_ratios(lane, unordered);
    Ok(InOneLane { microseconds: microseconds.map(Spread::of), ratio })
}

/// Returns the time of one call, in microseconds, on average.
fn round(order: Order, calls: usize) -> Result<f64, Error> {
    let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).procedure(SAY);
    let layer = layer.journal(Journal::builder().in_memory()?).build()?;
    let client = EchoClient::new(layer.layer(AtOnce));
    let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    let call = || {
        let mut request = tonic::Request::new(SayRequest { payload: vec![7; 100].into(), reply_bytes: 0 });
        if matches!(order, Order::Lane) {
            request.extensions_mut().insert(Lane::new("one"));
        }
        let mut client = client.clone();
        async move { client.say(request).await.map(drop) }
    };
    let begun = Instant::now();
    runtime.block_on(async {
        if matches!(order, Order::Awaited) {
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
