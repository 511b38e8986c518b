//! The values of the policies of a procedure, of a service and of the layer.

/// The policy for a transactional call whose client disconnects: it hangs up, resets the stream, or its deadline
/// passes. A reserved call always runs to its end, because the layer cannot tell how much of it has already taken
/// effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisconnectPolicy {
    /// Runs the call to its end, so that a retry gets its response. The default.
    #[default]
    Finish,
    /// Rolls the call back, unless its commit has begun. For expensive handlers whose result is useless without a
    /// client.
    RollBack,
}

/// The place where a reserved handler takes effect. This decides whether its reservation has to be on disk before the
/// handler runs. It does not apply to a transactional procedure, whose effect and record are in one transaction.
///
/// | effect | the reservation | if the database server crashes right after it |
/// |---|---|---|
/// | `Anywhere` | is on disk (and on synchronous standbys) before the handler runs | the reservation is there |
/// | `SameServer` | is committed before the handler runs, and flushed together with the next commit | the reservation is there if the effect is; or neither is there |
///
/// `SameServer` saves each first call one wait for a flush of the write-ahead log. It is safe because a crash can only
/// cut off the end of the log. The reservation is committed before the effect, so no effect is left without its
/// reservation: neither after a crash nor on a physical standby that takes over. The record of the outcome waits for
/// the disk in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffectPolicy {
    /// Any place. The default.
    #[default]
    Anywhere,
    /// The PostgreSQL server of the store, with any of its databases, and no other place. Only for a handler that does
    /// not outlive a crash of that server: it gives up everything that it has not committed by then.
    ///
    /// **Not** for a handler that calls something else, such as a payment API: the crash would not undo that effect.
    /// **Not** for a handler that waits until the server is back, or gets its first connection only then, and continues:
    /// if the crash removed its reservation, another call with the key may run as well.
    SameServer,
}

/// The policy for a key that is a UUID of version 7, whose time is longer ago than the procedure's
/// [`retention`](super::Policies::retention), and that has no record. Such a key may be new, used for the first time long after it was made;
/// or its record has expired.
///
/// | the key | its record | `Run` | `Refuse` |
/// |---|---|---|---|
/// | of any age | lives | replay | replay |
/// | at most as old as the retention, and five minutes | none | runs | runs |
/// | older | none, or a reservation whose lease ended | runs | `FAILED_PRECONDITION`, `IDEMPOTENCY_KEY_EXPIRED` |
/// | more than five minutes ahead of the server's clock | none | runs | `INVALID_ARGUMENT`, `IDEMPOTENCY_KEY_INVALID` |
/// | without a time: any other UUID or text | none | runs | runs |
///
/// A key that has run is never run again under `Refuse`: its record lives for 15 minutes longer than the retention, and so until the
/// key is too old to run. The server's clock decides on the age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpiredKeyPolicy {
    /// Refuses the call, even while the store is unavailable and the policy is [`StorePolicy::Proceed`].
    Refuse,
    /// Runs the call. The default, like the Go interceptor.
    #[default]
    Run,
}

/// The policy for a key that another system has reserved without a lease: a server with the Go interceptor, on the same
/// table. It is unknown whether its call still runs, or has taken effect without being recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForeignPolicy {
    /// Counts as running until the record expires. The default, like the Go interceptor.
    #[default]
    InProgress,
    /// Takes the key over once the procedure's [`lease`](super::Policies::lease) has passed since it was reserved, and asks the
    /// procedure's [`Reconciler`](super::Reconciler), as [`LeasePolicy::Reconcile`] does.
    Reconcile,
    /// Takes the key over once the procedure's [`lease`](super::Policies::lease) has passed since it was reserved, and runs the
    /// handler. Right if the other system's calls never run for longer, and do no harm when done twice.
    Rerun,
}

/// The policy for a call whose key is in use by a call that is still running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InProgressPolicy {
    /// Refuses the call with `ABORTED`, `IDEMPOTENCY_IN_PROGRESS`. The default, like the Go interceptor.
    #[default]
    Abort,
    /// Waits for the running call, for at most [`Policies::max_wait`](super::Policies::max_wait) and until the caller's deadline, and replays its
    /// response. Runs the handler if that call failed.
    Wait,
}

