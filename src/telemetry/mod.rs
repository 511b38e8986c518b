//! Metrics, spans and log lines. Metrics go through the `metrics` facade; without a recorder they cost almost nothing. Install it before
//! the layer is built, which describes them all to it.
//!
//! | counter | labels | counts |
//! |---|---|---|
//! | `idempotency_calls_total` | `procedure`, `outcome` | calls with a key to procedures that are opted in, by how the layer answered: `first`, `replayed`, `rejected`, `unprotected`; and refused requests of the [`OperationService`](crate::operations) |
//! | `idempotency_abandoned_total` | `procedure`, `verdict` | calls whose lease ended without an outcome, by what happened then: `rerun`, `completed`, `not_executed`, `unknown` |
//! | `idempotency_lease_lost_total` | `procedure` | reservations that were taken over, or could not be renewed, while their handlers ran |
//! | `idempotency_rejected_total` | `procedure`, `reason` | refused calls, by the [reason](crate::rejection::Reason) that the client got |
//! | `idempotency_overloaded_total` | `limit` | calls that were refused because of a limit of the layer: `in_flight`, `in_flight_per_user`, `waiting`, `waiting_bytes`, `waiting_per_user`, `watching`, `watching_per_user` |
//! | `idempotency_unprotected_keys_total` | `procedure` | keys on procedures that are not opted in, passed through or refused; `other` is every procedure that is not in the layer's descriptors |
//! | `idempotency_unprotected_total` | `procedure`, `cause` | calls with a key that ran unprotected, by the cause: the [kind](crate::store::StoreErrorKind) of the store's error, `interrupted` or `unreachable`; or `no_user` |
//! | `idempotency_degraded_total` | `procedure`, `cause` | replays without their status (`status_unknown`) or metadata (`metadata_lost`) |
//! | `idempotency_cached_replays_total` | `procedure` | replays from memory, without a request to the store; `idempotency_calls_total` counts them as `replayed`, too |
//! | `idempotency_withheld_replays_total` | `procedure`, `hook` | replays that the application's hooks did not give: `authorizer`, `rebuilder` |
//! | `idempotency_settle_failures_total` | `procedure`, `step` | attempts to record an outcome that failed: `complete`, `release`, `abandon` or `commit` |
//! | `idempotency_outcomes_given_up_total` | `procedure`, `step` | outcomes that will not be recorded: `complete`, `release` or `abandon` |
//! | `idempotency_store_errors_total` | `procedure`, `kind` | calls that were refused because of an error of the store, by its [kind](crate::store::StoreErrorKind) |
//! | `idempotency_transactions_refused_total` | `cause` | transactions that found no free connection in time: `overloaded`, or `user_limit` if their user had as many as one may have |
//! | `idempotency_swept_total` | | expired records that were deleted |
//!
//! | gauge | shows |
//! |---|---|
//! | `idempotency_in_flight` | calls with a key, or in a transaction, from their heads to the records of their outcomes |
//! | `idempotency_waiting` | calls that wait for the call that holds their key |
//! | `idempotency_watching` | requests that wait for the end of a call with [`WaitOperation`](crate::operations) |
//! | `idempotency_waiting_bytes` | the bytes of the request messages of these |
//! | `idempotency_outcomes_waiting` | outcomes that the store did not take at once, and that are being recorded in the background |
//! | `idempotency_reserved` | calls of this process that hold their key, by `mode`: `reserved`, `transactional` |
//! | `idempotency_unknown` | keys in the store whose lease ended without an outcome, at most 1,000; set by each run of a [`Recovery`](crate::maintenance::Recovery) |
//!
//! | histogram, in seconds | labels | measures |
//! |---|---|---|
//! | `idempotency_claim_seconds` | `procedure` | the time until the store has answered a claim, or failed to |
//! | `idempotency_handler_seconds` | `procedure` | the time of the handler of a call with a key |
//! | `idempotency_record_seconds` | `procedure` | the time until the outcome is recorded or the transaction committed, or until the first attempt has failed |
//! | `idempotency_wait_seconds` | | the time that a call has waited for the call that holds its key |
//!
//! Each call that runs unprotected emits an event at the level `WARN` with the target `tonic_idempotency` and the fields
//! `procedure`, `cause` and `error`. No other event has this target.
//!
//! Each call with a key has [`tracing`] spans at the level `INFO` with the target `tonic_idempotency::span`:
//!
//! | span | lasts | `outcome` |
//! |---|---|---|
//! | `idempotency.claim` | until the store has answered a claim | `acquired`, `taken_over`, `replay`, `in_progress`, `mismatch`, `unknown`; or the [kind](crate::store::StoreErrorKind) of the store's error |
//! | `idempotency.execute` | as long as the handler | `Ok`, or the code of its error, such as `NotFound`; `panicked` |
//! | `idempotency.record` | until the outcome is recorded | reserved: `completed`, `released`, `abandoned`, or `not_yet` if it is tried again in the background. Transactional: `committed`, `rolled_back`, `superseded`, `refused` |
//! | `idempotency.replay` | no time | it has none, but `first_call.traceparent`: the `traceparent` of the call that is replayed, if that had one |
//!
//! A request of the [`OperationService`](crate::operations) has a span `idempotency.look_up` for each question to the store; its `outcome`
//! is the state of the key (`absent`, `running`, `completed`, `failed`, `unknown`, `expired`), or the kind of the store's error.
//!
//! All have the field `procedure`, and `key` if the layer has a secret to hash keys with
//! ([`log_key_hashes_with`](crate::layer::IdempotencyLayerBuilder::log_key_hashes_with), [`key_hash`]). Without a subscriber that takes them
//! they cost almost nothing.
//!
//! No log line, no span and no label contains a key, a user, a scope or a message.
//!
//! Each call with a key also emits [`tracing`] events at the level `TRACE` with the target `tonic_idempotency::step`.
//! Their field `step` is the step of the protocol: `before_claim`, `after_claim`, `before_settle`, `after_settle`.

