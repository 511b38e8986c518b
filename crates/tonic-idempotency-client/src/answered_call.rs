//! A call that was answered before the work behind it ended, and looks at the status of that work.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::Full;
use prost::Message as _;
use tokio::time::timeout;
use tonic::{Code, Status, body::Body};
use tonic_idempotency_wire::{
    IdempotencyStatus, Reason, WAIT_OPERATION_TIMEOUT,
    proto::v1::{Operation, State, Until, WaitOperationRequest, Work},
};

use crate::{
    attempt::{AttemptOutcome, was_replayed},
    expiry::Expiry,
    head::Head,
    operation_service,
    peer::DynPeer,
    verdict::{Others, Verdict},
    work_error::WorkError,
};

/// The time for which a key is taken to protect, if its server does not tell.
const UNTOLD: Duration = Duration::from_secs(3600);

/// The status of the work, as the response reports it.
#[derive(Clone, Debug)]
pub(crate) enum WorkStatus {
    Ended(Result<(), WorkError>),
    Processing(Arc<AnsweredCall>),
}

/// A call that was answered before the work behind it ended.
pub(crate) struct AnsweredCall {
    pub(crate) attempt_timeout: Duration,
    /// The time by which its last replay has to be sent.
    pub(crate) last: Expiry,
    pub(crate) head: Head,
    pub(crate) key: String,
    pub(crate) message: Bytes,
    pub(crate) peer: Arc<dyn DynPeer>,
}

/// The server's reply to a look at the work.
#[derive(Debug)]
pub(crate) enum Look {
    /// The work has this status. The key may protect for longer.
    Status(IdempotencyStatus, Option<Expiry>),
    /// There is no answer for now. The server may say when there may be one.
    Unanswered(Status, Option<Duration>),
    /// It cannot be asked in this way.
    CannotWait,
    /// It need not be asked again.
    Ended(WorkError),
}

impl AnsweredCall {
    /// Lets the server wait for the end of the work, at most for this time.
    pub(crate) async fn wait(&self, at_most: Duration) -> Look {
        let at_most = at_most.min(WAIT_OPERATION_TIMEOUT);
        let asked = WaitOperationRequest {
            key: self.key.clone(),
            until: Until::WorkEnded.into(),
            timeout: prost_types::Duration::try_from(at_most).ok(),
        };
        let request = operation_service::request(&self.head, "WaitOperation", &asked);
        let sent = timeout(at_most.saturating_add(self.attempt_timeout), self.peer.send(request));
        let answer = sent.await.unwrap_or(AttemptOutcome::TimedOut);
        match (answer.verdict(Others::None), answer.error()) {
            (Verdict::Again(after) | Verdict::Running(after), Some(error)) => Look::Unanswered(error, after),
            (Verdict::Late, Some(error)) => Look::Unanswered(error, None),
            (_, Some(error)) => {
                if error.code() == Code::Unimplemented {
                    self.peer.cannot_wait();
                }
                Look::CannotWait
            }
            (_, None) => match answer.message().and_then(|message| Operation::decode(message).ok()) {
                Some(operation) => of_operation(&operation),
                None => Look::CannotWait,
            },
        }
    }

    /// Makes the same call again, which is replayed, unless this time has come.
    pub(crate) async fn replay(&self, last: Expiry) -> Look {
        let body = Body::new(Full::new(self.message.clone()));
        let request = self.head.attempt(body, 1, self.attempt_timeout);
        let sent = timeout(self.attempt_timeout, self.peer.send_before(last, request));
        let Some(answer) = sent.await.unwrap_or(Some(AttemptOutcome::TimedOut)) else {
            return Look::Ended(WorkError::KeyExpires);
        };
        match (answer.verdict(Others::None), answer.error()) {
            (Verdict::Again(after) | Verdict::Running(after), Some(error)) => Look::Unanswered(error, after),
            (Verdict::Late, Some(error)) => Look::Unanswered(error, None),
            (_, Some(error)) if Reason::of(&error) == Some(Reason::KeyExpired) => Look::Ended(WorkError::Forgotten),
            (_, Some(error)) => Look::Ended(WorkError::Refused(error)),
            (_, None) => {
                let headers = answer.headers().filter(|headers| was_replayed(headers));
                let Some(headers) = headers else { return Look::Ended(WorkError::NotReplayed) };
                match IdempotencyStatus::of(headers) {
                    Some(status) => Look::Status(status, last_replay(&answer, self.attempt_timeout)),
                    None => Look::Ended(WorkError::NoStatus),
                }
            }
        }
    }
}

impl fmt::Debug for AnsweredCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnsweredCall").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Returns the time by which a last replay has to be sent, so that it is over when the key stops to protect; `None` if the server does not
/// tell in this answer, which has come now.
fn last_replay(answer: &AttemptOutcome, attempt_timeout: Duration) -> Option<Expiry> {
    Some(Expiry::after(answer.protected_for()?.saturating_sub(attempt_timeout)))
}

/// As [`last_replay`], or the time that is taken for it.
pub(crate) fn last_replay_or_untold(answer: &AttemptOutcome, attempt_timeout: Duration) -> Expiry {
    last_replay(answer, attempt_timeout).unwrap_or_else(|| Expiry::after(UNTOLD.saturating_sub(attempt_timeout)))
}

fn of_operation(operation: &Operation) -> Look {
    match (operation.state(), operation.work()) {
        (State::Absent | State::Expired, _) => Look::Ended(WorkError::Forgotten),
        (State::Failed, _) | (_, Work::Failed) => Look::Status(IdempotencyStatus::Failed, None),
        // The work of a procedure without any is completed with the call.
        (State::Completed, Work::Completed | Work::Unspecified) => Look::Status(IdempotencyStatus::Completed, None),
        (State::Completed, Work::Processing) => Look::Status(IdempotencyStatus::Processing, None),
        // The call has been answered already, so this is about a different call, or from a different server.
        (State::Unspecified | State::Running | State::Unknown, _) => Look::CannotWait,
    }
}
