use std::time::Duration;

use super::FinalErrors;

/// What to do in each case that leaves a choice: the layer's defaults, and what became of them for one procedure.
///
/// ```
/// use std::time::Duration;
/// use tonic_idempotency::policy::{Policies, StorePolicy};
///
/// let defaults = Policies::default();
/// assert_eq!(defaults.lease, Duration::from_secs(5 * 60));
/// assert_eq!(defaults.retention, Duration::from_secs(24 * 3600));
///
/// let strict = Policies { on_store_unavailable: StorePolicy::Reject, ..defaults };
/// assert_ne!(strict, defaults);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "written as `Policies { .., ..Policies::default() }`, to which a policy can be added"
)]
pub struct Policies {
    /// Where the effect of a reserved handler is. Defaults to [`EffectPolicy::Anywhere`].
    pub effect: EffectPolicy,
    /// Errors of the handler that end the operation: stored and replayed as a response is. Any other error frees the key.
    /// Defaults to none (FUN-15).
    pub final_errors: FinalErrors,
    /// The isolation level of transactions. Defaults to [`Isolation::ReadCommitted`].
    pub isolation: Isolation,
    /// What to do without a key. Defaults to [`KeyPolicy::Optional`].
    pub key_policy: KeyPolicy,
    /// How long a reservation is believed after its holder was last heard of: while a handler runs, its lease is renewed
    /// each third of it. For a transactional procedure: how long its transaction may be idle. More than zero, at most ten
    /// years. Defaults to 5 minutes.
    pub lease: Duration,
    /// How long a call waits for the one that holds its key, with [`InProgressPolicy::Wait`]. More than zero, at most an hour.
    /// Defaults to 30 seconds.
    pub max_wait: Duration,
    /// Where the handler's writes and the record meet. Defaults to [`Mode::Reserved`].
    pub mode: Mode,
    /// What to do with a transactional call whose client goes away. Defaults to [`DisconnectPolicy::Finish`].
    pub on_disconnect: DisconnectPolicy,
    /// What to do with a call whose key is in use by a call that still runs. Defaults to [`InProgressPolicy::Abort`].
    pub on_in_progress: InProgressPolicy,
    /// What to do with a key whose first call ended its lease without an outcome. Defaults to [`LeasePolicy::Rerun`].
    pub on_lease_ended: LeasePolicy,
    /// What to do where no user is authenticated. Defaults to [`UserPolicy::PassThrough`].
    pub on_no_user: UserPolicy,
    /// What to do where the store cannot be reached. Defaults to [`StorePolicy::Proceed`].
    pub on_store_unavailable: StorePolicy,
    /// How long a completed record lives, counted from its completion, to within a hundredth of it. More than zero, at
    /// most ten years. Defaults to 24 hours (FUN-15 section 2.7).
    pub retention: Duration,
}

