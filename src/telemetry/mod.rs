//! Metrics, spans and log lines. Metrics go through the `metrics` facade; without a recorder they cost almost nothing. Install it before
//! the layer is built, which describes them all to it.
//!
//! | counter | labels | counts |
//! |---|---|---|
//! | `idempotency_calls_total` | `procedure`, `outcome` | calls with a key to procedures that are opted in, by how the layer answered: `first`, `replayed`, `rejected`, `unprotected`; and refused requests of the [`OperationService`](crate::operations) |
//! | `idempotency_abandoned_total` | `procedure`, `verdict` | decisions about calls whose lease ended without an outcome: `rerun`, or a reconciler's `completed`, `not_executed`, `unknown`; retries that are refused do not count |
//! | `idempotency_handler_timeouts_total` | `procedure` | handlers that took longer than [`handler_timeout`](crate::policy::Policies::handler_timeout) |
//! | `idempotency_lease_lost_total` | `procedure` | reservations that were taken over, or could not be renewed, while their handlers ran |
//! | `idempotency_rejected_total` | `procedure`, `reason` | refused calls, by the [reason](crate::rejection::Reason) that the client got |
//! | `idempotency_overloaded_total` | `limit`, `of` | calls that were refused because of one of the [limits](crate::policy::Limits) of the layer, by its name, and whose it is: `server` or `caller` |
//! | `idempotency_unprotected_keys_total` | `procedure` | keys on procedures that are not opted in, passed through or refused; `other` is every procedure that is not in the layer's descriptors |
//! | `idempotency_unprotected_total` | `procedure`, `cause` | calls with a key that ran unprotected, by the cause: the [kind](crate::store::StoreErrorKind) of the store's error, `interrupted` or `unreachable`; or `no_user` |
//! | `idempotency_degraded_total` | `procedure`, `cause` | replays without their status (`status_unknown`) or metadata (`metadata_lost`) |
//! | `idempotency_dead_letters_total` | `procedure`, `cause` | messages of [operations](crate::run) that belong to the dead letters ([`DeadLetter`](crate::run::DeadLetter)) |
//! | `idempotency_cached_replays_total` | `procedure` | replays from memory, without a request to the store; `idempotency_calls_total` counts them as `replayed`, too |
//! | `idempotency_withheld_replays_total` | `procedure`, `hook` | replays that the application's hooks did not give: `authorizer`, `rebuilder` |
//! | `idempotency_reruns_total` | `procedure` | further attempts at calls whose transaction lost |
//! | `idempotency_settle_failures_total` | `procedure`, `step` | attempts to record an outcome that failed: `complete`, `release`, `abandon` or `commit` |
//! | `idempotency_outcomes_given_up_total` | `procedure`, `step` | outcomes that will not be recorded: `complete`, `release` or `abandon` |
//! | `idempotency_shared_statement_failures_total` | `kind` | statements for several calls that the store in PostgreSQL has refused: their calls are repeated one by one |
//! | `idempotency_store_errors_total` | `procedure`, `kind` | calls that were refused because of an error of the store, by its [kind](crate::store::StoreErrorKind) |
//! | `idempotency_transactions_refused_total` | `cause` | transactions that found no free connection in time: `transaction_limit`, or `user_limit` if their user had as many as one may have |
//! | `idempotency_swept_total` | | expired records that were deleted |
//!
//! | gauge | shows |
//! |---|---|
//! | `idempotency_handlers_left` | reserved and unprotected handlers that took too long, were answered for, and still run, because they block their threads |
//! | `idempotency_in_flight` | calls with a key, or in a transaction, from their heads to the records of their outcomes |
//! | `idempotency_in_flight_limit` | how many there may be in the layer that was built last: [`Limits::in_flight`](crate::policy::Limits) |
//! | `idempotency_waiting` | calls that wait for the call that holds their key |
//! | `idempotency_watching` | requests that wait for the end of a call with [`WaitOperation`](crate::operations) |
//! | `idempotency_waiting_bytes` | the bytes of the request messages of the calls that wait |
//! | `idempotency_outcomes_waiting` | outcomes that the store did not take at once, and that are being recorded in the background |
//! | `idempotency_reserved` | calls of this process that hold their key, by `mode`: `reserved`, `transactional` |
//! | `idempotency_unknown` | keys in the store whose lease ended without an outcome, until they are recovered, released or expired, at most 1,000; set by each run of a [`Recovery`](crate::maintenance::Recovery), and not there without one |
//!
//! | histogram, in seconds | labels | measures |
//! |---|---|---|
//! | `idempotency_claim_seconds` | `procedure` | the time until the store has answered a claim, or failed to |
//! | `idempotency_handler_seconds` | `procedure` | the time of the handler of a call with a key |
//! | `idempotency_record_seconds` | `procedure` | the time until the outcome is recorded or the transaction committed, or until the first attempt has failed |
//! | `idempotency_wait_seconds` | | the time that a call has waited for the call that holds its key |
//!
//! | histogram, in calls | labels | measures |
//! |---|---|---|
//! | `idempotency_statement_calls` | `kind` | the calls that a statement of the store in PostgreSQL does together: `extend`, `look`, `release`, `write` (claims and outcomes); 1 for a call that found no statement of its kind under way |
//!
//! Each call that runs unprotected emits an event at the level `WARN` with the target `tonic_idempotency` and the fields
//! `procedure`, `cause` and `error`. No other event has this target.
//!
//! Each call with a key has [`tracing`] spans at the level `INFO` with the target `tonic_idempotency::span`:
//!
//! | span | lasts | `outcome` |
//! |---|---|---|
//! | `idempotency.claim` | until the store has answered a claim | `acquired`, `taken_over`, `replay`, `in_progress`, `mismatch`, `unknown`; or the [kind](crate::store::StoreErrorKind) of the store's error |
//! | `idempotency.execute` | as long as the handler | `Ok`, or the code of its error, such as `NotFound`; `panicked`; `dropped` when its time was up, or its client gone |
//! | `idempotency.record` | until the outcome is recorded | reserved: `completed`, `released`, `abandoned`, or `not_yet` if it is tried again in the background. Transactional: `committed`, `rolled_back`, `lost`, `superseded`, `refused` |
//! | `idempotency.replay` | no time | it has none, but `first_call.traceparent`: the `traceparent` of the call that is replayed, if that had one |
//!
//! A request of the [`OperationService`](crate::operations) has a span `idempotency.look_up` for each question to the store; its `outcome`
//! is the state of the key (`absent`, `running`, `completed`, `failed`, `unknown`, `expired`), or the kind of the store's error.
//!
//! A handler that runs again has the number of attempts before it in the field `reruns` of its span.
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
mod chain;
mod held_key_count;
mod idle_transactions;
mod key_hash;
mod left_handler_count;
mod procedure;
mod rare_lines;
mod spans;
mod times;
mod unprotected_key;

