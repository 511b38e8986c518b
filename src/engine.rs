//! The protocol: claim → handler → complete.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tonic::Status;

use crate::{
    IdempotencyStatus, Procedure, StorePolicy,
    call::Call,
    error::Rejection,
    outbox::DynStatusResolver,
    settle::{Settlement, settle},
    store::{ClaimOutcome, Completion, DynStore, Replay, Resource, StoreError, StoredResponse},
    telemetry::{self, Chain, Degradation},
    wire::UnaryResponse,
};

/// What the calls of one layer share.
pub(crate) struct Engine {
    pub(crate) store: Arc<dyn DynStore>,
    /// Asked instead of the store.
    pub(crate) status_resolver: Option<Box<dyn DynStatusResolver>>,
    /// The largest response that is kept, in bytes.
    pub(crate) max_response_bytes: usize,
    /// What runs, and has to end before the process does.
    pub(crate) tasks: TaskTracker,
}

impl Engine {
    /// Runs the handler, unless the key says that this was done before.
    ///
    /// To be run in a task of its own: dropped in the middle, it leaves the key reserved until the lease ends.
    pub(crate) async fn run<F, E>(&self, call: Call, handler: impl FnOnce() -> F) -> Result<UnaryResponse, E>
    where
        F: Future<Output = Result<UnaryResponse, E>>,
    {
        let lease_ends = Instant::now() + call.procedure.policies().lease;

        match self.store.claim(&call.claim()).await {
            Ok(ClaimOutcome::Acquired) => telemetry::first(&call.procedure),
            Ok(ClaimOutcome::InFlight { lease_left }) => return call.reject(Rejection::InProgress { lease_left }),
            Ok(ClaimOutcome::Mismatch(mismatch)) => return call.reject(Rejection::KeyReused(mismatch)),
            Ok(ClaimOutcome::OutcomeUnknown) => return call.reject(Rejection::OutcomeUnknown),
            Ok(ClaimOutcome::Replay(replay)) => return self.replay(&call, replay).await,
            Err(error) => return self.degrade(call, &error, lease_ends, handler).await,
        }

        let outcome = handle(&call, handler).await;
        let first_status = first_status(&call.procedure);
        let settlement = self.settlement(&call, &outcome);
        self.settle(call, settlement, lease_ends).await;
        outcome.map(|response| if response.is_success() { response.with_status(first_status) } else { response })
    }

    /// Gives the first response back.
    async fn replay<E>(&self, call: &Call, replay: Replay) -> Result<UnaryResponse, E> {
        let StoredResponse::Message(message) = &replay.response else {
            return call.reject(Rejection::ResponseNotStored { resource: replay.resource });
        };
        let status = self.replay_status(call, &replay).await;
        match UnaryResponse::replay(message, status) {
            Ok(response) => {
                telemetry::replayed(&call.procedure);
                Ok(response)
            }
            // More than gRPC can frame, and so more than any handler can have answered.
            Err(_) => call.reject(Rejection::ResponseNotStored { resource: replay.resource }),
        }
    }

    /// The status that a replay reports. Fails softly.
    async fn replay_status(&self, call: &Call, replay: &Replay) -> IdempotencyStatus {
        let Some(creates) = call.procedure.creates() else {
            return IdempotencyStatus::Completed;
        };
        let status = match (&self.status_resolver, replay.resource) {
            (Some(resolver), Some(id)) => {
                let resource = Resource { resource_type: creates.resource_type.clone(), id };
                resolver.status(call.reservation.user, &resource).await.map_err(|error| Chain(&*error).to_string())
            }
            (None, _) => replay.status.as_ref().copied().map_err(ToString::to_string),
            (Some(_), None) => Ok(None),
        };
        let problem = match status {
            Ok(Some(status)) => return status.into(),
            Ok(None) => "nothing is known of the created resource".to_owned(),
            Err(error) => error,
        };
        telemetry::status_unknown(&call.procedure, &problem);
        IdempotencyStatus::Processing
    }

    /// What to do where the store does not answer the claim (FUN-15 section 5).
    async fn degrade<F, E>(
        &self,
        call: Call,
        error: &StoreError,
        lease_ends: Instant,
        handler: impl FnOnce() -> F,
    ) -> Result<UnaryResponse, E>
    where
        F: Future<Output = Result<UnaryResponse, E>>,
    {
        if call.procedure.policies().on_store_unavailable == StorePolicy::Reject {
            telemetry::store_unavailable(&call.procedure, &Chain(error));
            if error.may_have_happened() {
                self.settle_later(call, Settlement::Release, lease_ends);
            }
            return Ok(UnaryResponse::failed(Rejection::StoreUnavailable.into()));
        }
        telemetry::unprotected(&call.procedure, Degradation::Store(error.kind()), &Chain(error));
        let outcome = handle(&call, handler).await;
        if error.may_have_happened() {
            // The claim may stand: then its outcome is recorded like any other.
            let settlement = self.settlement(&call, &outcome);
            self.settle_later(call, settlement, lease_ends);
        }
        outcome
    }

    /// What becomes of the key of a call that ended so.
    fn settlement<E>(&self, call: &Call, outcome: &Result<UnaryResponse, E>) -> Settlement {
        match outcome {
            Ok(response) if response.is_success() => Settlement::Complete(self.completion(call, response)),
            _ => Settlement::Release,
        }
    }

    /// What is recorded of a response.
    fn completion(&self, call: &Call, response: &UnaryResponse) -> Completion {
        let procedure = &call.procedure;
        let message = response.message().ok();
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
            Some(message) if message.len() <= self.max_response_bytes => StoredResponse::Message(message),
            _ => StoredResponse::Omitted,
        };
        Completion { response, resource, retention: procedure.policies().retention }
    }

    /// Records an outcome, at once if the store lets us; else in the background, while the lease lasts.
    async fn settle(&self, call: Call, settlement: Settlement, lease_ends: Instant) {
        if settle(&*self.store, &call, &settlement).await.is_err() {
            self.settle_later(call, settlement, lease_ends);
        }
    }

    fn settle_later(&self, call: Call, settlement: Settlement, lease_ends: Instant) {
        let store = Arc::clone(&self.store);
        self.tasks.spawn(async move {
            let mut pause = Duration::from_millis(100);
            while Instant::now() + pause < lease_ends {
                tokio::time::sleep(pause).await;
                if settle(&*store, &call, &settlement).await.is_ok() {
                    return;
                }
                pause = (pause * 2).min(Duration::from_secs(5));
            }
            telemetry::not_settled(&call.procedure, settlement.step(), "gave up: the lease ends", None);
        });
    }
}

/// What the first response reports: the work behind what it created has only begun.
fn first_status(procedure: &Procedure) -> IdempotencyStatus {
    match procedure.creates() {
        Some(_) => IdempotencyStatus::Processing,
        None => IdempotencyStatus::Completed,
    }
}

/// Runs the handler, and answers its panic with `INTERNAL`. Nothing that it may have left half changed is looked at again.
async fn handle<F, E>(call: &Call, handler: impl FnOnce() -> F) -> Result<UnaryResponse, E>
where
    F: Future<Output = Result<UnaryResponse, E>>,
{
    AssertUnwindSafe(async { handler().await }).catch_unwind().await.unwrap_or_else(|_panic| {
        telemetry::panicked(&call.procedure);
        Ok(UnaryResponse::failed(Status::internal("the handler panicked")))
    })
}
