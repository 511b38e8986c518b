//! Waits for the end of a call, or of the work behind it.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tonic::Status;

use super::question::{Known, Question};
use crate::{
    engine::backoff::Backoff,
    proto::v1::Until,
    rejection::Rejection,
    status::IdempotencyStatus,
    store::{KeyRecord, KeyState},
};

/// The first pause between two questions to the store.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The part of a caller's own time that is left for the answer to arrive, and its most.
const MARGIN: (u32, Duration) = (10, Duration::from_secs(1));

/// How long a request waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) longest: Duration,
    pub(super) longest_pause: Duration,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { longest: Duration::from_secs(30), longest_pause: Duration::from_secs(1) }
    }
}

impl Waiting {
    /// Returns how long a request waits that asks for this time, and whose caller waits for that time.
    pub(super) fn time(self, asked: Option<Duration>, callers: Option<Duration>) -> Duration {
        let (part, most) = MARGIN;
        let of_caller = callers.map_or(Duration::MAX, |time| time.saturating_sub((time / part).min(most)));
        asked.unwrap_or(self.longest).min(self.longest).min(of_caller)
    }

    /// Asks again and again, with growing pauses, until what is waited for has ended, or until the deadline: then returns what was known last.
    /// A key that no call holds is not waited for. Holds no connection between two questions.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed.
    pub(super) async fn wait(self, question: &Question<'_>, until: Until, deadline: Instant) -> Result<Known, Status> {
        let tracker = &question.engine.tracker;
        let mut watcher = tracker.watch(question.owner, question.key);
        let mut backoff = Backoff::new(FIRST_PAUSE, self.longest_pause);
        let mut known: Option<Known> = None;
        let mut is_authorized = false;
        loop {
            watcher.forget();
            let asked = look(question, &mut is_authorized);
            let now = match known {
                None => asked.await?,
                Some(before) => match timeout_at(deadline, asked).await {
                    Ok(now) => now?,
                    Err(_) => return Ok(before),
                },
            };
            let next = Instant::now() + backoff.pause();
            if has_ended(&now, until) || Instant::now() >= deadline {
                return Ok(now);
            }
            known = Some(now);
            let pause = Box::pin(timeout_at(next.min(deadline), watcher.ended()));
            if tracker.shutting_down().run_until_cancelled(pause).await.is_none() {
                return Err(question.refused(Rejection::ShuttingDown).into());
            }
        }
    }
}

/// Asks the store, and once the application, when the call has ended.
async fn look(question: &Question<'_>, is_authorized: &mut bool) -> Result<Known, Status> {
    let record: KeyRecord = question.look_up().await?;
    if !*is_authorized && matches!(record.state, KeyState::Completed | KeyState::Failed) {
        question.authorize(&record).await?;
        *is_authorized = true;
    }
    Ok(question.with_work(record).await)
}

fn has_ended(known: &Known, until: Until) -> bool {
    match known.record.state {
        KeyState::Running => false,
        KeyState::Completed => until != Until::WorkEnded || known.work != Some(IdempotencyStatus::Processing),
        KeyState::Absent | KeyState::Failed | KeyState::Unknown | KeyState::Expired => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_at_the_first_of_its_times_and_leaves_the_caller_a_margin() {
        let waiting = Waiting::default();
        let seconds = Duration::from_secs_f64;
        for (asked, callers, wait) in [
            (None, None, 30.0),
            (Some(5.0), None, 5.0),
            (Some(60.0), None, 30.0),
            (Some(0.0), None, 0.0),
            (None, Some(10.0), 9.0),
            (None, Some(20.0), 19.0),
            (Some(1.0), Some(0.5), 0.45),
            (Some(1.0), Some(10.0), 1.0),
        ] {
            let time = waiting.time(asked.map(seconds), callers.map(seconds));
            assert_eq!(time, seconds(wait), "{asked:?} {callers:?}");
        }
    }

    #[test]
    fn full_matrix() {
        use IdempotencyStatus::{Completed, Failed, Processing};
        for (state, work, call, all) in [
            (KeyState::Absent, None, true, true),
            (KeyState::Running, None, false, false),
            (KeyState::Completed, Some(Processing), true, false),
            (KeyState::Completed, Some(Completed), true, true),
            (KeyState::Completed, Some(Failed), true, true),
            (KeyState::Completed, None, true, true),
            (KeyState::Failed, None, true, true),
            (KeyState::Unknown, None, true, true),
            (KeyState::Expired, None, true, true),
        ] {
            let known = Known { record: KeyRecord::new(state), work };
            assert_eq!(has_ended(&known, Until::Unspecified), call, "{known:?}");
            assert_eq!(has_ended(&known, Until::CallEnded), call, "{known:?}");
            assert_eq!(has_ended(&known, Until::WorkEnded), all, "{known:?}");
        }
    }
}
