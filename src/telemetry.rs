//! What operators see: a log line and a counter for each way a call can go. Counters go through the `metrics` facade; an
//! application that installs no recorder pays next to nothing.
//!
//! | counter | labels | counts |
//! |---|---|---|
//! | `idempotency_calls_total` | `procedure`, `outcome` | calls with a key, by how the layer answered: `first`, `replayed`, `rejected`, `degraded` |
//! | `idempotency_rejected_total` | `procedure`, `reason` | refused calls, by the reason that the client got |
//! | `idempotency_degraded_total` | `procedure`, `cause` | calls that ran unprotected, or replays without their status |
//! | `idempotency_settle_failures_total` | `procedure`, `step` | outcomes that were not recorded: `complete` or `release` |
//! | `idempotency_swept_total` | | records deleted by the sweep |
//!
//! Neither keys, users nor messages are in any log line or label.

use std::{error::Error, fmt};

use metrics::counter;

use crate::{Procedure, Reason, StoreErrorKind};

/// Why a call got less than the layer promises.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Degradation {
    NoUser,
    StatusUnknown,
    Store(StoreErrorKind),
    UnsupportedProtocol,
}

impl Degradation {
    fn as_str(self) -> &'static str {
        match self {
            Self::NoUser => "no_user",
            Self::StatusUnknown => "status_unknown",
            Self::Store(kind) => kind.as_str(),
            Self::UnsupportedProtocol => "unsupported_protocol",
        }
    }
}

pub(crate) fn first(procedure: &Procedure) {
    answered(procedure, "first");
    tracing::debug!(procedure = procedure.path(), "the key is reserved; the handler runs");
}

pub(crate) fn replayed(procedure: &Procedure) {
    answered(procedure, "replayed");
    tracing::debug!(procedure = procedure.path(), "replayed the first response");
}

pub(crate) fn rejected(procedure: &Procedure, reason: Reason) {
    answered(procedure, "rejected");
    let path = procedure.path().to_owned();
    counter!("idempotency_rejected_total", "procedure" => path, "reason" => reason.as_str()).increment(1);
    tracing::debug!(procedure = procedure.path(), %reason, "refused a call");
}

/// A call that runs unprotected.
pub(crate) fn unprotected(procedure: &Procedure, cause: Degradation, error: &dyn fmt::Display) {
    answered(procedure, "degraded");
    degraded(procedure, cause);
    tracing::warn!(
        procedure = procedure.path(),
        cause = cause.as_str(),
        %error,
        "a call with an idempotency key runs unprotected"
    );
}

/// A replay whose status could not be found out.
pub(crate) fn status_unknown(procedure: &Procedure, error: &dyn fmt::Display) {
    degraded(procedure, Degradation::StatusUnknown);
    tracing::warn!(
        procedure = procedure.path(),
        cause = Degradation::StatusUnknown.as_str(),
        %error,
        "the status of a replay is not known; it says processing"
    );
}

/// A call refused because the store cannot be reached.
pub(crate) fn store_unavailable(procedure: &Procedure, error: &dyn fmt::Display) {
    rejected(procedure, Reason::StoreUnavailable);
    tracing::warn!(procedure = procedure.path(), %error, "refused a call: the idempotency store does not answer");
}

/// An outcome that is not recorded, at least not yet.
pub(crate) fn not_settled(procedure: &Procedure, step: &'static str, what: &str, error: Option<&dyn fmt::Display>) {
    let path = procedure.path().to_owned();
    counter!("idempotency_settle_failures_total", "procedure" => path, "step" => step).increment(1);
    let error = error.map(tracing::field::display);
    tracing::warn!(procedure = procedure.path(), step, error, "{what}");
}

pub(crate) fn panicked(procedure: &Procedure) {
    tracing::error!(procedure = procedure.path(), "the handler of a call with an idempotency key panicked");
}

pub(crate) fn no_resource_id(procedure: &Procedure, error: &dyn fmt::Display) {
    tracing::warn!(procedure = procedure.path(), %error, "the record is kept without the created resource");
}

pub(crate) fn swept(deleted: u64) {
    counter!("idempotency_swept_total").increment(deleted);
    tracing::info!(deleted, "deleted expired idempotency keys");
}

/// An error with its causes, in one line. Of what PostgreSQL says only the message: its details may quote the row.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            #[cfg(feature = "postgres")]
            if let Some(said) = cause.downcast_ref::<tokio_postgres::error::DbError>() {
                return write!(f, ": {} (SQLSTATE {})", said.message(), said.code().code());
            }
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

fn answered(procedure: &Procedure, outcome: &'static str) {
    counter!("idempotency_calls_total", "procedure" => procedure.path().to_owned(), "outcome" => outcome).increment(1);
}

fn degraded(procedure: &Procedure, cause: Degradation) {
    let path = procedure.path().to_owned();
    counter!("idempotency_degraded_total", "procedure" => path, "cause" => cause.as_str()).increment(1);
}
