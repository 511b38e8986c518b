use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio_util::sync::CancellationToken;
use tonic::Request;

/// What a handler and the layer have to tell each other while the handler runs: in the extensions of every request with a
/// key. Clones are the same.
///
/// ```
/// use tonic::{Request, Response, Status};
/// use tonic_idempotency::Execution;
///
/// # struct ChargeRequest; struct ChargeResponse;
/// # async fn charge_the_card() -> Result<(), Status> { Ok(()) }
/// # async fn write_the_receipt() -> Result<ChargeResponse, Status> { Ok(ChargeResponse) }
/// async fn charge(request: Request<ChargeRequest>) -> Result<Response<ChargeResponse>, Status> {
///     let execution = Execution::of(&request);
///     charge_the_card().await?;
///     // From here on an error says nothing of the charge: a retry must not charge again.
///     execution.effect_committed();
///     Ok(Response::new(write_the_receipt().await?))
/// }
/// ```
#[derive(Clone, Default)]
pub struct Execution {
    lease_lost: CancellationToken,
    effect_committed: Arc<AtomicBool>,
}

impl Execution {
    /// Of the call that this request belongs to. A call without a key has one too, which does nothing.
    pub fn of<T>(request: &Request<T>) -> Self {
        request.extensions().get().cloned().unwrap_or_default()
    }

    /// Cancelled when the lease of the call's reservation is lost: it was taken over, or could not be renewed in time. From
    /// then on another call may run the same operation, and this one's outcome is not recorded any more; a handler that can
    /// still stop should. Never cancelled for a transactional call: its statements fail instead.
    pub fn lease_lost(&self) -> &CancellationToken {
        &self.lease_lost
    }

    /// Says that the effect is there, and cannot be taken back. From here on an error or a panic of the handler does not free
    /// the key: a retry is refused with `IDEMPOTENCY_OUTCOME_UNKNOWN`, or reconciled if that is the procedure's policy
    /// ([`LeasePolicy::Reconcile`](crate::LeasePolicy::Reconcile)), and never run again. Nothing is written yet: a crash after
    /// this is a crash like any other.
    ///
    /// In a transactional call it changes nothing: what was written in its transaction is rolled back by an error.
    pub fn effect_committed(&self) {
        self.effect_committed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_effect_committed(&self) -> bool {
        self.effect_committed.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("lease_lost", &self.lease_lost.is_cancelled())
            .field("effect_committed", &self.is_effect_committed())
            .finish()
    }
}
