//! Decides what follows a failed attempt of an operation, and to which error the failures lead.
//!
//! | the attempt | is repeated |
//! |---|---|
//! | had no answer; or no connection, because the server is away or full | until the deadline, with pauses; while the [contact](crate::store::sql::answers::Contact) is lost, once |
//! | waited too long for a lock | until the deadline, with pauses |
//! | lost against another transaction | 9 times, with pauses |
//! | came too late, or had any other fault that may pass | 3 times, at once |
//! | was refused | never; without the status, if that was asked for |

use std::{error::Error, sync::Arc, time::Duration};

use super::{attempt_plan::AttemptPlan, begun::Begun};
use crate::store::{
    StoreError, StoreErrorKind,
    sql::{
        answers::{Fault, OperationProgress, is_full, kind_without_connection},
        connections::{Connections, Failure, pause, share_of},
        driver::{AcquireError, AcquireErrorKind, ConnectionPool, DriverError},
    },
};

type BoxError = Box<dyn Error + Send + Sync>;

/// The number of attempts, without those that are repeated until the deadline.
const ATTEMPTS: u32 = 4;

/// The number of attempts that may end in a conflict. With the pauses they take about a second.
const CONFLICTS: u32 = 10;

/// The failed attempts of an operation.
pub(super) struct Failures<'a, D: ConnectionPool> {
    connections: &'a Connections<D>,
    progress: &'a Arc<OperationProgress>,
    /// When the operation began, by tokio's clock and by the system's.
    begun: Begun,
    /// Whether attempts leave nothing behind if their answers are lost.
    leaves_nothing: bool,
    attempts: u32,
    conflicts: u32,
    /// The attempts that are repeated until the deadline, and why the last of them failed.
    passing: u32,
    cause: Option<BoxError>,
    /// The error of the operation if no other attempt succeeds.
    last: Option<StoreError>,
}

impl<'a, D: ConnectionPool> Failures<'a, D> {
    pub(super) fn new(
        connections: &'a Connections<D>,
        progress: &'a Arc<OperationProgress>,
        begun: Begun,
        leaves_nothing: bool,
    ) -> Self {
        let (attempts, conflicts, passing, cause, last) = Default::default();
        Self { connections, progress, begun, leaves_nothing, attempts, conflicts, passing, cause, last }
    }

    /// Returns the next attempt and the pause before it; `None` if there is none.
    pub(super) fn next(&mut self, made: AttemptPlan, failure: Failure) -> Option<(AttemptPlan, Duration)> {
        let made = made.alone();
        let (fault, error) = match failure {
            Failure::Together { fault } => {
                fault.into_iter().for_each(|fault| self.progress.note(fault));
                return Some((made, Duration::ZERO));
            }
            // The server's clock differs from what was assumed, and the answer has corrected that; or the server is slow.
            Failure::Late => {
                self.progress.server_answers();
                return self.at_once(Some(made), StoreErrorKind::Overloaded, "the claim has come too late each time");
            }
            Failure::NoConnection(error) => return self.without_connection(made, error),
            Failure::Corrupt(error) => {
                self.last = Some(error);
                return None;
            }
            Failure::Statement { fault, error } => (fault, error),
        };
        self.progress.note(fault);
        self.connections.note(fault, self.begun.for_pools);
        if fault == Fault::Conflict && self.conflicts + 1 < CONFLICTS {
            self.conflicts += 1;
            return Some((made, pause(self.conflicts)));
        }
        let next = match fault {
            _ if self.connections.forget_if_stale(&error) => Some(made),
            Fault::Lost => return self.without_answer(made, error),
            Fault::Locked => return self.later(made, error),
            Fault::Downstream | Fault::Trouble | Fault::Unrecognised => Some(made.without_status()),
            Fault::OpenTransaction | Fault::Standby => Some(made),
            Fault::Overload | Fault::Refused if made.with_status => Some(made.without_status()),
            Fault::Conflict | Fault::Overload | Fault::Refused => None,
        };
        self.at_once(next, fault.kind(), error)
    }

    /// Returns the error if no attempt is made any more.
    pub(super) fn error(mut self) -> StoreError {
        self.last.take().unwrap_or_else(|| self.out_of_time())
    }

    /// Returns the error at the deadline, while attempts have not answered.
    pub(super) fn out_of_time(mut self) -> StoreError {
        // From here on nothing more is sent, so that the next lines decide on all that was sent.
        self.progress.ends();
        if self.progress.is_sent() {
            self.progress.loses();
        }
        let (kind, reason) = match self.reason_without_answer() {
            Some(reason) => (StoreErrorKind::Overloaded, reason),
            None => (StoreErrorKind::Unreachable, "the server does not answer"),
        };
        let cause = self.cause.take().unwrap_or_else(|| reason.into());
        self.error_of(kind, cause)
    }

