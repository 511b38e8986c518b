//! One operation of the store: its attempts, repeated after a failure, and side by side while one does not answer.
//!
//! | time | if there is no answer yet |
//! |---|---|
//! | `status_timeout` | a claim that asks for the status is sent again without it; if it was sent in a batch, alone and with it |
//! | twice that | a claim that was sent in a batch is sent again without the status |
//! | a share: a quarter of the timeout, at most 2 s | a second attempt is made. It first finds out whether the server answers |
//! | two shares | if it does not answer: a third attempt, on a connection that was used or made during the operation |
//! | a share before the end | if it does not answer, and no connection is free: one attempt in place of all others. If one is free, and none was before: the second attempt |
//! | the timeout | the operation fails |
//!
//! The first answer counts. The first attempt may be sent in a batch with those of other operations (`batch`); all others
//! are sent alone.

use std::{
    future::{Future, ready},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt as _, future::Either, stream::FuturesUnordered};
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    attempt_connection::{AttemptConnection, Failure, Reset},
    batch::{Kind, Lane, SendMode},
    begin::{WHO, begin},
    connection::{Connections, share_of},
    driver::{Connection as _, Driver, Statement},
    fault::{Fault, kind_without_connection},
    operation_progress::{OperationProgress, RunningOperation, WaitingAttempt},
    row::{RowOf, only_row},
};
use crate::{
    policy::Isolation,
    store::{Claim, StoreError, StoreErrorKind},
};

/// The number of attempts, without those after a conflict.
const ATTEMPTS: u32 = 4;

/// The number of retries, and the pause before each, after an answer that may be about an attempt of the same operation: one
/// that was given up here, and that the server has not ended yet.
const ASK_AGAIN: (u32, Duration) = (20, Duration::from_millis(50));

/// The number of attempts that may end in a conflict. With the pauses they take about a second.
const CONFLICTS: u32 = 10;

/// The first and the longest pause after a conflict. Each is shortened at random by up to a half, so that attempts that lost against each
/// other do not meet again.
const PAUSES: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(250)];

/// The pause after a connection that could not be made, times the failures so far: a server that restarts, or a connection that was cut
/// while it was made, is no reason to give up.
const RECONNECT: Duration = Duration::from_millis(50);

/// An operation on the connections of a pool.
pub(super) struct Operation<'a, D: Driver> {
    connections: &'a Connections<D>,
    progress: Arc<OperationProgress>,
    /// When it began: by tokio's clock for its own alarms, by the system's for the age of the pool's connections.
    begun: (Instant, std::time::Instant),
    /// How long the status may take; `None` if it is not asked for.
    time_for_status: Option<Duration>,
    one_at_a_time: bool,
    leaves_nothing: bool,
}

/// A time at which the operation may react to attempts that have not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alarm {
    Deadline,
    LastShare,
    Silence { again: bool },
    Status { again: bool },
}

/// The reaction to an alarm.
enum Reaction {
    Wait,
    /// Another attempt is made beside the others.
    TryBeside {
        with_status: bool,
    },
    /// Another attempt is made after the connections of the others are closed, because the pool has none left.
    TryInstead,
}

/// The decision after a failed attempt.
enum RetryDecision {
    Again(AttemptPlan, Duration),
    Fail(StoreError),
}

/// An attempt that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AttemptPlan {
    /// Whether to ask for the status of the created resource.
    pub(super) with_status: bool,
    /// Whether it may be sent in a batch with attempts of other operations. Only the first attempt may.
    pub(super) together: bool,
    /// Whether another attempt has not answered: then it is not known whether the server can be asked.
    in_doubt: bool,
}

impl AttemptPlan {
    /// Returns the resource type whose status to ask for.
    pub(super) fn status_of(self, claim: &Claim) -> Option<&str> {
        claim.resource_type.as_deref().filter(|_| self.with_status)
    }

    fn alone(self) -> Self {
        Self { together: false, ..self }
    }

    fn without_status(self) -> Self {
        Self { with_status: false, ..self }
    }
}

impl<'a, D: Driver> Operation<'a, D> {
    pub(super) fn new(connections: &'a Connections<D>) -> Self {
        Self::until(connections, connections.deadline())
    }

    /// Makes an operation with a deadline of its own.
    pub(super) fn until(connections: &'a Connections<D>, deadline: Instant) -> Self {
        Self {
            connections,
            progress: Arc::new(OperationProgress::new(deadline)),
            begun: (Instant::now(), std::time::Instant::now()),
            time_for_status: None,
            one_at_a_time: false,
            leaves_nothing: false,
        }
    }