mod catalogue;
mod key_hash;
mod spans;
mod times;

use std::{
    error::Error,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use metrics::{Gauge, Key, Label, Level, Metadata, counter, gauge, histogram, with_recorder};
use tonic::Code;

pub use self::key_hash::key_hash;
use self::times::Times;
pub(crate) use self::{
    catalogue::describe,
    spans::{Spans, ended, executed, traceparent},
    times::Timed,
};

/// The cause why a call runs unprotected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unprotected {
    NoUser,
    /// The kind of the store's error.
    Store(&'static str),
}

impl Unprotected {
    fn as_str(self) -> &'static str {
        match self {
            Self::NoUser => "no_user",
            Self::Store(kind) => kind,
        }
    }
}

/// The reason why a replay is incomplete.
#[derive(Clone, Copy, Debug)]
enum Degradation {
    MetadataLost,
    StatusUnknown,
}

impl Degradation {
    fn as_str(self) -> &'static str {
        match self {
            Self::MetadataLost => "metadata_lost",
            Self::StatusUnknown => "status_unknown",
        }
    }
}

/// A step of a call in the protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// The claim, or BEGIN, is about to be sent.
    BeforeClaim,
    /// The call holds its key. Its handler has not started.
    AfterClaim,
    /// The handler has ended. The outcome has not been sent to the store.
    BeforeSettle,
    /// The outcome is recorded, or the transaction committed. The response has not been sent to the caller.
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

/// Logs the result of a recovery run.
pub(crate) fn recovered(completed: u64, failed: u64, not_executed: u64, unknown: u64) {
    let what = "recovered calls whose lease had ended without an outcome";
    tracing::info!(completed, failed, not_executed, unknown, "{what}");
}

/// Adds calls to those in flight.
pub(crate) fn in_flight(calls: i8) {
    gauge!("idempotency_in_flight").increment(f64::from(calls));
}

/// Adds calls of this size to those that wait.
pub(crate) fn waiting(calls: i8, bytes_of_each: usize) {
    gauge!("idempotency_waiting").increment(f64::from(calls));
    gauge!("idempotency_waiting_bytes").increment(f64::from(calls) * bytes_of_each as f64);
}

/// Adds requests to those that wait for the end of a call.
pub(crate) fn watching(requests: i8) {
    gauge!("idempotency_watching").increment(f64::from(requests));
}

/// Measures how long a call has waited for another.
pub(crate) fn waited(seconds: f32) {
    histogram!("idempotency_wait_seconds").record(f64::from(seconds));
}

/// A call that holds its key, counted until this is dropped.
pub(crate) struct Holds {
    in_transaction: bool,
}

impl Holds {
    pub(crate) fn new(in_transaction: bool) -> Self {
        Self::gauge(in_transaction).increment(1.0);
        Self { in_transaction }
    }

