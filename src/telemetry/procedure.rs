//! The log lines and counters of one procedure. What may cost an effect has a line each time; everything else is written at most once a
//! minute for each cause, with the number of calls since.

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
    rare_lines::RareLines,
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
    rare: RareLines,
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
        let (rare, idle_transactions) = Default::default();
        Self { path, first, rejected, replayed, unprotected, times, rare, idle_transactions }
    }

    /// Logs that a field of the request looks like one that has the key.
    pub(crate) fn may_have_key_field(&self, field: &str) {
        tracing::info!(
            procedure = &*self.path,
            field,
            "a field of the request has the format UUID4, as AIP-155 has it for a request id; if clients send the key there, set key_field to it"
        );
    }

    /// Measures a step that has ended.
    pub(crate) fn took(&self, step: TimedStep, since: Instant) {
        self.times.took(step, since);
    }

    pub(crate) fn first(&self) {
        count(&self.first);
        tracing::debug!(procedure = &*self.path, "acquired the idempotency key; running the handler");
    }

    /// Counts a call that runs again, because its transaction has lost.
    pub(crate) fn rerun(&self) {
        counter!("idempotency_reruns_total", "procedure" => self.path.to_string()).increment(1);
        tracing::debug!(procedure = &*self.path, "the transaction lost; running the handler again");
    }

    /// Counts a handler that took too long.
    pub(crate) fn handler_timed_out(&self) {
        counter!("idempotency_handler_timeouts_total", "procedure" => self.path.to_string()).increment(1);
        if let Some(calls) = self.rare.calls("handler_timed_out", "") {
            tracing::warn!(
                procedure = &*self.path,
                calls,
                "handlers took longer than handler_timeout; a transaction is rolled back, and a reserved key is decided when its lease has ended \
                 (on_lease_ended)"
            );
        }
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
        let Some(problem) = problem else {
            return tracing::debug!(procedure, hook, ?code, "a replay was withheld");
        };
        if let Some(calls) = self.rare.calls("replay_withheld", hook) {
            tracing::error!(procedure, hook, problem, calls, "a replay could not be given");
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
        self.degraded(
            Degradation::StatusUnknown,
            Some(error),
            "the status of the created resource is unknown; the replay reports processing",
        );
    }

    /// Counts a replay without its metadata.
    pub(crate) fn metadata_lost(&self) {
        self.degraded(
            Degradation::MetadataLost,
            None,
            "the stored metadata of a response cannot be decoded; the response is replayed without it",
        );
    }

    /// Counts a call that is refused because of an error of the store.
    pub(crate) fn rejected_by_store(&self, reason: &'static str, kind: &'static str, error: &dyn fmt::Display) {
        self.rejected(reason);
        counter!("idempotency_store_errors_total", "procedure" => self.path.to_string(), "kind" => kind).increment(1);
        let procedure = &*self.path;
        let Some(calls) = self.rare.calls("rejected_by_store", kind) else { return };
        if kind == "corrupt" || kind == "refused" {
            tracing::error!(procedure, kind, %error, calls, "refused calls: the idempotency store is not set up right, or corrupt");
        } else {
            tracing::warn!(procedure, kind, %error, calls, "refused calls: the idempotency store did not take their claims");
        }
    }

    /// Logs that the keys of sealed records cannot be asked for: calls are refused.
    pub(crate) fn keys_away(&self, error: &dyn fmt::Display) {
        let (procedure, kind) = (&*self.path, "keys_away");
        counter!("idempotency_store_errors_total", "procedure" => procedure.to_owned(), "kind" => kind).increment(1);
        if let Some(calls) = self.rare.calls("keys_away", "") {
            tracing::warn!(procedure, %error, calls, "refused calls: the keys of sealed records cannot be asked for");
        }
    }

    /// Counts a record that can never be read again: its key is destroyed, or it was changed.
    pub(crate) fn unreadable(&self, error: &dyn fmt::Display) {
        let procedure = &*self.path;
        Self::count_degraded(procedure, Degradation::Unreadable);
        if let Some(calls) = self.rare.calls("unreadable", "") {
            tracing::error!(procedure, %error, calls, "sealed records cannot be read; their calls are answered without the content");
        }
    }

    /// Counts a call that is refused because its caller or its session settings are invalid.
    pub(crate) fn caller_invalid(&self, reason: &'static str, error: &dyn fmt::Display) {
        self.rejected(reason);
        if let Some(calls) = self.rare.calls("caller_invalid", reason) {
            let procedure = &*self.path;
            tracing::error!(procedure, reason, %error, calls, "refused calls: their callers or their session settings are invalid");
        }
    }

    /// Warns of a call that is refused because its outcome is unknown.
    pub(crate) fn outcome_unknown(&self) {
        if let Some(calls) = self.rare.calls("outcome_unknown", "") {
            tracing::warn!(
                procedure = &*self.path,
                calls,
                "refused calls: an earlier call with the same key ended without an outcome, and may have taken effect"
            );
        }
    }

    /// Warns that a call with a key has no caller, or no scope: its client is told to authenticate, and cannot know that the server is
    /// wired wrongly.
    pub(crate) fn caller_missing(&self, what: &'static str) {
        if let Some(calls) = self.rare.calls("caller_missing", what) {
            tracing::warn!(
                procedure = &*self.path,
                calls,
                "refused a call with an idempotency key: {what} is in the request's extensions; put the authentication in front of the \
                 idempotency layer, and let it insert a Caller, or set a caller_resolver"
            );
        }
    }

    /// Counts a limit because of which a call is refused, beside the refusal itself.
    pub(crate) fn overloaded(&self, limit: &'static str, of: &'static str) {
        counter!("idempotency_overloaded_total", "limit" => limit, "of" => of).increment(1);
        if let Some(calls) = self.rare.calls(limit, of) {
            tracing::warn!(
                procedure = &*self.path,
                limit,
                of,
                calls,
                "refused calls: each would have exceeded a limit of the layer"
            );
        }
    }

    /// Counts a message that belongs to the dead letters. The warning has the key as it is stored: ids may be personal data.
    pub(crate) fn dead_letter(&self, cause: &'static str, key: Option<Uuid>) {
        counter!("idempotency_dead_letters_total", "procedure" => self.path.to_string(), "cause" => cause).increment(1);
        if let Some(calls) = self.rare.calls("dead_letter", cause) {
            let key = key.map(tracing::field::display);
            tracing::warn!(procedure = &*self.path, cause, key, calls, "a message belongs to the dead letters");
        }
    }

    /// Warns that a run of the operation waits for others to end.
    pub(crate) fn stands_in_line(&self) {
        if let Some(calls) = self.rare.calls("in_line", "") {
            tracing::warn!(
                procedure = &*self.path,
                calls,
                "an operation has waited for a minute for its turn: as many run as one caller may have at once (Limits::in_flight; in transactional \
                 mode the size of the store's pool, too); take fewer messages at once, or raise the limit"
            );
        }
    }

    /// Counts a transaction that was not committed, or for which that is not known.
    pub(crate) fn not_committed(&self, kind: &'static str, error: &dyn fmt::Display) {
        self.settle_failed("commit");
        if let Some(calls) = self.rare.calls("not_committed", kind) {
            tracing::warn!(procedure = &*self.path, kind, %error, calls, "transactions were not committed, or their answers were lost");
        }
    }

    /// Counts a failed attempt to record an outcome, which is tried again.
    pub(crate) fn not_recorded_yet(&self, step: &'static str, kind: &'static str, error: &dyn fmt::Display) {
        self.settle_failed(step);
        if let Some(attempts) = self.rare.calls("not_recorded_yet", kind) {
            let procedure = &*self.path;
            tracing::warn!(procedure, step, kind, %error, attempts, "outcomes of calls are not recorded yet; trying again");
        }
    }

    /// Counts an outcome that is not recorded, because another call has taken the key over: both may have taken effect.
    pub(crate) fn superseded(&self, step: &'static str) {
        self.settle_failed(step);
        let what = "this call does not hold its key any more: its lease ended and another call took over";
        tracing::warn!(procedure = &*self.path, step, "{what}");
    }

    fn settle_failed(&self, step: &'static str) {
        let path = self.path.to_string();
        counter!("idempotency_settle_failures_total", "procedure" => path, "step" => step).increment(1);
    }

    /// Counts an outcome that will not be recorded.
    pub(crate) fn given_up(&self, step: &'static str, why: &'static str) {
        let path = self.path.to_string();
        counter!("idempotency_outcomes_given_up_total", "procedure" => path, "step" => step).increment(1);
        tracing::error!(procedure = &*self.path, step, why, "the outcome of a call will not be recorded");
    }

    /// Logs a response that is not stored, because too much waits to be recorded.
    pub(crate) fn message_forgotten(&self) {
        if let Some(calls) = self.rare.calls("message_forgotten", "") {
            tracing::error!(
                procedure = &*self.path,
                calls,
                "too many bytes wait to be recorded; the records will say that the calls succeeded, without their responses"
            );
        }
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
    pub(crate) fn not_recovered(&self, kind: &'static str, error: &dyn fmt::Display) {
        if let Some(calls) = self.rare.calls("not_recovered", kind) {
            let what =
                "could not claim the keys of calls whose leases had ended without an outcome; the next run tries again";
            tracing::warn!(procedure = &*self.path, kind, %error, calls, "{what}");
        }
    }

    pub(crate) fn lease_lost(&self, why: &dyn fmt::Display) {
        counter!("idempotency_lease_lost_total", "procedure" => self.path.to_string()).increment(1);
        tracing::warn!(
            procedure = &*self.path,
            %why,
            "a running call lost its lease; its outcome may not be recorded"
        );
    }

    pub(crate) fn lease_not_extended(&self, kind: &'static str, error: &dyn fmt::Display) {
        if let Some(attempts) = self.rare.calls("lease_not_extended", kind) {
            let procedure = &*self.path;
            tracing::warn!(procedure, kind, %error, attempts, "could not renew the leases of running calls; trying again");
        }
    }

    /// Logs a transactional call that is rolled back because its client disconnected.
    pub(crate) fn disconnected(&self) {
        tracing::debug!(procedure = &*self.path, "the client disconnected; rolling back the transaction");
    }

    /// Logs a handler that succeeded without using its transaction: its effect stays even if the commit fails.
    pub(crate) fn transaction_unused(&self) {
        if let Some(calls) = self.rare.calls("transaction_unused", "") {
            tracing::warn!(
                procedure = &*self.path,
                calls,
                "the handler of a transactional procedure did not use its Transaction; anything that it wrote elsewhere is \
                 not part of the transaction"
            );
        }
    }

    /// Logs an error that its handler has called final, and that is not kept: without a savepoint nothing would be left to record it in.
    pub(crate) fn final_error_without_savepoint(&self) {
        if let Some(calls) = self.rare.calls("final_error_without_savepoint", "") {
            tracing::warn!(
                procedure = &*self.path,
                calls,
                "final_error() has no effect in a transaction without a savepoint; give the procedure final_errors, with any code"
            );
        }
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
        if let Some(calls) = self.rare.calls("no_resource_id", "") {
            tracing::warn!(procedure = &*self.path, %error, calls, "the ids of created resources are not recorded");
        }
    }

    pub(crate) fn error_cut(&self, max: usize) {
        if let Some(calls) = self.rare.calls("error_cut", "") {
            tracing::warn!(
                procedure = &*self.path,
                max_response_bytes = max,
                calls,
                "a final error was too large to store as a whole; a replay has no details and no metadata"
            );
        }
    }

    fn abandoned(&self, verdict: &'static str) {
        counter!("idempotency_abandoned_total", "procedure" => self.path.to_string(), "verdict" => verdict)
            .increment(1);
    }

    fn count_degraded(procedure: &str, cause: Degradation) -> &'static str {
        let cause = cause.as_str();
        counter!("idempotency_degraded_total", "procedure" => procedure.to_owned(), "cause" => cause).increment(1);
        cause
    }

    fn degraded(&self, cause: Degradation, error: Option<&dyn fmt::Display>, what: &'static str) {
        let procedure = &*self.path;
        let cause = Self::count_degraded(procedure, cause);
        if let Some(calls) = self.rare.calls("degraded", cause) {
            let error = error.map(tracing::field::display);
            tracing::warn!(procedure, cause, error, calls, "{what}");
        }
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
    Unreadable,
}

impl Degradation {
    fn as_str(self) -> &'static str {
        match self {
            Self::MetadataLost => "metadata_lost",
            Self::StatusUnknown => "status_unknown",
            Self::Unreadable => "unreadable",
        }
    }
}
