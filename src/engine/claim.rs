//! Asks the store for a call's key.

use std::time::Instant;

use super::{
    call::Call,
    clock_reading::ClockReading,
    held_key::{Claimed, HeldKey, Lease},
    state::Engine,
};
use crate::{
    policy::Mode,
    store::{BeginOutcome, ClaimOutcome, StoreError},
    telemetry::Timed,
};

/// Asks the store for the key: for a reservation, or for a transaction that holds it. One round trip.
pub(crate) async fn claim(engine: &Engine, call: &Call) -> Result<Claimed, StoreError> {
    let began = Instant::now();
    let claimed = ask(engine, call).await;
    call.procedure.telemetry().took(Timed::Claim, began);
    claimed
}

async fn ask(engine: &Engine, call: &Call) -> Result<Claimed, StoreError> {
    let policies = call.procedure.policies();
    let asked = ClockReading::now();
    let lease = Lease::from(asked.monotonic, policies.lease);
    let claimed = match policies.mode {
        Mode::Reserved => match engine.store.claim(&call.claim()).await? {
            ClaimOutcome::Acquired => Claimed::Acquired(HeldKey::Reservation(lease)),
            ClaimOutcome::TakenOver => Claimed::TakenOver(HeldKey::Reservation(lease)),
            outcome => Claimed::Refused { outcome, asked },
        },
        Mode::Transactional => match engine.store.begin(&call.claim(), call.transaction_options()).await? {
            BeginOutcome::Open { transaction, taken_over: false } => {
                Claimed::Acquired(HeldKey::Transaction(transaction))
            }
            BeginOutcome::Open { transaction, taken_over: true } => {
                Claimed::TakenOver(HeldKey::Transaction(transaction))
            }
            BeginOutcome::Refused(outcome) => Claimed::Refused { outcome, asked },
        },
    };
    if !matches!(claimed, Claimed::Refused { outcome: ClaimOutcome::Replay(_), .. }) {
        engine.replay_cache.forget(call);
    }
    Ok(claimed)
}
