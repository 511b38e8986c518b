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

use super::{attempt_plan::AttemptPlan, begun::Begun, failures::Failures};
use crate::{
    policy::Isolation,
    store::{
        StoreError,
        sql::{
            answers::{OperationProgress, RunningOperation, WaitingAttempt},
            batch::{Kind, Lane, SendMode},
            connections::{AttemptConnection, Connections, Failure, Reset, share_of},
            driver::{Connection as _, ConnectionPool, Statement},
            statements::{RowOf, WHO, begin, only_row},
        },
    },
};

/// The number of retries, and the pause before each, after an answer that may be about an attempt of the same operation: one
/// that was given up here, and that the server has not ended yet.
const ASK_AGAIN: (u32, Duration) = (20, Duration::from_millis(50));

/// An operation on the connections of a pool.
pub(in crate::store::sql) struct StoreOperation<'a, D: ConnectionPool> {
    connections: &'a Connections<D>,
    progress: Arc<OperationProgress>,
    /// When it began: by tokio's clock for its own alarms, by the system's for the age of the pool's connections.
    begun: Begun,
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

impl<'a, D: ConnectionPool> StoreOperation<'a, D> {
    pub(in crate::store::sql) fn new(connections: &'a Connections<D>) -> Self {
        let begun = Instant::now();
        Self::from_until(connections, begun, begun + connections.timeout_of_operations())
    }

    /// Makes an operation with a deadline of its own.
    pub(super) fn until(connections: &'a Connections<D>, deadline: Instant) -> Self {
        Self::from_until(connections, Instant::now(), deadline)
    }

    fn from_until(connections: &'a Connections<D>, begun: Instant, deadline: Instant) -> Self {
        Self {
            connections,
            progress: Arc::new(OperationProgress::new(deadline, Arc::clone(connections.contact()))),
            begun: Begun::at(begun),
            time_for_status: None,
            one_at_a_time: false,
            leaves_nothing: false,
        }
    }

    /// Asks for the status as well, if it is wanted, unless too many statuses are overdue.
    pub(in crate::store::sql) fn with_status(self, wanted: bool) -> Self {
        Self { time_for_status: if wanted { self.connections.time_for_status() } else { None }, ..self }
    }

    /// Makes one attempt at a time: silence leads to no second attempt beside it.
    pub(super) fn one_at_a_time(self) -> Self {
        Self { one_at_a_time: true, ..self }
    }

    /// Declares that attempts leave nothing behind if their answers are lost.
    pub(in crate::store::sql) fn leaving_nothing(self) -> Self {
        Self { leaves_nothing: true, ..self }
    }

    /// Makes attempts until one succeeds, or the operation fails. An answer that is not conclusive counts only if no
    /// other attempt has a better one.
    pub(in crate::store::sql) async fn run<T, F>(
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
                let made = made.await;
                if made.is_ok() {
                    self.connections.contact().answers();
                }
                (next, made)
            }
        };
        let first = AttemptPlan { with_status: self.time_for_status.is_some(), together: true, in_doubt: false };
        let mut attempts = FuturesUnordered::new();
        attempts.push(make(first, Duration::ZERO));
        let _running = RunningOperation(&self.progress);
        let mut failures = Failures::new(self.connections, &self.progress, self.begun, self.leaves_nothing);
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
                    Some((made, Err(failure))) => {
                        let next = failures.next(made, failure);
                        attempts.extend(next.map(|(next, pause)| make(next, pause)));
                    }
                    None => return inconclusive.ok_or_else(|| failures.error()),
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
        inconclusive.ok_or_else(|| failures.out_of_time())
    }

    /// Returns the time after which an attempt that has not answered leads to a further one.
    fn share_of_time(&self) -> Duration {
        share_of(self.progress.deadline().saturating_duration_since(self.begun.at))
    }

    /// Returns the alarms in the order of their times.
    fn alarms(&self) -> impl Iterator<Item = (Instant, Alarm)> + use<D> {
        let (begun, deadline, share) = (self.begun.at, self.progress.deadline(), self.share_of_time());
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
                    connections.distrust(self.begun.for_pools);
                }
                Reaction::TryBeside { with_status: false }
            }
        }
    }

    pub(in crate::store::sql) fn connections(&self) -> &'a Connections<D> {
        self.connections
    }

    pub(in crate::store::sql) fn progress(&self) -> &Arc<OperationProgress> {
        &self.progress
    }

    /// Decides how an attempt goes: the first may wait for the answer of a batch, all others go alone.
    pub(in crate::store::sql) async fn share<K: Kind>(
        &self,
        attempt: AttemptPlan,
        lane: &Lane<D, K>,
        item: impl FnOnce() -> K::Item,
    ) -> Result<SendMode<D, K>, Failure> {
        if attempt.together { lane.enter(&self.progress, item).await } else { Ok(SendMode::Alone(None)) }
    }

    /// Runs a statement that has one row as an attempt.
    pub(in crate::store::sql) async fn query_one(
        &self,
        attempt: AttemptPlan,
        statement: Statement<'_>,
    ) -> Result<RowOf<D>, Failure> {
        let mut asked = self.connect(attempt, Reset::Nothing).await?;
        let row = asked.query(statement).await.and_then(only_row);
        asked.answered(row).await
    }

    /// Calls a function as an attempt, in a transaction of its own: a function cannot tell whether a transaction was left open on the
    /// connection, in which it would read stale rows and leave its settings behind. A function that writes has its transaction committed. A
    /// statement that only reads is cancelled if it has no answer in time.
    pub(in crate::store::sql) async fn call(
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
            Err(error) => Err(asked.failed(error).await),
        }
    }

    /// Runs the statement of a kind for one item as an attempt.
    pub(in crate::store::sql) async fn run_alone<K: Kind>(
        &self,
        attempt: AttemptPlan,
        item: &K::Item,
    ) -> Result<Option<K::Answer>, Failure> {
        let mut asked = self.connect(attempt, Reset::Nothing).await?;
        let until = (self.connections.clock(), self.progress.deadline());
        let answers = K::run(&mut *asked, self.connections.sql(), until, &[item]).await;
        asked.answered(answers.map(|answers| answers.into_iter().next().flatten())).await
    }

    /// Takes a connection out of the pool, or makes one. An attempt in doubt looks first whether the server can be asked: in a
    /// round trip of its own. If a client leaves between two answers, PgBouncer before version 1.21 gives its server, and with it
    /// the second answer, to another client.
    pub(in crate::store::sql) async fn connect(
        &self,
        attempt: AttemptPlan,
        reset: Reset,
    ) -> Result<AttemptConnection<'_, D>, Failure> {
        let waiting = WaitingAttempt::new(&self.progress);
        let connection = self.connections.acquire().await.map_err(Failure::NoConnection)?;
        drop(waiting);
        self.progress.sends();
        let mut asked = AttemptConnection::new(connection, reset, self.connections, &self.progress);
        if attempt.in_doubt {
            asked.look_whether_it_answers().await;
        }
        Ok(asked)
    }
}
