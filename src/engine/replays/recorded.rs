//! A record, as the answer to another call.

use tonic_idempotency_wire::ErrorOutcome;

use crate::{
    engine::{
        answer::{Answer, NotReplayed, Notes, Replayed, ResponseSettings},
        call::ProtectedCall,
        store_rejection::reject,
        time::{clock_reading::ClockReading, expiry::Expiry},
    },
    rejection::Rejection,
    status::{IdempotencyStatus, ResourceId},
    store::{StoreError, StoreErrorKind, StoredResponse},
    telemetry::Spans,
};

/// A record, as the answer to another call.
#[derive(Clone)]
pub(in crate::engine) struct Recorded {
    pub(in crate::engine) response: StoredResponse,
    /// The status of the work behind the resource.
    pub(in crate::engine) status: IdempotencyStatus,
    /// The lifetime of its record; `None` if it has none yet.
    pub(in crate::engine) expiry: Option<Expiry>,
    /// The id of the resource that the first call created.
    pub(in crate::engine) resource: Option<ResourceId>,
}

impl Recorded {
    /// Returns the size of the response, in bytes.
    pub(in crate::engine) fn size(&self) -> usize {
        self.response.size()
    }

    /// Makes the answer to this call, and returns whether it is the first answer with all its metadata.
    pub(in crate::engine) fn replay<A: Answer>(
        &self,
        settings: &ResponseSettings,
        spans: &Spans,
        call: &ProtectedCall,
    ) -> (A, bool) {
        let telemetry = call.procedure.telemetry();
        let expires = self.expiry.and_then(|expiry| expiry.left(ClockReading::now()));
        match A::replayed(settings, &self.response, self.status) {
            Ok(Replayed { answer, metadata_lost, traceparent }) => {
                if metadata_lost {
                    telemetry.metadata_lost();
                }
                let first = Some(traceparent.as_str()).filter(|it| !it.is_empty());
                spans.replay(call.procedure.path(), call.reservation.key.as_uuid(), first);
                telemetry.replayed();
                let outcome = expires.map(|_| ErrorOutcome::Kept);
                (answer.with(Notes { status: None, outcome, expires }), !metadata_lost)
            }
            Err(NotReplayed::NotStored) => {
                let answer = A::reject(call, Rejection::NotStored { resource: self.resource.clone() });
                (answer.with(Notes { expires, ..Notes::default() }), false)
            }
            Err(NotReplayed::Corrupt) => {
                let error = StoreError::new(StoreErrorKind::Corrupt, "the stored error of a call cannot be decoded");
                (reject(&call.procedure, &error), false)
            }
        }
    }
}
