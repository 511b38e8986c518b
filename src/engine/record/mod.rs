//! Tells the store the disposition of a reservation: at once, or in the background if the store does not take it.

pub(crate) mod disposition;
pub(crate) mod settle;

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};

use crate::{
    engine::{
        call::ProtectedCall,
        held_key::{HeldKey, Lease},
        record::disposition::Disposition,
        shared::state::Engine,
    },
    pause::{Pauses, shortened},
    policy::Mode,
    store::{AbandonOutcome, CompleteOutcome, DynStore, ExtendOutcome, ReleaseOutcome, StoreError},
    telemetry::Chain,
};

/// The first pause between two attempts, and the longest one.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(10)];

/// The longest pause if the lease is very short.
const SHORTEST_PAUSE: Duration = Duration::from_millis(10);

/// Gives up a key: records the disposition of a reservation, or rolls back a transaction.
pub(crate) async fn let_go(engine: &Engine, call: &Arc<ProtectedCall>, key: HeldKey, disposition: Disposition) {
    match key {
        HeldKey::Reservation(lease) => {
            record(engine, call, disposition, lease).await;
        }
        HeldKey::Transaction(transaction) => {
            transaction.roll_back().await;
        }
    }
}

/// Frees the key of a call that does not run, in the background. A transaction is rolled back when it is dropped.
pub(in crate::engine) fn free(engine: &Engine, call: &Arc<ProtectedCall>, key: HeldKey) {
    if let HeldKey::Reservation(lease) = key {
        record_in_background(engine, Arc::clone(call), Disposition::Release, lease);
    }
}

/// Frees the key of a call that does not run, in the background, if its claim may stand although it failed. A transaction
/// leaves nothing behind.
pub(crate) fn release_lost_claim(engine: &Engine, call: &Arc<ProtectedCall>, error: &StoreError) {
    let policies = call.procedure.policies();
    if error.may_have_happened() && policies.mode == Mode::Reserved {
        record_in_background(engine, Arc::clone(call), Disposition::Release, Lease::unconfirmed(policies.lease));
    }
}

/// The progress of a disposition after the first attempt to record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum RecordProgress {
    /// The store has taken it.
    Recorded,
    /// Another call has taken over the key, and nothing is recorded.
    Superseded,
    /// It is recorded in the background.
    Waiting,
}

/// Records a disposition at once or, if the store does not take it, in the background.
pub(in crate::engine) async fn record(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    disposition: Disposition,
    lease: Lease,
) -> RecordProgress {
    let mut recording = PendingDisposition::new(Arc::clone(call), disposition, lease);
    if !recording.attempt(&*engine.store).await {
        recording.go_on(engine);
        return RecordProgress::Waiting;
    }
    if recording.held { RecordProgress::Recorded } else { RecordProgress::Superseded }
}

/// Records a disposition in a task of its own.
pub(in crate::engine) fn record_in_background(
    engine: &Engine,
    call: Arc<ProtectedCall>,
    disposition: Disposition,
    lease: Lease,
) {
    PendingDisposition::new(call, disposition, lease).go_on(engine);
}

/// A disposition that is being recorded.
struct PendingDisposition {
    call: Arc<ProtectedCall>,
    disposition: Disposition,
    lease: Lease,
    /// Whether an attempt failed that may have been carried out.
    may_be_recorded: bool,
    /// Whether the store has taken it. It is sent again while the claim may still be carried out late.
    taken: bool,
    /// Whether this call held the key when the store took it.
    held: bool,
}

impl PendingDisposition {
    fn new(call: Arc<ProtectedCall>, disposition: Disposition, lease: Lease) -> Self {
        Self { call, disposition, lease, may_be_recorded: false, taken: false, held: false }
    }

    /// Makes one attempt. Returns whether it was the last one: the store has taken the disposition, or another call has taken
    /// over the key.
    async fn attempt(&mut self, store: &dyn DynStore) -> bool {
        let (reservation, telemetry) = (&self.call.reservation, self.call.procedure.telemetry());
        let held = match &self.disposition {
            Disposition::Abandon => store.abandon(reservation).await.map(|it| it == AbandonOutcome::Abandoned),
            Disposition::Complete(completion) => {
                store.complete(reservation, completion).await.map(|it| it != CompleteOutcome::Fenced)
            }
            Disposition::Forget | Disposition::Release => {
                store.release(reservation).await.map(|it| it == ReleaseOutcome::Released)
            }
        };
        match held {
            Ok(held) => {
                if !held && self.lease.confirmed && !self.may_be_recorded {
                    telemetry.superseded(self.disposition.step());
                }
                (self.taken, self.held) = (true, held);
                !self.may_be_claimed_late(held)
            }
            Err(error) => {
                self.may_be_recorded |= error.may_have_happened();
                telemetry.not_recorded_yet(self.disposition.step(), error.kind().as_str(), &Chain(&error));
                false
            }
        }
    }

    /// Returns whether a claim whose answer was lost may still be carried out, and would then reserve the key of a call that
    /// has ended. This is assumed for one lease after the answer was lost.
    fn may_be_claimed_late(&self, held: bool) -> bool {
        let Lease { confirmed, ends: lost, length } = self.lease;
        let leaves_a_record = held && !self.disposition.frees_key();
        !confirmed && !leaves_a_record && Instant::now() < lost + length
    }

    /// Makes attempts in a task of its own, until there is nothing left to do or the record would have expired. Only the token
    /// protects the key of another call, so the end of the lease does not matter.
    fn go_on(mut self, engine: &Engine) {
        let (step, procedure) = (self.disposition.step(), Arc::clone(&self.call.procedure));
        let Some(mut place) = engine.backlog.enter(Some(self.call.reservation.owner), self.lease.confirmed) else {
            procedure.telemetry().given_up(step, "too many outcomes wait to be recorded");
            return;
        };
        if !place.take_memory(self.disposition.size()) && self.disposition.forget_message() {
            procedure.telemetry().message_forgotten();
        }
        self.call = self.call.without_request();
        let store = Arc::clone(&engine.store);
        let tracked = engine.tracker.recording(&self.call);
        let shutting_down = engine.tracker.shutting_down().clone();
        let ends = Instant::now() + self.call.retention();
        let [first, longest] = PAUSES;
        // Two attempts, and a renewal, in each third of a lease.
        let mut pauses = Pauses::new(first, longest.min((self.lease.length / 6).max(SHORTEST_PAUSE)));
        engine.tracker.tasks().spawn(async move {
            let _waiting = (tracked, place);
            while !self.taken {
                let pause = shortened(pauses.next());
                if Instant::now() + pause > ends {
                    return procedure.telemetry().given_up(step, "its record would have expired");
                }
                sleep(pause).await;
                if self.attempt(&*store).await {
                    return;
                }
                self.keep_key(&*store).await;
            }
            while let Some(()) = shutting_down.run_until_cancelled(sleep(shortened(pauses.next()))).await
                && !self.attempt(&*store).await
            {
                self.keep_key(&*store).await;
            }
        });
    }

    /// Renews the lease if it is time: until its outcome is recorded, a call that took effect must not run again.
    async fn keep_key(&mut self, store: &dyn DynStore) {
        let asked = Instant::now();
        if self.disposition.frees_key() || asked < self.lease.renewal() {
            return;
        }
        if let Ok(ExtendOutcome::Extended) = store.extend(&self.call.reservation, self.lease.length).await {
            self.lease = Lease::from(asked, self.lease.length);
        }
    }
}
