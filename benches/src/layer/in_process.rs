//! Time and allocations of calls without a network.

use std::time::Instant;

use tokio::runtime;
use tonic_idempotency::store::MemoryStore;

use super::{
    echo::{Saying, Served, bare, call, proto::SayRequest, remembering, request, wrapped},
    way::{WAYS, Way},
};
use crate::{Error, context::Context, spread::Spread};

const ROUNDS: usize = 60;
const CALLS: usize = 1000;

/// The cost of a call, by [`Way`].
pub(super) struct InProcess {
    pub(super) nanoseconds: [Spread; WAYS],
    /// The number of allocations, and their bytes.
    pub(super) allocations: [(u64, u64); WAYS],
}

/// Measures on this thread only.
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
            let least = &mut allocations[way as usize];
            *least = allocated.min(*least);
        }
    }
    Ok(InProcess { nanoseconds: nanoseconds.map(Spread::of), allocations })
}

/// Returns the nanoseconds of one call of a sequence, and the allocations of the call that allocates least.
fn batch(service: &mut impl Served, way: Way, calls: usize) -> Result<(f64, (u64, u64)), Error> {
    let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    let message = SayRequest { payload: vec![7; 100].into(), reply_bytes: 100, hold: false };
    let next = || request(&message, way.key());
    // Records the call that is replayed, and then has the layer remember it.
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

    let mut least = (u64::MAX, u64::MAX);
    for _ in 0..8 {
        let (request, mut result) = (next()?, Ok(0));
        let info = allocation_counter::measure(|| result = runtime.block_on(call(service, request)));
        result?;
        least = least.min((info.count_total, info.bytes_total));
    }
    Ok((time, least))
}
