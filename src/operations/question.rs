//! A caller's question for a key, and its answer at the moment.

use std::sync::Arc;

use tonic::Status;
use tracing::Instrument as _;

use crate::{
    IdempotencyLayer,
    caller::{Caller, OwnerId},
    engine::{replay::work_status, shared::state::Engine, store_rejection},
    key::KeyId,
    rejection::Rejection,
    status::IdempotencyStatus,
    store::{CallSession, KeyRecord, KeyState, LookUp},
    telemetry::{self, ProcedureTelemetry},
};

/// A caller's question for the state of the call with a key.
pub(super) struct Question<'a> {
    pub(super) layer: &'a IdempotencyLayer,
    pub(super) engine: &'a Arc<Engine>,
    pub(super) owner: OwnerId,
    pub(super) key: KeyId,
    pub(super) caller: Caller,
    pub(super) session: CallSession,
    /// The telemetry of the procedure that asks.
    pub(super) telemetry: &'a ProcedureTelemetry,
    pub(super) path: &'static str,
}

/// The record of a key, and the status of the work behind its call.
#[derive(Debug)]
pub(super) struct KnownOutcome {
    pub(super) record: KeyRecord,
    /// The status of the work behind a completed call; `None` if the layer does not know the procedure.
    pub(super) work: Option<IdempotencyStatus>,
}

impl Question<'_> {
    /// Asks the store. The procedure of a call in a transaction is known only if the call runs in this process.
    pub(super) async fn look_up(&self) -> Result<KeyRecord, Rejection> {
        let look_up = LookUp {
            owner: self.owner,
            key: self.key,
            session: self.session.clone(),
            with_status: self.engine.status_resolver.is_none(),
        };
        let span = self.engine.spans.look_up(self.path, self.key.as_uuid());
        let found = self.engine.store.look_up(&look_up).instrument(span.clone()).await;
        let outcome = found.as_ref().map_or_else(|error| error.kind().as_str(), |record| record.state.as_str());
        telemetry::ended(&span, &outcome);
        let mut record = found.map_err(|error| store_rejection::rejection(self.telemetry, &error))?;
        if record.state == KeyState::Running && record.procedure.is_none() {
            record.procedure = self.engine.tracker.procedure_of(self.owner, self.key);
        }
        Ok(record)
    }

    /// Counts a rejection.
    pub(super) fn rejected(&self, rejection: Rejection) -> Rejection {
        self.telemetry.rejected(rejection.reason().as_str());
        rejection
    }

    /// Asks the authorizer, as before a replay, whether the caller may know how the call ended.
    pub(super) async fn authorize(&self, record: &KeyRecord) -> Result<(), Status> {
        let is_replayed = matches!(record.state, KeyState::Completed | KeyState::Failed);
        let procedure = record.procedure.as_deref().and_then(|path| self.layer.procedure(path));
        let (true, Some(procedure)) = (is_replayed, procedure) else { return Ok(()) };
        let resource = record.resource.as_ref().map(|resource| &resource.id);
        match self.engine.replay_hooks.authorize_caller(procedure, &self.caller, self.key, resource) {
            Some(asked) => asked.await,
            None => Ok(()),
        }
    }

    /// Adds the status of the work. If the layer does not know the procedure, it reports no resource, because it has no authorizer to
    /// ask.
    pub(super) async fn with_work(&self, mut record: KeyRecord) -> KnownOutcome {
        let procedure = record.procedure.as_deref().and_then(|path| self.layer.procedure(path));
        let (KeyState::Completed, Some(procedure)) = (record.state, procedure) else {
            record.resource = None;
            return KnownOutcome { record, work: None };
        };
        let resource = record.resource.as_ref().map(|resource| &resource.id);
        let work = work_status(self.engine, procedure, Some(&self.caller), resource, &record.status).await;
        KnownOutcome { record, work: Some(work) }
    }
}
