//! Classifies the errors of statements in a handler's transaction.

use std::{error::Error, fmt, sync::Arc};

use tonic::{Code, Status};

use super::DriverError;
use crate::telemetry::{Chain, rarely};

/// The kind of the error of a statement in a handler's transaction.
///
/// | kind | status |
/// |---|---|
/// | `Conflict` | `ABORTED` |
/// | `Ended`, `Missing`, `Refused`, `SavepointEnded` | `INTERNAL` |
/// | `Lost` | `UNAVAILABLE` |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransactionErrorKind {
    /// The transaction lost against another transaction, by a serialization failure or a deadlock; or a change of the schema has made a
    /// prepared statement stale. The whole call may succeed if it is tried again. The layer tells the client so, whatever the handler answers.
    Conflict,
    /// The call that the transaction belongs to has ended.
    Ended,
    /// The connection was lost, and the server rolls back everything that was written.
    Lost,
    /// The request has no transaction: there is no layer around the service, or the layer has no store, or one in memory; or
    /// the procedure is not transactional.
    Missing,
    /// The server refused the statement, or the statement cannot be sent.
    Refused,
    /// The savepoint that the handle belongs to has ended, on its own or together with one that was set before it.
    SavepointEnded,
}

impl TransactionErrorKind {
    /// Returns the status of the table above, which tells the client nothing about the database. `Missing` is a mistake in the
    /// server's code, and says so.
    pub fn status(self) -> Status {
        match self {
            Self::Conflict => Status::new(Code::Aborted, "the call lost against another call; retry"),
            Self::Lost => Status::new(Code::Unavailable, "the database cannot be reached; retry"),
            // A mistake in the server's code, which says nothing about the database.
            Self::Missing => Status::new(Code::Internal, self.to_string()),
            Self::Ended | Self::Refused | Self::SavepointEnded => {
                Status::new(Code::Internal, "internal database error")
            }
        }
    }

    /// Returns [`status`](Self::status) with the error as its source, where the layer looks for conflicts. Logs the error with its
    /// causes, which the client does not see: at `WARN` at most once a minute for each kind, else at `DEBUG`. For the authors of drivers.
    pub fn status_of(self, error: impl Error + Send + Sync + 'static) -> Status {
        match rarely("statement_failed", self.to_string()) {
            Some(statements) => {
                tracing::warn!(error = %Chain(&error), statements, "a statement of a transactional handler failed");
            }
            None => tracing::debug!(error = %Chain(&error), "a statement of a transactional handler failed"),
        }
        let mut status = self.status();
        status.set_source(Arc::new(error));
        status
    }
}

impl fmt::Display for TransactionErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Conflict => "the transaction lost against another transaction",
            Self::Ended => "the call that this transaction belongs to has ended",
            Self::Lost => "the transaction's connection was lost",
            Self::Missing => {
                "no Transaction in the request: is the idempotency layer around this service, and the procedure \
                 transactional? (a layer without a store, or with a MemoryStore, has no transactions to give)"
            }
            Self::Refused => "the statement failed",
            Self::SavepointEnded => "the savepoint that this handle belongs to has ended",
        })
    }
}

impl From<&DriverError> for TransactionErrorKind {
    fn from(error: &DriverError) -> Self {
        match () {
            () if error.is_connection_lost() => Self::Lost,
            () if error.is_worth_another_run() => Self::Conflict,
            () => Self::Refused,
        }
    }
}
