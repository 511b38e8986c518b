//! Time and allocations of calls without a network.

use std::time::Instant;

use tokio::runtime;

use super::{
    echo::{SAY, bare, proto::SayRequest, wrapped},
    way::{WAYS, Way},
};
use crate::{
    Error,
    context::Context,
    spread::Spread,
    unary::{self, GrpcService},
};

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
    let (mut bare, mut wrapped) = (bare(), wrapped()?);
    let mut nanoseconds: [Vec<f64>; WAYS] = Default::default();
    let mut allocations = [(u64::MAX, u64::MAX); WAYS];
    let calls = context.count(CALLS);
    for round in 0..context.rounds(ROUNDS) {
        for way in Way::in_turn(round) {
            let (time, allocated) = match way {
                Way::Bare => batch(&mut bare, way, calls)?,
                Way::First | Way::PassedThrough | Way::Replay => batch(&mut wrapped, way, calls)?,
            };
            nanoseconds[way as usize].push(time);
            let least = &mut allocations[way as usize];
            *least = allocated.min(*least);
        }
    }
    Ok(InProcess { nanoseconds: nanoseconds.map(Spread::of), allocations })
}

/// Returns the nanoseconds of one call of a sequence, and the allocations of the call that allocates least.
fn batch(service: &mut impl GrpcService, way: Way, calls: usize) -> Result<(f64, (u64, u64)), Error> {
    let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    let message = SayRequest { payload: vec![7; 100].into(), reply_bytes: 100 };
    let next = || unary::request(SAY, &message, way.key());
    // Records the call that is replayed.
    runtime.block_on(unary::answer(service, next()?))?;
    let requests = (0..calls).map(|_| next()).collect::<Result<Vec<_>, _>>()?;
    let begun = Instant::now();
    runtime.block_on(async {
        for request in requests {
            unary::answer(service, request).await?;
        }
        Ok::<_, Error>(())
    })?;
    let time = begun.elapsed().as_nanos() as f64 / calls as f64;

    let mut least = (u64::MAX, u64::MAX);
    for _ in 0..8 {
        let (request, mut result) = (next()?, Ok(()));
        let info = allocation_counter::measure(|| result = runtime.block_on(unary::answer(service, request)));
        result?;
        least = least.min((info.count_total, info.bytes_total));
    }
    Ok((time, least))
}
