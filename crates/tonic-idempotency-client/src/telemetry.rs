//! Metrics and log lines. Metrics go through the `metrics` facade: install its recorder before the layer is built.
//!
//! | counter | labels | counts |
//! |---|---|---|
//! | `idempotency_client_operations_total` | `procedure`, `outcome` | calls by how they ended: `answered`, `failed`, `unresolved` |
//! | `idempotency_client_attempts_total` | `procedure` | their attempts. Less the operations, these are the retries |
//! | `idempotency_client_budget_refusals_total` | `procedure` | operations that had no further attempt because all calls together had used theirs up |
//! | `idempotency_client_resumed_total` | `procedure`, `outcome` | entries of a journal that were sent again, or not any more: `answered`, `expired`, `failed`, `unresolved` |
//!
//! | gauge | shows |
//! |---|---|
//! | `idempotency_client_journal_entries` | the entries of a journal. With several in a process, of the one that changed last |
//! | `idempotency_client_journal_oldest_seconds` | the age of a journal's oldest entry, when an entry was last added, sent or removed; 0 if there is none |
//!
//! Each operation that needed more than one attempt has a line in the log: at the level `INFO` if it has ended, at `WARN` if its outcome is
//! unknown.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use metrics::{Counter, Gauge, counter, gauge};
use tonic::Code;

/// The counters and log lines of one procedure.
#[derive(Debug)]
pub(crate) struct Telemetry {
    procedure: String,
    answered: Counter,
    attempts: Counter,
    budget_refusals: Counter,
    failed: Counter,
    unresolved: Counter,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Answered,
    Failed,
    Unresolved(Code),
}

impl Telemetry {
    pub(crate) fn new(procedure: &str) -> Self {
        let of = |outcome: &'static str| counter!("idempotency_client_operations_total", "procedure" => procedure.to_owned(), "outcome" => outcome);
        Self {
            procedure: procedure.to_owned(),
            answered: of("answered"),
            attempts: counter!("idempotency_client_attempts_total", "procedure" => procedure.to_owned()),
            budget_refusals: counter!("idempotency_client_budget_refusals_total", "procedure" => procedure.to_owned()),
            failed: of("failed"),
            unresolved: of("unresolved"),
        }
    }

    pub(crate) fn refused_by_budget(&self) {
        self.budget_refusals.increment(1);
    }

    /// Notes the end of an operation.
    pub(crate) fn ended(&self, end: End, attempts: u32, took: Duration, key: Option<&str>) {
        self.attempts.increment(attempts.into());
        let procedure = &*self.procedure;
        match end {
            End::Answered => self.answered.increment(1),
            End::Failed => self.failed.increment(1),
            End::Unresolved(code) => {
                self.unresolved.increment(1);
                if attempts > 1 {
                    tracing::warn!(
                        procedure,
                        key,
                        attempts,
                        ?took,
                        ?code,
                        "it is not known what became of an operation"
                    );
                }
                return;
            }
        }
        if attempts > 1 {
            let answered = matches!(end, End::Answered);
            tracing::info!(procedure, key, attempts, ?took, answered, "an operation needed several attempts");
        }
    }
}

/// The gauges of a journal.
pub(crate) struct JournalGauges {
    entries: Gauge,
    oldest: Gauge,
}

impl JournalGauges {
    /// Shows the number of entries, and when the oldest was written.
    pub(crate) fn set(&self, entries: usize, oldest: Option<SystemTime>) {
        let age = oldest.and_then(|written| SystemTime::now().duration_since(written).ok()).unwrap_or_default();
        self.entries.set(u32::try_from(entries).unwrap_or(u32::MAX));
        self.oldest.set(age.as_secs_f64());
    }
}

impl Default for JournalGauges {
    fn default() -> Self {
        let (entries, oldest) =
            (gauge!("idempotency_client_journal_entries"), gauge!("idempotency_client_journal_oldest_seconds"));
        Self { entries, oldest }
    }
}

impl fmt::Debug for JournalGauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalGauges").finish_non_exhaustive()
    }
}

/// Counts an entry of a journal that was sent again, or not any more.
pub(crate) fn resumed(procedure: &str, outcome: &'static str) {
    counter!("idempotency_client_resumed_total", "procedure" => procedure.to_owned(), "outcome" => outcome)
        .increment(1);
}
