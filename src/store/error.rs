//! [`StoreError`].

use std::error::Error;

type BoxError = Box<dyn Error + Send + Sync>;

/// The error of a failed store operation.
#[derive(Debug, thiserror::Error)]
#[error("{}", .kind.message())]
pub struct StoreError {
    kind: StoreErrorKind,
    source: Option<BoxError>,
}

impl StoreError {
    /// Makes an error of this kind with its cause.
    pub fn new(kind: StoreErrorKind, source: impl Into<BoxError>) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns whether the operation may have been carried out although it failed, because only its answer was lost.
    pub fn may_have_happened(&self) -> bool {
        self.kind == StoreErrorKind::Interrupted
    }
}

impl From<StoreErrorKind> for StoreError {
    fn from(kind: StoreErrorKind) -> Self {
        Self { kind, source: None }
    }
}

/// The kind of a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The transaction lost against another one. The operation was not carried out, and may succeed if it is tried
    /// again.
    Conflict,
    /// The store returned invalid data.
    Corrupt,
    /// The answer was lost, or did not come in time. It is not known whether the operation was carried out.
    Interrupted,
    /// The store refused the operation, and did not carry it out.
    Refused,
    /// There was no connection to the store. The operation was not carried out.
    Unreachable,
}

impl StoreErrorKind {
    /// Returns the name of the kind in metrics: `conflict`, `corrupt`, `interrupted`, `refused` or `unreachable`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Corrupt => "corrupt",
            Self::Interrupted => "interrupted",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::Conflict => "the transaction lost against another transaction",
            Self::Corrupt => "the idempotency store returned invalid data",
            Self::Interrupted => "the idempotency store did not answer; the operation may have been carried out",
            Self::Refused => "the idempotency store refused the operation",
            Self::Unreachable => "the idempotency store cannot be reached",
        }
    }
}
