//! Waits for the end of a call, or of the work behind it.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};
use tonic::Status;
use tonic_idempotency_wire::WAIT_OPERATION_TIMEOUT;

use super::{
    question::{KnownOutcome, Question},
    shared_question::{SharedAnswer, SharedQuestions},
};
use crate::{proto::v1::Until, rejection::Rejection, status::IdempotencyStatus, store::KeyState};

/// The divisor of the caller's time that gives the time for the answer to arrive, and the maximum of that time.
const MARGIN: (u32, Duration) = (10, Duration::from_secs(1));

/// The longest time that a request waits, and the longest pause between two questions to the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitLimits {
    pub(super) longest: Duration,
    pub(super) longest_pause: Duration,
}

impl Default for WaitLimits {
    fn default() -> Self {
        Self { longest: WAIT_OPERATION_TIMEOUT, longest_pause: Duration::from_secs(1) }
    }
}

impl WaitLimits {
    /// Returns how long a request waits if it asks for `asked`, and its caller waits for `callers`.
    pub(super) fn time(self, asked: Option<Duration>, callers: Option<Duration>) -> Duration {
        let (part, most) = MARGIN;
        let of_caller = callers.map_or(Duration::MAX, |time| time.saturating_sub((time / part).min(most)));
        asked.unwrap_or(self.longest).min(self.longest).min(of_caller)
    }

    /// Waits until the call, or the work behind it, has ended. At the deadline, returns the last known state. Asks the store at once, and
    /// then together with all requests that wait for this key. Does not wait for a key that no call holds. Holds no connection between
    /// two questions.
    ///
    /// # Cancel safety
    ///
    /// Nothing is changed.
    pub(super) async fn wait(
        self,
        question: &Question<'_>,
        questions: &Arc<SharedQuestions>,
        until: Until,
        deadline: Instant,
    ) -> Result<Arc<KnownOutcome>, Status> {
        let tracker = &question.engine.tracker;
        let shared = questions.join(tracker, (question.owner, question.key), self.longest_pause);
        let mut answers = shared.subscribe();
        let mut is_authorized = false;
        let mut last = SharedAnswer::to(question).await?;
        authorize(question, &last, &mut is_authorized).await?;
        while !has_ended(&last.known, until) && Instant::now() < deadline {
            let next = async {
                let answer = shared.next(question, &mut answers).await?;
                authorize(question, &answer, &mut is_authorized).await?;
                Ok::<_, Status>(answer)
            };
            match tracker.shutting_down().run_until_cancelled(Box::pin(timeout_at(deadline, next))).await {
                Some(Ok(answer)) => {
                    let answer = answer?;
                    // Another request may have asked before this one did.
                    if answer.asked >= last.asked {
                        last = answer;
                    }
                }
                Some(Err(_)) => break,
                None => return Err(question.rejected(Rejection::ShuttingDown).into()),
            }
        }
        Ok(last.known)
    }
}

/// Asks the authorizer once, when the call has ended.
async fn authorize(question: &Question<'_>, answer: &SharedAnswer, is_authorized: &mut bool) -> Result<(), Status> {
    let record = &answer.known.record;
    if !*is_authorized && matches!(record.state, KeyState::Completed | KeyState::Failed) {
        question.authorize(record).await?;
        *is_authorized = true;
    }
    Ok(())
}

fn has_ended(known: &KnownOutcome, until: Until) -> bool {
    match known.record.state {
        KeyState::Running => false,
        KeyState::Completed => until != Until::WorkEnded || known.work != Some(IdempotencyStatus::Processing),
        KeyState::Absent | KeyState::Failed | KeyState::Unknown | KeyState::Expired => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::KeyRecord;

    #[test]
    fn ends_at_the_first_of_its_times_and_leaves_the_caller_a_margin() {
        let waiting = WaitLimits::default();
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
            let known = KnownOutcome { record: KeyRecord::new(state), work };
            assert_eq!(has_ended(&known, Until::Unspecified), call, "{known:?}");
            assert_eq!(has_ended(&known, Until::CallEnded), call, "{known:?}");
            assert_eq!(has_ended(&known, Until::WorkEnded), all, "{known:?}");
        }
    }
}