    fn gauge(in_transaction: bool) -> Gauge {
        match in_transaction {
            true => gauge!("idempotency_reserved", "mode" => "transactional"),
            false => gauge!("idempotency_reserved", "mode" => "reserved"),
        }
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        Self::gauge(self.in_transaction).decrement(1.0);
    }
}

/// Sets the number of keys whose lease ended without an outcome.
pub(crate) fn unknown(keys: usize) {
    gauge!("idempotency_unknown").set(keys as f64);
}

/// Counts a call that waited for a transaction in vain.
#[cfg(feature = "sql")]
pub(crate) fn transaction_refused(cause: &'static str) {
    counter!("idempotency_transactions_refused_total", "cause" => cause).increment(1);
    tracing::warn!(cause, "refused a transaction: as many are open as there may be");
}

pub(crate) fn swept(deleted: u64) {
    counter!("idempotency_swept_total").increment(deleted);
    tracing::info!(deleted, "deleted expired idempotency records");
}

/// The messages of the server are in the language of this locale, and the driver tells errors by English ones.
#[cfg(feature = "sql")]
pub(crate) fn translated_messages(locale: &str) {
    tracing::warn!(
        lc_messages = locale,
        "the driver tells errors by their English messages; set lc_messages = 'C' for its role, or transient errors are refused for good"
    );
}

/// Counts an outcome that waits to be recorded, until [`outcome_waits_no_more`].
pub(crate) fn outcome_waits() {
    gauge!("idempotency_outcomes_waiting").increment(1.0);
}

pub(crate) fn outcome_waits_no_more() {
    gauge!("idempotency_outcomes_waiting").decrement(1.0);
}

/// The log lines and counters of one procedure.
///
/// The keys of the counters that every call increments are built once, because the `counter!` macro would build their
/// labels again for each call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProcedureTelemetry {
    path: Arc<str>,
    first: Key,
    rejected: Key,
    replayed: Key,
    unprotected: Key,
    times: Times,
}

impl ProcedureTelemetry {
    pub(crate) fn new(path: Arc<str>) -> Self {
        let key = |outcome| {
            let labels = vec![Label::new("procedure", path.to_string()), Label::from_static_parts("outcome", outcome)];
            Key::from_parts("idempotency_calls_total", labels)
        };
        let [first, rejected, replayed, unprotected] = ["first", "rejected", "replayed", "unprotected"].map(key);
        let times = Times::of(&path);
        Self { path, first, rejected, replayed, unprotected, times }
    }

    /// Measures a step that has ended.
    pub(crate) fn took(&self, step: Timed, since: Instant) {
        self.times.took(step, since);
    }

    pub(crate) fn first(&self) {
        count(&self.first);
        tracing::debug!(procedure = &*self.path, "acquired the idempotency key; running the handler");
    }

    pub(crate) fn replayed(&self) {
        count(&self.replayed);
        tracing::debug!(procedure = &*self.path, "replayed the first response");
    }

    /// Logs a replay that a hook of the application did not give.
    pub(crate) fn replay_withheld(&self, hook: &'static str, code: Code, problem: Option<&'static str>) {
        let procedure = &*self.path;
        let labels = [("procedure", procedure.to_owned()), ("hook", hook.to_owned())];
        counter!("idempotency_withheld_replays_total", &labels).increment(1);
        match problem {
            None => tracing::debug!(procedure, hook, ?code, "a replay was withheld"),
            Some(problem) => tracing::error!(procedure, hook, problem, "a replay could not be given"),
        }
    }

    /// Counts a replay from memory.
    pub(crate) fn cache_hit(&self) {
        counter!("idempotency_cached_replays_total", "procedure" => self.path.to_string()).increment(1);
        tracing::debug!(procedure = &*self.path, "replayed from memory, without asking the store");
    }

    pub(crate) fn rejected(&self, reason: &'static str) {
        count(&self.rejected);
        counter!("idempotency_rejected_total", "procedure" => self.path.to_string(), "reason" => reason).increment(1);
        tracing::debug!(procedure = &*self.path, %reason, "refused a call");
    }

    /// Counts a call that runs unprotected.
    pub(crate) fn unprotected(&self, cause: Unprotected, error: &dyn fmt::Display) {
        count(&self.unprotected);
        counter!("idempotency_unprotected_total", "procedure" => self.path.to_string(), "cause" => cause.as_str())
            .increment(1);
        tracing::warn!(
            target: "tonic_idempotency",
            procedure = &*self.path,
            cause = cause.as_str(),
            %error,
            "a call with an idempotency key runs unprotected"
        );
    }

