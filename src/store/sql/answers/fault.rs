//! Classifies errors of statements, and of connections that could not be made.

use std::error::Error as _;

use tokio::time::{Instant, timeout_at};

use crate::store::{
    StoreError, StoreErrorKind,
    sql::driver::{AcquireError, AcquireErrorKind, Connection, DriverError, class, may_go},
};

/// The SQLSTATEs of our functions on a connection that came with an open transaction: one that has run a query; one that
/// has failed; and one in which a function commits, or would.
const OPEN_TRANSACTION: [&str; 3] = ["25001", FAILED_TRANSACTION, "2D000"];

/// The SQLSTATE of any statement in a transaction that has failed.
const FAILED_TRANSACTION: &str = "25P02";

/// How the SQLSTATEs begin of a connection that the server ends.
const SERVER_ENDS: &str = "57P0";

/// The SQLSTATE of a server, a database or a role that has as many connections as it may have.
const TOO_MANY_CONNECTIONS: &str = "53300";

/// The SQLSTATEs that say that the server does not know whether a statement was carried out, that a lock was not to be had,
/// that a statement took too long, and that the server is a standby.
const COMPLETION_UNKNOWN: &str = "40003";
const LOCK_NOT_AVAILABLE: &str = "55P03";
pub(in crate::store::sql) const UNIQUE_VIOLATION: &str = "23505";
pub(in crate::store::sql) const QUERY_CANCELED: &str = "57014";
pub(in crate::store::sql) const READ_ONLY_TRANSACTION: &str = "25006";

/// The SQLSTATE of a standby that is asked for a serializable transaction, and a part of its message: other errors have it, too.
const FEATURE_NOT_SUPPORTED: &str = "0A000";
const HOT_STANDBY: &str = "hot standby";

/// The fault of a statement, classified by whether it may have been carried out and whether it may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::sql) enum Fault {
    /// It lost against another transaction, and was rolled back. It may succeed later.
    Conflict,
    /// It has failed because another server is away, while this one answers. It may have been carried out, and may succeed later.
    Downstream,
    /// It waited too long for a lock, and was rolled back: for that of another transaction, or of an attempt of the same operation.
    Locked,
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
    /// The server has failed at it, or has ended the connection, and others are answered all the same. It may have been carried out, and may
    /// succeed later.
    Trouble,
    /// The server has answered with an error that the driver cannot tell, or the client has failed: at the parameters, or at the answer. It
    /// may have been carried out.
    Unrecognised,
}

impl Fault {
    /// Classifies an error after which the connection was not asked again: one that [leaves doubt](DriverError::leaves_doubt) is a lost answer.
    pub(in crate::store::sql) fn of(error: &DriverError) -> Self {
        if error.leaves_doubt() { Self::Lost } else { Self::beyond_doubt(error) }
    }

    /// Classifies the error of the last statement on this connection. If it [leaves doubt](DriverError::leaves_doubt), the same connection is
    /// asked once more, until this time: an answer, also that the transaction has failed, shows that the server can be asked.
    pub(in crate::store::sql) async fn of_statement(
        error: &DriverError,
        connection: &mut impl Connection,
        until: Instant,
    ) -> Self {
        if !error.leaves_doubt() {
            return Self::beyond_doubt(error);
        }
        let is_answered = match timeout_at(until, connection.execute("")).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => error.code() == Some(FAILED_TRANSACTION),
            Err(_) => false,
        };
        match error.code() {
            _ if !is_answered => Self::Lost,
            Some(code) if class(code) == "58" => Self::Trouble,
            _ => Self::Downstream,
        }
    }

    fn beyond_doubt(error: &DriverError) -> Self {
        let Some(code) = error.code() else {
            return if error.is_connection_lost() { Self::Lost } else { Self::Unrecognised };
        };
        match code {
            _ if error.is_connection_lost() || code == COMPLETION_UNKNOWN || code.starts_with(SERVER_ENDS) => {
                Self::Trouble
            }
            _ if error.is_conflict() => Self::Conflict,
            _ if OPEN_TRANSACTION.contains(&code) => Self::OpenTransaction,
            LOCK_NOT_AVAILABLE => Self::Locked,
            QUERY_CANCELED => Self::Overload,
            READ_ONLY_TRANSACTION => Self::Standby,
            FEATURE_NOT_SUPPORTED if error.to_string().contains(HOT_STANDBY) => Self::Standby,
            code => match class(code) {
                "53" => Self::Overload,
                "58" | "XX" => Self::Trouble,
                _ => Self::Refused,
            },
        }
    }

    /// Returns whether the statement may have been carried out.
    pub(in crate::store::sql) fn is_lost(self) -> bool {
        matches!(self, Self::Downstream | Self::Lost | Self::Trouble | Self::Unrecognised)
    }

    /// Returns whether the connection must not be used again.
    pub(in crate::store::sql) fn spoils_connection(self) -> bool {
        self.is_lost() || matches!(self, Self::OpenTransaction | Self::Standby)
    }

    /// Returns whether other connections that were idle meanwhile may have the same fault.
    pub(in crate::store::sql) fn may_be_shared(self) -> bool {
        matches!(self, Self::Lost | Self::Standby)
    }

    /// Returns the kind of an operation's error if no other attempt did better.
    pub(in crate::store::sql) fn kind(self) -> StoreErrorKind {
        match self {
            Self::Conflict => StoreErrorKind::Conflict,
            Self::Lost => StoreErrorKind::Interrupted,
            Self::OpenTransaction | Self::Refused | Self::Trouble | Self::Unrecognised => StoreErrorKind::Refused,
            // Each has answered. The primary of a standby may be there, with a record of the key.
            Self::Downstream | Self::Locked | Self::Overload | Self::Standby => StoreErrorKind::Overloaded,
        }
    }
}