    /// Asks for the status as well, if it is wanted, unless too many statuses are overdue.
    pub(super) fn with_status(self, wanted: bool) -> Self {
        Self { time_for_status: if wanted { self.connections.time_for_status() } else { None }, ..self }
    }

    /// Makes one attempt at a time: silence leads to no second attempt beside it.
    pub(super) fn one_at_a_time(self) -> Self {
        Self { one_at_a_time: true, ..self }
    }

    /// Declares that attempts leave nothing behind if their answers are lost.
    pub(super) fn leaving_nothing(self) -> Self {
        Self { leaves_nothing: true, ..self }
    }

    /// Makes attempts until one succeeds, or the operation fails. An answer that is not conclusive counts only if no
    /// other attempt has a better one.
    pub(super) async fn run<T, F>(
        &self,
        attempt: impl Fn(AttemptPlan) -> F,
        is_conclusive: impl Fn(&T) -> bool,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let make = |next: AttemptPlan, pause: Duration| {
            let pause = if pause.is_zero() { Either::Left(ready(())) } else { Either::Right(sleep(pause)) };
            let made = attempt(next);
            async move {
                pause.await;
                (next, made.await)
            }
        };
        let first = AttemptPlan { with_status: self.time_for_status.is_some(), together: true, in_doubt: false };
        let mut attempts = FuturesUnordered::new();
        attempts.push(make(first, Duration::ZERO));
        let _running = RunningOperation(&self.progress);
        let mut failures = Failures::default();
        let mut inconclusive = None;
        let mut again = ASK_AGAIN.0;
        let mut has_tried_beside = false;
        for (time, alarm) in self.alarms() {
            while let Ok(ended) = timeout_at(time, attempts.next()).await {
                match ended {
                    Some((_, Ok(answer))) if is_conclusive(&answer) => return Ok(answer),
                    // The answer may hold a connection, which goes back to the pool first.
                    Some((made, Ok(answer))) if attempts.is_empty() && self.progress.has_lost() && again > 0 => {
                        drop(answer);
                        again -= 1;
                        attempts.push(make(made, ASK_AGAIN.1));
                    }
                    Some((_, Ok(answer))) => inconclusive = Some(answer),
                    Some((made, Err(failure))) => match failures.next(self, made, failure) {
                        RetryDecision::Again(next, pause) => attempts.push(make(next, pause)),
                        RetryDecision::Fail(error) => failures.last = Some(error),
                    },
                    None => return inconclusive.ok_or_else(|| failures.last.unwrap_or_else(|| self.out_of_time())),
                }
            }
            let with_status = match self.reaction(alarm, has_tried_beside) {
                Reaction::Wait => continue,
                Reaction::TryBeside { with_status } => with_status,
                Reaction::TryInstead => {
                    self.progress.set_closing(true);
                    attempts.clear();
                    self.progress.set_closing(false);
                    self.progress.loses();
                    false
                }
            };
            has_tried_beside = true;
            attempts.push(make(AttemptPlan { with_status, together: false, in_doubt: true }, Duration::ZERO));
        }
        inconclusive.ok_or_else(|| self.out_of_time())
    }

    /// Returns the time after which an attempt that has not answered leads to a further one.
    fn share_of_time(&self) -> Duration {
        share_of(self.progress.deadline().saturating_duration_since(self.begun.0))
    }

    /// Returns the alarms in the order of their times.
    fn alarms(&self) -> impl Iterator<Item = (Instant, Alarm)> + use<D> {
        let (begun, deadline, share) = (self.begun.0, self.progress.deadline(), self.share_of_time());
        let status = |times: u32| self.time_for_status.map_or(deadline, |time| begun + times * time);
        let mut alarms = [
            (status(1), Alarm::Status { again: false }),
            (status(2), Alarm::Status { again: true }),
            (begun + share, Alarm::Silence { again: false }),
            (begun + 2 * share, Alarm::Silence { again: true }),
            (deadline - share, Alarm::LastShare),
            (deadline, Alarm::Deadline),
        ];
        alarms.sort_by_key(|(time, _)| *time);
        let one_at_a_time = self.one_at_a_time;
        alarms.into_iter().filter(move |(time, alarm)| {
            let is_of_status = matches!(alarm, Alarm::Status { .. });
            *alarm == Alarm::Deadline || (*time < deadline && (is_of_status || !one_at_a_time))
        })
    }

