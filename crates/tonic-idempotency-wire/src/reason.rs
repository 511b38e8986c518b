//! The reasons for which the layer refuses calls, in one table: their names, their status codes, and their classes for clients.
//!
//! A new reason is a row of the table below. From the row follow the variant of [`Reason`], its row in the docs, its place in [`Reason::ALL`], its
//! name, the codes that its status may have, and the verdict of a client.

use std::{fmt, str::FromStr};

use thiserror::Error;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// The `google.rpc.ErrorInfo` domain of every rejection.
pub const DOMAIN: &str = "tonic-idempotency";

/// The name of a code in gRPC's specification.
macro_rules! specified {
    (Aborted) => {
        "ABORTED"
    };
    (DeadlineExceeded) => {
        "DEADLINE_EXCEEDED"
    };
    (FailedPrecondition) => {
        "FAILED_PRECONDITION"
    };
    (Internal) => {
        "INTERNAL"
    };
    (InvalidArgument) => {
        "INVALID_ARGUMENT"
    };
    (ResourceExhausted) => {
        "RESOURCE_EXHAUSTED"
    };
    (Unauthenticated) => {
        "UNAUTHENTICATED"
    };
    (Unavailable) => {
        "UNAVAILABLE"
    };
    (Unimplemented) => {
        "UNIMPLEMENTED"
    };
}

/// Each row has a line of docs for each of its codes: the situation, and after a `|` the parts of the status beside the reason.
macro_rules! reasons {
    ($(
        #[doc = $situation:literal] $(#[doc = $other_situation:literal])*
        $reason:ident = $name:literal, [$code:ident $(, $other_code:ident)*], $class:ident;
    )*) => {
        /// The reason for which the layer refused a call: the `reason` of the `google.rpc.ErrorInfo` in the status.
        ///
        /// | reason | code | situation | also |
        /// |---|---|---|---|
        $(
            #[doc = concat!("| `", $name, "` | `", specified!($code), "` |", $situation, " |")]
            $(#[doc = concat!("| | `", specified!($other_code), "` |", $other_situation, " |")])*
        )*
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
        ///                 | Reason::HandlerTimeout
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
            $(
                #[doc = concat!("`", $name, "`")]
                $reason,
            )*
        }

        impl Reason {
            /// All reasons.
            #[doc(hidden)]
            pub const ALL: &[Self] = &[$(Self::$reason),*];

            /// Returns the reason as it is in `google.rpc.ErrorInfo`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$reason => $name,)*
                }
            }

            /// Returns the codes that a status with the reason may have.
            #[doc(hidden)]
            pub fn codes(self) -> &'static [Code] {
                match self {
                    $(Self::$reason => &[Code::$code $(, Code::$other_code)*],)*
                }
            }

            /// Returns the meaning of the reason for a client.
            #[doc(hidden)]
            pub fn class(self) -> ReasonClass {
                match self {
                    $(Self::$reason => ReasonClass::$class,)*
                }
            }
        }
    };
}