use metrics::{Key, Level, Metadata, counter, gauge, histogram, with_recorder};

pub use self::key_hash::key_hash;
pub(crate) use self::{
    catalogue::describe,
    chain::Chain,
    held_key_count::HeldKeyCount,
    left_handler_count::LeftHandlerCount,
    procedure::{ProcedureTelemetry, Unprotected},
    rare_lines::rarely,
    spans::{Spans, ended, executed, traceparent},
    times::TimedStep,
    unprotected_key::UnprotectedKeyTelemetry,
};

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

/// Sets the number of calls that may be in flight.
pub(crate) fn in_flight_limit(calls: usize) {
    gauge!("idempotency_in_flight_limit").set(calls as f64);
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

/// Sets the number of keys whose lease ended without an outcome.
pub(crate) fn unknown(keys: usize) {
    gauge!("idempotency_unknown").set(keys as f64);
}

/// Measures how many calls go together in a statement.
#[cfg(feature = "sql")]
pub(crate) fn calls_in_statement(kind: &'static str, calls: usize) {
    histogram!("idempotency_statement_calls", "kind" => kind).record(calls as f64);
}

/// Counts a statement that the server has refused for all of its calls, which are repeated one by one.
#[cfg(feature = "sql")]
pub(crate) fn shared_statement_failed(kind: &'static str) {
    counter!("idempotency_shared_statement_failures_total", "kind" => kind).increment(1);
}

/// Warns that the database is not set up for shared statements of this kind.
#[cfg(feature = "sql")]
pub(crate) fn shared_statement_is_missing(kind: &'static str, error: &dyn std::error::Error) {
    if let Some(statements) = rarely("shared_statement_is_missing", kind) {
        tracing::warn!(
            kind, statements, error = %Chain(error),
            "the database is not set up for statements of several calls, and each call is sent alone; run the migrations, and grant"
        );
    }
}

/// Counts a call that waited for a transaction in vain.
#[cfg(feature = "sql")]
pub(crate) fn transaction_refused(cause: &'static str) {
    counter!("idempotency_transactions_refused_total", "cause" => cause).increment(1);
    if let Some(calls) = rarely("transaction_refused", cause) {
        tracing::warn!(cause, calls, "refused transactions: as many were open as there may be");
    }
}

/// Counts deleted records. The first sweep makes the counter, even if there was none to delete, so that its first increment is seen.
pub(crate) fn swept(deleted: u64) {
    counter!("idempotency_swept_total").increment(deleted);
    if deleted > 0 {
        tracing::info!(deleted, "deleted expired idempotency records");
    }
}

/// Warns that the server writes its messages in the language of this locale: the driver recognizes errors by their English messages.
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

/// The metadata of all metrics.
static METADATA: Metadata<'_> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

fn count(key: &Key) {
    with_recorder(|recorder| recorder.register_counter(key, &METADATA)).increment(1);
}