    /// Decides what to do about attempts that have not answered.
    fn reaction(&self, alarm: Alarm, has_tried_beside: bool) -> Reaction {
        let (progress, connections) = (&self.progress, self.connections);
        match alarm {
            Alarm::Deadline => Reaction::Wait,
            // An attempt that has no connection yet has not asked for the status.
            Alarm::Status { again: false } if progress.is_waiting() => Reaction::Wait,
            // Another operation's status may be the one that is slow.
            Alarm::Status { again: false } if progress.is_sent_together() => Reaction::TryBeside { with_status: true },
            Alarm::Status { again: true } if !progress.is_sent_together() => Reaction::Wait,
            Alarm::Status { .. } => {
                progress.status_is_overdue(connections.status_is_overdue());
                Reaction::TryBeside { with_status: false }
            }
            Alarm::LastShare | Alarm::Silence { .. } if progress.has_answer() => Reaction::Wait,
            Alarm::LastShare if progress.is_sent() && connections.are_exhausted() => Reaction::TryInstead,
            Alarm::LastShare if progress.is_sent() && !has_tried_beside => Reaction::TryBeside { with_status: false },
            Alarm::LastShare => Reaction::Wait,
            Alarm::Silence { .. } if progress.is_waiting() && connections.are_exhausted() => Reaction::Wait,
            Alarm::Silence { again } => {
                if again {
                    connections.distrust(self.begun.1);
                }
                Reaction::TryBeside { with_status: false }
            }
        }
    }

    pub(super) fn connections(&self) -> &'a Connections<D> {
        self.connections
    }

    pub(super) fn progress(&self) -> &Arc<OperationProgress> {
        &self.progress
    }

    /// Decides how an attempt goes: the first may wait for the answer of a batch, all others go alone.
    pub(super) async fn share<K: Kind>(
        &self,
        attempt: AttemptPlan,
        lane: &Lane<D, K>,
        item: impl FnOnce() -> K::Item,
    ) -> Result<SendMode<D, K>, Failure> {
        if attempt.together { lane.enter(&self.progress, item).await } else { Ok(SendMode::Alone(None)) }
    }

    /// Runs a statement that has one row as an attempt.
    pub(super) async fn query_one(&self, attempt: AttemptPlan, statement: Statement<'_>) -> Result<RowOf<D>, Failure> {
        let mut asked = self.connect(attempt, Reset::Nothing).await?;
        let row = asked.query(statement).await.and_then(only_row);
        asked.answered(row)
    }

    /// Calls a function as an attempt, in a transaction of its own: a function cannot tell whether a transaction was left open on the
    /// connection, in which it would read stale rows and leave its settings behind. A function that writes has its transaction committed. A
    /// statement that only reads is cancelled if it has no answer in time.
    pub(super) async fn call(
        &self,
        attempt: AttemptPlan,
        function: Statement<'_>,
        writes: bool,
    ) -> Result<Vec<RowOf<D>>, Failure> {
        let mut asked = self.connect(attempt, Reset::RollBack).await?;
        let called = async {
            asked.begin(begin(Isolation::ReadCommitted), WHO, None).await?;
            self.progress.server_answers();
            let rows = asked.query(function).await?;
            if writes {
                asked.commit().await?;
            }
            Ok(rows)
        };
        match called.await {
            // Dropped, it is rolled back if it was not committed.
            Ok(rows) => Ok(rows),
            Err(error) => Err(asked.failed(error)),
        }
    }

    /// Runs the statement of a kind for one item as an attempt.
    pub(super) async fn run_alone<K: Kind>(
        &self,
        attempt: AttemptPlan,
        item: &K::Item,
    ) -> Result<Option<K::Answer>, Failure> {
        let mut asked = self.connect(attempt, Reset::Nothing).await?;
        let until = (self.connections.clock(), self.progress.deadline());
        let answers = K::run(&mut *asked, self.connections.sql(), until, &[item]).await;
        asked.answered(answers.map(|answers| answers.into_iter().next().flatten()))
    }

    /// Takes a connection out of the pool, or makes one. An attempt in doubt looks first whether the server can be asked: in a
    /// round trip of its own. If a client leaves between two answers, PgBouncer before version 1.21 gives its server, and with it
    /// the second answer, to another client.
    pub(super) async fn connect(
        &self,
        attempt: AttemptPlan,
        reset: Reset,
    ) -> Result<AttemptConnection<'_, D>, Failure> {
        let waiting = WaitingAttempt::new(&self.progress);
        let connection = self.connections.driver().acquire().await.map_err(Failure::NoConnection)?;
        drop(waiting);
        self.progress.sends();
        let mut asked = AttemptConnection::new(connection, reset, self.connections, &self.progress);
        if attempt.in_doubt {
            asked.look_whether_it_answers().await;
        }
        Ok(asked)
    }

    /// Makes the operation's error. If any attempt may have taken effect, the operation may have.
    fn error(&self, kind: StoreErrorKind, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
        let lost = self.progress.has_lost() && !self.leaves_nothing;
        let kind = match (kind.is_unavailable(), lost) {
            (true, true) => StoreErrorKind::Interrupted,
            (true, false) => StoreErrorKind::Unreachable,
            (false, _) => kind,
        };
        let error = StoreError::new(kind, cause);
        if lost { error.after_a_lost_answer() } else { error }
    }

    /// Returns the error at the deadline, while attempts have not answered.
    fn out_of_time(&self) -> StoreError {
        // From here on nothing more is sent, so that the next lines decide on all that was sent.
        self.progress.ends();
        if self.progress.is_sent() {
            self.progress.loses();
        }
        if self.progress.has_answer() {
            return self.error(StoreErrorKind::Overloaded, "the server answers, but not this statement in time");
        }
        if self.progress.is_waiting() && self.connections.are_exhausted() {
            return self.error(StoreErrorKind::Overloaded, "the pool has no free connection");
        }
        if self.progress.first_sent().is_some_and(|sent| sent > self.progress.deadline() - self.share_of_time()) {
            return self.error(StoreErrorKind::Overloaded, "the pool has given a connection too late for an answer");
        }
        self.error(StoreErrorKind::Unreachable, "the server does not answer")
    }
}

