//! Renews the lease of a reservation while its handler runs.

use std::{convert::Infallible, future, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};

use super::{call::Call, held_key::Lease};
use crate::{
    execution::Execution,
    store::{DynStore, ExtendOutcome},
    telemetry::Chain,
};

/// The lease is renewed when a third of it has passed, so that two more attempts fit in.
const BEATS: u32 = 3;

/// The shortest pause after an attempt that failed.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// Renews the lease until dropped; tells the handler when the lease is lost.
pub(super) async fn heartbeat(
    store: &dyn DynStore,
    call: &Call,
    lease: &mut Lease,
    execution: &Execution,
) -> Infallible {
    let telemetry = call.procedure.telemetry();
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
            Ok(Ok(ExtendOutcome::NotHeld)) => telemetry.lease_lost(&"another call took it over"),
            Ok(Err(error)) if Instant::now() < lease.ends => {
                next = Instant::now() + (lease.length / (BEATS * BEATS)).max(SHORTEST_PAUSE);
                telemetry.lease_not_extended(&Chain(&error));
                continue;
            }
            Ok(Err(_)) | Err(_) => telemetry.lease_lost(&"it could not be renewed in time"),
        }
        execution.lease_lost().cancel();
        return future::pending().await;
    }
}
