//! All metrics, as they are described to the recorder.

use metrics::{Unit, with_recorder};

enum Kind {
    Counter,
    Gauge,
    Histogram,
}
use Kind::{Counter, Gauge, Histogram};

/// The kind, the name, the unit and the description of each metric.
const METRICS: [(Kind, &str, Unit, &str); 33] = [
    (Counter, "idempotency_calls_total", Unit::Count, "Calls with a key, by how the layer answered."),
    (
        Counter,
        "idempotency_abandoned_total",
        Unit::Count,
        "Decisions about calls whose lease ended without an outcome. Retries that are refused do not count.",
    ),
    (Counter, "idempotency_cached_replays_total", Unit::Count, "Replays from memory, without a request to the store."),
    (Counter, "idempotency_dead_letters_total", Unit::Count, "Messages that belong to the dead letters."),
    (Counter, "idempotency_degraded_total", Unit::Count, "Replays without their status or metadata."),
    (Counter, "idempotency_handler_timeouts_total", Unit::Count, "Handlers that took longer than handler_timeout."),
    (
        Counter,
        "idempotency_lease_lost_total",
        Unit::Count,
        "Reservations taken over or not renewed while their handlers ran.",
    ),
    (Counter, "idempotency_outcomes_given_up_total", Unit::Count, "Outcomes that will not be recorded."),
    (Counter, "idempotency_overloaded_total", Unit::Count, "Calls refused because of a limit of the layer."),
    (Counter, "idempotency_rejected_total", Unit::Count, "Refused calls, by the reason that the client got."),
    (Counter, "idempotency_reruns_total", Unit::Count, "Further attempts at calls whose transaction lost."),
    (Counter, "idempotency_settle_failures_total", Unit::Count, "Attempts to record an outcome that failed."),
    (
        Counter,
        "idempotency_shared_statement_failures_total",
        Unit::Count,
        "Statements for several calls that were refused, and repeated one by one.",
    ),
    (Counter, "idempotency_store_errors_total", Unit::Count, "Calls refused because of an error of the store."),
    (Counter, "idempotency_swept_total", Unit::Count, "Expired records that were deleted."),
    (
        Counter,
        "idempotency_transactions_refused_total",
        Unit::Count,
        "Transactions that found no free connection in time.",
    ),
    (
        Counter,
        "idempotency_unprotected_keys_total",
        Unit::Count,
        "Calls with a key to procedures that are not opted in.",
    ),
    (Counter, "idempotency_unprotected_total", Unit::Count, "Calls with a key that ran unprotected."),
    (Counter, "idempotency_withheld_replays_total", Unit::Count, "Replays that the application's hooks did not give."),
    (
        Gauge,
        "idempotency_handlers_left",
        Unit::Count,
        "Handlers that took too long and still run, because they block their threads.",
    ),
    (Gauge, "idempotency_in_flight", Unit::Count, "Calls in flight."),
    (Gauge, "idempotency_in_flight_limit", Unit::Count, "Calls that may be in flight."),
    (Gauge, "idempotency_outcomes_waiting", Unit::Count, "Outcomes that are being recorded in the background."),
    (Gauge, "idempotency_reserved", Unit::Count, "Calls that hold their key."),
    (Gauge, "idempotency_unknown", Unit::Count, "Keys in the store whose lease ended without an outcome."),
    (Gauge, "idempotency_waiting", Unit::Count, "Calls that wait for the call that holds their key."),
    (Gauge, "idempotency_waiting_bytes", Unit::Bytes, "Bytes of the request messages of waiting calls."),
    (Gauge, "idempotency_watching", Unit::Count, "Requests that wait for the end of a call."),
    (Histogram, "idempotency_claim_seconds", Unit::Seconds, "Time until the store has answered a claim."),
    (Histogram, "idempotency_handler_seconds", Unit::Seconds, "Time of the handlers of calls with a key."),
    (
        Histogram,
        "idempotency_record_seconds",
        Unit::Seconds,
        "Time until an outcome is recorded, or a first attempt has failed.",
    ),
    (Histogram, "idempotency_statement_calls", Unit::Count, "Calls that a statement of the store does together."),
    (
        Histogram,
        "idempotency_wait_seconds",
        Unit::Seconds,
        "Time that a call has waited for the call that holds its key.",
    ),
];

/// Describes all metrics to the recorder that is installed; nothing without one.
pub(crate) fn describe() {
    for (kind, name, unit, description) in METRICS {
        with_recorder(|recorder| match kind {
            Counter => recorder.describe_counter(name.into(), Some(unit), description.into()),
            Gauge => recorder.describe_gauge(name.into(), Some(unit), description.into()),
            Histogram => recorder.describe_histogram(name.into(), Some(unit), description.into()),
        });
    }
}
