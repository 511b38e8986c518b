//! Asks the store for a call's key.

use std::{sync::Arc, time::Instant};

use tracing::Instrument as _;

use crate::{
    engine::{
        call::ProtectedCall,
        held_key::{ClaimAnswer, HeldKey, Lease},
        record::{self, disposition::Disposition},
        seal,
        shared::state::Engine,
        time::clock_reading::ClockReading,
    },
    policy::Mode,
    rejection::Mismatch,
    store::{BeginOutcome, Claim, ClaimOutcome, StoreError},
    telemetry::{self, TimedStep},
};

/// Asks the store for the key: for a reservation, or for a transaction that holds it. One round trip; if the record has another hash, one
/// more for each that a record of the same request may have, and one with the first hash; and once more if that finds another request, too.
pub(crate) async fn claim(engine: &Engine, call: &Arc<ProtectedCall>) -> Result<ClaimAnswer, StoreError> {
    let began = Instant::now();
    let span = engine.spans.claim(call.procedure.path(), call.reservation.key.as_uuid());
    let claimed = ask(engine, call, call.claim()).instrument(span.clone()).await;
    let claimed = match claimed {
        Ok(mismatch) if is_other_request(&mismatch) => {
            Box::pin(ask_again(engine, call, mismatch)).instrument(span.clone()).await
        }
        claimed => claimed,
    };
    call.procedure.telemetry().took(TimedStep::Claim, began);
    telemetry::ended(&span, &name(&claimed));
    claimed
}

/// How often a call asks with each hash before it is told that its key was used for another request. While it asks, another call may have made
/// a record with a hash that was asked for already, only to give it back, or with a key that is new.
const ROUNDS: usize = 2;

/// Asks for the key with each of the other hashes. Takes over what was reserved with one of them, but leaves no new record with it.
async fn ask_again(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    mut answer: ClaimAnswer,
) -> Result<ClaimAnswer, StoreError> {
    for _ in 0..ROUNDS {
        // In each round: a key may have come meanwhile, and be current elsewhere.
        let others = match seal::other_hashes(engine, call).await {
            Ok(others) if others.is_empty() => break,
            Ok(others) => others,
            Err(rejection) => return Ok(ClaimAnswer::Unknown(rejection)),
        };
        for other in others {
            match ask(engine, call, call.claim_of(other)).await? {
                ClaimAnswer::Acquired(key) => {
                    record::let_go(engine, call, key, Disposition::Release).await;
                    return Ok(ClaimAnswer::GivenBack);
                }
                answer if is_other_request(&answer) => {}
                answer => return Ok(answer),
            }
        }
        // Another record, with the first hash, may have come in place of the one that was found.
        answer = ask(engine, call, call.claim()).await?;
        if !is_other_request(&answer) {
            break;
        }
    }
    Ok(answer)
}

fn is_other_request(answer: &ClaimAnswer) -> bool {
    matches!(answer, ClaimAnswer::NotAcquired { outcome: ClaimOutcome::Mismatch(Mismatch::Request), .. })
}

async fn ask(engine: &Engine, call: &ProtectedCall, claim: Claim) -> Result<ClaimAnswer, StoreError> {
    let policies = call.procedure.policies();
    let asked = ClockReading::now();
    let lease = Lease::from(asked.monotonic, policies.lease);
    let claimed = match policies.mode {
        Mode::Reserved => match engine.store.claim(&claim).await? {
            ClaimOutcome::Acquired => ClaimAnswer::Acquired(HeldKey::Reservation(lease)),
            ClaimOutcome::TakenOver => ClaimAnswer::TakenOver(HeldKey::Reservation(lease)),
            outcome => ClaimAnswer::NotAcquired { outcome, asked },
        },
        Mode::Transactional => {
            match engine.store.begin(&claim, call.transaction_options(engine.transaction_pool)).await? {
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
        Ok(ClaimAnswer::GivenBack) => "given_back",
        Ok(ClaimAnswer::Unknown(_)) => "keys_away",
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
