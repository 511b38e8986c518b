//! The word of a consumer to its queue: [`Settlement`].

use std::time::Duration;

use http::StatusCode;

/// The shortest pause.
const LEAST: Duration = Duration::from_millis(100);

/// The word of a consumer to its queue on a message, once its operation has ended: [`Settlement::of`]. `docs/consumers.md` in the repository has the table.
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
    /// Redelivery where nothing else says when: after a panic, an error that is not final, or a rejection that each delivery meets until the
    /// server or its set-up is mended.
    pub(crate) const LATER: Self = Self::Redeliver { after: Duration::from_secs(1) };

    /// Returns the status code of an answer to a webhook: 200, 503, or 422 for a dead letter.
    pub fn http_status(&self) -> StatusCode {
        match self {
            Self::Acknowledge => StatusCode::OK,
            Self::Redeliver { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::DeadLetter(_) => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    /// Redelivery after this time, and at least [`LEAST`].
    pub(crate) fn after(pause: Duration) -> Self {
        Self::Redeliver { after: pause.max(LEAST) }
    }
}