/// Returns whether the statement names an object that does not exist, or that the role may not use: the database is not set up for it.
pub(in crate::store::sql) fn is_missing(error: &DriverError) -> bool {
    error.code().is_some_and(|code| matches!(class(code), "3F" | "42"))
}

/// Returns the SQLSTATE of an error's source.
pub(in crate::store::sql) fn sql_state(error: &StoreError) -> Option<&str> {
    error.source()?.downcast_ref::<DriverError>()?.code()
}

/// Returns the kind of the error of an operation that got no connection. `exhausted` says whether all of the pool's
/// connections are in use: if not, its wait was for one that could not be made.
pub(in crate::store::sql) fn kind_without_connection(error: &AcquireError, exhausted: bool) -> StoreErrorKind {
    match error.kind() {
        AcquireErrorKind::NoneFree if exhausted => StoreErrorKind::Overloaded,
        AcquireErrorKind::NoneFree | AcquireErrorKind::Unreachable => StoreErrorKind::Unreachable,
        AcquireErrorKind::Misconfigured => StoreErrorKind::Refused,
        // A server that refuses a login can be asked.
        AcquireErrorKind::Login(code) if may_go(code) => StoreErrorKind::Unreachable,
        AcquireErrorKind::Login(code) if class(code) == "53" => StoreErrorKind::Overloaded,
        AcquireErrorKind::Login(_) => StoreErrorKind::Refused,
    }
}

/// Returns whether the server has refused a login only because it has as many connections as it may have: one that is in use gets free.
pub(in crate::store::sql) fn is_full(error: &AcquireError) -> bool {
    matches!(error.kind(), AcquireErrorKind::Login(code) if code == TOO_MANY_CONNECTIONS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only then may a handler run unprotected, where the policy says so.
    #[test]
    fn a_server_cannot_be_asked_if_the_network_fails_or_it_says_that_it_goes() {
        let lost = [
            DriverError::lost("cut"),
            DriverError::answered("08006", "the pooler has no server", false, "cut"),
            DriverError::answered("57P01", "terminating connection", true, "shut down"),
            DriverError::answered("57P03", "the database system is starting up", true, "starts"),
        ];
        for error in lost {
            assert!(Fault::of(&error).kind().is_unavailable(), "{error}");
        }
        let others = [
            DriverError::unanswered("a column that cannot be read"),
            DriverError::unrecognised("an error without a code", "none"),
            DriverError::answered("40003", "statement completion unknown", false, "unknown"),
            DriverError::answered("57P05", "terminating connection due to idle-session timeout", true, "idle"),
            DriverError::answered("25P03", "terminating connection due to idle-in-transaction timeout", true, "idle"),
            DriverError::answered("XX000", "internal error", false, "a bug"),
        ];
        for error in others {
            assert!(!Fault::of(&error).kind().is_unavailable() && Fault::of(&error).is_lost(), "{error}");
        }
        for code in ["25006", "53300", "55P03", "57014"] {
            let error = DriverError::answered(code, "not now, or not here", false, "no");
            assert_eq!(Fault::of(&error).kind(), StoreErrorKind::Overloaded, "{error}");
        }
        for (code, unavailable) in
            [("57P03", true), ("08006", true), ("57014", false), ("XX000", false), ("28P01", false)]
        {
            let error = AcquireError::new(AcquireErrorKind::Login(code.to_owned()), "no login");
            assert_eq!(kind_without_connection(&error, false).is_unavailable(), unavailable, "{code}");
        }
    }
}
