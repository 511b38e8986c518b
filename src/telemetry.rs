//! What operators see: a log line and a counter for each way a call can go. Counters go through the `metrics` facade; an
//! application that installs no recorder pays next to nothing.
//!
//! | counter | labels | counts |
//! |---|---|---|
//! | `idempotency_calls_total` | `procedure`, `outcome` | calls with a key, by how the layer answered: `first`, `replayed`, `rejected`, `degraded` |
//! | `idempotency_abandoned_total` | `procedure`, `verdict` | calls found that ended without an outcome, by what became of them: `rerun`, `completed`, `not_executed`, `unknown` |
//! | `idempotency_lease_lost_total` | `procedure` | reservations that were taken over, or could not be renewed, while their handlers ran |
//! | `idempotency_rejected_total` | `procedure`, `reason` | refused calls, by the reason that the client got |
//! | `idempotency_degraded_total` | `procedure`, `cause` | calls that ran unprotected, or replays without their status or metadata |
//! | `idempotency_cached_replays_total` | `procedure` | replays that were given from memory, without asking the store; `idempotency_calls_total` counts them as `replayed` too |
//! | `idempotency_settle_failures_total` | `procedure`, `step` | outcomes that were not recorded: `complete`, `release`, `abandon` or `commit` |
//! | `idempotency_swept_total` | | records deleted by the sweep |
//!
//! Neither keys, users nor messages are in any log line or label.
//!
//! Each call with a key also emits [`tracing`] events of the level `TRACE` with the target `tonic_idempotency::step` and a
//! field `step`, where it stands in the protocol: `before_claim`, `after_claim`, `before_settle`, `after_settle`.

use std::{error::Error, fmt};

use metrics::{Key, Label, Level, Metadata, counter, with_recorder};

use crate::{Procedure, Reason, Recovered, StoreErrorKind};

/// Why a call got less than the layer promises.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Degradation {
    MetadataLost,
    NoUser,
    StatusUnknown,
    Store(StoreErrorKind),
    UnsupportedProtocol,
}

impl Degradation {
    fn as_str(self) -> &'static str {
        match self {
            Self::MetadataLost => "metadata_lost",
            Self::NoUser => "no_user",
            Self::StatusUnknown => "status_unknown",
            Self::Store(kind) => kind.as_str(),
            Self::UnsupportedProtocol => "unsupported_protocol",
        }
    }
}

/// The counters that every call with a key is counted by, of one procedure. The macro would put each together anew for each call.
#[derive(Clone, PartialEq)]
pub(crate) struct Calls {
    degraded: Key,
    first: Key,
    rejected: Key,
    replayed: Key,
}

impl Calls {
    /// Those of the procedure with this path.
    pub(crate) fn to(path: &str) -> Self {
        let key = |outcome| {
            let labels = vec![Label::new("procedure", path.to_owned()), Label::from_static_parts("outcome", outcome)];
            Key::from_parts("idempotency_calls_total", labels)
        };
        Self { degraded: key("degraded"), first: key("first"), rejected: key("rejected"), replayed: key("replayed") }
    }
}

/// Where a call stands in the protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The claim, or BEGIN, is about to be sent.
    BeforeClaim,
    /// The key is the call's. Its handler has not begun.
    AfterClaim,
    /// Its handler has ended. Nothing of the outcome has been sent.
    BeforeSettle,
    /// The outcome is recorded, or the transaction committed. The caller has no answer yet.
    AfterSettle,
}

pub(crate) fn step(step: Step) {
    let step = match step {
        Step::BeforeClaim => "before_claim",
        Step::AfterClaim => "after_claim",
        Step::BeforeSettle => "before_settle",
        Step::AfterSettle => "after_settle",
    };
    tracing::trace!(target: "tonic_idempotency::step", step);
}

pub(crate) fn first(procedure: &Procedure) {
    answered(&procedure.calls.first);
    tracing::debug!(procedure = procedure.path(), "the key is reserved; the handler runs");
}