/// The isolation level of a transactional procedure's transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// `READ COMMITTED`. The default.
    #[default]
    ReadCommitted,
    /// `REPEATABLE READ`. A call that conflicts with another transaction is refused with `ABORTED`, `IDEMPOTENCY_CONFLICT`.
    RepeatableRead,
    /// `SERIALIZABLE`. Conflicts are refused as with `RepeatableRead`.
    Serializable,
}

/// The policy for calls without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyPolicy {
    /// Runs the call as if the layer were not installed. The default, like the Go interceptor.
    #[default]
    Optional,
    /// Refuses the call with `INVALID_ARGUMENT`, `IDEMPOTENCY_KEY_REQUIRED`.
    Required,
}

/// The policy for a key whose lease ended without an outcome: the process of its call died, or lost its connection to
/// the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeasePolicy {
    /// Asks the procedure's [`Reconciler`](super::Reconciler), which looks for the effect. Then returns the response
    /// that it finds, runs the handler if the call did not take effect, or refuses if the outcome is unknown.
    Reconcile,
    /// Refuses retries with `FAILED_PRECONDITION`, `IDEMPOTENCY_OUTCOME_UNKNOWN`, until the record expires.
    Refuse,
    /// Runs the handler again. The default. Right if the handler's writes are rolled back when its process dies, or do
    /// no harm when done twice.
    #[default]
    Rerun,
}

/// The way in which the handler's writes and the record are committed.
///
/// | mode | the reservation | the handler's writes | after a crash in between | extra commits |
/// |---|---|---|---|---|
/// | `Reserved` | committed before the handler runs | anywhere | the key stays reserved until its lease ends, then [`LeasePolicy`] decides | 2 |
/// | `Transactional` | a lock that its transaction holds | through the `Transaction` that the layer gives it | everything is rolled back | 0 |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Works with any handler. The default, like the Go interceptor.
    #[default]
    Reserved,
    /// Takes effect exactly once, for handlers that write to the database of the store.
    Transactional,
}

/// The policy for calls while the store cannot be asked: no call of the process has had an answer within its timeout
/// ([`StoreErrorKind::is_unavailable`](crate::store::StoreErrorKind::is_unavailable)). It does not apply to a store that
/// answers and fails, nor to one that is too busy: those calls are always refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorePolicy {
    /// Logs a warning and runs the call unprotected, like the Go interceptor. For operations that may rather run twice
    /// than be refused. Such a call is not reconciled either ([`LeasePolicy::Reconcile`]). A transactional call is refused
    /// all the same, because the handler would have no transaction.
    Proceed,
    /// Refuses the call with `UNAVAILABLE`, `IDEMPOTENCY_STORE_UNAVAILABLE`. The default.
    #[default]
    Reject,
}

/// The policy for calls with a key whose caller has no scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScopePolicy {
    /// Runs the call: its key belongs to the user in no scope. The default.
    #[default]
    Allow,
    /// Refuses the call with `UNAUTHENTICATED`, `IDEMPOTENCY_NO_SCOPE`.
    Reject,
}

/// The policy for calls with a key to procedures that are not opted in. Such a key protects nothing: a retry runs the handler
/// again.
///
/// The layer counts these keys (`idempotency_unprotected_keys_total`), and logs the first one of each procedure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnprotectedKeyPolicy {
    /// Runs the call as if the layer were not installed. The default, like the Go interceptor.
    #[default]
    PassThrough,
    /// Refuses the call with `INVALID_ARGUMENT`, `IDEMPOTENCY_KEY_UNSUPPORTED`.
    Refuse,
}

/// The policy for calls with a key and without an authenticated user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserPolicy {
    /// Logs a warning and runs the call unprotected.
    PassThrough,
    /// Refuses the call with `UNAUTHENTICATED`, `IDEMPOTENCY_NO_USER`. The default.
    #[default]
    Reject,
}
