//! The communication between a handler and the layer.

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use http::Extensions;
use tokio_util::sync::CancellationToken;
use tonic::Request;

use crate::{caller::Caller, key::KeyId, nesting::Nesting};

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
    /// The execution of a handler that has to end at this time. `origin` is `None` for a call without a key.
    pub(crate) fn new(
        deadline: Option<Instant>,
        ends: tokio::time::Instant,
        origin: Option<(Caller, KeyId)>,
        nesting: Nesting,
    ) -> Self {
        let state = State { ends: Some(ends), origin, nesting, ..State::default() };
        Self { state: Arc::new(state), deadline }
    }

    /// Returns the execution of the call that this request belongs to. That of a call without a key has no effect, but for its
    /// [`time_left`](Self::time_left) and [`effect_committed`](Self::effect_committed) in a transaction.
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

    /// Returns the time that the handler has left until the layer ends it
    /// ([`handler_timeout`](crate::policy::Policies::handler_timeout)); `None` in a call that the layer passes through. It counts from the
    /// first begin of the handler, which may be before this one: a transactional handler runs again if its transaction
    /// has lost. Zero if the time is up.
    pub fn time_left(&self) -> Option<Duration> {
        self.state.ends.map(|ends| ends.saturating_duration_since(tokio::time::Instant::now()))
    }

    /// Returns a token that is cancelled when the call loses the lease of its reservation: another call took it over,
    /// it could not be renewed in time, or the time of the handler is up ([`time_left`](Self::time_left)). From then on another call may run the same operation, and if it does, the
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
    /// In a transactional call an error rolls back everything that was written in its transaction all the same. There it says that the handler
    /// must not run again: if its transaction then loses, the call is refused with `IDEMPOTENCY_CONFLICT`, and the
    /// client decides. As the first line of a handler it turns reruns off.
    pub fn effect_committed(&self) {
        self.change(|say| say.effect_committed = true);
    }

    /// Makes the error with which the handler ends a final one, whatever its code: it is stored, and a retry gets it without running the
    /// handler. Has no effect on a success, on a panic, or on an error of the layer. In transactional mode the procedure needs
    /// [`final_errors`](crate::policy::ProcedureBuilder::final_errors), with any code: for these its transaction has a savepoint.
    ///
    /// An error of an [`Operation`](crate::run::Operation) says so itself ([`HandlerError`](crate::run::HandlerError)).
    pub fn final_error(&self) {
        self.change(|say| say.final_error = true);
    }

    /// Sets how long the record of this call is kept, at most the procedure's
    /// [`retention`](crate::policy::Policies::retention), which is the default. At least a second.
    ///
    /// Afterwards a retry runs the handler again: shorter than the time in which clients retry, it takes the protection from them.
    pub fn keep_for(&self, retention: Duration) {
        self.change(|say| say.keep_for = Some(retention.max(SHORTEST_RETENTION)));
    }

    /// Has no record made of this call although it succeeds, for an answer such as "accepted, ask again": the key is free again, and the
    /// next call with it runs the handler. A transaction is committed without a record. Has no effect if the handler fails.
    pub fn do_not_record(&self) {
        self.change(|say| say.do_not_record = true);
    }

    /// Returns the time at which the handler has to have ended: now, for one that the layer does not run.
    pub(crate) fn ends(&self) -> tokio::time::Instant {
        self.state.ends.unwrap_or_else(tokio::time::Instant::now)
    }

    /// Returns the caller and the key of the call; `None` for a call without a key.
    pub(crate) fn origin(&self) -> Option<&(Caller, KeyId)> {
        self.state.origin.as_ref()
    }

    /// Returns the handlers around a further call that the handler makes: itself, and those around it.
    pub(crate) fn nesting(&self) -> Nesting {
        self.state.nesting
    }

    /// Makes void what the handler has said of an answer that it does not give, because it panics or is dropped.
    pub(crate) fn no_answer(&self) {
        self.change(|say| say.final_error = false);
    }

    /// Returns what the handler has said until now.
    pub(crate) fn say(&self) -> Say {
        *self.state.say.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Say)) {
        change(&mut self.state.say.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("lease_lost", &self.state.lease_lost.get().is_some_and(CancellationToken::is_cancelled))
            .field("say", &self.say())
            .field("deadline", &self.deadline)
            .finish()
    }
}

/// The shortest time for which a record is kept if the handler says so.
const SHORTEST_RETENTION: Duration = Duration::from_secs(1);

/// The handler's say on the record of its call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Say {
    pub(crate) effect_committed: bool,
    pub(crate) final_error: bool,
    pub(crate) keep_for: Option<Duration>,
    pub(crate) do_not_record: bool,
}

#[derive(Default)]
struct State {
    /// The time at which the handler has to have ended; `None` in a call that the layer passes through.
    ends: Option<tokio::time::Instant>,
    /// `None` for a call without a key.
    origin: Option<(Caller, KeyId)>,
    nesting: Nesting,
    say: Mutex<Say>,
    /// The token, created at its first use, because most handlers never use it.
    lease_lost: OnceLock<CancellationToken>,
}
