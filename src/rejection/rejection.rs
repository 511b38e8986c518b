//! The rejections of calls, and the one table that maps them to reasons, status codes and settlements.

use std::time::Duration;

use http::HeaderValue;
use thiserror::Error;
use tonic::{Code, Status, metadata::MetadataMap};
use tonic_types::{ErrorDetails, StatusExt as _};

use super::{DOMAIN, Exceeded, InvalidKey, LimitKind, MalformedRequest, Mismatch, Party, Reason, TooCostly};
use crate::{
    grpc::{GRPC_ACCEPT_ENCODING, GRPC_RETRY_PUSHBACK},
    key::IdempotencyKey,
    settlement::{DeadLetter, Settlement},
    status::ResourceId,
    telemetry::ProcedureTelemetry,
};

/// A call that the layer rejects. Its text is the message of the status.
#[derive(Debug, Error)]
pub(crate) enum Rejection {
    #[error("the server cannot tell who makes the call; the server's log says why")]
    CallerInvalid,
    #[error("the call conflicted with another call and had no effect; retry with the same key")]
    Conflict,
    #[error("{}", .effect.message())]
    HandlerTimeout {
        effect: TimedOutEffect,
        /// The rest of the lease, which is not renewed; zero without one.
        lease_left: Duration,
    },
    #[error("the first call with this idempotency key is still running; retry with the same key")]
    InProgress { lease_left: Duration },
    #[error(
        "this idempotency key is older than the records that the server keeps, and the call was not run; check whether an earlier \
         attempt took effect before you use a new key"
    )]
    KeyExpired,
    #[error("{field}: {key}")]
    KeyFieldInvalid {
        /// The path of the field.
        field: String,
        key: InvalidKey,
    },
    #[error("this procedure requires an idempotency key; set the field {field}, and send the same key with each retry")]
    KeyFieldRequired {
        /// The path of the field.
        field: String,
    },
    #[error(transparent)]
    KeyInvalid(InvalidKey),
    #[error("this procedure requires an idempotency-key header; send a new UUID, and the same one with each retry")]
    KeyRequired,
    #[error("this idempotency key was used with another {}; use a new key for a new operation", .0.as_str())]
    KeyReused(Mismatch),
    #[error(
        "this procedure does not support idempotency keys: each retry would run again; send the call without the \
         idempotency-key header"
    )]
    KeyUnsupported,
    #[error("{}", .0.message())]
    Limit(Exceeded),
    #[error(
        "a transactional operation inside of a transactional handler has a transaction of its own: the store's pool needs two connections for \
         transactions, and there is no third one inside of these; run it after the handler, or make one of the two reserved"
    )]
    Nested,
    #[error("the layer could not commit the call's transaction; the server's log says why")]
    NotCommitted,
    #[error(
        "the first call with this idempotency key succeeded, but its response was not stored; read the created \
         resource instead"
    )]
    NotStored { resource: Option<ResourceId> },
    #[error(
        "a call with an idempotency key requires a scope, such as a tenant; authenticate for one, and retry with the same key"
    )]
    NoScope,
    #[error("a call with an idempotency key requires an authenticated user; authenticate, and retry with the same key")]
    NoUser,
    #[error(
        "the outcome of the first call with this idempotency key is unknown; check whether it took effect before you \
         use a new key"
    )]
    OutcomeUnknown,
    #[error("the store of the idempotency keys cannot carry out the call now; retry with the same key")]
    Overloaded,
    #[error("malformed request: {0}")]
    RequestMalformed(MalformedRequest),
    #[error("the request message did not arrive within {limit:?}, and the call was not run; retry with the same key")]
    RequestTimeout { limit: Duration },
    #[error("the request message {0}")]
    RequestTooCostly(TooCostly),
    #[error("the request message is larger than the limit of {limit} bytes for calls with an idempotency key")]
    RequestTooLarge { limit: usize },
    #[error("the server is shutting down; retry with the same key")]
    ShuttingDown,
    #[error("the idempotency store failed, and the call was not run; the server's log says why")]
    StoreFailed,
    #[error("the idempotency store is unavailable; retry with the same key")]
    StoreUnavailable,
}

