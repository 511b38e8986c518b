//! Asks the store for a call's key.

use std::time::Instant;

use tracing::Instrument as _;

use crate::{
    engine::{
        call::ProtectedCall,
        held_key::{ClaimAnswer, HeldKey, Lease},
        shared::state::Engine,
        time::clock_reading::ClockReading,
    },
    policy::Mode,
    store::{BeginOutcome, ClaimOutcome, StoreError},
    telemetry::{self, TimedStep},
};

/// Asks the store for the key: for a reservation, or for a transaction that holds it. One round trip.
pub(crate) async fn claim(engine: &Engine, call: &ProtectedCall) -> Result<ClaimAnswer, StoreError> {
    let began = Instant::now();
    let span = engine.spans.claim(call.procedure.path(), call.reservation.key.as_uuid());
    let claimed = ask(engine, call).instrument(span.clone()).await;
    call.procedure.telemetry().took(TimedStep::Claim, began);
    telemetry::ended(&span, &name(&claimed));
    claimed
}

async fn ask(engine: &Engine, call: &ProtectedCall) -> Result<ClaimAnswer, StoreError> {
    let policies = call.procedure.policies();
    let asked = ClockReading::now();
    let lease = Lease::from(asked.monotonic, policies.lease);
    let claimed = match policies.mode {
        Mode::Reserved => match engine.store.claim(&call.claim()).await? {
            ClaimOutcome::Acquired => ClaimAnswer::Acquired(HeldKey::Reservation(lease)),
            ClaimOutcome::TakenOver => ClaimAnswer::TakenOver(HeldKey::Reservation(lease)),
            outcome => ClaimAnswer::NotAcquired { outcome, asked },
        },
        Mode::Transactional => {
            match engine.store.begin(&call.claim(), call.transaction_options(engine.transaction_pool)).await? {
                BeginOutcome::Open { transaction, taken_over: false } => {
                    ClaimAnswer::Acquired(HeldKey::Transaction(transaction))
                }
                BeginOutcome::Open { transaction, taken_over: true } => {
                    ClaimAnswer::TakenOver(HeldKey::Transaction(transaction))
                }
                BeginOutcome::Refused(outcome) => ClaimAnswer::NotAcquired { outcome, asked },
            }
        }
    };
    if !matches!(claimed, ClaimAnswer::NotAcquired { outcome: ClaimOutcome::Replay(_), .. }) {
        engine.replay_cache.forget(call);
    }
    Ok(claimed)
}

/// The name of an answer, for the span.
fn name(claimed: &Result<ClaimAnswer, StoreError>) -> &'static str {
    match claimed {
        Ok(ClaimAnswer::Acquired(_)) => "acquired",
        Ok(ClaimAnswer::TakenOver(_)) => "taken_over",
        Ok(ClaimAnswer::NotAcquired { outcome, .. }) => match outcome {
            ClaimOutcome::Acquired => "acquired",
            ClaimOutcome::InFlight { .. } => "in_progress",
            ClaimOutcome::Mismatch(_) => "mismatch",
            ClaimOutcome::OutcomeUnknown => "unknown",
            ClaimOutcome::Replay(_) => "replay",
            ClaimOutcome::TakenOver => "taken_over",
        },
        Err(error) => error.kind().as_str(),
    }
}
