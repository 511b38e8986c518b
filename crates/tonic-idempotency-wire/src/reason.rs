//! The reasons for which the layer refuses calls, and their status codes.

use std::{fmt, str::FromStr};

use thiserror::Error;
use tonic::Status;
use tonic_types::StatusExt as _;

/// The `google.rpc.ErrorInfo` domain of every rejection.
pub const DOMAIN: &str = "tonic-idempotency";

/// The reason for which the layer refused a call: the `reason` of the `google.rpc.ErrorInfo` in the status.
///
/// | reason | code | situation | also |
/// |---|---|---|---|
/// | `IDEMPOTENCY_CALLER_INVALID` | `INTERNAL` | the application's caller resolver failed, or gave an id that is too long; or a session setting is invalid | |
/// | `IDEMPOTENCY_CONFLICT` | `ABORTED` | the call conflicted with another call and had no effect | `RetryInfo` |
/// | `IDEMPOTENCY_IN_PROGRESS` | `ABORTED` | the first call is still running | `RetryInfo` |
/// | `IDEMPOTENCY_KEY_EXPIRED` | `FAILED_PRECONDITION` | the key is a UUID of version 7 older than the retention, it has no record, and the policy is to refuse | |
/// | `IDEMPOTENCY_KEY_INVALID` | `INVALID_ARGUMENT` | the key is malformed, or several keys were sent; or its time is ahead, and expired keys are refused | `BadRequest` naming the header, or the field; metadata `mismatch` = `key_field` if the keys in both differ |
/// | `IDEMPOTENCY_KEY_REQUIRED` | `INVALID_ARGUMENT` | no key was sent, and the procedure requires one | `BadRequest` naming the header, or the field |
/// | `IDEMPOTENCY_KEY_REUSED` | `INVALID_ARGUMENT` | the key was used before with another procedure or request | metadata `mismatch` = `procedure` or `request` |
/// | `IDEMPOTENCY_KEY_UNSUPPORTED` | `INVALID_ARGUMENT` | a key was sent to a procedure that takes none, and the policy is to refuse | `BadRequest` naming the header |
/// | `IDEMPOTENCY_NOT_COMMITTED` | `INTERNAL` | the database refused to commit the call's transaction, which had no effect | |
/// | `IDEMPOTENCY_NO_SCOPE` | `UNAUTHENTICATED` | the caller is in no scope, such as a tenant, and the policy is to refuse | |
/// | `IDEMPOTENCY_NO_USER` | `UNAUTHENTICATED` | no user is authenticated, and the policy is to refuse | |
/// | `IDEMPOTENCY_OUTCOME_UNKNOWN` | `FAILED_PRECONDITION` | the outcome of the first call is unknown, and the policy is to refuse, or its reconciler cannot tell | |
/// | `IDEMPOTENCY_OVERLOADED` | `UNAVAILABLE` | a limit of the server is reached, or its store cannot carry out the call now | `RetryInfo`; `limit` and `of` |
/// | | `RESOURCE_EXHAUSTED` | a limit of the caller's own is reached | `RetryInfo`; `limit` and `of` |
/// | `IDEMPOTENCY_REQUEST_MALFORMED` | `INTERNAL` | the request is not a gRPC message of its type: it is truncated, its compression flag is invalid, or it cannot be decompressed or decoded | |
/// | | `UNIMPLEMENTED` | the request has no message or more than one, or its compression is not accepted | for the latter, the accepted encodings in `grpc-accept-encoding` |
/// | `IDEMPOTENCY_REQUEST_TIMEOUT` | `DEADLINE_EXCEEDED` | the request message did not arrive in time, and the call was not run | |
/// | `IDEMPOTENCY_REQUEST_TOO_LARGE` | `RESOURCE_EXHAUSTED` | the request message is larger than the layer's limit; or more than 128 times as large as it is compressed; or in an order made to be costly | |
/// | `IDEMPOTENCY_RESPONSE_NOT_STORED` | `FAILED_PRECONDITION` | the first response was too large to store, or could not be decoded | metadata `resource_id`, if known |
/// | `IDEMPOTENCY_SHUTTING_DOWN` | `UNAVAILABLE` | the server is shutting down | `RetryInfo` |
/// | `IDEMPOTENCY_STORE_FAILED` | `INTERNAL` | the store refused, or returned invalid data: it is not set up right, or corrupt; the handler did not run | |
/// | `IDEMPOTENCY_STORE_UNAVAILABLE` | `UNAVAILABLE` | the store is unavailable, and the policy is to refuse or the procedure is transactional; or it is not known whether a transaction was committed | `RetryInfo` |
/// | `IDEMPOTENCY_TOO_MANY_RECORDS` | `RESOURCE_EXHAUSTED` | the store keeps as many records of the caller, or as many bytes, as it may; the handler did not run. A retry of a recorded call is answered | `QuotaFailure`, which says what to do |
///
/// A status with `RetryInfo` has the same delay in `grpc-retry-pushback-ms`, which gRPC's own retry policies obey. All others have `-1`
/// there, because the same call would be refused again; except `IDEMPOTENCY_NOT_COMMITTED` and `IDEMPOTENCY_REQUEST_TIMEOUT`, about
/// which the policy of the client decides.
///
/// A client reads the reason from the status:
///
/// ```
/// use tonic_idempotency_wire::Reason;
///
/// fn retry_with_the_same_key(status: &tonic::Status) -> bool {
///     matches!(
///         Reason::of(status),
///         Some(
///             Reason::Conflict
///                 | Reason::InProgress
///                 | Reason::Overloaded
///                 | Reason::RequestTimeout
///                 | Reason::ShuttingDown
///                 | Reason::StoreUnavailable
///         )
///     )
/// }
/// # assert!(!retry_with_the_same_key(&tonic::Status::internal("")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// `IDEMPOTENCY_CALLER_INVALID`
    CallerInvalid,
    /// `IDEMPOTENCY_CONFLICT`
    Conflict,
    /// `IDEMPOTENCY_IN_PROGRESS`
    InProgress,
    /// `IDEMPOTENCY_KEY_EXPIRED`
    KeyExpired,
    /// `IDEMPOTENCY_KEY_INVALID`
    KeyInvalid,
    /// `IDEMPOTENCY_KEY_REQUIRED`
    KeyRequired,
    /// `IDEMPOTENCY_KEY_REUSED`
    KeyReused,
    /// `IDEMPOTENCY_KEY_UNSUPPORTED`
    KeyUnsupported,
    /// `IDEMPOTENCY_NOT_COMMITTED`
    NotCommitted,
    /// `IDEMPOTENCY_RESPONSE_NOT_STORED`
    NotStored,
    /// `IDEMPOTENCY_NO_SCOPE`
    NoScope,
    /// `IDEMPOTENCY_NO_USER`
    NoUser,
    /// `IDEMPOTENCY_OUTCOME_UNKNOWN`
    OutcomeUnknown,
    /// `IDEMPOTENCY_OVERLOADED`
    Overloaded,
    /// `IDEMPOTENCY_REQUEST_MALFORMED`
    RequestMalformed,
    /// `IDEMPOTENCY_REQUEST_TIMEOUT`
    RequestTimeout,
    /// `IDEMPOTENCY_REQUEST_TOO_LARGE`
    RequestTooLarge,
    /// `IDEMPOTENCY_SHUTTING_DOWN`
    ShuttingDown,
    /// `IDEMPOTENCY_STORE_FAILED`
    StoreFailed,
    /// `IDEMPOTENCY_STORE_UNAVAILABLE`
    StoreUnavailable,
    /// `IDEMPOTENCY_TOO_MANY_RECORDS`
    TooManyRecords,
}