/// The delay in `RetryInfo` after a conflict, which rarely happens twice.
const RETRY_CONFLICT: Duration = Duration::from_millis(100);

/// The delay in `RetryInfo` after a handler that took too long and holds no lease.
const RETRY_TIMED_OUT: Duration = Duration::from_secs(1);

/// The delay in `RetryInfo` while a limit is reached.
const RETRY_OVERLOADED: Duration = Duration::from_secs(1);

/// The delay in `RetryInfo` while the first call is running, and during a shutdown.
const RETRY_IN_PROGRESS: Duration = Duration::from_secs(1);

/// The delay in `RetryInfo` while the store is unavailable.
const RETRY_STORE: Duration = Duration::from_secs(5);

/// The settlement where the server or its set-up is at fault, and not the message.
const LATER: Settlement = Settlement::LATER;

/// The settlement of a message whose time is ahead of the server's.
const AHEAD: Settlement = Settlement::Redeliver { after: Duration::from_secs(60) };

/// The advice to a caller that has too many records.
const USER_FULL: &str = "wait until records have expired, which they do when their retention has passed; make fewer calls with keys; or ask \
                         for a higher limit (`Limits::records`)";

/// The advice on sending the same call again with the same key, to clients, and on its message to queues.
#[derive(Clone, Copy, Debug)]
enum Retry {
    /// It may succeed after this time.
    After(Duration),
    /// It will be rejected again, until the cause is removed. A queue may wait for that: a message is settled like this.
    Never(Settlement),
    /// Nothing: the policy of the client decides, as for an error of a handler.
    Unsaid,
}

impl Retry {
    /// The value of `grpc-retry-pushback-ms`, in milliseconds, rounded up; negative for never.
    fn pushback(self) -> Option<HeaderValue> {
        match self {
            Self::After(delay) => HeaderValue::try_from(delay.as_nanos().div_ceil(1_000_000).to_string()).ok(),
            Self::Never(_) => Some(HeaderValue::from_static("-1")),
            Self::Unsaid => None,
        }
    }
}

impl Rejection {
    /// The call does not wait any longer for the one that holds its key. When that one's lease ends is not known here, and does not
    /// matter: it may end at any moment.
    pub(crate) fn in_progress() -> Self {
        Self::InProgress { lease_left: Duration::MAX }
    }

    pub(crate) fn reason(&self) -> Reason {
        let (reason, ..) = self.row();
        reason
    }

    /// Returns what to do with a message whose delivery is rejected.
    pub(crate) fn settlement(&self) -> Settlement {
        match self.retry() {
            Retry::After(delay) => Settlement::after(delay),
            Retry::Never(settlement) => settlement,
            Retry::Unsaid => Settlement::LATER,
        }
    }

    fn retry(&self) -> Retry {
        let (.., retry) = self.row();
        retry
    }

    /// Returns a rejection for this reason. A call that is rejected because the first call is in progress may be sent again at once.
    #[cfg(feature = "testing")]
    pub(crate) fn of(reason: Reason) -> Self {
        use crate::grpc::{RequestLimits, WireError};

        let rejections = [
            Self::CallerInvalid,
            Self::Conflict,
            Self::HandlerTimeout { effect: TimedOutEffect::RolledBack, lease_left: Duration::ZERO },
            Self::InProgress { lease_left: Duration::ZERO },
            Self::KeyExpired,
            Self::KeyInvalid(InvalidKey::NotAUuid),
            Self::KeyRequired,
            Self::KeyReused(Mismatch::Request),
            Self::KeyUnsupported,
            Self::Limit(Exceeded { limit: LimitKind::Records, of: Party::Caller }),
            Self::NoScope,
            Self::NoUser,
            Self::NotCommitted,
            Self::NotStored { resource: None },
            Self::OutcomeUnknown,
            Self::Overloaded,
            Self::RequestMalformed(MalformedRequest::Framing(WireError::Truncated)),
            Self::RequestTimeout { limit: RequestLimits::default().time },
            Self::RequestTooLarge { limit: RequestLimits::default().bytes },
            Self::ShuttingDown,
            Self::StoreFailed,
            Self::StoreUnavailable,
        ];
        rejections.into_iter().find(|rejection| rejection.reason() == reason).expect("there is one for each reason")
    }

