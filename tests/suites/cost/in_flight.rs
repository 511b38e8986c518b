//! The memory of calls in flight.

use std::pin::Pin;

use crate::harness::{CANCEL, GET, request, with_transactions};
use crate::prelude::*;

const CALLS: usize = 1000;

/// The bytes that the layer may hold for a call while its handler runs, including the handler's own task and the record of a
/// store in memory.
const BOUND: f64 = 5632.0;

/// The same of a call in a transaction, which has its request twice: its handler may run again.
const BOUND_IN_TRANSACTION: f64 = 6144.0;

/// The bytes that each of many calls holds while all their handlers run, from the head of its request to the handler's
/// own.
fn bytes_per_call(mut service: impl Server, handler: &Counting, request: impl Fn() -> Request<Body>) -> f64 {
    let (runtime, before) = (runtime(), handler.started());
    // One call to its end, which makes the state that all calls share.
    handler.open(1);
    runtime.block_on(call(&mut service, request()));
    let mut calls: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::with_capacity(CALLS);
    let start = async {
        for _ in 0..CALLS {
            let mut call = Box::pin(service.call(request()).map(drop));
            assert!(call.as_mut().now_or_never().is_none(), "its handler waits");
            calls.push(call);
        }
        while handler.started() < before + 1 + CALLS {
            tokio::task::yield_now().await;
        }
    };
    let info = allocation_counter::measure(|| runtime.block_on(start));
    handler.open(CALLS);
    runtime.block_on(async {
        for call in calls {
            call.await;
        }
    });
    info.bytes_current as f64 / CALLS as f64
}

#[test]
fn does_not_exceed_the_bound_beyond_what_their_handlers_hold() {
    for (path, bound) in [(CREATE, BOUND), (CANCEL, BOUND), (GET, BOUND_IN_TRANSACTION)] {
        let handler = Counting::default();
        let bare = bytes_per_call(bare(&handler), &handler, || request(path, "hold", None));
        let wrapped =
            bytes_per_call(with_transactions(&handler), &handler, || request(path, "hold", Some(Uuid::new_v4())));
        assert!(bare > 1000.0, "they are in flight: {bare} bytes");
        let layer = wrapped - bare;
        assert!(layer <= bound, "{path}: {layer} bytes beyond the handler's {bare}");
    }
}
