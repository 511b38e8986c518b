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

use std::{error::Error, fmt, sync::Arc};

use metrics::{Key, Label, Level, Metadata, counter, with_recorder};

/// The reason why a call got less than the layer promises.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Degradation {
    MetadataLost,
    NoUser,
    StatusUnknown,
    /// The kind of the store's error.
    Store(&'static str),
    UnsupportedProtocol,
}

impl Degradation {
    fn as_str(self) -> &'static str {
        match self {
            Self::MetadataLost => "metadata_lost",
            Self::NoUser => "no_user",
            Self::StatusUnknown => "status_unknown",
            Self::Store(kind) => kind,
            Self::UnsupportedProtocol => "unsupported_protocol",
        }
    }
}

/// The place of a call in the protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The claim, or BEGIN, is about to be sent.
    BeforeClaim,
    /// The call holds its key. Its handler has not begun.
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

/// The result of a look for calls that ended without an outcome.
pub(crate) fn recovered(completed: u64, not_executed: u64, unknown: u64) {
    tracing::info!(completed, not_executed, unknown, "recovered calls that had ended without an outcome");
}

pub(crate) fn swept(deleted: u64) {
    counter!("idempotency_swept_total").increment(deleted);
    tracing::info!(deleted, "deleted expired idempotency keys");
}

/// The log lines and counters of one procedure.
///
/// The counters of every call are prepared here: the macro would build their labels anew for each call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProcedureTelemetry {
    path: Arc<str>,
    degraded: Key,
    first: Key,
    rejected: Key,
    replayed: Key,
}

impl ProcedureTelemetry {
    pub(crate) fn new(path: Arc<str>) -> Self {
        let key = |outcome| {
            let labels = vec![Label::new("procedure", path.to_string()), Label::from_static_parts("outcome", outcome)];
            Key::from_parts("idempotency_calls_total", labels)
        };
        let [degraded, first, rejected, replayed] = ["degraded", "first", "rejected", "replayed"].map(key);
        Self { path, degraded, first, rejected, replayed }
    }

    pub(crate) fn first(&self) {
        count(&self.first);
        tracing::debug!(procedure = &*self.path, "the key is reserved; the handler runs");
    }

    pub(crate) fn replayed(&self) {
        count(&self.replayed);
        tracing::debug!(procedure = &*self.path, "replayed the first response");
    }

    /// A replay that this process gave from memory.
    pub(crate) fn cache_hit(&self) {
        counter!("idempotency_cached_replays_total", "procedure" => self.path.to_string()).increment(1);
        tracing::debug!(procedure = &*self.path, "replayed from memory, without a question to the store");
    }

    pub(crate) fn rejected(&self, reason: &'static str) {
        count(&self.rejected);
        counter!("idempotency_rejected_total", "procedure" => self.path.to_string(), "reason" => reason).increment(1);
        tracing::debug!(procedure = &*self.path, %reason, "refused a call");
    }

    /// A call that runs unprotected.
    pub(crate) fn unprotected(&self, cause: Degradation, error: &dyn fmt::Display) {
        count(&self.degraded);
        self.degraded(cause);
        tracing::warn!(
            procedure = &*self.path,
            cause = cause.as_str(),
            %error,
            "a call with an idempotency key runs unprotected"
        );
    }

    /// A replay whose status could not be found out.
    pub(crate) fn status_unknown(&self, error: &dyn fmt::Display) {
        self.degraded(Degradation::StatusUnknown);
        tracing::warn!(
            procedure = &*self.path,
            cause = Degradation::StatusUnknown.as_str(),
            %error,
            "the status of a replay is unknown, and is reported as processing"
        );
    }

    /// A replay whose stored metadata cannot be read.
    pub(crate) fn metadata_lost(&self) {
        self.degraded(Degradation::MetadataLost);
        tracing::warn!(
            procedure = &*self.path,
            cause = Degradation::MetadataLost.as_str(),
            "the stored metadata of a response cannot be read; the response is replayed without it"
        );
    }

    /// A call that was refused because the store does not answer.
    pub(crate) fn store_unavailable(&self, reason: &'static str, error: &dyn fmt::Display) {
        self.rejected(reason);
        tracing::warn!(procedure = &*self.path, %error, "refused a call: the idempotency store does not answer");
    }

    /// An outcome that is not recorded, at least not yet.
    pub(crate) fn not_settled(&self, step: &'static str, what: &str, error: Option<&dyn fmt::Display>) {
        let path = self.path.to_string();
        counter!("idempotency_settle_failures_total", "procedure" => path, "step" => step).increment(1);
        let error = error.map(tracing::field::display);
        tracing::warn!(procedure = &*self.path, step, error, "{what}");
    }

    /// A reservation whose lease ended, taken over to run the handler again.
    pub(crate) fn taken_over(&self) {
        self.abandoned("rerun");
        tracing::warn!(procedure = &*self.path, "the lease of a call ended without an outcome; its handler runs again");
    }

    /// The answer of the reconciler.
    pub(crate) fn reconciled(&self, verdict: &'static str, problem: Option<&str>) {
        self.abandoned(verdict);
        let procedure = &*self.path;
        match problem {
            None => tracing::info!(procedure, verdict, "a call that ended without an outcome was reconciled"),
            Some(error) => tracing::warn!(procedure, verdict, error, "a call could not be reconciled"),
        }
    }

    pub(crate) fn lease_lost(&self, why: &dyn fmt::Display) {
        counter!("idempotency_lease_lost_total", "procedure" => self.path.to_string()).increment(1);
        tracing::warn!(
            procedure = &*self.path,
            %why,
            "the lease of a running call is lost; its outcome may not be recorded"
        );
    }

    pub(crate) fn lease_not_extended(&self, error: &dyn fmt::Display) {
        tracing::warn!(procedure = &*self.path, %error, "the lease of a running call is not renewed yet");
    }

    /// A transactional call that is rolled back because its client disconnected.
    pub(crate) fn disconnected(&self) {
        tracing::debug!(procedure = &*self.path, "the client disconnected; the transaction is rolled back");
    }

    /// A handler that succeeded without its transaction: its effect stays even if the commit fails.
    pub(crate) fn transaction_unused(&self) {
        tracing::warn!(
            procedure = &*self.path,
            "the handler of a transactional procedure did not use its Transaction: whatever it wrote elsewhere is not \
             part of it"
        );
    }

    pub(crate) fn panicked(&self) {
        tracing::error!(procedure = &*self.path, "the handler of a call with an idempotency key panicked");
    }

    pub(crate) fn no_resource_id(&self, error: &dyn fmt::Display) {
        tracing::warn!(procedure = &*self.path, %error, "the record is stored without the created resource");
    }

    fn abandoned(&self, verdict: &'static str) {
        counter!("idempotency_abandoned_total", "procedure" => self.path.to_string(), "verdict" => verdict)
            .increment(1);
    }

    fn degraded(&self, cause: Degradation) {
        counter!("idempotency_degraded_total", "procedure" => self.path.to_string(), "cause" => cause.as_str())
            .increment(1);
    }
}

/// An error with its causes, in one line. Of an error of PostgreSQL's only the message: its details may quote the row.
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

fn count(key: &Key) {
    static METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
    with_recorder(|recorder| recorder.register_counter(key, &METADATA)).increment(1);
}
