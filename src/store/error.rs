use std::error::Error;

type BoxError = Box<dyn Error + Send + Sync>;

/// A store that did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{}", .kind.message())]
pub struct StoreError {
    kind: StoreErrorKind,
    source: Option<BoxError>,
}

impl StoreError {
    /// An error of this kind, with its cause.
    pub fn new(kind: StoreErrorKind, source: impl Into<BoxError>) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    /// What went wrong.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Whether the store may have done what it was asked all the same, its answer lost.
    pub fn may_have_happened(&self) -> bool {
        self.kind == StoreErrorKind::Interrupted
    }
}

impl From<StoreErrorKind> for StoreError {
    fn from(kind: StoreErrorKind) -> Self {
        Self { kind, source: None }
    }
}

/// What went wrong in a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// A transaction lost against another. It was not done, and may succeed if it is tried again.
    Conflict,
    /// What was read makes no sense.
    Corrupt,
    /// The answer did not come, or not in time. Whether it was done is not known.
    Interrupted,
    /// The store said no. It was not done.
    Refused,
    /// There was no connection to be had. It was not done.
    Unreachable,
}

impl StoreErrorKind {
    /// The kind as it is in metrics: `conflict`, `corrupt`, `interrupted`, `refused` or `unreachable`.
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
            Self::Conflict => "the transaction lost against another",
            Self::Corrupt => "the idempotency store holds something that it should not",
            Self::Interrupted => "the idempotency store's answer was lost",
            Self::Refused => "the idempotency store refused the statement",
            Self::Unreachable => "the idempotency store cannot be reached",
        }
    }
}
