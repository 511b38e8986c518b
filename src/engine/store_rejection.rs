//! The rejection of a call because of an error of the store: the one table from kinds of errors to rejections.

use crate::{
    engine::answer::Answer,
    policy::Procedure,
    rejection::{Exceeded, LimitKind, Party, Rejection},
    store::{StoreError, StoreErrorKind},
    telemetry::{Chain, ProcedureTelemetry},
};

/// Rejects a call whose key could not be claimed, or whose transaction could not be begun.
pub(in crate::engine) fn reject<A: Answer>(procedure: &Procedure, error: &StoreError) -> A {
    A::rejected(rejection(procedure.telemetry(), error))
}

/// Counts a rejection because of an error of the store, and returns it.
pub(crate) fn rejection(telemetry: &ProcedureTelemetry, error: &StoreError) -> Rejection {
    let rejection = match error.kind() {
        StoreErrorKind::Conflict => Rejection::Conflict,
        StoreErrorKind::Corrupt | StoreErrorKind::Refused => Rejection::StoreFailed,
        StoreErrorKind::Nested => Rejection::Nested,
        StoreErrorKind::Interrupted | StoreErrorKind::Unreachable => Rejection::StoreUnavailable,
        StoreErrorKind::Overloaded => Rejection::Overloaded,
        StoreErrorKind::UserFull => Rejection::Limit(Exceeded { limit: LimitKind::Records, of: Party::Caller }),
        StoreErrorKind::TransactionLimit => {
            Rejection::Limit(Exceeded { limit: LimitKind::Transactions, of: Party::Server })
        }
        StoreErrorKind::UserLimit => Rejection::Limit(Exceeded { limit: LimitKind::Transactions, of: Party::Caller }),
    };
    telemetry.rejected_by_store(rejection.reason().as_str(), error.kind().as_str(), &Chain(error));
    if let Rejection::Limit(exceeded) = &rejection {
        exceeded.count(telemetry);
    }
    rejection
}

/// The rejection of a call whose transaction was not committed, or for which that is not known.
pub(in crate::engine) fn not_committed(procedure: &Procedure, error: &StoreError) -> Rejection {
    procedure.telemetry().not_committed(error.kind().as_str(), &Chain(error));
    match error.kind() {
        StoreErrorKind::Conflict => Rejection::Conflict,
        StoreErrorKind::Interrupted
        | StoreErrorKind::Overloaded
        | StoreErrorKind::TransactionLimit
        | StoreErrorKind::Unreachable
        | StoreErrorKind::UserLimit => Rejection::StoreUnavailable,
        StoreErrorKind::Corrupt | StoreErrorKind::Nested | StoreErrorKind::Refused | StoreErrorKind::UserFull => {
            Rejection::NotCommitted
        }
    }
}

/// The rejection of a call whose transaction has lost, and that does not run again. The error is that of its record or
/// COMMIT.
pub(in crate::engine) fn lost(procedure: &Procedure, error: Option<StoreError>) -> Rejection {
    error.map_or(Rejection::Conflict, |error| not_committed(procedure, &error))
}

/// The rejection of a call whose transaction was lost with its connection, before its handler returned an error.
pub(in crate::engine) fn transaction_lost(procedure: &Procedure) -> Rejection {
    not_committed(procedure, &StoreError::new(StoreErrorKind::Unreachable, "the transaction's connection was lost"))
}
