//! Records how a call ended.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    Procedure,
    engine::{
        Engine,
        call::Call,
        execute::Outcome,
        held_key::{Hold, Lease},
        single_flight::Flight,
    },
    grpc::UnaryResponse,
    rejection::Rejection,
    store::{
        AbandonOutcome, CommitOutcome, CompleteOutcome, Completion, DynStore, OpenTransaction, ReleaseOutcome,
        Resource, StoreError, StoreErrorKind, StoredMessage, StoredResponse,
    },
    telemetry::{self, Chain},
};

/// How much of a compressed response is read at least, in bytes, to find the id of the resource in one that is too large to
/// keep: what gRPC's clients take by default.
const READ: usize = 4 << 20;

/// How a call ended, as far as its key is concerned.
#[derive(Debug)]
pub(crate) enum Settlement {
    /// Nobody knows whether it took effect.
    Abandon,
    /// It succeeded, or failed for good.
    Complete(Completion),
    /// It failed, and may be tried again.
    Release,
}

impl Settlement {
    fn step(&self) -> &'static str {
        match self {
            Self::Abandon => "abandon",
            Self::Complete(_) => "complete",
            Self::Release => "release",
        }
    }
}

impl Engine {
    /// Records the outcome, and says what the caller gets: in reserved mode what the handler answered, whatever becomes of
    /// the record; of a transaction that, if it was committed.
    pub(crate) async fn settle<E>(
        &self,
        call: &Arc<Call>,
        hold: Hold,
        outcome: Outcome<E>,
        flight: Option<&Flight>,
    ) -> Result<UnaryResponse, E> {
        let settlement = self.settlement(call, &outcome);
        let awaited = flight.is_some_and(Flight::is_awaited);
        let landing = if awaited { self.landing(call, &settlement) } else { None };
        let settled = match hold {
            Hold::Reservation(lease) => {
                self.record(call, settlement, lease).await;
                outcome.response
            }
            Hold::Transaction(transaction) => match end(call, transaction, settlement).await {
                Ended::AsAnswered => outcome.response,
                Ended::Refused(rejection) => return call.reject(rejection),
                Ended::Superseded => return self.look_again(call).await,
            },
        };
        if let (Some(flight), Some(landing)) = (flight, landing) {
            flight.land(&landing);
        }
        let first_status = call.first_status();
        settled.map(|response| if response.is_success() { response.with_status(first_status) } else { response })
    }

    /// What becomes of the key of a call that ended so.
    pub(crate) fn settlement<E>(&self, call: &Call, outcome: &Outcome<E>) -> Settlement {
        match &outcome.response {
            Ok(response) if response.is_success() => {
                let metadata = response.to_stored_metadata(&self.kept_metadata);
                Settlement::Complete(self.completion(
                    call,
                    response.message(self.max_response_bytes.max(READ)).ok(),
                    metadata,
                ))
            }
            Ok(response) if call.procedure.policies().final_errors.contains(response.code()) => {
                Settlement::Complete(Completion {
                    response: StoredResponse::Error(response.to_stored_error(&self.kept_metadata)),
                    resource: None,
                    retention: call.procedure.policies().retention,
                })
            }
            _ if outcome.effect_committed => Settlement::Abandon,
            _ => Settlement::Release,
        }
    }

    /// What is recorded of a response: of its message, `None` where that cannot be read, and of the metadata that is kept.
    pub(crate) fn completion(&self, call: &Call, message: Option<Bytes>, metadata: Option<Bytes>) -> Completion {
        let procedure = &call.procedure;
        let id = message.as_deref().and_then(|message| {
            procedure.resource_id(message).unwrap_or_else(|error| {
                telemetry::no_resource_id(procedure, &error);
                None
            })
        });
        let resource = procedure
            .creates()
            .zip(id)
            .map(|(creates, id)| Resource { resource_type: creates.resource_type.clone(), id });
        let response = match message.and_then(|message| procedure.redacted(message).ok()) {
            Some(message) if message.len() + metadata.as_ref().map_or(0, Bytes::len) <= self.max_response_bytes => {
                StoredResponse::Message(StoredMessage { message, metadata })
            }
            _ => StoredResponse::Omitted,
        };
        Completion { response, resource, retention: procedure.policies().retention }
    }

