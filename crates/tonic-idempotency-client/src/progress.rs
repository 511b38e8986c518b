//! Progress events while a client waits for the work behind a call.

use std::{
    fmt, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};
use futures_util::{Stream, stream::unfold};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::Status;
use tonic_idempotency_wire::IdempotencyStatus;

use crate::{
    answered_call::{AnsweredCall, Look, WorkStatus},
    expiry::Expiry,
    work_error::WorkError,
};

/// A step of waiting for the work behind a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// The number of times that the server was asked, with the one that is under way.
    pub looks: u32,
    /// The time since the first step.
    pub elapsed: Duration,
    /// The step.
    pub event: ProgressEvent,
}

/// The kind of a step of waiting.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ProgressEvent {
    /// The server is being asked.
    Asking {
        /// Whether by `WaitOperation`, which answers when the work ends, at most half a minute later. Otherwise, by a replay.
        waiting: bool,
    },
    /// Waiting is over. It is the last step.
    Ended(Result<(), WorkError>),
    /// The work has not ended.
    Processing {
        /// The time until the server is asked again.
        next: Duration,
    },
    /// The server has not answered, or is busy.
    Unanswered {
        /// The time until the server is asked again.
        next: Duration,
        /// The error of the attempt.
        status: Status,
    },
}

/// The steps of waiting for the work behind a call, in their order: [`PendingWork::progress`](crate::PendingWork::progress).
///
/// ```no_run
/// # async fn example(response: tonic::Response<()>) {
/// use tokio_stream::StreamExt as _;
/// use tonic_idempotency_client::{ProgressEvent, completed};
///
/// let mut progress = completed(&response).progress();
/// while let Some(step) = progress.next().await {
///     match step.event {
///         ProgressEvent::Processing { next } => println!("{:?}: processing; next look in {next:?}", step.elapsed),
///         ProgressEvent::Ended(result) => println!("ended: {result:?}"),
///         _ => {}
///     }
/// }
/// # }
/// ```
///
/// # Cancel safety
///
/// No step is lost if its future is dropped: the next one goes on with it. Dropping the stream ends the looks, and not the work.
#[must_use = "a stream does nothing unless it is polled"]
pub struct ProgressStream {
    steps: Pin<Box<dyn Stream<Item = Progress> + Send>>,
}

impl ProgressStream {
    pub(crate) fn new(known: WorkStatus, pauses: [Duration; 2], timeout: Option<Duration>) -> Self {
        let steps = unfold(None, move |looks| {
            let looks = looks.unwrap_or_else(|| Looks::new(known.clone(), pauses, timeout));
            looks.step()
        });
        Self { steps: Box::pin(steps) }
    }
}

impl Stream for ProgressStream {
    type Item = Progress;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Progress>> {
        self.steps.as_mut().poll_next(cx)
    }
}

impl fmt::Debug for ProgressStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProgressStream").finish_non_exhaustive()
    }
}

/// The looks at the work behind one call.
struct Looks {
    began: Instant,
    deadline: Option<Instant>,
    made: u32,
    stage: Stage,
}

enum Stage {
    Ended(Result<(), WorkError>),
    Over,
    /// To be asked when the pause is over.
    Paused(AskedCall, Duration),
    /// To be asked now.
    Asking(AskedCall),
    /// The first step: nothing has been asked.
    Begun(AskedCall),
}

/// The call that is asked for, and how.
struct AskedCall {
    call: Arc<AnsweredCall>,
    delays: ExponentialBackoff,
    pauses: [Duration; 2],
    /// The time by which its last replay has to be sent.
    last: Expiry,
    /// Whether the server may have `WaitOperation`.
    waits: bool,
}

