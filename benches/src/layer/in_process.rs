//! The layer alone: services that are called without a network.

use std::time::Instant;

use tokio::runtime;
use tonic_idempotency::MemoryStore;

use super::{
    echo::{Saying, Served, bare, call, proto::SayRequest, remembering, request, wrapped},
    way::{WAYS, Way},
};
use crate::{Error, context::Context, spread::Spread};

const ROUNDS: usize = 60;
const CALLS: usize = 1000;

/// What a call takes, by [`Way`].
pub(super) struct InProcess {
    pub(super) nanoseconds: [Spread; WAYS],
    /// How often it allocates, and how much.
    pub(super) allocations: [(u64, u64); WAYS],
}

/// Measures on this thread alone.
pub(super) fn measure(context: &Context) -> Result<InProcess, Error> {
    let handler = Saying::default();
    let mut bare = bare(&handler);
    let mut wrapped = wrapped(&handler, MemoryStore::new())?;
    let mut remembering = remembering(&handler, MemoryStore::new())?;
    let mut nanoseconds: [Vec<f64>; WAYS] = Default::default();
    let mut allocations = [(u64::MAX, u64::MAX); WAYS];
    let calls = context.count(CALLS);
    for round in 0..context.rounds(ROUNDS) {
        for way in Way::in_turn(round) {
            let (time, allocated) = match way {
                Way::Bare => batch(&mut bare, way, calls)?,
                Way::First | Way::PassedThrough | Way::Replay => batch(&mut wrapped, way, calls)?,
                Way::Remembered => batch(&mut remembering, way, calls)?,
            };
            nanoseconds[way as usize].push(time);
            let thriftiest = &mut allocations[way as usize];
            *thriftiest = allocated.min(*thriftiest);
        }
    }
    Ok(InProcess { nanoseconds: nanoseconds.map(Spread::of), allocations })
}

/// How many nanoseconds each of some calls takes, one after the other, and how often and how much the thriftiest allocates.
fn batch(service: &mut impl Served, way: Way, calls: usize) -> Result<(f64, (u64, u64)), Error> {
    let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    let message = SayRequest { payload: vec![7; 100].into(), reply_bytes: 100, hold: false };
    let next = || request(&message, way.key());
    // What is to be replayed is recorded, and then remembered.
    for _ in 0..2 {
        runtime.block_on(call(service, next()?))?;
    }
    let requests = (0..calls).map(|_| next()).collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    runtime.block_on(async {
        for request in requests {
            call(service, request).await?;
        }
        Ok::<_, Error>(())
    })?;
    let time = begun.elapsed().as_nanos() as f64 / calls as f64;

    let mut thriftiest = (u64::MAX, u64::MAX);
    for _ in 0..8 {
        let (request, mut result) = (next()?, Ok(0));
        let info = allocation_counter::measure(|| result = runtime.block_on(call(service, request)));
        result?;
        thriftiest = thriftiest.min((info.count_total, info.bytes_total));
    }
    Ok((time, thriftiest))
}
