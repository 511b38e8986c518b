//! [`Limit`].

use super::Rejection;
use crate::telemetry::ProcedureTelemetry;

/// A limit that a call would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    InFlight,
    InFlightPerUser,
    Transactions,
    TransactionsPerUser,
    /// Of outcomes that wait to be recorded.
    Unrecorded,
    Waiting,
    WaitingBytes,
    WaitingPerUser,
    /// Of those that wait for the end of a call without being one.
    Watching,
    WatchingPerUser,
}

impl Limit {
    /// Counts the refusal of a call, and returns it.
    pub(crate) fn reject(self, telemetry: &ProcedureTelemetry) -> Rejection {
        let rejection = Rejection::Limit(self);
        telemetry.overloaded(rejection.reason().as_str(), self.as_str());
        rejection
    }

    /// The value of the metric's label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::InFlightPerUser => "in_flight_per_user",
            Self::TransactionsPerUser => "transactions_per_user",
            Self::WaitingPerUser => "waiting_per_user",
            Self::WatchingPerUser => "watching_per_user",
            of_all => of_all.name(),
        }
    }

    /// The name that clients are told.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::InFlight | Self::InFlightPerUser => "in_flight",
            Self::Transactions | Self::TransactionsPerUser => "transactions",
            Self::Unrecorded => "unrecorded",
            Self::Waiting | Self::WaitingPerUser => "waiting",
            Self::WaitingBytes => "waiting_bytes",
            Self::Watching | Self::WatchingPerUser => "watching",
        }
    }

    /// Whose limit it is: that of all callers of the server, or of this one.
    pub(super) fn of(self) -> &'static str {
        if self.is_of_caller() { "caller" } else { "server" }
    }

    pub(super) fn is_of_caller(self) -> bool {
        match self {
            Self::InFlightPerUser | Self::TransactionsPerUser | Self::WaitingPerUser | Self::WatchingPerUser => true,
            Self::InFlight
            | Self::Transactions
            | Self::Unrecorded
            | Self::Waiting
            | Self::WaitingBytes
            | Self::Watching => false,
        }
    }

    /// The message for the client.
    pub(super) fn message(self) -> &'static str {
        match self {
            Self::InFlight => "the server has as many calls in flight as it may; retry with the same key",
            Self::InFlightPerUser => {
                "you have as many calls in flight as one caller may; retry with the same key when some of them have ended"
            }
            Self::Transactions => "the server has as many transactions as its pool may have; retry with the same key",
            Self::TransactionsPerUser => {
                "you have as many transactions as one caller may; retry with the same key when some of your calls have ended"
            }
            Self::Unrecorded => "the server has as many outcomes to record as it may; retry with the same key",
            Self::Waiting | Self::WaitingBytes => {
                "the server has as many calls that wait for another one as it may; retry with the same key"
            }
            Self::WaitingPerUser => {
                "you have as many calls that wait for another one as one caller may; retry with the same key when some of them have ended"
            }
            Self::Watching => "the server has as many requests that wait for the end of a call as it may; retry later",
            Self::WatchingPerUser => {
                "you have as many requests that wait for the end of a call as one caller may; retry when some of them have ended"
            }
        }
    }
}