    /// Returns the row of the table: the reason, one of the [codes of the reason](Reason::codes), and the advice.
    fn row(&self) -> (Reason, Code, Retry) {
        use DeadLetter::{IdExpired, IdInvalid, IdReused, Malformed, OutcomeUnknown};
        use Retry::{After, Never, Unsaid};
        use Settlement::{Acknowledge, DeadLetter as Dead};

        match self {
            Self::CallerInvalid => (Reason::CallerInvalid, Code::Internal, Never(LATER)),
            Self::Conflict => (Reason::Conflict, Code::Aborted, After(RETRY_CONFLICT)),
            Self::HandlerTimeout { lease_left: Duration::ZERO, .. } => {
                (Reason::HandlerTimeout, Code::DeadlineExceeded, After(RETRY_TIMED_OUT))
            }
            Self::HandlerTimeout { lease_left, .. } => {
                (Reason::HandlerTimeout, Code::DeadlineExceeded, After(*lease_left))
            }
            Self::InProgress { lease_left } => {
                (Reason::InProgress, Code::Aborted, After(RETRY_IN_PROGRESS.min(*lease_left)))
            }
            Self::KeyExpired => (Reason::KeyExpired, Code::FailedPrecondition, Never(Dead(IdExpired))),
            Self::KeyFieldInvalid { key: InvalidKey::FromTheFuture, .. }
            | Self::KeyInvalid(InvalidKey::FromTheFuture) => (Reason::KeyInvalid, Code::InvalidArgument, Never(AHEAD)),
            Self::KeyFieldInvalid { .. } | Self::KeyInvalid(_) => {
                (Reason::KeyInvalid, Code::InvalidArgument, Never(Dead(IdInvalid)))
            }
            Self::KeyFieldRequired { .. } | Self::KeyRequired => {
                (Reason::KeyRequired, Code::InvalidArgument, Never(Dead(IdInvalid)))
            }
            Self::KeyReused(_) => (Reason::KeyReused, Code::InvalidArgument, Never(Dead(IdReused))),
            Self::KeyUnsupported => (Reason::KeyUnsupported, Code::InvalidArgument, Never(LATER)),
            Self::Limit(Exceeded { limit: LimitKind::Records, .. }) => {
                (Reason::TooManyRecords, Code::ResourceExhausted, Never(LATER))
            }
            Self::Limit(Exceeded { of: Party::Caller, .. }) => {
                (Reason::Overloaded, Code::ResourceExhausted, After(RETRY_OVERLOADED))
            }
            Self::Limit(Exceeded { of: Party::Server, .. }) | Self::Overloaded => {
                (Reason::Overloaded, Code::Unavailable, After(RETRY_OVERLOADED))
            }
            Self::Nested | Self::StoreFailed => (Reason::StoreFailed, Code::Internal, Never(LATER)),
            Self::NoScope => (Reason::NoScope, Code::Unauthenticated, Never(LATER)),
            Self::NoUser => (Reason::NoUser, Code::Unauthenticated, Never(LATER)),
            Self::NotCommitted => (Reason::NotCommitted, Code::Internal, Unsaid),
            Self::NotStored { .. } => (Reason::NotStored, Code::FailedPrecondition, Never(Acknowledge)),
            Self::OutcomeUnknown => (Reason::OutcomeUnknown, Code::FailedPrecondition, Never(Dead(OutcomeUnknown))),
            Self::RequestMalformed(error) => (Reason::RequestMalformed, error.code(), Never(Dead(Malformed))),
            Self::RequestTimeout { .. } => (Reason::RequestTimeout, Code::DeadlineExceeded, Unsaid),
            Self::RequestTooCostly(_) | Self::RequestTooLarge { .. } => {
                (Reason::RequestTooLarge, Code::ResourceExhausted, Never(Dead(Malformed)))
            }
            Self::ShuttingDown => (Reason::ShuttingDown, Code::Unavailable, After(RETRY_IN_PROGRESS)),
            Self::StoreUnavailable => (Reason::StoreUnavailable, Code::Unavailable, After(RETRY_STORE)),
        }
    }

