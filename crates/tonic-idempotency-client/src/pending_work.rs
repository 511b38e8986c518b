//! The asynchronous work behind a call, and waiting for its end.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_util::Stream as _;
use tonic::Response;
use tonic_idempotency_wire::IdempotencyStatus;

use crate::{
    answered_call::{AnsweredCall, WorkStatus},
    progress::{ProgressEvent, ProgressStream},
    work_error::WorkError,
};

/// Waits for the end of the asynchronous work behind a call: until the server says that its status is `completed` or `failed`.
///
/// The server is asked with `OperationService.WaitOperation`, which answers when the work ends. One that does not have that service
/// gets the same call again, with the same key, and replays it with the newest status: with growing pauses, and as late as it asks for.
/// Such replays stop before the key expires, as the call would run again; if the server does not say when (`idempotency-expires`), an
/// hour after the first answer.
///
/// ```no_run
/// # async fn example(response: tonic::Response<()>) -> Result<(), tonic_idempotency_client::WorkError> {
/// use std::time::Duration;
/// use tonic_idempotency_client::completed;
///
/// let work = completed(&response).timeout(Duration::from_secs(600));
/// println!("{:?}", response.into_inner());
/// work.await?;
/// println!("the work behind it is done");
/// # Ok(())
/// # }
/// ```
///
/// The requests have the metadata of the call. A token that does not live as long as the work belongs into a service between this layer
/// and the connection.
pub fn completed<T>(response: &Response<T>) -> PendingWork {
    let known = match IdempotencyStatus::of(response.metadata().as_ref()) {
        Some(IdempotencyStatus::Completed) => WorkStatus::Ended(Ok(())),
        Some(IdempotencyStatus::Failed) => WorkStatus::Ended(Err(WorkError::Failed)),
        Some(IdempotencyStatus::Processing) => match response.extensions().get::<Arc<AnsweredCall>>() {
            Some(call) => WorkStatus::Processing(Arc::clone(call)),
            None => WorkStatus::Ended(Err(WorkError::NoStatus)),
        },
        None => WorkStatus::Ended(Err(WorkError::NoStatus)),
    };
    PendingWork { known, pauses: [Duration::from_millis(500), Duration::from_secs(30)], timeout: None }
}

/// The work behind a call, whose end an `.await` waits for: see [`completed`].
#[derive(Clone, Debug)]
#[must_use = "it asks nothing until it is awaited"]
pub struct PendingWork {
    known: WorkStatus,
    pauses: [Duration; 2],
    timeout: Option<Duration>,
}

impl PendingWork {
    /// Sets how long to wait, from the first look on. Defaults to no limit but the life of the key.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the pauses between replays: each is between half of a time and all of it, which begins with the first and doubles up to the
    /// longest. Defaults to 500 milliseconds and 30 seconds.
    pub fn pauses(mut self, first: Duration, longest: Duration) -> Self {
        self.pauses = [first, longest.max(first)];
        self
    }

    /// Returns what happens while the work is waited for, for a caller that shows it.
    pub fn progress(self) -> ProgressStream {
        ProgressStream::new(self.known, self.pauses, self.timeout)
    }
}

impl IntoFuture for PendingWork {
    type Output = Result<(), WorkError>;
    type IntoFuture = Completed;

    fn into_future(self) -> Completed {
        Completed { progress: self.progress() }
    }
}

/// The future of a [`PendingWork`].
///
/// # Errors
///
/// [`WorkError`]
///
/// # Cancel safety
///
/// Dropping it ends the looks, and not the work.
#[must_use = "a future does nothing unless it is polled"]
pub struct Completed {
    progress: ProgressStream,
}

impl Future for Completed {
    type Output = Result<(), WorkError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let next = ready!(Pin::new(&mut self.progress).poll_next(cx));
            if let ProgressEvent::Ended(result) = next.expect("it is not polled after its end").event {
                return Poll::Ready(result);
            }
        }
    }
}

impl fmt::Debug for Completed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completed").finish_non_exhaustive()
    }
}
