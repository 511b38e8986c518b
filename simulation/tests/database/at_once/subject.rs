//! A database that is tested: [`Subject`].

use std::time::Duration;

use tokio::time::Instant;
use tonic_idempotency::{
    KeyId, OwnerId,
    status::{OutboxStatus, Resource},
    store::{Claim, SqlStore, driver::ConnectionPool, memory_transitions::Record},
};

use super::counted::{Counted, Counts};

/// The stores of several servers on one database, and what else is done there.
pub(super) trait Subject {
    type Pool: ConnectionPool;
    /// A transaction that has locked the row of a key; without a row, it has inserted one.
    type Hold;

    /// Whether statements fail although nothing hinders them for long.
    const FAILS: bool;

    fn servers(&self) -> &Servers<Self::Pool>;

    /// Returns what is stored of a key.
    async fn row(&self, owner: OwnerId, key: KeyId) -> Option<StoredRow>;

    /// Locks the row of a key; `None` if all that can are at work.
    async fn hold(&self, owner: OwnerId, key: KeyId) -> Option<Self::Hold>;

    /// Returns how many sessions wait for this transaction, or for one that waits for it.
    async fn waiting(&self, hold: &Self::Hold) -> usize;

    /// Rolls the transaction back.
    async fn let_go(&self, hold: Self::Hold);

    /// Runs the statement of a server with the Go interceptor. Returns whether it has changed a row; `None` if it has failed.
    async fn run_as_go(&self, claim: &Claim, statement: GoStatement) -> Option<bool>;

    /// Returns how many rows have expired.
    async fn expired(&self) -> u64;
}

/// The stores of several servers, and the database's contents beside their records.
pub(super) struct Servers<P: ConnectionPool> {
    pub(super) stores: Vec<SqlStore<Counted<P>>>,
    pub(super) counts: Counts,
    /// Resources that calls may have created, with their statuses.
    pub(super) resources: Vec<(Resource, Option<OutboxStatus>)>,
}

/// A statement of the Go interceptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GoStatement {
    Complete,
    Delete,
    Reserve,
}

/// A row, whose times are by the clock that shows `now`.
#[derive(Clone, Debug)]
pub(super) struct StoredRow {
    pub(super) record: Record,
    /// Whether the Go interceptor has made it, and no other call has taken it over.
    pub(super) is_foreign: bool,
    pub(super) now: Instant,
}

impl StoredRow {
    /// Describes the row, with times rounded to half hours.
    pub(super) fn describe(&self) -> String {
        let Self { record, is_foreign, now } = self;
        let token = if *is_foreign { "Go".to_owned() } else { format!("{:.4}", record.token) };
        let lease = match &record.outcome {
            None => record.lease_expires.map(|it| halves(it.saturating_duration_since(*now))),
            // Of no meaning any more.
            Some(_) => None,
        };
        let expires = halves(record.expires.saturating_duration_since(*now));
        let request = [Some(record.request.canonical()), record.request.as_arrived()];
        let request = request.map(|hash| hash.map(|hash| hash.as_bytes()[0]));
        let Record { procedure, attempts, unknown, outcome, .. } = record;
        let completed = record.completed.is_some();
        format!("{token} {procedure} {request:?} ×{attempts} {lease:?} {expires} {unknown} {completed} {outcome:?}")
    }
}

pub(super) fn halves(time: Duration) -> u64 {
    (time.as_secs() + 900) / 1800
}
