//! The errors of stores, and whether a call may run unprotected after one.

use std::error::Error;

type BoxError = Box<dyn Error + Send + Sync>;

/// The error of a failed store operation.
#[derive(Debug, thiserror::Error)]
#[error("{}", .kind.message())]
pub struct StoreError {
    kind: StoreErrorKind,
    may_have_happened: bool,
    is_guess: bool,
    source: Option<BoxError>,
}

impl StoreError {
    /// Makes an error of this kind with its cause.
    pub fn new(kind: StoreErrorKind, source: impl Into<BoxError>) -> Self {
        Self { source: Some(source.into()), ..kind.into() }
    }

    /// Says that the operation may have been carried out although it failed: an answer of it was lost, of whatever
    /// attempt.
    pub fn after_a_lost_answer(self) -> Self {
        Self { may_have_happened: true, ..self }
    }

    /// Says that the kind is a guess, because the server's answer does not tell it. The layer does not repeat a call because of one.
    pub fn by_a_guess(self) -> Self {
        Self { is_guess: true, ..self }
    }

    /// Returns whether the server has said that the transaction lost: the call had no effect, and may succeed if it runs
    /// again.
    pub(crate) fn has_lost(&self) -> bool {
        self.kind == StoreErrorKind::Conflict && !self.is_guess && !self.may_have_happened
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns whether the operation may have been carried out although it failed, because only an answer was lost:
    /// always for [`StoreErrorKind::Interrupted`], and for any other kind
    /// [after a lost answer](Self::after_a_lost_answer).
    pub fn may_have_happened(&self) -> bool {
        self.may_have_happened
    }
}

impl From<StoreErrorKind> for StoreError {
    fn from(kind: StoreErrorKind) -> Self {
        Self { kind, may_have_happened: kind == StoreErrorKind::Interrupted, is_guess: false, source: None }
    }
}

/// The kind of a [`StoreError`].
///
/// Only a store that *cannot be asked* ([`is_unavailable`](Self::is_unavailable)) allows unprotected execution, and only if
/// [`StorePolicy`](crate::policy::StorePolicy) says so. After any other kind the call is refused.
///
/// | kind | the call is refused with |
/// |---|---|
/// | `Conflict` | `ABORTED`, `IDEMPOTENCY_CONFLICT` |
/// | `Corrupt`, `Refused` | `INTERNAL`, `IDEMPOTENCY_STORE_FAILED` |
/// | `Interrupted`, `Unreachable` | `UNAVAILABLE`, `IDEMPOTENCY_STORE_UNAVAILABLE` |
/// | `Nested` | `INTERNAL`, `IDEMPOTENCY_STORE_FAILED` |
/// | `Overloaded` | `UNAVAILABLE`, `IDEMPOTENCY_OVERLOADED` |
/// | `UserFull` | `RESOURCE_EXHAUSTED`, `IDEMPOTENCY_TOO_MANY_RECORDS` |
/// | `TransactionLimit` | `UNAVAILABLE`, `IDEMPOTENCY_OVERLOADED` |
/// | `UserLimit` | `RESOURCE_EXHAUSTED`, `IDEMPOTENCY_OVERLOADED` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The transaction lost against another transaction. The operation was not carried out, and may succeed if it is tried again.
    Conflict,
    /// The store returned invalid data.
    Corrupt,
    /// The store cannot be asked: the answer was lost, and no other attempt or call got one in time. It is not known whether the
    /// operation was carried out.
    Interrupted,
    /// The transaction would be inside of others that hold what it waits for: the only connection for transactions, or all that there are for
    /// one inside of another. The operation was not carried out.
    Nested,
    /// The store can be asked, and cannot carry out the operation now: it has no free connection, the statement takes too long,
    /// the server that answers is a standby, or another server that it depends on is away.
    Overloaded,
    /// The store refused the operation: a privilege or a function is missing, say. It was not carried out, except perhaps
    /// [after a lost answer](StoreError::after_a_lost_answer): a server with a broken disk refuses as well.
    Refused,
    /// All users together have as many transactions as there may be.
    TransactionLimit,
    /// The store cannot be asked: there was no connection to it for one timeout. The operation was not carried out.
    Unreachable,
    /// The user of the call has as many records as one user may have.
    UserFull,
    /// The user of the call has as many transactions as one user may have.
    UserLimit,
}

impl StoreErrorKind {
    /// Returns whether the store cannot be asked: nothing that it could say about the key is known.
    pub fn is_unavailable(self) -> bool {
        matches!(self, Self::Interrupted | Self::Unreachable)
    }

    /// Returns the name of the kind in metrics: `conflict`, `corrupt`, `interrupted`, `nested`, `overloaded`,
    /// `refused`, `transaction_limit`, `unreachable`, `user_full` or `user_limit`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Corrupt => "corrupt",
            Self::Interrupted => "interrupted",
            Self::Nested => "nested",
            Self::Overloaded => "overloaded",
            Self::Refused => "refused",
            Self::TransactionLimit => "transaction_limit",
            Self::Unreachable => "unreachable",
            Self::UserFull => "user_full",
            Self::UserLimit => "user_limit",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Conflict => "the transaction lost against another transaction",
            Self::Corrupt => "the idempotency store returned invalid data",
            Self::Interrupted => "the idempotency store did not answer; the operation may have been carried out",
            Self::Nested => "the transaction would wait for one around it",
            Self::Overloaded => "the idempotency store cannot carry out the operation now",
            Self::Refused => "the idempotency store refused the operation",
            Self::TransactionLimit => "there are as many transactions as there may be",
            Self::Unreachable => "the idempotency store cannot be reached",
            Self::UserFull => "the user has too many records",
            Self::UserLimit => "the user has too many transactions at once",
        }
    }
}
