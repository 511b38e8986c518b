//! Tells the store the disposition of a reservation: at once, or in the background if the store does not answer.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    call::Call,
    disposition::Disposition,
    held_key::{HeldKey, Lease},
    state::Engine,
};
use crate::{
    store::{AbandonOutcome, CompleteOutcome, DynStore, ReleaseOutcome, StoreError},
    telemetry::Chain,
};

/// Gives up a key without an outcome.
pub(crate) async fn let_go(engine: &Engine, call: &Arc<Call>, key: HeldKey, disposition: Disposition) {
    match key {
        HeldKey::Reservation(lease) => {
            record(engine, call, disposition, lease).await;
        }
        HeldKey::Transaction(transaction) => transaction.roll_back().await,
    }
}

/// Records a disposition at once; if the store does not answer, in the background until the lease ends. Returns whether it
/// is recorded already.
pub(super) async fn record(engine: &Engine, call: &Arc<Call>, disposition: Disposition, lease: Lease) -> bool {
    let recorded = try_record(&*engine.store, call, &disposition).await.is_ok();
    if !recorded {
        record_in_background(engine, Arc::clone(call), disposition, lease);
    }
    recorded
}

/// Records a disposition in a task of its own, with pauses from 100 ms up to 5 s between the attempts, until the lease ends.
pub(super) fn record_in_background(engine: &Engine, call: Arc<Call>, disposition: Disposition, lease: Lease) {
    let store = Arc::clone(&engine.store);
    let tracked = engine.tracker.recording(&call);
    engine.tracker.tasks().spawn(async move {
        let _tracked = tracked;
        let mut pause = Duration::from_millis(100);
        while Instant::now() + pause < lease.ends {
            tokio::time::sleep(pause).await;
            if try_record(&*store, &call, &disposition).await.is_ok() {
                return;
            }
            pause = (pause * 2).min(Duration::from_secs(5));
        }
        call.procedure.telemetry().not_settled(disposition.step(), "gave up: the lease ends", None);
    });
}

/// Makes one attempt. A key that was taken over counts as recorded: there is nothing left to record.
async fn try_record(store: &dyn DynStore, call: &Call, disposition: &Disposition) -> Result<(), StoreError> {
    let held = match disposition {
        Disposition::Abandon => store.abandon(&call.reservation).await.map(|it| it == AbandonOutcome::Abandoned),
        Disposition::Complete(completion) => {
            store.complete(&call.reservation, completion).await.map(|it| it != CompleteOutcome::Fenced)
        }
        Disposition::Release => store.release(&call.reservation).await.map(|it| it == ReleaseOutcome::Released),
    };
    match held {
        Ok(true) => Ok(()),
        Ok(false) => {
            let what = "this call does not hold its key any more: its lease ended and another call took over, or it never \
                        held it";
            call.procedure.telemetry().not_settled(disposition.step(), what, None);
            Ok(())
        }
        Err(error) => {
            let what = "the outcome of a call is not recorded yet";
            call.procedure.telemetry().not_settled(disposition.step(), what, Some(&Chain(&error)));
            Err(error)
        }
    }
}
