use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use http::Extensions;
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
///     let execution = Execution::from_request(&request);
///     charge_the_card().await?;
///     // From here on an error says nothing of the charge: a retry must not charge again.
///     execution.effect_committed();
///     Ok(Response::new(write_the_receipt().await?))
/// }
/// ```
#[derive(Clone, Default)]
pub struct Execution {
    said: Arc<Said>,
    deadline: Option<Instant>,
}

impl Execution {
    pub(crate) fn new(deadline: Option<Instant>) -> Self {
        Self { deadline, ..Self::default() }
    }

    /// Of the call that this request belongs to. A call without a key has one too, which does nothing.
    pub fn from_request<T>(request: &Request<T>) -> Self {
        Self::from_extensions(request.extensions())
    }

    /// The same for a handler that has no tonic request: in the extensions of its `http::Request`, or of the `RequestContext` that
    /// `connectrpc` gives it.
    pub fn from_extensions(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Until when the caller waits, by its `grpc-timeout` or `connect-timeout-ms`; `None` where it does not say. The call goes on
    /// after that, and a retry gets its response; what is done meanwhile for this caller alone can be left out.
    ///
    /// The handler of a call with a key does not see `grpc-timeout` itself: some servers, `connectrpc`'s among them, drop the
    /// handler when it has passed, wherever it stands. That of a call without a key does, and has no deadline here.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Cancelled when the lease of the call's reservation is lost: it was taken over, or could not be renewed in time. From
    /// then on another call may run the same operation, and this one's outcome is not recorded any more; a handler that can
    /// still stop should. Never cancelled for a transactional call: its statements fail instead.
    pub fn lease_lost(&self) -> &CancellationToken {
        self.said.lease_lost.get_or_init(CancellationToken::new)
    }

    /// Says that the effect is there, and cannot be taken back. From here on an error or a panic of the handler does not free
    /// the key: a retry is refused with `IDEMPOTENCY_OUTCOME_UNKNOWN`, or reconciled if that is the procedure's policy
    /// ([`LeasePolicy::Reconcile`](crate::policy::LeasePolicy::Reconcile)), and never run again. Nothing is written yet: a crash after
    /// this is a crash like any other.
    ///
    /// In a transactional call it changes nothing: what was written in its transaction is rolled back by an error.
    pub fn effect_committed(&self) {
        self.said.effect_committed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_effect_committed(&self) -> bool {
        self.said.effect_committed.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("lease_lost", &self.said.lease_lost.get().is_some_and(CancellationToken::is_cancelled))
            .field("effect_committed", &self.is_effect_committed())
            .field("deadline", &self.deadline)
            .finish()
    }
}

/// What the two have told each other.
#[derive(Default)]
struct Said {
    effect_committed: AtomicBool,
    /// Made for the first who asks: most handlers do not.
    lease_lost: OnceLock<CancellationToken>,
}
