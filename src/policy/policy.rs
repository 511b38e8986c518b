//! The policies of a procedure, or of the whole layer.

use std::time::Duration;

use super::FinalErrors;
use crate::key::KeyFormat;

/// The policies of a procedure, or the layer's defaults for all procedures.
///
/// The Go interceptor, whose behaviour some defaults follow, is the design that this crate grew from.
///
/// ```
/// use std::time::Duration;
/// use tonic_idempotency::policy::{Policies, StorePolicy};
///
/// // Default.
/// let defaults = Policies::default();
/// assert_eq!(defaults.lease, Duration::from_secs(60));
/// assert_eq!(defaults.retention, Duration::from_secs(24 * 3600));
///
/// // Customised.
/// let lenient = Policies { on_store_unavailable: StorePolicy::Proceed, ..defaults };
/// assert_ne!(lenient, defaults);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "written as `Policies { .., ..Policies::default() }`, to which a policy can be added"
)]
pub struct Policies {
    /// The place where a reserved handler takes effect. Defaults to [`EffectPolicy::Anywhere`].
    pub effect: EffectPolicy,
    /// The policy for a key that is a UUID of version 7 older than the retention, and has no record. Defaults to
    /// [`ExpiredKeyPolicy::Run`].
    pub expired_keys: ExpiredKeyPolicy,
    /// The errors of the handler that end the operation: they are stored and replayed like a response. Any other error
    /// frees the key. Defaults to none, like the Go interceptor.
    pub final_errors: FinalErrors,
    /// The isolation level of transactions. Defaults to [`Isolation::ReadCommitted`].
    pub isolation: Isolation,
    /// The form of the keys. Defaults to [`KeyFormat::Uuid`].
    pub key_format: KeyFormat,
    /// The policy for calls without a key. Defaults to [`KeyPolicy::Optional`].
    pub key_policy: KeyPolicy,
    /// The time for which a reservation is valid without a renewal. While the handler runs, the lease is renewed after
    /// each third of this time. More than zero, at most ten years. Defaults to 1 minute.
    pub lease: Duration,
    /// The time for which a call with [`InProgressPolicy::Wait`] waits for the running call. More than zero, at most
    /// one hour. Defaults to 30 seconds.
    pub max_wait: Duration,
    /// The way in which the handler's writes and the record are committed. Defaults to [`Mode::Reserved`].
    pub mode: Mode,
    /// The policy for a transactional call whose client disconnects. Defaults to [`DisconnectPolicy::Finish`].
    pub on_disconnect: DisconnectPolicy,
    /// The policy for a key that another system has reserved without a lease. Defaults to
    /// [`ForeignPolicy::InProgress`].
    pub on_foreign_reservation: ForeignPolicy,
    /// The policy for a call whose key is in use by a call that is still running. Defaults to
    /// [`InProgressPolicy::Abort`].
    pub on_in_progress: InProgressPolicy,
    /// The policy for a key whose lease ended without an outcome. Defaults to [`LeasePolicy::Rerun`].
    pub on_lease_ended: LeasePolicy,
    /// The policy for calls with a key and without an authenticated user. Defaults to [`UserPolicy::Reject`].
    pub on_no_user: UserPolicy,
    /// The policy for calls while the store cannot be asked. Defaults to [`StorePolicy::Reject`].
    pub on_store_unavailable: StorePolicy,
    /// The time for which a completed record is stored, from its completion, accurate to 1 %. More than zero, at most
    /// ten years. Defaults to 24 hours, like the Go interceptor.
    pub retention: Duration,
    /// The time for which the transaction of a transactional procedure may be idle, before the database ends it and
    /// frees the key. More than zero, at most ten years. Defaults to 5 minutes.
    pub transaction_idle: Duration,
}

impl Policies {
    /// Returns whether a call is refused whose key has expired.
    pub(crate) fn refuses_expired_keys(&self) -> bool {
        self.expired_keys == ExpiredKeyPolicy::Refuse
    }

    /// Returns whether a key that was taken over is reconciled before its handler runs.
    pub(crate) fn reconciles(&self) -> bool {
        self.on_lease_ended == LeasePolicy::Reconcile || self.on_foreign_reservation == ForeignPolicy::Reconcile
    }
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            effect: EffectPolicy::default(),
            expired_keys: ExpiredKeyPolicy::default(),
            final_errors: FinalErrors::NONE,
            isolation: Isolation::default(),
            key_format: KeyFormat::default(),
            key_policy: KeyPolicy::default(),
            lease: Duration::from_secs(60),
            max_wait: Duration::from_secs(30),
            mode: Mode::default(),
            on_disconnect: DisconnectPolicy::default(),
            on_foreign_reservation: ForeignPolicy::default(),
            on_in_progress: InProgressPolicy::default(),
            on_lease_ended: LeasePolicy::default(),
            on_no_user: UserPolicy::default(),
            on_store_unavailable: StorePolicy::default(),
            retention: Duration::from_secs(24 * 60 * 60),
            transaction_idle: Duration::from_secs(5 * 60),
        }
    }
}

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
/// [`retention`](Policies::retention), and that has no record. Such a key may be new, used for the first time long after it was made;
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
    /// Takes the key over once the procedure's [`lease`](Policies::lease) has passed since it was reserved, and asks the
    /// procedure's [`Reconciler`](super::Reconciler), as [`LeasePolicy::Reconcile`] does.
    Reconcile,
    /// Takes the key over once the procedure's [`lease`](Policies::lease) has passed since it was reserved, and runs the
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
    /// Waits for the running call, for at most [`Policies::max_wait`] and until the caller's deadline, and replays its
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

/// The policy for calls while the store cannot be asked: there is no connection to it, or no answer within its timeout
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