    /// Counts a replay whose status is unknown.
    pub(crate) fn status_unknown(&self, error: &dyn fmt::Display) {
        self.degraded(Degradation::StatusUnknown);
        tracing::warn!(
            procedure = &*self.path,
            cause = Degradation::StatusUnknown.as_str(),
            %error,
            "the status of the created resource is unknown; the replay reports processing"
        );
    }

    /// Counts a replay without its metadata.
    pub(crate) fn metadata_lost(&self) {
        self.degraded(Degradation::MetadataLost);
        tracing::warn!(
            procedure = &*self.path,
            cause = Degradation::MetadataLost.as_str(),
            "the stored metadata of a response cannot be decoded; the response is replayed without it"
        );
    }

    /// Counts a call that is refused because of an error of the store.
    pub(crate) fn refused_by_store(&self, reason: &'static str, kind: &'static str, error: &dyn fmt::Display) {
        self.rejected(reason);
        counter!("idempotency_store_errors_total", "procedure" => self.path.to_string(), "kind" => kind).increment(1);
        let procedure = &*self.path;
        if kind == "corrupt" || kind == "refused" {
            tracing::error!(procedure, kind, %error, "refused a call: the idempotency store is not set up right, or corrupt");
        } else {
            tracing::warn!(procedure, kind, %error, "refused a call: the idempotency store did not take its claim");
        }
    }

    /// Counts a call that is refused because the application does not tell who makes it.
    pub(crate) fn caller_invalid(&self, reason: &'static str, error: &dyn fmt::Display) {
        self.rejected(reason);
        tracing::error!(procedure = &*self.path, %error, "refused a call: its caller or its session settings are invalid");
    }

    /// Counts a call that is refused because of a limit of the layer.
    pub(crate) fn overloaded(&self, reason: &'static str, limit: &'static str) {
        self.rejected(reason);
        counter!("idempotency_overloaded_total", "limit" => limit).increment(1);
        tracing::warn!(procedure = &*self.path, limit, "refused a call: it would exceed a limit of the layer");
    }

    /// Counts a failed attempt to record an outcome. Another one may follow.
    pub(crate) fn not_settled(&self, step: &'static str, what: &str, error: Option<&dyn fmt::Display>) {
        let path = self.path.to_string();
        counter!("idempotency_settle_failures_total", "procedure" => path, "step" => step).increment(1);
        let error = error.map(tracing::field::display);
        tracing::warn!(procedure = &*self.path, step, error, "{what}");
    }

    /// Counts a failed attempt to record an outcome, which is tried again. Only the first one is a warning.
    pub(crate) fn not_recorded_yet(&self, step: &'static str, attempt: u64, error: &dyn fmt::Display) {
        if attempt == 1 {
            return self.not_settled(step, "the outcome of a call is not recorded yet", Some(error));
        }
        let path = self.path.to_string();
        counter!("idempotency_settle_failures_total", "procedure" => path, "step" => step).increment(1);
        tracing::debug!(procedure = &*self.path, step, attempt, %error, "the outcome of a call is not recorded yet");
    }

    /// Counts an outcome that will not be recorded.
    pub(crate) fn given_up(&self, step: &'static str, why: &'static str) {
        let path = self.path.to_string();
        counter!("idempotency_outcomes_given_up_total", "procedure" => path, "step" => step).increment(1);
        tracing::error!(procedure = &*self.path, step, why, "the outcome of a call will not be recorded");
    }

    /// Logs a response that is not stored, because too much waits to be recorded.
    pub(crate) fn message_forgotten(&self) {
        tracing::error!(
            procedure = &*self.path,
            "too many bytes wait to be recorded; the record will say that the call succeeded, without its response"
        );
    }

    /// Counts a call that takes over an abandoned reservation and runs the handler again.
    pub(crate) fn taken_over(&self) {
        self.abandoned("rerun");
        tracing::warn!(
            procedure = &*self.path,
            "the lease of an earlier call ended without an outcome; running the handler again"
        );
    }

    /// Counts an answer of the reconciler.
    pub(crate) fn reconciled(&self, verdict: &'static str, problem: Option<&str>) {
        self.abandoned(verdict);
        let procedure = &*self.path;
        match problem {
            None => tracing::info!(procedure, verdict, "reconciled a call whose lease had ended without an outcome"),
            Some(error) => tracing::warn!(
                procedure,
                verdict,
                error,
                "could not reconcile a call whose lease had ended without an outcome"
            ),
        }
    }

