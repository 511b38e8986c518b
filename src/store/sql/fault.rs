//! What an error says about a statement, or about a connection that was not made.

use std::error::Error as _;

use super::driver::{AcquireError, AcquireErrorKind, DriverError, class};
use crate::store::{StoreError, StoreErrorKind};

/// The SQLSTATEs of our functions on a connection that came with an open transaction: one that has run a query; one that
/// has failed; and one in which a function commits, or would.
const OPEN_TRANSACTION: [&str; 3] = ["25001", "25P02", "2D000"];

/// The SQLSTATEs that say that the server does not know whether a statement was carried out, that a lock was not to be had,
/// that a statement took too long, and that the server is a standby.
const COMPLETION_UNKNOWN: &str = "40003";
const LOCK_NOT_AVAILABLE: &str = "55P03";
pub(super) const QUERY_CANCELED: &str = "57014";
pub(super) const READ_ONLY_TRANSACTION: &str = "25006";

/// The SQLSTATE of a standby that is asked for a serializable transaction, and a part of its message: other errors have it, too.
const FEATURE_NOT_SUPPORTED: &str = "0A000";
const HOT_STANDBY: &str = "hot standby";

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
    /// The server has answered with an error that the driver cannot tell. It may have been carried out.
    Unrecognised,
}

impl Fault {
    pub(super) fn of(error: &DriverError) -> Self {
        let Some(code) = error.code() else {
            return if error.is_answer() { Self::Unrecognised } else { Self::Lost };
        };
        match code {
            _ if error.is_connection_lost() || code == COMPLETION_UNKNOWN => Self::Lost,
            _ if error.is_conflict() => Self::Conflict,
            _ if OPEN_TRANSACTION.contains(&code) => Self::OpenTransaction,
            LOCK_NOT_AVAILABLE | QUERY_CANCELED => Self::Overload,
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
    pub(super) fn is_lost(self) -> bool {
        matches!(self, Self::Lost | Self::Trouble | Self::Unrecognised)
    }

    /// Returns whether the connection must not be used again.
    pub(super) fn spoils_connection(self) -> bool {
        matches!(self, Self::Lost | Self::OpenTransaction | Self::Standby | Self::Trouble | Self::Unrecognised)
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
            Self::OpenTransaction | Self::Refused | Self::Trouble | Self::Unrecognised => StoreErrorKind::Refused,
            Self::Overload => StoreErrorKind::Overloaded,
            Self::Standby => StoreErrorKind::Unreachable,
        }
    }
}

/// Returns the SQLSTATE of an error's source.
pub(super) fn sql_state(error: &StoreError) -> Option<&str> {
    error.source()?.downcast_ref::<DriverError>()?.code()
}

/// Returns the kind of the error of an operation that got no connection. `exhausted` says whether all of the pool's
/// connections are in use: if not, its wait was for one that could not be made.
pub(super) fn kind_without_connection(error: &AcquireError, exhausted: bool) -> StoreErrorKind {
    match error.kind() {
        AcquireErrorKind::NoneFree if exhausted => StoreErrorKind::Overloaded,
        AcquireErrorKind::NoneFree | AcquireErrorKind::Unreachable => StoreErrorKind::Unreachable,
        AcquireErrorKind::Misconfigured => StoreErrorKind::Refused,
        // A server that refuses a login can be asked.
        AcquireErrorKind::Login(code) => match class(code) {
            "08" | "57" | "58" | "XX" => StoreErrorKind::Unreachable,
            "53" => StoreErrorKind::Overloaded,
            _ => StoreErrorKind::Refused,
        },
    }
}
