//! The communication between a handler and the layer.

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

/// The state that a running handler shares with the layer. Every request with a key has one in its extensions. Clones
/// share the state.
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
///     // An error from here on does not undo the charge: a retry must not charge again.
///     execution.effect_committed();
///     Ok(Response::new(write_the_receipt().await?))
/// }
/// ```
#[derive(Clone, Default)]
pub struct Execution {
    state: Arc<State>,
    deadline: Option<Instant>,
}

impl Execution {
    pub(crate) fn new(deadline: Option<Instant>) -> Self {
        Self { deadline, ..Self::default() }
    }

    /// Returns the execution of the call that this request belongs to. The execution of a call without a key has no
    /// effect.
    pub fn from_request<T>(request: &Request<T>) -> Self {
        Self::from_extensions(request.extensions())
    }

    /// Returns the execution for a handler without a tonic request, from the extensions of its `http::Request` or of
    /// the `RequestContext` of `connectrpc`.
    pub fn from_extensions(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Returns the caller's deadline from its `grpc-timeout` or `connect-timeout-ms`; `None` if the caller sent none.
    /// The call goes on after the deadline, and a retry gets its response. From then on the handler can skip work that
    /// only this caller needs.
    ///
    /// The layer removes `grpc-timeout` from requests with a key, because some servers, such as `connectrpc`'s, drop
    /// the handler at any point after this time. Requests without a key keep the header, and have no deadline here.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns a token that is cancelled when the call loses the lease of its reservation: another call took it over,
    /// or it could not be renewed in time. From then on another call may run the same operation, and if it does, the
    /// outcome of this one is not recorded. The handler should stop if it still can. Never cancelled for a transactional call: its
    /// statements fail instead.
    pub fn lease_lost(&self) -> &CancellationToken {
        self.state.lease_lost.get_or_init(CancellationToken::new)
    }

    /// Tells the layer that the effect has happened and cannot be undone. From then on an error or a panic of the
    /// handler does not free the key. A retry never runs the handler again: it is reconciled if that is the procedure's
    /// policy ([`LeasePolicy::Reconcile`](crate::policy::LeasePolicy::Reconcile)), and refused with
    /// `IDEMPOTENCY_OUTCOME_UNKNOWN` otherwise. Nothing is recorded at this point, so a crash afterwards is handled
    /// like any other crash.
    ///
    /// Has no effect in a transactional call: an error rolls back everything that was written in its transaction.
    pub fn effect_committed(&self) {
        self.state.effect_committed.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_effect_committed(&self) -> bool {
        self.state.effect_committed.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("lease_lost", &self.state.lease_lost.get().is_some_and(CancellationToken::is_cancelled))
            .field("effect_committed", &self.is_effect_committed())
            .field("deadline", &self.deadline)
            .finish()
    }
}

#[derive(Default)]
struct State {
    effect_committed: AtomicBool,
    /// The token, created at its first use, because most handlers never use it.
    lease_lost: OnceLock<CancellationToken>,
}
