//! The end of a call, as its client saw it.

use std::{fmt, time::Duration};

use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use uuid::Uuid;

/// The domain of the layer's own rejections.
const DOMAIN: &str = "tonic-idempotency";

/// The end of a call, as its client saw it.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The call was acknowledged.
    Acknowledged(Acknowledgement),
    /// The call failed, or was refused.
    Failed(Failure),
    /// The client hung up.
    HungUp,
    /// No answer came within the client's patience.
    TimedOut,
}

/// A response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    /// The id of the created resource; `None` if the response has no valid id.
    pub(crate) id: Option<Uuid>,
    /// Whether the response is marked as a replay.
    pub(crate) replayed: bool,
    /// Whether the layer took part: the header `idempotency-status` shows it.
    pub(crate) protected: bool,
}

/// A status other than OK.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) reason: Option<Reason>,
    pub(crate) message: String,
    /// The delay that the server asks for.
    pub(crate) retry_after: Option<Duration>,
    /// Whether the status came from a server, and not from the connection to it.
    pub(crate) answered: bool,
}

/// The reason in the layer's `google.rpc.ErrorInfo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    InProgress,
    KeyReused,
    Other,
    OutcomeUnknown,
    Overloaded,
    StoreFailed,
    StoreUnavailable,
}

impl Outcome {
    /// Whether a client accepts this as the answer, and stops trying.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Acknowledged(_) => true,
            Self::Failed(failure) => !failure.is_transient(),
            Self::HungUp | Self::TimedOut => false,
        }
    }

    pub(crate) fn acknowledgement(&self) -> Option<&Acknowledgement> {
        match self {
            Self::Acknowledged(acknowledgement) => Some(acknowledgement),
            _ => None,
        }
    }

    pub(crate) fn reason(&self) -> Option<Reason> {
        match self {
            Self::Failed(failure) => failure.reason,
            _ => None,
        }
    }
}

impl Failure {
    /// Whether a client tries again, with the same key.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(
            self.code,
            Code::Aborted
                | Code::Cancelled
                | Code::DeadlineExceeded
                | Code::Internal
                | Code::ResourceExhausted
                | Code::Unavailable
                | Code::Unknown
        )
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let info = status.get_details_error_info().filter(|info| info.domain == DOMAIN);
        let retry = status.get_details_retry_info();
        Self {
            code: status.code(),
            reason: info.map(|info| match info.reason.as_str() {
                "IDEMPOTENCY_IN_PROGRESS" => Reason::InProgress,
                "IDEMPOTENCY_KEY_REUSED" => Reason::KeyReused,
                "IDEMPOTENCY_OUTCOME_UNKNOWN" => Reason::OutcomeUnknown,
                "IDEMPOTENCY_OVERLOADED" => Reason::Overloaded,
                "IDEMPOTENCY_STORE_FAILED" => Reason::StoreFailed,
                "IDEMPOTENCY_STORE_UNAVAILABLE" => Reason::StoreUnavailable,
                _ => Reason::Other,
            }),
            message: status.message().to_owned(),
            retry_after: retry.and_then(|retry| retry.retry_delay),
            // A status that tonic made locally from a connection error has that error as its source.
            answered: std::error::Error::source(&status).is_none(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acknowledged(Acknowledgement { id, replayed, protected }) => {
                f.write_str(if *replayed { "replayed" } else { "acknowledged" })?;
                match id {
                    Some(id) => write!(f, " {id}")?,
                    None => f.write_str(" without an id")?,
                }
                if *protected { Ok(()) } else { f.write_str(", unprotected") }
            }
            Self::Failed(failure) => {
                write!(f, "{:?}", failure.code)?;
                if let Some(reason) = failure.reason {
                    write!(f, " ({reason:?})")?;
                }
                if !failure.answered {
                    f.write_str(" by the connection")?;
                }
                write!(f, ": {}", failure.message)
            }
            Self::HungUp => f.write_str("hung up"),
            Self::TimedOut => f.write_str("no answer in time"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::*;

    #[test]
    fn takes_the_reason_from_the_layers_own_domain_only() {
        let reason = |domain: &str| {
            let details = ErrorDetails::with_error_info("IDEMPOTENCY_IN_PROGRESS", domain, []);
            Failure::from(Status::with_error_details(Code::Aborted, "", details)).reason
        };
        assert_eq!(reason(DOMAIN), Some(Reason::InProgress));
        assert_eq!(reason("elsewhere"), None);
    }

    #[test]
    fn takes_a_refusal_for_final_and_not_an_outage() {
        for (code, last) in [
            (Code::Aborted, false),
            (Code::FailedPrecondition, true),
            (Code::InvalidArgument, true),
            (Code::ResourceExhausted, false),
            (Code::Unavailable, false),
        ] {
            assert_eq!(Outcome::Failed(Status::new(code, "").into()).is_final(), last, "{code:?}");
        }
    }
}
