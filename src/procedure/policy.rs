use std::time::Duration;

/// What to do without a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
pub enum LeasePolicy {
    /// Refuse: `FAILED_PRECONDITION`, `IDEMPOTENCY_OUTCOME_UNKNOWN`, until the record expires.
    Refuse,
    /// Run the handler again. The default. Right where the handler's writes are rolled back with its process, or do no
    /// harm twice.
    #[default]
    Rerun,
}

/// What to do where the store cannot be reached, and with a call in a protocol that the layer does not understand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorePolicy {
    /// Warn, and run the call unprotected. The default (FUN-15 section 5).
    #[default]
    Proceed,
    /// Refuse it: `UNAVAILABLE`, `IDEMPOTENCY_STORE_UNAVAILABLE` (of the protocol, `IDEMPOTENCY_REQUEST_MALFORMED`). For
    /// what must never happen twice.
    Reject,
}

/// What to do where no user is authenticated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserPolicy {
    /// Warn, and run the call unprotected. The default.
    #[default]
    PassThrough,
    /// Refuse it: `UNAUTHENTICATED`, `IDEMPOTENCY_NO_USER`.
    Reject,
}

/// What to do in each case that leaves a choice: the layer's defaults, and what became of them for one procedure.
///
/// ```
/// use std::time::Duration;
/// use tonic_idempotency::{Policies, StorePolicy};
///
/// let defaults = Policies::default();
/// assert_eq!(defaults.lease, Duration::from_secs(5 * 60));
/// assert_eq!(defaults.retention, Duration::from_secs(24 * 3600));
///
/// let strict = Policies { on_store_unavailable: StorePolicy::Reject, ..defaults };
/// assert_ne!(strict, defaults);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policies {
    /// What to do without a key. Defaults to [`KeyPolicy::Optional`].
    pub key: KeyPolicy,
    /// How long a reservation is believed: longer than a handler takes. More than zero, at most ten years. Defaults
    /// to 5 minutes.
    pub lease: Duration,
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
            key: KeyPolicy::default(),
            lease: Duration::from_secs(5 * 60),
            on_lease_ended: LeasePolicy::default(),
            on_no_user: UserPolicy::default(),
            on_store_unavailable: StorePolicy::default(),
            retention: Duration::from_secs(24 * 60 * 60),
        }
    }
}