pub(crate) fn replayed(procedure: &Procedure) {
    answered(&procedure.calls.replayed);
    tracing::debug!(procedure = procedure.path(), "replayed the first response");
}

/// A replay that this process has given before, and gives from memory.
pub(crate) fn asked_nobody(procedure: &Procedure) {
    counter!("idempotency_cached_replays_total", "procedure" => procedure.path().to_owned()).increment(1);
    tracing::debug!(procedure = procedure.path(), "a replay is known, the store is not asked");
}

pub(crate) fn rejected(procedure: &Procedure, reason: Reason) {
    answered(&procedure.calls.rejected);
    let path = procedure.path().to_owned();
    counter!("idempotency_rejected_total", "procedure" => path, "reason" => reason.as_str()).increment(1);
    tracing::debug!(procedure = procedure.path(), %reason, "refused a call");
}

/// A call that runs unprotected.
pub(crate) fn unprotected(procedure: &Procedure, cause: Degradation, error: &dyn fmt::Display) {
    answered(&procedure.calls.degraded);
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

/// A replay whose stored metadata cannot be read.
pub(crate) fn metadata_lost(procedure: &Procedure) {
    degraded(procedure, Degradation::MetadataLost);
    tracing::warn!(
        procedure = procedure.path(),
        cause = Degradation::MetadataLost.as_str(),
        "the stored metadata of a response cannot be read; it is replayed without"
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

/// A reservation whose lease ended, taken over to run the handler again.
pub(crate) fn taken_over(procedure: &Procedure) {
    abandoned(procedure, "rerun");
    tracing::warn!(
        procedure = procedure.path(),
        "the lease of a call ended without an outcome; its handler runs again"
    );
}

/// What the reconciler said.
pub(crate) fn reconciled(procedure: &Procedure, verdict: &'static str, problem: Option<&str>) {
    abandoned(procedure, verdict);
    match problem {
        None => {
            tracing::info!(procedure = procedure.path(), verdict, "a call that ended without an outcome was reconciled")
        }
        Some(error) => tracing::warn!(procedure = procedure.path(), verdict, error, "a call could not be reconciled"),
    }
}

/// What a look of the background task came to.
pub(crate) fn recovered(recovered: &Recovered) {
    let Recovered { completed, not_executed, unknown } = recovered;
    tracing::info!(completed, not_executed, unknown, "recovered calls that had ended without an outcome");
}

pub(crate) fn lease_lost(procedure: &Procedure, why: &dyn fmt::Display) {
    counter!("idempotency_lease_lost_total", "procedure" => procedure.path().to_owned()).increment(1);
    tracing::warn!(procedure = procedure.path(), %why, "the lease of a running call is lost; its outcome may not count");
}

pub(crate) fn lease_not_extended(procedure: &Procedure, error: &dyn fmt::Display) {
    tracing::warn!(procedure = procedure.path(), %error, "the lease of a running call is not extended yet");
}

/// A transactional call whose client went away, rolled back as its policy says.
pub(crate) fn hung_up(procedure: &Procedure) {
    tracing::debug!(procedure = procedure.path(), "the client went away; the transaction is rolled back");
}

/// A handler that succeeded without its transaction: what it did is not undone where the commit fails.
pub(crate) fn transaction_unused(procedure: &Procedure) {
    tracing::warn!(
        procedure = procedure.path(),
        "the handler of a transactional procedure did not use its Transaction: what it wrote elsewhere is not part of it"
    );
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

fn abandoned(procedure: &Procedure, verdict: &'static str) {
    let path = procedure.path().to_owned();
    counter!("idempotency_abandoned_total", "procedure" => path, "verdict" => verdict).increment(1);
}

fn answered(key: &Key) {
    static METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
    with_recorder(|recorder| recorder.register_counter(key, &METADATA)).increment(1);
}

fn degraded(procedure: &Procedure, cause: Degradation) {
    let path = procedure.path().to_owned();
    counter!("idempotency_degraded_total", "procedure" => path, "cause" => cause.as_str()).increment(1);
}