impl Looks {
    fn new(known: WorkStatus, pauses: [Duration; 2], timeout: Option<Duration>) -> Self {
        let [first, longest] = pauses;
        let began = Instant::now();
        let stage = match known {
            WorkStatus::Ended(result) => Stage::Ended(result),
            WorkStatus::Processing(call) => {
                let delays =
                    ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest).without_max_times();
                let (last, waits) = (call.last, call.peer.may_wait());
                Stage::Begun(AskedCall { call, delays: delays.build(), pauses, last, waits })
            }
        };
        Self { began, deadline: timeout.and_then(|timeout| began.checked_add(timeout)), made: 0, stage }
    }

    /// Takes one step.
    async fn step(mut self) -> Option<(Progress, Option<Self>)> {
        let event = match mem::replace(&mut self.stage, Stage::Over) {
            Stage::Over => return None,
            Stage::Ended(result) => ProgressEvent::Ended(result),
            Stage::Begun(mut asked) => {
                let next = if asked.waits { Some(Duration::ZERO) } else { self.next(&mut asked) };
                self.pause(asked, None, next)
            }
            Stage::Paused(asked, pause) => {
                sleep(pause).await;
                self.made += 1;
                let waiting = asked.waits;
                self.stage = Stage::Asking(asked);
                ProgressEvent::Asking { waiting }
            }
            Stage::Asking(asked) => self.look(asked).await,
        };
        let step = Progress { looks: self.made, elapsed: self.began.elapsed(), event };
        Some((step, Some(self)))
    }

    /// Asks the server once.
    async fn look(&mut self, mut asked: AskedCall) -> ProgressEvent {
        let began = Instant::now();
        let look = async {
            match asked.waits {
                true => asked.call.wait(self.left()).await,
                false => asked.call.replay(asked.last).await,
            }
        };
        let look = match self.deadline {
            Some(deadline) => timeout_at(deadline, look).await.unwrap_or(Look::Ended(WorkError::TimedOut)),
            None => look.await,
        };
        match look {
            Look::Ended(error) => ProgressEvent::Ended(Err(error)),
            Look::Status(IdempotencyStatus::Completed, _) => ProgressEvent::Ended(Ok(())),
            Look::Status(IdempotencyStatus::Failed, _) => ProgressEvent::Ended(Err(WorkError::Failed)),
            Look::Status(IdempotencyStatus::Processing, last) => {
                asked.last = last.unwrap_or(asked.last);
                // A server that has waited has made the pause.
                let next = self.next(&mut asked).map(|next| next.saturating_sub(began.elapsed()));
                self.pause(asked, None, next)
            }
            Look::Unanswered(status, after) => {
                let next = match after {
                    // A server that says zero does not mean five hundred times a second.
                    Some(after) => Some(after.saturating_add(asked.jittered().min(after / 10)).max(asked.pauses[0])),
                    None => self.next(&mut asked),
                };
                self.pause(asked, Some(status), next)
            }
            Look::CannotWait => {
                asked.waits = false;
                let next = self.next(&mut asked);
                self.pause(asked, None, next)
            }
        }
    }

    /// Returns the next pause. The last one ends a little before the time does, for a last look.
    fn next(&self, asked: &mut AskedCall) -> Option<Duration> {
        let (next, left) = (asked.jittered(), self.left());
        if next < left { Some(next) } else { left.checked_sub(asked.pauses[0]).filter(|next| !next.is_zero()) }
    }

    /// Asks again after this pause, if there is time for that, or else ends.
    fn pause(&mut self, asked: AskedCall, unanswered: Option<Status>, next: Option<Duration>) -> ProgressEvent {
        let Some(next) = next.filter(|next| *next < self.left()) else {
            return ProgressEvent::Ended(Err(WorkError::TimedOut));
        };
        if !asked.waits && asked.is_too_late(next) {
            return ProgressEvent::Ended(Err(WorkError::KeyExpires));
        }
        self.stage = Stage::Paused(asked, next);
        match unanswered {
            Some(status) => ProgressEvent::Unanswered { next, status },
            None => ProgressEvent::Processing { next },
        }
    }

    /// The time that is left.
    fn left(&self) -> Duration {
        self.deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

impl AskedCall {
    /// Returns the next pause: between half of its time and all of it, so that clients that began at one time do not go on so.
    fn jittered(&mut self) -> Duration {
        self.delays.next().unwrap_or(self.pauses[1]).mul_f64(0.5 + fastrand::f64() / 2.0)
    }

    /// Returns whether a replay after this pause might not be over when the key expires.
    fn is_too_late(&self, pause: Duration) -> bool {
        pause >= self.last.left()
    }
}
