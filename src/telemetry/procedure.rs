//! The log lines and counters of one procedure.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use metrics::{Key, Label, counter};
use tonic::Code;
use uuid::Uuid;

use super::{
    count,
    idle_transactions::IdleTransactions,
    rare::Rare,
    times::{TimedStep, Times},
};

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
    overloaded: Rare,
    callers_missing: Rare,
    dead_letters: Rare,
    in_line: Rare,
    idle_transactions: IdleTransactions,
}

impl ProcedureTelemetry {
    pub(crate) fn new(path: Arc<str>) -> Self {
        let key = |outcome| {
            let labels = vec![Label::new("procedure", path.to_string()), Label::from_static_parts("outcome", outcome)];
            Key::from_parts("idempotency_calls_total", labels)
        };
        let [first, rejected, replayed, unprotected] = ["first", "rejected", "replayed", "unprotected"].map(key);
        let times = Times::of(&path);
        let (overloaded, callers_missing, dead_letters, in_line, idle_transactions) = Default::default();
        Self {
            path,
            first,
            rejected,
            replayed,
            unprotected,
            times,
            overloaded,
            callers_missing,
            dead_letters,
            in_line,
            idle_transactions,
        }
    }

    /// Measures a step that has ended.
    pub(crate) fn took(&self, step: TimedStep, since: Instant) {
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

    /// Counts a call that is refused because its caller or its session settings are invalid.
    pub(crate) fn caller_invalid(&self, reason: &'static str, error: &dyn fmt::Display) {
        self.rejected(reason);
        tracing::error!(procedure = &*self.path, %error, "refused a call: its caller or its session settings are invalid");
    }

    /// Warns that a call with a key has no caller, or no scope: its client is told to authenticate, and cannot know that the server is
    /// wired wrongly. The warning is written at most once a minute.
    pub(crate) fn caller_missing(&self, what: &'static str) {
        if let Some(calls) = self.callers_missing.calls(Instant::now()) {
            tracing::warn!(
                procedure = &*self.path,
                calls,
                "refused a call with an idempotency key: {what} is in the request's extensions; put the authentication in front of the \
                 idempotency layer, and let it insert a Caller, or set a caller_resolver"
            );
        }
    }

    /// Counts a limit because of which a call is refused, beside the refusal itself. The warning is written at most once a minute.
    pub(crate) fn overloaded(&self, limit: &'static str, of: &'static str) {
        counter!("idempotency_overloaded_total", "limit" => limit, "of" => of).increment(1);
        if let Some(calls) = self.overloaded.calls(Instant::now()) {
            tracing::warn!(
                procedure = &*self.path,
                limit,
                of,
                calls,
                "refused calls: each would have exceeded a limit of the layer"
            );
        }
    }

    /// Counts a message that belongs to the dead letters. The warning is written at most once a minute, with the key as it is stored: ids may
    /// be personal data.
    pub(crate) fn dead_letter(&self, cause: &'static str, key: Option<Uuid>) {
        counter!("idempotency_dead_letters_total", "procedure" => self.path.to_string(), "cause" => cause).increment(1);
        if let Some(calls) = self.dead_letters.calls(Instant::now()) {
            let key = key.map(tracing::field::display);
            tracing::warn!(procedure = &*self.path, cause, key, calls, "a message belongs to the dead letters");
        }
    }

    /// Warns that a run of the operation waits for others to end. The warning is written at most once a minute.
    pub(crate) fn stands_in_line(&self) {
        if let Some(calls) = self.in_line.calls(Instant::now()) {
            tracing::warn!(
                procedure = &*self.path,
                calls,
                "an operation has waited for a minute for its turn: as many run as one caller may have at once (Limits::in_flight; in transactional \
                 mode the size of the store's pool, too); take fewer messages at once, or raise the limit"
            );
        }
    }

    /// Counts a failed attempt to record an outcome. A further attempt may follow.
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

    /// Logs an error that its handler has called final, and that is not kept: without a savepoint nothing would be left to record it in.
    pub(crate) fn final_error_without_savepoint(&self) {
        tracing::warn!(
            procedure = &*self.path,
            "final_error() has no effect in a transaction without a savepoint; give the procedure final_errors, with any code"
        );
    }

    /// Counts a transaction whose handler has ended. Logs once if the procedure's transactions idle for longer than they work.
    pub(crate) fn transaction_used(&self, idle: Duration, working: Duration) {
        if let Some([idle, working]) = self.idle_transactions.ended(idle, working) {
            tracing::warn!(
                procedure = &*self.path,
                ?idle,
                ?working,
                "the transactions of this procedure idle for longer than they work (on average, as above), and each has a connection of the \
                 pool meanwhile; do slow work after the call, or make the procedure a reserved one"
            );
        }
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
