//! Asks a server whether it protects a procedure.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use http::{Request, StatusCode};
use prost::Message as _;
use tokio::{sync::Mutex, time::Instant};
use tonic::{Code, Status, body::Body};
use tonic_idempotency_wire::proto::v1::{DescribeProcedureRequest, Mode, Procedure};

use crate::{
    attempt::AttemptOutcome,
    head::Head,
    operation_service,
    permission::{MissingDescription, SendRefusal},
    request_body::HEAD,
    verdict::{Others, STATUS, Verdict},
};

/// The time for which a server without `DescribeProcedure` is not asked for the procedure again: it may be replaced by one that has it.
const UNTOLD: Duration = Duration::from_secs(60);

/// A server's answer to `DescribeProcedure`.
#[derive(Clone, Debug)]
pub(crate) enum Description {
    /// It protects the procedure.
    Protected,
    /// There is no answer for now.
    Unanswered(MissingDescription),
    /// It does not protect the procedure.
    Unprotected,
    /// It cannot tell.
    Untold,
}

impl Description {
    /// Returns whether the attempt may be sent, for which the server was asked.
    pub(crate) fn permits(self, if_untold: bool) -> Result<(), SendRefusal> {
        match self {
            Self::Protected => Ok(()),
            Self::Untold if if_untold => Ok(()),
            Self::Untold => Err(SendRefusal::Unshown),
            Self::Unprotected => Err(SendRefusal::Unprotected),
            Self::Unanswered(answer) => Err(SendRefusal::Unanswered(answer)),
        }
    }

    /// Whether it is the same for all callers.
    fn is_for_all(&self) -> bool {
        match self {
            Self::Protected | Self::Unprotected | Self::Untold => true,
            // Anything else may be about the credentials of the caller who has asked.
            Self::Unanswered(answer) => matches!(answer.status.code(), Code::DeadlineExceeded | Code::Unavailable),
        }
    }
}

impl From<AttemptOutcome> for Description {
    fn from(answer: AttemptOutcome) -> Self {
        let Some(error) = answer.error() else {
            let status = Status::unknown("the answer is not the description of a procedure");
            let unanswered = unanswered(&answer, status);
            return if is_description(answer) { Self::Protected } else { Self::Unanswered(unanswered) };
        };
        match error.code() {
            Code::NotFound => Self::Unprotected,
            Code::Unimplemented => Self::Untold,
            _ if is_unknown_path(&answer) => Self::Untold,
            _ => Self::Unanswered(unanswered(&answer, error)),
        }
    }
}

fn unanswered(answer: &AttemptOutcome, status: Status) -> MissingDescription {
    let (verdict, is_stuck) = match answer.verdict(Others::None) {
        verdict @ (Verdict::Again(_) | Verdict::Late) => (verdict, answer.is_unauthenticated()),
        Verdict::Running(after) => (Verdict::Again(after), false),
        Verdict::Ended | Verdict::Unknown => (Verdict::Again(None), true),
    };
    MissingDescription { is_stuck, reason: answer.reason(), status, verdict }
}

/// Whether a success has the description of a procedure: one has the mode in any case.
fn is_description(answer: AttemptOutcome) -> bool {
    let AttemptOutcome::Complete { data, .. } = answer else { return false };
    let frame = data.into_bytes();
    let described = frame.get(HEAD..).and_then(|message| Procedure::decode(message).ok());
    described.is_some_and(|procedure| procedure.mode() != Mode::Unspecified)
}

/// Whether a proxy has no server for the path: the answer is HTTP 404, which stands for `UNIMPLEMENTED` in gRPC.
fn is_unknown_path(answer: &AttemptOutcome) -> bool {
    match answer {
        AttemptOutcome::Complete { parts, .. } => {
            parts.status == StatusCode::NOT_FOUND && !parts.headers.contains_key(STATUS)
        }
        AttemptOutcome::Lost(_) | AttemptOutcome::TimedOut | AttemptOutcome::TooLarge(_) => false,
    }
}

/// The question whether a server protects one procedure. One caller at a time asks it; those who wait meanwhile share the answer.
#[derive(Debug, Default)]
pub(crate) struct ProcedureQuestion {
    /// The number of answers that there have been.
    answers: AtomicU64,
    last: Mutex<Option<(Description, Instant)>>,
}

impl ProcedureQuestion {
    /// Makes the request of a caller whose own call has this head.
    pub(crate) fn request(head: &Head) -> Request<Body> {
        let asked = DescribeProcedureRequest { procedure: head.procedure().to_owned() };
        operation_service::request(head, "DescribeProcedure", &asked)
    }

    /// Sends the question, unless the answer comes to one that is under way. A server that cannot tell is not asked again for a minute.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the next caller who waits asks.
    pub(crate) async fn ask(&self, sent: impl Future<Output = AttemptOutcome>) -> Description {
        let before = self.answers.load(Ordering::Acquire);
        let mut last = self.last.lock().await;
        if let Some((description, at)) = &*last {
            let is_new = self.answers.load(Ordering::Acquire) != before;
            if is_new || matches!(description, Description::Untold) && at.elapsed() < UNTOLD {
                return description.clone();
            }
        }
        let description = Description::from(sent.await);
        *last = description.is_for_all().then(|| (description.clone(), Instant::now()));
        self.answers.fetch_add(1, Ordering::AcqRel);
        description
    }
}