impl Reason {
    const ALL: [Self; 21] = [
        Self::CallerInvalid,
        Self::Conflict,
        Self::InProgress,
        Self::KeyExpired,
        Self::KeyInvalid,
        Self::KeyRequired,
        Self::KeyReused,
        Self::KeyUnsupported,
        Self::NotCommitted,
        Self::NotStored,
        Self::NoScope,
        Self::NoUser,
        Self::OutcomeUnknown,
        Self::Overloaded,
        Self::RequestMalformed,
        Self::RequestTimeout,
        Self::RequestTooLarge,
        Self::ShuttingDown,
        Self::StoreFailed,
        Self::StoreUnavailable,
        Self::TooManyRecords,
    ];

    /// Returns the reason if the status is a rejection by this layer; `None` for any other status.
    pub fn of(status: &Status) -> Option<Self> {
        let info = status.get_details_error_info()?;
        if info.domain != DOMAIN {
            return None;
        }
        info.reason.parse().ok()
    }

    /// Returns the reason as it is in `google.rpc.ErrorInfo`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CallerInvalid => "IDEMPOTENCY_CALLER_INVALID",
            Self::Conflict => "IDEMPOTENCY_CONFLICT",
            Self::InProgress => "IDEMPOTENCY_IN_PROGRESS",
            Self::KeyExpired => "IDEMPOTENCY_KEY_EXPIRED",
            Self::KeyInvalid => "IDEMPOTENCY_KEY_INVALID",
            Self::KeyRequired => "IDEMPOTENCY_KEY_REQUIRED",
            Self::KeyReused => "IDEMPOTENCY_KEY_REUSED",
            Self::KeyUnsupported => "IDEMPOTENCY_KEY_UNSUPPORTED",
            Self::NotCommitted => "IDEMPOTENCY_NOT_COMMITTED",
            Self::NotStored => "IDEMPOTENCY_RESPONSE_NOT_STORED",
            Self::NoScope => "IDEMPOTENCY_NO_SCOPE",
            Self::NoUser => "IDEMPOTENCY_NO_USER",
            Self::OutcomeUnknown => "IDEMPOTENCY_OUTCOME_UNKNOWN",
            Self::Overloaded => "IDEMPOTENCY_OVERLOADED",
            Self::RequestMalformed => "IDEMPOTENCY_REQUEST_MALFORMED",
            Self::RequestTimeout => "IDEMPOTENCY_REQUEST_TIMEOUT",
            Self::RequestTooLarge => "IDEMPOTENCY_REQUEST_TOO_LARGE",
            Self::ShuttingDown => "IDEMPOTENCY_SHUTTING_DOWN",
            Self::StoreFailed => "IDEMPOTENCY_STORE_FAILED",
            Self::StoreUnavailable => "IDEMPOTENCY_STORE_UNAVAILABLE",
            Self::TooManyRecords => "IDEMPOTENCY_TOO_MANY_RECORDS",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = UnknownReason;

    fn from_str(text: &str) -> Result<Self, UnknownReason> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or(UnknownReason(()))
    }
}

/// A text that is not a [`Reason`].
#[derive(Debug, Error)]
#[error("unknown rejection reason")]
pub struct UnknownReason(());