    /// Logs an abandoned call that a recovery could not ask about.
    pub(crate) fn not_recovered(&self, error: &dyn fmt::Display) {
        let what =
            "could not claim the key of a call whose lease had ended without an outcome; the next run tries again";
        tracing::warn!(procedure = &*self.path, %error, "{what}");
    }

    pub(crate) fn lease_lost(&self, why: &dyn fmt::Display) {
        counter!("idempotency_lease_lost_total", "procedure" => self.path.to_string()).increment(1);
        tracing::warn!(
            procedure = &*self.path,
            %why,
            "a running call lost its lease; its outcome may not be recorded"
        );
    }

    pub(crate) fn lease_not_extended(&self, error: &dyn fmt::Display) {
        tracing::warn!(procedure = &*self.path, %error, "could not renew the lease of a running call; trying again");
    }

    /// Logs a transactional call that is rolled back because its client disconnected.
    pub(crate) fn disconnected(&self) {
        tracing::debug!(procedure = &*self.path, "the client disconnected; rolling back the transaction");
    }

    /// Logs a handler that succeeded without using its transaction: its effect stays even if the commit fails.
    pub(crate) fn transaction_unused(&self) {
        tracing::warn!(
            procedure = &*self.path,
            "the handler of a transactional procedure did not use its Transaction; anything that it wrote elsewhere is \
             not part of the transaction"
        );
    }

    pub(crate) fn panicked(&self) {
        tracing::error!(procedure = &*self.path, "the handler of a call with an idempotency key panicked");
    }

    pub(crate) fn no_resource_id(&self, error: &dyn fmt::Display) {
        tracing::warn!(procedure = &*self.path, %error, "the id of the created resource is not recorded");
    }

    pub(crate) fn error_cut(&self, max: usize) {
        tracing::warn!(
            procedure = &*self.path,
            max_response_bytes = max,
            "a final error was too large to store as a whole; a replay has no details and no metadata"
        );
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

/// The log line and the counters of the keys on a procedure that is not opted in.
#[derive(Debug)]
pub(crate) struct UnprotectedKeyTelemetry {
    label: Arc<str>,
    counted: Key,
    is_logged: AtomicBool,
}

impl UnprotectedKeyTelemetry {
    /// Makes them for a procedure, or for all that have this label.
    pub(crate) fn new(label: &str) -> Self {
        let counted =
            Key::from_parts("idempotency_unprotected_keys_total", vec![Label::new("procedure", label.to_owned())]);
        Self { label: label.into(), counted, is_logged: AtomicBool::new(false) }
    }

    /// Counts a key that protects nothing. Only the first one is logged, with what to do.
    pub(crate) fn passed_through(&self, path: &str, remedy: &'static str) {
        count(&self.counted);
        if self.is_first() {
            let what = "a call with an idempotency key runs unprotected, because its procedure is not opted in: a retry \
                        runs it again; this is logged once";
            tracing::warn!(procedure = path, remedy, "{what}");
        }
    }

    /// Counts a call that is refused because of its key. Only the first one is logged, with what to do.
    pub(crate) fn refused(&self, path: &str, remedy: &'static str, reason: &'static str) {
        count(&self.counted);
        let label = self.label.to_string();
        counter!("idempotency_rejected_total", "procedure" => label, "reason" => reason).increment(1);
        if self.is_first() {
            let what =
                "refused a call with an idempotency key, because its procedure is not opted in; this is logged once";
            tracing::info!(procedure = path, remedy, "{what}");
        }
    }

    fn is_first(&self) -> bool {
        !self.is_logged.swap(true, Ordering::Relaxed)
    }
}

/// Displays an error with its causes in one line. Of an error of PostgreSQL it displays only the message and the
/// SQLSTATE, because the details may quote the row.
pub(crate) struct Chain<'a>(pub(crate) &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(cause) = source {
            #[cfg(feature = "postgres")]
            if let Some(error) = cause.downcast_ref::<tokio_postgres::error::DbError>() {
                return write!(f, ": {} (SQLSTATE {})", error.message(), error.code().code());
            }
            write!(f, ": {cause}")?;
            source = cause.source();
        }
        Ok(())
    }
}

/// Where all metrics come from.
static METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

fn count(key: &Key) {
    with_recorder(|recorder| recorder.register_counter(key, &METADATA)).increment(1);
}
