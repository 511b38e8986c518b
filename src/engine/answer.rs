//! The answers of a front of the engine, as far as the engine has to know them.

use std::{borrow::Cow, error::Error, time::Duration};

use bytes::Bytes;
use tonic::Status;
use tonic_idempotency_wire::ErrorOutcome;

use crate::{
    engine::call::ProtectedCall,
    grpc::MetadataFilter,
    rejection::{Exceeded, Rejection},
    status::IdempotencyStatus,
    store::StoredResponse,
};

/// An answer to a caller, in the form of the front that the call came through.
pub(crate) trait Answer: Sized + Send + 'static {
    /// Rejects a call.
    fn rejected(rejection: Rejection) -> Self;

    /// Answers a call without an outcome of its handler.
    fn failed(failure: Failure) -> Self;

    /// Restores an answer from its record.
    fn replayed(
        settings: &ResponseSettings,
        response: &StoredResponse,
        status: IdempotencyStatus,
    ) -> Result<Replayed<Self>, NotReplayed>;

    /// Returns what is to be recorded of the handler's answer.
    fn ending(&self, settings: &ResponseSettings, call: &ProtectedCall, wanted: Wanted) -> Ending;

    /// Returns whether it is a response, and not an error.
    fn is_success(&self) -> bool;

    /// Returns how the handler ended, for its span: `Ok`, or its error.
    fn name(&self) -> Cow<'static, str>;

    /// Returns the error that the handler has answered with, with its sources.
    fn error(&self) -> Option<&(dyn Error + 'static)>;

    /// Adds what the caller is told of the record.
    fn with(self, notes: Notes) -> Self;

    /// Rejects a call, and counts it.
    fn reject(call: &ProtectedCall, rejection: Rejection) -> Self {
        call.procedure.telemetry().rejected(rejection.reason().as_str());
        Self::rejected(rejection)
    }

    /// Rejects a call that would exceed a limit.
    fn exceeds(call: &ProtectedCall, limit: Exceeded) -> Self {
        Self::rejected(limit.reject(call.procedure.telemetry()))
    }
}

/// The parts of an answer that are wanted, beside what the policies say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The message is read whatever its size, since it is rebuilt later and not stored.
    pub(crate) is_rebuilt: bool,
    /// An error is kept whatever it is: its handler says so.
    pub(crate) is_final: bool,
}

/// The settings of responses that are stored.
pub(crate) struct ResponseSettings {
    /// Selects the metadata that is stored and replayed.
    pub(crate) metadata_filter: MetadataFilter,
    /// The largest response that is stored, in bytes.
    pub(crate) max_bytes: usize,
}

/// The reason why there is no answer of a handler.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The client went away, and the call was rolled back.
    Disconnected,
    /// The handler panicked.
    Panicked,
    /// A hook of the application keeps the replay from the caller.
    Withheld {
        status: Status,
        /// Whether the first call succeeded.
        is_success: bool,
    },
}

/// An answer restored from a record.
#[derive(Debug)]
pub(crate) struct Replayed<A> {
    pub(crate) answer: A,
    /// Whether the stored metadata could not be decoded, and is missing.
    pub(crate) metadata_lost: bool,
    /// The `traceparent` of the first call; empty for none.
    pub(crate) traceparent: String,
}

/// The reason why there is no answer in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotReplayed {
    /// The first call failed, and its error cannot be decoded.
    Corrupt,
    /// The first call succeeded, and nothing that could be given to a caller was stored.
    NotStored,
}

/// The way in which a handler ended, as far as it is recorded.
#[derive(Debug)]
pub(crate) enum Ending {
    /// With a response: its message, if that could be read, and its metadata, encoded.
    Success { message: Option<Bytes>, metadata: Option<Bytes> },
    /// With an error that ends the operation, encoded with all that is stored of it.
    FinalError(Bytes),
    /// With an error after which the operation may be tried again.
    Failure,
}

/// The parts of a record that its caller is told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Notes {
    /// The status of the work behind the created resource.
    pub(crate) status: Option<IdempotencyStatus>,
    /// Of an error: whether it is kept, or its key freed.
    pub(crate) outcome: Option<ErrorOutcome>,
    /// The remaining lifetime of the record.
    pub(crate) expires: Option<Duration>,
}
