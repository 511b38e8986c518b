//! What a consumer tells its queue: [`Settlement`].

use std::time::Duration;

use http::StatusCode;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::{Outcome, RunError};
use crate::rejection::{InvalidKey, Rejection};

/// The pause where nothing else says how long: after a panic, an error that is not final, or a refusal that each delivery meets until the
/// server's set-up is mended.
const PAUSE: Duration = Duration::from_secs(1);

/// The shortest pause.
const LEAST: Duration = Duration::from_millis(100);

/// The pause before a message whose time is ahead of the server's is delivered again.
const AHEAD: Duration = Duration::from_secs(60);

/// What a consumer tells its queue of a message, once its operation has ended. `docs/consumers.md` in the repository has the table.
///
/// ```
/// use tonic_idempotency::run::{Outcome, RunError, Settlement};
///
/// # struct Message; impl Message { fn ack(self) {} fn nak(self, _: std::time::Duration) {} fn bury(self, _: &str) {} }
/// fn settle<T, E>(message: Message, ended: Result<Outcome<T>, RunError<E>>) {
///     match Settlement::of(&ended) {
///         Settlement::Acknowledge => message.ack(),
///         Settlement::Redeliver { after } => message.nak(after),
///         Settlement::DeadLetter(cause) => message.bury(cause.as_str()),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a consumer has to know what to do")]
pub enum Settlement {
    /// It took effect, now or before.
    Acknowledge,
    /// It may succeed if it is delivered again, after this time or later: at least 100 milliseconds.
    Redeliver {
        /// The pause.
        after: Duration,
    },
    /// Each delivery would end like this one, so that it belongs to the dead letters.
    DeadLetter(DeadLetter),
}

/// Why a message belongs to the dead letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeadLetter {
    /// The operation has ended with a final error.
    FinalError,
    /// It cannot be read, or its request has no hash.
    Malformed,
    /// Its id is empty.
    IdInvalid,
    /// Its id is that of another request.
    IdReused,
    /// Its id, a UUIDv7, is older than the records that are kept
    /// ([`ExpiredKeyPolicy::Refuse`](crate::policy::ExpiredKeyPolicy::Refuse)): it may have taken effect.
    IdExpired,
    /// It is not known whether an earlier delivery took effect.
    OutcomeUnknown,
}

impl DeadLetter {
    /// Returns the name that the metric has: `final_error`, `malformed`, `id_invalid`, `id_reused`, `id_expired` or `outcome_unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FinalError => "final_error",
            Self::Malformed => "malformed",
            Self::IdInvalid => "id_invalid",
            Self::IdReused => "id_reused",
            Self::IdExpired => "id_expired",
            Self::OutcomeUnknown => "outcome_unknown",
        }
    }
}

impl Settlement {
    /// Returns what to do with the message whose operation has ended like this.
    pub fn of<T, E>(ended: &Result<Outcome<T>, RunError<E>>) -> Self {
        ended.as_ref().map_or_else(Self::of_error, |_| Self::Acknowledge)
    }

    pub(super) fn of_error<E>(error: &RunError<E>) -> Self {
        match error {
            RunError::Failed { is_final: true, .. } => Self::DeadLetter(DeadLetter::FinalError),
            // What the program does wrong, another one may do right.
            RunError::Failed { is_final: false, .. } | RunError::Panicked | RunError::Response(_) => {
                Self::redeliver(PAUSE)
            }
            RunError::Malformed(_) => Self::DeadLetter(DeadLetter::Malformed),
            RunError::Refused { settlement, .. } => *settlement,
            RunError::Withheld { status, .. } if status.code() == Code::Unavailable => Self::of_hook(status),
            RunError::Unreadable { is_success, .. } | RunError::Withheld { is_success, .. } => match is_success {
                true => Self::Acknowledge,
                false => Self::DeadLetter(DeadLetter::FinalError),
            },
        }
    }

    /// Returns the status code of an answer to a webhook: 200, 503, or 422 for a dead letter.
    pub fn http_status(&self) -> StatusCode {
        match self {
            Self::Acknowledge => StatusCode::OK,
            Self::Redeliver { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::DeadLetter(_) => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    fn redeliver(after: Duration) -> Self {
        Self::Redeliver { after: after.max(LEAST) }
    }

    /// A hook of the application is not there at the moment.
    fn of_hook(status: &Status) -> Self {
        let says = status.get_details_retry_info().and_then(|info| info.retry_delay);
        Self::redeliver(says.unwrap_or(PAUSE))
    }
}

impl From<&Rejection> for Settlement {
    fn from(rejection: &Rejection) -> Self {
        match rejection {
            Rejection::NotStored { .. } => Self::Acknowledge,
            Rejection::Conflict
            | Rejection::InProgress { .. }
            | Rejection::Limit(_)
            | Rejection::NotCommitted
            | Rejection::Overloaded
            | Rejection::RequestTimeout { .. }
            | Rejection::ShuttingDown
            | Rejection::StoreUnavailable
            // The server, or how it is set up, is at fault, and not the message.
            | Rejection::CallerInvalid
            | Rejection::KeyUnsupported
            | Rejection::Nested
            | Rejection::NoScope
            | Rejection::NoUser
            | Rejection::StoreFailed => Self::redeliver(rejection.retry_after().unwrap_or(PAUSE)),
            Rejection::KeyFieldInvalid { key: InvalidKey::FromTheFuture, .. }
            | Rejection::KeyInvalid(InvalidKey::FromTheFuture) => Self::redeliver(AHEAD),
            Rejection::KeyExpired => Self::DeadLetter(DeadLetter::IdExpired),
            Rejection::KeyFieldInvalid { .. }
            | Rejection::KeyFieldRequired { .. }
            | Rejection::KeyInvalid(_)
            | Rejection::KeyRequired => Self::DeadLetter(DeadLetter::IdInvalid),
            Rejection::KeyReused(_) => Self::DeadLetter(DeadLetter::IdReused),
            Rejection::OutcomeUnknown => Self::DeadLetter(DeadLetter::OutcomeUnknown),
            Rejection::RequestMalformed(_) | Rejection::RequestTooCostly(_) | Rejection::RequestTooLarge { .. } => {
                Self::DeadLetter(DeadLetter::Malformed)
            }
        }
    }
}