    /// Repeats an attempt whose answer was lost, at first at once: its connection may have been idle for long. While the contact is lost, a
    /// second one decides.
    fn without_answer(&mut self, made: AttemptPlan, error: DriverError) -> Option<(AttemptPlan, Duration)> {
        if self.passing == 0 {
            return self.later(made, error).map(|(next, _)| (next, Duration::ZERO));
        }
        if self.cannot_be_asked() {
            self.last = Some(self.error_of(Fault::Lost.kind(), error));
            return None;
        }
        self.later(made.without_status(), error)
    }

    /// Repeats an attempt that had no connection, if one may be had later: the server may be away, or full.
    fn without_connection(&mut self, made: AttemptPlan, error: AcquireError) -> Option<(AttemptPlan, Duration)> {
        let kind = kind_without_connection(&error, self.connections.are_exhausted());
        if kind.is_unavailable() {
            self.connections.fails();
        } else if matches!(error.kind(), AcquireErrorKind::Login(_)) {
            self.progress.server_answers();
        }
        let passes = if kind.is_unavailable() { !self.cannot_be_asked() } else { is_full(&error) };
        if passes {
            return self.later(made, error);
        }
        self.last = Some(self.error_of(kind, error));
        None
    }

    fn later(&mut self, next: AttemptPlan, cause: impl Into<BoxError>) -> Option<(AttemptPlan, Duration)> {
        self.passing += 1;
        self.cause = Some(cause.into());
        Some((next, pause(self.passing)))
    }

    fn at_once(
        &mut self,
        next: Option<AttemptPlan>,
        kind: StoreErrorKind,
        cause: impl Into<BoxError>,
    ) -> Option<(AttemptPlan, Duration)> {
        self.attempts += 1;
        let next = next.filter(|_| self.attempts < ATTEMPTS);
        if next.is_none() {
            self.last = Some(self.error_of(kind, cause));
        }
        next.map(|next| (next, Duration::ZERO))
    }

    /// Makes the operation's error. If any attempt may have taken effect, the operation may have.
    fn error_of(&self, kind: StoreErrorKind, cause: impl Into<BoxError>) -> StoreError {
        let lost = self.progress.has_lost() && !self.leaves_nothing;
        let kind = match (kind.is_unavailable(), lost) {
            (true, true) => StoreErrorKind::Interrupted,
            (true, false) => StoreErrorKind::Unreachable,
            (false, _) => kind,
        };
        let error = StoreError::new(kind, cause);
        if lost { error.after_a_lost_answer() } else { error }
    }

    /// Returns why the server may be asked although the operation has no answer at its deadline; `None` if it cannot be asked.
    fn reason_without_answer(&self) -> Option<&'static str> {
        let (progress, connections, deadline) = (self.progress, self.connections, self.progress.deadline());
        let last_share = deadline - share_of(deadline.saturating_duration_since(self.begun.at));
        match () {
            () if progress.has_answer() => Some("the server answers, but not this statement in time"),
            () if progress.is_waiting() && connections.are_exhausted() && !connections.fail_to_be_made() => {
                Some("the pool has no free connection")
            }
            () if progress.first_sent().is_some_and(|sent| sent > last_share) => {
                Some("the pool has given a connection too late for an answer")
            }
            () if !self.cannot_be_asked() => Some("the server answers others, but not this call"),
            () => None,
        }
    }

    /// Returns whether no operation of the process, this one included, has had an answer for one timeout.
    fn cannot_be_asked(&self) -> bool {
        let (begun, connections) = (self.begun.at, self.connections);
        let lasts =
            begun.elapsed() >= connections.timeout_of_operations() && !connections.contact().has_answered(begun);
        !self.progress.has_answer() && (lasts || connections.contact_is_lost())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, advance};

    use super::*;
    use crate::store::sql::batch::fake::Fake;

    /// The contact is lost already, so that the next attempt is the last one, long before the time of the call is over.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_a_shared_statement_loses_is_lost_to_each_of_its_calls() {
        for (fault, kind) in [(Some(Fault::Lost), StoreErrorKind::Interrupted), (None, StoreErrorKind::Unreachable)] {
            let connections = Connections::new(Fake::new(), Arc::default());
            for _ in 0..3 {
                connections.fails();
                advance(connections.timeout_of_operations() / 2).await;
            }
            let progress = Arc::new(OperationProgress::new(connections.deadline(), Arc::default()));
            let begun = Begun::at(Instant::now());
            let mut failures = Failures::new(&connections, &progress, begun, false);
            let plan = AttemptPlan { with_status: false, together: true, in_doubt: false };
            let (plan, _) = failures.next(plan, Failure::Together { fault }).expect("an attempt of its own");
            let away = AcquireError::new(AcquireErrorKind::Unreachable, "no server");
            assert!(failures.next(plan, Failure::NoConnection(away)).is_none());
            let error = failures.error();
            assert_eq!((error.kind(), error.may_have_happened()), (kind, fault.is_some()));
        }
    }
}