reasons! {
    /// the application's caller resolver failed, or gave an id that is too long; or a session setting is invalid
    CallerInvalid = "IDEMPOTENCY_CALLER_INVALID", [Internal], NotLookedAt;
    /// the call conflicted with another call and had no effect | `RetryInfo`
    Conflict = "IDEMPOTENCY_CONFLICT", [Aborted], Again;
    /// the handler took longer than `handler_timeout` | `RetryInfo`; metadata `outcome` = `rolled_back`: it had no effect; or `unknown`: it may still take effect
    HandlerTimeout = "IDEMPOTENCY_HANDLER_TIMEOUT", [DeadlineExceeded], Again;
    /// the first call is still running | `RetryInfo`
    InProgress = "IDEMPOTENCY_IN_PROGRESS", [Aborted], Running;
    /// the key is a UUID of version 7 older than the retention, it has no record, and the policy is to refuse
    KeyExpired = "IDEMPOTENCY_KEY_EXPIRED", [FailedPrecondition], NotLookedAt;
    /// the key is malformed, or several keys were sent; or its time is ahead, and expired keys are refused | `BadRequest` naming the header, or the field; metadata `mismatch` = `key_field` if the keys in both differ
    KeyInvalid = "IDEMPOTENCY_KEY_INVALID", [InvalidArgument], NotLookedAt;
    /// no key was sent, and the procedure requires one | `BadRequest` naming the header, or the field
    KeyRequired = "IDEMPOTENCY_KEY_REQUIRED", [InvalidArgument], NotLookedAt;
    /// the key was used before with another procedure or request | metadata `mismatch` = `procedure` or `request`
    KeyReused = "IDEMPOTENCY_KEY_REUSED", [InvalidArgument], Final;
    /// a key was sent to a procedure that takes none, and the policy is to refuse | `BadRequest` naming the header
    KeyUnsupported = "IDEMPOTENCY_KEY_UNSUPPORTED", [InvalidArgument], NotLookedAt;
    /// the database refused to commit the call's transaction, which had no effect
    NotCommitted = "IDEMPOTENCY_NOT_COMMITTED", [Internal], FreeKey;
    /// the caller is in no scope, such as a tenant, and the policy is to refuse
    NoScope = "IDEMPOTENCY_NO_SCOPE", [Unauthenticated], NotLookedAt;
    /// no user is authenticated, and the policy is to refuse
    NoUser = "IDEMPOTENCY_NO_USER", [Unauthenticated], NotLookedAt;
    /// the outcome of the first call is unknown, and the policy is to refuse, or its reconciler cannot tell
    OutcomeUnknown = "IDEMPOTENCY_OUTCOME_UNKNOWN", [FailedPrecondition], Unknown;
    /// a limit of the server is reached, or its store cannot carry out the call now | `RetryInfo`; `limit` and `of`
    /// a limit of the caller's own is reached | `RetryInfo`; `limit` and `of`
    Overloaded = "IDEMPOTENCY_OVERLOADED", [Unavailable, ResourceExhausted], Again;
    /// the request is not a gRPC message of its type: it is truncated, its compression flag is invalid, or it cannot be decompressed or decoded
    /// the request has no message or more than one, or its compression is not accepted | for the latter, the accepted encodings in `grpc-accept-encoding`
    RequestMalformed = "IDEMPOTENCY_REQUEST_MALFORMED", [Internal, Unimplemented], NotLookedAt;
    /// the request message did not arrive in time, and the call was not run
    RequestTimeout = "IDEMPOTENCY_REQUEST_TIMEOUT", [DeadlineExceeded], Again;
    /// the request message is larger than the layer's limit; or more than 128 times as large as it is compressed; or in an order made to be costly
    RequestTooLarge = "IDEMPOTENCY_REQUEST_TOO_LARGE", [ResourceExhausted], NotLookedAt;
    /// the first call succeeded; its response was too large, evicted or unreadable | metadata `resource_id`, if known
    NotStored = "IDEMPOTENCY_RESPONSE_NOT_STORED", [FailedPrecondition], Final;
    /// the server is shutting down | `RetryInfo`
    ShuttingDown = "IDEMPOTENCY_SHUTTING_DOWN", [Unavailable], Again;
    /// the store refused, or returned invalid data: it is not set up right, or corrupt; the handler did not run
    StoreFailed = "IDEMPOTENCY_STORE_FAILED", [Internal], NotLookedAt;
    /// the store is unavailable, and the policy is to refuse or the procedure is transactional; or it is not known whether a transaction was committed | `RetryInfo`
    StoreUnavailable = "IDEMPOTENCY_STORE_UNAVAILABLE", [Unavailable], Again;
    /// the store keeps as many records of the caller, or as many bytes, as it may; the handler did not run. A retry of a recorded call is answered | `QuotaFailure`, which says what to do
    TooManyRecords = "IDEMPOTENCY_TOO_MANY_RECORDS", [ResourceExhausted], NotLookedAt;
}

impl Reason {
    /// Returns the reason if the status is a rejection by this layer; `None` for any other status.
    pub fn of(status: &Status) -> Option<Self> {
        let info = status.get_details_error_info()?;
        if info.domain != DOMAIN {
            return None;
        }
        info.reason.parse().ok()
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
        Self::ALL.iter().copied().find(|reason| reason.as_str() == text).ok_or(UnknownReason(()))
    }
}

/// The meaning of a reason for the operation of a client.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a client has to know whether its operation has ended")]
pub enum ReasonClass {
    /// The call was not carried out, or that is not known: the same call may succeed later.
    Again,
    /// The call failed without an effect, and has left the key to the next attempt that arrives.
    FreeKey,
    /// It is the answer of the operation, whatever other attempts there are.
    Final,
    /// The key was not looked at, or is not remembered any more: nothing is known of other attempts. Without any, it is the operation's answer.
    NotLookedAt,
    /// A call with the key is running, and has the answer when it has ended.
    Running,
    /// The outcome of the operation is unknown, and an immediate retry does not help.
    Unknown,
}

/// A text that is not a [`Reason`].
#[derive(Debug, Error)]
#[error("unknown rejection reason")]
pub struct UnknownReason(());
