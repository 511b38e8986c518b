//! The errors of the server: [`SqlError`].

use tonic_idempotency::store::driver::DriverError;

/// An error that the server answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SqlError {
    pub(super) code: &'static str,
    message: &'static str,
    /// Whether the session ends with it.
    is_fatal: bool,
}

impl SqlError {
    pub(super) const ACTIVE_TRANSACTION: Self = Self::new("25001", "SET TRANSACTION must be called before any query");
    pub(super) const ADMIN_SHUTDOWN: Self = Self::fatal("57P01", "terminating connection due to administrator command");
    pub(super) const CANCELED: Self = Self::new("57014", "canceling statement due to user request");
    pub(super) const CRASH: Self =
        Self::fatal("57P02", "terminating connection because of crash of another server process");
    pub(super) const DEADLOCK: Self = Self::new("40P01", "deadlock detected");
    pub(super) const DISK_FULL: Self = Self::new("53100", "could not extend file: No space left on device");
    pub(super) const ENDED_BY_HANDLER: Self = Self::new("TI002", "the handler ended the transaction of the call");
    pub(super) const FAILED_TRANSACTION: Self = Self::new("25P02", "current transaction is aborted");
    pub(super) const FORBIDDEN_COMMIT: Self = Self::new("2D000", "invalid transaction termination");
    pub(super) const IDLE: Self = Self::fatal("25P03", "terminating connection due to idle-in-transaction timeout");
    pub(super) const INTERNAL: Self = Self::new("XX000", "internal error");
    pub(super) const LOCK_NOT_AVAILABLE: Self = Self::new("55P03", "canceling statement due to lock timeout");
    pub(super) const LOST_BY_POOLER: Self = Self::new("08006", "server conn crashed?");
    pub(super) const NO_SAVEPOINT: Self = Self::new("3B001", "savepoint does not exist");
    pub(super) const NO_TRANSACTION: Self = Self::new("25P01", "there is no transaction in progress");
    pub(super) const NO_TYPE: Self = Self::new("42703", "no resource type has the column");
    pub(super) const READ_ONLY: Self =
        Self::new("25006", "cannot decide on an idempotency key in a read-only transaction");
    pub(super) const SERIALIZATION: Self = Self::new("40001", "could not serialize access");
    pub(super) const STALE_PLAN: Self = Self::new("0A000", "cached plan must not change result type");
    pub(super) const SUPERSEDED: Self = Self::new("TI001", "another call with this idempotency key was recorded");
    pub(super) const TOO_LATE: Self = Self::new("40001", "the claim of the idempotency key came too late");
    pub(super) const UNIQUE: Self = Self::new("23505", "duplicate key value violates unique constraint");

    /// Returns whether COMMIT may fail with it.
    pub(super) fn may_end_commit(&self) -> bool {
        [Self::DISK_FULL, Self::SERIALIZATION].contains(self)
    }

    const fn new(code: &'static str, message: &'static str) -> Self {
        Self { code, message, is_fatal: false }
    }

    const fn fatal(code: &'static str, message: &'static str) -> Self {
        Self { code, message, is_fatal: true }
    }
}

impl From<SqlError> for DriverError {
    fn from(error: SqlError) -> Self {
        let SqlError { code, message, is_fatal } = error;
        if error == SqlError::STALE_PLAN {
            return Self::stale_plan(message, message);
        }
        Self::answered(code, message, is_fatal, message)
    }
}
