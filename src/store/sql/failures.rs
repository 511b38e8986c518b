//! Decides what follows a failed attempt of an operation.
//!
//! | the attempt | is repeated |
//! |---|---|
//! | had no answer; or no connection, because the server is away or full | until the deadline, with pauses; while the [contact](super::contact) is lost, once |
//! | waited too long for a lock | until the deadline, with pauses |
//! | lost against another transaction | 9 times, with pauses |
//! | came too late, or had any other fault that may pass | 3 times, at once |
//! | was refused | never; without the status, if that was asked for |

use std::time::Duration;

use super::{
    attempt_connection::Failure,
    driver::{AcquireError, AcquireErrorKind, Driver, DriverError},
    fault::{Fault, is_full, kind_without_connection},
    operation::{AttemptPlan, Operation},
    pause::pause,
};
use crate::store::{StoreError, StoreErrorKind};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The number of attempts, without those after a conflict, a lost answer, or a connection that could not be made.
const ATTEMPTS: u32 = 4;

/// The number of attempts that may end in a conflict. With the pauses they take about a second.
const CONFLICTS: u32 = 10;

/// The failed attempts of an operation.
#[derive(Default)]
pub(super) struct Failures {
    attempts: u32,
    conflicts: u32,
    /// Those that are repeated until the deadline.
    passing: u32,
    /// Why the last of these failed.
    cause: Option<BoxError>,
    /// The error of the operation if no other attempt succeeds.
    pub(super) last: Option<StoreError>,
}

/// The decision after a failed attempt.
pub(super) enum RetryDecision {
    Again(AttemptPlan, Duration),
    Fail(StoreError),
}

impl Failures {
    /// Decides what follows a failed attempt.
    pub(super) fn next(
        &mut self,
        operation: &Operation<'_, impl Driver>,
        made: AttemptPlan,
        failure: Failure,
    ) -> RetryDecision {
        let made = made.alone();
        let (fault, error) = match failure {
            Failure::Together { fault } => {
                fault.into_iter().for_each(|fault| operation.progress().note(fault));
                return RetryDecision::Again(made, Duration::ZERO);
            }
            // The server's clock differs from what was assumed, and the answer has corrected that; or the server is slow.
            Failure::Late => {
                operation.progress().server_answers();
                self.attempts += 1;
                return if self.attempts < ATTEMPTS {
                    RetryDecision::Again(made, Duration::ZERO)
                } else {
                    RetryDecision::Fail(
                        operation.error(StoreErrorKind::Overloaded, "the claim has come too late each time"),
                    )
                };
            }
            Failure::NoConnection(error) => return self.without_connection(operation, made, error),
            Failure::Corrupt(error) => return RetryDecision::Fail(error),
            Failure::Statement { fault, error } => (fault, error),
        };
        operation.progress().note(fault);
        operation.connections().note(fault, operation.begun());
        if fault == Fault::Conflict && self.conflicts + 1 < CONFLICTS {
            self.conflicts += 1;
            return RetryDecision::Again(made, pause(self.conflicts));
        }
        let again = match fault {
            _ if operation.connections().forget_if_stale(&error) => Some(made),
            Fault::Lost => return self.without_answer(operation, made, error),
            Fault::Locked => {
                self.passing += 1;
                return self.again(made, pause(self.passing), error);
            }
            Fault::Downstream | Fault::Trouble | Fault::Unrecognised => Some(made.without_status()),
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

    /// Repeats an attempt whose answer was lost, at first at once: its connection may have been idle for long. While the contact is lost, a
    /// second one decides.
    fn without_answer(
        &mut self,
        operation: &Operation<'_, impl Driver>,
        made: AttemptPlan,
        error: DriverError,
    ) -> RetryDecision {
        self.passing += 1;
        match self.passing {
            1 => self.again(made, Duration::ZERO, error),
            _ if operation.cannot_be_asked() => RetryDecision::Fail(operation.error(Fault::Lost.kind(), error)),
            repeated => self.again(made.without_status(), pause(repeated - 1), error),
        }
    }

    /// Repeats an attempt that had no connection, if one may be had later: the server may be away, or full.
    fn without_connection(
        &mut self,
        operation: &Operation<'_, impl Driver>,
        made: AttemptPlan,
        error: AcquireError,
    ) -> RetryDecision {
        let kind = kind_without_connection(&error, operation.connections().are_exhausted());
        self.passing += 1;
        if kind.is_unavailable() {
            operation.connections().fails();
        } else if matches!(error.kind(), AcquireErrorKind::Login(_)) {
            operation.progress().server_answers();
        }
        match kind.is_unavailable() {
            true if operation.cannot_be_asked() => RetryDecision::Fail(operation.error(kind, error)),
            false if !is_full(&error) => RetryDecision::Fail(operation.error(kind, error)),
            _ => self.again(made, pause(self.passing), error),
        }
    }

    fn again(&mut self, next: AttemptPlan, pause: Duration, cause: impl Into<BoxError>) -> RetryDecision {
        self.cause = Some(cause.into());
        RetryDecision::Again(next, pause)
    }

    /// Returns the error if no attempt is made any more.
    pub(super) fn error(self, operation: &Operation<'_, impl Driver>) -> StoreError {
        match self.last {
            Some(error) => error,
            None => self.out_of_time(operation),
        }
    }

    /// Returns the error at the deadline, while attempts have not answered.
    pub(super) fn out_of_time(self, operation: &Operation<'_, impl Driver>) -> StoreError {
        // From here on nothing more is sent, so that the next lines decide on all that was sent.
        operation.progress().ends();
        if operation.progress().is_sent() {
            operation.progress().loses();
        }
        let (kind, reason) = match operation.reason_without_answer() {
            Some(reason) => (StoreErrorKind::Overloaded, reason),
            None => (StoreErrorKind::Unreachable, "the server does not answer"),
        };
        operation.error(kind, self.cause.unwrap_or_else(|| reason.into()))
    }
}