/// The failed attempts of an operation.
#[derive(Default)]
struct Failures {
    attempts: u32,
    conflicts: u32,
    /// The error of the operation if no other attempt succeeds.
    last: Option<StoreError>,
}

impl Failures {
    /// Decides what follows a failed attempt.
    fn next(&mut self, operation: &Operation<'_, impl Driver>, made: AttemptPlan, failure: Failure) -> RetryDecision {
        let made = made.alone();
        let error = match failure {
            Failure::Together { fault } => {
                fault.into_iter().for_each(|fault| operation.progress.note(fault));
                return RetryDecision::Again(made, Duration::ZERO);
            }
            // The server's clock differs from what was assumed, and the answer has corrected that; or the server is slow.
            Failure::Late => {
                operation.progress.server_answers();
                self.attempts += 1;
                return if self.attempts < ATTEMPTS {
                    RetryDecision::Again(made, Duration::ZERO)
                } else {
                    RetryDecision::Fail(
                        operation.error(StoreErrorKind::Overloaded, "the claim has come too late each time"),
                    )
                };
            }
            Failure::NoConnection(error) => {
                let kind = kind_without_connection(&error, operation.connections.are_exhausted());
                self.attempts += 1;
                return if kind == StoreErrorKind::Unreachable && self.attempts < ATTEMPTS {
                    RetryDecision::Again(made, RECONNECT * self.attempts)
                } else {
                    RetryDecision::Fail(operation.error(kind, error))
                };
            }
            Failure::Corrupt(error) => return RetryDecision::Fail(error),
            Failure::Statement(error) => error,
        };
        let fault = Fault::of(&error);
        operation.progress.note(fault);
        if fault.may_be_shared() {
            operation.connections.distrust(operation.begun.1);
        }
        if fault == Fault::Conflict && self.conflicts + 1 < CONFLICTS {
            self.conflicts += 1;
            return RetryDecision::Again(made, pause(self.conflicts));
        }
        let again = match fault {
            _ if operation.connections.forget_if_stale(&error) => Some(made),
            Fault::Lost if self.attempts == 0 => Some(made),
            Fault::Lost | Fault::Trouble | Fault::Unrecognised => Some(made.without_status()),
            Fault::OpenTransaction | Fault::Standby => Some(made),
            Fault::Overload | Fault::Refused if made.with_status => Some(made.without_status()),
            Fault::Conflict | Fault::Overload | Fault::Refused => None,
        };
        self.attempts += 1;
        match again {
            Some(next) if self.attempts < ATTEMPTS => RetryDecision::Again(next, Duration::ZERO),
            _ => RetryDecision::Fail(operation.error(fault.kind(), error)),
        }
    }
}

/// Returns the pause after a conflict.
fn pause(conflicts: u32) -> Duration {
    let [first, longest] = PAUSES;
    first.saturating_mul(1 << conflicts.saturating_sub(1).min(16)).min(longest).mul_f64(1.0 - fastrand::f64() / 2.0)
}
