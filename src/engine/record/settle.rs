//! Settles a call that has ended: records its outcome, and decides which response the caller gets.

use std::sync::Arc;

use tokio::time::Instant;
use tonic_idempotency_wire::ErrorOutcome;
use tracing::Instrument as _;

use crate::{
    engine::{
        answer::{Answer, Notes},
        call::ProtectedCall,
        execute::Outcome,
        held_key::HeldKey,
        record::{
            self, RecordProgress,
            disposition::{self, Disposition},
        },
        replays::recorded::Recorded,
        shared::{single_flight::Leader, state::Engine},
        store_rejection::{not_committed, transaction_lost},
        time::{clock_reading::ClockReading, expiry::Expiry},
    },
    rejection::Rejection,
    store::{CommitOutcome, Completion, RollBackOutcome, StoreError, StoreTransaction, StoredResponse},
    telemetry::{self, TimedStep},
};

/// A call whose outcome was to be recorded.
pub(in crate::engine) enum Settled<A> {
    Answered(A),
    /// The transaction has lost, and is rolled back: the call may run again. The error is that of its record or COMMIT.
    Lost(Option<StoreError>),
    /// The record is another call's, which the caller has to be answered with.
    Superseded,
}

/// Records the outcome, and returns the response for the caller. In reserved mode that is the handler's response, whether or not it
/// is recorded; in transactional mode, a success is returned only if the transaction was committed. The key was claimed at `claimed`.
pub(in crate::engine) async fn settle<A: Answer>(
    engine: &Engine,
    call: &Arc<ProtectedCall>,
    key: HeldKey,
    claimed: Instant,
    outcome: Outcome<A>,
    leader: Option<&Leader>,
) -> Settled<A> {
    let began = std::time::Instant::now();
    let span = engine.spans.record(call.procedure.path(), call.reservation.key.as_uuid());
    let may_run_again = !outcome.say.effect_committed;
    // Checked first: whatever the handler has said and answered, a further attempt may succeed.
    if key.is_in_conflict(outcome.answer.error()) {
        Box::pin(record::let_go(engine, call, key, Disposition::Release)).instrument(span.clone()).await;
        telemetry::ended(&span, &CallEnd::LOST);
        call.procedure.telemetry().took(TimedStep::Record, began);
        return if may_run_again {
            Settled::Lost(None)
        } else {
            Settled::Answered(A::reject(call, Rejection::Conflict))
        };
    }
    let disposition = disposition::of(engine, call, &outcome);
    let expiry =
        disposition.retention().map(|retention| Expiry::of_new_record(claimed, ClockReading::now(), retention));
    let mut for_followers = leader.and_then(|leader| for_followers(engine, call, &disposition, leader));
    let disposition = disposition.sealed(call);
    let past = disposition.past();
    let outcome_of_error = match disposition {
        Disposition::Complete(_) => Some(ErrorOutcome::Kept),
        Disposition::Forget | Disposition::Release => Some(ErrorOutcome::Freed),
        Disposition::Abandon => None,
    };
    let ended = async {
        match key {
            HeldKey::Reservation(lease) => {
                let progress = record::record(engine, call, disposition, lease).await;
                telemetry::ended(&span, &if progress == RecordProgress::Waiting { "not_yet" } else { past });
                if progress == RecordProgress::Recorded { CallEnd::Recorded } else { CallEnd::AsAnswered }
            }
            HeldKey::Transaction(transaction) => {
                let ended = end(call, transaction, disposition).await;
                telemetry::ended(&span, &ended.name());
                ended
            }
        }
    };
    let ended = ended.instrument(span.clone()).await;
    call.procedure.telemetry().took(TimedStep::Record, began);
    let expiry = expiry.filter(|_| matches!(ended, CallEnd::Recorded));
    let (answer, outcome_of_error) = match ended {
        CallEnd::AsAnswered => (outcome.answer, None),
        CallEnd::Recorded => (outcome.answer, outcome_of_error),
        CallEnd::RolledBack => (outcome.answer, Some(ErrorOutcome::Freed)),
        CallEnd::Lost(error) if may_run_again => return Settled::Lost(Some(error)),
        CallEnd::Lost(error) => return Settled::Answered(A::reject(call, not_committed(&call.procedure, &error))),
        CallEnd::Rejected(rejection) => return Settled::Answered(A::reject(call, rejection)),
        CallEnd::Superseded => return Settled::Superseded,
    };
    if let Some((leader, recorded)) = leader.zip(for_followers.as_mut()) {
        recorded.expiry = expiry;
        leader.publish(recorded);
    }
    let left = expiry.and_then(|expiry| expiry.left(ClockReading::now()));
    let status = answer.is_success().then(|| call.first_status());
    Settled::Answered(answer.with(Notes { status, outcome: outcome_of_error, expires: left }))
}

/// Returns the response for the followers, whether or not it is recorded; `None` if the outcome is not final, or if there are none.
pub(in crate::engine) fn for_followers(
    engine: &Engine,
    call: &ProtectedCall,
    disposition: &Disposition,
    leader: &Leader,
) -> Option<Recorded> {
    let Disposition::Complete(completion) = disposition else { return None };
    if !leader.has_followers() {
        return None;
    }
    // Followers ask the store instead, and have their own responses rebuilt.
    if engine.replay_hooks.rebuilds(call.procedure.path()) && matches!(completion.response, StoredResponse::NotStored) {
        return None;
    }
    let resource = completion.resource.as_ref().map(|resource| resource.id.clone());
    Some(Recorded { response: completion.response.clone(), status: call.first_status(), expiry: None, resource })
}

/// The end of a call.
enum CallEnd {
    /// As the handler's response says: not recorded, or not yet.
    AsAnswered,
    /// As the handler's response says, and the store has taken the disposition.
    Recorded,
    /// As the handler's response says: the transaction is rolled back.
    RolledBack,
    /// Rolled back, because it has lost against another transaction.
    Lost(StoreError),
    /// Rolled back, or unknown.
    Rejected(Rejection),
    /// Rolled back, because another call is recorded.
    Superseded,
}

impl CallEnd {
    /// The name of the end of a transaction that has lost.
    const LOST: &str = "lost";

    /// The name of the end of a transaction, for the span.
    fn name(&self) -> &'static str {
        match self {
            Self::AsAnswered | Self::RolledBack => "rolled_back",
            Self::Lost(_) => Self::LOST,
            Self::Recorded => "committed",
            Self::Rejected(_) => "refused",
            Self::Superseded => "superseded",
        }
    }
}

/// Commits a transaction, or rolls it back.
async fn end(call: &ProtectedCall, transaction: Box<dyn StoreTransaction>, disposition: Disposition) -> CallEnd {
    let completion = match disposition {
        Disposition::Complete(completion) => Some(completion),
        Disposition::Forget => None,
        Disposition::Abandon | Disposition::Release => {
            return match transaction.roll_back().await {
                RollBackOutcome::RolledBack => CallEnd::RolledBack,
                RollBackOutcome::Lost => CallEnd::Rejected(transaction_lost(&call.procedure)),
            };
        }
    };
    let is_error = matches!(&completion, Some(Completion { response: StoredResponse::Error(_), .. }));
    if !transaction.was_used() && !is_error {
        call.procedure.telemetry().transaction_unused();
    }
    match transaction.commit(completion).await {
        Ok(CommitOutcome::Committed) => CallEnd::Recorded,
        Ok(CommitOutcome::Superseded) => CallEnd::Superseded,
        Err(error) if error.has_lost() => CallEnd::Lost(error),
        Err(error) => CallEnd::Rejected(not_committed(&call.procedure, &error)),
    }
}
