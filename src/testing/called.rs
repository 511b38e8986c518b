//! A call of a harness that has ended, and assertions on how it ended.

use std::fmt;

use tonic::{Code, Response, Status, metadata::MetadataMap};

use super::probe::HarnessCall;
use crate::{IdempotencyLayer, grpc::headers, policy::Procedure, rejection::Reason, status::IdempotencyStatus};

/// A call of a [`Harness`](super::Harness) that has ended, with assertions. An assertion that fails panics at the line of the
/// test, and says what happened instead.
///
/// ```no_run
/// # use std::time::Duration;
/// # use tonic::Code;
/// # use tonic_idempotency::{rejection::Reason, status::IdempotencyStatus, testing::Called};
/// # struct Order { id: String }
/// # fn example([first, retry, other, failed]: [Called<Order>; 4]) {
/// let order = first.executed_once().with_status(IdempotencyStatus::Processing).into_message();
/// assert_eq!(retry.replayed().into_message().id, order.id);
/// other.refused_with(Reason::KeyReused);
/// failed.failed_with(Code::NotFound);
/// # }
/// ```
#[derive(Debug)]
pub struct Called<R> {
    result: Result<Response<R>, Status>,
    has_key: bool,
    runs: usize,
    cause: Option<String>,
    unanswered: bool,
    /// The procedures that the layer protects.
    procedures: Vec<String>,
}

impl<R> Called<R> {
    pub(super) fn new(
        result: Result<Response<R>, Status>,
        has_key: bool,
        attempt: &HarnessCall,
        layer: &IdempotencyLayer,
    ) -> Self {
        let procedures = layer.procedures().map(Procedure::path).map(str::to_owned).collect();
        let (runs, cause, unanswered) = (attempt.runs(), attempt.cause(), attempt.is_unanswered());
        Self { result, has_key, runs, cause, unanswered, procedures }
    }

    /// Asserts that the call ran its handler once, under the layer's protection if it has a key, and succeeded.
    ///
    /// # Panics
    ///
    /// It did not, or the response is a replay, or the layer does not protect the procedure.
    #[track_caller]
    pub fn executed_once(self) -> Self {
        let executed = self.is_executed_once();
        self.check(executed, "the handler to run once and succeed")
    }

    /// Asserts that the call, which has a key, ran its handler once and succeeded, and that the layer did not protect it: because the
    /// store is unavailable and the layer degrades gracefully, for example.
    ///
    /// # Panics
    ///
    /// It did not, or the layer protected it.
    #[track_caller]
    pub fn executed_unprotected(self) -> Self {
        let executed = self.runs == 1 && self.is_unprotected();
        self.check(executed, "the handler to run once and succeed, without the layer's protection")
    }

    /// Asserts that the call got the outcome of an earlier call with its key, a response or a final error, and that its
    /// handler did not run.
    ///
    /// # Panics
    ///
    /// It did not.
    #[track_caller]
    pub fn replayed(self) -> Self {
        let replayed = self.is_replayed();
        self.check(replayed, "a replay")
    }

    /// Asserts that the layer refused the call for this reason.
    ///
    /// The handler may have run, if its effect was rolled back: after a conflict, for example.
    ///
    /// # Panics
    ///
    /// It did not.
    #[track_caller]
    pub fn refused_with(self, reason: Reason) -> Self {
        let is_rejected = self.is_rejected_with(reason);
        self.check(is_rejected, &format!("a refusal with {reason}"))
    }

    /// Asserts that the handler ran once, and failed with this code.
    ///
    /// # Panics
    ///
    /// It did not, or the layer refused the call, or the error is a replay, or no answer came.
    #[track_caller]
    pub fn failed_with(self, code: Code) -> Self {
        let failed = self.runs == 1
            && self.reason().is_none()
            && !self.is_replay()
            && !self.unanswered
            && matches!(&self.result, Err(status) if status.code() == code);
        self.check(failed, &format!("the handler to run once and fail with {}", name(code)))
    }

    /// Asserts that no answer came: it or the request was lost, or the process of the server died. The client got an error with
    /// `UNAVAILABLE`.
    ///
    /// # Panics
    ///
    /// An answer came.
    #[track_caller]
    pub fn unanswered(self) -> Self {
        let unanswered = self.unanswered;
        self.check(unanswered, "no answer")
    }