    /// Records an outcome, at once if the store lets us; else in the background, while the lease lasts. Whether it was
    /// at once.
    pub(crate) async fn record(&self, call: &Arc<Call>, settlement: Settlement, lease: Lease) -> bool {
        let settled = settle(&*self.store, call, &settlement).await.is_ok();
        if !settled {
            self.settle_later(Arc::clone(call), settlement, lease);
        }
        settled
    }

    pub(crate) fn settle_later(&self, call: Arc<Call>, settlement: Settlement, lease: Lease) {
        let store = Arc::clone(&self.store);
        let recording = self.running.recording(&call);
        self.running.tasks().spawn(async move {
            let _recording = recording;
            let mut pause = Duration::from_millis(100);
            while Instant::now() + pause < lease.ends {
                tokio::time::sleep(pause).await;
                if settle(&*store, &call, &settlement).await.is_ok() {
                    return;
                }
                pause = (pause * 2).min(Duration::from_secs(5));
            }
            telemetry::not_settled(&call.procedure, settlement.step(), "gave up: the lease ends", None);
        });
    }

    /// Lets go of a key without an outcome.
    pub(crate) async fn let_go(&self, call: &Arc<Call>, hold: Hold, settlement: Settlement) {
        match hold {
            Hold::Reservation(lease) => {
                self.record(call, settlement, lease).await;
            }
            Hold::Transaction(transaction) => transaction.roll_back().await,
        }
    }
}

/// How a transaction ended.
enum Ended {
    /// As the handler's answer says: committed, or rolled back.
    AsAnswered,
    /// Rolled back, or nobody knows.
    Refused(Rejection),
    /// Rolled back, because another call is recorded.
    Superseded,
}

/// Commits a transaction, or rolls it back.
async fn end(call: &Call, transaction: Box<dyn OpenTransaction>, settlement: Settlement) -> Ended {
    let Settlement::Complete(completion) = settlement else {
        let in_conflict = transaction.is_in_conflict();
        transaction.roll_back().await;
        return if in_conflict { Ended::Refused(Rejection::Conflict) } else { Ended::AsAnswered };
    };
    if !transaction.was_used() && !matches!(completion.response, StoredResponse::Error(_)) {
        telemetry::transaction_unused(&call.procedure);
    }
    match transaction.commit(Some(completion)).await {
        Ok(CommitOutcome::Committed) => Ended::AsAnswered,
        Ok(CommitOutcome::Superseded) => Ended::Superseded,
        Err(error) => Ended::Refused(not_committed(&call.procedure, &error)),
    }
}

/// What the caller is told of a transaction that was not committed, or of which that is not known.
pub(crate) fn not_committed(procedure: &Procedure, error: &StoreError) -> Rejection {
    telemetry::not_settled(procedure, "commit", "a transaction was not committed", Some(&Chain(error)));
    match error.kind() {
        StoreErrorKind::Conflict => Rejection::Conflict,
        StoreErrorKind::Interrupted | StoreErrorKind::Unreachable => Rejection::StoreUnavailable,
        StoreErrorKind::Corrupt | StoreErrorKind::Refused => Rejection::NotCommitted,
    }
}

/// One attempt. To find the key taken over is an answer: there is nothing left to settle.
async fn settle(store: &dyn DynStore, call: &Call, settlement: &Settlement) -> Result<(), StoreError> {
    let settled = match settlement {
        Settlement::Abandon => store.abandon(&call.reservation).await.map(|it| it == AbandonOutcome::Abandoned),
        Settlement::Complete(completion) => {
            store.complete(&call.reservation, completion).await.map(|it| it != CompleteOutcome::Fenced)
        }
        Settlement::Release => store.release(&call.reservation).await.map(|it| it == ReleaseOutcome::Released),
    };
    match settled {
        Ok(true) => Ok(()),
        Ok(false) => {
            let what =
                "the key is no longer this call's: its lease ended and it was taken over, or it was never reserved";
            telemetry::not_settled(&call.procedure, settlement.step(), what, None);
            Ok(())
        }
        Err(error) => {
            let what = "the outcome of a call is not recorded yet";
            telemetry::not_settled(&call.procedure, settlement.step(), what, Some(&Chain(&error)));
            Err(error)
        }
    }
}