    fn details(&self) -> ErrorDetails {
        let mut metadata = Vec::new();
        let mut details = ErrorDetails::new();
        if let Retry::After(delay) = self.retry() {
            details.set_retry_info(Some(delay));
        }
        match self {
            Self::HandlerTimeout { effect, .. } => metadata.push(("outcome".to_owned(), effect.as_str().to_owned())),
            Self::KeyFieldInvalid { field, key } => {
                details.add_bad_request_violation(field, self.to_string());
                if *key == InvalidKey::Mismatch {
                    metadata.push(("mismatch".to_owned(), "key_field".to_owned()));
                }
            }
            Self::KeyFieldRequired { field } => {
                details.add_bad_request_violation(field, self.to_string());
            }
            Self::KeyInvalid(_) | Self::KeyRequired | Self::KeyUnsupported => {
                details.add_bad_request_violation(IdempotencyKey::HEADER, self.to_string());
            }
            Self::KeyReused(mismatch) => metadata.push(("mismatch".to_owned(), mismatch.as_str().to_owned())),
            Self::Limit(Exceeded { limit: LimitKind::Records, .. }) => {
                details.add_quota_failure_violation("the records of the caller's calls", USER_FULL);
            }
            Self::NotStored { resource: Some(id) } => {
                metadata.push(("resource_id".to_owned(), id.to_string()));
            }
            _ => {}
        }
        if let Self::Limit(Exceeded { limit, of }) = self {
            metadata.push(("limit".to_owned(), limit.as_str().to_owned()));
            metadata.push(("of".to_owned(), of.as_str().to_owned()));
        }
        details.set_error_info(
            self.reason().as_str(),
            DOMAIN,
            metadata.into_iter().collect::<std::collections::HashMap<_, _>>(),
        );
        details
    }

    fn metadata(&self) -> MetadataMap {
        let mut headers = http::HeaderMap::new();
        if let Self::RequestMalformed(MalformedRequest::Compression { accepted }) = self {
            headers.insert(GRPC_ACCEPT_ENCODING, accepted.clone());
        }
        if let Some(pushback) = self.retry().pushback() {
            headers.insert(GRPC_RETRY_PUSHBACK, pushback);
        }
        MetadataMap::from_headers(headers)
    }
}

/// The effect of a handler that took too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimedOutEffect {
    /// None: its transaction is rolled back.
    RolledBack,
    /// It may still come.
    Unknown,
}

impl TimedOutEffect {
    /// The value of `outcome` in the metadata of the `ErrorInfo`.
    fn as_str(self) -> &'static str {
        match self {
            Self::RolledBack => "rolled_back",
            Self::Unknown => "unknown",
        }
    }

    /// The message for the client.
    fn message(self) -> &'static str {
        match self {
            Self::RolledBack => {
                "the call took longer than the server lets it, and had no effect; retry with the same key"
            }
            Self::Unknown => {
                "the call took longer than the server lets it, and may still take effect; retry with the same key, which stays reserved meanwhile"
            }
        }
    }
}

impl Exceeded {
    /// Counts the rejection of a call, and returns it.
    pub(crate) fn reject(self, telemetry: &ProcedureTelemetry) -> Rejection {
        let rejection = Rejection::Limit(self);
        telemetry.rejected(rejection.reason().as_str());
        self.count(telemetry);
        rejection
    }