    /// Asserts that the response says that the work behind the created resource has this status, in its header
    /// `idempotency-status`.
    ///
    /// # Panics
    ///
    /// It says something else, or nothing.
    #[track_caller]
    pub fn with_status(self, status: IdempotencyStatus) -> Self {
        let has_status = self.header(IdempotencyStatus::HEADER) == Some(status.as_str());
        self.check(has_status, &format!("a response with {}: {status}", IdempotencyStatus::HEADER))
    }

    /// Returns how often the handler of this call had run when the answer came: 0 or 1.
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the reason for which the layer refused the call; `None` if it did not.
    pub fn reason(&self) -> Option<Reason> {
        self.result.as_ref().err().and_then(Reason::of)
    }

    /// Returns the response message.
    ///
    /// # Panics
    ///
    /// The call failed.
    #[track_caller]
    pub fn into_message(self) -> R {
        let called = self.check_ok();
        match called.result {
            Ok(response) => response.into_inner(),
            Err(status) => panic!("{status}"),
        }
    }

    /// Returns the answer as the client got it.
    ///
    /// # Errors
    ///
    /// The status of a call that failed.
    pub fn into_result(self) -> Result<Response<R>, Status> {
        self.result
    }

    #[track_caller]
    fn check_ok(self) -> Self {
        let is_ok = self.result.is_ok();
        self.check(is_ok, "a response")
    }

    #[track_caller]
    fn check(self, holds: bool, expected: &str) -> Self {
        assert!(holds, "expected {expected}; but {self}");
        self
    }

    pub(super) fn is_executed_once(&self) -> bool {
        self.runs == 1 && self.result.is_ok() && !self.is_replay() && !self.is_unprotected()
    }

    pub(super) fn is_replayed(&self) -> bool {
        self.runs == 0 && self.is_replay()
    }

    pub(super) fn is_rejected_with(&self, reason: Reason) -> bool {
        self.reason() == Some(reason)
    }

    fn is_replay(&self) -> bool {
        self.header(headers::REPLAYED) == Some("true")
    }

    /// Returns whether the handler answered a call with a key, and the layer did not protect it.
    fn is_unprotected(&self) -> bool {
        self.has_key && self.result.is_ok() && self.header(IdempotencyStatus::HEADER).is_none()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.metadata().get(name)?.to_str().ok()
    }

    fn metadata(&self) -> &MetadataMap {
        match &self.result {
            Ok(response) => response.metadata(),
            Err(status) => status.metadata(),
        }
    }
}

/// Describes in a sentence how the call ended.
impl<R> fmt::Display for Called<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.runs {
            0 => f.write_str("the handler did not run")?,
            1 => f.write_str("the handler ran once")?,
            runs => write!(f, "the handler ran {runs} times")?,
        }
        match &self.result {
            Ok(_) if self.is_replay() => f.write_str(", and the response is a replay")?,
            Ok(_) if self.is_unprotected() => {
                let procedures = self.procedures.join(", ");
                f.write_str(", and the layer did not protect the call: ")?;
                write!(
                    f,
                    "does it have a store that answers, and is the procedure among those that take keys ({procedures})?"
                )?;
            }
            Ok(_) => f.write_str(", and the call succeeded")?,
            Err(status) => {
                match self.reason() {
                    Some(reason) => write!(f, ", and the layer refused the call with {reason}")?,
                    None if self.is_replay() => f.write_str(", and the error is a replay")?,
                    None if self.unanswered => f.write_str(", and no answer came")?,
                    None => f.write_str(", and the call failed")?,
                }
                write!(f, " ({}: {})", name(status.code()), status.message())?;
            }
        }
        if let Some(cause) = &self.cause {
            write!(f, "; the cause: {cause}")?;
        }
        match self.header(IdempotencyStatus::HEADER) {
            Some(status) => write!(f, "; {}: {status}", IdempotencyStatus::HEADER),
            None => Ok(()),
        }
    }
}

/// Returns the name that gRPC gives a code.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}