impl Default for Policies {
    fn default() -> Self {
        Self {
            effect: EffectPolicy::default(),
            final_errors: FinalErrors::NONE,
            isolation: Isolation::default(),
            key_policy: KeyPolicy::default(),
            lease: Duration::from_secs(5 * 60),
            max_wait: Duration::from_secs(30),
            mode: Mode::default(),
            on_disconnect: DisconnectPolicy::default(),
            on_in_progress: InProgressPolicy::default(),
            on_lease_ended: LeasePolicy::default(),
            on_no_user: UserPolicy::default(),
            on_store_unavailable: StorePolicy::default(),
            retention: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// What to do with a transactional call whose client hangs up, resets its stream or runs into its deadline. A reserved call
/// always runs to its end: how much of it has happened cannot be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisconnectPolicy {
    /// Run it to its end. The default: the client's retry finds the response.
    #[default]
    Finish,
    /// Roll it back, unless it is being committed: for handlers that are not worth their while when nobody waits.
    RollBack,
}

/// Where the effect of a reserved handler is, and with that, whether its reservation has to be on the disk before it runs. Says
/// nothing of a transactional one, whose effect is in the record's own transaction.
///
/// | effect | the reservation | if the database server crashes right after it |
/// |---|---|---|
/// | `Anywhere` | is on the disk (and on synchronous standbys) before the handler runs | it is there |
/// | `SameServer` | is committed before the handler runs, and flushed with whatever is committed next | it is there if the effect is; or neither is |
///
/// `SameServer` saves each first call the wait for one flush of the write-ahead log. It is safe because
/// a server keeps of its log what was written before some moment, never a later part without an earlier one: an effect that
/// is committed after the reservation is not there without it, after a crash or on a physical standby that takes over. The
/// record of the outcome waits for the disk in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EffectPolicy {
    /// Anywhere. The default.
    #[default]
    Anywhere,
    /// In the PostgreSQL server that the store is in (any database of it), and nowhere else; and the handler does not outlive a
    /// crash of that server: whatever it has not committed by then, it gives up. **Not** for a handler that calls something else,
    /// such as a payment API, whose effect the crash would spare. **Nor** for one that waits for the server to come back, or only
    /// then gets its connection, and goes on: if its reservation was among what the crash took, another call with the key may
    /// run as well.
    SameServer,
}

/// What to do with a call whose key is in use by a call that still runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InProgressPolicy {
    /// Refuse it: `ABORTED`, `IDEMPOTENCY_IN_PROGRESS`. The default (FUN-15).
    #[default]
    Abort,
    /// Wait for the other, for at most [`Policies::max_wait`] and the caller's own deadline, and give its response; run the
    /// handler if the other failed.
    Wait,
}

/// The isolation level of the transaction that a transactional procedure is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// `READ COMMITTED`. The default.
    #[default]
    ReadCommitted,
    /// `REPEATABLE READ`. A call that loses against another is refused with `ABORTED`, `IDEMPOTENCY_CONFLICT`.
    RepeatableRead,
    /// `SERIALIZABLE`. As `RepeatableRead`.
    Serializable,
}

/// What to do without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyPolicy {
    /// Run the call as if the layer were not there. The default (FUN-15 section 2.1).
    #[default]
    Optional,
    /// Refuse it: `INVALID_ARGUMENT`, `IDEMPOTENCY_KEY_REQUIRED`.
    Required,
}

/// What to do with a key whose first call ended its lease without saying how it ended: its process died, or was cut off
/// from the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeasePolicy {
    /// Ask the procedure's [`Reconciler`](crate::policy::Reconciler), which looks into the business tables: give the response that it
    /// finds, run the handler if it never took effect, or refuse.
    Reconcile,
    /// Refuse: `FAILED_PRECONDITION`, `IDEMPOTENCY_OUTCOME_UNKNOWN`, until the record expires.
    Refuse,
    /// Run the handler again. The default. Right where the handler's writes are rolled back with its process, or do no
    /// harm twice.
    #[default]
    Rerun,
}

/// Where the handler's writes and the record meet.
///
/// | mode | the reservation | the handler's writes | after a crash in between | extra commits |
/// |---|---|---|---|---|
/// | `Reserved` | committed before the handler runs | wherever it likes | the key stays reserved until its lease ends, then [`LeasePolicy`] decides | 2 |
/// | `Transactional` | a lock that its transaction holds | through the [`Transaction`](crate::store::Transaction) that it is given | nothing is left: all of it rolled back | 0 |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Works with any handler. The default (FUN-15).
    #[default]
    Reserved,
    /// Exactly once, for handlers that write to the store's own database.
    Transactional,
}

/// What to do where the store cannot be reached, and with a call in a protocol that the layer does not understand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorePolicy {
    /// Warn, and run the call unprotected. The default (FUN-15 section 5). A transactional call is refused all the same: there
    /// is no transaction to give it.
    #[default]
    Proceed,
    /// Refuse it: `UNAVAILABLE`, `IDEMPOTENCY_STORE_UNAVAILABLE` (of the protocol, `IDEMPOTENCY_REQUEST_MALFORMED`). For
    /// what must never happen twice.
    Reject,
}

/// What to do where no user is authenticated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UserPolicy {
    /// Warn, and run the call unprotected. The default.
    #[default]
    PassThrough,
    /// Refuse it: `UNAUTHENTICATED`, `IDEMPOTENCY_NO_USER`.
    Reject,
}
