//! Renews the lease of a reservation while its handler runs.

use std::{convert::Infallible, future, time::Duration};

use tokio::time::{Instant, timeout_at};

use crate::{
    engine::{
        call::ProtectedCall,
        held_key::{HeldKey, Lease},
    },
    execution::Execution,
    store::{DynStore, ExtendOutcome, ServerClock, StoreError},
    telemetry::Chain,
};

/// The number of retries of a failed renewal in the time of one lease.
const RETRIES: u32 = 9;

/// The shortest pause after an attempt that failed.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// Renews a lease that ended before the handler began, because the answer to the claim was late or this process was paused. Another
/// call may have taken the key over, and then the handler must not begin.
pub(in crate::engine) async fn renew_late(
    store: &dyn DynStore,
    call: &ProtectedCall,
    key: &mut HeldKey,
) -> Result<ExtendOutcome, StoreError> {
    let HeldKey::Reservation(lease) = key else { return Ok(ExtendOutcome::Extended) };
    loop {
        let asked = Instant::now();
        match store.extend(&call.reservation, lease.length).await? {
            ExtendOutcome::Extended => *lease = Lease::from(asked, lease.length),
            outcome => return Ok(outcome),
        }
        if Instant::now() < lease.ends {
            return Ok(ExtendOutcome::Extended);
        }
    }
}

/// Renews the lease until dropped, also at once if the store's clock has jumped: the lease may have ended with it. Tells
/// the handler when the lease is lost, and goes on: as long as no other call has taken the key over, the token can still
/// renew it.
///
/// A lease that is not confirmed is renewed at once. If the store does not know the token, the claim was not made, and
/// nothing is lost; it may still be made late, and so the store is asked again until the lease would have ended.
pub(super) async fn heartbeat(
    store: &dyn DynStore,
    call: &ProtectedCall,
    lease: &mut Lease,
    execution: &Execution,
) -> Infallible {
    let telemetry = call.procedure.telemetry();
    let clock = store.server_clock();
    let mut jumps = clock.map(ServerClock::jumps);
    let mut lost = false;
    let mut next = lease.renewal();
    let late = next + lease.length;
    loop {
        let can_be_lost = lease.confirmed && !lost;
        let due = if can_be_lost { next.min(lease.ends) } else { next };
        let wakes = async {
            match jumps {
                Some(jumps) => Box::pin(jumps).await,
                None => future::pending().await,
            }
        };
        // Waits until the renewal is due or the clock jumps.
        let _: Result<(), _> = timeout_at(due, wakes).await;
        jumps = clock.map(ServerClock::jumps);
        let asked = Instant::now();
        let bound = if can_be_lost { lease.ends } else { asked + lease.length };
        let problem = match timeout_at(bound, store.extend(&call.reservation, lease.length)).await {
            Ok(Ok(ExtendOutcome::Extended)) => {
                *lease = Lease::from(asked, lease.length);
                next = lease.renewal();
                continue;
            }
            Ok(Ok(ExtendOutcome::NotHeld)) if !lease.confirmed && asked < late => None,
            Ok(Ok(ExtendOutcome::NotHeld)) => {
                if can_be_lost {
                    telemetry.lease_lost(&"another call took it over");
                    execution.lease_lost().cancel();
                }
                return future::pending().await;
            }
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        let now = Instant::now();
        if can_be_lost && now >= lease.ends {
            lost = true;
            telemetry.lease_lost(&"it could not be renewed in time");
            execution.lease_lost().cancel();
        } else if let Some(error) = problem {
            telemetry.lease_not_extended(error.kind().as_str(), &Chain(&error));
        }
        next = now + (lease.length / RETRIES).max(SHORTEST_PAUSE);
    }
}
