//! Answers of the server: the fault of a statement, the progress of an operation, claims that may be late, and the contact itself.

mod contact;
mod fault;
mod late_claims;
mod progress;

pub(super) use self::{
    contact::Contact,
    fault::{
        Fault, QUERY_CANCELED, READ_ONLY_TRANSACTION, UNIQUE_VIOLATION, is_full, is_missing, kind_without_connection,
        sql_state,
    },
    late_claims::LateClaims,
    progress::{OperationProgress, RunningOperation, SentClaim, WaitingAttempt},
};
