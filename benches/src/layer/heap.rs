//! The heap memory of calls in flight, counted on one thread and without a network.

use std::{
    pin::Pin,
    task::{Context as TaskContext, Waker},
};

use tokio::{runtime, task::yield_now};
use tonic_idempotency::store::MemoryStore;

use super::{
    echo::{Saying, Served, bare, call, proto::SayRequest, request, wrapped},
    settling::Settling,
    way::Way,
};
use crate::{Error, context::Context};

/// The number of calls in flight.
pub(super) const CALLS: usize = 1000;

/// The sizes of the responses that are recorded, in bytes.
pub(super) const RESPONSES: [u32; 3] = [100, 10_000, 100_000];

/// The number of calls that are recorded at the same time.
const SETTLING: usize = 100;

type Call = Pin<Box<dyn Future<Output = Result<usize, Error>>>>;

/// Measures the memory of a call while its handler runs, in bytes: bare, and with a key.
pub(super) fn while_handlers_run(context: &Context) -> Result<[f64; 2], Error> {
    let message = SayRequest { payload: vec![7; 100].into(), reply_bytes: 100, hold: true };
    let calls = context.count(CALLS);
    let handler = Saying::default();
    let bare = bytes_per_call(&mut bare(&handler), Way::Bare, &message, calls, || handler.held() as usize == calls)?;
    let handler = Saying::default();
    let mut wrapped = wrapped(&handler, MemoryStore::new())?;
    let wrapped = bytes_per_call(&mut wrapped, Way::First, &message, calls, || handler.held() as usize == calls)?;
    Ok([bare, wrapped])
}

/// Measures the memory of a call while its outcome is recorded, in bytes, for each of [`RESPONSES`].
pub(super) fn while_recorded(context: &Context) -> Result<Vec<f64>, Error> {
    let calls = context.count(SETTLING);
    let mut held = Vec::new();
    for reply_bytes in RESPONSES {
        let (handler, store) = (Saying::default(), Settling::default());
        let message = SayRequest { payload: vec![7; 100].into(), reply_bytes, hold: false };
        let mut wrapped = wrapped(&handler, store.clone())?;
        held.push(bytes_per_call(&mut wrapped, Way::First, &message, calls, || store.settling() == calls)?);
    }
    Ok(held)
}

/// Starts calls until `all_there`, and returns the memory of each in bytes.
fn bytes_per_call(
    service: &mut impl Served,
    way: Way,
    message: &SayRequest,
    calls: usize,
    all_there: impl Fn() -> bool,
) -> Result<f64, Error> {
    let runtime = runtime::Builder::new_current_thread().enable_time().build()?;
    let mut held: Vec<Call> = Vec::with_capacity(calls);
    let begin = async {
        for _ in 0..calls {
            let (mut service, request) = (service.clone(), request(message, way.key())?);
            let mut call: Call = Box::pin(async move { call(&mut service, request).await });
            if call.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())).is_ready() {
                return Err("a call that was to be in flight ended".into());
            }
            held.push(call);
        }
        while !all_there() {
            yield_now().await;
        }
        Ok::<_, Error>(())
    };
    let mut begun = Ok(());
    let info = allocation_counter::measure(|| begun = runtime.block_on(begin));
    begun?;
    Ok(info.bytes_current as f64 / calls as f64)
}
