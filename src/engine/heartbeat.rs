//! Keeps a reservation while its handler runs.

use std::{convert::Infallible, future, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    Execution,
    engine::{call::Call, held_key::Lease},
    store::{DynStore, ExtendOutcome},
    telemetry::{self, Chain},
};

/// The lease is extended when a third of it has passed, so that two more attempts fit in.
const BEATS: u32 = 3;

/// The shortest pause after an attempt that failed.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// Extends the lease until dropped; tells the handler when that is no longer possible.
pub(crate) async fn heartbeat(
    store: &dyn DynStore,
    call: &Call,
    lease: &mut Lease,
    execution: &Execution,
) -> Infallible {
    let mut next = lease.ends - (lease.length - lease.length / BEATS);
    loop {
        sleep_until(next.min(lease.ends)).await;
        let asked = Instant::now();
        match timeout_at(lease.ends, store.extend(&call.reservation, lease.length)).await {
            Ok(Ok(ExtendOutcome::Extended)) => {
                *lease = Lease::from(asked, lease.length);
                next = asked + lease.length / BEATS;
                continue;
            }
            Ok(Ok(ExtendOutcome::NotHeld)) => telemetry::lease_lost(&call.procedure, &"it was taken over"),
            Ok(Err(error)) if Instant::now() < lease.ends => {
                next = Instant::now() + (lease.length / (BEATS * BEATS)).max(SHORTEST_PAUSE);
                telemetry::lease_not_extended(&call.procedure, &Chain(&error));
                continue;
            }
            Ok(Err(_)) | Err(_) => telemetry::lease_lost(&call.procedure, &"it could not be extended in time"),
        }
        execution.lease_lost().cancel();
        return future::pending().await;
    }
}