    /// Counts the limit, beside the rejection because of it.
    pub(crate) fn count(self, telemetry: &ProcedureTelemetry) {
        telemetry.overloaded(self.limit.as_str(), self.of.as_str());
    }
}

impl From<Rejection> for Status {
    fn from(rejection: Rejection) -> Self {
        let (_, code, _) = rejection.row();
        let (message, details) = (rejection.to_string(), rejection.details());
        Status::with_error_details_and_metadata(code, message, details, rejection.metadata())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::grpc::WireError;

    /// Each rejection with its code and its reason.
    fn matrix() -> Vec<(Rejection, Code, &'static str)> {
        let field = || "client.request_id".to_owned();
        let in_field = |key| Rejection::KeyFieldInvalid { field: field(), key };
        let malformed = |error| Rejection::RequestMalformed(MalformedRequest::Framing(error));
        let beyond = |limit, of| Rejection::Limit(Exceeded { limit, of });
        let timed_out = |effect| Rejection::HandlerTimeout { effect, lease_left: Duration::ZERO };
        vec![
            (Rejection::CallerInvalid, Code::Internal, "IDEMPOTENCY_CALLER_INVALID"),
            (Rejection::Conflict, Code::Aborted, "IDEMPOTENCY_CONFLICT"),
            (timed_out(TimedOutEffect::RolledBack), Code::DeadlineExceeded, "IDEMPOTENCY_HANDLER_TIMEOUT"),
            (timed_out(TimedOutEffect::Unknown), Code::DeadlineExceeded, "IDEMPOTENCY_HANDLER_TIMEOUT"),
            (Rejection::InProgress { lease_left: Duration::MAX }, Code::Aborted, "IDEMPOTENCY_IN_PROGRESS"),
            (Rejection::KeyExpired, Code::FailedPrecondition, "IDEMPOTENCY_KEY_EXPIRED"),
            (in_field(InvalidKey::NotAUuid), Code::InvalidArgument, "IDEMPOTENCY_KEY_INVALID"),
            (in_field(InvalidKey::Mismatch), Code::InvalidArgument, "IDEMPOTENCY_KEY_INVALID"),
            (Rejection::KeyFieldRequired { field: field() }, Code::InvalidArgument, "IDEMPOTENCY_KEY_REQUIRED"),
            (Rejection::KeyInvalid(InvalidKey::Empty), Code::InvalidArgument, "IDEMPOTENCY_KEY_INVALID"),
            (Rejection::KeyRequired, Code::InvalidArgument, "IDEMPOTENCY_KEY_REQUIRED"),
            (Rejection::KeyReused(Mismatch::Procedure), Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"),
            (Rejection::KeyReused(Mismatch::Request), Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"),
            (Rejection::KeyUnsupported, Code::InvalidArgument, "IDEMPOTENCY_KEY_UNSUPPORTED"),
            (Rejection::NotCommitted, Code::Internal, "IDEMPOTENCY_NOT_COMMITTED"),
            (Rejection::NoScope, Code::Unauthenticated, "IDEMPOTENCY_NO_SCOPE"),
            (Rejection::NoUser, Code::Unauthenticated, "IDEMPOTENCY_NO_USER"),
            (Rejection::OutcomeUnknown, Code::FailedPrecondition, "IDEMPOTENCY_OUTCOME_UNKNOWN"),
            (Rejection::Overloaded, Code::Unavailable, "IDEMPOTENCY_OVERLOADED"),
            (malformed(WireError::Truncated), Code::Internal, "IDEMPOTENCY_REQUEST_MALFORMED"),
            (malformed(WireError::SecondMessage), Code::Unimplemented, "IDEMPOTENCY_REQUEST_MALFORMED"),
            (
                Rejection::RequestTimeout { limit: Duration::from_secs(1) },
                Code::DeadlineExceeded,
                "IDEMPOTENCY_REQUEST_TIMEOUT",
            ),
            (Rejection::RequestTooCostly(TooCostly::Ratio), Code::ResourceExhausted, "IDEMPOTENCY_REQUEST_TOO_LARGE"),
            (
                Rejection::RequestMalformed(MalformedRequest::Compression {
                    accepted: HeaderValue::from_static("gzip"),
                }),
                Code::Unimplemented,
                "IDEMPOTENCY_REQUEST_MALFORMED",
            ),
            (Rejection::RequestTooLarge { limit: 1 }, Code::ResourceExhausted, "IDEMPOTENCY_REQUEST_TOO_LARGE"),
            (
                Rejection::NotStored { resource: Some(ResourceId::from(7)) },
                Code::FailedPrecondition,
                "IDEMPOTENCY_RESPONSE_NOT_STORED",
            ),
            (Rejection::ShuttingDown, Code::Unavailable, "IDEMPOTENCY_SHUTTING_DOWN"),
            (Rejection::StoreFailed, Code::Internal, "IDEMPOTENCY_STORE_FAILED"),
            (Rejection::StoreUnavailable, Code::Unavailable, "IDEMPOTENCY_STORE_UNAVAILABLE"),
            (beyond(LimitKind::Records, Party::Caller), Code::ResourceExhausted, "IDEMPOTENCY_TOO_MANY_RECORDS"),
            (beyond(LimitKind::Transactions, Party::Server), Code::Unavailable, "IDEMPOTENCY_OVERLOADED"),
            (beyond(LimitKind::Transactions, Party::Caller), Code::ResourceExhausted, "IDEMPOTENCY_OVERLOADED"),
        ]
    }

    #[test]
    fn the_matrix_has_each_reason_with_each_of_its_codes() {
        let pair = |code: &Code, reason: &str| (reason.to_owned(), format!("{code:?}"));
        let found: BTreeSet<_> = matrix().iter().map(|(_, code, reason)| pair(code, reason)).collect();
        let pairs = |reason: &Reason| reason.codes().iter().map(|code| pair(code, reason.as_str())).collect::<Vec<_>>();
        let all: BTreeSet<_> = Reason::ALL.iter().flat_map(pairs).collect();
        let apart: Vec<_> = found.symmetric_difference(&all).collect();
        assert!(apart.is_empty(), "on one side only: {apart:?}");
    }

    /// The tables of docs/keys.md: reasons, codes, and the delays in seconds.
    #[test]
    fn the_page_has_each_row_of_the_matrix() {
        let section = include_str!("../../docs/keys.md").split("\n## ").find(|section| section.starts_with("Errors"));
        let rows = section.expect("the section").lines().filter(|line| line.starts_with("| `IDEMPOTENCY_"));
        let documented = rows.map(|row| {
            let cells: Vec<_> = row.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            let [_, reason, code, _, last, _] = cells[..] else { panic!("{row}") };
            let delay = last.strip_suffix(" s").map(|delay| delay.trim_start_matches("at most ").to_owned());
            (reason.to_owned(), code.replace('_', "").to_lowercase(), delay)
        });
        let judged = matrix().into_iter().map(|(rejection, code, reason)| {
            let delay = Status::from(rejection).get_details_retry_info().and_then(|info| info.retry_delay);
            let delay = delay.map(|delay| delay.as_secs_f64().to_string());
            (reason.to_owned(), format!("{code:?}").to_lowercase(), delay)
        });
        let (documented, judged): (BTreeSet<_>, BTreeSet<_>) = (documented.collect(), judged.collect());
        let apart: Vec<_> = documented.symmetric_difference(&judged).collect();
        assert!(apart.is_empty(), "on one side only: {apart:?}");
    }

    #[test]
    fn full_matrix() {
        let resource = ResourceId::from(7);
        for (rejection, code, reason) in matrix() {
            let case = format!("{rejection:?}");
            let bad_request = match &rejection {
                Rejection::KeyInvalid(_) | Rejection::KeyRequired | Rejection::KeyUnsupported => {
                    Some("idempotency-key")
                }
                Rejection::KeyFieldInvalid { .. } | Rejection::KeyFieldRequired { .. } => Some("client.request_id"),
                _ => None,
            };
            let retry = matches!(
                rejection,
                Rejection::Conflict
                    | Rejection::HandlerTimeout { .. }
                    | Rejection::InProgress { .. }
                    | Rejection::Limit(Exceeded { limit: LimitKind::Transactions, .. })
                    | Rejection::Overloaded
                    | Rejection::ShuttingDown
                    | Rejection::StoreUnavailable
            );
            let unsaid = matches!(rejection, Rejection::NotCommitted | Rejection::RequestTimeout { .. });
            let metadata: Vec<_> = match &rejection {
                Rejection::HandlerTimeout { effect: TimedOutEffect::RolledBack, .. } => {
                    vec![("outcome", "rolled_back".to_owned())]
                }
                Rejection::HandlerTimeout { effect: TimedOutEffect::Unknown, .. } => {
                    vec![("outcome", "unknown".to_owned())]
                }
                Rejection::KeyFieldInvalid { key: InvalidKey::Mismatch, .. } => {
                    vec![("mismatch", "key_field".to_owned())]
                }
                Rejection::KeyReused(Mismatch::Procedure) => vec![("mismatch", "procedure".to_owned())],
                Rejection::KeyReused(Mismatch::Request) => vec![("mismatch", "request".to_owned())],
                Rejection::NotStored { .. } => vec![("resource_id", resource.to_string())],
                Rejection::Limit(Exceeded { limit, of }) => {
                    vec![("limit", limit.as_str().to_owned()), ("of", of.as_str().to_owned())]
                }
                _ => vec![],
            };

            let status = Status::from(rejection);

            assert_eq!(status.code(), code, "{case}");
            assert!(!status.message().is_empty(), "{case}");
            assert_eq!(Reason::of(&status).map(Reason::as_str), Some(reason), "{case}");
            let details = status.get_error_details();
            let info = details.error_info().expect("an ErrorInfo");
            assert_eq!(info.domain, "tonic-idempotency", "{case}");
            assert_eq!(info.metadata.len(), metadata.len(), "{case}");
            for (name, value) in metadata {
                assert_eq!(info.metadata.get(name), Some(&value), "{case}");
            }
            let delay = details.retry_info().and_then(|info| info.retry_delay);
            assert_eq!(delay.is_some(), retry, "{case}");
            let pushback = status.metadata().get("grpc-retry-pushback-ms").map(|value| value.to_str().expect("text"));
            let expected = match delay {
                Some(delay) => Some(delay.as_millis().to_string()),
                None => (!unsaid).then(|| "-1".to_owned()),
            };
            assert_eq!(pushback, expected.as_deref(), "{case}");
            let violations: Vec<_> = details.bad_request().iter().flat_map(|bad| &bad.field_violations).collect();
            let fields: Vec<_> = violations.iter().map(|violation| violation.field.as_str()).collect();
            assert_eq!(fields, bad_request.as_slice(), "{case}");
        }
    }

    #[test]
    fn a_pushback_is_not_shorter_than_the_delay() {
        for (delay, pushback) in [(0, "0"), (1, "1"), (1_000_000, "1"), (1_000_001, "2"), (5_000_000_000, "5000")] {
            assert_eq!(Retry::After(Duration::from_nanos(delay)).pushback().expect("a value"), pushback);
        }
    }

    #[test]
    fn does_not_read_a_reason_from_the_status_of_another_domain() {
        let details = ErrorDetails::with_error_info("IDEMPOTENCY_IN_PROGRESS", "elsewhere", []);
        assert_eq!(Reason::of(&Status::with_error_details(Code::Aborted, "", details)), None);
        assert_eq!(Reason::of(&Status::aborted("")), None);
    }
}
