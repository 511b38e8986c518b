//! What an error says about a statement, or about a connection that was not made.

use std::error::Error as _;

use deadpool_postgres::{HookError, PoolError, TimeoutType};
use tokio_postgres::{
    Error,
    error::{DbError, Severity, SqlState},
};

use crate::store::{StoreError, StoreErrorKind};

/// The SQLSTATEs of our functions on a connection that came with an open transaction: one that has run a query; one that
/// has failed; and one in which a function commits, or would.
const OPEN_TRANSACTION: [SqlState; 3] =
    [SqlState::ACTIVE_SQL_TRANSACTION, SqlState::IN_FAILED_SQL_TRANSACTION, SqlState::INVALID_TRANSACTION_TERMINATION];

/// What an error says about its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It lost against another transaction, and was rolled back. It may succeed later.
    Conflict,
    /// Its answer was lost: the server that the connection led to is gone, or does not say. It may have been carried
    /// out.
    Lost,
    /// It was rolled back: the connection came with an open transaction. It may succeed on another connection.
    OpenTransaction,
    /// It was rolled back: the server is busy, or the statement took too long.
    Overload,
    /// It was refused, and rolled back.
    Refused,
    /// It was rolled back: the server is a standby. After a failover, another connection leads to the primary.
    Standby,
    /// The server has failed at it, and answers all the same. It may have been carried out, and may succeed later.
    Trouble,
}

impl Fault {
    pub(super) fn of(error: &Error) -> Self {
        let Some(code) = error.code() else { return Self::Lost };
        if connection_lost(error) || *code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN {
            return Self::Lost;
        }
        match code.code() {
            _ if in_conflict(error) => Self::Conflict,
            _ if OPEN_TRANSACTION.contains(code) => Self::OpenTransaction,
            _ if [SqlState::LOCK_NOT_AVAILABLE, SqlState::QUERY_CANCELED].contains(code) => Self::Overload,
            _ if *code == SqlState::READ_ONLY_SQL_TRANSACTION => Self::Standby,
            code => match class(code) {
                "53" => Self::Overload,
                "58" | "XX" => Self::Trouble,
                _ => Self::Refused,
            },
        }
    }

    /// Returns whether the statement may have been carried out.
    pub(super) fn is_lost(self) -> bool {
        matches!(self, Self::Lost | Self::Trouble)
    }

    /// Returns whether the connection must not be used again.
    pub(super) fn spoils_connection(self) -> bool {
        matches!(self, Self::Lost | Self::OpenTransaction | Self::Standby | Self::Trouble)
    }

    /// Returns whether other connections that were idle meanwhile may have the same fault.
    pub(super) fn may_be_shared(self) -> bool {
        matches!(self, Self::Lost | Self::Standby)
    }

    /// Returns the kind of an operation's error if no other attempt did better.
    pub(super) fn kind(self) -> StoreErrorKind {
        match self {
            Self::Conflict => StoreErrorKind::Conflict,
            Self::Lost => StoreErrorKind::Interrupted,
            Self::OpenTransaction | Self::Refused | Self::Trouble => StoreErrorKind::Refused,
            Self::Overload => StoreErrorKind::Overloaded,
            Self::Standby => StoreErrorKind::Unreachable,
        }
    }
}

/// Returns whether the connection was lost.
///
/// PgBouncer keeps its client's connection when it loses the server's, and answers with a code of class 08.
pub(super) fn connection_lost(error: &Error) -> bool {
    match error.as_db_error() {
        None => error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>()),
        Some(answer) => {
            let code = answer.code().code();
            is_fatal(answer) || class(code) == "08" || code.starts_with("57P0")
        }
    }
}

/// Returns whether a statement lost against another transaction: the same statement may succeed later.
pub(super) fn in_conflict(error: &Error) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code))
}

/// Returns the SQLSTATE of an error's source.
pub(super) fn sql_state(error: &StoreError) -> Option<&SqlState> {
    error.source()?.downcast_ref::<Error>()?.code()
}

/// Returns the kind of the error of an operation that got no connection. `exhausted` says whether all of the pool's
/// connections are in use: if not, its wait was for one that could not be made.
pub(super) fn kind_without_connection(error: &PoolError, exhausted: bool) -> StoreErrorKind {
    match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => kind_of_login(error),
        PoolError::Closed | PoolError::Timeout(TimeoutType::Create | TimeoutType::Recycle) => {
            StoreErrorKind::Unreachable
        }
        PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(HookError::Message(_)) => StoreErrorKind::Refused,
        PoolError::Timeout(TimeoutType::Wait) if exhausted => StoreErrorKind::Overloaded,
        PoolError::Timeout(TimeoutType::Wait) => StoreErrorKind::Unreachable,
    }
}

/// Returns the kind of the error of an operation whose connection was not made. A server that refuses a login can be
/// asked.
fn kind_of_login(error: &Error) -> StoreErrorKind {
    let Some(answer) = error.as_db_error() else {
        let mut cause = error.source();
        let Some(_) = cause else { return StoreErrorKind::Unreachable };
        while let Some(error) = cause {
            if error.is::<std::io::Error>() {
                return StoreErrorKind::Unreachable;
            }
            cause = error.source();
        }
        return StoreErrorKind::Refused;
    };
    match class(answer.code().code()) {
        "08" | "57" | "58" | "XX" => StoreErrorKind::Unreachable,
        "53" => StoreErrorKind::Overloaded,
        _ => StoreErrorKind::Refused,
    }
}

/// Returns whether the server ends the connection after this answer. Poolers may leave out the field that has the same
/// text in every language.
fn is_fatal(answer: &DbError) -> bool {
    match answer.parsed_severity() {
        Some(severity) => matches!(severity, Severity::Fatal | Severity::Panic),
        None => answer.severity() != "ERROR",
    }
}

fn class(code: &str) -> &str {
    code.get(..2).unwrap_or_default()
}
