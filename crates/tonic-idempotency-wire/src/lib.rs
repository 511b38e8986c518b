//! The wire contract of `tonic-idempotency`: the headers, reasons and protos that its clients and servers share.
//!
//! | | is |
//! |---|---|
//! | [`headers`] | the names of the headers |
//! | [`ErrorOutcome`] | the value of the header `Idempotency-Outcome` |
//! | [`IdempotencyStatus`] | the value of the header `Idempotency-Status` |
//! | [`Reason`] | the reason for which a call was refused |
//! | [`proto`] | the option that opts a procedure in |
//! | [`Rare`] | log lines that are written at most once a minute |
//!
//! ```
//! use tonic_idempotency_wire::Reason;
//!
//! // For a client of your own: the reason of a refusal is in the details of the error.
//! let refused = tonic::Status::aborted("the first call is running");
//! assert_eq!(Reason::of(&refused), None); // not by a layer of tonic-idempotency
//! ```
//!
//! `tonic-idempotency`, for servers, and `tonic-idempotency-client` reexport what their users need.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod error_outcome;
mod grpc_timeout;
pub mod headers;
mod limits;
pub mod proto;
mod rare;
mod reason;
#[cfg(feature = "seal")]
#[doc(hidden)]
pub mod seal;
mod status;
mod told;

pub use self::{
    error_outcome::ErrorOutcome,
    rare::Rare,
    reason::{DOMAIN, Reason, ReasonClass, UnknownReason},
    status::IdempotencyStatus,
};

// For the crates of this repository, as `debug_tells!`, and not under semver for others. All is for `tonic-idempotency` and the client; the
// macro is also for the stores on Redis, sqlx and SeaORM, which have it from `tonic_idempotency::store`.
#[doc(hidden)]
pub use self::{
    grpc_timeout::grpc_timeout,
    limits::{MAX_MESSAGE_BYTES, WAIT_OPERATION_TIMEOUT},
    told::{meant, nearest, tell, texts},
};
